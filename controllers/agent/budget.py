"""Counting turns, calls and active time against every budget on the way to the root.

An agent's own use is in its status (`used`); what a task and everything below it used is in the task's status
(`spent`), kept only where somebody set a budget, and written by the record that ends a turn. Tokens and money come
with models and are counted by the same two functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from controllers.agent.status import Used
from reconciler.storing.store import View
from schemas.agent import AgentSpec
from schemas.budget import Budget
from schemas.encoding import JsonObject
from schemas.record import Change, SetStatus
from schemas.resource import Resource

UNITS: Final = ("turns", "calls", "time_s")
TELL_AT: Final = 0.8  # Share of a budget at which the agent is told how little is left.


def bounds_of(raw: JsonObject) -> dict[str, float]:
    """The units of a budget's JSON that are counted here."""
    return {unit: float(raw[unit]) for unit in UNITS if raw.get(unit) is not None}


def left_of(view: View, spec: AgentSpec, used: Used) -> dict[str, float]:
    """What is left of each bounded unit, the least over the agent and all tasks above it; never under zero."""
    left: dict[str, float] = {}
    _narrow(left, bounds_of(spec.budget.to_json()), used.to_json())
    for task in budgeted(view, spec.task):
        _narrow(left, bounds_of(task.spec["budget"]), task.status.get("spent", {}))
    return left


def _narrow(left: dict[str, float], bounds: Mapping[str, float], spent: JsonObject) -> None:
    for unit, bound in bounds.items():
        rest = max(0.0, bound - float(spent.get(unit, 0)))
        left[unit] = min(left.get(unit, rest), rest)


def budgeted(view: View, address: str) -> Sequence[Resource]:
    """The task at `address` and its ancestors, those that have a budget counted here."""
    found: list[Resource] = []
    at: str | None = address
    while at is not None:
        task = view.get(at)
        if task is None:
            break
        if bounds_of(task.spec["budget"]):
            found.append(task)
        at = task.spec["parent"]
    return found


def spending(view: View, address: str, turns: int, calls: int, time_s: float) -> tuple[Change, ...]:
    """The changes that add to what the budgeted tasks from `address` upward have spent."""
    changes: list[Change] = []
    for task in budgeted(view, address):
        spent = task.status.get("spent", {})
        total = Used(spent.get("turns", 0) + turns, spent.get("calls", 0) + calls, spent.get("time_s", 0.0) + time_s)
        changes.append(SetStatus(task.address, task.uid, {"spent": total.to_json()}))
    return tuple(changes)


def spent_out(left: Mapping[str, float]) -> tuple[str, ...]:
    """The units of which nothing is left."""
    return tuple(unit for unit, rest in left.items() if rest <= 0)


def is_low(left: Mapping[str, float], budget: Budget) -> bool:
    """Whether a fifth or less of a unit of the agent's own or its task's budget is left."""
    bounds = bounds_of(budget.to_json())
    return any(bound - left.get(unit, bound) >= bound * TELL_AT for unit, bound in bounds.items())
