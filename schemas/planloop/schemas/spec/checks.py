"""Fields of acceptance checks. Each check has exactly one field that names its kind."""

from __future__ import annotations

from typing import Final

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

# The fields of the checks that speak to a program over the network: `http` and `ws`.

_STATUS: Final = ScalarType("loose")

HTTP: Final = Field(
    "http",
    EitherType(plain=TEXT, items=ListType(TableType("http-step")), map=TableType("http", short="url")),
    "Holds when the URL answers as said; with a plain URL, with a status below 400.",
    {"url": "http://localhost:8080/health", "status": 200},
)

WS: Final = Field(
    "ws",
    TableType("ws"),
    "Holds when clients of a websocket hear of each other what the steps say.",
    {
        "url": "http://localhost:8080",
        "clients": ["ann", "bob"],
        "steps": [{"ann": {"say": "hi"}}, {"bob": {"hears": "hi", "within": 2}}],
    },
)

SERVED_TABLES: Final = (
    FieldTable(
        "http",
        "A request, and what the answer must be; or several, one after the other, in `steps`.",
        (
            Field("url", TEXT, "Where to ask; with `steps`, where their paths begin.", "http://localhost:8080/health"),
            Field("status", ScalarType("integer", minimum=100), "The status code; left out, any below 400.", 200),
            Field("contains", TEXT, "A text in the body.", "ok"),
            Field("subset", ANY, "Members of the JSON body.", {"ok": True}),
            Field(
                "steps",
                ListType(TableType("http-step")),
                "Requests and what their answers must be. Cookies are kept from one to the next.",
                [{"send": {"path": "/echo", "method": "POST", "body": "hi"}, "expect": {"body": {"contains": "hi"}}}],
            ),
            Field("repeat", TableType("http-repeat"), "How often the steps are done, some at once.", {"times": 20}),
        ),
    ),
    FieldTable(
        "http-step",
        "One request, and what the answer to it must be.",
        (
            Field(
                "send", EitherType(plain=TEXT, map=TableType("http-send", short="path")), "The request.", {"path": "/"}
            ),
            Field("expect", TableType("http-expect"), "What the answer must be.", {"status": ["2xx"]}),
            Field(
                "keep",
                MapType(TEXT, is_id=False),
                "Members of the JSON body, by pointer, that later steps have as `{{kept.name}}`.",
                {"id": "/id"},
            ),
        ),
    ),
    FieldTable(
        "http-send",
        "A request.",
        (
            Field("method", WORD, "The method; left out, GET, or POST where there is a body.", "POST"),
            Field(
                "path",
                TEXTS,
                "The path, or several: the first is taken that is not answered by 404, 405 or 501. `same` is the one "
                "of the step before.",
                ["/echo", "/api/echo"],
            ),
            Field("url", TEXT, "A whole URL instead.", "http://localhost:8080/echo"),
            Field("body", TEXT, "The body as text.", "hello"),
            Field("json", ANY, "The body as JSON.", {"message": "hello"}),
            Field("form", MapType(TEXT, is_id=False), "The body as a form.", {"user": "ada"}),
            Field("headers", MapType(TEXT, is_id=False), "Headers.", {"accept": "application/json"}),
        ),
    ),
    FieldTable(
        "http-expect",
        "What an answer must be.",
        (
            Field(
                "status",
                EitherType(plain=_STATUS, items=ListType(_STATUS)),
                "A status code, a class of them, or several; left out, any below 400. Redirects are followed unless "
                "one is expected.",
                ["2xx", "404"],
            ),
            Field("body", ANY, "A pattern that the body fits as text.", {"contains": "hello"}),
            Field("json", ANY, "A pattern that the body fits as JSON.", {"subset": {"ok": True}}),
            Field("headers", MapType(ANY, is_id=False), "Patterns that headers fit.", {"content-type": "/json/"}),
            Field("within", DURATION, "How long the whole answer may take.", 2, default=10),
        ),
    ),
    FieldTable(
        "http-repeat",
        "How often the steps of a check are done. Each time is told from the others.",
        (
            Field("times", COUNT, "How often.", 20),
            Field("parallel", COUNT, "How many at once.", 5, default=1),
            Field(
                "distinct",
                ListType(ScalarType("word", choices=("nonce",))),
                "`nonce`: each has nonces of its own, so that an answer that was another's is found.",
                ["nonce"],
            ),
        ),
    ),
    FieldTable(
        "ws",
        "A conversation over websockets. It holds when there is a path and a shape of frames with which all steps do.",
        (
            Field("url", TEXT, "Where the program is; with a path, the socket's.", "ws://localhost:8080/chat"),
            Field("discover", TableType("ws-discover"), "Where to look for the socket.", {"else": ["/ws", "/"]}),
            Field("clients", WORDS, "Who takes part; all connect before the first step.", ["ann", "bob"]),
            Field("frame", TableType("ws-frame"), "How what is said is written in a frame.", {"else": ["text"]}),
            Field(
                "steps",
                ListType(ANY),
                "What happens, in order: `{ann: {say: hi}}`, `{bob: {hears: hi, within: 2s}}`, "
                "`{bob: {hears-not: hi, for: 1s}}`, `{bob: {not-closed: 1s}}`, `{drop: ann}`, `{connect: ann}`.",
                [{"ann": {"say": "hi"}}, {"bob": {"hears": "hi"}}],
            ),
        ),
    ),
    FieldTable(
        "ws-discover",
        "Where to look for a socket.",
        (
            Field("from-page", TEXT, "The page whose own socket is watched first.", "/"),
            Field("else", TEXTS, "Paths to try one after the other.", ["/ws", "/chat", "/"]),
        ),
    ),
    FieldTable(
        "ws-frame",
        "How what is said is written in a frame.",
        (
            Field("learn", ScalarType("word", choices=("from-page",)), "As the page does it.", "from-page"),
            Field(
                "else",
                ListType(ANY),
                "Shapes to try one after the other: `text`, or JSON with `$` for what is said; `first` is sent once "
                "connected, with `$` for the client's name.",
                ["text", {"json": {"type": "message", "text": "$"}}],
            ),
        ),
    ),
)


# The fields of the web check. What its steps and expectations may say is read by `planloop.schemas.checks.web_parser`.

WEB: Final = Field(
    "web",
    TableType("web"),
    "Holds when a person in a browser can do the steps of `can`, or cannot come to the end of `never`.",
    {"url": "http://localhost:8080", "can": [{"press": "plus-button"}, {"see": "1"}]},
)

WEB_TABLES: Final = (
    FieldTable(
        "web",
        "What somebody does on a page, and what is seen then: `can` or `never`.",
        (
            Field("url", TEXT, "Where it begins.", "http://localhost:8080"),
            Field("can", ANY, "Steps that work in some way.", [{"press": "plus-button"}, {"see": "1"}]),
            Field(
                "never",
                ANY,
                "Steps of which no way ends like this.",
                [{"fill": {"pass-field": "wrong"}}, {"press": "login-button"}, {"gone": "pass-field"}],
            ),
            Field("and", ANY, "With `never`: what is seen instead.", {"see": "refusal"}),
            Field("contexts", WORDS, "Several people, each with a browser of their own.", ["A", "B"]),
            Field("lexicon", ANY, "Names of targets beside the shipped ones.", {"roll": {"role": "button"}}),
            Field("within", DURATION, "How long each thing may take to be seen.", 3, default=3),
        ),
    ),
)


# The fields of an acceptance check. Each check has exactly one field of its kind, and may have an id and a timeout.

KIND_FIELDS: Final = (
    Field("sh", COMMAND, "Holds when the command ends with exit code 0.", "npm test"),
    Field(
        "require-file",
        TEXT,
        "Holds when the file is there and, unless `empty` says otherwise, has something in it.",
        "README.md",
        aliases=("require_file",),
    ),
    Field(
        "contains",
        TableType("contains"),
        "Holds when a file contains a text, or matches a pattern.",
        {"path": "README.md", "text": "npm start"},
    ),
    Field(
        "json",
        TableType("json"),
        "Holds when a JSON file, or what a command prints, has at least the members of `subset`.",
        {"path": "package.json", "subset": {"private": True}},
    ),
    HTTP,
    Field(
        "port",
        EitherType(plain=ScalarType("integer", minimum=1), map=TableType("port")),
        "Holds when something listens on the TCP port.",
        8080,
    ),
    Field("container", WORD, "Holds when the container is healthy.", "redis"),
    Field(
        "run-in",
        TableType("run-in"),
        "Holds when a command inside a container ends with exit code 0.",
        {"container": "sut", "sh": "npm test"},
    ),
    WEB,
    WS,
    Field("judge", ANY, "A model's opinion.", {"prompt": "is it readable?"}),
)

CHECK: Final = FieldTable(
    "check",
    "One acceptance check: pass, fail, or error when it could not run.",
    (
        *KIND_FIELDS,
        Field("id", WORD, "A name to tell it by; left out, its place in the list.", "unit-tests"),
        Field("timeout", DURATION, "How long it may take.", 60, default=600),
        Field("empty", FLAG, "For `require-file`: an empty file will do.", True, default=False),
    ),
    one_of=(tuple(row.name for row in KIND_FIELDS),),
)

CHECK_TABLES: Final = (
    CHECK,
    *SERVED_TABLES,
    *WEB_TABLES,
    FieldTable(
        "contains",
        "Which file, and what must be in it: one of `text` and `pattern`.",
        (
            Field("path", TEXT, "The file, below the task's workspace.", "README.md", aliases=("file",)),
            Field("text", TEXT, "The exact text.", "npm start"),
            Field("pattern", TEXT, "A regular expression.", "npm (start|run)"),
        ),
        one_of=(("path",), ("text", "pattern")),
    ),
    FieldTable(
        "json",
        "Where the JSON comes from, one of `path` and `sh`, and what it must have.",
        (
            Field("path", TEXT, "The file, below the task's workspace.", "package.json", aliases=("file",)),
            Field("sh", COMMAND, "A command that prints the JSON.", "npm ls --json"),
            Field("subset", ANY, "Members that must be there with these values; more may be.", {"private": True}),
        ),
        one_of=(("path", "sh"), ("subset",)),
    ),
    FieldTable(
        "port",
        "A TCP port.",
        (
            Field("port", ScalarType("integer", minimum=1), "Its number.", 8080),
            Field("host", TEXT, "On which host.", "0.0.0.0", default="127.0.0.1"),
        ),
        one_of=(("port",),),
    ),
    FieldTable(
        "run-in",
        "A command in a container.",
        (
            Field("container", WORD, "The container's name.", "sut"),
            Field("sh", COMMAND, "The command.", "npm test"),
        ),
        one_of=(("container",), ("sh",)),
    ),
)
