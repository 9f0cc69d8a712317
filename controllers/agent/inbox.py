"""Messages: who may write to whom, and how one gets into an inbox.

An unread message is a row in the receiver's status; it leaves in the record of the turn that contains it, so nothing
is delivered twice or lost. A message never grants anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reconciler.storing.store import View
from schemas import address as addresses
from schemas import limits
from schemas.address import Address, BadAddress
from schemas.encoding import JsonObject, encode
from schemas.frozen import frozen
from schemas.message import Message
from schemas.record import Change, SetStatus
from schemas.resource import Resource

PARENT: Final = "parent"
CHILDREN: Final = "children"


@frozen
class Refusal:
    """Why a message was not delivered: `NoSuchAgent`, `NotAllowed`, `Full` or `TooLong`."""

    reason: str
    message: str


def delivery(view: View, message: Message) -> tuple[Change, ...] | Refusal:
    """The changes that put `message` into its receiver's inbox. Does not look at topology: people may write to all.

    Of `state` messages only the newest of a sender and key is kept.
    """
    receiver = view.get(message.receiver)
    if receiver is None or receiver.deleting:
        return Refusal("NoSuchAgent", f"there is no {message.receiver}")
    if len(encode(message.body)) > limits.MESSAGE_BYTES_MAX:
        return Refusal("TooLong", f"a message has at most {limits.MESSAGE_BYTES_MAX} bytes: put it in a file")
    inbox = receiver.status.get("inbox", {})
    replaced = [key for key, raw in inbox.items() if _is_older_state(raw, message)]
    if len(inbox) - len(replaced) >= limits.INBOX_MESSAGES_MAX:
        return Refusal("Full", f"{message.receiver} has {limits.INBOX_MESSAGES_MAX} unread messages")
    merge = {**dict.fromkeys(replaced), message.id: message.to_json()}
    return (SetStatus(receiver.address, receiver.uid, {"inbox": merge}),)


def _is_older_state(raw: dict[str, object], message: Message) -> bool:
    body = raw.get("body")
    if message.kind != "state" or raw.get("kind") != "state" or raw.get("sender") != message.sender:
        return False
    key = message.body.get("key") if isinstance(message.body, dict) else None
    return key is not None and isinstance(body, dict) and body.get("key") == key


def receivers(view: View, sender: Resource, to: str) -> Sequence[str] | Refusal:
    """The agents that `sender` means by `to`: `parent`, `children`, `siblings`, a child's id, or an agent's path.

    Asking upward is always possible; other directions need the agent's topology.
    """
    mine = addresses.parse(sender.address)
    allowed = tuple(str(name) for name in sender.spec["talk_to"])
    named = _named(view, mine, to)
    if isinstance(named, Refusal):
        return named
    barred = [each for each in named if not may_talk(mine, addresses.parse(each), allowed)]
    if barred:
        return Refusal("NotAllowed", f"{sender.address} may talk to {', '.join(allowed)}, not to {barred[0]}")
    return named


def may_talk(sender: Address, receiver: Address, allowed: Sequence[str]) -> bool:
    """Whether topology lets `sender` write to `receiver`."""
    if receiver.path == sender.path[: len(receiver.path)] and receiver != sender:
        return True
    is_child = receiver.path[:-1] == sender.path and bool(receiver.path)
    is_sibling = _is_sibling(sender, receiver)
    path = "/".join(receiver.path) or addresses.ROOT
    return (
        (CHILDREN in allowed and is_child)
        or ("siblings" in allowed and is_sibling)
        or not {"all", "*", path, str(receiver)}.isdisjoint(allowed)
    )


def _named(view: View, mine: Address, to: str) -> Sequence[str] | Refusal:
    if to == PARENT:
        above = nearest_above(view, mine)
        return [above] if above else Refusal("NoSuchAgent", "nobody is above the root but the person who applied it")
    if to in (CHILDREN, "siblings"):
        return [each.address for each in view.list("agent") if _is_related(mine, addresses.parse(each.address), to)]
    path = to.removeprefix("agent/").removeprefix("task/")
    try:
        candidates = (
            str(addresses.parse(f"agent/{'/'.join((*mine.path, path))}")),
            str(addresses.parse(f"agent/{path}")),
        )
    except BadAddress as error:
        return Refusal("NoSuchAgent", str(error))
    found = next((address for address in candidates if view.get(address) is not None), None)
    return [found] if found else Refusal("NoSuchAgent", f"there is no agent `{to}`")


def _is_related(mine: Address, other: Address, how: str) -> bool:
    if how == CHILDREN:
        return other.path[:-1] == mine.path and bool(other.path)
    return _is_sibling(mine, other)


def _is_sibling(mine: Address, other: Address) -> bool:
    # The root's path is as long as no child's: it is nobody's sibling.
    return len(other.path) == len(mine.path) and other.path[:-1] == mine.path[:-1] and other != mine


def telling_above(view: View, agent: Resource, body: JsonObject, message_id: str, now: float) -> tuple[Change, ...]:
    """The changes that tell the agent above of a fact about `agent`; none when nobody is there or its inbox is full."""
    above = nearest_above(view, addresses.parse(agent.address))
    if above is None:
        return ()
    delivered = delivery(view, Message(message_id, "state", agent.address, above, body, now))
    return () if isinstance(delivered, Refusal) else delivered


def nearest_above(view: View, mine: Address) -> str | None:
    """The agent of the nearest task above that has one; groups have none."""
    above = mine.parent
    while above is not None:
        if view.get(str(above)) is not None:
            return str(above)
        above = above.parent
    return None
