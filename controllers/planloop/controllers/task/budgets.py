"""Budget of a task: granted from what its ancestors have left, charged for its commands and retries. Pure.

The ledgers are in the statuses of tasks (`planloop.schemas.objects.budget`). The record that starts a task also grants
its budget; the rest is refunded when the task and all its descendants have ended. Edits of the budget in between change
the grant. Only running commands and turns of agents use time; waiting does not.
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

TIMEOUT_MIN_S = 0.1  # Some programs take a time limit of zero as no limit.
NO_BUDGET_LEFT = "NoBudgetLeft"
OTHERS_END = "a task that holds the rest of the budget ends"
RAISE = (OTHERS_END, "raise the parent's budget, or lower this one")


@frozen
class BudgetChange:
    """Entries in ledgers: `merge` for the task's status, `changes` of other tasks, and the observed task after both."""

    then: ObservedTask
    merge: JsonObject
    changes: tuple[Change, ...] = ()


def align_ledger(observed: ObservedTask) -> BudgetChange:
    """Return the entries that apply edited, added, removed and moved budgets to a task that has begun.

    A raise that no ancestor can grant is noted as wanted, and the task continues with what it has (`pending_raise`).
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
    """Return the grants with which the task begins. Grants that cannot be made are left out: call `missing_budget`
    first.
    """
    if not _has_budget(observed.me):
        return BudgetChange(observed, {})
    books = _books(observed)
    _align(observed, books)
    return _entry(observed, books)


def request_budget(observed: ObservedTask) -> BudgetChange:
    """Return the entries that note which grants the task waits for, so that it is woken when they can be made."""
    books, me = _books(observed), observed.me.uid
    trial = _books(observed)
    for unit, amount, _ in _align(observed, trial):
        books.want(me, unit, amount, above=me)
    if time_left_s(observed) == 0:
        books.want(me, "time_s")
    return _entry(observed, books)


def bill_usage(observed: ObservedTask, *, time_s: float = 0.0, retries: int = 0) -> BudgetChange:
    """Return the entries that charge the usage of a command or a retry to the nearest ledger."""
    if not observed.budget.above and not _has_budget(observed.me):
        return BudgetChange(observed, {})
    books = _books(observed)
    books.bill(Cost(time_s=time_s, retries=retries))
    return _entry(observed, books)


def refund_changes(observed: ObservedTask) -> tuple[Change, ...]:
    """Return the changes that refund the grants of ended tasks: this one, or some of its ancestors."""
    books = _books(observed)
    for uid in observed.budget.over:
        books.refund(uid)
    return books.changes()


def removal_changes(observed: ObservedTask) -> tuple[Change, ...]:
    """Return the changes that refund the grants of a task that is being removed, and add its cost to its parent."""
    books = _books(observed)
    books.refund(observed.me.uid)
    gone, parent = observed.me.status.get("gone"), observed.family.parent
    if not gone or parent is None:
        return books.changes()
    kept = SetStatus(parent.address, parent.uid, {"gone": add_usage(parent.status.get("gone", {}), gone)})
    return (*books.changes(), kept)


def missing_budget(observed: ObservedTask) -> TaskExplanation | None:
    """Return why the task cannot get the budget that its plan states; None if it can, or has it."""
    unfunded = next((task for task in observed.budget.above if not _is_funded(task)), None)
    if unfunded is not None:
        says = f"{unfunded.address} has not got its own budget yet"
        return TaskExplanation(TaskState.WAITING, "ParentWaiting", says, (f"{unfunded.address} gets its budget",))
    if not observed.me.spec["budget"]:
        return None
    books = _books(observed)
    for unit, amount, left in _align(observed, books):
        giver = next(task for task in observed.budget.above if task.uid == books.holder(unit, above=observed.me.uid))
        asked, has = format_amount(unit, amount), format_amount(unit, left)
        says = f"its budget of {asked} is more than {_name(giver)} has left to give ({has})"
        way = ledger.raise_command(
            ledger.raise_settings(
                observed.budget.above[observed.budget.above.index(giver) :], unit, amount - max(left, ZERO)
            )
        )
        account = books.account(giver.uid, unit)
        may_come_back = account is not None and bool(account.granted or account.reserved)
        return TaskExplanation(TaskState.BLOCKED, NO_BUDGET_LEFT, says, (way, OTHERS_END), is_stuck=not may_come_back)
    return None


def pending_raise(me: Resource) -> str:
    """Return the message about a budget raise that cannot be granted; empty if the task has its stated budget."""
    accounts = accounts_of(me.status)
    for unit, bound in amounts_from_json(me.spec["budget"]):
        account = accounts.get(unit)
        if account is not None and account.is_open and account.bound != bound:
            has = format_amount(unit, account.bound)
            return f"its budget of {format_amount(unit, bound)} cannot be granted now; it continues with {has}"
    return ""


def timeout_s(observed: ObservedTask) -> float | None:
    """Return the seconds until the command is stopped: the smaller of its timeout and the time left in its budgets.

    None means no limit.
    """
    work = observed.spec.work
    bounds = [work.timeout_s if isinstance(work, RunWork) else None, time_left_s(observed)]
    stated = [bound for bound in bounds if bound is not None]
    return max(TIMEOUT_MIN_S, min(stated)) if stated else None


def time_left_s(observed: ObservedTask) -> float | None:
    """Return the seconds of active time left in the task's budgets, its own counted as granted; None if unlimited."""
    return _left(observed, "time_s")


def more_time_command(observed: ObservedTask) -> str:
    """Return the command that adds as much time as the used-up budget had."""
    purse = (observed.me, *observed.budget.above)
    holders = ledger.account_holders(purse, "time_s")
    stated = [bound for unit, bound in amounts_from_json(observed.me.spec["budget"]) if unit == "time_s"]
    bound = holders[0][1].bound if holders else sum(stated, ZERO)
    return ledger.raise_command(ledger.raise_settings(purse, "time_s", bound) or ["budget.time=1h"])


def retries_left(observed: ObservedTask) -> float | None:
    """Return the retries left in the task's budgets; None if unlimited."""
    used = accounts_of(observed.me.status).get("retries")
    stated = observed.me.spec["budget"].get("retries")
    if used is not None and not used.is_open and stated is not None:
        # A failed task that returned its grant gets no new grant for retries.
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
    """Whether every unit that the budget of `task` limits has an open account."""
    ledger = task.status.get("ledger", {})
    return all(unit in ledger and not ledger[unit].get("closed") for unit in task.spec["budget"])


def _is_under_way(observed: ObservedTask) -> bool:
    """Return whether the task or a descendant is working and may use its grant."""
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
    """Make the accounts of the task what its plan states.

    Returns the units of which no ancestor has enough, each with the stated bound and the amount left to give.
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
    """Make the open accounts what the plan states; returns the same as `_align`."""
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
    """Return the amount that an LLM agent keeps for its last turn; zero for other deciders, which have none."""
    agent = observed.motion.agent
    return handover_reserve(unit, bound) if agent is not None and agent.spec["mind"]["kind"] == "model" else ZERO


def _name(task: Resource) -> str:
    return "the plan" if task.spec["parent"] is None else task.address
