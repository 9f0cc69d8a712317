"""The field `fork` of a task: a working tree and a branch of its own. What becomes of one is in
`planloop.schemas.fork`."""

from __future__ import annotations

from typing import Final

from planloop.schemas.fields import FLAG, TEXT, ChangeClass, Either, Field, FieldTable, Table

FORK_FIELD: Final = Field(
    "fork",
    Either(plain=FLAG, map=Table("fork")),
    "Gives the task and those below it a git working tree and branch of their own, made from the folder as it is; when "
    "its checks hold there, what it changed is merged back. An agent at work goes on there from its next turn; a "
    "command that runs ends where it began. Files that git ignores are not in it and are not brought back.",
    {"branch": "try/new-parser"},
    ChangeClass.PREFIX,
    default=False,
    lowered=("fork",),
)

FORK: Final = FieldTable(
    "fork",
    "Where the work of a task stands until it is merged back.",
    (
        Field(
            "branch",
            TEXT,
            "The branch to make; a fork that is there keeps the one it has. One that is named is left when all of it "
            "has been brought in. Left out, it is `plan/<plan>/<task>`, and goes then.",
            "try/new-parser",
            read_in="compiler",
        ),
    ),
)
