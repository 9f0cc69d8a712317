"""How the prompt of a replay differs from the recorded one.

The log has the digest of every prompt, the transcript's turns as blobs, and every system message where it became
another one. What the log does not have can only be told by leaving out what it has.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

from planloop.controllers.agent.models.port import ModelRequest
from planloop.owner.replay.history import entry
from planloop.owner.replay.scheduler import ReplayScheduler
from planloop.schemas.canonical_json import decode, sha256_hex

LINES_MAX: Final = 12  # Of a difference.
WIDTH_MAX: Final = 160  # Characters of one of its lines.


def prompt_difference(director: ReplayScheduler, at: int, request: ModelRequest) -> tuple[str, ...]:
    """Lines that tell which part of the prompt asked for at `at` is another now."""
    agent = request.key.agent
    head = f"{agent} turn {request.key.turn}, attempt {request.key.attempt}, {request.model}"
    found = list(_system(director, _system_then(director, at, agent), request)) or list(_transcript(director, agent))
    rest = "its instructions and transcript are the same: the news of the turn, the tools or the budget differ"
    return (head, *(found or [rest]))


def _system_then(director: ReplayScheduler, at: int, agent: str) -> str:
    """The digest of the system message that `agent` was asked with at `at`; empty when the log names none.

    It stands where it became another one.
    """
    for index in range(at, -1, -1):
        asked = entry(director.story.records[index].draft, "model.requested", agent)
        if asked is not None and "system" in asked.data:
            return str(asked.data["system"])
    return ""


def _system(director: ReplayScheduler, before: str, request: ModelRequest) -> Iterator[str]:
    """The difference of the system message."""
    if not before or not request.messages or sha256_hex(request.messages[0]) == before:
        return
    yield "its instructions are others:"
    text = director.story.blob(before)
    if text is not None:
        yield from _difference(text, request.messages[0])


def _transcript(director: ReplayScheduler, agent: str) -> Iterator[str]:
    """The first turn of its transcript that says something else than then."""
    for note in director.notes:
        for one in note.differences:
            if note.subject == agent and "/transcript/" in one.path and one.path.endswith("/blob"):
                yield f"its transcript parts at revision {note.rev}:"
                before, after = (director.blob(text.strip('"')) for text in (one.before, one.after))
                if before is not None and after is not None:
                    yield from _difference(before, after)
                return


def _difference(before: bytes, after: bytes) -> Iterator[str]:
    lines = difflib.unified_diff(_text(before), _text(after), "then", "now", lineterm="", n=1)
    for index, line in enumerate(lines):
        if index >= LINES_MAX:
            yield "  …"
            return
        yield f"  {line[:WIDTH_MAX]}"


def _text(content: bytes) -> list[str]:
    """Messages as lines to read: what was said, and not how it is encoded."""
    out: list[str] = []
    for line in content.splitlines():
        try:
            message = decode(line)
        except ValueError:
            message = None
        said = message.get("content") if isinstance(message, dict) else None
        out += said.splitlines() if isinstance(said, str) else [line.decode(errors="replace")]
    return out
