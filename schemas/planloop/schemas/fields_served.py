"""The fields of the checks that speak to a program over the network: `http` and `ws`."""

from __future__ import annotations

from typing import Final

from planloop.schemas.fields import (
    ANY,
    COUNT,
    DURATION,
    TEXT,
    TEXTS,
    WORD,
    WORDS,
    Either,
    Field,
    FieldTable,
    Keyed,
    Many,
    Scalar,
    Table,
)

_STATUS: Final = Scalar("loose")

HTTP: Final = Field(
    "http",
    Either(plain=TEXT, items=Many(Table("http-step")), map=Table("http", short="url")),
    "Holds when the URL answers as said; with a plain URL, with a status below 400.",
    {"url": "http://localhost:8080/health", "status": 200},
)

WS: Final = Field(
    "ws",
    Table("ws"),
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
            Field("status", Scalar("integer", minimum=100), "The status code; left out, any below 400.", 200),
            Field("contains", TEXT, "A text in the body.", "ok"),
            Field("subset", ANY, "Members of the JSON body.", {"ok": True}),
            Field(
                "steps",
                Many(Table("http-step")),
                "Requests and what their answers must be. Cookies are kept from one to the next.",
                [{"send": {"path": "/echo", "method": "POST", "body": "hi"}, "expect": {"body": {"contains": "hi"}}}],
            ),
            Field("repeat", Table("http-repeat"), "How often the steps are done, some at once.", {"times": 20}),
        ),
    ),
    FieldTable(
        "http-step",
        "One request, and what the answer to it must be.",
        (
            Field("send", Either(plain=TEXT, map=Table("http-send", short="path")), "The request.", {"path": "/"}),
            Field("expect", Table("http-expect"), "What the answer must be.", {"status": ["2xx"]}),
            Field(
                "keep",
                Keyed(TEXT, is_id=False),
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
            Field("form", Keyed(TEXT, is_id=False), "The body as a form.", {"user": "ada"}),
            Field("headers", Keyed(TEXT, is_id=False), "Headers.", {"accept": "application/json"}),
        ),
    ),
    FieldTable(
        "http-expect",
        "What an answer must be.",
        (
            Field(
                "status",
                Either(plain=_STATUS, items=Many(_STATUS)),
                "A status code, a class of them, or several; left out, any below 400. Redirects are followed unless "
                "one is expected.",
                ["2xx", "404"],
            ),
            Field("body", ANY, "A pattern that the body fits as text.", {"contains": "hello"}),
            Field("json", ANY, "A pattern that the body fits as JSON.", {"subset": {"ok": True}}),
            Field("headers", Keyed(ANY, is_id=False), "Patterns that headers fit.", {"content-type": "/json/"}),
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
                Many(Scalar("word", choices=("nonce",))),
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
            Field("discover", Table("ws-discover"), "Where to look for the socket.", {"else": ["/ws", "/"]}),
            Field("clients", WORDS, "Who takes part; all connect before the first step.", ["ann", "bob"]),
            Field("frame", Table("ws-frame"), "How what is said is written in a frame.", {"else": ["text"]}),
            Field(
                "steps",
                Many(ANY),
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
            Field("learn", Scalar("word", choices=("from-page",)), "As the page does it.", "from-page"),
            Field(
                "else",
                Many(ANY),
                "Shapes to try one after the other: `text`, or JSON with `$` for what is said; `first` is sent once "
                "connected, with `$` for the client's name.",
                ["text", {"json": {"type": "message", "text": "$"}}],
            ),
        ),
    ),
)
