"""What a tool is: a typed function, the schema of its arguments, its effect class, and the subjects of its calls.

A tool returns a settlement: the call's one result and the changes that take effect with it, in one append. A tool whose
whole effect is in that append is a plain function (`is_instant`) and needs no intent first (law 5): it cannot have
happened without its record.
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

# JSON Schema and validation come from the signature of the tool, on first use. This is the only adapter to pydantic
# in this package; errors in arguments become text for the caller.

CONTEXT_PARAMETER: Final = "context"
_NULL: Final[JsonObject] = {"type": "null"}
_OPEN: Final = ("additionalProperties", True)


class InvalidToolArguments(ValueError):
    """The arguments do not fit the tool; the message lists every fault."""


@cache
def parameters_model(function: Callable[..., Any]) -> type[BaseModel]:
    """The model of the parameters of `function`, its context left out, `**fields: Unpack[…]` opened up."""
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
    """The JSON Schema of the arguments, without what says nothing: a model reads all of it in every request.

    That an argument may be left out is told by `required`; null is taken for left out, and is not offered.
    """
    return _brief(parameters_model(function).model_json_schema())


def _brief(schema: JsonObject) -> JsonObject:
    kept = {word: value for word, value in schema.items() if not _says_nothing(word, value)}
    branches = [_brief(each) for each in kept.pop("anyOf", ()) if each != _NULL]
    if len(branches) == 1:
        kept = branches[0] | kept
    elif branches:
        kept["anyOf"] = branches
    for word in ("properties", "$defs"):
        if word in kept:
            kept[word] = {name: _brief(each) for name, each in kept[word].items()}
    return kept | ({"items": _brief(kept["items"])} if "items" in kept else {})


def _says_nothing(word: str, value: Json) -> bool:
    return word == "title" or (word == "default" and value in (None, "")) or (word, value) == _OPEN


def validate_arguments(function: Callable[..., Any], arguments: Json) -> dict[str, Any]:
    """`arguments` as keyword arguments of `function`, with defaults. Raises InvalidToolArguments."""
    arguments = given_arguments(arguments)
    if not isinstance(arguments, dict):
        raise InvalidToolArguments(
            f"arguments are a map of {', '.join(parameters_model(function).model_fields) or 'nothing'}"
        )
    try:
        model = parameters_model(function).__pydantic_validator__.validate_python(arguments)
    except ValidationError as error:
        raise InvalidToolArguments("; ".join(_words(fault) for fault in error.errors(include_url=False))) from None
    # Fields of `Unpack` that were not given are left out; parameters with a default of None bear both.
    return {name: value for name, value in model.__dict__.items() if value is not None}


def normalize_arguments(function: Callable[..., Any], arguments: JsonObject) -> JsonObject:
    """`arguments` as `function` takes them: each under its first name and of its kind, `"5"` as 5, null left out.

    What does not fit is as it was written.
    """
    try:
        model = parameters_model(function).__pydantic_validator__.validate_python(arguments)
    except ValidationError:
        return arguments
    found = model.model_dump(exclude_unset=True, exclude_none=True)
    return {name: _as_written(arguments.get(name), value) for name, value in found.items()}


def _as_written(written: Json, taken: Json) -> Json:
    """The value that was written where it is the same one: 5 stays 5 for a function that takes 5.0."""
    is_same = written == taken and isinstance(written, bool) is isinstance(taken, bool)
    return written if is_same else taken


def _words(fault: Any) -> str:
    where = ".".join(str(part) for part in fault["loc"]) or "arguments"
    return f"{where}: {fault['msg'][:1].lower()}{fault['msg'][1:]}"


# Rights match denials with a wide reading of a call, everything that it may touch, and allowances with a strict one,
# only what it surely touches; None if that is unknown. The strict reading of paths happens where they are used, after
# links (`planloop.controllers.agent.tools.workspace`).


def any_subject(_: JsonObject) -> tuple[str, ...]:
    """Wide, for tools that patterns name without a subject: a denial of some calls covers all."""
    return (UNDECIDED,)


def no_exact_subject(_: JsonObject) -> None:
    """Strict, for the same tools: an allowance of some of their calls allows none."""


def path_subject(arguments: JsonObject) -> tuple[str, ...]:
    """The path as it was given; where it leads is looked at again when it is used."""
    return (str(arguments.get("path", ".")),)


def path_subjects(arguments: JsonObject) -> tuple[str, ...]:
    """Several paths as they were given."""
    given = arguments.get("paths", ())
    return tuple(map(str, given)) if isinstance(given, list) else (str(given),)


def command_subjects(arguments: JsonObject) -> tuple[str, ...]:
    """Every command that may be in a shell line."""
    return find_commands(str(arguments.get("command", "")))


def exact_command_subjects(arguments: JsonObject) -> tuple[str, ...] | None:
    """The simple commands of a shell line."""
    return simple_commands(str(arguments.get("command", "")))


def container_command_subjects(arguments: JsonObject) -> tuple[str, ...]:
    """Every command that may be in a shell line, each after the container that it is run in: `sut: npm test`."""
    return commands_in_container(str(arguments.get("name", "")), command_subjects(arguments))


def exact_container_command_subjects(arguments: JsonObject) -> tuple[str, ...] | None:
    """The simple commands of such a line."""
    found = exact_command_subjects(arguments)
    return None if found is None else commands_in_container(str(arguments.get("name", "")), found)


def image_subject(arguments: JsonObject) -> tuple[str, ...]:
    """The image of a container."""
    return (str(arguments.get("image", "")),)


def container_subject(arguments: JsonObject) -> tuple[str, ...]:
    """A container by its name."""
    return (str(arguments.get("name", "")),)


def exact_text_subjects(arguments: JsonObject) -> tuple[str, ...] | None:
    """Every text in the arguments of a tool that reads them in a way of its own.

    None when one of them could be a path or a URL that leads elsewhere than it seems to, or when there is none.
    """
    found = tuple(_texts(list(arguments.values())))
    return found if found and all(map(_is_plain, found)) else None


def exact_url_subject(arguments: JsonObject) -> tuple[str, ...] | None:
    """The URL that is fetched."""
    url = str(arguments.get("url", ""))
    return (url,) if _is_plain(url) else None


def url_subjects(arguments: JsonObject) -> tuple[str, ...]:
    """The URL, and its host alone and with its path, in case a denial names them."""
    url = str(arguments.get("url", ""))
    try:
        parts = urlsplit(url)
    except ValueError:
        return (url, UNDECIDED)
    host = parts.hostname or ""
    return (url, host, f"{host}{parts.path}", f"{parts.scheme}://{host}{parts.path}")


def all_subjects(arguments: JsonObject) -> tuple[str, ...]:
    """Every text in the arguments, and each as the paths that it may name, for denials to be matched against.

    A server reads a path in its own way, so `x/../.git/a`, `/abs/.git/a`, `file:///abs/.git/a` and `%2egit/a` are all
    taken for `.git/a` as well. Covering too much is safe. Links in the server's own files are beyond us.
    """
    found: dict[str, None] = {}
    for text in _texts(list(arguments.values())):
        found[text] = None
        if len(text) <= limits.PATH_CHARS_MAX:
            found.update(dict.fromkeys(_paths_in(text)))
    return tuple(found)


def _texts(values: list[Json]) -> Iterator[str]:
    """The texts in `values`, those in nested lists and maps and the keys of maps too."""
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
    """Whether the text means the same to whoever reads it: no steps back, no second spelling, nobody before a host."""
    if any(sign in text for sign in "\\%\0\n\r\t") or text != text.strip():
        return False
    scheme, mark, rest = text.partition("://")
    names = (rest if mark else text).split("?", 1)[0].split("/")
    if mark and (scheme not in ("http", "https") or "@" in names[0]):
        return False
    return not {".", ".."}.intersection(names) and "" not in names[1:-1]


@frozen
class Settlement:
    """How a call ended. `agent` is merged into the agent's status, `turn` into its open turn, with the result."""

    result: CallResult
    changes: tuple[Change, ...] = ()
    agent: JsonObject = field(default_factory=dict)
    turn: JsonObject = field(default_factory=dict)
    data: JsonObject = field(default_factory=dict)


@frozen
class PendingCall:
    """The call waits (`state` is one of the Awaiting states) until `Tool.resolve` finds that it is over.

    `Authorized`, from `resolve` only, starts it again with a new intent: the function reads the result of the wait from
    the call object. `changes` take effect with the wait, `call` is merged into the call object's status for `resolve`
    to read, `why` and `unblocks` are for people. At `due_at`, in seconds since 1970, it is checked even if nothing has
    changed.
    """

    state: CallState
    changes: tuple[Change, ...] = ()
    call: JsonObject = field(default_factory=dict)
    why: str = ""
    unblocks: tuple[str, ...] = ()
    due_at: float | None = None


@frozen
class ToolContext:
    """What a tool may use: the services, the agent as observed, the call, and the files that it may touch.

    `space` are these files, or the reason why there is no working folder: tools that need none still work. `time_s`
    limits the effect if the agent's mixins do.
    """

    world: AgentServices
    seen: ObservedAgent
    call: Resource
    spec: CallSpec
    space: Workspace | ToolDenied
    time_s: float | None = None

    @property
    def workspace(self) -> Workspace:
        """Raises ToolDenied."""
        if isinstance(self.space, ToolDenied):
            raise ToolDenied(str(self.space))
        return self.space

    @property
    def agent(self) -> str:
        return self.seen.resource.address

    @property
    def author(self) -> Author:
        """The author of changes by this agent."""
        return Author("agent", self.agent.partition("/")[2])

    @property
    def task_path(self) -> tuple[str, ...]:
        """The ids on the way to the agent's task; empty for the root."""
        path = self.seen.spec.task.partition("/")[2]
        return () if path == "." else tuple(path.split("/"))


class RegistryObjects(Protocol):
    """What a registry is made from: the objects of a plan as of now."""

    def get(self, address: str) -> Resource | None: ...

    def list(self, kind: str) -> Sequence[Resource]: ...


SubjectsFunction: TypeAlias = Callable[[JsonObject], tuple[str, ...]]
ExactSubjects: TypeAlias = Callable[[JsonObject], tuple[str, ...] | None]
CallEnding: TypeAlias = Settlement | PendingCall
ToolFunction: TypeAlias = Callable[..., CallEnding | Awaitable[CallEnding]]
LocksFunction: TypeAlias = Callable[[ToolContext], Mapping[str, LockMode]]
"""The paths that a call is about to write, relative to the plan's folder: they are locked for it before it starts."""
ResolveFunction: TypeAlias = Callable[[ToolContext], CallEnding | None]
"""What has become of a waiting call, from levels alone and at every look: over (a settlement), further (another
`PendingCall`, whose changes must bring about a state in which the answer is a different one), or None: as before."""


SettleProcess: TypeAlias = Callable[[ToolContext, ProcessExit], Awaitable[Settlement]]
"""What the end of a call's process means, also for an owner that did not start it."""


@runtime_checkable
class ExplainsMissing(Protocol):
    """A registry that knows why it has not a tool."""

    def why_missing(self, name: str) -> str:
        """The reason; empty when nothing is known of such a tool."""
        ...


@frozen
class Tool:
    """`subjects` are what a call may be about, for denials such as `shell(rm *)`; `exact` is what it is about and
    nothing else, for allowances such as `shell(git *)`, None where that cannot be told.

    `is_free` tools need no right: an agent can always end, and always ask upward. One that `is_apart` looks at nothing
    in the log but its own agent, so the steps before it need not be there yet. A tool whose function may return
    `PendingCall` has a `resolve`. A tool of a server has its JSON Schema in `parameters`, its description in `doc`, and
    a function that takes `arguments`, a map that the server checks; `digest` tells it from one that describes itself
    otherwise, `withheld` is why nobody may use it for now.
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
        """Whether its effect is one process under the call's operation, which outlives a crash of the owner."""
        return self.ended is not None

    @property
    def is_instant(self) -> bool:
        return not inspect.iscoroutinefunction(self.function)

    def given(self, arguments: Json) -> dict[str, Any]:
        """`arguments` as keyword arguments of the function. Raises InvalidToolArguments."""
        if self.parameters is None:
            return validate_arguments(self.function, arguments)
        if not isinstance(arguments, dict):
            raise InvalidToolArguments("arguments are a map")
        return {"arguments": arguments}

    def plain(self, arguments: JsonObject) -> JsonObject:
        """`arguments` as the function takes them, whatever names and kinds they were written in (`arguments.py`)."""
        return arguments if self.parameters is not None else normalize_arguments(self.function, arguments)

    @property
    def description(self) -> str:
        return self.doc or inspect.cleandoc(self.function.__doc__ or "")


def success(text: str, value: Json = None) -> CallResult:
    """Success, in words."""
    return CallResult(CallState.SUCCEEDED, text, value=value)


def failure(reason: str, text: str) -> CallResult:
    """A failure with its one-word reason."""
    return CallResult(CallState.FAILED, text, reason)


CachedTools = TypeVar("CachedTools")


class ToolCache(Mapping[str, Tool]):
    """`tools`, which depend on the plan and on its servers alone, as of now."""

    def __init__(self, tools: Mapping[str, Tool], view: Callable[[], View]) -> None:
        self._tools = tools
        self._view = view
        self._rev = -1
        self._made_from: list[Resource] = []
        self._now: dict[str, Tool] = {}
        self._made: dict[int, tuple[object, dict[str, Tool], tuple[str, ...]]] = {}

    def __getitem__(self, name: str) -> Tool:
        found = self._fresh().get(name)
        # A withheld tool is in no list; calls of it are refused with the reason.
        return self._tools[name] if found is None else found

    def get(self, name: str, default: object = None, /) -> Tool | None:  # type: ignore[override]
        """The tool, or None: without an error raised and caught for one that there is."""
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
        """What `make` makes of these tools for `one`, made once for as long as both are the same."""
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
