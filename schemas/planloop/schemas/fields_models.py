"""The fields of the `models:` table: how language models are reached, what they cost, what they hold.

`planloop.schemas.model` reads them. Nothing of them is an agent's to change: a URL or a key is a way out of the plan.
"""

from __future__ import annotations

from typing import Final

from planloop.schemas.fields import COUNT, FLAG, PATTERN, TEXT, Field, FieldTable, Keyed, Scalar, Table

MONEY: Final = Scalar("money", minimum=0)

MODEL_TABLES: Final = (
    FieldTable(
        "model-config",
        "How the models of one provider, or those of a name or pattern, are asked.",
        (
            Field("url", TEXT, "Where an OpenAI-compatible API answers.", "http://localhost:11434/v1"),
            Field(
                "key", TEXT, "Where its key is: `env:NAME` or `file:path`; never the key itself.", "env:GROQ_API_KEY"
            ),
            Field("api", Scalar("word", ("openai", "litellm")), "How it is spoken to.", "openai"),
            Field("price", Table("price"), "What it costs, in US dollars for a million tokens.", {"in": 1, "out": 4}),
            Field("window", COUNT, "Tokens that prompt and reply may have together.", 131072),
            Field("output", COUNT, "Tokens that one reply may have.", 8192),
            Field(
                "stream",
                FLAG,
                "Whether replies come in pieces. `false` is for gateways that cannot stream calls.",
                False,
            ),
            Field("headers", Keyed(Scalar("loose"), is_id=False), "Sent with every request.", {"X-Title": "plan"}),
            Field(
                "as",
                PATTERN,
                "The model that is asked instead; rights still go by the name that the agent states. "
                "`record/<file>` and `replay/<file>` are put around that name. `plan apply --model` sets it for `*`.",
                "ollama/qwen3:8b",
            ),
        ),
    ),
    FieldTable(
        "price",
        "US dollars for a million tokens.",
        (
            Field("in", MONEY, "Of the prompt.", 1),
            Field("cached", MONEY, "Of the part of the prompt that the provider had seen before.", 0.1),
            Field("out", MONEY, "Of the reply.", 4),
        ),
    ),
)
