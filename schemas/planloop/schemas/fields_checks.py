"""The fields of an acceptance check. Each check has exactly one field of its kind, and may have an id and a timeout."""

from __future__ import annotations

from typing import Final

from planloop.schemas.fields import ANY, COMMAND, DURATION, FLAG, TEXT, WORD, Either, Field, FieldTable, Scalar, Table
from planloop.schemas.fields_served import HTTP, SERVED_TABLES, WS
from planloop.schemas.fields_web import WEB, WEB_TABLES

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
        Table("contains"),
        "Holds when a file contains a text, or matches a pattern.",
        {"path": "README.md", "text": "npm start"},
    ),
    Field(
        "json",
        Table("json"),
        "Holds when a JSON file, or what a command prints, has at least the members of `subset`.",
        {"path": "package.json", "subset": {"private": True}},
    ),
    HTTP,
    Field(
        "port",
        Either(plain=Scalar("integer", minimum=1), map=Table("port")),
        "Holds when something listens on the TCP port.",
        8080,
    ),
    Field("container", WORD, "Holds when the container is healthy.", "redis"),
    Field(
        "run-in",
        Table("run-in"),
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
            Field("port", Scalar("integer", minimum=1), "Its number.", 8080),
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
