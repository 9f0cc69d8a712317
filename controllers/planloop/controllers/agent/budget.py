"""What an agent may still use, what is set aside for its requests, and what is billed when they end.

The ledgers are in the statuses of tasks (`planloop.schemas.ledger`); an agent draws from the nearest one, unit by unit.
A reservation is keyed by the agent's uid and the operation id of the request: it is settled in the record of the reply,
or released in the record that calls the request off or repeats it, so that no crash leaves one behind. All pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from planloop.controllers.agent.bounds import Own, kept_of
from planloop.controllers.ledger import Books, Spent, added_up, chain_of
from planloop.reconciler.storing.store import View
from planloop.schemas import limits
from planloop.schemas.budget import Budget, Cost
from planloop.schemas.encoding import JsonObject
from planloop.schemas.ledger import written
from planloop.schemas.record import Change, SetStatus
from planloop.schemas.resource import Resource

__all__ = [
    "Books",
    "Spent",
    "books_of",
    "is_low",
    "left_of",
    "may_hand_over",
    "release",
    "reserve",
    "settle",
    "spent_out",
    "standing",
    "waiting",
]

Standing: TypeAlias = Literal["open", "last", "spent"]

HELD: Final = "held"
"""In an agent's status: uids of tasks above its own that have something set aside for it, but for the topmost one."""
PARKING: Final = ("tokens", "usd", "time_s", "calls", "turns")
"""Units without which an agent cannot take a turn. Retries are the task's."""


def books_of(view: View, agent: Resource) -> Books:
    """The ledgers that the agent draws from, and those of an earlier place of its that still hold something for it."""
    chain = chain_of(view, agent.spec["task"])
    now = view.get(agent.address)
    known: set[str] = {task.uid for task in chain}
    if now is None or known.issuperset(now.status.get(HELD) or ()):
        return Books(chain)
    return Books(chain, _elsewhere(view, agent.uid, known))


def reserve(
    view: View, agent: Resource, op: str, worst: Cost, *, is_last: bool = False, instead_of: str = ""
) -> tuple[Change, ...] | Spent:
    """The changes that set aside the most that the request `op` may use, or Spent when less is left than that.

    A last turn may go into the hand-over reserve of its own task. An unknown price reserves no money. What was set
    aside for the request `instead_of` is given back first.
    """
    books = books_of(view, agent)
    if instead_of:
        books.release(agent.uid, instead_of)
    own = view.get(agent.spec["task"])
    lacking = books.reserve(agent.uid, op, worst, last_of=own.uid if is_last and own is not None else "")
    return (*books.changes(), *_held(view, agent, books)) if lacking is None else lacking


def short_of(left: Mapping[str, float], worst: Cost) -> Spent | None:
    """What of `worst` is more than is left; None when nothing is. For bounds that no ledger has: an agent's own."""
    asked = {unit: Decimal(str(value)) for unit, value in worst.to_json().items() if value and unit in left}
    over = {unit: value for unit, value in asked.items() if value > Decimal(str(left[unit]))}
    return Spent({unit: Decimal(str(left[unit])) for unit in over}, over) if over else None


def settle(view: View, agent: Resource, op: str, cost: Cost) -> tuple[Change, ...]:
    """The changes that put what `op` really used in the place of its reservation; without one it is just billed.

    A task that moved in the meantime is billed where it was when the request began. The agent's own tokens and money
    are counted too, bounded or not.
    """
    books = books_of(view, agent)
    own = view.get(agent.spec["task"])
    books.settle(agent.uid, op, cost, own="" if own is None else own.uid)
    return (*books.changes(), *_held(view, agent, books), *_counted(view, agent, cost))


def _elsewhere(view: View, agent: str, known: set[str]) -> list[Resource]:
    """Tasks beside those `known` that have something set aside for the agent of that uid, and who granted it to them.

    Looks through the plan: for a task that moved while a model was asked for it.
    """
    found: dict[str, Resource] = {}
    for task in view.list("task"):
        if task.uid not in known and any(agent in one.get("reserved", ()) for one in _accounts(task)):
            found |= {each.uid: each for each in chain_of(view, task.address) if each.uid not in known}
    return list(found.values())


def _accounts(task: Resource) -> list[JsonObject]:
    return list(task.status.get("ledger", {}).values())


def _held(view: View, agent: Resource, books: Books) -> tuple[Change, ...]:
    """The change that keeps with the agent who has something set aside for it, of those that it could be moved from."""
    now = view.get(agent.address)
    if now is None:
        return ()
    tasks = (task for task in books.holding(agent.uid) if task.spec["parent"] and task.address != agent.spec["task"])
    held = sorted(task.uid for task in tasks) or None
    return () if now.status.get(HELD) == held else (SetStatus(agent.address, agent.uid, {HELD: held}),)


def left_behind(agent: Resource, task: Resource | None) -> tuple[Change, ...]:
    """The changes that keep what an agent used that is about to go: its task's cost stays what it was."""
    used = agent.status.get("used", {})
    if task is None or not (used.get("tokens") or used.get("usd")):
        return ()
    return (SetStatus(task.address, task.uid, {"gone": added_up(task.status.get("gone", {}), used)}),)


def _counted(view: View, agent: Resource, cost: Cost) -> tuple[Change, ...]:
    now = view.get(agent.address)
    if now is None or not (cost.tokens or cost.usd):
        return ()
    used = now.status.get("used", {})
    counted: JsonObject = {"tokens": used.get("tokens", 0) + cost.tokens}
    if cost.usd:
        counted["usd"] = written("usd", Decimal(used.get("usd", "0")) + cost.usd)
    return (SetStatus(agent.address, agent.uid, {"used": counted}),)


def release(view: View, agent: Resource, op: str | None = None) -> tuple[Change, ...]:
    """The changes that give back what is reserved for `op`; None gives back all of the agent's."""
    books = books_of(view, agent)
    books.release(agent.uid, op)
    return (*books.changes(), *_held(view, agent, books))


def left_of(view: View, task_address: str) -> dict[str, float]:
    """What ordinary turns for a task may still use of each bounded unit; never under zero, empty without a budget."""
    left: dict[str, Decimal] = {}
    for task in chain_of(view, task_address):
        for unit, account in task.status["ledger"].items():
            rest = account["left"]
            if unit not in left:
                if not account.get("closed"):
                    left[unit] = Decimal(str(rest))
            elif float(rest) < 0:  # A bound above was lowered under what is used: it takes from everybody below.
                left[unit] += Decimal(str(rest))
    return {unit: max(0.0, float(rest)) for unit, rest in left.items()}


def spending(view: View, address: str, turns: int, calls: int, time_s: float) -> tuple[Change, ...]:
    """The changes that bill what was used at the task `address` without a reservation."""
    if not (chain := chain_of(view, address)):
        return ()
    books = Books(chain)
    books.bill(Cost(turns=turns, calls=calls, time_s=time_s))
    return books.changes()


def spent_out(left: Mapping[str, float]) -> tuple[str, ...]:
    """The units of which nothing is left and without which no turn can be taken."""
    return tuple(unit for unit in PARKING if left.get(unit, 1) <= 0)


def standing(
    task: Resource | None, left: Mapping[str, float], caps: Sequence[Own], *, can_think: bool, had_last: bool
) -> Standing:
    """Whether the agent of `task` may take an ordinary turn, its last one, or none until its budget grows.

    `caps` are its own; `can_think` says that its mind is a model, which alone has something to hand over; `had_last`
    that it took its last turn since there was something left. The last turn has no tools and is for handing over; its
    requests are reserved with `is_last`.
    """
    if not (spent := spent_out(left)):
        return "open"
    return "last" if can_think and may_hand_over(task, spent, caps, had_last=had_last) else "spent"


def may_hand_over(task: Resource | None, units: Iterable[str], caps: Sequence[Own], *, had_last: bool) -> bool:
    """Whether the turn of a thinking agent of `task` may go on as its last one: of `units` too little is left."""
    ledger: JsonObject = {} if task is None else task.status.get("ledger", {})
    return not had_last and all(_handover(ledger, unit, caps) > 0 for unit in units)


def _handover(ledger: JsonObject, unit: str, caps: Sequence[Own]) -> float:
    """What is kept of `unit` for the last turn: by the task's own account where that is used up, and by the caps."""
    account, kept = ledger.get(unit, {}), kept_of(caps, unit)
    if kept is not None and float(account.get("left", 1)) > 0:
        return float(kept)
    of_task = float(account.get("handover", 0))
    return of_task if kept is None else min(of_task, float(kept))


def waiting(view: View, agent: Resource, lacking: Spent | None = None) -> tuple[Change, ...]:
    """The changes that note that the parked agent waits for more, so that it is woken when there is as much.

    `lacking` are the units of which a request found too little; else those are waited for of which nothing is left.
    """
    books = books_of(view, agent)
    for unit in PARKING:
        left = books.left(unit)
        if lacking is not None and unit in lacking.asked:
            books.want(agent.uid, unit, lacking.asked[unit])
        elif left is not None and left <= 0:
            books.want(agent.uid, unit)
    return books.changes()


def is_low(left: Mapping[str, float], budget: Budget) -> bool:
    """Whether a fifth or less of a unit of the agent's task's own budget is left."""
    bounds = budget.to_json()
    return any(
        float(bound) - left.get(unit, float(bound)) >= float(bound) * limits.BUDGET_TOLD_AT
        for unit, bound in bounds.items()
    )
