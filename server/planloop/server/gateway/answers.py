"""Answers as bytes, made beside the event loop and in pieces, so that a large one holds up nobody."""

from __future__ import annotations

from planloop.schemas.encoding import Json, encode

PIECES_FROM = 100
"""Items of a list from which each is printed by itself: whoever waits for the interpreter has it between two."""


def printed(value: Json) -> bytes:
    """What `encode` gives."""
    if not isinstance(value, dict):
        return encode(value)
    return b"{%b}" % b",".join(b"%b:%b" % (encode(name), _listed(inner)) for name, inner in value.items())


def _listed(value: Json) -> bytes:
    if not isinstance(value, list) or len(value) < PIECES_FROM:
        return encode(value)
    return b"[%b]" % b",".join(encode(item) for item in value)
