"""A cgroup for one command inside a container, so that no child process escapes. Standard library only.

A mark in the environment can be cleared and a session left; who may write no cgroups stays in the one it was started
in. Groups can be made where the engine's processes are processes of this machine and we may write its cgroups (as
root); elsewhere marks have to do. Knows nothing of the rest of the product: `inside.py` is run bare.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path("/sys/fs/cgroup")
PREFIX: Final = "planloop-exec."
KIND: Final = "pids"  # Of version 1, the one that always counts below as well as above, so that no bound is shed.


@dataclass(frozen=True, slots=True)  # Loaded by a bare interpreter, which has no msgspec.
class KernelCounts:
    """How often the kernel killed in a container because its memory was full, and refused it a process."""

    memory_kills: int = 0
    refused_processes: int = 0


def exec_cgroup_root(container: str, main: int, root: Path = ROOT) -> Path | None:
    """Where groups of the container with that id and first process stand; None where none can be made."""
    with suppress(OSError):
        for folder in _folders(main, root, KIND):
            is_its = container in folder.parts[-1] and str(main) in (folder / "cgroup.procs").read_text().split()
            if is_its and os.access(folder, os.W_OK):
                return folder
    return None


def enter_exec_cgroup(place: Path, mark: str, pid: int) -> None:
    """Puts a process of the container into the group of `mark`; what it starts from now on is there too.

    Raises OSError, also for a process elsewhere: one that has ended leaves its number to another.
    """
    if place.name not in Path(f"/proc/{pid}/cgroup").read_text():
        raise ProcessLookupError(errno.ESRCH, f"process {pid} is not in {place.name}")
    group = place / f"{PREFIX}{mark}"
    group.mkdir(exist_ok=True)
    (group / "cgroup.procs").write_text(str(pid))


def is_in_exec_cgroup(cgroups: str, mark: str) -> bool:
    """Whether a process with these `cgroups` is in the group of `mark`; of the empty mark, in any."""
    names = {name for line in cgroups.splitlines() for name in line.split("/")}
    return f"{PREFIX}{mark}" in names if mark else any(name.startswith(PREFIX) for name in names)


def remove_exec_cgroup(main: int, mark: str, root: Path = ROOT) -> bool:
    """Removes the group of `mark`, of the empty mark all, which nobody is in; whether it is gone."""
    groups = [
        group
        for folder in _folders(main, root, KIND)
        for group in (folder.glob(f"{PREFIX}*") if not mark else [folder / f"{PREFIX}{mark}"])
    ]
    for group in groups:
        with suppress(OSError):
            group.rmdir()
    return not any(group.exists() for group in groups)


def kernel_counts(main: int, root: Path = ROOT) -> KernelCounts:
    """What the kernel did so far in the container with that first process; nothing where that is not to be read."""
    kills = refused = 0
    with suppress(OSError):
        for folder in _folders(main, root, "memory"):
            kills += count_in_file(folder / "memory.events", "oom_kill") + count_in_file(
                folder / "memory.oom_control", "oom_kill"
            )
        for folder in _folders(main, root, KIND):
            # Some kernels count where the bound is, others where the one was that wanted a process.
            refused += sum(count_in_file(each / "pids.events", "max") for each in (folder, *folder.glob(f"{PREFIX}*")))
    return KernelCounts(kills, refused)


def count_in_file(file: Path, name: str) -> int:
    """The number behind `name` in a file of such lines; 0 when it is not there."""
    with suppress(OSError):
        for line in file.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0


def _folders(pid: int, root: Path, kind: str) -> Iterator[Path]:
    """The cgroup of a process that bounds `kind`: of version 1 if it has that, else of version 2."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    own = {name: path for _, names, path in lines for name in names.split(",")}
    if kind in own:
        yield root / kind / own[kind].strip("/")
    elif (root / "cgroup.controllers").is_file() and "" in own:
        yield root / own[""].strip("/")
