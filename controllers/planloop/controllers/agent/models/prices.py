"""What models cost and hold: the plan's word first, then the dated table `prices.yaml`; nothing for one's own servers.

What nobody states is unknown, and stays so: there are no guesses from a similar name.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Final

from planloop.controllers.agent.models.endpoint import is_loopback
from planloop.controllers.agent.models.port import Price
from planloop.controllers.agent.models.providers import PROVIDERS
from planloop.schemas import limits
from planloop.schemas.frozen import frozen
from planloop.schemas.model import ModelTable, model_name

TABLE: Final = Path(__file__).with_name("prices.yaml")
FREE: Final = Price(Decimal(0), Decimal(0), Decimal(0), source="a server of one's own")


@frozen
class Row:
    """What the dated table knows of one model; None where it does not."""

    price: Price | None
    window: int | None
    output: int | None


def price(model: str, table: ModelTable) -> Price | None:
    """The price of the model that stands behind the name `model`, a tape's too; None when nobody states it."""
    real = model_name(model).real
    stated = table.config(real).price
    known = _known_price(real, table)
    if known is None:
        if stated.usd_in is None or stated.usd_out is None:
            return None
        cached = stated.usd_in if stated.usd_cached is None else stated.usd_cached
        return Price(stated.usd_in, stated.usd_out, cached, source="the plan")
    if (stated.usd_in, stated.usd_cached, stated.usd_out) == (None, None, None):
        return known
    # A plan that states a price for the prompt alone has no discount in mind for what is cached.
    cached = next(one for one in (stated.usd_cached, stated.usd_in, known.usd_cached) if one is not None)
    return Price(
        known.usd_in if stated.usd_in is None else stated.usd_in,
        known.usd_out if stated.usd_out is None else stated.usd_out,
        cached,
        source="the plan",
    )


def window(model: str, table: ModelTable) -> int:
    """Tokens that prompt and reply may have together; `limits.MODEL_WINDOW_TOKENS` when nobody states it."""
    real = model_name(model).real
    row = rows().get(real)
    return table.config(real).window or (row and row.window) or limits.MODEL_WINDOW_TOKENS


def output_max(model: str, table: ModelTable) -> int:
    """Tokens that a reply may have when the plan does not say; never more than half the window."""
    real = model_name(model).real
    stated = table.config(real).output
    if stated:
        return stated
    row = rows().get(real)
    known = (row and row.output) or limits.MODEL_OUTPUT_TOKENS
    return min(known, limits.MODEL_OUTPUT_TOKENS, window(real, table) // 2)


def _known_price(real: str, table: ModelTable) -> Price | None:
    row = rows().get(real)
    if row is not None and row.price is not None:
        return row.price
    name = model_name(real)
    if name.url:
        return FREE if is_loopback(name.url) else None
    provider = PROVIDERS.get(name.provider)
    if provider is None:
        config = table.config(real)
        return FREE if is_loopback(config.url) and not config.key else None
    is_own = not provider.key
    return FREE if is_own and not table.config(real).key else None


@cache
def rows() -> Mapping[str, Row]:
    """The dated table, by model."""
    import yaml  # noqa: PLC0415 - only an owner with models needs it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    table = yaml.load(TABLE.read_text(), Loader=loader)
    found = {}
    for source in table["sources"]:
        for model, raw in source["models"].items():
            found[model] = _row(raw, source["source"], str(source["date"]))
    return found


def _row(raw: Mapping[str, object], source: str, date: str) -> Row:
    def usd(name: str) -> Decimal:
        return Decimal(str(raw[name]))

    price = (
        Price(usd("in"), usd("out"), usd("cached" if "cached" in raw else "in"), source, date) if "in" in raw else None
    )
    held = [raw.get(name) for name in ("window", "output")]
    stated_window, stated_output = (int(str(one)) if one else None for one in held)
    return Row(price, stated_window, stated_output)
