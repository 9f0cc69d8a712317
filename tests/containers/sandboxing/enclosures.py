"""Enclosing processes for tests, over real ones."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from planloop.containers.sandbox import cgroups, seccomp
from planloop.containers.sandbox.bubblewrap import BwrapPrograms, SandboxHome
from planloop.containers.sandbox.container_sandbox import SandboxContainers
from planloop.containers.sandbox.sandboxed_processes import SandboxedProcesses
from planloop.reconciler.effects import process_table
from planloop.reconciler.effects.local_processes import LocalProcesses
from tests.product import sha256_hex

PORTIONS = sys.modules["planloop"].__path__
CODE = os.pathsep.join(str(Path(portion).parent) for portion in PORTIONS)
"""What a Python that has nothing installed needs as its path."""
PROGRAMS = (sys.prefix, sys.base_prefix, *PORTIONS)


def home_of(folder: Path) -> SandboxHome:
    return SandboxHome(os.path.realpath(folder), sys.executable, PROGRAMS, str(Path.home()))


def means(state: Path, *, bound: int | None = None) -> BwrapPrograms:
    """The parts of a sandbox for a command that a test starts itself; the seccomp filter is written to `state`."""
    machine = os.uname().machine
    calls = state / "calls.bpf"
    calls.write_bytes(seccomp.seccomp_program(machine) or b"")
    return BwrapPrograms(
        shutil.which("bwrap") or "bwrap", str(calls), seccomp.syscall_numbers(machine)["keyctl"], bound=bound
    )


def enclosing(
    folder: Path,
    state: Path,
    epoch: int = 1,
    *,
    grace_s: float = 0.2,
    rooms: SandboxContainers | None = None,
    is_bounded: bool = True,
) -> SandboxedProcesses:
    """Over the plan in `folder` whose processes are kept in `state`."""
    local = LocalProcesses(state, str(state), epoch, grace_s=grace_s)
    label = _label(state)
    groups = (lambda: cgroups.find_cgroups(label)) if is_bounded else (lambda: None)
    return SandboxedProcesses(local, state / "enclosed", home_of(folder), groups=groups, rooms=rooms)


def _label(state: Path) -> str:
    return f"test-{sha256_hex(str(state).encode())[:12]}"


def leftovers(state: Path) -> list[str]:
    """Operations that have processes or groups left."""
    groups = cgroups.find_cgroups(_label(state))
    return [one.op for one in process_table.labelled_processes(str(state))] + ([] if groups is None else groups.ops())


def command_lines(folder: Path) -> list[bytes]:
    """Of all processes that work in `folder`, as this machine sees it."""
    out = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (place / "cwd").readlink() == folder:
                out.append((place / "cmdline").read_bytes())
    return out
