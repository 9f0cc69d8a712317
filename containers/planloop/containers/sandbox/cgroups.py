"""Limit the memory and processes of a command with cgroups, version 1 and 2.

Each operation has a group `planloop/<plan>/<op>` below the owner's own group, so that the owner's limits include its
commands. The launched process enters the group before it becomes the command. Groups that a killed owner left are found
by name. If no group can be created (most users are not root), `find_cgroups` returns None and rlimits are used.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from planloop.containers.engine import exec_kill
from planloop.schemas.frozen import frozen

ROOT: Final = Path("/sys/fs/cgroup")
OURS: Final = "planloop"
NEEDED: Final = ("memory", "pids")
ENTER: Final = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ >"$1/cgroup.procs" || exit 126; shift; n=$((n-1)); done; '
"""Shell code for the start of a launch: enters the groups in the next `$1` arguments, and removes these arguments."""


@frozen
class LimitEvents:
    """How the kernel enforced limits: the number of kills for memory, and whether it refused new processes."""

    memory_kills: int = 0
    refused_processes: int = 0


@frozen
class PlanCgroups:
    """Cgroups of a plan. `places` are their parent folders by controller; version 2 has one for both."""

    places: tuple[tuple[str, Path], ...]
    is_unified: bool

    def make(self, op: str, memory_bytes: int | None, processes: int | None) -> tuple[str, ...]:
        """Create the groups of `op` with its limits, and return their folders. Raises OSError."""
        for _, place in self.places:
            place.mkdir(parents=True, exist_ok=True)
            if self.is_unified:
                for folder in (place.parent.parent, place.parent, place):
                    _hand_down(folder)
        out = []
        for folder in self._folders(op):
            folder.mkdir(exist_ok=True)
            out.append(str(folder))
        for kind, place in self.places:
            if kind == "memory" and memory_bytes is not None:
                self._bound_memory(place / op, memory_bytes)
            if kind == "pids" and processes is not None:
                (place / op / "pids.max").write_text(str(processes))
        return tuple(out)

    def _bound_memory(self, folder: Path, size: int) -> None:
        if self.is_unified:
            (folder / "memory.max").write_text(str(size))
            with suppress(OSError):  # A kernel without swap accounting.
                (folder / "memory.swap.max").write_text("0")
            return
        (folder / "memory.limit_in_bytes").write_text(str(size))
        with suppress(OSError):
            (folder / "memory.memsw.limit_in_bytes").write_text(str(size))

    def limit_events(self, op: str) -> LimitEvents:
        """How the kernel enforced the limits of `op`; no events if it has no groups."""
        places = dict(self.places)
        memory, pids = places["memory"] / op, places["pids"] / op
        events = memory / ("memory.events" if self.is_unified else "memory.oom_control")
        return LimitEvents(
            exec_kill.count_in_file(events, "oom_kill"), exec_kill.count_in_file(pids / "pids.events", "max")
        )

    def remove(self, op: str) -> bool:
        """Kill all processes in the groups of `op` and remove the groups; return whether that succeeded.

        The plan's folders are removed with the last group.
        """
        for folder in self._folders(op):
            for pid in _members(folder):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(OSError):
                folder.rmdir()
        for _, place in self.places:
            with suppress(OSError):
                place.rmdir()
        return not any(folder.exists() for folder in self._folders(op))

    def ops(self) -> list[str]:
        """The operations that have groups."""
        found = {entry.name for _, place in self.places for entry in _entries(place) if entry.is_dir()}
        return sorted(found)

    def close(self) -> None:
        """Remove the plan's folders if they are empty."""
        for _, place in self.places:
            with suppress(OSError):
                place.rmdir()
            with suppress(OSError):
                place.parent.rmdir()

    def _folders(self, op: str) -> list[Path]:
        return list(dict.fromkeys(place / op for _, place in self.places))


def find_cgroups(plan: str, root: Path = ROOT, own: Path = Path("/proc/self/cgroup")) -> PlanCgroups | None:
    """Return the cgroups for the commands of the plan; None without permission. Creates nothing yet."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return None
    with suppress(OSError):
        return _version_1(plan, root, lines) or _version_2(plan, root, lines)
    return None


def _version_1(plan: str, root: Path, lines: Sequence[Sequence[str]]) -> PlanCgroups | None:
    own = {name: path for _, names, path in lines for name in names.split(",")}
    if any(name not in own or not (root / name).is_dir() for name in NEEDED):
        return None
    places = tuple((name, root / name / own[name].strip("/") / OURS / plan) for name in NEEDED)
    return PlanCgroups(places, is_unified=False) if all(_may_make(place) for _, place in places) else None


def _version_2(plan: str, root: Path, lines: Sequence[Sequence[str]]) -> PlanCgroups | None:
    own = next((path for number, names, path in lines if number == "0" and not names), None)
    if own is None or not (root / "cgroup.controllers").is_file():
        return None
    place = root / own.strip("/") / OURS / plan
    # A group with processes, like that of a login session, cannot enable controllers for children, except for the real
    # root group. That one has no `cgroup.type`: the root that a container sees is an ordinary group.
    is_root = place.parent.parent == root and not (root / "cgroup.type").exists()
    have = (place.parent.parent / ("cgroup.controllers" if is_root else "cgroup.subtree_control")).read_text().split()
    if not set(NEEDED) <= set(have):
        return None
    return PlanCgroups(tuple((name, place) for name in NEEDED), is_unified=True) if _may_make(place) else None


def _may_make(place: Path) -> bool:
    above = next(folder for folder in place.parents if folder.is_dir())
    return os.access(above, os.W_OK)


def _hand_down(folder: Path) -> None:
    control = folder / "cgroup.subtree_control"
    if not set(NEEDED) <= set(control.read_text().split()):
        control.write_text("+memory +pids")


def _members(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError):
        yield from os.scandir(folder)
