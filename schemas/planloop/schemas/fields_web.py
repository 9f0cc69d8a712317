"""The fields of the web check. What its steps and expectations may say is read by `web_reading.py`."""

from __future__ import annotations

from typing import Final

from planloop.schemas.fields import ANY, DURATION, TEXT, WORDS, Field, FieldTable, Table

WEB: Final = Field(
    "web",
    Table("web"),
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
