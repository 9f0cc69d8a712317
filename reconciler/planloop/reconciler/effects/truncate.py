"""Truncate a command's output for display. The whole output is kept as a blob. Pure."""

from __future__ import annotations

import codecs
from typing import Final

from planloop.schemas import limits

_CONTINUED: Final = bytes(range(0x80, 0xC0))  # Continuation bytes of UTF-8, …
_CONTINUED_BYTES: Final = 3  # … of which one character has at most this many.


def truncate_output(output: bytes, shown_bytes: int = limits.OUTPUT_SHOWN_BYTES) -> str:
    """`output` as text, at most about `shown_bytes`: half of them head, half tail, cut at line ends where near."""
    if len(output) <= shown_bytes:
        return output.decode(errors="replace")
    half = shown_bytes // 2
    head, tail = output[:half], output[-half:]
    if (cut := head.rfind(b"\n")) > half // 2:
        head = head[: cut + 1]
    if 0 <= (cut := tail.find(b"\n")) < half // 2:
        tail = tail[cut + 1 :]
    else:
        tail = tail.lstrip(_CONTINUED) if len(tail.lstrip(_CONTINUED)) >= len(tail) - _CONTINUED_BYTES else tail
    left_out = len(output) - len(head) - len(tail)
    note = f"\n[… {left_out} of {len(output)} bytes left out …]\n"
    # A character that the cut splits is left out.
    start = codecs.getincrementaldecoder("utf-8")("replace").decode(head)
    return start + note + tail.decode(errors="replace")


def last_line(output: bytes, chars: int = 200) -> str:
    """The last line that is not blank, at most `chars` characters of it, or empty."""
    for line in reversed(output[-4096:].decode(errors="replace").splitlines()):
        if line.strip():
            return line.strip()[:chars]
    return ""
