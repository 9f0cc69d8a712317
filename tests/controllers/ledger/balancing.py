"""What holds of all ledgers of a view at every revision, whatever happened."""

from __future__ import annotations

from decimal import Decimal

from planloop.reconciler.store.store import View
from planloop.schemas.objects.budget import ZERO, Account, Unit, accounts_of
from tests.product import Resource


def check_balanced(view: View) -> None:
    """Raises AssertionError when money was made, lost, or counted twice."""
    tasks: dict[str, Resource] = {task.uid: task for task in view.list("task")}
    books = {str(uid): accounts_of(task.status) for uid, task in tasks.items()}
    for uid, accounts in books.items():
        for unit, account in accounts.items():
            _check_sum(tasks[uid], unit, account)
            _check_family(tasks, books, uid, unit)


def _check_sum(task: Resource, unit: Unit, account: Account) -> None:
    where = f"{task.address} {unit} {task.status['ledger'][unit]}"
    left = Decimal(str(task.status["ledger"][unit]["left"]))
    granted = sum(account.granted.values(), ZERO)
    reserved = sum((sum(one.values(), ZERO) for one in account.reserved.values()), ZERO)
    assert left + account.spent + granted + reserved + account.handover == account.bound, where
    assert ZERO <= account.handover <= account.keeps, where
    assert account.spent >= 0 and min([*account.granted.values(), ZERO]) >= 0, where


def _check_family(tasks: dict[str, Resource], books: dict[str, dict[Unit, Account]], uid: str, unit: Unit) -> None:
    account = books[uid][unit]
    if not account.is_open:
        assert not account.granted and not account.reserved, f"{tasks[uid].address} is closed and holds {unit}"
        return
    for child, amount in account.granted.items():
        assert child in books, f"{tasks[uid].address} still grants {unit} to a task that is gone"
        held = books[child][unit]
        assert held.is_open and held.giver == uid, f"{tasks[child].address} has no grant of {tasks[uid].address}"
        assert held.held == amount, f"{tasks[child].address} holds {held.held} {unit}, granted are {amount}"
    if account.giver:
        giver = books[account.giver][unit]
        assert uid in giver.granted, f"{tasks[uid].address} lives on a grant that {tasks[account.giver].address} forgot"


def used_below(view: View, top: Resource, unit: Unit) -> Decimal:
    """What the account of `top` and the live grants out of it have used: a subtree's whole cost."""
    by_uid: dict[str, Resource] = {task.uid: task for task in view.list("task")}
    account = accounts_of(top.status)[unit]
    return account.spent + sum((used_below(view, by_uid[uid], unit) for uid in account.granted), ZERO)
