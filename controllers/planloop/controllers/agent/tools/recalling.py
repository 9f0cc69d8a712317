"""The recall tool: what an agent lived through, as it was before its conversation was made shorter."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from planloop.controllers.agent.thinking import compacting
from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.controllers.agent.tools.tool import Context, Settlement, ok
from planloop.reconciler.effects.clamping import clamped
from planloop.schemas import limits
from planloop.schemas.encoding import decode

AROUND_CHARS = 160  # Of a hit, to either side.


def recall(
    context: Context,
    turn: Annotated[int | None, Field(ge=1, description="The number of a turn of yours: shown in full.")] = None,
    text: Annotated[str | None, Field(min_length=1, description="What to look for in all of your turns.")] = None,
) -> Settlement:
    """Reads back what you said, heard and saw earlier: one turn in full, or the places where a text occurs."""
    digests = compacting.originals(context.seen.status.transcript, lambda digest: _content(context, digest))
    if turn is not None:
        return Settlement(ok(_turn(context, digests, turn)))
    if text is None:
        numbers = ", ".join(str(int(key)) for key in digests)
        return Settlement(ok(f"your turns so far: {numbers or 'none'}"))
    return Settlement(ok(_hits(context, digests, text)))


def _turn(context: Context, digests: dict[str, str], turn: int) -> str:
    found = next((digest for key, digest in digests.items() if int(key) == turn), None)
    if found is None:
        raise ToolFailed("NoSuchTurn", f"there is no ended turn {turn}; there are {len(digests)}")
    return clamped(_text(context, found).encode(), limits.RECALL_BYTES)


def _hits(context: Context, digests: dict[str, str], text: str) -> str:
    wanted, lines = text.casefold(), []
    for key, digest in digests.items():
        content = _text(context, digest)
        at = content.casefold().find(wanted)
        if at >= 0:
            shown = content[max(0, at - AROUND_CHARS) : at + len(text) + AROUND_CHARS].replace("\n", " ")
            lines.append(f"turn {int(key)}: …{shown}…")
        if len(lines) >= limits.RECALL_HITS_MAX:
            lines.append("[there may be more: look for something longer]")
            break
    return "\n".join(lines) or f"`{text}` is nowhere in your turns"


def _text(context: Context, digest: str) -> str:
    return "\n\n".join(compacting.told(decode(line)) for line in _content(context, digest).split(b"\n"))


def _content(context: Context, digest: str) -> bytes:
    content = context.world.store.get_blob(digest)
    if content is None:
        raise ToolFailed("Gone", "what was said then is not kept any more")
    return content
