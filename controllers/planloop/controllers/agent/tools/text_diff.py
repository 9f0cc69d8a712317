"""What changed in a file, as text cut to a size."""

from __future__ import annotations

import difflib

from planloop.reconciler.effects.truncate import truncate_output
from planloop.schemas import limits
from planloop.schemas.amounts import format_size
from planloop.schemas.file_text import FileText, decode_file_text, line_end_style, split_lines


def text_difference(old: bytes | None, new: bytes, path: str) -> str:
    """What changed in `path` as a unified difference, clamped; words alone when it cannot be shown."""
    if old is None:
        return f"`{path}` now has {len(new)} bytes; what it was before is not kept"
    was, now = decode_file_text(old), decode_file_text(new)
    if was is None or now is None:
        return f"`{path}` went from {_kind(was, old)} to {_kind(now, new)}"
    before, after = (_lines(one) for one in (was, now))
    if len(before) + len(after) > limits.DIFF_LINES_MAX:
        return f"`{path}` went from {len(before)} to {len(after)} lines"
    lines = difflib.unified_diff(before, after, f"{path} (as you read it)", f"{path} (now)", lineterm="", n=2)
    text = truncate_output("\n".join(lines).encode())
    return text or f"only how `{path}` is stored changed: it was {_stored(was)}, and is {_stored(now)} now"


def _lines(text: FileText) -> list[str]:
    return [line.rstrip("\r\n") for line in split_lines(text.shown)]


def _kind(text: FileText | None, content: bytes) -> str:
    return f"{'binary' if text is None else 'text'}, {format_size(len(content))}"


def _stored(text: FileText) -> str:
    mark = " with a byte order mark" if text.bom else ""
    end = "" if not text.text or text.text.endswith(("\r", "\n")) else ", the last line without its end"
    return f"{text.how or 'UTF-8'}{mark} with {line_end_style(text.text) or 'LF'} line ends{end}"
