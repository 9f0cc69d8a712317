"""Enclosing processes for tests, over real ones."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from planloop.containers.sandboxing import cgroups, seccomp
from planloop.containers.sandboxing.bubblewrap import Home, Means
from planloop.containers.sandboxing.enclosing import EnclosingProcesses
from planloop.containers.sandboxing.rooms import Rooms
from planloop.reconciler.effects import process_table
from planloop.reconciler.effects.local_processes import LocalProcesses
from tests.product import digest

PORTIONS = sys.modules["planloop"].__path__
CODE = os.pathsep.join(str(Path(portion).parent) for portion in PORTIONS)
"""What a Python that has nothing installed needs as its path."""
PROGRAMS = (sys.prefix, sys.base_prefix, *PORTIONS)


def home_of(folder: Path) -> Home:
    return Home(os.path.realpath(folder), sys.executable, PROGRAMS, str(Path.home()))


def means(state: Path, *, bound: int | None = None) -> Means:
    """What encloses a command that a test starts by itself; the filter of system calls is written to `state`."""
    machine = os.uname().machine
    calls = state / "calls.bpf"
    calls.write_bytes(seccomp.program(machine) or b"")
    return Means(shutil.which("bwrap") or "bwrap", str(calls), seccomp.numbers(machine)["keyctl"], bound=bound)


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
    label = _label(state)
    groups = (lambda: cgroups.found(label)) if is_bounded else (lambda: None)
    return EnclosingProcesses(local, state / "enclosed", home_of(folder), groups=groups, rooms=rooms)


def _label(state: Path) -> str:
    return f"test-{digest(str(state).encode())[:12]}"


def leftovers(state: Path) -> list[str]:
    """Operations that have processes or groups left."""
    groups = cgroups.found(_label(state))
    return [one.op for one in process_table.labelled(str(state))] + ([] if groups is None else groups.ops())


def command_lines(folder: Path) -> list[bytes]:
    """Of all processes that work in `folder`, as this machine sees it."""
    out = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (place / "cwd").readlink() == folder:
                out.append((place / "cmdline").read_bytes())
    return out
