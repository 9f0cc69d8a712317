"""What changed in a file, as text that is cut for whoever reads it."""

from __future__ import annotations

import difflib

from reconciler.effects.clamping import clamped
from schemas import limits


def difference(old: bytes | None, new: bytes, path: str) -> str:
    """What changed in `path` as a unified difference, clamped; words alone when it cannot be shown."""
    if old is None:
        return f"`{path}` now has {len(new)} bytes; what it was before is not kept"
    before, after = old.decode(errors="replace").splitlines(), new.decode(errors="replace").splitlines()
    if len(before) + len(after) > limits.DIFF_LINES_MAX:
        return f"`{path}` went from {len(before)} to {len(after)} lines"
    lines = difflib.unified_diff(before, after, f"{path} (as you read it)", f"{path} (now)", lineterm="", n=2)
    return clamped("\n".join(lines).encode())
