"""Providers, endpoints, prices and context windows of models, and the cost of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from functools import cache, lru_cache
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from planloop.controllers.agent.models.chat_request import ChatDialect
from planloop.controllers.agent.models.port import ModelClient, TokenPrice, TokenUsage
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.budget import Cost
from planloop.schemas.objects.model import ModelTable, parse_model_name

# The endpoint of a model: the router determines it, and every adapter needs it.


@frozen
class ModelEndpoint:
    """`url` ends before `/chat/completions`; `model` is the provider's own name for it.

    `key` and `headers` are secrets and never shown. `key_hint` says what to do if the provider refuses the key, `start`
    what to do if no server answers at the URL. `dialect` is the dialect for the first request to the server.
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    key_hint: str = "state a `key` for it under `models`"
    start: str = ""
    dialect: ChatDialect = ChatDialect()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that no message may contain."""
        return tuple(one for one in (self.key, *(value for _, value in self.headers)) if one)


@lru_cache(maxsize=limits.SPECS_KEPT_MAX)
def is_loopback(url: str) -> bool:
    """Whether `url` is on this machine. Only literal addresses count: a name could resolve to any address."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


# Providers that need no settings in the plan: their URLs, and the environment variables with their keys.
#
# All of them serve the OpenAI chat API. Requests to other providers go to litellm.


@frozen
class ModelProvider:
    """`key` names the environment variable with the key; it is empty for local servers, which cost nothing.

    `dialect` is the dialect for the first request.
    """

    url: str
    key: str = ""
    start: str = ""
    dialect: ChatDialect = ChatDialect()


PROVIDERS: Final[Mapping[str, ModelProvider]] = MappingProxyType(
    {
        "openai": ModelProvider(
            "https://api.openai.com/v1", "OPENAI_API_KEY", dialect=ChatDialect("max_completion_tokens")
        ),
        "openrouter": ModelProvider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        "groq": ModelProvider("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        # Tool-call ids of the length that Mistral requires: `chat_request.tool_call_id`.
        "mistral": ModelProvider("https://api.mistral.ai/v1", "MISTRAL_API_KEY", dialect=ChatDialect(is_strict=True)),
        "deepseek": ModelProvider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
        "together": ModelProvider("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        "fireworks": ModelProvider("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
        "cerebras": ModelProvider("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
        "xai": ModelProvider("https://api.x.ai/v1", "XAI_API_KEY"),
        "ollama": ModelProvider("http://127.0.0.1:11434/v1", start="start it with `ollama serve`"),
        "vllm": ModelProvider("http://127.0.0.1:8000/v1", start="start it with `vllm serve MODEL`"),
        "llamacpp": ModelProvider("http://127.0.0.1:8080/v1", start="start it with `llama-server -m FILE`"),
        "lmstudio": ModelProvider("http://127.0.0.1:1234/v1", start="start it with `lms server start`"),
    }
)


# Prices and windows: the plan states them, or else the dated table `prices.yaml`. Local servers cost nothing.
#
# A price that is in neither is unknown; it is not guessed from a similar name.

PRICE_FILE: Final = Path(__file__).with_name("prices.yaml")
FREE_PRICE: Final = TokenPrice(Decimal(0), Decimal(0), Decimal(0), source="a local server")


@frozen
class ListedPrice:
    """The row of one model in the dated table; None for what the row does not state."""

    price: TokenPrice | None
    window: int | None
    output: int | None


def stated_price(model: str, table: ModelTable) -> TokenPrice | None:
    """The price of the model with the name `model`, which may be that of a recording; None if it is unknown."""
    real = parse_model_name(model).real
    stated = table.config(real).price
    known = _known_price(real, table)
    if known is None:
        if stated.usd_in is None or stated.usd_out is None:
            return None
        cached = stated.usd_in if stated.usd_cached is None else stated.usd_cached
        return TokenPrice(stated.usd_in, stated.usd_out, cached, source="the plan")
    if (stated.usd_in, stated.usd_cached, stated.usd_out) == (None, None, None):
        return known
    # If the plan states a price for the prompt only, cached tokens have no discount.
    cached = next(one for one in (stated.usd_cached, stated.usd_in, known.usd_cached) if one is not None)
    return TokenPrice(
        known.usd_in if stated.usd_in is None else stated.usd_in,
        known.usd_out if stated.usd_out is None else stated.usd_out,
        cached,
        source="the plan",
    )


def context_window(model: str, table: ModelTable) -> int:
    """Tokens that prompt and reply may have together; `limits.MODEL_WINDOW_TOKENS` if the model's limit is unknown."""
    real = parse_model_name(model).real
    row = price_table().get(real)
    return table.config(real).window or (row and row.window) or limits.MODEL_WINDOW_TOKENS


def output_max(model: str, table: ModelTable) -> int:
    """Tokens that a reply may have: what the plan states, or else at most half the window."""
    real = parse_model_name(model).real
    stated = table.config(real).output
    if stated:
        return stated
    row = price_table().get(real)
    known = (row and row.output) or limits.MODEL_OUTPUT_TOKENS
    return min(known, limits.MODEL_OUTPUT_TOKENS, context_window(real, table) // 2)


def _known_price(real: str, table: ModelTable) -> TokenPrice | None:
    row = price_table().get(real)
    if row is not None and row.price is not None:
        return row.price
    name = parse_model_name(real)
    if name.url:
        return FREE_PRICE if is_loopback(name.url) else None
    provider = PROVIDERS.get(name.provider)
    if provider is None:
        config = table.config(real)
        return FREE_PRICE if is_loopback(config.url) and not config.key else None
    is_own = not provider.key
    return FREE_PRICE if is_own and not table.config(real).key else None


@cache
def price_table() -> Mapping[str, ListedPrice]:
    """The dated table, by model."""
    import yaml  # noqa: PLC0415 - only an owner with models needs it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    table = yaml.load(PRICE_FILE.read_text(), Loader=loader)
    found = {}
    for source in table["sources"]:
        for model, raw in source["models"].items():
            found[model] = _row(raw, source["source"], str(source["date"]))
    return found


def _row(raw: Mapping[str, object], source: str, date: str) -> ListedPrice:
    def usd(name: str) -> Decimal:
        return Decimal(str(raw[name]))

    price = (
        TokenPrice(usd("in"), usd("out"), usd("cached" if "cached" in raw else "in"), source, date)
        if "in" in raw
        else None
    )
    held = [raw.get(name) for name in ("window", "output")]
    stated_window, stated_output = (int(str(one)) if one else None for one in held)
    return ListedPrice(price, stated_window, stated_output)


# Costs: the most that a request can cost, what it did cost, and what happens if the price is unknown.
#
# Usage is counted as the provider states it, prompt and answer together. `limits.unknown-price` of the plan applies
# only if money is limited: `refuse` (the default) blocks the agent and shows what to do, `estimate` uses the highest
# known price of that provider, or of all, and `allow` counts tokens but no money.

REFUSE_UNPRICED: Final = "refuse"
ESTIMATE_UNPRICED: Final = "estimate"


@frozen
class UnpricedModel:
    """A model with an unknown price that may not be asked, because money is limited."""

    model: str

    @property
    def why(self) -> str:
        """The reason that the agent's status shows."""
        return f"the price of {self.model} is unknown, and the agent has a budget of money"

    @property
    def unblocks(self) -> tuple[str, ...]:
        """What an operator can do."""
        return (
            f"state its price: models: {{{self.model}: {{price: {{in: …, out: …}}}}}} (dollars per million tokens)",
            "plan patch . limits.unknown-price=estimate",
            "plan patch . limits.unknown-price=allow",
        )


def unknown_price_policy(view: View, plan: str) -> str:
    """`limits.unknown-price` of the plan at the address `plan`, or its default."""
    document = view.get(plan)
    stated = None if document is None else (document.spec.get("limits") or {}).get("unknown-price")
    return str(stated or REFUSE_UNPRICED)


def price_for_budget(
    models: ModelClient, model: str, policy: str, *, is_bounded: bool
) -> TokenPrice | UnpricedModel | None:
    """The price to count with; None counts no money. `is_bounded`: the agent has a budget of money."""
    known = models.price(model)
    if known is not None or not is_bounded or policy not in (REFUSE_UNPRICED, ESTIMATE_UNPRICED):
        return known
    return UnpricedModel(model) if policy == REFUSE_UNPRICED else _highest_price(model)


def _highest_price(model: str) -> TokenPrice | None:
    """The highest price of the model's provider in the dated table; of all providers if the table has none of it."""
    provider = parse_model_name(parse_model_name(model).real).provider
    rows = price_table()
    known = [row.price for name, row in rows.items() if row.price is not None and name.startswith(f"{provider}/")]
    known = known or [row.price for row in rows.values() if row.price is not None]
    return max(known, key=lambda price: price.usd_in + price.usd_out, default=None)


def worst_cost(price: TokenPrice | None, prompt_tokens: int, output_tokens_max: int) -> Cost:
    """The most that one request may use: the longest answer, and no part of the prompt from a cache."""
    usage = TokenUsage(prompt_tokens, output_tokens_max)
    return Cost(tokens=prompt_tokens + output_tokens_max, usd=_usd(price, usage), calls=1)


def request_cost(price: TokenPrice | None, usage: TokenUsage) -> Cost:
    """What one request used, by the provider's count. Without a price, its money is unknown."""
    return Cost(tokens=usage.tokens_in + usage.tokens_out, usd=_usd(price, usage), calls=1)


def _usd(price: TokenPrice | None, usage: TokenUsage) -> Decimal | None:
    return None if price is None else price.cost(usage)


def affordable_output_tokens(
    left: Mapping[str, float], price: TokenPrice | None, prompt_tokens: int, output_tokens_max: int
) -> int:
    """The length of the answer that the rest of the budget allows: at most `output_tokens_max`, at least a minimum.

    A shorter answer is better than no request, and the reservation is lowered to what it can cost.
    """
    fits = float(output_tokens_max)
    if "tokens" in left:
        fits = min(fits, left["tokens"] - prompt_tokens)
    if "usd" in left and price is not None and price.usd_out > 0:
        money = Decimal(str(left["usd"])) * 1_000_000 - prompt_tokens * price.usd_in
        fits = min(fits, float(money / price.usd_out))
    return max(int(fits), min(limits.OUTPUT_TOKENS_MIN, output_tokens_max))


def is_count_off(counted: int, usage: TokenUsage) -> bool:
    """Whether the provider's count of the prompt differs from ours by more than our estimate can be wrong."""
    if usage.is_estimated or not counted:
        return False
    return abs(usage.tokens_in - counted) > limits.USAGE_OFF_SHARE * max(counted, usage.tokens_in)
