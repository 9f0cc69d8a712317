"""Budgets: how much a task and everything below it may use. None in a member means "whatever the parent has left"."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal

from schemas.encoding import JsonObject
from schemas.frozen import frozen


@frozen
class Budget:
    """`time_s` is active time: waiting does not count. `usd` is exact decimal money."""

    tokens: int | None = None
    usd: Decimal | None = None
    time_s: float | None = None
    calls: int | None = None
    turns: int | None = None
    retries: int | None = None

    def to_json(self) -> JsonObject:
        """Only the members that are set; money as text, because JSON numbers are binary."""
        if self == _NONE:  # Most tasks state no budget, and every task is printed.
            return {}
        pairs = ((member.name, getattr(self, member.name)) for member in fields(self))
        return {name: str(value) if isinstance(value, Decimal) else value for name, value in pairs if value is not None}


_NONE = Budget()


def budget_from_json(raw: JsonObject) -> Budget:
    """Inverse of `Budget.to_json`."""
    usd = raw.get("usd")
    return Budget(
        tokens=raw.get("tokens"),
        usd=None if usd is None else Decimal(str(usd)),
        time_s=raw.get("time_s"),
        calls=raw.get("calls"),
        turns=raw.get("turns"),
        retries=raw.get("retries"),
    )
