"""Check budgets in a patch against what is left in the ledgers of running tasks. Pure.

An existing grant cannot be raised above what its giver has left, for any author. If a person adds a task, its budget
may exceed what is left, because the task can wait; an agent can give its children only what it has. Lowering is always
allowed: below the amount already spent, work pauses at its next boundary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Final

from planloop.reconciler.store.store import View
from planloop.schemas import address as addresses
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.patch import PatchProblem
from planloop.schemas.objects.budget import (
    ZERO,
    Account,
    Unit,
    accounts_of,
    amounts_from_json,
    exact_amount,
    format_amount,
    round_up,
    unit_from_name,
    unit_to_name,
)
from planloop.schemas.resource import Resource, WantedObject

STATIC: Final = "P0306"
"""The compiler's code for the same problem, found by the sums of the plan (`planloop.compiler.resolve.budgets`)."""


@frozen
class BudgetRequest:
    """A limit that a patch sets, for the task at `address`, which may not exist yet, below `parent`."""

    address: str
    parent: str | None
    unit: Unit
    amount: Decimal


def requested_budgets(live: Mapping[str, Resource], wanted: Mapping[str, WantedObject]) -> Iterator[BudgetRequest]:
    """Yield the limits that differ from the live plan."""
    for address, want in wanted.items():
        stated: JsonObject = want.spec.get("budget") or {} if address.startswith("task/") else {}
        if not stated:
            continue
        old = live.get(address)
        before: JsonObject = {} if old is None else old.spec.get("budget") or {}
        for unit, amount in amounts_from_json(stated):
            if before.get(unit) != stated[unit]:
                yield BudgetRequest(address, want.spec.get("parent"), unit, amount)


def requested_budgets_of_documents(
    before: JsonObject, after: JsonObject, path: tuple[str, ...] = ()
) -> Iterator[BudgetRequest]:
    """Yield the differing limits from two documents, for a document whose sums are wrong, so that it has no objects."""
    stated, old = after.get("budget"), before.get("budget")
    address = str(addresses.task_address(*path))
    parent = str(addresses.task_address(*path[:-1])) if path else None
    for word, value in stated.items() if isinstance(stated, dict) else ():
        unit = unit_from_name(str(word))
        if not isinstance(old, dict) or old.get(word) != value:
            yield BudgetRequest(address, parent, unit, exact_amount(unit, value))
    children, known = after.get("tasks"), before.get("tasks")
    for name, child in children.items() if isinstance(children, dict) else ():
        was = known.get(name) if isinstance(known, dict) else None
        if isinstance(child, dict):
            yield from requested_budgets_of_documents(was if isinstance(was, dict) else {}, child, (*path, str(name)))


def budget_faults(asked: Iterable[BudgetRequest], view: View, *, is_agent: bool) -> Iterator[PatchProblem]:
    """Yield problems for limits above what their giver has left. Several limits from one account are added up.

    If the same patch raises the giver's budget, the raise counts.
    """
    wishes = list(asked)
    given = {(one.address, one.unit): -_raise(view, one) for one in wishes}
    for one in wishes:
        task = view.get(one.address)
        account = None if task is None else accounts_of(task.status).get(one.unit)
        is_held = account is not None and account.is_open
        if not is_held and not is_agent:
            continue
        giver = _giver(view, one, account if is_held else None)
        if giver is None:
            continue
        left = _left(view, giver, one.unit) - given.get((giver.address, one.unit), ZERO)
        held = account.held if account is not None and is_held else ZERO
        needed = one.amount - held
        if needed > max(left, ZERO):
            yield _fault(one, giver, max(ZERO, left) + held)
        else:
            given[giver.address, one.unit] = given.get((giver.address, one.unit), ZERO) + needed


def _raise(view: View, one: BudgetRequest) -> Decimal:
    """The increase of the limit of a task that already has one."""
    task = view.get(one.address)
    account = None if task is None else accounts_of(task.status).get(one.unit)
    return max(ZERO, one.amount - account.bound) if account is not None and account.is_open else ZERO


def _giver(view: View, one: BudgetRequest, account: Account | None) -> Resource | None:
    """The task whose account a grant is, or would be, taken from."""
    if account is not None and not account.giver:
        return None
    at = view.get(one.parent) if one.parent is not None else None
    while at is not None:
        found = accounts_of(at.status).get(one.unit)
        if found is not None and found.is_open and (account is None or account.giver == at.uid):
            return at
        at = view.get(at.spec["parent"]) if at.spec.get("parent") else None
    return None


def _left(view: View, giver: Resource, unit: Unit) -> Decimal:
    """What the giver has left, minus the amounts by which limits of ancestors were lowered below their usage."""
    left = accounts_of(giver.status)[unit].left
    at = view.get(giver.spec["parent"]) if giver.spec.get("parent") else None
    while at is not None:
        found = accounts_of(at.status).get(unit)
        if found is not None and found.is_open:
            left += min(ZERO, found.left)
        at = view.get(at.spec["parent"]) if at.spec.get("parent") else None
    return left


def _fault(one: BudgetRequest, giver: Resource, most: Decimal) -> PatchProblem:
    unit = unit_to_name(one.unit)
    name = _name(giver)
    path = (*json_pointer.task_pointer(addresses.parse_address(one.address).path), "budget", unit)
    bound = accounts_of(giver.status)[one.unit].bound
    enough = round_up(one.unit, bound + one.amount - most)
    at = "." if giver.spec.get("parent") is None else giver.address
    return PatchProblem(
        "budget",
        f"budget.{unit} {format_amount(one.unit, one.amount)} is more than {name} has left "
        f"({format_amount(one.unit, most)})",
        path,
        f"raise {name}'s budget first: plan patch {at} budget.{unit}={enough}",
    )


def _name(task: Resource) -> str:
    return "the plan" if task.spec.get("parent") is None else task.address
