"""`bridge`: an ancestor lets some of those below it write to each other, for as long as it wants."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from planloop.controllers.agent.mail import inbox, topology
from planloop.controllers.agent.mail.inbox import Refusal
from planloop.controllers.agent.mail.topology import NotReachable
from planloop.controllers.agent.tools import threads
from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.controllers.agent.tools.threads import short_name
from planloop.controllers.agent.tools.tool import Context, Settlement, ok
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject
from planloop.schemas.message import Message
from planloop.schemas.record import Change, Drop
from planloop.schemas.thread import ThreadSpec


def bridge(
    context: Context,
    members: Annotated[list[str], Field(min_length=2, description="Agents below you, by their ids or paths.")],
    about: Annotated[str, Field(max_length=500, description="What they are to settle between them.")] = "",
    close: Annotated[bool, Field(description="Ends the bridge between them.")] = False,
) -> Settlement:
    """Lets agents below you `send` to each other, which by themselves they may not. They are told."""
    found = tuple(dict.fromkeys(_below(context, name) for name in members))
    if len(found) < 2:
        raise ToolFailed("BadArguments", "a bridge has two ends or more")
    names = ", ".join(short_name(context, each) for each in found)
    open_ones = [each for each in context.seen.threads.values() if each.spec["kind"] == "bridge"]
    standing = [each for each in open_ones if set(each.spec["speakers"]) == set(found)]
    if close:
        if not standing:
            raise ToolFailed("NotFound", f"there is no bridge between {names}")
        drops = tuple(Drop(each.address, each.uid) for each in standing)
        return Settlement(
            ok(f"{names} may not write to each other any more"), (*drops, *_told(context, found, "closed", about))
        )
    if standing:
        return Settlement(ok(f"{names} may write to each other already"))
    if len(open_ones) >= limits.BRIDGES_MAX:
        raise ToolFailed("TooMany", f"at most {limits.BRIDGES_MAX} bridges stand at once: close one")
    _, opened = threads.opened(context, ThreadSpec("bridge", context.agent, about, found))
    return Settlement(ok(f"{names} may write to each other"), (*opened, *_told(context, found, "open", about)))


def _below(context: Context, name: str) -> str:
    try:
        return topology.below(context.world.store.view, context.agent, name).address
    except NotReachable as error:
        raise ToolFailed(error.reason, str(error)) from None


def _told(context: Context, members: tuple[str, ...], state: str, about: str = "") -> tuple[Change, ...]:
    changes: tuple[Change, ...] = ()
    for member in members:
        others = [each.partition("/")[2] for each in members if each != member]
        facts: JsonObject = {"key": f"bridge to {', '.join(others)}", "bridge": state, "with": others, "about": about}
        message_id = f"{context.spec.op}.{member.partition('/')[2]}"
        told = Message(message_id, "state", context.agent, member, facts, context.seen.now, wakes=False)
        delivered = inbox.delivery(context.world.store.view, told)
        changes += () if isinstance(delivered, Refusal) else delivered
    return changes
