"""From models and tokens to costs: what a request may cost at worst, what it did cost, and what an unknown price means.

Usage counts as the provider states it, prompt and answer together. `limits.unknown-price` of the plan matters only
where money is bounded: `refuse` (the default) stops the agent with the cure, `estimate` takes the dearest price known
for that provider, or of all, `allow` counts the tokens and no money.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from planloop.controllers.agent.models import prices
from planloop.controllers.agent.models.port import Models, Price, Usage
from planloop.reconciler.storing.store import View
from planloop.schemas import limits
from planloop.schemas.budget import Cost
from planloop.schemas.frozen import frozen
from planloop.schemas.model import model_name

REFUSE: Final = "refuse"
ESTIMATE: Final = "estimate"


@frozen
class Unpriced:
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


def policy_of(view: View, plan: str) -> str:
    """What the plan at the address `plan` says of unknown prices."""
    document = view.get(plan)
    stated = None if document is None else (document.spec.get("limits") or {}).get("unknown-price")
    return str(stated or REFUSE)


def price_of(models: Models, model: str, policy: str, *, is_bounded: bool) -> Price | Unpriced | None:
    """The price to count with; None counts no money. `is_bounded` says that a budget of money is above the agent."""
    known = models.price(model)
    if known is not None or not is_bounded or policy not in (REFUSE, ESTIMATE):
        return known
    return Unpriced(model) if policy == REFUSE else _dearest(model)


def _dearest(model: str) -> Price | None:
    """The dearest price in the dated table of the model's provider, of all where that has none."""
    provider = model_name(model_name(model).real).provider
    rows = prices.rows()
    known = [row.price for name, row in rows.items() if row.price is not None and name.startswith(f"{provider}/")]
    known = known or [row.price for row in rows.values() if row.price is not None]
    return max(known, key=lambda price: price.usd_in + price.usd_out, default=None)


def worst_of(price: Price | None, prompt_tokens: int, output_tokens_max: int) -> Cost:
    """The most that one request may use: the whole answer it may give, and nothing of the prompt from a cache."""
    usage = Usage(prompt_tokens, output_tokens_max)
    return Cost(tokens=prompt_tokens + output_tokens_max, usd=_usd(price, usage), calls=1)


def cost_of(price: Price | None, usage: Usage) -> Cost:
    """What one request used, by the provider's own count; the money of an unknown price is unknown."""
    return Cost(tokens=usage.tokens_in + usage.tokens_out, usd=_usd(price, usage), calls=1)


def _usd(price: Price | None, usage: Usage) -> Decimal | None:
    return None if price is None else price.cost(usage)


def output_for(left: Mapping[str, float], price: Price | None, prompt_tokens: int, output_tokens_max: int) -> int:
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


def is_off(counted: int, usage: Usage) -> bool:
    """Whether the provider's count of the prompt differs from ours by more than our way of counting explains."""
    if usage.is_estimated or not counted:
        return False
    return abs(usage.tokens_in - counted) > limits.USAGE_OFF_SHARE * max(counted, usage.tokens_in)
