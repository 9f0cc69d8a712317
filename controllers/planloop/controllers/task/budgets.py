"""A task's budget: granted out of what is left above it, and charged for its commands and retries. Pure.

The ledgers are in the statuses of tasks (`planloop.schemas.objects.budget`). A grant is carved in the record that
starts the task, a refund made when it and all below it have ended; in between, edits of the budget change the grant.
Waiting does not count as time: only a command that runs, and a turn of an agent, spend it.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from planloop.controllers.shared import ledger
from planloop.controllers.shared.ledger import LedgerEntries, add_usage
from planloop.controllers.task.observe import ObservedTask
from planloop.controllers.task.status import TaskStage
from planloop.controllers.task.step import TaskExplanation, observed_after
from planloop.schemas import json_patch
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.log.record import Change, SetStatus
from planloop.schemas.objects.budget import (
    ZERO,
    Cost,
    Unit,
    accounts_of,
    amounts_from_json,
    format_amount,
    handover_reserve,
)
from planloop.schemas.objects.task import ENDED, RunWork, TaskState
from planloop.schemas.resource import Resource

TIMEOUT_MIN_S = 0.1  # What is left of a budget may be next to nothing, and zero would mean no limit to some.
NO_BUDGET_LEFT = "NoBudgetLeft"
RAISE = ("what holds the rest of it ends", "the budget above is raised, or this one is lowered")


@frozen
class BudgetChange:
    """Entries in ledgers: `merge` for the task's own status, `changes` of others, and the task as `then` observed."""

    then: ObservedTask
    merge: JsonObject
    changes: tuple[Change, ...] = ()


def align_ledger(observed: ObservedTask) -> BudgetChange:
    """The ledger brought in line with the plan: edited, added, withdrawn and moved budgets, of a task that has begun.

    A raise that nobody can give is noted as wanted, and the task goes on with what it has: `pending` tells of it.
    """
    if not _has_budget(observed.me) or observed.me.deleting:
        return BudgetChange(observed, {})
    books = _books(observed)
    if _is_under_way(observed):
        for unit, amount, _ in _align(observed, books):
            books.want(observed.me.uid, unit, amount, above=observed.me.uid)
    else:
        _align_open(observed, books)
    return _entry(observed, books)


def grant_budget(observed: ObservedTask) -> BudgetChange:
    """The grants with which the task begins; where one is lacking it is left out, so ask `lacking` first."""
    if not _has_budget(observed.me):
        return BudgetChange(observed, {})
    books = _books(observed)
    _align(observed, books)
    return _entry(observed, books)


def request_budget(observed: ObservedTask) -> BudgetChange:
    """The notes that the task waits for grants, or for time, so that it is woken when there is as much."""
    books, me = _books(observed), observed.me.uid
    trial = _books(observed)
    for unit, amount, _ in _align(observed, trial):
        books.want(me, unit, amount, above=me)
    if time_left_s(observed) == 0:
        books.want(me, "time_s")
    return _entry(observed, books)


def bill_usage(observed: ObservedTask, *, time_s: float = 0.0, retries: int = 0) -> BudgetChange:
    """What a command or a retry used, counted in the nearest ledger."""
    if not observed.budget.above and not _has_budget(observed.me):
        return BudgetChange(observed, {})
    books = _books(observed)
    books.bill(Cost(time_s=time_s, retries=retries))
    return _entry(observed, books)


def refund_changes(observed: ObservedTask) -> tuple[Change, ...]:
    """The changes that give back the grants of tasks that are over: this one, or some above it."""
    books = _books(observed)
    for uid in observed.budget.over:
        books.refund(uid)
    return books.changes()


def removal_changes(observed: ObservedTask) -> tuple[Change, ...]:
    """The changes that give back the grants of this task, which is about to go, and keep what it cost at its parent."""
    books = _books(observed)
    books.refund(observed.me.uid)
    gone, parent = observed.me.status.get("gone"), observed.family.parent
    if not gone or parent is None:
        return books.changes()
    kept = SetStatus(parent.address, parent.uid, {"gone": add_usage(parent.status.get("gone", {}), gone)})
    return (*books.changes(), kept)


def missing_budget(observed: ObservedTask) -> TaskExplanation | None:
    """Why the task cannot begin with the budget that its plan states; None when it can, or has it."""
    unfunded = next((task for task in observed.budget.above if not _is_funded(task)), None)
    if unfunded is not None:
        says = f"{unfunded.address} does not have its own budget yet"
        return TaskExplanation(TaskState.WAITING, "ParentWaiting", says, (f"{unfunded.address} gets its budget",))
    if not observed.me.spec["budget"]:
        return None
    books = _books(observed)
    for unit, amount, left in _align(observed, books):
        giver = next(task for task in observed.budget.above if task.uid == books.holder(unit, above=observed.me.uid))
        asked, has = format_amount(unit, amount), format_amount(unit, left)
        says = f"its budget of {asked} is over what {_name(giver)} has left to give ({has})"
        way = ledger.raise_command(
            ledger.raise_settings(
                observed.budget.above[observed.budget.above.index(giver) :], unit, amount - max(left, ZERO)
            )
        )
        cure = (way, "what holds the rest of it ends")
        account = books.account(giver.uid, unit)
        may_come_back = account is not None and bool(account.granted or account.reserved)
        return TaskExplanation(TaskState.BLOCKED, NO_BUDGET_LEFT, says, cure, is_stuck=not may_come_back)
    return None


def pending_raise(me: Resource) -> str:
    """What the task goes on with while a raise of its budget cannot be given; empty when it has what is stated."""
    accounts = accounts_of(me.status)
    for unit, bound in amounts_from_json(me.spec["budget"]):
        account = accounts.get(unit)
        if account is not None and account.is_open and account.bound != bound:
            has = format_amount(unit, account.bound)
            return f"its budget of {format_amount(unit, bound)} is not there to give: it has {has}"
    return ""


def timeout_s(observed: ObservedTask) -> float | None:
    """Seconds until the command is stopped: its own limit under what the budgets leave it; None means no limit."""
    work = observed.spec.work
    bounds = [work.timeout_s if isinstance(work, RunWork) else None, time_left_s(observed)]
    stated = [bound for bound in bounds if bound is not None]
    return max(TIMEOUT_MIN_S, min(stated)) if stated else None


def time_left_s(observed: ObservedTask) -> float | None:
    """The active time that budgets leave the task, its own as if it were granted; None means that none bounds it."""
    return _left(observed, "time_s")


def more_time_command(observed: ObservedTask) -> str:
    """The command that gives the task as much time again as the budget that is used up."""
    purse = (observed.me, *observed.budget.above)
    holders = ledger.account_holders(purse, "time_s")
    stated = [bound for unit, bound in amounts_from_json(observed.me.spec["budget"]) if unit == "time_s"]
    bound = holders[0][1].bound if holders else sum(stated, ZERO)
    return ledger.raise_command(ledger.raise_settings(purse, "time_s", bound) or ["budget.time=1h"])


def retries_left(observed: ObservedTask) -> float | None:
    """The retries that budgets leave the task; None means that none bounds it."""
    used = accounts_of(observed.me.status).get("retries")
    stated = observed.me.spec["budget"].get("retries")
    if used is not None and not used.is_open and stated is not None:
        # What has failed and given its grant back is not tried again on a new one.
        return float(max(ZERO, stated - used.spent))
    return _left(observed, "retries")


def _left(observed: ObservedTask, unit: Unit) -> float | None:
    if not observed.budget.above and not _has_budget(observed.me):
        return None
    books = _books(observed)
    _align(observed, books)
    left = books.left(unit)
    return None if left is None else float(max(ZERO, left))


def _has_budget(task: Resource) -> bool:
    return bool(task.spec["budget"]) or "ledger" in task.status


def _is_funded(task: Resource) -> bool:
    """Whether every unit that the plan bounds of `task` has an open account."""
    ledger = task.status.get("ledger", {})
    return all(unit in ledger and not ledger[unit].get("closed") for unit in task.spec["budget"])


def _is_under_way(observed: ObservedTask) -> bool:
    """Whether the task, or something below it, is at work and may use what it is granted."""
    if observed.me.state in ENDED:  # A group that failed is still at stage `work`.
        return bool(observed.family.children.open)
    return observed.progress.stage in (TaskStage.WORK, TaskStage.VERIFY)


def _books(observed: ObservedTask) -> LedgerEntries:
    return LedgerEntries((observed.me, *observed.budget.above), observed.budget.kin)


def _entry(observed: ObservedTask, books: LedgerEntries) -> BudgetChange:
    changes = tuple(change for change in books.changes() if change.uid != observed.me.uid)
    merge = books.merge_of(observed.me.uid)
    if not merge and not changes:
        return BudgetChange(observed, {})
    merges = {change.uid: change.merge for change in changes}
    above = tuple(
        remade(task, status=json_patch.merge_values(task.status, merges[task.uid])) if task.uid in merges else task
        for task in observed.budget.above
    )
    then = observed_after(observed, merge)
    return BudgetChange(remade(then, budget=remade(then.budget, above=above)), merge, changes)


def _align(observed: ObservedTask, books: LedgerEntries) -> Sequence[tuple[Unit, Decimal, Decimal]]:
    """Makes the accounts of the task what its plan states; returns the units that nobody has enough of.

    Of each the bound that is stated and what there is left to give.
    """
    books.unwant(observed.me.uid)
    short = _align_open(observed, books)
    for unit, bound in amounts_from_json(observed.me.spec["budget"]):
        account = books.account(observed.me.uid, unit)
        if account is None or not account.is_open:
            left = books.grant(observed.me.uid, unit, bound, keeps=_keeps(observed, unit, bound))
            if left is not None:
                short.append((unit, bound, left))
    return short


def _align_open(observed: ObservedTask, books: LedgerEntries) -> list[tuple[Unit, Decimal, Decimal]]:
    """The same for the accounts that are open already."""
    me = observed.me.uid
    stated = dict(amounts_from_json(observed.me.spec["budget"]))
    above = {task.uid for task in observed.budget.above}
    short: list[tuple[Unit, Decimal, Decimal]] = []
    for unit in observed.me.status.get("ledger", {}):
        account = books.account(me, unit)
        if account is None or not account.is_open:
            continue
        if unit not in stated:
            books.withdraw(me, unit)
            continue
        if account.giver not in above and account.giver != books.holder(unit, above=me):
            books.move(me, unit)
        bound, keeps = stated[unit], _keeps(observed, unit, stated[unit])
        if (account.bound, account.keeps) != (bound, account.kept(unit, bound, keeps)):
            left = books.grant(me, unit, bound, keeps=keeps)
            if left is not None:
                short.append((unit, bound, left))
    return short


def _keeps(observed: ObservedTask, unit: Unit, bound: Decimal) -> Decimal:
    """What the task's agent keeps for its last turn: only one that thinks with a model has something to say in it."""
    agent = observed.motion.agent
    return handover_reserve(unit, bound) if agent is not None and agent.spec["mind"]["kind"] == "model" else ZERO


def _name(task: Resource) -> str:
    return "the plan" if task.spec["parent"] is None else task.address
