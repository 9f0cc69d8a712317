"""Budgets down the tree: each is carved out of what the parent has left; children together cannot exceed it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Final

from compiler.faults import Faults, Pointer
from compiler.needs import TaskPath
from schemas import pointer
from schemas.budget import Budget
from schemas.encoding import JsonObject

UNITS: Final = ("tokens", "usd", "time", "calls", "turns", "retries")


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


def check_budgets(document: JsonObject, faults: Faults) -> None:
    """Tells where children are given more than their parent has."""
    _check_below(document, (), {}, faults)


def _check_below(task: JsonObject, path: TaskPath, left: JsonObject, faults: Faults) -> None:
    own = task.get("budget", {})
    children = task.get("tasks", {})
    bounds = {**left, **{unit: Decimal(str(value)) for unit, value in own.items()}}
    if bounds:
        _check_children(children, path, bounds, faults)
    for name, child in children.items():
        _check_below(child, (*path, name), bounds, faults)


def _check_children(children: JsonObject, path: TaskPath, bounds: JsonObject, faults: Faults) -> None:
    spent: dict[str, Decimal] = {}
    for name, child in children.items():
        for unit, value in child.get("budget", {}).items():
            bound = bounds.get(unit)
            if bound is None:
                continue
            amount, before = Decimal(str(value)), spent.get(unit, Decimal(0))
            if before + amount > bound:
                to = (*pointer.of_task((*path, name)), "budget", unit)
                _exceeded(unit, amount, bound - before, "/".join(path) or "the plan", to, faults)
                continue
            spent[unit] = before + amount


def _exceeded(unit: str, amount: Decimal, left: Decimal, parent: str, to: Pointer, faults: Faults) -> None:
    summary = f"budget.{unit} {shown(unit, amount)} is over what {parent} has left to give ({shown(unit, left)})"
    faults.add("P0306", summary, f"raise the budget of {parent}, or lower this one", to=to)


def shown(unit: str, amount: Decimal) -> str:
    """An amount with its unit."""
    if unit == "usd":
        return f"${amount:.2f}"
    return f"{amount:,f} s" if unit == "time" else f"{amount:,f}"
