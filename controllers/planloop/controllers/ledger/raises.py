"""The lines of a plan that bound a task, and the command that raises them. Pure.

A bound is raised together with those above it that it is granted out of, where they have too little left: one command
is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from planloop.schemas import address as addresses
from planloop.schemas import pointer
from planloop.schemas.encoding import JsonObject
from planloop.schemas.ledger import ZERO, Account, Unit, accounts_of, amount_of, named, rounded_up
from planloop.schemas.resource import Resource


def holders(purse: Sequence[Resource], unit: Unit) -> list[tuple[Resource, Account]]:
    """The tasks that have an open account, nearest first."""
    found = ((task, accounts_of(task.status).get(unit)) for task in purse)
    return [(task, account) for task, account in found if account is not None and account.is_open]


def left_of(purse: Sequence[Resource], unit: Unit) -> Decimal | None:
    """What the accounts leave for ordinary work; None when nothing bounds it."""
    left: Decimal | None = None
    for _, account in holders(purse, unit):
        left = account.left if left is None else left + min(ZERO, account.left)
    return left


def raised(purse: Sequence[Resource], unit: Unit, more: Decimal) -> list[str]:
    """The settings that raise the nearest account by `more`, and those that it is granted out of where they lack it."""
    found_in = holders(purse, unit)
    if not found_in:
        return []
    task, account = found_in[0]
    wanted = rounded_up(unit, account.bound + more)
    found = [f"{path}={wanted}" for path, said in lines_of(task, unit) if said < _number(unit, wanted)]
    if not account.giver or len(found_in) == 1:
        return found
    needed = max(_number(unit, wanted), account.committed) - account.held
    above = purse[_at(purse, found_in[1][0]) :]
    lacking = needed - (left_of(above, unit) or ZERO)
    return [*raised(above, unit, lacking), *found] if lacking > 0 else found


def _number(unit: Unit, written: str) -> Decimal:
    return amount_of(unit, written.rstrip("s") if unit == "time_s" else written)


def _at(purse: Sequence[Resource], task: Resource) -> int:
    return next(index for index, one in enumerate(purse) if one.uid == task.uid)


def lines_of(task: Resource, unit: Unit) -> list[tuple[str, Decimal]]:
    """The lines that state the bound of a task, each as `plan patch .` takes it, with what it says."""
    said: JsonObject = (task.spec.get("agent_bounds") or {}).get(unit, {})
    own = ".".join((*pointer.of_task(addresses.parse(task.address).path), "budget", named(unit)))
    found = {path: amount_of(unit, value) for path, value in said.get("lines", {}).items()}
    stated = said.get("task") if said else (task.spec.get("budget") or {}).get(unit)
    if stated is not None:
        found[own] = amount_of(unit, stated)
    return list(found.items())


def command(settings: Sequence[str]) -> str:
    """One command for all of them. One task's own line is written as a person would."""
    if len(settings) == 1:
        path, _, value = settings[0].partition("=")
        tokens = tuple(path.split("."))
        head, unit = tokens[:-2], tokens[-1]
        names = head[1::2]
        if tokens[-2:-1] == ("budget",) and head == pointer.of_task(names):
            return f"plan patch {'task/' + '/'.join(names) if names else '.'} budget.{unit}={value}"
    return f"plan patch . {' '.join(settings)}"
