"""The examples and the library of plans that come with the product."""

from __future__ import annotations

from pathlib import Path


def plans() -> Path:
    """The folder of both: beside the packages where they are installed, at the top of a checkout."""
    here = Path(__file__)
    beside = here.parents[1] / "plans"
    return beside if beside.is_dir() else here.parents[3] / "plans"
