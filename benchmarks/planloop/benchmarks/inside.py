"""What the containers of a run have in common, those that are worked in and those that grade: nothing that differs
between equal runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

INSIDE: Final = "/work"
"""Where the workspace is."""
HOME: Final = "/tmp"
"""Memory that may be written; of the image's folders none may, only the workspace."""
ENV: Final[Mapping[str, str]] = {"TZ": "UTC", "LANG": "C.UTF-8", "HOME": HOME}
