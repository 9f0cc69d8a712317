"""Before whom a conflict comes: the lowest agent above both parties that could answer, the next above, or a person.

Above means strictly above: who is a party is no judge.
"""

from __future__ import annotations

from planloop.reconciler.storing.store import View
from planloop.schemas import address as addresses
from planloop.schemas import patterns
from planloop.schemas.address import Address
from planloop.schemas.agent import AgentState
from planloop.schemas.conflict import PERSON
from planloop.schemas.task import ENDED, is_over

RESOLVE = "resolve"


def lowest_above(one: str, other: str) -> Address | None:
    """The lowest place in the tree that is strictly above both agents; None when one of them is at the root."""
    mine, theirs = addresses.parse(one).path, addresses.parse(other).path
    shared = 0
    while shared < min(len(mine), len(theirs)) and mine[shared] == theirs[shared]:
        shared += 1
    shared = min(shared, len(mine) - 1, len(theirs) - 1)
    return None if shared < 0 else addresses.agent(*mine[:shared])


def first_able(view: View, at: Address | None) -> str:
    """The agent at `at`, or the nearest above it, that could answer; PERSON when there is none."""
    while at is not None:
        if is_able(view, str(at)):
            return str(at)
        at = at.parent
    return PERSON


def next_above(view: View, agent: str) -> str:
    """The nearest above an agent that could answer; PERSON when there is none, and above a person."""
    return PERSON if agent == PERSON else first_able(view, addresses.parse(agent).parent)


def is_able(view: View, agent: str) -> bool:
    """Whether an agent could rule as things stand: it takes turns, and nobody has denied it to."""
    found = view.get(agent)
    if found is None or found.deleting or found.state == AgentState.PARKED:
        return False
    task = view.get(str(found.spec["task"]))
    if task is None or task.deleting or task.state in ENDED or is_over(task.status) or task.spec["pause"]:
        return False
    return not patterns.denied_by(found.spec["rights"].get("deny", ()), RESOLVE, ())


def is_above(agent: str, one: str, other: str) -> bool:
    """Whether an agent is strictly above both others, and so may rule."""
    mine = addresses.parse(agent)
    return all(addresses.parse(each).is_within(mine) and each != agent for each in (one, other))
