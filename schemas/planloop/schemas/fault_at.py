"""What is wrong at a place within a value, before anybody knows where that value stands in a text."""

from __future__ import annotations

from typing import TypeAlias

from planloop.schemas.frozen import frozen

Place: TypeAlias = tuple[str, ...]


@frozen
class FaultAt:
    """What is wrong at `at`, a place within the value that was looked at, and its cure. `code` is a diagnostic's.

    `is_key`: the name at that place is at fault, not what stands under it.
    """

    at: Place
    code: str
    summary: str
    hint: str
    is_key: bool = False
