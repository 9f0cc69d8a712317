"""Enclosing processes for tests, over real ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from containers.sandboxing import cgroups
from containers.sandboxing.bubblewrap import Home
from containers.sandboxing.enclosing import EnclosingProcesses
from containers.sandboxing.rooms import Rooms
from reconciler.effects.local_processes import LocalProcesses
from schemas.encoding import digest
from tests.containers import engines

REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAMS = (sys.prefix, sys.base_prefix, str(REPOSITORY / "containers"), str(REPOSITORY / "schemas"))


def home_of(folder: Path) -> Home:
    return Home(os.path.realpath(folder), sys.executable, PROGRAMS, str(Path.home()))


def enclosing(
    folder: Path,
    state: Path,
    epoch: int = 1,
    *,
    grace_s: float = 0.2,
    rooms: Rooms | None = None,
    is_bounded: bool = True,
) -> EnclosingProcesses:
    """Over the plan in `folder` whose processes are kept in `state`."""
    local = LocalProcesses(state, str(state), epoch, grace_s=grace_s)
    label = f"test-{digest(str(state).encode())[:12]}"
    groups = (lambda: cgroups.found(label)) if is_bounded else (lambda: None)
    return EnclosingProcesses(local, state / "enclosed", home_of(folder), groups=groups, rooms=rooms)


def need_bubblewrap() -> None:
    """Skips the test, or fails it where engines are a must, when commands cannot be enclosed here."""
    why = _trouble()
    if why:
        engines.without(f"no bubblewrap: {why}")


@cache
def _trouble() -> str:
    if shutil.which("bwrap") is None:
        return "bwrap is not there"
    words = ["bwrap", "--ro-bind", "/", "/", "--unshare-user", "--unshare-net", "--proc", "/proc", "true"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stderr.strip()
