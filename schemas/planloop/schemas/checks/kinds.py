"""Every kind of acceptance check. To add one, add its `CheckKind` to `CHECK_KINDS` and write the function that runs it.

The value says everything that other code needs to know: the fields that a plan may write, their problems beyond types,
the arguments that the runner gets, which runner that is, and how benchmarks grade the check. The compiler,
`plan explain`, the JSON Schema, EDN forms, benchmark suites and admission read it from here. The runner is an async
function in a module of `planloop.controllers.task.checks`; `planloop.controllers.task.checks.run` describes its
arguments and its result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.checks.web_reuse import expand_reuse, reusable_steps
from planloop.schemas.diagnostic import ValueProblem
from planloop.schemas.frozen import frozen
from planloop.schemas.spec.field import (
    ANY,
    COMMAND,
    COUNT,
    DURATION,
    FLAG,
    TEXT,
    TEXTS,
    WORD,
    WORDS,
    EitherType,
    Field,
    FieldTable,
    ListType,
    MapType,
    ScalarType,
    TableType,
)


@frozen
class DeclaredCheck:
    """A check of a plan or a suite after types were checked: `fields` by name, one of them named by the kind.

    `others` are the checks of the same list that have an id, by that id. `has_url`: the address of the program under
    test is known elsewhere, so the check need not state one.
    """

    kind: str
    fields: JsonObject
    timeout_s: float
    others: Iterable[tuple[str, JsonObject]] = ()
    has_url: bool = False

    @property
    def value(self) -> Json:
        """The value of the field that names the kind."""
        return self.fields[self.kind]


def map_arguments(check: DeclaredCheck) -> JsonObject:
    """The fields of a map as written; a command in `sh` becomes `shell` or `argv`. Another value is in `value`."""
    value = check.value
    if not isinstance(value, dict):
        return {"value": value}
    if "sh" not in value:
        return value
    return {name: item for name, item in value.items() if name != "sh"} | command_arguments(value["sh"])


def command_arguments(command: Json) -> JsonObject:
    """The arguments of a command: `shell` for a shell line, `argv` for a program and its arguments."""
    return {"shell": command} if isinstance(command, str) else {"argv": command}


def _no_problems(check: DeclaredCheck) -> Iterator[ValueProblem]:
    del check
    return iter(())


@frozen
class ContainerUse:
    """The container that a check names: at `at` of its value. `needs_health`: it must have a health check."""

    at: tuple[str, ...] = ()
    needs_health: bool = False


@frozen
class CheckKind:
    """One kind of acceptance check.

    field: names the kind; its value has the kind's own fields, if any. `tables` are the tables of those fields.
    options: additional fields that only this kind has.
    runner: `module.function` below `planloop.controllers.task.checks`; empty if this version does not run the kind.
    verdict: `module.function` that judges a command of the check after it exited. Required if the check runs a command
        in the workspace: benchmarks run such a command in a container and judge its output themselves.
    arguments: what the runner gets as `CheckSpec.arguments`. A command must be in `shell` or `argv`, and its container
        in `container`: admission looks for them there. Benchmarks look for a file in `path`, for an address in `url`.
    problems: what is wrong beyond the types of fields, at places relative to the value.
    container: set if the check needs a container of the plan, so that suites do not offer the kind.
    edn_pair: the two members that `(kind a b)` gives in EDN.
    alone: set if the check contacts a program under test over the network: arguments for a benchmark, where no other
        program may answer instead.
    makes_nonces: a benchmark passes the nonces of a case as the argument `nonces`, and the check makes more from them.
    """

    field: Field
    runner: str = ""
    verdict: str = ""
    tables: tuple[FieldTable, ...] = ()
    options: tuple[Field, ...] = ()
    arguments: Callable[[DeclaredCheck], JsonObject] = map_arguments
    problems: Callable[[DeclaredCheck], Iterator[ValueProblem]] = _no_problems
    container: ContainerUse | None = None
    edn_pair: tuple[str, str] | None = None
    alone: JsonObject | None = None
    makes_nonces: bool = False

    @property
    def name(self) -> str:
        return self.field.name

    @property
    def can_run_command(self) -> bool:
        fields = (self.field, *(field for table in self.tables for field in table.fields))
        return any(field.type is COMMAND for field in fields)


_SH: Final = CheckKind(
    Field("sh", COMMAND, "Passes if the command exits with code 0.", "npm test"),
    "command.check_shell",
    "command.judge_command",
    arguments=lambda check: command_arguments(check.value),
)

_REQUIRE_FILE: Final = CheckKind(
    Field(
        "require-file",
        TEXT,
        "Passes if the file exists and is not empty. With `empty: true`, an empty file passes too.",
        "README.md",
        aliases=("require_file",),
    ),
    "files.check_require_file",
    options=(Field("empty", FLAG, "For `require-file`: an empty file passes too.", True, default=False),),
    arguments=lambda check: {"path": check.value, "empty": check.fields.get("empty", False)},
)


def _contains_problems(check: DeclaredCheck) -> Iterator[ValueProblem]:
    try:
        re.compile(check.value.get("pattern", ""))
    except re.error as error:
        hint = "escape literal characters with `\\`"
        yield ValueProblem(("pattern",), "P0223", f"not a regular expression: {error.msg}", hint)


_CONTAINS: Final = CheckKind(
    Field(
        "contains",
        TableType("contains"),
        "Passes if a file contains a text or matches a pattern.",
        {"path": "README.md", "text": "npm start"},
    ),
    "files.check_contains",
    tables=(
        FieldTable(
            "contains",
            "The file, and the `text` or `pattern` that it must contain.",
            (
                Field("path", TEXT, "The file, relative to the task's workspace.", "README.md", aliases=("file",)),
                Field("text", TEXT, "The exact text to find.", "npm start"),
                Field("pattern", TEXT, "A regular expression.", "npm (start|run)"),
            ),
            one_of=(("path",), ("text", "pattern")),
        ),
    ),
    problems=_contains_problems,
    edn_pair=("path", "text"),
)

_JSON: Final = CheckKind(
    Field(
        "json",
        TableType("json"),
        "Passes if a JSON file, or the output of a command, has at least the members of `subset`.",
        {"path": "package.json", "subset": {"private": True}},
    ),
    "files.check_json",
    "files.judge_printed_json",
    tables=(
        FieldTable(
            "json",
            "The source of the JSON, `path` or `sh`, and the members that it must have.",
            (
                Field("path", TEXT, "The file, relative to the task's workspace.", "package.json", aliases=("file",)),
                Field("sh", COMMAND, "A command that prints the JSON.", "npm ls --json"),
                Field(
                    "subset", ANY, "Members that must exist with these values. Others may exist too.", {"private": True}
                ),
            ),
            one_of=(("path", "sh"), ("subset",)),
        ),
    ),
    edn_pair=("path", "subset"),
)


def _port_arguments(check: DeclaredCheck) -> JsonObject:
    value = check.value
    return {"host": "127.0.0.1"} | (value if isinstance(value, dict) else {"port": value})


_PORT: Final = CheckKind(
    Field(
        "port",
        EitherType(plain=ScalarType("integer", minimum=1), map=TableType("port")),
        "Passes if a program listens on the TCP port.",
        8080,
    ),
    "http.check_port",
    tables=(
        FieldTable(
            "port",
            "A TCP port that must accept connections.",
            (
                Field("port", ScalarType("integer", minimum=1), "The port number.", 8080),
                Field("host", TEXT, "The host.", "0.0.0.0", default="127.0.0.1"),
            ),
            one_of=(("port",),),
        ),
    ),
    arguments=_port_arguments,
)

_CONTAINER: Final = CheckKind(
    Field("container", WORD, "Passes if the container is healthy.", "redis"),
    "command.check_container",
    arguments=lambda check: {"name": check.value},
    container=ContainerUse(needs_health=True),
)

_RUN_IN: Final = CheckKind(
    Field(
        "run-in",
        TableType("run-in"),
        "Passes if a command in a container exits with code 0.",
        {"container": "sut", "sh": "npm test"},
    ),
    "command.check_run_in",
    tables=(
        FieldTable(
            "run-in",
            "A command to run in a container.",
            (
                Field("container", WORD, "The container's name.", "sut"),
                Field("sh", COMMAND, "The command.", "npm test"),
            ),
            one_of=(("container",), ("sh",)),
        ),
    ),
    container=ContainerUse(("container",)),
    edn_pair=("container", "sh"),
)

_STATUS: Final = ScalarType("loose")

_HTTP_TABLES: Final = (
    FieldTable(
        "http",
        "A request and the expected response, or several in sequence, under `steps`.",
        (
            Field(
                "url",
                TEXT,
                "The URL to request. With `steps`: the base URL for their paths.",
                "http://localhost:8080/health",
            ),
            Field(
                "status", ScalarType("integer", minimum=100), "The expected status code. Default: any below 400.", 200
            ),
            Field("contains", TEXT, "Text that the body contains.", "ok"),
            Field("subset", ANY, "Members that the JSON body must have.", {"ok": True}),
            Field(
                "steps",
                ListType(TableType("http-step")),
                "Requests and their expected responses. Cookies are kept between steps.",
                [{"send": {"path": "/echo", "method": "POST", "body": "hi"}, "expect": {"body": {"contains": "hi"}}}],
            ),
            Field(
                "repeat",
                TableType("http-repeat"),
                "How often to run the steps, and how many runs in parallel.",
                {"times": 20},
            ),
        ),
    ),
    FieldTable(
        "http-step",
        "One request and its expected response.",
        (
            Field(
                "send",
                EitherType(plain=TEXT, map=TableType("http-send", short="path")),
                "The request to send.",
                {"path": "/"},
            ),
            Field("expect", TableType("http-expect"), "The expected response.", {"status": ["2xx"]}),
            Field(
                "keep",
                MapType(TEXT, is_id=False),
                "Members of the JSON body to save, by pointer. Later steps use them as `{{kept.name}}`.",
                {"id": "/id"},
            ),
        ),
    ),
    FieldTable(
        "http-send",
        "An HTTP request.",
        (
            Field("method", WORD, "The method. Default: GET, or POST with a body.", "POST"),
            Field(
                "path",
                TEXTS,
                "The path, or several: the first that does not return 404, 405 or 501 is used. `same` is the "
                "previous step's.",
                ["/echo", "/api/echo"],
            ),
            Field("url", TEXT, "A complete URL instead of a path.", "http://localhost:8080/echo"),
            Field("body", TEXT, "A text body.", "hello"),
            Field("json", ANY, "A JSON body.", {"message": "hello"}),
            Field("form", MapType(TEXT, is_id=False), "A form body.", {"user": "ada"}),
            Field("headers", MapType(TEXT, is_id=False), "Request headers.", {"accept": "application/json"}),
        ),
    ),
    FieldTable(
        "http-expect",
        "The expected response.",
        (
            Field(
                "status",
                EitherType(plain=_STATUS, items=ListType(_STATUS)),
                "One or more status codes or classes. Default: any below 400. Redirects are followed unless one is "
                "expected.",
                ["2xx", "404"],
            ),
            Field("body", ANY, "A pattern that the body must match as text.", {"contains": "hello"}),
            Field("json", ANY, "A pattern that the body must match as JSON.", {"subset": {"ok": True}}),
            Field(
                "headers", MapType(ANY, is_id=False), "Patterns that headers must match.", {"content-type": "/json/"}
            ),
            Field("within", DURATION, "Maximum time for the complete response.", 2, default=10),
        ),
    ),
    FieldTable(
        "http-repeat",
        "How often to run the steps of a check. Each run is identified separately.",
        (
            Field("times", COUNT, "Number of runs.", 20),
            Field("parallel", COUNT, "Number of runs in parallel.", 5, default=1),
            Field(
                "distinct",
                ListType(ScalarType("word", choices=("nonce",))),
                "`nonce`: each run has its own nonces, so a response that belongs to another run is detected.",
                ["nonce"],
            ),
        ),
    ),
)


def _http_arguments(check: DeclaredCheck) -> JsonObject:
    value = check.value
    return {"url": value} if isinstance(value, str) else {"steps": value} if isinstance(value, list) else value


def _http_problems(check: DeclaredCheck) -> Iterator[ValueProblem]:
    # Patterns take some milliseconds to import, and most plans have no such check.
    from planloop.schemas.checks.http_check import http_check_problems  # noqa: PLC0415 - as above

    if isinstance(check.value, str):
        return
    for problem in http_check_problems(_http_arguments(check), has_url=check.has_url):
        # In a list, the steps are not below a key `steps`.
        yield replace(problem, at=problem.at[1:]) if isinstance(check.value, list) else problem


_HTTP: Final = CheckKind(
    Field(
        "http",
        EitherType(plain=TEXT, items=ListType(TableType("http-step")), map=TableType("http", short="url")),
        "Passes if the URL gives the expected response. For a plain URL: a status below 400.",
        {"url": "http://localhost:8080/health", "status": 200},
    ),
    "http.check_http",
    tables=_HTTP_TABLES,
    arguments=_http_arguments,
    problems=_http_problems,
    alone={"follows": "own"},
    makes_nonces=True,
)


def _web_arguments(check: DeclaredCheck) -> JsonObject:
    return expand_reuse(check.value, reusable_steps(check.others))


def _web_problems(check: DeclaredCheck) -> Iterator[ValueProblem]:
    from planloop.schemas.checks.web_parser import web_check_problems  # noqa: PLC0415 - a dozen milliseconds, and most plans have no such check

    return web_check_problems(check.value, has_url=check.has_url, flows=reusable_steps(check.others))


# What steps and expectations of a web check may say is read by `planloop.schemas.checks.web_parser`.
_WEB_TABLES: Final = (
    FieldTable(
        "web",
        "What a person does on a page and then sees: `can` or `never`.",
        (
            Field("url", TEXT, "The URL of the start page.", "http://localhost:8080"),
            Field("can", ANY, "Steps that must succeed in at least one way.", [{"press": "plus-button"}, {"see": "1"}]),
            Field(
                "never",
                ANY,
                "Steps that must not succeed in any way.",
                [{"fill": {"pass-field": "wrong"}}, {"press": "login-button"}, {"gone": "pass-field"}],
            ),
            Field("and", ANY, "With `never`: what must be visible instead.", {"see": "refusal"}),
            Field("contexts", WORDS, "Names of several people, each with their own browser.", ["A", "B"]),
            Field("lexicon", ANY, "Names of targets in addition to the built-in ones.", {"roll": {"role": "button"}}),
            Field("within", DURATION, "Maximum time for each expected element to appear.", 3, default=3),
        ),
    ),
)

_WEB: Final = CheckKind(
    Field(
        "web",
        TableType("web"),
        "Runs a browser. Passes if all steps of `can` succeed, or if the steps of `never` cannot succeed.",
        {"url": "http://localhost:8080", "can": [{"press": "plus-button"}, {"see": "1"}]},
    ),
    "web.check.check_web",
    tables=_WEB_TABLES,
    arguments=_web_arguments,
    problems=_web_problems,
    alone={"alone": True},
    makes_nonces=True,
)

_WS_TABLES: Final = (
    FieldTable(
        "ws",
        "A conversation over WebSockets. Passes if all steps succeed with one of the paths and frame formats.",
        (
            Field("url", TEXT, "The URL of the program; with a path, that of the socket.", "ws://localhost:8080/chat"),
            Field("discover", TableType("ws-discover"), "Where to look for the socket.", {"else": ["/ws", "/"]}),
            Field("clients", WORDS, "Names of the clients. All connect before the first step.", ["ann", "bob"]),
            Field("frame", TableType("ws-frame"), "How a message is encoded in a frame.", {"else": ["text"]}),
            Field(
                "steps",
                ListType(ANY),
                "The steps, in order: `{ann: {say: hi}}`, `{bob: {hears: hi, within: 2s}}`, `{bob: {hears-not: hi, "
                "for: 1s}}`, `{bob: {not-closed: 1s}}`, `{drop: ann}`, `{connect: ann}`.",
                [{"ann": {"say": "hi"}}, {"bob": {"hears": "hi"}}],
            ),
        ),
    ),
    FieldTable(
        "ws-discover",
        "Where to look for a socket.",
        (
            Field("from-page", TEXT, "The page to load first, to find the socket that it opens.", "/"),
            Field("else", TEXTS, "Paths to try, in order.", ["/ws", "/chat", "/"]),
        ),
    ),
    FieldTable(
        "ws-frame",
        "How a message is encoded in a frame.",
        (
            Field(
                "learn", ScalarType("word", choices=("from-page",)), "Use the format that the page uses.", "from-page"
            ),
            Field(
                "else",
                ListType(ANY),
                "Formats to try, in order: `text`, or JSON with `$` for the message. `first` is sent after "
                "connecting, with `$` for the client's name.",
                ["text", {"json": {"type": "message", "text": "$"}}],
            ),
        ),
    ),
)


def _ws_problems(check: DeclaredCheck) -> Iterator[ValueProblem]:
    from planloop.schemas.checks.ws_check import ws_check_problems  # noqa: PLC0415 - as above

    return ws_check_problems(check.value, has_url=check.has_url, timeout_s=check.timeout_s)


_WS: Final = CheckKind(
    Field(
        "ws",
        TableType("ws"),
        "Passes if the clients of a WebSocket receive each other's messages as the steps say.",
        {
            "url": "http://localhost:8080",
            "clients": ["ann", "bob"],
            "steps": [{"ann": {"say": "hi"}}, {"bob": {"hears": "hi", "within": 2}}],
        },
    ),
    "ws.conversation.check_ws",
    tables=_WS_TABLES,
    problems=_ws_problems,
    alone={},
    makes_nonces=True,
)

_JUDGE: Final = CheckKind(
    Field(
        "judge",
        ANY,
        "A model's verdict. Not supported in this version: a plan with this check cannot be applied.",
        {"prompt": "is it readable?"},
    ),
)


CHECK_KINDS: Final[Mapping[str, CheckKind]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            _SH,
            _REQUIRE_FILE,
            _CONTAINS,
            _JSON,
            _HTTP,
            _PORT,
            _CONTAINER,
            _RUN_IN,
            _WEB,
            _WS,
            _JUDGE,
        )
    }
)
"""Every kind by the name of its field, in the order in which they are documented."""


def kinds_in(check: JsonObject) -> list[str]:
    """The kinds that the fields of a check name. Exactly one is right."""
    return [name for name in CHECK_KINDS if name in check]


COMMANDLESS_KINDS: Final = tuple(kind.name for kind in CHECK_KINDS.values() if kind.runner and not kind.can_run_command)
"""The kinds whose checks never run a command."""

OPTION_OWNERS: Final[Mapping[str, str]] = MappingProxyType(
    {option.name: kind.name for kind in CHECK_KINDS.values() for option in kind.options}
)
"""The kind that each field of one kind alone belongs to."""

CHECK_TABLES: Final = (
    FieldTable(
        "check",
        "One acceptance check. The result is pass, fail, or error if it could not run.",
        (
            *(kind.field for kind in CHECK_KINDS.values()),
            Field("id", WORD, "The check's name. Default: its position in the list.", "unit-tests"),
            Field("timeout", DURATION, "Maximum time for the check.", 60, default=600),
            *(option for kind in CHECK_KINDS.values() for option in kind.options),
        ),
        one_of=(tuple(CHECK_KINDS),),
    ),
    *(table for kind in CHECK_KINDS.values() for table in kind.tables),
)
