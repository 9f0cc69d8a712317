"""Language models as a plan names and configures them: names, redirects, the `models:` table.

A name is `provider/name`, or `name@http://host/v1` for any OpenAI-compatible URL. `record/<file>@<name>` and
`replay/<file>@<name>` are the same model with its answers written to a tape or read from one. Rights, prices and pools
go by the real model, without the tape. How a model is asked is `planloop.controllers.agent.models`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from functools import lru_cache
from typing import Final, Literal

from planloop.schemas import limits, patterns
from planloop.schemas.canonical_json import JsonObject, sha256_of_value
from planloop.schemas.frozen import frozen

Tape = Literal["", "record", "replay"]

DIGEST_CHARS: Final = 12

_TAPED: Final = re.compile(r"(?P<tape>record|replay)/(?P<file>[^@]+)(?:@(?P<real>.*))?", re.DOTALL)
_AT_URL: Final = re.compile(r"(?P<name>.*?)@(?P<url>https?://.*)", re.DOTALL)
PROVIDERS: Final = tuple(
    "openai ollama openrouter groq mistral deepseek together fireworks cerebras xai vllm llamacpp lmstudio anthropic "
    "gemini vertex_ai bedrock azure cohere perplexity huggingface replicate sagemaker watsonx databricks".split()
)
"""Known providers. Other names are passed to litellm unchanged."""
_FAMILIES: Final[Mapping[str, str]] = {
    "openai": "gpt- chatgpt- codex- o1 o3 o4 ft:gpt-",
    "anthropic": "claude-",
    "gemini": "gemini-",
    "mistral": "mistral- codestral- devstral- magistral- ministral-",
    "deepseek": "deepseek-",
    "xai": "grok-",
}
"""The beginnings of the names of each provider's own models."""
_OLLAMA_TAG: Final = re.compile(r"[\w.-]+:(?:latest|[a-z]?\d+(?:\.\d+)?[bm]\b.*)", re.IGNORECASE)
SAMPLING: Final = frozenset(
    (
        "temperature top_p top_k min_p seed stop max_tokens max_completion_tokens presence_penalty frequency_penalty "
        "repeat_penalty logit_bias reasoning reasoning_effort thinking verbosity response_format num_ctx"
    ).split()
)
"""Options that change only how a model answers. Others may say where it is asked, or with whose key."""
EVERY_MODEL: Final = "*"
"""The row of the table that is for every model; `plan apply --model` writes its `as`."""


@frozen
class ModelName:
    """A parsed name; `str()` is inverse. `real` is what rights, prices and pools go by, empty for a bare tape."""

    real: str
    tape: Tape = ""
    file: str = ""

    def __str__(self) -> str:
        if not self.tape:
            return self.real
        return f"{self.tape}/{self.file}" + (f"@{self.real}" if self.real else "")

    @property
    def url(self) -> str:
        """The URL in the name; empty when it has none."""
        found = _AT_URL.fullmatch(self.real)
        return found["url"] if found else ""

    @property
    def provider(self) -> str:
        """What stands before the first `/`; empty when the name has a URL or no `/`."""
        before, slash, _ = self.real.partition("/")
        return before if slash and not self.url else ""

    @property
    def name(self) -> str:
        """What the provider calls the model."""
        found = _AT_URL.fullmatch(self.real)
        if found:
            return found["name"]
        return self.real.removeprefix(f"{self.provider}/") if self.provider else self.real


@lru_cache(maxsize=1024)
def parse_model_name(text: str) -> ModelName:
    """Parse a name. A name without a tape prefix is a real model."""
    found = _TAPED.fullmatch(text)
    if found is None:
        return ModelName(text)
    tape: Tape = "record" if found["tape"] == "record" else "replay"
    return ModelName(found["real"] or "", tape, found["file"])


def with_provider(real: str) -> str:
    """The name that a name without a provider probably means: `openai/gpt-5` for `gpt-5`; empty if it is not known.

    A name with a tag, as in `qwen3:8b`, is one of Ollama's.
    """
    name = ModelName(real)
    if not real or name.provider or name.url or "/" in real or "*" in real:
        return ""
    found = (provider for provider, heads in _FAMILIES.items() if real.lower().startswith(tuple(heads.split())))
    provider = next(found, "ollama" if _OLLAMA_TAG.fullmatch(real) else "")
    return f"{provider}/{real}" if provider else ""


def redirect_model(stated: str, to: str) -> str:
    """The model that is asked when the plan states `stated` and a row says `as: to`.

    A bare tape is put around what is stated; anything else takes its place.
    """
    target = parse_model_name(to)
    if target.tape and not target.real:
        return str(ModelName(parse_model_name(stated).real, target.tape, target.file))
    return to


@frozen
class PriceRow:
    """US dollars for a million tokens; None where the plan does not say."""

    usd_in: Decimal | None = None
    usd_cached: Decimal | None = None
    usd_out: Decimal | None = None


@frozen
class ModelConfig:
    """The entry of one model: specific rows of the table override general ones. Empty or None: not set.

    `key` is `env:NAME` or `file:path`, never a secret. `api` is openai or litellm. `window` and `output` are tokens.
    `is_streamed` is False where replies are to come whole.
    """

    url: str = ""
    key: str = ""
    api: str = ""
    price: PriceRow = PriceRow()
    window: int | None = None
    output: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    is_streamed: bool = True


@frozen
class ModelTable:
    """The `models:` of a document: its rows by provider, model name or pattern. `known` is what was asked before."""

    rows: tuple[tuple[str, JsonObject], ...] = ()
    known: dict[str, ModelConfig] = field(default_factory=dict, compare=False)

    def config(self, real: str) -> ModelConfig:
        """What holds for the model `real`: field by field the most specific row that says something."""
        found = self.known.get(real)
        if found is None:
            if len(self.known) >= limits.SPECS_KEPT_MAX:
                self.known.clear()
            found = self.known[real] = self._config(real)
        return found

    def _config(self, real: str) -> ModelConfig:
        merged: JsonObject = {}
        for _, row in self._rows_of(real):
            merged = {**merged, **row}
            for inner in ("price", "headers"):
                if inner in row:
                    merged[inner] = {**merged.get(inner, {}), **row[inner]}
        price = merged.get("price", {})
        return ModelConfig(
            url=merged.get("url", ""),
            key=merged.get("key", ""),
            api=merged.get("api", ""),
            price=PriceRow(_usd(price, "in"), _usd(price, "cached"), _usd(price, "out")),
            window=merged.get("window"),
            output=merged.get("output"),
            headers=tuple((str(name), str(value)) for name, value in merged.get("headers", {}).items()),
            is_streamed=merged.get("stream") is not False,
        )

    def asked(self, stated: str) -> str:
        """The model that is really asked where the plan states `stated`, empty for none: by the rows' `as`, once."""
        target = ""
        for _, row in self._rows_of(parse_model_name(stated).real):
            target = row.get("as", target)
        return redirect_model(stated, target) if target else stated

    def _rows_of(self, real: str) -> list[tuple[str, JsonObject]]:
        """The rows that speak of `real`, the most general first: by how many letters of the key are no star."""
        provider = parse_model_name(real).provider
        found = [(key, row) for key, row in self.rows if key == provider or patterns.name_matches((key,), real)]
        return sorted(found, key=lambda pair: (pair[0] == real, len(pair[0].replace("*", ""))))


def model_table(document: Mapping[str, object]) -> ModelTable:
    """The table of a canonical document."""
    raw: JsonObject = dict(document)
    return ModelTable(tuple(raw.get("models", {}).items()))


def models_digest(document: JsonObject) -> str:
    """The same for documents that say the same of models: which there are, and what is done without a price."""
    bounds = document.get("limits") or {}
    return sha256_of_value([document.get("models"), bounds.get("unknown-price")])[:DIGEST_CHARS]


def _usd(price: JsonObject, name: str) -> Decimal | None:
    return None if price.get(name) is None else Decimal(str(price[name]))
