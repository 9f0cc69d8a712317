"""Budgets down the tree: a child's is carved out of what its parent has left when the child starts.

One that is over the whole of what is above it can never be granted and is an error. Several that are over it together
are granted one after another, as the rest of those that end comes back: a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Final

from planloop.compiler.problems import Pointer, Problems
from planloop.compiler.resolve.needs import TaskPath
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.objects.budget import Budget, budget_from_json, unit_from_name


def lower_budget(written: Mapping[str, object]) -> Budget:
    """The lowered budget of a document's budget. Empty ones are one shared object."""
    return _budget(tuple(sorted(written.items()))) if written else _NONE


_NONE: Final = Budget()


@frozen
class TaskBounds:
    """Limits of a task and, by lowered unit, those of its agent (`TaskSpec.agent_bounds`)."""

    budget: Budget
    of_agent: JsonObject


def task_bounds(
    task: JsonObject, path: TaskPath, lines: Sequence[tuple[JsonObject, Pointer]], document: JsonObject
) -> TaskBounds:
    """The smaller of what the task and the budgets `lines` of its agent say; what was granted replaces the latter."""
    own: JsonObject = task.get("budget", {})
    granted: JsonObject = task.get("granted", {}).get("budget", {})
    written = dict(own)
    of_agent: JsonObject = {}
    for unit in dict.fromkeys((*(unit for line, _ in lines for unit in line), *granted)):
        place = (*json_pointer.task_pointer(path), "granted", "budget", unit)
        found = {".".join((*to, unit)): line[unit] for line, to in lines if unit in line}
        is_here = all(json_pointer.has_value(document, (*to, unit)) for line, to in lines if unit in line)
        least = granted[unit] if unit in granted else min(found.values(), key=float)
        if unit in granted or not is_here:
            found = {".".join(place): least}  # The plan does not set it, so the granted limit applies.
        written[unit] = least if unit not in own or float(least) < float(own[unit]) else own[unit]
        of_agent[unit_from_name(unit)] = {"task": own.get(unit), "lines": found}
    return TaskBounds(lower_budget(written), of_agent)


@lru_cache(maxsize=1024)
def _budget(pairs: tuple[tuple[str, object], ...]) -> Budget:
    return budget_from_json({unit_from_name(name): value for name, value in pairs})


@mutable
class _Pool:
    """What the task called `owner` has to give of one unit, and what of it no child was given yet."""

    owner: str
    whole: Decimal
    left: Decimal
    is_told: bool = False


def check_budgets(document: JsonObject, faults: Problems) -> None:
    """Tells where children are given more than the nearest task above them with a bound has, alone or together."""
    _check_below(document, (), {}, document.get("agents", {}), faults)


def _check_escalation(agent: JsonObject, to: Pointer, pools: Mapping[str, _Pool], faults: Problems) -> None:
    """Tells where a stronger model is given more than there is for all that its agent does."""
    for unit, value in agent.get("escalate", {}).get("budget", {}).items():
        if unit in pools and Decimal(str(value)) > pools[unit].whole:
            _tell_over(pools[unit], Decimal(str(value)), (*to, "escalate", "budget", unit), faults)


def _check_below(
    task: JsonObject, path: TaskPath, above: Mapping[str, _Pool], agents: JsonObject, faults: Problems
) -> None:
    own = task.get("budget", {})
    owner = "/".join(path) or "the plan"
    pools = {**above, **{unit: _pool(owner, value) for unit, value in own.items()}} if own else above
    agent = task.get("agent")
    if isinstance(agent, dict):
        _check_escalation(agent, (*json_pointer.task_pointer(path), "agent"), pools, faults)
    elif agent in agents:
        _check_escalation(agents[agent], ("agents", agent), pools, faults)
    for name, child in task.get("tasks", {}).items():
        for unit, value in child.get("budget", {}).items():
            if unit in pools:
                _draw(
                    pools[unit],
                    Decimal(str(value)),
                    (*json_pointer.task_pointer((*path, name)), "budget", unit),
                    faults,
                )
        # A child without a bound of its own gives on from the same pool as its siblings.
        _check_below(child, (*path, name), pools, agents, faults)


def _pool(owner: str, value: object) -> _Pool:
    amount = Decimal(str(value))
    return _Pool(owner, amount, amount)


def _draw(pool: _Pool, amount: Decimal, to: Pointer, faults: Problems) -> None:
    unit = to[-1]
    if amount > pool.whole:
        _tell_over(pool, amount, to, faults)
        return
    pool.left -= amount
    if pool.left < 0 and not pool.is_told:
        pool.is_told = True
        together = format_with_unit(unit, pool.whole - pool.left)
        summary = f"the budgets add up to {together}, more than {pool.owner} has ({format_with_unit(unit, pool.whole)})"
        hint = "the last of these tasks wait until others end and return their unused budget"
        faults.warn("P0307", summary, hint, to=to)


def _tell_over(pool: _Pool, amount: Decimal, to: Pointer, faults: Problems) -> None:
    unit = to[-1]
    shown, whole = format_with_unit(unit, amount), format_with_unit(unit, pool.whole)
    summary = f"budget.{unit} {shown} is more than {pool.owner} has ({whole})"
    faults.add("P0306", summary, f"raise the budget of {pool.owner}, or lower this one", to=to)


def format_with_unit(unit: str, amount: Decimal) -> str:
    """An amount with its unit."""
    if unit == "usd":
        return f"${amount:.2f}"
    return f"{amount:,f} s" if unit == "time" else f"{amount:,f}"
