"""One envelope for everything that agents, people and controllers say to each other.

An unread message lives in the receiver's `status.inbox`, keyed by its id; reading it removes it there, in the same
record as the turn that read it. The log keeps all.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen

MessageKind: TypeAlias = Literal["chat", "state", "control", "conflict", "approval", "hook"]
Delivery: TypeAlias = Literal["queue", "steer", "interrupt"]
Trust: TypeAlias = Literal["trusted", "untrusted"]


@frozen
class Message:
    """`sender` is an agent's address, `human:<name>` or `controller:<kind>`; `body` is text or facts.

    `asks`: the sender waits for an answer, in `thread`; of the kind `hook` it is a question to a hook of the sender.
    `to_incarnation` fences: a message for a run of the receiver that is over is dropped, None is for any run.
    `expires_at`, in seconds since 1970, drops it unread. `idempotency`: of two messages of a sender with one key the
    second changes nothing. `trust` labels what came from outside (web pages, servers, files) and was only passed on.
    One that does not wake (`wakes`) is read with the next turn that something else brings about.
    """

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
    asks: bool = False
    from_incarnation: int | None = None
    to_incarnation: int | None = None
    expires_at: float | None = None
    idempotency: str = ""
    trust: Trust = "trusted"
    wakes: bool = True

    def is_void(self, now: float, incarnation: int) -> bool:
        """Whether it is for nobody any more: it has expired, or was for a run of the receiver that is over."""
        is_late = self.expires_at is not None and self.expires_at <= now
        return is_late or (self.to_incarnation is not None and self.to_incarnation < incarnation)

    def to_json(self) -> JsonObject:
        out: JsonObject = {
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
        # Most messages have none of these: they are left out, because every message is in the log twice.
        return out | {name: value for name, default in _RARE if (value := getattr(self, name)) != default}


_RARE: Final[tuple[tuple[str, Json], ...]] = (
    ("asks", False),
    ("from_incarnation", None),
    ("to_incarnation", None),
    ("expires_at", None),
    ("idempotency", ""),
    ("trust", "trusted"),
    ("wakes", True),
)


def message_from_json(raw: JsonObject) -> Message:
    """Inverse of `Message.to_json`."""
    return Message(**raw)
