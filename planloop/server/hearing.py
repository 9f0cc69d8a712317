"""Text as models write it, for whoever listens while they do. In memory only: the whole reply is in the log anyway.

Nobody listening costs a look at an empty list. A listener that does not keep up misses words, and never holds up the
agents.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import anyio

from schemas import limits
from schemas.encoding import JsonObject

Listener = Callable[[JsonObject], None]


class Hearing:
    """Who listens to the agents of one plan."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def tell(self, agent: str, turn: int, text: str) -> None:
        """`agent` wrote a stretch of its reply."""
        for listener in self._listeners:
            listener({"agent": agent, "turn": turn, "text": text})

    async def listen(self) -> AsyncIterator[JsonObject]:
        """Each stretch of text from now on, with its agent and turn; without end."""
        send, receive = anyio.create_memory_object_stream[JsonObject](limits.HEARD_WORDS_MAX)

        def hear(said: JsonObject) -> None:
            with suppress(anyio.WouldBlock):
                send.send_nowait(said)

        self._listeners.append(hear)
        try:
            async with send, receive:
                async for said in receive:
                    yield said
        finally:
            self._listeners.remove(hear)
