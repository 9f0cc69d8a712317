"""One envelope for everything that agents, people and controllers say to each other.

An unread message lives in the receiver's `status.inbox`, keyed by its id; reading it removes it there, in the same
record as the turn that read it. The log keeps all.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from schemas.encoding import Json, JsonObject
from schemas.frozen import frozen

MessageKind: TypeAlias = Literal["chat", "state", "control", "conflict", "approval"]
Delivery: TypeAlias = Literal["queue", "steer", "interrupt"]


@frozen
class Message:
    """`sender` is an agent's address, `human:<name>` or `controller:<kind>`; `body` is text or facts."""

    id: str
    kind: MessageKind
    sender: str
    receiver: str
    body: Json
    sent_at: float
    thread: str = ""
    seq: int = 0
    delivery: Delivery = "queue"
    cause: int | None = None

    def to_json(self) -> JsonObject:
        return {
            "id": self.id,
            "kind": self.kind,
            "sender": self.sender,
            "receiver": self.receiver,
            "body": self.body,
            "sent_at": self.sent_at,
            "thread": self.thread,
            "seq": self.seq,
            "delivery": self.delivery,
            "cause": self.cause,
        }


def message_from_json(raw: JsonObject) -> Message:
    """Inverse of `Message.to_json`."""
    return Message(**raw)
