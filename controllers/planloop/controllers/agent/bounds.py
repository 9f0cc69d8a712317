"""The limit that binds an agent in a unit, and the command that raises it. Pure.

An agent is bounded by its task's ledger and those above it, by the cap of its tier and, after an escalation, by what
its stronger model may use. The caps are the agent's own: nothing is set aside for them or given back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from planloop.controllers.ledger import raises
from planloop.reconciler.editing.watching import stated_name
from planloop.schemas.agent import Cap, Model
from planloop.schemas.frozen import frozen
from planloop.schemas.ledger import ZERO, Unit, amount_of, amounts_of, keeps_of, named, rounded_up, shown
from planloop.schemas.resource import Resource

if TYPE_CHECKING:
    from planloop.controllers.agent.observing import Observed
    from planloop.controllers.agent.status import AgentStatus, Used
    from planloop.schemas.agent import AgentSpec

TIER: Final = "its tier's cap"
ESCALATED: Final = "its escalation's budget"


@frozen
class Bound:
    """A limit in words: its `holder`, its `amount`, and `lines`, the paths in the plan that state it."""

    holder: str
    unit: Unit
    amount: Decimal
    lines: tuple[str, ...]

    @property
    def words(self) -> str:
        """`its budget of turns is used up: 10 turns (budget.turns)`."""
        return (
            f"{self.holder} of {named(self.unit)} is used up: {shown(self.unit, self.amount)} ({', '.join(self.lines)})"
        )


@frozen
class Own:
    """A cap of the agent's own: what it may use of each unit, and what of it is kept for handing over."""

    holder: str
    cap: Cap
    used: Mapping[Unit, Decimal]
    keeps: bool

    def rest(self, unit: Unit, bound: Decimal) -> Decimal:
        """What is left of `bound`, handing over included."""
        return max(ZERO, bound - self.used.get(unit, ZERO))

    def left(self) -> Iterator[tuple[Unit, Decimal, Decimal]]:
        """By unit what ordinary work may still use, and what is kept beside it for handing over."""
        for unit, bound in amounts_of(self.cap.budget.to_json()):
            if unit != "retries":
                rest = self.rest(unit, bound)
                kept = min(rest, keeps_of(unit, bound)) if self.keeps else ZERO
                yield unit, rest - kept, kept


def own_caps(spec: AgentSpec, status: AgentStatus) -> list[Own]:
    """The caps that bind the agent by itself."""
    found: list[Own] = []
    is_model = isinstance(spec.mind, Model) and not spec.watches
    used = _used(status.used)
    if spec.cap.at:
        found.append(Own(TIER, spec.cap, used, is_model))
    if spec.escalate is not None and status.escalated is not None and spec.escalate.budget.to_json():
        before = status.escalated.get("before", {})
        since = {unit: amount - amount_of(unit, before.get(unit, 0)) for unit, amount in used.items()}
        cap = Cap(spec.escalate.budget, f"{spec.escalate.at}.budget")
        found.append(Own(ESCALATED, cap, since, is_model))
    return found


def _used(used: Used) -> dict[Unit, Decimal]:
    return {unit: amount_of(unit, getattr(used, unit)) for unit in ("tokens", "usd", "time_s", "calls", "turns")}


def under(left: Mapping[str, float], caps: Sequence[Own]) -> dict[str, float]:
    """`left` of the ledgers, where a cap leaves less of it."""
    found = dict(left)
    for cap in caps:
        for unit, rest, _ in cap.left():
            found[unit] = min(found.get(unit, float(rest)), float(rest))
    return found


def kept_of(caps: Sequence[Own], unit: Unit) -> Decimal | None:
    """What the caps keep of `unit` for handing over, the least of them; None when no cap bounds it."""
    found = [kept for cap in caps for each, _, kept in cap.left() if each == unit]
    return min(found) if found else None


def only_caps(caps: Sequence[Own]) -> dict[str, float]:
    """What the caps alone leave, by unit."""
    return under({}, caps)


def binding(seen: Observed, unit: Unit, asked: Decimal | None = None) -> tuple[Bound, str]:
    """The limit that binds the agent in `unit`, and the command after which it may go on.

    `asked` is what its next request needs where something is left; None where nothing is.
    """
    own = [(rest, cap) for cap in seen.caps for each, rest, _ in cap.left() if each == unit]
    of_ledger = raises.left_of(seen.purse, unit)
    if own and (of_ledger is None or min(rest for rest, _ in own) <= of_ledger):
        rest, cap = min(own, key=lambda one: one[0])
        bound = dict(amounts_of(cap.cap.budget.to_json()))[unit]
        line = f"{cap.cap.at}.{named(unit)}"
        more = _more(bound, rest, asked)
        way = [*_raised_with(own, cap, unit, more), f"{line}={rounded_up(unit, bound + more)}"]
        if of_ledger is not None and of_ledger < more:
            way += raises.raised(seen.purse, unit, more - max(of_ledger, ZERO))
        return Bound(cap.holder, unit, bound, (line,)), raises.command(way)
    if seen.hook is not None and unit in seen.spec.budget.to_json():
        return _of_hook(seen, seen.hook, unit, asked)
    return _of_ledger(seen, unit, asked)


def _raised_with(own: Sequence[tuple[Decimal, Own]], cap: Own, unit: Unit, more: Decimal) -> Iterator[str]:
    """The settings of the agent's other caps that leave less than `more`: they bind next, or forbid the raise."""
    for left, other in own:
        if other is not cap and left < more:
            bound = dict(amounts_of(other.cap.budget.to_json()))[unit]
            yield f"{other.cap.at}.{named(unit)}={rounded_up(unit, bound + more - left)}"


def _of_hook(seen: Observed, hook: Resource, unit: Unit, asked: Decimal | None) -> tuple[Bound, str]:
    """Of an agent behind a hook, which has bounds of its own."""
    bound = dict(amounts_of(seen.spec.budget.to_json()))[unit]
    line = f"hooks.{stated_name(hook.spec)}.budget.{named(unit)}"
    more = _more(bound, ZERO, asked)
    way = f"plan patch {hook.spec['set_at']} {line}={rounded_up(unit, bound + more)}"
    return Bound("its budget", unit, bound, (line,)), way


def _of_ledger(seen: Observed, unit: Unit, asked: Decimal | None) -> tuple[Bound, str]:
    holders = raises.holders(seen.purse, unit)
    if not holders:  # Nothing bounds it any more; the next look finds that out.
        return Bound("its budget", unit, ZERO, (f"budget.{named(unit)}",)), f"plan describe {seen.spec.task}"
    at = next((one for one in holders if one[1].left <= 0), holders[0])
    task, account = at
    total = raises.left_of(seen.purse, unit) or ZERO
    more = _more(account.bound, min(total, account.left), asked)
    lines = raises.lines_of(task, unit)
    binds = tuple(path for path, said in lines if said <= account.bound) or tuple(path for path, _ in lines)
    way = raises.command(raises.raised(seen.purse, unit, more))
    return Bound(_whose(seen, task, unit), unit, account.bound, binds), way


def _whose(seen: Observed, task: Resource, unit: Unit) -> str:
    is_of_agent = bool((task.spec.get("agent_bounds") or {}).get(unit, {}).get("lines"))
    if task.address != seen.spec.task:
        return "the plan's budget" if task.spec.get("parent") is None else f"{task.address}'s budget"
    if is_of_agent:
        said = task.spec["agent_bounds"][unit]
        least = min(amount_of(unit, value) for value in said["lines"].values())
        if said["task"] is None or least <= amount_of(unit, said["task"]):
            return "its agent's budget"
    return "its budget"


def _more(bound: Decimal, left: Decimal, asked: Decimal | None) -> Decimal:
    """By how much a bound is raised: as much again, and at least what the next request lacks."""
    return max(bound, (asked or ZERO) - left, -left, Decimal(1) if not bound else ZERO)
