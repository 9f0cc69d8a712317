"""The words of the checks of tool calls: what had to be called, what lies in the world at the end, what was said."""

from __future__ import annotations

from typing import Final

from planloop.schemas.fields import (
    ANY,
    FLAG,
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

ORDERS: Final = ("any", "partial", "exact")
EXTRAS: Final = ("allow", "soft", "deny")
_SHAPES: Final = Many(Either(plain=TEXT, map=Table("calls-some")))
_BY_NAME: Final = Keyed(ANY, is_id=False)
_FREE: Final = Field(
    "free",
    _SHAPES,
    "Calls that may be made at any time, in the same forms; `reads` are the world's own tools that change nothing.",
    ["reads"],
)

CALL_TABLES: Final = (
    FieldTable(
        "calls",
        "Which tools must have been called, and which not.",
        (
            Field("need", Many(Table("calls-need", short="tool")), "Calls that must be made.", [{"tool": "mail.send"}]),
            Field(
                "order",
                Scalar("word", ORDERS),
                "`partial`: as `after` says; `any`; `exact`: as they are listed.",
                "exact",
                default="partial",
            ),
            Field(
                "forbid",
                _SHAPES,
                "Calls that fail the case however they ended: names with stars, or maps.",
                ["mail.delete", {"decoys": True}],
            ),
            _FREE,
            Field(
                "extra",
                Scalar("word", EXTRAS),
                "Every other call: `soft` and `allow` count it, `deny` fails the case.",
                "deny",
                default="soft",
            ),
        ),
    ),
    FieldTable(
        "calls-need",
        "A call that must be made. One that failed does not count.",
        (
            Field("id", WORD, "Its name, for `after`; left out, `need-1` and so on.", "move"),
            Field("tool", TEXTS, "The tool, or several of which any will do.", ["mail.send", "mail.reply"]),
            Field(
                "args",
                ANY,
                "Matchers by argument; more may be given, unless they stand under `exact:`.",
                {"to": {"set": ["team@orchard.example"]}},
            ),
            Field("may", _BY_NAME, "Arguments that may be left out, and must match where they are not.", {"cc": "/@/"}),
            Field("after", WORDS, "Ids of needed calls that must have been made before.", ["move"]),
            Field("tried", FLAG, "One that failed will do, too.", True, default=False),
        ),
        one_of=(("tool",),),
    ),
    FieldTable(
        "calls-some",
        "Some calls: all that its members fit.",
        (
            Field("tool", TEXT, "The tool; stars match anything.", "mail.*"),
            Field("args", ANY, "Matchers by argument.", {"to": {"contains": "/outside/"}}),
            Field("decoys", ANY, "Decoys: true, or only the `near` or the `far` ones.", True),
        ),
    ),
    FieldTable(
        "state",
        "What lies in the simulated world at the end.",
        (
            Field(
                "after",
                Many(_BY_NAME),
                "Golden calls: the world must look as if these had been made.",
                [{"todo.finish": {"id": "todo-70"}}],
            ),
            Field("ignore", TEXTS, "Tables, and fields of tables, that do not count for `after`.", ["messages.body"]),
            Field(
                "tables",
                Keyed(_BY_NAME, is_id=False),
                "Matchers of rows that must be there, by table and id.",
                {"todos": {"todo-70": {"done": True}}},
            ),
            Field(
                "new",
                Keyed(Many(ANY), is_id=False),
                "By table: matchers of the rows that were added, these and no others.",
                {"messages": [{"to": ["team@orchard.example"]}]},
            ),
        ),
    ),
    FieldTable(
        "abstain",
        "No tool was called, and something was said.",
        (
            Field("asks-or-says", ANY, "A matcher of what was said.", "/which/"),
            _FREE,
        ),
    ),
)
