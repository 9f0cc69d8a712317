"""Who waits for whom: a hook is not asked by an agent that it waits for itself, at whatever distance.

An agent waits for the speaker of its discussion, for the children whose ends it wants, and for its hooks. Found from
the objects at every look; nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from planloop.reconciler.storing.store import View
from planloop.schemas.call import CallState
from planloop.schemas.resource import Resource


def waits_for(view: View, agent: str, other: str) -> bool:
    """Whether `agent` goes on only when `other` has done something, directly or through others that it waits for."""
    known, front = {agent}, [agent]
    while front:
        for each in _next(view, front.pop()):
            if each == other:
                return True
            if each not in known:
                known.add(each)
                front.append(each)
    return False


def _next(view: View, agent: str) -> Iterator[str]:
    for each in view.owned_by(agent):
        if each.kind == "thread":
            yield from _asked(view, each)
        elif each.kind == "call" and each.state == CallState.AWAITING_CHILD:
            for task in each.status.get("ends", ()):
                yield str(task).replace("task/", "agent/", 1)


def _asked(view: View, thread: Resource) -> Iterator[str]:
    spec = thread.spec
    if spec["kind"] == "hook":
        if not thread.status.get("answers"):
            yield str(spec["speakers"][0])
    elif spec["kind"] == "discuss" and view.get(str(spec["call"])) is not None:
        yield str(spec["speakers"][int(thread.status.get("asked", 0))])
