"""The test sets (quick, change, nightly) as tests see them: how much of a sweep to try in this run.

`make quick` runs the tests without a mark, `make test` and `.ci/run` the set *change*, `make soak` everything. A
test asks here only for what selection cannot reach: the points of a loop, or a number of Hypothesis examples.
CONTRIBUTING.md describes the sets.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from typing import Final, Literal, TypeVar, get_args

T = TypeVar("T")
SetName = Literal["quick", "change", "nightly"]

NAMES: Final[tuple[str, ...]] = get_args(SetName)
SET: Final = "PLANLOOP_SET"
ROTATION: Final = "PLANLOOP_ROTATION"


def name() -> str:
    """The set that this run belongs to; `change` for tests that were named on the command line."""
    return os.environ.get(SET, "change")  # noqa: TID251 - workers and reruns inherit it


def is_nightly() -> bool:
    """Whether every point, parameter and example is tried."""
    return name() == "nightly"


def rotation() -> int:
    """The number that decides what thinned sweeps try. It follows from the commit, so a rerun tries the same."""
    return int(os.environ.get(ROTATION, "0"))  # noqa: TID251


def points(sequence: Sequence[T], keep: int, name: str) -> list[T]:
    """Return `keep` evenly spaced elements of `sequence`, or all of them in nightly.

    The elements are `len(sequence) / keep` apart. Where they begin is drawn from the rotation and `name`: each element
    is as likely as any other, and independent of what other sweeps try in this run, such as the one around this one.
    """
    count = len(sequence)
    if is_nightly() or count <= keep:
        return list(sequence)
    drawn = hashlib.sha256(f"{rotation()} {name}".encode()).digest()
    offset = int.from_bytes(drawn[:8], "big") % math.ceil(count / keep)
    return [sequence[at] for at in sorted((part * count // keep + offset) % count for part in range(keep))]


def examples(nightly: int, change: int) -> int:
    """The number of Hypothesis examples to draw in this set."""
    return nightly if is_nightly() else change
