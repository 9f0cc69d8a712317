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

_ON: Final = Field(
    "on",
    ScalarType("word", ("call", "turn"), settable=True),
    "Whether the step applies to calls or to whole turns.",
    "turn",
)
_MATCH: Final = Field(
    "match",
    ListType(ScalarType("pattern", settable=True)),
    "The calls that the step applies to, as patterns such as `shell(git *)`. Default: all calls, but a program is "
    "not asked about `done`, `fail`, `send` and `request`.",
    ["fetch"],
)
_ON_FAULT: Final = Field(
    "on-fault",
    ScalarType("word", ("deny", "note"), settable=True),
    "The result if a program fails: `deny` rejects the call, `note` records the error and lets the call continue.",
    "note",
)


def _programs(what: str) -> tuple[Field, ...]:
    return (
        Field("python", _TEXT, f"A function `file.py:name` that {what}, run in a separate process.", "guard.py:look"),
        Field("run", COMMAND, f"A program that {what}. It reads and writes JSON.", ["python3", "guard.py"]),
        _ON_FAULT,
    )


_TRACE: Final = Field("trace", ScalarType("flag", settable=True), "Logs the duration and the outcome.", True)

MIXIN_STEP_FIELDS: Final = (
    Field(
        "settings",
        MapType(ANY, is_id=False),
        "The mixin's settings and their defaults. Steps refer to the setting `max` as `$max`.",
        {"max": 2},
        lowered=("mixins",),
    ),
    Field(
        "before",
        ListType(TableType("before")),
        "Steps before a call or turn. They may stop it, or narrow a call's arguments.",
        [{"deny": ["shell"]}],
        lowered=("mixins", "rights"),
    ),
    Field(
        "around",
        ListType(TableType("around")),
        "Steps that wrap a call or turn. The first is the outermost.",
        [{"retry": {"max": 2}}],
        lowered=("mixins",),
    ),
    Field(
        "after",
        ListType(TableType("after")),
        "Steps after a call or turn has ended, in this order.",
        [{"trace": True}],
        lowered=("mixins",),
    ),
)

MIXIN_TABLES: Final = (
    FieldTable(
        "before",
        "A step before a call or turn.",
        (
            Field("deny", _WORDS, "Forbidden calls. These denials apply like all others.", ["shell(git *)"]),
            *_programs("may return `{deny: reason}` or, for a call, `{arguments: …}`"),
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
                "Repeats a call that failed with a temporary error, if repeating is safe.",
                {"max": 2},
            ),
            Field("timeout", _DURATION, "Stops a call or turn that takes longer.", 60),
            Field(
                "concurrency-limit",
                TableType("concurrency-limit", short="permits"),
                "Limits the number that run at the same time. The others wait.",
                {"permits": 1},
            ),
            Field(
                "cache",
                TableType("cache", short="entries"),
                "Answers a repeated read-only call from memory.",
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
        (_TRACE, *_programs("may return `{comment: text}` or `{withhold: reason}`"), _ON, _MATCH),
        one_of=(AFTER_VERBS,),
    ),
    FieldTable(
        "retry",
        "How often and when a call is repeated.",
        (
            Field("max", _COUNT, "Number of retries after the first attempt.", 2),
            Field("backoff", _DURATION, "Delay before the first retry. It doubles with each retry.", 0.5),
            Field("errors", _WORDS, "Names of the errors to retry.", ["Exit"]),
        ),
    ),
    FieldTable(
        "concurrency-limit",
        "A limit on simultaneous calls or turns.",
        (
            Field("permits", ScalarType("count", minimum=1, settable=True), "Maximum number at the same time.", 2),
            Field("name", _TEXT, "Agents with the same name share the permits. Default: each agent has its own.", "db"),
        ),
    ),
    FieldTable(
        "cache",
        "The size and lifetime of the cache.",
        (
            Field("entries", _COUNT, "Maximum number of stored answers.", 16),
            Field("for", _DURATION, "Maximum age of an answer.", 60),
        ),
    ),
)


POINTS: Final = {"before": BEFORE_VERBS, "around": AROUND_VERBS, "after": AFTER_VERBS}
"What a step at each point may do."
