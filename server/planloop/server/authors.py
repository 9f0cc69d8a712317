"""In whose name a person changes something: `human:` and by what they speak, as the door says and no client may."""

from __future__ import annotations

from typing import Final

from planloop.app.exits import Exit, Halt
from planloop.schemas.encoding import JsonObject
from planloop.schemas.patch import Author

BY: Final = "by"  # The member of a body that says so; the gateway sets it, and the owner's socket alone takes it.
KNOWN: Final = ("cli", "chat", "web")


def parted(body: JsonObject) -> tuple[str, JsonObject]:
    """By what the person speaks, and the body without that. Raises Halt for what nobody speaks by."""
    by = body.get(BY, KNOWN[0])
    if by not in KNOWN:
        raise Halt(Exit.USAGE, f"`{BY}` is one of {', '.join(KNOWN)}", "leave it out")
    return str(by), {name: value for name, value in body.items() if name != BY}


def author_of(body: JsonObject) -> Author:
    """Who signs a change that `body` asks for."""
    return Author("human", str(body.get(BY, KNOWN[0])))
