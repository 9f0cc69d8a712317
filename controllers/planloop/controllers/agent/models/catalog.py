"""What is known of a model before it is asked: provider, endpoint, price and window; and what a request costs."""

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

# Where one model is asked, and as whom: what routing finds out and every adapter needs.


@frozen
class ModelEndpoint:
    """`url` ends before `/chat/completions`; `model` is the provider's own name for it.

    `key` and `headers` are secrets and never shown. `cure` says what to do when the provider refuses the key, `start`
    what to do when no server answers at the URL. `dialect` is what the server is known to take before it is asked.
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    cure: str = "state a `key` for it under `models`"
    start: str = ""
    dialect: ChatDialect = ChatDialect()

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may hold."""
        return tuple(one for one in (self.key, *(value for _, value in self.headers)) if one)


@lru_cache(maxsize=limits.SPECS_KEPT_MAX)
def is_loopback(url: str) -> bool:
    """Whether `url` is on this machine. Only literal addresses count: a name may be looked up to anything."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


# The providers that are known without a word in the plan: where they answer, and where their key is kept.
#
# All speak the OpenAI chat API. Every other provider's name goes to litellm.


@frozen
class ModelProvider:
    """`key` names the environment variable with the key; empty for a server of one's own, which costs nothing.

    `dialect` is what it is known to take.
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


# What models cost and hold: the plan's word first, then the dated table `prices.yaml`; nothing for one's own servers.
#
# What nobody states is unknown, and stays so: there are no guesses from a similar name.

PRICE_FILE: Final = Path(__file__).with_name("prices.yaml")
FREE_PRICE: Final = TokenPrice(Decimal(0), Decimal(0), Decimal(0), source="a server of one's own")


@frozen
class ListedPrice:
    """What the dated table knows of one model; None where it does not."""

    price: TokenPrice | None
    window: int | None
    output: int | None


def stated_price(model: str, table: ModelTable) -> TokenPrice | None:
    """The price of the model that stands behind the name `model`, a tape's too; None when nobody states it."""
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
    # A plan that states a price for the prompt alone has no discount in mind for what is cached.
    cached = next(one for one in (stated.usd_cached, stated.usd_in, known.usd_cached) if one is not None)
    return TokenPrice(
        known.usd_in if stated.usd_in is None else stated.usd_in,
        known.usd_out if stated.usd_out is None else stated.usd_out,
        cached,
        source="the plan",
    )


def context_window(model: str, table: ModelTable) -> int:
    """Tokens that prompt and reply may have together; `limits.MODEL_WINDOW_TOKENS` when nobody states it."""
    real = parse_model_name(model).real
    row = price_table().get(real)
    return table.config(real).window or (row and row.window) or limits.MODEL_WINDOW_TOKENS


def output_max(model: str, table: ModelTable) -> int:
    """Tokens that a reply may have when the plan does not say; never more than half the window."""
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


# From models and tokens to costs: what a request may cost at worst, what it did cost, and what an unknown price means.
#
# Usage counts as the provider states it, prompt and answer together. `limits.unknown-price` of the plan matters only
# where money is bounded: `refuse` (the default) stops the agent with the cure, `estimate` takes the dearest price known
# for that provider, or of all, `allow` counts the tokens and no money.

REFUSE_UNPRICED: Final = "refuse"
ESTIMATE_UNPRICED: Final = "estimate"


@frozen
class UnpricedModel:
    """A model whose price nobody knows, where money is bounded and the plan does not say what then."""

    model: str

    @property
    def why(self) -> str:
        return f"nobody knows what {self.model} costs, and what it may spend is bounded"

    @property
    def unblocks(self) -> tuple[str, ...]:
        """What a person can do about it."""
        return (
            f"state its price: models: {{{self.model}: {{price: {{in: …, out: …}}}}}} (dollars a million tokens)",
            "plan patch . limits.unknown-price=estimate",
            "plan patch . limits.unknown-price=allow",
        )


def unknown_price_policy(view: View, plan: str) -> str:
    """What the plan at the address `plan` says of unknown prices."""
    document = view.get(plan)
    stated = None if document is None else (document.spec.get("limits") or {}).get("unknown-price")
    return str(stated or REFUSE_UNPRICED)


def price_for_budget(
    models: ModelClient, model: str, policy: str, *, is_bounded: bool
) -> TokenPrice | UnpricedModel | None:
    """The price to count with; None counts no money. `is_bounded` says that a budget of money is above the agent."""
    known = models.price(model)
    if known is not None or not is_bounded or policy not in (REFUSE_UNPRICED, ESTIMATE_UNPRICED):
        return known
    return UnpricedModel(model) if policy == REFUSE_UNPRICED else _dearest(model)


def _dearest(model: str) -> TokenPrice | None:
    """The dearest price in the dated table of the model's provider, of all where that has none."""
    provider = parse_model_name(parse_model_name(model).real).provider
    rows = price_table()
    known = [row.price for name, row in rows.items() if row.price is not None and name.startswith(f"{provider}/")]
    known = known or [row.price for row in rows.values() if row.price is not None]
    return max(known, key=lambda price: price.usd_in + price.usd_out, default=None)


def worst_cost(price: TokenPrice | None, prompt_tokens: int, output_tokens_max: int) -> Cost:
    """The most that one request may use: the whole answer it may give, and nothing of the prompt from a cache."""
    usage = TokenUsage(prompt_tokens, output_tokens_max)
    return Cost(tokens=prompt_tokens + output_tokens_max, usd=_usd(price, usage), calls=1)


def request_cost(price: TokenPrice | None, usage: TokenUsage) -> Cost:
    """What one request used, by the provider's own count; the money of an unknown price is unknown."""
    return Cost(tokens=usage.tokens_in + usage.tokens_out, usd=_usd(price, usage), calls=1)


def _usd(price: TokenPrice | None, usage: TokenUsage) -> Decimal | None:
    return None if price is None else price.cost(usage)


def affordable_output_tokens(
    left: Mapping[str, float], price: TokenPrice | None, prompt_tokens: int, output_tokens_max: int
) -> int:
    """How long an answer what is left allows: at most `output_tokens_max`; too short to be worth it gives the minimum.

    A request that is cut to what is left is better than none, and its reservation then is what it can cost.
    """
    fits = float(output_tokens_max)
    if "tokens" in left:
        fits = min(fits, left["tokens"] - prompt_tokens)
    if "usd" in left and price is not None and price.usd_out > 0:
        money = Decimal(str(left["usd"])) * 1_000_000 - prompt_tokens * price.usd_in
        fits = min(fits, float(money / price.usd_out))
    return max(int(fits), min(limits.OUTPUT_TOKENS_MIN, output_tokens_max))


def is_count_off(counted: int, usage: TokenUsage) -> bool:
    """Whether the provider's count of the prompt differs from ours by more than our way of counting explains."""
    if usage.is_estimated or not counted:
        return False
    return abs(usage.tokens_in - counted) > limits.USAGE_OFF_SHARE * max(counted, usage.tokens_in)
