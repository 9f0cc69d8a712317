"""Costs of tasks with their descendants, and their share of the budgets.

Bounded units are read from the ledger, which counts what children use wherever they are by now. Money and tokens that
nothing bounds are added up from the agents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Final

from planloop.schemas import quantities
from planloop.schemas.objects.budget import UNITS, ZERO, Account, Unit, accounts_of
from planloop.schemas.resource import Resource

IN_ORDER: Final = ("usd", "tokens", "time_s", "calls", "turns", "retries")
COUNTED: Final = ("usd", "tokens")
"""Units that are shown even without a limit."""


class Costs:
    """Costs of all tasks of a plan. `objects` are all of its tasks and agents; others are passed over."""

    def __init__(self, objects: Iterable[Resource]) -> None:
        known = list(objects)
        self._tasks = {one.address: one for one in known if one.kind == "task"}
        self._by_uid: dict[str, Resource] = {one.uid: one for one in self._tasks.values()}
        self._agents = [one for one in known if one.kind == "agent" and one.status.get("used")]
        self._below: dict[str, dict[Unit, Decimal]] | None = None

    def line(self, item: Resource, *, units: Iterable[Unit] = IN_ORDER) -> str:
        """`$0.84 of $20.00, 212k of 2M tokens`; empty when nothing is bounded and nothing was spent."""
        return ", ".join(self._words(item, units))

    def short(self, item: Resource) -> str:
        """The one unit that matters most: money if there is any, else what is bounded first."""
        return next(self._words(item, IN_ORDER), "")

    def _words(self, item: Resource, units: Iterable[Unit]) -> Iterator[str]:
        accounts = accounts_of(item.status) if item.kind == "task" else {}
        counted = self._counted(item)
        for unit in units if accounts or counted else ():
            if (account := accounts.get(unit)) is not None:
                least = "at least " if account.unknown else ""
                yield least + budget_words(unit, self._used(account, unit), account.bound)
            elif unit in COUNTED and counted.get(unit):
                yield spent_words(unit, counted[unit])

    def rest(self, item: Resource) -> str:
        """What of the budget is set aside: granted to children, reserved for requests, kept for handing over."""
        held: list[str] = []
        for unit, account in sorted(accounts_of(item.status).items(), key=lambda pair: IN_ORDER.index(pair[0])):
            if not account.is_open:
                continue
            reserved = sum((sum(one.values(), ZERO) for one in account.reserved.values()), ZERO)
            granted = sum(account.granted.values(), ZERO)
            named = (
                (granted, "granted to children"),
                (reserved, "reserved"),
                (account.handover, "kept for the handover"),
            )
            held += [f"{spent_words(unit, amount)} {words}" for amount, words in named if amount]
        return ", ".join(held)

    def _used(self, account: Account, unit: Unit) -> Decimal:
        out = account.spent
        for uid in account.granted:
            child = self._by_uid.get(uid)
            held = None if child is None else accounts_of(child.status).get(unit)
            out += ZERO if held is None else self._used(held, unit)
        return out

    def _counted(self, item: Resource) -> Mapping[Unit, Decimal]:
        if item.kind == "agent":
            return _used_by(item)
        if self._below is None:
            self._below = self._added_up()
        return self._below.get(item.address, {})

    def _added_up(self) -> dict[str, dict[Unit, Decimal]]:
        """By task, what its agent and all agents below it have used, those that are gone too."""
        found: dict[str, dict[Unit, Decimal]] = {}
        parts = [(str(agent.spec.get("task")), _used_by(agent)) for agent in self._agents]
        parts += [(one.address, _amounts(one.status["gone"])) for one in self._tasks.values() if one.status.get("gone")]
        for address, used in parts:
            at: str | None = address
            while at is not None and at in self._tasks:
                mine = found.setdefault(at, {})
                for unit, amount in used.items():
                    mine[unit] = mine.get(unit, ZERO) + amount
                at = self._tasks[at].spec.get("parent")
        return found


def budget_words(unit: Unit, used: Decimal, bound: Decimal) -> str:
    """`212k of 2M tokens`."""
    if unit in ("usd", "time_s"):
        return f"{spent_words(unit, used)} of {spent_words(unit, bound)}"
    return f"{quantities.format_count(float(used))} of {spent_words(unit, bound)}"


def spent_words(unit: Unit, amount: Decimal) -> str:
    """`$0.84`, `212k tokens`, `1m40s`."""
    if unit == "usd":
        return quantities.format_money(amount)
    if unit == "time_s":
        return quantities.format_duration(float(amount))
    return f"{quantities.format_count(float(amount))} {unit}"


def _used_by(agent: Resource) -> dict[Unit, Decimal]:
    return _amounts(agent.status.get("used") or {})


def _amounts(raw: Mapping[str, object]) -> dict[Unit, Decimal]:
    return {unit: Decimal(str(raw[unit])) for unit in UNITS if raw.get(unit)}
