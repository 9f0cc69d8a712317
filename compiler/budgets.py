"""Budgets down the tree: each is carved out of what the parent has left; children together cannot exceed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final

from compiler.faults import Faults, Pointer
from compiler.needs import TaskPath
from schemas import pointer
from schemas.budget import Budget
from schemas.encoding import JsonObject


def budget_of(written: Mapping[str, object]) -> Budget:
    """The lowered budget of a document's budget. Empty ones are one shared object."""
    return _budget(tuple(sorted(written.items()))) if written else _NONE


_NONE: Final = Budget()


@lru_cache(maxsize=1024)
def _budget(pairs: tuple[tuple[str, object], ...]) -> Budget:
    raw: JsonObject = dict(pairs)
    usd = raw.get("usd")
    return Budget(
        tokens=raw.get("tokens"),
        usd=None if usd is None else Decimal(str(usd)),
        time_s=raw.get("time"),
        calls=raw.get("calls"),
        turns=raw.get("turns"),
        retries=raw.get("retries"),
    )


@dataclass(slots=True)
class _Pool:
    """What the task called `owner` still has to give of one unit."""

    owner: str
    left: Decimal


def check_budgets(document: JsonObject, faults: Faults) -> None:
    """Tells where children are given more than is left of what the nearest task above them with a bound has."""
    _check_below(document, (), {}, faults)


def _check_below(task: JsonObject, path: TaskPath, above: Mapping[str, _Pool], faults: Faults) -> None:
    own = task.get("budget", {})
    owner = "/".join(path) or "the plan"
    pools = {**above, **{unit: _Pool(owner, Decimal(str(value))) for unit, value in own.items()}} if own else above
    for name, child in task.get("tasks", {}).items():
        for unit, value in child.get("budget", {}).items():
            if unit in pools:
                _draw(pools[unit], Decimal(str(value)), (*pointer.of_task((*path, name)), "budget", unit), faults)
        # A child without a bound of its own gives on from the same pool as its siblings.
        _check_below(child, (*path, name), pools, faults)


def _draw(pool: _Pool, amount: Decimal, to: Pointer, faults: Faults) -> None:
    if amount <= pool.left:
        pool.left -= amount
        return
    unit = to[-1]
    summary = (
        f"budget.{unit} {shown(unit, amount)} is over what {pool.owner} has left to give ({shown(unit, pool.left)})"
    )
    faults.add("P0306", summary, f"raise the budget of {pool.owner}, or lower this one", to=to)


def shown(unit: str, amount: Decimal) -> str:
    """An amount with its unit."""
    if unit == "usd":
        return f"${amount:.2f}"
    return f"{amount:,f} s" if unit == "time" else f"{amount:,f}"
