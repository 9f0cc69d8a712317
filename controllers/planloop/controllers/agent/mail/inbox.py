"""Messages: how one gets into an inbox, and what keeps it out.

An unread message is a row in the receiver's status; it leaves in the record of the turn that contains it, so nothing
is delivered twice or lost. What a sender has sent to each receiver is counted in the sender's own status. A message
never grants anything. Who may write to whom is `topology.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from planloop.controllers.agent.mail.topology import nearest_above
from planloop.reconciler.storing.store import View
from planloop.schemas import address as addresses
from planloop.schemas import limits
from planloop.schemas.encoding import Json, JsonObject, digest_of, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.message import Message, message_from_json
from planloop.schemas.record import Change, SetStatus
from planloop.schemas.resource import Resource

DIGEST_CHARS: Final = 12


@frozen
class Refusal:
    """Why a message was not delivered: NoSuchAgent, NotAllowed, Full, Flood, TooLong, Expired, Stale or NoSpeakers."""

    reason: str
    message: str


def delivery(view: View, message: Message, *, is_counted: bool = True) -> tuple[Change, ...] | Refusal:
    """The changes that put `message` into its receiver's inbox; none when it is there or was there before.

    Does not look at topology: people may write to all. Of `state` messages only the newest of a sender and key is kept.
    The second message with an idempotency key changes nothing, nor does one that says what the sender's last one says
    while that is unread. What agents send to one receiver in `limits.EDGE_WINDOW_S` is bounded.
    """
    receiver = view.get(message.receiver)
    refusal = _refusal(receiver, message)
    if receiver is None or refusal is not None:
        return refusal or Refusal("NoSuchAgent", f"there is no {message.receiver}")
    inbox = receiver.status.get("inbox", {})
    if message.id in inbox:
        return ()
    sent = _counted(view, message, inbox) if is_counted else (message, ())
    if sent is None or isinstance(sent, Refusal):
        return () if sent is None else sent
    message, counted = sent
    incarnation = receiver.status.get("incarnation", 0)
    gone = [key for key, raw in inbox.items() if _is_overtaken(raw, message, incarnation)]
    if len(inbox) - len(gone) >= limits.INBOX_MESSAGES_MAX:
        return Refusal("Full", f"{message.receiver} has {limits.INBOX_MESSAGES_MAX} unread messages")
    merge = {**dict.fromkeys(gone), message.id: message.to_json()}
    return (SetStatus(receiver.address, receiver.uid, {"inbox": merge}), *counted)


def _refusal(receiver: Resource | None, message: Message) -> Refusal | None:
    if receiver is None or receiver.deleting:
        return Refusal("NoSuchAgent", f"there is no {message.receiver}")
    if receiver.kind != "agent":
        return Refusal("NoSuchAgent", f"{message.receiver} is no agent, and reads nothing")
    if len(encode(message.body)) > limits.MESSAGE_BYTES_MAX:
        return Refusal("TooLong", f"a message has at most {limits.MESSAGE_BYTES_MAX} bytes: put it in a file")
    if message.expires_at is not None and message.expires_at <= message.sent_at:
        return Refusal("Expired", "it would have expired before it was read")
    incarnation = receiver.status.get("incarnation", 0)
    if message.to_incarnation is not None and message.to_incarnation < incarnation:
        words = f"it is for run {message.to_incarnation} of {message.receiver}, which is at run {incarnation} now"
        return Refusal("Stale", words)
    return None


def _counted(view: View, message: Message, inbox: JsonObject) -> tuple[Message, tuple[Change, ...]] | Refusal | None:
    """The message with its number, and the change that counts it at its sender; None when it says nothing new.

    Only what one agent sends another by itself is counted: people are trusted to know, and a thread bounds itself.
    """
    sender = view.get(message.sender) if message.sender.startswith("agent/") else None
    if sender is None or message.asks or not message.wakes or message.kind not in ("chat", "state", "control"):
        return message, ()
    edge = _edge(sender, message.receiver)
    said = digest_of([message.kind, message.body])[:DIGEST_CHARS]
    if message.idempotency and message.idempotency in edge.keys:
        return None
    if said == edge.said and edge.last in inbox:
        return None
    is_new_window = message.sent_at >= edge.since + limits.EDGE_WINDOW_S
    count = 1 if is_new_window else edge.count + 1
    if count > limits.EDGE_MESSAGES_MAX:
        words = f"at most {limits.EDGE_MESSAGES_MAX} messages in {limits.EDGE_WINDOW_S:.0f} s to one agent"
        return Refusal("Flood", f"{words}: gather what you have to say")
    keys = (*edge.keys, message.idempotency)[-limits.EDGE_KEYS_MAX :] if message.idempotency else edge.keys
    since = message.sent_at if is_new_window else edge.since
    now = _Edge(edge.seq + 1, since, count, said, message.id, keys)
    merge: JsonObject = {message.receiver: now.to_json(), **_forgotten(view, sender, message.receiver)}
    return replace(message, seq=now.seq), (SetStatus(sender.address, sender.uid, {"sent": merge}),)


@frozen
class _Edge:
    """What one agent has sent to another: how many ever, how many since `since`, the last one and its digest."""

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
    """Receivers that are gone, when the sender remembers many."""
    known = sender.status.get("sent", {})
    if len(known) < limits.EDGES_KEPT_MAX:
        return {}
    gone = [each for each in known if view.get(each) is None and each != receiver]
    return dict.fromkeys(gone or sorted(known, key=lambda each: float(known[each]["since"]))[:1])


def _is_overtaken(raw: JsonObject, message: Message, incarnation: int) -> bool:
    """Whether an unread message makes room for `message`: it is void, or an older word on the same fact."""
    body = raw.get("body")
    if message_from_json(raw).is_void(message.sent_at, incarnation):
        return True
    if message.kind != "state" or raw.get("kind") != "state" or raw.get("sender") != message.sender:
        return False
    key = _key(message.body)
    return key is not None and _key(body) == key


def _key(body: Json) -> Json:
    return body.get("key") if isinstance(body, dict) else None


def telling_above(view: View, agent: Resource, body: JsonObject, message_id: str, now: float) -> tuple[Change, ...]:
    """The changes that tell the agent above of a fact about `agent`; none when nobody is there or its inbox is full."""
    # Nobody sees the hooks above it, so what becomes of one is told to nobody.
    above = None if agent.spec.get("watches") else nearest_above(view, addresses.parse(agent.address))
    if above is None:
        return ()
    message = Message(message_id, "state", agent.address, above, body, now)
    # Made by the controller, so it does not count against what the agent itself may send.
    delivered = delivery(view, message, is_counted=False)
    return () if isinstance(delivered, Refusal) else delivered
