"""Long texts cut for whoever reads them: the head and the tail stay, with a note on what was left out."""

from __future__ import annotations

import difflib
from typing import Final

from schemas import limits

DIFF_LINES_MAX: Final = 4_000  # Comparing is quadratic in the worst case.


def clamped(output: bytes, shown_bytes: int = limits.OUTPUT_SHOWN_BYTES) -> str:
    """`output` as text, at most about `shown_bytes`: half of them head, half tail, cut at line ends where near."""
    if len(output) <= shown_bytes:
        return output.decode(errors="replace")
    half = shown_bytes // 2
    head, tail = output[:half], output[-half:]
    if (cut := head.rfind(b"\n")) > half // 2:
        head = head[: cut + 1]
    if 0 <= (cut := tail.find(b"\n")) < half // 2:
        tail = tail[cut + 1 :]
    left_out = len(output) - len(head) - len(tail)
    note = f"\n[… {left_out} of {len(output)} bytes left out …]\n"
    return head.decode(errors="replace") + note + tail.decode(errors="replace")


def difference(old: bytes | None, new: bytes, path: str) -> str:
    """What changed in `path` as a unified difference, clamped; words alone when it cannot be shown."""
    if old is None:
        return f"`{path}` now has {len(new)} bytes; what it was before is not kept"
    before, after = old.decode(errors="replace").splitlines(), new.decode(errors="replace").splitlines()
    if len(before) + len(after) > DIFF_LINES_MAX:
        return f"`{path}` went from {len(before)} to {len(after)} lines"
    lines = difflib.unified_diff(before, after, f"{path} (as you read it)", f"{path} (now)", lineterm="", n=2)
    return clamped("\n".join(lines).encode())
