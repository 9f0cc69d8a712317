"""Patterns of names, tool calls and paths: what covers what. Only `*` is special, and matches any run of characters.

`meet` is what both sides allow. A pattern stays where the other side covers it whole; two that merely overlap are left
out, so the meet is never wider than either side (law 6).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

Patterns = tuple[str, ...] | None
"""None allows everything."""


def covers(pattern: str, other: str) -> bool:
    """Whether `pattern` matches whatever `other` matches. A bare tool name covers its calls: `shell`, `shell(ls)`."""
    if pattern in ("*", other):
        return True
    if "*" in pattern and _compiled(pattern).fullmatch(other) is not None:
        return True
    return "(" not in pattern and "(" in other and covers(pattern, other.partition("(")[0])


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    first, *middle, last = (re.escape(part) for part in pattern.split("*"))
    # Agents write patterns too: each part is taken where it first fits, and no other place is tried (law 11).
    return re.compile(first + "".join(f"(?>.*?{part})" for part in middle) + ".*" + last, re.DOTALL)


def is_covered(patterns: Patterns, other: str) -> bool:
    """Whether one of `patterns` covers `other`."""
    return patterns is None or any(covers(pattern, other) for pattern in patterns)


def meet(one: Patterns, other: Patterns) -> Patterns:
    """What both allow, in the order of `other`, then of `one`."""
    if one is None:
        return other
    if other is None or one == other:
        return one
    kept = [pattern for pattern in other if is_covered(one, pattern)]
    kept += [pattern for pattern in one if pattern not in kept and is_covered(other, pattern)]
    return tuple(dict.fromkeys(kept))


def union(one: tuple[str, ...], other: Iterable[str]) -> tuple[str, ...]:
    """Both, each once, the first's first."""
    return tuple(dict.fromkeys((*one, *other)))


def listed(allowed: Patterns) -> str:
    """Patterns in a sentence."""
    if allowed is None:
        return "everything"
    return ", ".join(f"`{pattern}`" for pattern in allowed[:12]) + (" …" if len(allowed) > 12 else "") or "nothing"
