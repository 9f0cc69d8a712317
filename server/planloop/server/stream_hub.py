"""Text that models write, sent to subscribers while it is written.

Who begins to listen in the middle of a reply is told its newest end first. A listener that does not keep up misses
words, and never holds up the agents.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import anyio

from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject

StreamListener = Callable[[JsonObject], None]


@dataclass(slots=True, eq=False)
class ReplyStream:
    """One reply under way: the newest of its stretches.

    `name` is of this asking alone: a model that is asked again in the same turn writes another reply.
    """

    agent: str
    turn: int
    name: str
    pieces: deque[str] = field(default_factory=deque)
    chars: int = 0

    def add(self, text: str) -> None:
        """A stretch more; the oldest go when it is too much to keep."""
        self.pieces.append(text)
        self.chars += len(text)
        while self.chars > limits.STREAM_CHARS_MAX:
            self.chars -= len(self.pieces.popleft())

    def said(self, text: str) -> JsonObject:
        """What a listener is told of `text`."""
        return {"agent": self.agent, "turn": self.turn, "reply": self.name, "text": text}


class StreamHub:
    """Who listens to the agents of one plan."""

    def __init__(self) -> None:
        self._listeners: list[StreamListener] = []
        self._live: dict[str, ReplyStream] = {}

    def begin(self, agent: str, turn: int, name: str) -> ReplyStream:
        """`agent` has asked its model; `end` it with what this returns."""
        reply = self._live[agent] = ReplyStream(agent, turn, name)
        return reply

    def end(self, reply: ReplyStream) -> None:
        """It was answered, or given up."""
        if self._live.get(reply.agent) is reply:
            del self._live[reply.agent]

    def tell(self, reply: ReplyStream, text: str) -> None:
        """A stretch of the reply has come."""
        reply.add(text)
        said = reply.said(text)
        for listener in self._listeners:
            listener(said)

    async def listen(self) -> AsyncGenerator[JsonObject, None]:
        """What has come of the replies under way, then each stretch of text, with agent and turn; without end."""
        send, receive = anyio.create_memory_object_stream[JsonObject](limits.HEARD_WORDS_MAX)

        def hear(said: JsonObject) -> None:
            with suppress(anyio.WouldBlock):
                send.send_nowait(said)

        for reply in self._live.values():
            if reply.pieces:
                hear(reply.said("".join(reply.pieces)))
        self._listeners.append(hear)
        try:
            async with send, receive:
                async for said in receive:
                    yield said
        finally:
            self._listeners.remove(hear)
