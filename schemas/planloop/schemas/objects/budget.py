"""Budgets: how much a task and its descendants may use. None means what the parent has left."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal

from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen


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


@frozen
class Cost:
    """What something used, or at worst may use. `usd` is None when nobody knows the price; `time_s` is active time."""

    tokens: int = 0
    usd: Decimal | None = Decimal(0)
    time_s: float = 0.0
    calls: int = 0
    turns: int = 0
    retries: int = 0

    def __add__(self, other: Cost) -> Cost:
        """The sum; an unknown price makes it unknown."""
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Cost(
            self.tokens + other.tokens,
            usd,
            self.time_s + other.time_s,
            self.calls + other.calls,
            self.turns + other.turns,
            self.retries + other.retries,
        )

    def to_json(self) -> JsonObject:
        """Only what is not zero; money as text, null when unknown."""
        out: JsonObject = {}
        for name in ("tokens", "calls", "turns", "retries"):
            if value := getattr(self, name):
                out[name] = value
        if self.time_s:
            out["time_s"] = round(self.time_s, 6)
        if self.usd is None or self.usd:
            out["usd"] = None if self.usd is None else str(self.usd)
        return out


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
