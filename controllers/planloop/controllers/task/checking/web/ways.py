"""In which order the ways through a flow are tried: the likeliest candidates of all targets first.

A way is the choice made at each point where several candidates were found. What points there are is known only by
going: a way is tried with its choices, and the first candidate from there on. Pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

Way = tuple[int, ...]


@dataclass
class Ways:
    """The ways that are left. `most` bounds those that are handed out."""

    most: int
    _left: list[tuple[int, Way]] = field(default_factory=lambda: [(0, ())])

    def next(self) -> Way | None:
        """The next to try, None when there is none."""
        if not self._left or self.most <= 0:
            return None
        self.most -= 1
        return heapq.heappop(self._left)[1]

    def tried(self, way: Way, choices: Sequence[int]) -> None:
        """Takes in that `way` came to so many candidates at each point."""
        for at in range(len(way), len(choices)):
            for choice in range(1, choices[at]):
                other = (*way, *([0] * (at - len(way))), choice)
                heapq.heappush(self._left, (sum(other), other))
