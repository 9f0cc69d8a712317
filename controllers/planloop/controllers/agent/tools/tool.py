"""Tools of agents: a typed function, the schema of its arguments, its effect class, and the subjects of its calls.

A tool returns a settlement: the one result of the call, and the changes that are appended with it. A tool whose whole
effect is in that append is a plain function (`is_instant`). It needs no recorded intent (law 5), because its effect
cannot exist without its record.
"""

from __future__ import annotations

import inspect
import posixpath
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Any, Final, Protocol, TypeAlias, TypeVar, get_args, get_type_hints, runtime_checkable
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.services import AgentServices
from planloop.controllers.agent.tools.errors import ToolDenied
from planloop.controllers.agent.tools.workspace import Workspace
from planloop.reconciler.effects.processes import ProcessExit
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.patch import Author
from planloop.schemas.log.record import Change
from planloop.schemas.objects.call import CallResult, CallSpec, CallState, EffectClass, given_arguments
from planloop.schemas.objects.lock import LockMode
from planloop.schemas.resource import Resource
from planloop.schemas.shell.commands import UNDECIDED, commands_in_container, find_commands, simple_commands

# The JSON Schema and the validation are built from the signature of the tool on first use. Only this module of the
# package uses pydantic for it; errors in arguments become text for the caller.

CONTEXT_PARAMETER: Final = "context"
_NULL: Final[JsonObject] = {"type": "null"}
_NO_INFORMATION: Final[Mapping[str, tuple[Json, ...]]] = {
    "default": (None, "", False, 0, []),
    "additionalProperties": (True, False),
    "minimum": (0, 1),
}
"""Values that a model need not read: optional arguments are empty by default, and `validate_arguments` rejects unknown
and negative ones. `additionalProperties: false` matters only in strict mode, which needs all arguments `required`."""

_UNREAD_WORDS: Final = frozenset({"title", "minLength", "maxLength", "minItems", "maxItems", "exclusiveMinimum"})
"""Keywords that a model need not read either: nearly no call exceeds these bounds, and the error for one names them."""


class InvalidToolArguments(ValueError):
    """The arguments do not match the tool's parameters. The message lists every error."""


@cache
def parameters_model(function: Callable[..., Any]) -> type[BaseModel]:
    """Return the pydantic model of the parameters of `function`, without its context, with `**fields` expanded."""
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if name == CONTEXT_PARAMETER:
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            (table,) = get_args(parameter.annotation)
            fields |= {key: (kind, None) for key, kind in get_type_hints(table, include_extras=True).items()}
        else:
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            fields[name] = (parameter.annotation, default)
    return create_model(function.__name__, __config__=ConfigDict(extra="forbid", frozen=True), **fields)


def arguments_schema(function: Callable[..., Any]) -> JsonObject:
    """The JSON Schema of the arguments, as short as possible: a model reads it in every request.

    An argument that is not in `required` is optional. null counts as omitted and is not offered.
    """
    return _brief(parameters_model(function).model_json_schema())


def _brief(schema: JsonObject) -> JsonObject:
    kept = {word: value for word, value in schema.items() if not _is_noise(word, value)}
    branches = [_brief(each) for each in kept.pop("anyOf", ()) if each != _NULL]
    if len(branches) == 1:
        kept = branches[0] | kept
    elif branches:
        kept["anyOf"] = branches
    for word in ("properties", "$defs"):
        if word in kept:
            kept[word] = {name: _brief(each) for name, each in kept[word].items()}
    for word in ("items", "additionalProperties"):
        if word in kept:
            kept[word] = _brief(kept[word])
    return kept


def _is_noise(word: str, value: Json) -> bool:
    return word in _UNREAD_WORDS or any(
        value == each and type(value) is type(each) for each in _NO_INFORMATION.get(word, ())
    )


def validate_arguments(function: Callable[..., Any], arguments: Json) -> dict[str, Any]:
    """Return `arguments` as keyword arguments of `function`, with defaults. Raises InvalidToolArguments."""
    arguments = given_arguments(arguments)
    if not isinstance(arguments, dict):
        raise InvalidToolArguments(
            f"arguments must be a map; known keys: {', '.join(parameters_model(function).model_fields) or 'none'}"
        )
    try:
        model = parameters_model(function).__pydantic_validator__.validate_python(arguments)
    except ValidationError as error:
        raise InvalidToolArguments("; ".join(_describe(each) for each in error.errors(include_url=False))) from None
    # Functions expect omitted `Unpack` fields to be absent; for parameters with the default None both are the same.
    return {name: value for name, value in model.__dict__.items() if value is not None}


def normalize_arguments(function: Callable[..., Any], arguments: JsonObject) -> JsonObject:
    """Return `arguments` with canonical names and types: aliases resolved, `"5"` as 5, null omitted.

    Invalid arguments are returned unchanged.
    """
    try:
        model = parameters_model(function).__pydantic_validator__.validate_python(arguments)
    except ValidationError:
        return arguments
    found = model.model_dump(exclude_unset=True, exclude_none=True)
    return {name: _as_written(arguments.get(name), value) for name, value in found.items()}


def _as_written(written: Json, taken: Json) -> Json:
    """Return the value as written if it equals the converted one: 5 stays 5 for a parameter of type float."""
    is_same = written == taken and isinstance(written, bool) is isinstance(taken, bool)
    return written if is_same else taken


def _describe(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"]) or "arguments"
    return f"{where}: {error['msg'][:1].lower()}{error['msg'][1:]}"


# Denials are matched with the wide subjects of a call: everything that it may touch. Allowances are matched with its
# exact subjects: only what it certainly touches, None if that is unknown. Paths are checked against allowances when
# they are used, after links are resolved (`planloop.controllers.agent.tools.workspace`).


def any_subject(_: JsonObject) -> tuple[str, ...]:
    """Wide subjects for tools without subjects: a denial of some calls denies all."""
    return (UNDECIDED,)


def no_exact_subject(_: JsonObject) -> None:
    """Exact subjects for the same tools: an allowance of some calls allows none."""


def path_subject(arguments: JsonObject) -> tuple[str, ...]:
    """The path as given. It is checked again, with links resolved, when it is used."""
    return (str(arguments.get("path", ".")),)


def path_subjects(arguments: JsonObject) -> tuple[str, ...]:
    """Several paths as given."""
    given = arguments.get("paths", ())
    return tuple(map(str, given)) if isinstance(given, list) else (str(given),)


def command_subjects(arguments: JsonObject) -> tuple[str, ...]:
    """Every command that may be in a shell line."""
    return find_commands(str(arguments.get("command", "")))


def exact_command_subjects(arguments: JsonObject) -> tuple[str, ...] | None:
    """The simple commands of a shell line."""
    return simple_commands(str(arguments.get("command", "")))


def container_command_subjects(arguments: JsonObject) -> tuple[str, ...]:
    """Every command that may be in a shell line, prefixed with its container: `sut: npm test`."""
    return commands_in_container(str(arguments.get("name", "")), command_subjects(arguments))


def exact_container_command_subjects(arguments: JsonObject) -> tuple[str, ...] | None:
    """The simple commands of a shell line, prefixed with their container."""
    found = exact_command_subjects(arguments)
    return None if found is None else commands_in_container(str(arguments.get("name", "")), found)


def image_subject(arguments: JsonObject) -> tuple[str, ...]:
    """The image of a container."""
    return (str(arguments.get("image", "")),)


def container_subject(arguments: JsonObject) -> tuple[str, ...]:
    """The name of a container."""
    return (str(arguments.get("name", "")),)


def exact_text_subjects(arguments: JsonObject) -> tuple[str, ...] | None:
    """Every text in the arguments of a tool server's tool, whose interpretation is unknown.

    None if there is no text, or if one could be a path or URL that does not point where it seems to.
    """
    found = tuple(_texts(list(arguments.values())))
    return found if found and all(map(_is_plain, found)) else None


def exact_url_subject(arguments: JsonObject) -> tuple[str, ...] | None:
    """The URL that is fetched."""
    url = str(arguments.get("url", ""))
    return (url,) if _is_plain(url) else None


def url_subjects(arguments: JsonObject) -> tuple[str, ...]:
    """The URL, its host, and the host with the path, because a denial may name any of them."""
    url = str(arguments.get("url", ""))
    try:
        parts = urlsplit(url)
    except ValueError:
        return (url, UNDECIDED)
    host = parts.hostname or ""
    return (url, host, f"{host}{parts.path}", f"{parts.scheme}://{host}{parts.path}")


def all_subjects(arguments: JsonObject) -> tuple[str, ...]:
    """Every text in the arguments, and every path that each text may name, for matching denials.

    Servers interpret paths in different ways, so `x/../.git/a`, `/abs/.git/a`, `file:///abs/.git/a` and `%2egit/a` also
    yield `.git/a`. Covering too much is safe. Links among the server's own files are not resolved.
    """
    found: dict[str, None] = {}
    for text in _texts(list(arguments.values())):
        found[text] = None
        if len(text) <= limits.PATH_CHARS_MAX:
            found.update(dict.fromkeys(_paths_in(text)))
    return tuple(found)


def _texts(values: list[Json]) -> Iterator[str]:
    """Yield the texts in `values`, including those in nested lists and maps, and the keys of maps."""
    waiting = list(reversed(values))
    while waiting:
        value = waiting.pop()
        match value:
            case str():
                yield value
            case dict():
                waiting.extend([*value.values(), *value])
            case list():
                waiting.extend(value)


def _paths_in(text: str) -> Iterator[str]:
    plain = unquote(text)
    if "://" in plain:
        plain = _path_of_url(plain)
    names = [name for name in posixpath.normpath(plain.strip().replace("\\", "/")).split("/") if name]
    for index in range(len(names)):
        yield "/".join(names[index:])


def _path_of_url(text: str) -> str:
    try:
        return urlsplit(text).path
    except ValueError:
        return text


def _is_plain(text: str) -> bool:
    """Whether every program reads the text in the same way: no `..`, no escapes, no user before a host."""
    if any(sign in text for sign in "\\%\0\n\r\t") or text != text.strip():
        return False
    scheme, mark, rest = text.partition("://")
    names = (rest if mark else text).split("?", 1)[0].split("/")
    if mark and (scheme not in ("http", "https") or "@" in names[0]):
        return False
    return not {".", ".."}.intersection(names) and "" not in names[1:-1]


@frozen
class Settlement:
    """The end of a call. `agent` is merged into the agent's status and `turn` into its open turn, with the result."""

    result: CallResult
    changes: tuple[Change, ...] = ()
    agent: JsonObject = field(default_factory=dict)
    turn: JsonObject = field(default_factory=dict)
    data: JsonObject = field(default_factory=dict)


@frozen
class PendingCall:
    """A call that waits (`state` is one of the Awaiting states) until `Tool.resolve` ends it.

    `Authorized`, returned by `resolve` only, restarts the call with a new intent: the function reads the result of the
    wait from the call object. `changes` are appended when the wait starts. `call` is merged into the status of the call
    object, for `resolve`. `why` and `unblocks` are for people. At `due_at`, in seconds since 1970, the call is checked
    even if nothing has changed.
    """

    state: CallState
    changes: tuple[Change, ...] = ()
    call: JsonObject = field(default_factory=dict)
    why: str = ""
    unblocks: tuple[str, ...] = ()
    due_at: float | None = None


@frozen
class ToolContext:
    """What a tool may use: the services, the agent as observed, the call, and the workspace.

    `space` is the workspace, or the reason why there is none: tools without files still work. `time_s` limits the
    duration of the effect, in seconds, if a mixin of the agent does.
    """

    services: AgentServices
    seen: ObservedAgent
    call: Resource
    spec: CallSpec
    space: Workspace | ToolDenied
    time_s: float | None = None

    @property
    def workspace(self) -> Workspace:
        """The workspace. Raises ToolDenied if there is none."""
        if isinstance(self.space, ToolDenied):
            raise ToolDenied(str(self.space))
        return self.space

    @property
    def agent(self) -> str:
        return self.seen.resource.address

    @property
    def author(self) -> Author:
        """The author that changes of this agent are recorded under."""
        return Author("agent", self.agent.partition("/")[2])

    @property
    def task_path(self) -> tuple[str, ...]:
        """The ids of the tasks from the root to the agent's task; empty for the root."""
        path = self.seen.spec.task.partition("/")[2]
        return () if path == "." else tuple(path.split("/"))


class RegistryObjects(Protocol):
    """The current objects of a plan, as far as a tool registry needs them."""

    def get(self, address: str) -> Resource | None: ...

    def list(self, kind: str) -> Sequence[Resource]: ...


SubjectsFunction: TypeAlias = Callable[[JsonObject], tuple[str, ...]]
ExactSubjects: TypeAlias = Callable[[JsonObject], tuple[str, ...] | None]
CallEnding: TypeAlias = Settlement | PendingCall
ToolFunction: TypeAlias = Callable[..., CallEnding | Awaitable[CallEnding]]
LocksFunction: TypeAlias = Callable[[ToolContext], Mapping[str, LockMode]]
"""The paths that a call will write, relative to the plan's folder. They are locked before the call starts."""
ResolveFunction: TypeAlias = Callable[[ToolContext], CallEnding | None]
"""The state of a waiting call, computed from the current state at each check: a settlement if it is over, another
`PendingCall` if it takes a further step (its changes must lead to a different answer), None if nothing changed."""


SettleProcess: TypeAlias = Callable[[ToolContext, ProcessExit], Awaitable[Settlement]]
"""Turns the exit of a call's process into a settlement, also for an owner that did not start the process."""


@runtime_checkable
class ExplainsMissing(Protocol):
    """A registry that can explain why a tool is missing."""

    def why_missing(self, name: str) -> str:
        """Return the reason; empty if the tool is unknown."""
        ...


@frozen
class Tool:
    """A tool. `subjects` returns everything a call may touch, for denials such as `shell(rm *)`; `exact` what it
    certainly touches, for allowances such as `shell(git *)`, or None if that is unknown.

    `is_free` tools need no right: an agent can always end and always ask upward. An `is_apart` tool reads nothing from
    the log except its own agent, so earlier steps need not be appended before it starts. A tool whose function may
    return `PendingCall` has a `resolve`. A tool of a server has its JSON Schema in `parameters`, its description in
    `doc`, and a function that takes `arguments`, a map that the server checks. Its `digest` changes with its
    description; `withheld` is the reason why it cannot be used now.
    """

    name: str
    function: ToolFunction
    effect: EffectClass
    subjects: SubjectsFunction = any_subject
    is_free: bool = False
    resolve: ResolveFunction | None = None
    parameters: JsonObject | None = field(default=None, compare=False)
    doc: str = ""
    digest: str = ""
    withheld: str = ""
    exact: ExactSubjects = no_exact_subject
    locks: LocksFunction | None = None
    ended: SettleProcess | None = None
    is_apart: bool = False

    @property
    def is_process(self) -> bool:
        """Whether its effect is one process, which survives a crash of the owner."""
        return self.ended is not None

    @property
    def is_instant(self) -> bool:
        return not inspect.iscoroutinefunction(self.function)

    def given(self, arguments: Json) -> dict[str, Any]:
        """Return `arguments` as keyword arguments of the function. Raises InvalidToolArguments."""
        if self.parameters is None:
            return validate_arguments(self.function, arguments)
        if not isinstance(arguments, dict):
            raise InvalidToolArguments("arguments must be a map")
        return {"arguments": arguments}

    def plain(self, arguments: JsonObject) -> JsonObject:
        """Return `arguments` with the names and types of the function's parameters (`normalize_arguments`)."""
        return arguments if self.parameters is not None else normalize_arguments(self.function, arguments)

    @property
    def description(self) -> str:
        """The text for models: `doc`, else the docstring of the function on one line."""
        return self.doc or " ".join((self.function.__doc__ or "").split())


def success(text: str, value: Json = None) -> CallResult:
    """Return a successful result with this text and value."""
    return CallResult(CallState.SUCCEEDED, text, value=value)


def failure(reason: str, text: str) -> CallResult:
    """Return a failed result with its one-word reason."""
    return CallResult(CallState.FAILED, text, reason)


CachedTools = TypeVar("CachedTools")


class ToolCache(Mapping[str, Tool]):
    """The current `tools`, cached while the plan and its tool servers are unchanged."""

    def __init__(self, tools: Mapping[str, Tool], view: Callable[[], View]) -> None:
        self._tools = tools
        self._view = view
        self._rev = -1
        self._made_from: list[Resource] = []
        self._now: dict[str, Tool] = {}
        self._made: dict[int, tuple[object, dict[str, Tool], tuple[str, ...]]] = {}

    def __getitem__(self, name: str) -> Tool:
        found = self._fresh().get(name)
        # A withheld tool is not listed; calls of it are refused with the reason.
        return self._tools[name] if found is None else found

    def get(self, name: str, default: object = None, /) -> Tool | None:  # type: ignore[override]
        """Return the tool, or None. Faster than the inherited method, which raises and catches an error."""
        del default
        found = self._fresh().get(name)
        return self._tools.get(name) if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._fresh())

    def __len__(self) -> int:
        return len(self._fresh())

    def why_missing(self, name: str) -> str:
        """See `ExplainsMissing`."""
        return self._tools.why_missing(name) if isinstance(self._tools, ExplainsMissing) else ""

    def kept_for(self, one: CachedTools, make: Callable[[CachedTools], tuple[str, ...]]) -> tuple[str, ...]:
        """Return `make(one)`, cached until these tools or `one` change."""
        now = self._fresh()
        found = self._made.get(id(one))
        if found is None or found[0] is not one or found[1] is not now:
            if len(self._made) >= limits.TOOLSETS_KEPT_MAX:
                self._made.clear()
            found = self._made[id(one)] = (one, now, make(one))
        return found[2]

    def _fresh(self) -> dict[str, Tool]:
        view = self._view()
        if view.rev == self._rev:
            return self._now
        self._rev = view.rev
        made_from = [*view.list("mcp"), *view.list("plan")]
        if len(made_from) != len(self._made_from) or any(
            new is not old for new, old in zip(made_from, self._made_from, strict=True)
        ):
            self._made_from = made_from
            self._now = {name: self._tools[name] for name in self._tools}
        return self._now
