"""Fields of a hook: when it is asked, what decides, its lifetime and its copies.

A value `$name` stands for the hook's setting of that name; how a hook is made from another is
`planloop.compiler.lower.hooks`. What the clauses of a rule may say is `planloop.schemas.rules.language`.
"""

from __future__ import annotations

from typing import Final

from planloop.schemas.objects.hook import POINTS
from planloop.schemas.spec.agent import AGENT_FIELDS
from planloop.schemas.spec.field import (
    ANY,
    COMMAND,
    PATTERN,
    TEXT,
    WORD,
    ChangeClass,
    EitherType,
    Field,
    FieldTable,
    ListType,
    MapType,
    ScalarType,
    TableType,
)

HOOK_DECIDERS: Final = ("rule", "run", "python", "agent")
_TEXT: Final = ScalarType("text", settable=True)
_DURATION: Final = ScalarType("duration", minimum=0, settable=True)

HOOK_FIELDS: Final = (
    Field(
        "extends",
        WORD,
        "The hook that it is made from: `lib:name`, `file:path`, or the name of a hook of the plan.",
        "no-secrets",
    ),
    Field(
        "settings",
        MapType(ANY, is_id=False),
        "Settings of what it is made from, or its own with their defaults; `$max` stands for the setting `max`.",
        {"max": 3},
        lowered=("options",),
    ),
    Field(
        "on",
        ListType(ScalarType("word", POINTS, settable=True)),
        "The points at which it is asked.",
        ["before-call"],
        lowered=("on",),
    ),
    Field(
        "match",
        _TEXT,
        "Only calls like this pattern, as in `write(src/**)`.",
        "write(*)",
        lowered=("match",),
    ),
    Field(
        "rule",
        ListType(MapType(ANY, is_id=False)),
        "Clauses, read from the top; each that holds has its effects, and one that decides ends the reading.",
        [{"when": {"call": "shell"}, "deny": "no commands here"}],
        lowered=("mind",),
    ),
    Field(
        "first",
        ListType(MapType(ANY, is_id=False)),
        "Clauses that are read before the `agent` is asked, which it only is where one of them says `consult: true`.",
        [{"when": {"messages": {"from": "person"}}, "consult": True}],
        lowered=("first",),
    ),
    Field(
        "run",
        COMMAND,
        "A program: JSON in, JSON out.",
        ["python", "hooks/no_secrets.py"],
        lowered=("mind",),
    ),
    Field(
        "python",
        TEXT,
        "A function `file.py:name`, run in a process of its own.",
        "hooks/checks.py:no_secrets",
        lowered=("mind",),
    ),
    Field(
        "agent",
        EitherType(plain=WORD, map=TableType("hook-agent")),
        "An agent that decides: the name of one, one written here, or `{as: agent/path}` for one that is there.",
        "careful",
        lowered=("mind",),
    ),
    Field(
        "contract",
        ScalarType("word", ("planloop", "claude-code")),
        "What `run` is given and what its answer means: ours, or that of Claude Code's hook scripts.",
        "claude-code",
        default="planloop",
        lowered=("mind",),
    ),
    Field(
        "copy",
        ScalarType("word", ("same", "read-only", "none")),
        "What agents below the watched one get: a hook like it with a state of its own, one that shares its state and "
        "its end, or nothing.",
        "read-only",
        default="same",
        lowered=("copy",),
    ),
    Field(
        "expires",
        TableType("expires"),
        "When it ends by itself.",
        {"turns": 10},
        lowered=("expires",),
    ),
    Field(
        "on-fault",
        ScalarType("word", ("deny", "note"), settable=True),
        "What a broken or late hook means. Left out, it denies before calls and patches, and is noted elsewhere.",
        "note",
        lowered=("on_fault",),
    ),
    Field(
        "timeout",
        ScalarType("duration", minimum=0.1, settable=True),
        "How long it may think.",
        10,
        lowered=("timeout_s",),
    ),
    Field("budget", TableType("budget"), "What its agent may use at most.", {"usd": "0.5"}),
    Field(
        "transcript",
        EitherType(plain=ScalarType("count", minimum=1), map=TableType("hook-transcript")),
        "How much it is shown, with each question, of what the watched agent has lived through: so many of its newest "
        "turns, or a map. Left out, nothing; rules are shown none.",
        {"turns": 5, "match": "password"},
        lowered=("transcript",),
    ),
)

HOOK: Final = FieldTable("hook", "An agent, a program or a rule that watches agents at stated points.", HOOK_FIELDS)

HOOK_TABLES: Final = (
    HOOK,
    FieldTable(
        "hook-agent",
        "The agent behind a hook. It has no tools but those that are stated.",
        (
            *(row for row in AGENT_FIELDS if row.name not in ("from", "escalate")),
            Field(
                "as",
                PATTERN,
                "The address of an agent of the plan, which is asked beside its own work.",
                "agent/frontend",
                ChangeClass.HOT,
            ),
        ),
    ),
    FieldTable(
        "hook-transcript",
        "The part of the watched agent's transcript that a hook is shown, at most 128 KiB, the newest end of it.",
        (
            Field(
                "turns",
                ScalarType("count", minimum=1),
                "The newest so many turns, the open one included.",
                5,
                default=10,
            ),
            Field(
                "match", _TEXT, "Only messages and calls in which this text occurs, whatever the case.", "drop*table"
            ),
            Field("chars", ScalarType("count", minimum=1), "Characters of each text.", 300, default=1000),
        ),
    ),
    FieldTable(
        "expires",
        "When a hook ends; what holds first counts.",
        (
            Field(
                "turns", ScalarType("count", minimum=1, settable=True), "After so many turns of the watched agent.", 10
            ),
            Field("time", _DURATION, "After so long.", 3600),
            Field(
                "when",
                MapType(ANY, is_id=False),
                "When this condition of a rule holds while it is asked.",
                {"turn": {">": 9}},
            ),
            Field("approved", ScalarType("flag"), "When a person approves its end: `plan approve hook/…`.", True),
        ),
    ),
)
