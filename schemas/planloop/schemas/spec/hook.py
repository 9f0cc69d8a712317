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
        "The hook that this one is based on: `lib:name`, `file:path`, or the name of a hook of the plan.",
        "no-secrets",
    ),
    Field(
        "settings",
        MapType(ANY, is_id=False),
        "Settings for the base hook, or this hook's own with their defaults; `$max` refers to the setting `max`.",
        {"max": 3},
        lowered=("options",),
    ),
    Field(
        "on",
        ListType(ScalarType("word", POINTS, settable=True)),
        "The points at which the hook is asked.",
        ["before-call"],
        lowered=("on",),
    ),
    Field(
        "match",
        _TEXT,
        "Limits the hook to calls that match this pattern, as in `write(src/**)`.",
        "write(*)",
        lowered=("match",),
    ),
    Field(
        "rule",
        ListType(MapType(ANY, is_id=False)),
        "Clauses, evaluated from the top. Each match takes effect; evaluation stops at the first that decides.",
        [{"when": {"call": "shell"}, "deny": "no commands here"}],
        lowered=("mind",),
    ),
    Field(
        "first",
        ListType(MapType(ANY, is_id=False)),
        "Clauses evaluated before the `agent`. The agent is asked only if one of them has `consult: true`.",
        [{"when": {"messages": {"from": "person"}}, "consult": True}],
        lowered=("first",),
    ),
    Field(
        "run",
        COMMAND,
        "A program that reads JSON and writes JSON.",
        ["python", "hooks/no_secrets.py"],
        lowered=("mind",),
    ),
    Field(
        "python",
        TEXT,
        "A function `file.py:name`, run in a separate process.",
        "hooks/checks.py:no_secrets",
        lowered=("mind",),
    ),
    Field(
        "agent",
        EitherType(plain=WORD, map=TableType("hook-agent")),
        "An agent that decides: its name, an agent defined here, or `{as: agent/path}` for an existing one.",
        "careful",
        lowered=("mind",),
    ),
    Field(
        "contract",
        ScalarType("word", ("planloop", "claude-code")),
        "Input and output format of `run`: planloop's, or that of Claude Code's hook scripts.",
        "claude-code",
        default="planloop",
        lowered=("mind",),
    ),
    Field(
        "copy",
        ScalarType("word", ("same", "read-only", "none")),
        "The hook for descendants of the watched agent: `same` (a hook with its own state), `read-only` (one that "
        "shares its state and its end), or `none`.",
        "read-only",
        default="same",
        lowered=("copy",),
    ),
    Field(
        "expires",
        TableType("expires"),
        "When the hook ends automatically.",
        {"turns": 10},
        lowered=("expires",),
    ),
    Field(
        "on-fault",
        ScalarType("word", ("deny", "note"), settable=True),
        "The result if the hook fails or times out. Default: `deny` before calls and patches, `note` elsewhere.",
        "note",
        lowered=("on_fault",),
    ),
    Field(
        "timeout",
        ScalarType("duration", minimum=0.1, settable=True),
        "Maximum time for an answer.",
        10,
        lowered=("timeout_s",),
    ),
    Field("budget", TableType("budget"), "Limits for the hook's agent.", {"usd": "0.5"}),
    Field(
        "transcript",
        EitherType(plain=ScalarType("count", minimum=1), map=TableType("hook-transcript")),
        "How much of the watched agent's transcript the hook gets with each question: a number of newest turns, or a "
        "map. Default: nothing. Rules get none.",
        {"turns": 5, "match": "password"},
        lowered=("transcript",),
    ),
)

HOOK: Final = FieldTable(
    "hook", "An agent, a program or a rule that is asked at fixed points of the agents it watches.", HOOK_FIELDS
)

HOOK_TABLES: Final = (
    HOOK,
    FieldTable(
        "hook-agent",
        "The agent of a hook. It has only the tools that are listed.",
        (
            *(row for row in AGENT_FIELDS if row.name not in ("from", "escalate")),
            Field(
                "as",
                PATTERN,
                "The address of an agent of the plan, which answers in addition to its own work.",
                "agent/frontend",
                ChangeClass.HOT,
            ),
        ),
    ),
    FieldTable(
        "hook-transcript",
        "The part of the watched agent's transcript that a hook gets: the newest, at most 128 KiB.",
        (
            Field(
                "turns",
                ScalarType("count", minimum=1),
                "Number of newest turns, including the current one.",
                5,
                default=10,
            ),
            Field("match", _TEXT, "Only messages and calls that contain this text, ignoring case.", "drop*table"),
            Field(
                "chars", ScalarType("count", minimum=1), "Maximum number of characters of each text.", 300, default=1000
            ),
        ),
    ),
    FieldTable(
        "expires",
        "When a hook ends. The first condition that holds ends it.",
        (
            Field(
                "turns",
                ScalarType("count", minimum=1, settable=True),
                "After this number of turns of the watched agent.",
                10,
            ),
            Field("time", _DURATION, "After this time.", 3600),
            Field(
                "when",
                MapType(ANY, is_id=False),
                "When this rule condition holds at a point where the hook is asked.",
                {"turn": {">": 9}},
            ),
            Field("approved", ScalarType("flag"), "When a person approves the end: `plan approve hook/…`.", True),
        ),
    ),
)
