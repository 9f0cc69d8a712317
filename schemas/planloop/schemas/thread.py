"""A thread: a conversation with an end, as an object at `thread/<op>` owned by the agent that opened it.

A `discuss` thread asks its speakers one after the other; the status holds who is asked now and what each answered. A
`bridge` lets agents below its owner write to each other for as long as it stands. A `hook` thread is one question of an
agent to one of its hooks.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal, TypeAlias

from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Uid

ThreadKind: TypeAlias = Literal["discuss", "bridge", "hook"]


@frozen
class ThreadSpec:
    """`speakers` are asked in this order (one may stand there twice), `listeners` only hear; both are addresses.

    Of a bridge all are speakers. `call` is the address of the call that waits for the thread, empty for a bridge.
    """

    kind: ThreadKind
    owner: str
    prompt: str
    speakers: tuple[str, ...]
    listeners: tuple[str, ...] = ()
    call: str = ""

    def to_json(self) -> JsonObject:
        return {
            "kind": self.kind,
            "owner": self.owner,
            "prompt": self.prompt,
            "speakers": list(self.speakers),
            "listeners": list(self.listeners),
            "call": self.call,
        }


def thread_from_json(raw: JsonObject) -> ThreadSpec:
    """Inverse of `ThreadSpec.to_json`."""
    return ThreadSpec(
        kind=raw["kind"],
        owner=raw["owner"],
        prompt=raw["prompt"],
        speakers=tuple(raw["speakers"]),
        listeners=tuple(raw["listeners"]),
        call=raw["call"],
    )


@frozen
class Answer:
    """What a speaker said. `error` is one CamelCase word when it could not or would not answer, with `text` saying why.

    `value` is the result as it was given, when it was more than text.
    """

    text: str
    error: str = ""
    value: Json = None

    def to_json(self) -> JsonObject:
        return {"text": self.text, "error": self.error, "value": self.value}


@frozen
class ThreadStatus:
    """`asked` is the index of the speaker whose turn it is, `asked_at` since when, in seconds since 1970.

    `answers` are by question id.
    """

    asked: int = 0
    asked_at: float = 0.0
    answers: dict[str, Answer] = field(default_factory=dict)


def status_from_json(raw: JsonObject) -> ThreadStatus:
    """The typed form of a thread's `status`. Answers stand in one-item lists, so that a merge replaces them whole."""
    answers = {key: Answer(**value[0]) for key, value in raw.get("answers", {}).items()}
    return ThreadStatus(raw.get("asked", 0), raw.get("asked_at", 0.0), answers)


def uid_of(address: str) -> Uid:
    """The uid of the thread at `address`: both come from the operation that opened it, so neither is ever reused."""
    return Uid(address.partition("/")[2])


def question_id(thread: str, index: int) -> str:
    """The id of the message that asks the speaker at `index`."""
    return f"{thread.partition('/')[2]}.q{index}"
