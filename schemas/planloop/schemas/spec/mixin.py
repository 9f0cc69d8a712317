"""Fields of a mixin's steps: before, around and after an agent's calls and turns.

A value `$name` stands for the mixin's setting of that name; which settings an agent gives is
`planloop.compiler.resolve.mixins`. What each step does is `planloop.controllers.agent.mixins`.
"""

from __future__ import annotations

from typing import Final

from planloop.schemas.spec.field import ANY, COMMAND, Field, FieldTable, ListType, MapType, ScalarType, TableType

_COUNT: Final = ScalarType("count", minimum=0, settable=True)
_DURATION: Final = ScalarType("duration", minimum=0, settable=True)
_TEXT: Final = ScalarType("text", settable=True)
_WORDS: Final = ListType(ScalarType("word", settable=True))

AROUND_VERBS: Final = ("trace", "retry", "timeout", "concurrency-limit", "cache")
PROGRAM_VERBS: Final = ("python", "run")
BEFORE_VERBS: Final = ("deny", *PROGRAM_VERBS)
AFTER_VERBS: Final = ("trace", *PROGRAM_VERBS)

_ON: Final = Field("on", ScalarType("word", ("call", "turn"), settable=True), "Calls or whole turns.", "turn")
_MATCH: Final = Field(
    "match",
    ListType(ScalarType("pattern", settable=True)),
    "The calls that it is for, as patterns such as `shell(git *)`. Left out, all of them; a program then has no say in "
    "`done`, `fail`, `send` and `request`.",
    ["fetch"],
)
_ON_FAULT: Final = Field(
    "on-fault",
    ScalarType("word", ("deny", "note"), settable=True),
    "What a program that breaks means: the call is denied, or it is noted and the call goes on.",
    "note",
)


def _programs(what: str) -> tuple[Field, ...]:
    return (
        Field("python", _TEXT, f"A function `file.py:name` that {what}, in a process of its own.", "guard.py:look"),
        Field("run", COMMAND, f"A program that {what}: JSON in, JSON out.", ["python3", "guard.py"]),
        _ON_FAULT,
    )


_TRACE: Final = Field(
    "trace", ScalarType("flag", settable=True), "Writes how long it took and how it ended into the log record.", True
)

MIXIN_STEP_FIELDS: Final = (
    Field(
        "settings",
        MapType(ANY, is_id=False),
        "Its settings and their defaults; a step says `$max` for the setting `max`.",
        {"max": 2},
        lowered=("mixins",),
    ),
    Field(
        "before",
        ListType(TableType("before")),
        "What may stop a call or turn, or narrow a call's arguments, before it begins.",
        [{"deny": ["shell"]}],
        lowered=("mixins", "rights"),
    ),
    Field(
        "around",
        ListType(TableType("around")),
        "What a call or turn happens inside of; the first is the outermost.",
        [{"retry": {"max": 2}}],
        lowered=("mixins",),
    ),
    Field(
        "after",
        ListType(TableType("after")),
        "What looks at a call or turn when it has ended, in this order.",
        [{"trace": True}],
        lowered=("mixins",),
    ),
)

MIXIN_TABLES: Final = (
    FieldTable(
        "before",
        "A step before a call or turn.",
        (
            Field("deny", _WORDS, "Calls that may not be made; such denials hold as all others do.", ["shell(git *)"]),
            *_programs("may say `{deny: reason}` or, for a call, `{arguments: …}`"),
            _ON,
            _MATCH,
        ),
        one_of=(BEFORE_VERBS,),
    ),
    FieldTable(
        "around",
        "A step around a call or turn.",
        (
            _TRACE,
            Field(
                "retry",
                TableType("retry", short="max"),
                "Makes a call again that failed in a way that may heal, if that can do no harm.",
                {"max": 2},
            ),
            Field("timeout", _DURATION, "Stops what takes longer.", 60),
            Field(
                "concurrency-limit",
                TableType("concurrency-limit", short="permits"),
                "How many run at once; the others wait.",
                {"permits": 1},
            ),
            Field(
                "cache",
                TableType("cache", short="entries"),
                "Answers a repeated reading call from memory.",
                {"for": 60},
            ),
            _ON,
            _MATCH,
        ),
        one_of=(AROUND_VERBS,),
    ),
    FieldTable(
        "after",
        "A step after a call or turn.",
        (_TRACE, *_programs("may say `{comment: text}` or `{withhold: reason}`"), _ON, _MATCH),
        one_of=(AFTER_VERBS,),
    ),
    FieldTable(
        "retry",
        "How often, and when.",
        (
            Field("max", _COUNT, "Tries after the first.", 2),
            Field("backoff", _DURATION, "Before the second try; doubles from then on.", 0.5),
            Field("errors", _WORDS, "The failures that may heal, by their one word.", ["Exit"]),
        ),
    ),
    FieldTable(
        "concurrency-limit",
        "Permits.",
        (
            Field("permits", ScalarType("count", minimum=1, settable=True), "How many at once.", 2),
            Field(
                "name", _TEXT, "All agents that say the same name share the permits; left out, each has its own.", "db"
            ),
        ),
    ),
    FieldTable(
        "cache",
        "What is kept.",
        (
            Field("entries", _COUNT, "How many answers.", 16),
            Field("for", _DURATION, "How long one is good at most.", 60),
        ),
    ),
)


POINTS: Final = {"before": BEFORE_VERBS, "around": AROUND_VERBS, "after": AFTER_VERBS}
"""What a step at each point may do."""
