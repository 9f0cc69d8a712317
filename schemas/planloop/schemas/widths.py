"""How wide a text is on a terminal, in cells: padding and cutting go by them, not by characters."""

from __future__ import annotations

import unicodedata


def padded(text: str, width: int) -> str:
    """`text` with spaces up to `width` terminal cells."""
    return text + " " * (width - cells_wide(text))


def cut(text: str, width: int) -> str:
    """`text` in at most `width` cells, with `…` for what is missing."""
    if cells_wide(text) <= width:
        return text
    out, used = [], 0
    for character in text:
        used += _cell(character)
        if used > width - 1:
            break
        out.append(character)
    return "".join(out).rstrip() + "…"


def cells_wide(text: str) -> int:
    """Terminal cells that `text` takes: wide East Asian characters take two, combining marks none."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def safe(text: str) -> str:
    """`text` with a mark for all that could steer a terminal: it may come from anywhere."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


def _cell(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
