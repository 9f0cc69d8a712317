"""The canonical path of a lock that a plan declares: behind symbolic links, while it stays in the plan's folder."""

from __future__ import annotations

import os
from itertools import takewhile
from pathlib import Path


def canonical(root: Path, glob: str) -> str:
    """`glob` with the links of its fixed beginning followed; as written where that leads out of `root`."""
    names = glob.split("/")
    fixed = list(takewhile(lambda name: not set(name) & {"*", "?"}, names))
    base = Path(os.path.realpath(root))
    real = Path(os.path.realpath(base.joinpath(*fixed)))
    if not real.is_relative_to(base):
        return glob
    return "/".join((*real.relative_to(base).parts, *names[len(fixed) :])) or "**"
