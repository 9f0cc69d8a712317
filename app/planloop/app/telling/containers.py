"""Which container is meant, and who works with it. What it is and how it stands is `description.py`'s."""

from __future__ import annotations

from planloop.app.exits import Exit, Halt
from planloop.app.telling.waiting import Objects
from planloop.cli.chatting.room import works_in
from planloop.schemas.container import KIND
from planloop.schemas.resource import Resource


def required(plan: Objects, name: str) -> Resource:
    """The container called so. Raises Halt."""
    item = plan.get(f"{KIND}/{name}")
    if item is None:
        raise Halt(Exit.NOT_FOUND, f"no {KIND}/{name[:80]} in this plan", "plan get containers lists what there is")
    return item


def talked_with(plan: Objects, item: Resource) -> str:
    """The agent that works with the container. Raises Halt when none does."""
    return works_in(item, plan.list("task"), plan.list("agent"))
