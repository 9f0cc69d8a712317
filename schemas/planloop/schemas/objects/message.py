"""Messages between agents, people and controllers, and threads: conversations with an end, at `thread/<op>`."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias

from planloop.schemas import codec
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Uid

# One envelope for everything that agents, people and controllers say to each other.
#
# An unread message lives in the receiver's `status.inbox`, keyed by its id; reading it removes it there, in the same
# record as the turn that read it. The log keeps all.

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
        """Return whether it is void: expired, or sent to a run of the recipient that has ended."""
        is_late = self.expires_at is not None and self.expires_at <= now
        return is_late or (self.to_incarnation is not None and self.to_incarnation < incarnation)

    def to_json(self) -> JsonObject:
        return codec.to_json(
            self, "asks", "from_incarnation", "to_incarnation", "expires_at", "idempotency", "trust", "wakes"
        )


def message_from_json(raw: JsonObject) -> Message:
    """Inverse of `Message.to_json`."""
    return codec.from_json(Message, raw)


# A thread: a conversation with an end, as an object at `thread/<op>` owned by the agent that opened it.
#
# A `discuss` thread asks its speakers one after the other; the status holds who is asked now and what each answered. A
# `bridge` lets agents below its owner write to each other for as long as it stands. A `hook` thread is one question of
# an agent to one of its hooks.

ThreadKind: TypeAlias = Literal["discuss", "bridge", "hook"]


@frozen
class ThreadSpec:
    """`speakers` are asked in this order (repeats allowed), `listeners` only hear; both are addresses.

    Of a bridge all are speakers. `call` is the address of the call that waits for the thread, empty for a bridge.
    """

    kind: ThreadKind
    owner: str
    prompt: str
    speakers: tuple[str, ...]
    listeners: tuple[str, ...] = ()
    call: str = ""

    def to_json(self) -> JsonObject:
        return codec.to_json(self)


def thread_from_json(raw: JsonObject) -> ThreadSpec:
    """Inverse of `ThreadSpec.to_json`."""
    return codec.from_json(ThreadSpec, raw)


@frozen
class ThreadAnswer:
    """The answer of a speaker. If it could not answer, `error` is one CamelCase word and `text` the reason.

    `value` is the original result if it was more than text.
    """

    text: str
    error: str = ""
    value: Json = None

    @property
    def words(self) -> str:
        """The text for a reader; a placeholder if it is empty."""
        return self.text or ("" if self.error else "(empty answer)")

    def to_json(self) -> JsonObject:
        return codec.to_json(self)


@frozen
class ThreadStatus:
    """`asked` is the index of the speaker whose turn it is, `asked_at` since when, in seconds since 1970.

    `answers` are by question id.
    """

    asked: int = 0
    asked_at: float = 0.0
    answers: dict[str, ThreadAnswer] = field(default_factory=dict)


def thread_status_from_json(raw: JsonObject) -> ThreadStatus:
    """The typed form of a thread's `status`. Answers are in one-item lists, so that a merge replaces them whole."""
    answers = {key: value[0] for key, value in raw.get("answers", {}).items()}
    return codec.from_json(ThreadStatus, {**raw, "answers": answers})


def thread_uid(address: str) -> Uid:
    """The uid of the thread at `address`: both come from the operation that opened it, so neither is ever reused."""
    return Uid(address.partition("/")[2])


def question_id(thread: str, index: int) -> str:
    """The id of the message that asks the speaker at `index`."""
    return f"{thread.partition('/')[2]}.q{index}"
