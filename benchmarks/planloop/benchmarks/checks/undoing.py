"""What an agent that plans must never do, by the words of `never`: each says why it did, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from planloop.benchmarks.checks.doings import ENDED, MEASURED, Doings


def _children(found: Doings) -> str:
    children = found.children()
    return f"a task was added: `{children[0].name}`" if children else ""


def _left_running(found: Doings) -> str:
    claim = found.claim()
    if claim is None:
        return ""
    for task in found.children():
        state = task.state_at(claim)
        if task.made < claim and state not in ENDED and state != "removed":
            return f"it said that it was done while `{task.name}` was {state}"
    return ""


def _lock_violated(found: Doings) -> str:
    own = found.own()
    guilty = next((call for call in found.calls if call.has_violated and call.by in own), None)
    return f"a command changed what others had locked: {guilty.tool}" if guilty else ""


def _over_budget(found: Doings) -> str:
    own = found.own()
    parked = [by for _, by in found.parked if by in own]
    return f"the budget of {_who(parked[0])} was used up" if parked else ""


def _refused(found: Doings) -> str:
    own = found.own()
    call = next((call for call in found.calls if call.is_refused and call.by in own), None)
    if call is not None:
        return f"`{call.tool}` was turned down: {call.text[:200]}"
    patch = next((why for _, by, why in found.refused if by in own), None)
    return f"a change of the plan was turned down: {patch[:200]}" if patch is not None else ""


def _refused_again(found: Doings) -> str:
    own, seen = found.own(), set[tuple[str, str]]()
    for call in found.calls:
        if call.is_refused and call.by in own:
            if call.likeness in seen:
                return f"`{call.tool}` was turned down and tried once more in the same way"
            seen.add(call.likeness)
    return ""


def _who(by: str) -> str:
    return "the agent" if by == MEASURED else f"`{by}`"


WORDS: Final[Mapping[str, Callable[[Doings], str]]] = MappingProxyType(
    {
        "children": _children,
        "left-running": _left_running,
        "lock-violated": _lock_violated,
        "over-budget": _over_budget,
        "refused": _refused,
        "refused-again": _refused_again,
    }
)
