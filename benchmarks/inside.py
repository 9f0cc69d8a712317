"""What the containers of a run have in common, those that are worked in and those that grade: nothing in them tells
one attempt from another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

INSIDE: Final = "/work"
"""Where the workspace is."""
HOME: Final = "/tmp"
"""Memory that may be written: of everything else only the workspace may."""
HOST_NAME: Final = "work"
"""What each calls itself: nothing that differs between equal runs."""
ENV: Final[Mapping[str, str]] = {"TZ": "UTC", "LANG": "C.UTF-8", "HOME": HOME}
