"""Send the text of models to listeners while it is written.

A listener that starts during a reply first gets the newest part of it. A slow listener misses text; it never delays
agents.
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
    """The newest part of a reply that is being written.

    `name` identifies the request: a repeated request in the same turn is another reply.
    """

    agent: str
    turn: int
    name: str
    pieces: deque[str] = field(default_factory=deque)
    chars: int = 0

    def add(self, text: str) -> None:
        """Add a piece, and drop the oldest pieces over the limit."""
        self.pieces.append(text)
        self.chars += len(text)
        while self.chars > limits.STREAM_CHARS_MAX:
            self.chars -= len(self.pieces.popleft())

    def said(self, text: str) -> JsonObject:
        """Return the message for listeners."""
        return {"agent": self.agent, "turn": self.turn, "reply": self.name, "text": text}


class StreamHub:
    """The listeners to the text of a plan's models."""

    def __init__(self) -> None:
        self._listeners: list[StreamListener] = []
        self._live: dict[str, ReplyStream] = {}

    def begin(self, agent: str, turn: int, name: str) -> ReplyStream:
        """Start a reply, after `agent` has sent a request to its model. Pass the result to `tell` and `end`."""
        reply = self._live[agent] = ReplyStream(agent, turn, name)
        return reply

    def end(self, reply: ReplyStream) -> None:
        """End a reply that is complete or abandoned."""
        if self._live.get(reply.agent) is reply:
            del self._live[reply.agent]

    def tell(self, reply: ReplyStream, text: str) -> None:
        """Send a piece of the reply to all listeners."""
        reply.add(text)
        said = reply.said(text)
        for listener in self._listeners:
            listener(said)

    async def listen(self) -> AsyncGenerator[JsonObject, None]:
        """Yield the current replies so far, then each piece of text with its agent and turn. Does not end."""
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
