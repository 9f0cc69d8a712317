"""The words of a `log` check: what the log of a plan must show of how an agent planned, and what it must not.

A *name* in it picks tasks below the one that is judged: the path of one, with stars for anything, or `/words/`, which
are looked for in ids and goals. A *moment* is something that happens at one time, as `order` and `never` have it.
"""

from __future__ import annotations

from typing import Final

from planloop.schemas.fields import ANY, COUNT, FLAG, TEXT, Either, Field, FieldTable, Keyed, Many, Scalar, Table

NEVER: Final = ("children", "left-running", "lock-violated", "over-budget", "refused", "refused-again")
ENDINGS: Final = ("done", "failed", "cancelled", "removed")
REPAIRS: Final = ("again", "another", "itself")
_MOMENT: Final = Either(plain=TEXT, map=Table("log-moment"))
_READER: Final = "benchmarks/planloop/benchmarks/checks"

LOG_TABLES: Final = (
    FieldTable(
        "log",
        "What the log must show.",
        (
            Field("children", Table("log-children"), "The tasks that the agent added.", {"at-least": 2, "done": "all"}),
            Field("order", Many(Many(_MOMENT)), "Rows of moments, each before the next.", [["tests", "deploy"]]),
            Field(
                "never",
                Many(Either(plain=Scalar("word", NEVER), map=Table("log-moment"))),
                "What must not have happened: a child; one that was at work when the agent said that it was done; a "
                "command that changed what others had locked; a budget used up; a call or patch that was turned down; "
                "the same once more; or a moment.",
                ["refused", {"call": "shell"}],
            ),
            Field("ends", Keyed(Scalar("word", ENDINGS), is_id=False), "How tasks ended.", {"tests": "done"}),
            Field(
                "calls",
                Keyed(Table("log-count"), is_id=False),
                "Calls of the agent by tool.",
                {"send": {"at-least": 1}},
            ),
            Field("recovers", Table("log-recovery", short="from"), "It made good for a task that failed.", "flaky"),
            Field(
                "tells", Many(Table("log-telling")), "What it had others know.", [{"to": "painter", "has": "/blue/"}]
            ),
        ),
    ),
    FieldTable(
        "log-children",
        "The tasks that the agent added itself.",
        (
            Field("at-least", COUNT, "How many there are at least.", 2),
            Field("at-most", COUNT, "How many there are at most.", 5),
            Field("done", Scalar("word", ("all",)), "All that it did not remove are done at the end.", "all"),
            Field("budget", FLAG, "Each has a budget of its own.", True),
            Field("checks", FLAG, "Each has checks of its own.", True),
            Field("needs", COUNT, "How many of them need another, at least.", 1),
        ),
    ),
    FieldTable(
        "log-moment",
        "Something that happens at one time. It is the first that counts.",
        (
            Field("made", TEXT, "A task of this name is added.", "tests"),
            Field("begun", TEXT, "It begins.", "deploy"),
            Field("done", TEXT, "It is done.", "tests"),
            Field("failed", TEXT, "It fails.", "flaky"),
            Field("call", TEXT, "The agent calls this tool (with stars), and it succeeds.", "write"),
            Field("has", ANY, "What the arguments of the `call` have in them.", "/report/"),
            Field("reads", TEXT, "The agent reads a message with this in it.", "/instead/"),
            Field("claims", FLAG, "The agent says that it is done.", True),
        ),
        one_of=(("made", "begun", "done", "failed", "call", "reads", "claims"),),
    ),
    FieldTable(
        "log-count",
        "How many of them.",
        (
            Field("at-least", COUNT, "How many there are at least.", 1),
            Field("at-most", COUNT, "How many there are at most.", 3),
        ),
    ),
    FieldTable(
        "log-recovery",
        "A failure below, and what came of it.",
        (
            Field("from", TEXT, "The name of the task that fails.", "flaky"),
            Field(
                "by",
                Many(Scalar("word", REPAIRS)),
                "How it is made good: the same task is tried again and done, another one is added later and done, or "
                "the agent does it itself.",
                ["another"],
            ),
        ),
        one_of=(("from",),),
    ),
    FieldTable(
        "log-telling",
        "Something that the agent had to tell.",
        (
            Field("to", TEXT, "The name of the task whose agent is told.", "painter"),
            Field("has", ANY, "What it is told must match this; left out, anything will do.", "/blue/"),
        ),
        one_of=(("to",),),
    ),
)
