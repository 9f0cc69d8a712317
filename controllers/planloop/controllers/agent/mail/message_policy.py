"""Rules of messages: which agents may write to which, and how a message enters an inbox or is rejected. Pure.

An agent may always write to its ancestors; to others if the plan allows it, over an open bridge, or during a conflict.
An unread message is a row in the receiver's status. The record of the turn that reads it removes the row, so every
message is delivered exactly once. The sender's status counts its messages to each receiver. A message never grants
rights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from planloop.reconciler.store.store import View
from planloop.schemas import address as addresses
from planloop.schemas import limits
from planloop.schemas.address import Address, BadAddress
from planloop.schemas.canonical_json import Json, JsonObject, encode, sha256_of_value
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, SetStatus
from planloop.schemas.objects import conflict
from planloop.schemas.objects.hook import is_hook_agent
from planloop.schemas.objects.message import Message, message_from_json, thread_from_json
from planloop.schemas.resource import Resource

PARENT: Final = "parent"
CHILDREN: Final = "children"
SIBLINGS: Final = "siblings"
ALL_RECEIVERS: Final = frozenset({"all", "*"})


class NotReachable(Exception):
    """The receiver does not exist or may not be written to. `reason` is NoSuchAgent or NotAllowed."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def resolve_receivers(view: View, sender: Resource, to: str) -> Sequence[str]:
    """Return the agents that `to` names for `sender`: `parent`, `children`, `siblings`, an id, or an agent's path.

    An id is searched among the sender's children, then its siblings, then from the root. Raises NotReachable.
    """
    mine = addresses.parse_address(sender.address)
    named = _named(view, mine, to)
    for each in named:
        if not may_write_to(view, sender, addresses.parse_address(each)):
            talks = ", ".join(str(name) for name in sender.spec["talk_to"])
            raise NotReachable("NotAllowed", f"{sender.address} may not write to {each}, only to {talks}")
    return named


def resolve_names(view: View, sender: Resource, to: str) -> Sequence[str]:
    """Return the agents that `to` names for `sender`, without a check of the topology. Raises NotReachable."""
    return _named(view, addresses.parse_address(sender.address), to)


def agent_below(view: View, agent: str, name: str) -> Resource:
    """Return the descendant of `agent` with that id or path, which may not be a hook. Raises NotReachable."""
    mine = addresses.parse_address(agent)
    path = [part for part in name.removeprefix("agent/").split("/") if part]
    for candidate in (addresses.agent_address(*mine.path, *path), addresses.agent_address(*path)):
        found = view.get(str(candidate))
        is_below = found is not None and found.address != agent and candidate.is_within(mine)
        if found is not None and is_below and not is_hook_agent(found.address):
            return found
    raise NotReachable("NoSuchAgent", f"there is no agent `{name}` below you")


def may_write_to(view: View, sender: Resource, receiver: Address) -> bool:
    """Whether the plan, a bridge or a conflict lets `sender` write to `receiver`."""
    mine = addresses.parse_address(sender.address)
    allowed = tuple(str(name) for name in sender.spec["talk_to"])
    if receiver == mine or is_hook_agent(str(receiver)):
        return False  # Only people may write to the agent of a hook.
    if CHILDREN in allowed and nearest_agent_above(view, receiver) == str(mine):
        return True
    one, other = str(mine), str(receiver)
    return (
        is_topology_open(mine, receiver, allowed)
        or open_bridge(view, one, other) is not None
        or any(open_conflicts_between(view, one, other))
    )


def is_topology_open(sender: Address, receiver: Address, allowed: Sequence[str]) -> bool:
    """Whether the topology alone lets `sender` write to `receiver`."""
    if receiver == sender:
        return False
    if receiver.path == sender.path[: len(receiver.path)]:
        return True
    path = "/".join(receiver.path) or addresses.ROOT
    return (
        (CHILDREN in allowed and receiver.parent == sender)
        or (SIBLINGS in allowed and _is_sibling(sender, receiver))
        or not ALL_RECEIVERS.union({path, str(receiver)}).isdisjoint(allowed)
    )


def open_bridge(view: View, one: str, other: str) -> str | None:
    """Return the address of an open bridge between the agents, opened by a common ancestor, or None."""
    for each in view.list("thread"):
        if each.spec["kind"] != "bridge":
            continue
        spec = thread_from_json(each.spec)
        owner = addresses.parse_address(spec.owner)
        is_above = all(addresses.parse_address(member).is_within(owner) for member in (one, other))
        if is_above and one in spec.speakers and other in spec.speakers and view.get(spec.owner) is not None:
            return each.address
    return None


def open_conflicts_between(view: View, one: str, other: str) -> Iterator[str]:
    """Yield the open conflicts between two agents, during which they may write to each other."""
    for each in view.list(conflict.CONFLICT_KIND):
        is_theirs = {one, other} == set(conflict.conflict_from_json(each.spec).parties)
        if is_theirs and conflict.conflict_status_from_json(each.status).is_open:
            yield each.address


def nearest_agent_above(view: View, mine: Address) -> str | None:
    """Return the agent of the nearest ancestor task that has an agent."""
    above = mine.parent
    while above is not None:
        if view.get(str(above)) is not None:
            return str(above)
        above = above.parent
    return None


def _named(view: View, mine: Address, to: str) -> Sequence[str]:
    if to == PARENT:
        above = nearest_agent_above(view, mine)
        if above is None:
            raise NotReachable("NoSuchAgent", "you have no parent agent; `request` can ask a person")
        return [above]
    agents = [each.address for each in view.list("agent") if not is_hook_agent(each.address)]
    if to == CHILDREN:
        return [each for each in agents if nearest_agent_above(view, addresses.parse_address(each)) == str(mine)]
    if to == SIBLINGS:
        return [each for each in agents if _is_sibling(mine, addresses.parse_address(each))]
    path = to.removeprefix("agent/").removeprefix("task/")
    places = (mine.path, mine.path[:-1], ()) if mine.path else ((),)
    try:
        candidates = [str(addresses.parse_address(f"agent/{'/'.join((*place, path))}")) for place in places]
    except BadAddress as error:
        raise NotReachable("NoSuchAgent", str(error)) from None
    known = (one for one in candidates if view.get(one) is not None and not is_hook_agent(one))
    found = next(known, None)
    if found is None:
        raise NotReachable("NoSuchAgent", f"there is no agent `{to}`")
    return [found]


def _is_sibling(mine: Address, other: Address) -> bool:
    # The root has no sibling: no other path is empty.
    return len(other.path) == len(mine.path) and other.path[:-1] == mine.path[:-1] and other != mine


MESSAGE_DIGEST_CHARS: Final = 12


@frozen
class DeliveryRefused:
    """The reason why a message was not delivered: NoSuchAgent, NotAllowed, Full, Flood, TooLong, Expired, Stale, …"""

    reason: str
    message: str


def delivery_changes(view: View, message: Message, *, is_counted: bool = True) -> tuple[Change, ...] | DeliveryRefused:
    """Return the changes that put `message` into its receiver's inbox; none if it was delivered before.

    Does not check the topology, because people may write to all agents. An inbox keeps only the newest `state` message
    of a sender and key. A repeated idempotency key changes nothing, nor does a message that equals the sender's last
    one while that is unread. The number of messages from one agent to another in `limits.EDGE_WINDOW_S` is limited.
    """
    receiver = view.get(message.receiver)
    refusal = _refusal(receiver, message)
    if receiver is None or refusal is not None:
        return refusal or DeliveryRefused("NoSuchAgent", f"there is no {message.receiver}")
    inbox = receiver.status.get("inbox", {})
    if message.id in inbox:
        return ()
    sent = _counted(view, message, inbox) if is_counted else (message, ())
    if sent is None or isinstance(sent, DeliveryRefused):
        return () if sent is None else sent
    message, counted = sent
    incarnation = receiver.status.get("incarnation", 0)
    gone = [key for key, raw in inbox.items() if _is_overtaken(raw, message, incarnation)]
    if len(inbox) - len(gone) >= limits.INBOX_MESSAGES_MAX:
        return DeliveryRefused("Full", f"{message.receiver} has {limits.INBOX_MESSAGES_MAX} unread messages")
    merge = {**dict.fromkeys(gone), message.id: message.to_json()}
    return (SetStatus(receiver.address, receiver.uid, {"inbox": merge}), *counted)


def _refusal(receiver: Resource | None, message: Message) -> DeliveryRefused | None:
    if receiver is None or receiver.deleting:
        return DeliveryRefused("NoSuchAgent", f"there is no {message.receiver}")
    if receiver.kind != "agent":
        return DeliveryRefused("NoSuchAgent", f"{message.receiver} is not an agent and reads no messages")
    if len(encode(message.body)) > limits.MESSAGE_BYTES_MAX:
        return DeliveryRefused(
            "TooLong", f"a message has at most {limits.MESSAGE_BYTES_MAX} bytes: write it to a file and name the file"
        )
    if message.expires_at is not None and message.expires_at <= message.sent_at:
        return DeliveryRefused("Expired", "the message expires before it can be read")
    incarnation = receiver.status.get("incarnation", 0)
    if message.to_incarnation is not None and message.to_incarnation < incarnation:
        words = f"the message is for run {message.to_incarnation} of {message.receiver}, which is now at {incarnation}"
        return DeliveryRefused("Stale", words)
    return None


def _counted(
    view: View, message: Message, inbox: JsonObject
) -> tuple[Message, tuple[Change, ...]] | DeliveryRefused | None:
    """Return the message with its number, and the change that counts it at its sender; None if it repeats the last one.

    Only messages that an agent sends on its own are counted: people are not limited, and threads have their own limits.
    """
    sender = view.get(message.sender) if message.sender.startswith("agent/") else None
    if sender is None or message.asks or not message.wakes or message.kind not in ("chat", "state", "control"):
        return message, ()
    edge = _edge(sender, message.receiver)
    said = sha256_of_value([message.kind, message.body])[:MESSAGE_DIGEST_CHARS]
    if message.idempotency and message.idempotency in edge.keys:
        return None
    if said == edge.said and edge.last in inbox:
        return None
    is_new_window = message.sent_at >= edge.since + limits.EDGE_WINDOW_S
    count = 1 if is_new_window else edge.count + 1
    if count > limits.EDGE_MESSAGES_MAX:
        words = f"at most {limits.EDGE_MESSAGES_MAX} messages in {limits.EDGE_WINDOW_S:.0f} s to one agent"
        return DeliveryRefused("Flood", f"{words}: combine your messages")
    keys = (*edge.keys, message.idempotency)[-limits.EDGE_KEYS_MAX :] if message.idempotency else edge.keys
    since = message.sent_at if is_new_window else edge.since
    now = _Edge(edge.seq + 1, since, count, said, message.id, keys)
    merge: JsonObject = {message.receiver: now.to_json(), **_forgotten(view, sender, message.receiver)}
    return replace(message, seq=now.seq), (SetStatus(sender.address, sender.uid, {"sent": merge}),)


@frozen
class _Edge:
    """Counters of messages from one agent to another: total, number since `since`, the last id and its digest."""

    seq: int = 0
    since: float = 0.0
    count: int = 0
    said: str = ""
    last: str = ""
    keys: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        out: JsonObject = {"seq": self.seq, "since": self.since, "count": self.count}
        return out | {"said": self.said, "last": self.last, "keys": list(self.keys)}


def _edge(sender: Resource, receiver: str) -> _Edge:
    raw: JsonObject = sender.status.get("sent", {}).get(receiver, {})
    return _Edge(**(raw | {"keys": tuple(raw.get("keys", ()))}))


def _forgotten(view: View, sender: Resource, receiver: str) -> JsonObject:
    """Drop counters of removed receivers, if the sender has many."""
    known = sender.status.get("sent", {})
    if len(known) < limits.EDGES_KEPT_MAX:
        return {}
    gone = [each for each in known if view.get(each) is None and each != receiver]
    return dict.fromkeys(gone or sorted(known, key=lambda each: float(known[each]["since"]))[:1])


def _is_overtaken(raw: JsonObject, message: Message, incarnation: int) -> bool:
    """Whether `message` replaces an unread message: that one is void, or an older state of the same key."""
    body = raw.get("body")
    if message_from_json(raw).is_void(message.sent_at, incarnation):
        return True
    if message.kind != "state" or raw.get("kind") != "state" or raw.get("sender") != message.sender:
        return False
    key = _key(message.body)
    return key is not None and _key(body) == key


def _key(body: Json) -> Json:
    return body.get("key") if isinstance(body, dict) else None


def parent_message_changes(
    view: View, agent: Resource, body: JsonObject, message_id: str, now: float
) -> tuple[Change, ...]:
    """Return the changes that tell the parent a fact about `agent`; none without a parent or if its inbox is full."""
    # Agents do not see hooks, so the end of one is not reported.
    above = None if agent.spec.get("watches") else nearest_agent_above(view, addresses.parse_address(agent.address))
    if above is None:
        return ()
    message = Message(message_id, "state", agent.address, above, body, now)
    # The controller sends it, so it does not count against the agent's own limit.
    delivered = delivery_changes(view, message, is_counted=False)
    return () if isinstance(delivered, DeliveryRefused) else delivered
