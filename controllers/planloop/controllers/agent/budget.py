"""The budget of an agent: its limits, the reservations for its requests, and billing. Pure.

The ledgers are in the statuses of tasks (`planloop.schemas.objects.budget`); for each unit, an agent draws from the
nearest one. The key of a reservation is the agent's uid and the operation id of the request. The record of the reply
settles it, and the record that cancels or repeats the request releases it, so that a crash leaves none behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from planloop.controllers.agent.status import AgentStatus, AgentUsage
from planloop.controllers.shared import ledger
from planloop.controllers.shared.ledger import BudgetShortage, LedgerEntries, add_usage, ledger_chain
from planloop.reconciler.diff.hook_diff import stated_name
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, SetStatus
from planloop.schemas.objects.agent import AgentSpec, ModelDeciderSpec, TierCap
from planloop.schemas.objects.budget import (
    ZERO,
    Budget,
    Cost,
    Unit,
    amount_to_json,
    amounts_from_json,
    exact_amount,
    format_amount,
    handover_reserve,
    round_up,
    unit_to_name,
)
from planloop.schemas.resource import Resource

TIER_CAP: Final = "its tier's cap"
ESCALATION_CAP: Final = "its escalation's budget"


@frozen
class BudgetLimit:
    """A limit for display: its `holder`, its `amount`, and `lines`, the paths in the plan that state it."""

    holder: str
    unit: Unit
    amount: Decimal
    lines: tuple[str, ...]

    @property
    def words(self) -> str:
        """`its budget of turns is used up: 10 turns (budget.turns)`."""
        amount = format_amount(self.unit, self.amount)
        return f"{self.holder} of {unit_to_name(self.unit)} is used up: {amount} ({', '.join(self.lines)})"


@frozen
class AgentCap:
    """A cap of the agent itself: what it may use of each unit, and how much of that is kept for handing over."""

    holder: str
    cap: TierCap
    used: Mapping[Unit, Decimal]
    keeps: bool

    def rest(self, unit: Unit, bound: Decimal) -> Decimal:
        """What is left of `bound`, including what is kept for handing over."""
        return max(ZERO, bound - self.used.get(unit, ZERO))

    def left(self) -> Iterator[tuple[Unit, Decimal, Decimal]]:
        """For each unit, what ordinary turns may still use, and what is kept for handing over."""
        for unit, bound in amounts_from_json(self.cap.budget.to_json()):
            if unit != "retries":
                rest = self.rest(unit, bound)
                kept = min(rest, handover_reserve(unit, bound)) if self.keeps else ZERO
                yield unit, rest - kept, kept


@frozen
class AgentBudget:
    """What limits an agent: the ledgers of its task and of that task's ancestors, nearest first, and its own caps.

    A cap comes from the agent's tier or, after an escalation, from the budget of the stronger model; nothing is
    reserved in it. `left` is what ordinary turns may still use, by unit; units without a limit are missing.
    """

    left: Mapping[str, float] = field(default_factory=dict)
    ledgers: tuple[Resource, ...] = ()
    caps: tuple[AgentCap, ...] = ()


NO_BUDGET: Final = AgentBudget()


def observe_budget(view: View, spec: AgentSpec, status: AgentStatus, before: AgentBudget | None = None) -> AgentBudget:
    """The budget of the agent now. `before` is its budget before its own steps, which can add a cap but no ledger."""
    if before is not None and not (before.left or before.ledgers or before.caps or status.progress.escalated):
        return before
    caps = tuple(caps_of_agent(spec, status))
    of_hook = [AgentCap("", TierCap(spec.budget, ""), _used(status.used), keeps=False)] if spec.watches else []
    left = cap_left(left_of_task(view, spec.task), (*caps, *of_hook))
    return AgentBudget(left, tuple(ledger_chain(view, spec.task)), caps)


def caps_of_agent(spec: AgentSpec, status: AgentStatus) -> list[AgentCap]:
    """The caps that limit this agent only."""
    found: list[AgentCap] = []
    is_model = isinstance(spec.mind, ModelDeciderSpec) and not spec.watches
    used = _used(status.used)
    if spec.cap.at:
        found.append(AgentCap(TIER_CAP, spec.cap, used, is_model))
    if spec.escalate is not None and status.progress.escalated is not None and spec.escalate.budget.to_json():
        before = status.progress.escalated.get("before", {})
        since = {unit: amount - exact_amount(unit, before.get(unit, 0)) for unit, amount in used.items()}
        cap = TierCap(spec.escalate.budget, f"{spec.escalate.at}.budget")
        found.append(AgentCap(ESCALATION_CAP, cap, since, is_model))
    return found


def _used(used: AgentUsage) -> dict[Unit, Decimal]:
    return {unit: exact_amount(unit, getattr(used, unit)) for unit in ("tokens", "usd", "time_s", "calls", "turns")}


def cap_left(left: Mapping[str, float], caps: Sequence[AgentCap]) -> dict[str, float]:
    """`left` of the ledgers, lowered to what the caps leave."""
    found = dict(left)
    for cap in caps:
        for unit, rest, _ in cap.left():
            found[unit] = min(found.get(unit, float(rest)), float(rest))
    return found


def kept_by_caps(caps: Sequence[AgentCap], unit: Unit) -> Decimal | None:
    """The least that a cap keeps of `unit` for handing over; None if no cap limits it."""
    found = [kept for cap in caps for each, _, kept in cap.left() if each == unit]
    return min(found) if found else None


def left_of_caps(caps: Sequence[AgentCap]) -> dict[str, float]:
    """What the caps alone leave of each unit."""
    return cap_left({}, caps)


def binding_limit(
    budget: AgentBudget, spec: AgentSpec, works_for: Resource | None, unit: Unit, asked: Decimal | None = None
) -> tuple[BudgetLimit, str]:
    """The limit of `unit` that stops an agent, and the command that raises it far enough for the next request.

    `works_for` is the hook that the agent was created for. `asked` is what its next request needs, or None if nothing
    of `unit` is left.
    """
    own = [(rest, cap) for cap in budget.caps for each, rest, _ in cap.left() if each == unit]
    of_ledger = ledger.budget_left(budget.ledgers, unit)
    if own and (of_ledger is None or min(rest for rest, _ in own) <= of_ledger):
        rest, cap = min(own, key=lambda one: one[0])
        bound = dict(amounts_from_json(cap.cap.budget.to_json()))[unit]
        line = f"{cap.cap.at}.{unit_to_name(unit)}"
        more = _more(bound, rest, asked)
        way = [*_raised_with(own, cap, unit, more), f"{line}={round_up(unit, bound + more)}"]
        if of_ledger is not None and of_ledger < more:
            way += ledger.raise_settings(budget.ledgers, unit, more - max(of_ledger, ZERO))
        return BudgetLimit(cap.holder, unit, bound, (line,)), ledger.raise_command(way)
    if works_for is not None and unit in spec.budget.to_json():
        return _of_hook(spec, works_for, unit, asked)
    return _of_ledger(budget.ledgers, spec.task, unit, asked)


def _raised_with(own: Sequence[tuple[Decimal, AgentCap]], cap: AgentCap, unit: Unit, more: Decimal) -> Iterator[str]:
    """The settings that raise the agent's other caps that leave less than `more`, because these would limit it next."""
    for left, other in own:
        if other is not cap and left < more:
            bound = dict(amounts_from_json(other.cap.budget.to_json()))[unit]
            yield f"{other.cap.at}.{unit_to_name(unit)}={round_up(unit, bound + more - left)}"


def _of_hook(spec: AgentSpec, hook: Resource, unit: Unit, asked: Decimal | None) -> tuple[BudgetLimit, str]:
    """The limit of an agent that works for a hook: the hook's own budget."""
    bound = dict(amounts_from_json(spec.budget.to_json()))[unit]
    line = f"hooks.{stated_name(hook.spec)}.budget.{unit_to_name(unit)}"
    more = _more(bound, ZERO, asked)
    way = f"plan patch {hook.spec['set_at']} {line}={round_up(unit, bound + more)}"
    return BudgetLimit("its budget", unit, bound, (line,)), way


def _of_ledger(ledgers: Sequence[Resource], own: str, unit: Unit, asked: Decimal | None) -> tuple[BudgetLimit, str]:
    """The limit of the ledger that is used up first; `own` is the address of the agent's task."""
    holders = ledger.account_holders(ledgers, unit)
    if not holders:  # The limit has been removed; the next pass observes that.
        return BudgetLimit("its budget", unit, ZERO, (f"budget.{unit_to_name(unit)}",)), f"plan describe {own}"
    at = next((one for one in holders if one[1].left <= 0), holders[0])
    task, account = at
    total = ledger.budget_left(ledgers, unit) or ZERO
    more = _more(account.bound, min(total, account.left), asked)
    lines = ledger.budget_lines(task, unit)
    binds = tuple(path for path, stated in lines if stated <= account.bound) or tuple(path for path, _ in lines)
    way = ledger.raise_command(ledger.raise_settings(ledgers, unit, more))
    return BudgetLimit(_holder(own, task, unit), unit, account.bound, binds), way


def _holder(own: str, task: Resource, unit: Unit) -> str:
    is_of_agent = bool((task.spec.get("agent_bounds") or {}).get(unit, {}).get("lines"))
    if task.address != own:
        return "the plan's budget" if task.spec.get("parent") is None else f"{task.address}'s budget"
    if is_of_agent:
        stated = task.spec["agent_bounds"][unit]
        least = min(exact_amount(unit, value) for value in stated["lines"].values())
        if stated["task"] is None or least <= exact_amount(unit, stated["task"]):
            return "its agent's budget"
    return "its budget"


def _more(bound: Decimal, left: Decimal, asked: Decimal | None) -> Decimal:
    """How much to add to a limit: it is doubled, or raised by what the next request needs if that is more."""
    return max(bound, (asked or ZERO) - left, -left, Decimal(1) if not bound else ZERO)


TurnAllowance: TypeAlias = Literal["open", "last", "spent"]

HELD_BY: Final = "held"
"""Key in an agent's status: the uids of ancestors of its task, except the root, that have a reservation for it."""
PARKING_UNITS: Final = ("tokens", "usd", "time_s", "calls", "turns")
"""Units without which an agent cannot take a turn. Retries belong to the task."""


def books_of(view: View, agent: Resource) -> LedgerEntries:
    """The ledgers that the agent draws from, and those of an earlier place of its task that still reserve for it."""
    chain = ledger_chain(view, agent.spec["task"])
    now = view.get(agent.address)
    known: set[str] = {task.uid for task in chain}
    if now is None or known.issuperset(now.status.get(HELD_BY) or ()):
        return LedgerEntries(chain)
    return LedgerEntries(chain, _elsewhere(view, agent.uid, known))


def reserve_changes(
    view: View, agent: Resource, op: str, worst: Cost, *, is_last: bool = False, instead_of: str = ""
) -> tuple[Change, ...] | BudgetShortage:
    """The changes that reserve the most that the request `op` may use, or the shortage if less than that is left.

    A last turn may use what its own task keeps for handing over. An unknown price reserves no money. The reservation
    of the request `instead_of` is released first.
    """
    books = books_of(view, agent)
    if instead_of:
        books.release(agent.uid, instead_of)
    own = view.get(agent.spec["task"])
    shortage = books.reserve(agent.uid, op, worst, last_of=own.uid if is_last and own is not None else "")
    return (*books.changes(), *_held(view, agent, books)) if shortage is None else shortage


def shortfall(left: Mapping[str, float], worst: Cost) -> BudgetShortage | None:
    """The units of which `worst` needs more than is left; None if there are none. For an agent's own caps."""
    asked = {unit: Decimal(str(value)) for unit, value in worst.to_json().items() if value and unit in left}
    over = {unit: value for unit, value in asked.items() if value > Decimal(str(left[unit]))}
    return BudgetShortage({unit: Decimal(str(left[unit])) for unit in over}, over) if over else None


def settle_changes(view: View, agent: Resource, op: str, cost: Cost) -> tuple[Change, ...]:
    """The changes that bill what `op` used and release its reservation, if it has one.

    If the task has moved in the meantime, the ledgers of its earlier place are billed. The agent's own tokens and money
    are counted too, with or without a limit.
    """
    books = books_of(view, agent)
    own = view.get(agent.spec["task"])
    books.settle(agent.uid, op, cost, own="" if own is None else own.uid)
    return (*books.changes(), *_held(view, agent, books), *_counted(view, agent, cost))


def _elsewhere(view: View, agent: str, known: set[str]) -> list[Resource]:
    """Tasks other than `known` that have a reservation for the agent with that uid, and the ancestors of those tasks.

    Searches the whole plan; only needed if a task moved while its agent's model was asked.
    """
    found: dict[str, Resource] = {}
    for task in view.list("task"):
        if task.uid not in known and any(agent in one.get("reserved", ()) for one in _accounts(task)):
            found |= {each.uid: each for each in ledger_chain(view, task.address) if each.uid not in known}
    return list(found.values())


def _accounts(task: Resource) -> list[JsonObject]:
    return list(task.status.get("ledger", {}).values())


def _held(view: View, agent: Resource, books: LedgerEntries) -> tuple[Change, ...]:
    """The change that stores in the agent which tasks reserve for it, so that they are found after a move."""
    now = view.get(agent.address)
    if now is None:
        return ()
    tasks = (task for task in books.holding(agent.uid) if task.spec["parent"] and task.address != agent.spec["task"])
    held = sorted(task.uid for task in tasks) or None
    return () if now.status.get(HELD_BY) == held else (SetStatus(agent.address, agent.uid, {HELD_BY: held}),)


def cost_left_behind(agent: Resource, task: Resource | None) -> tuple[Change, ...]:
    """The changes that add what an agent used to its task before the agent is removed, so that the cost is kept."""
    used = agent.status.get("used", {})
    if task is None or not (used.get("tokens") or used.get("usd")):
        return ()
    return (SetStatus(task.address, task.uid, {"gone": add_usage(task.status.get("gone", {}), used)}),)


def _counted(view: View, agent: Resource, cost: Cost) -> tuple[Change, ...]:
    now = view.get(agent.address)
    if now is None or not (cost.tokens or cost.usd):
        return ()
    used = now.status.get("used", {})
    counted: JsonObject = {"tokens": used.get("tokens", 0) + cost.tokens}
    if cost.usd:
        counted["usd"] = amount_to_json("usd", Decimal(used.get("usd", "0")) + cost.usd)
    return (SetStatus(agent.address, agent.uid, {"used": counted}),)


def release_changes(view: View, agent: Resource, op: str | None = None) -> tuple[Change, ...]:
    """The changes that release the reservation for `op`; None releases all reservations of the agent."""
    books = books_of(view, agent)
    books.release(agent.uid, op)
    return (*books.changes(), *_held(view, agent, books))


def left_of_task(view: View, task_address: str) -> dict[str, float]:
    """What ordinary turns for a task may still use of each limited unit; never below zero, empty without a budget."""
    left: dict[str, Decimal] = {}
    for task in ledger_chain(view, task_address):
        for unit, account in task.status["ledger"].items():
            rest = account["left"]
            if unit not in left:
                if not account.get("closed"):
                    left[unit] = Decimal(str(rest))
            elif float(rest) < 0:  # An ancestor's limit was lowered below its usage, so its descendants have less.
                left[unit] += Decimal(str(rest))
    return {unit: max(0.0, float(rest)) for unit, rest in left.items()}


def spending_changes(view: View, address: str, turns: int, calls: int, time_s: float) -> tuple[Change, ...]:
    """The changes that bill usage without a reservation to the task at `address`."""
    if not (chain := ledger_chain(view, address)):
        return ()
    books = LedgerEntries(chain)
    books.bill(Cost(turns=turns, calls=calls, time_s=time_s))
    return books.changes()


def spent_units(left: Mapping[str, float]) -> tuple[str, ...]:
    """The used-up units without which the agent cannot take a turn."""
    return tuple(unit for unit in PARKING_UNITS if left.get(unit, 1) <= 0)


def turn_allowance(
    task: Resource | None, left: Mapping[str, float], caps: Sequence[AgentCap], *, can_think: bool, had_last: bool
) -> TurnAllowance:
    """Whether the agent of `task` may take an ordinary turn, its last one, or none until its budget grows.

    `caps` are its own. `can_think`: its decider is a model; only models hand over. `had_last`: it has taken its last
    turn since the budget was used up. The last turn has no tools and is for handing over; its requests are reserved
    with `is_last`.
    """
    if not (spent := spent_units(left)):
        return "open"
    return "last" if can_think and may_hand_over(task, spent, caps, had_last=had_last) else "spent"


def may_hand_over(task: Resource | None, units: Iterable[str], caps: Sequence[AgentCap], *, had_last: bool) -> bool:
    """Whether the turn of an LLM agent of `task` may continue as its last one, if too little of `units` is left."""
    ledger: JsonObject = {} if task is None else task.status.get("ledger", {})
    return not had_last and all(_handover(ledger, unit, caps) > 0 for unit in units)


def _handover(ledger: JsonObject, unit: str, caps: Sequence[AgentCap]) -> float:
    """What is kept of `unit` for the last turn, by the caps and, if it is used up, by the task's own account."""
    account, kept = ledger.get(unit, {}), kept_by_caps(caps, unit)
    if kept is not None and float(account.get("left", 1)) > 0:
        return float(kept)
    of_task = float(account.get("handover", 0))
    return of_task if kept is None else min(of_task, float(kept))


def wait_for_budget_changes(view: View, agent: Resource, shortage: BudgetShortage | None = None) -> tuple[Change, ...]:
    """The changes that store how much of which units a parked agent waits for, so that the ledger wakes it.

    `shortage` has the units of which a request found too little. If it is None, the agent waits for all used-up units.
    """
    books = books_of(view, agent)
    for unit in PARKING_UNITS:
        left = books.left(unit)
        if shortage is not None and unit in shortage.asked:
            books.want(agent.uid, unit, shortage.asked[unit])
        elif left is not None and left <= 0:
            books.want(agent.uid, unit)
    return books.changes()


def is_budget_low(left: Mapping[str, float], budget: Budget) -> bool:
    """Whether a fifth or less of some unit is left of the budget of the agent's own task."""
    bounds = budget.to_json()
    return any(
        float(bound) - left.get(unit, float(bound)) >= float(bound) * limits.BUDGET_TOLD_AT
        for unit, bound in bounds.items()
    )
