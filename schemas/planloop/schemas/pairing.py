"""Giving each of some takers one of the things that fit it, no thing to two: a matching in a bipartite graph.

By augmenting paths (Kuhn 1955): takers in order, each taking its first thing that is free or can be freed.
"""

from __future__ import annotations

from collections.abc import Sequence


def paired(fitting: Sequence[Sequence[int]]) -> dict[int, int]:
    """The taker of each thing, for as many takers as can have one. `fitting[taker]` are the things that fit it."""
    taken: dict[int, int] = {}

    def found_one(taker: int, tried: set[int]) -> bool:
        for thing in fitting[taker]:
            if thing not in tried:
                tried.add(thing)
                if thing not in taken or found_one(taken[thing], tried):
                    taken[thing] = taker
                    return True
        return False

    for taker in range(len(fitting)):
        found_one(taker, set())
    return taken
