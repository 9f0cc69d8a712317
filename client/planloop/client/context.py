"""What a command may know of its process: the time, the environment, and how to start another `plan`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Final

TELEMETRY_SWITCH: Final = "PLANLOOP_TELEMETRY"
"""The variable that asks an owner to export telemetry."""


def now() -> float:
    """Seconds since 1970."""
    return time.time()


def environment() -> Mapping[str, str]:
    """The environment of this process."""
    return os.environ


def command_line(*arguments: str) -> list[str]:
    """How to start another `plan` of this very installation, and nothing of the folder that it is started in."""
    return [sys.executable, "-P", "-m", "planloop", *arguments]
