"""What models are saying right now: the newest stretch of each reply that is under way, in memory only.

For people who watch. Nothing is decided from it, and with its owner it is gone; the whole reply is in the log when it
has ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from schemas import limits
from schemas.encoding import JsonObject

NOTHING: Final = ""


@dataclass(slots=True)
class Stream:
    """One reply under way. `text` is its newest end, `chars` how long it is, `heard_at` the last sign of life."""

    began_at: float
    heard_at: float
    text: str = NOTHING
    chars: int = 0
    signs: int = 0

    def to_json(self) -> JsonObject:
        return {"began_at": self.began_at, "heard_at": self.heard_at, "text": self.text, "chars": self.chars}


@dataclass(slots=True)
class Streams:
    """The replies under way, by the address of the agent."""

    live: dict[str, Stream] = field(default_factory=dict)

    def begin(self, agent: str, now: float) -> Stream:
        """A request was sent."""
        stream = self.live[agent] = Stream(now, now)
        return stream

    def end(self, agent: str) -> None:
        """It was answered, or given up."""
        self.live.pop(agent, None)


def heard(stream: Stream, text: str, now: float) -> None:
    """A stretch of text, or (empty) a mere sign of life."""
    stream.heard_at, stream.signs = now, stream.signs + 1
    if text:
        stream.chars += len(text)
        stream.text = (stream.text + text)[-limits.STREAM_CHARS_MAX :]
