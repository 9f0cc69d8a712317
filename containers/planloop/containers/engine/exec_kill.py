"""Kill all processes that were started in a container with a mark, by their cgroup or their environment.

Standard library only: `exec_in_container.py` runs it in a bare interpreter.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Cgroups. A process can remove the mark from its environment and leave its session, but it can leave its cgroup only if
# it may write cgroups. Cgroups can be used if the engine's processes are visible on this machine and this process may
# write its cgroups (as root); otherwise only marks are used.

ROOT: Final = Path("/sys/fs/cgroup")
PREFIX: Final = "planloop-exec."
KIND: Final = (
    "pids"  # The controller of version 1 that always counts in child groups and in parents, so limits of parents apply.
)


@dataclass(frozen=True, slots=True)  # Loaded by a bare interpreter, which has no msgspec.
class KernelCounts:
    """How often the kernel killed a process of a container for memory, and refused it a new process."""

    memory_kills: int = 0
    refused_processes: int = 0


def exec_cgroup_root(container: str, main: int, root: Path = ROOT) -> Path | None:
    """The folder for cgroups of the container with that id and first process; None if none can be created."""
    with suppress(OSError):
        for folder in _folders(main, root, KIND):
            is_its = container in folder.parts[-1] and str(main) in (folder / "cgroup.procs").read_text().split()
            if is_its and os.access(folder, os.W_OK):
                return folder
    return None


def enter_exec_cgroup(place: Path, mark: str, pid: int) -> None:
    """Move a process of the container to the cgroup of `mark`, which its later children inherit.

    Raises OSError, also for a process outside of the container: the id of an ended process may be reused.
    """
    if place.name not in Path(f"/proc/{pid}/cgroup").read_text():
        raise ProcessLookupError(errno.ESRCH, f"process {pid} is not in {place.name}")
    group = place / f"{PREFIX}{mark}"
    group.mkdir(exist_ok=True)
    (group / "cgroup.procs").write_text(str(pid))


def is_in_exec_cgroup(cgroups: str, mark: str) -> bool:
    """Whether a process with these `cgroups` is in the group of `mark`; for the empty mark, in any such group."""
    names = {name for line in cgroups.splitlines() for name in line.split("/")}
    return f"{PREFIX}{mark}" in names if mark else any(name.startswith(PREFIX) for name in names)


def remove_exec_cgroup(main: int, mark: str, root: Path = ROOT) -> bool:
    """Remove the empty group of `mark`, or for the empty mark all empty groups; return whether none is left."""
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
    """The kernel's counts for the container with that first process; zero if they cannot be read."""
    kills = refused = 0
    with suppress(OSError):
        for folder in _folders(main, root, "memory"):
            kills += count_in_file(folder / "memory.events", "oom_kill") + count_in_file(
                folder / "memory.oom_control", "oom_kill"
            )
        for folder in _folders(main, root, KIND):
            # Some kernels count in the group with the limit, others in the group of the process that tried to fork.
            refused += sum(count_in_file(each / "pids.events", "max") for each in (folder, *folder.glob(f"{PREFIX}*")))
    return KernelCounts(kills, refused)


def count_in_file(file: Path, name: str) -> int:
    """The number after `name` in a file of `name number` lines; 0 if missing."""
    with suppress(OSError):
        for line in file.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return 0


def _folders(pid: int, root: Path, kind: str) -> Iterator[Path]:
    """The cgroup of a process that limits `kind`: of version 1 if it has one, else of version 2."""
    lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    own = {name: path for _, names, path in lines for name in names.split(",")}
    if kind in own:
        yield root / kind / own[kind].strip("/")
    elif (root / "cgroup.controllers").is_file() and "" in own:
        yield root / own[""].strip("/")


# Marks. Children inherit the variable. Some lose it (they clear their environment, or overwrite it with their title),
# so processes in a session with a marked process, children of marked processes, and all processes in the mark's cgroup
# are killed, too. All are stopped before any is killed, because some processes fork faster than they can be killed.

VARIABLE: Final = "PLANLOOP_MARK"
END: Final = ";"  # Ends each mark, so that no mark is a prefix of another.
TURNS_MAX: Final = 500  # Scans of the process table. A process that survives KILL for so long hangs in the kernel.
EMPTY_LOOKS: Final = 100
EMPTY_LOOK_S: Final = 0.005  # A killed process takes a moment to leave its group.
_MARK: Final = re.compile(r"[0-9A-Za-z_.-]+")

SCRIPT: Final = r"""
mark=$1 signal=STOP known=' ' sessions=' ' main=-
IFS= read -r stat 2>/dev/null </proc/1/stat && set -- ${stat##*) } && main=$4
is_marked() {
  while line=; IFS= read -r line || [ -n "$line" ]; do
    case $line in *"$mark"*) return 0;; esac
  done 2>/dev/null <"/proc/$1/environ"
  return 1
}
is_doomed() {
  case $known in *" $1 "*|*" $2 "*) return 0;; esac
  case $sessions in *" $3 "*) return 0;; esac
  is_marked "$1"
}
look() {
  seen=1
  for folder in /proc/[0-9]*; do
    pid=${folder##*/} stat=
    case $pid in 1|$$) continue;; esac
    IFS= read -r stat 2>/dev/null <"$folder/stat" || continue
    set -- ${stat##*) }
    case $1 in Z|X|'') continue;; esac
    is_doomed "$pid" "$2" "$4" || continue
    known="$known$pid "
    case $4 in 0|"$main") ;; *) sessions="$sessions$4 ";; esac
    case $signal$1 in STOPT|STOPt) continue;; esac
    kill -s $signal "$pid" 2>/dev/null
    seen=0
  done
  return $seen
}
for signal in STOP KILL; do
  turn=0
  while look; do
    turn=$((turn + 1))
    [ $turn -lt TURNS ] || exit 1
  done
done
exit 0
""".replace("TURNS", str(TURNS_MAX))
"""Runs in any /bin/sh, with builtins only; `$1` is the pattern. Exit code 1: a process did not end.

Shells drop the zero bytes between variables, so each mark has an end character.
"""


def mark_value(mark: str) -> str:
    """The value of the variable. Raises ValueError for a mark with characters that a shell may interpret."""
    if not _MARK.fullmatch(mark):
        raise ValueError(f"invalid mark: {mark!r}")
    return mark + END


def mark_pattern(mark: str) -> str:
    """The text to search in environments; for the empty mark, it matches every mark."""
    return f"{VARIABLE}={mark_value(mark) if mark else ''}"


def kill_argv(mark: str) -> tuple[str, ...]:
    """The command that kills all processes with `mark` when it runs inside the container."""
    return ("/bin/sh", "-c", SCRIPT, "sh", mark_pattern(mark))


def kill_from_outside(container: str, main: int, mark: str) -> bool:
    """Kill all processes with `mark` in the container with the id `container` and the first process `main`.

    Return False if this process cannot see or kill the container's processes; some may have been killed then. Blocks
    for milliseconds.
    """
    try:
        if container not in Path(f"/proc/{main}/cgroup").read_text():
            return False  # A process of another machine: the engine is remote, or in a virtual machine.
        if not _extinguish(container, main, mark):
            return False
        for _ in range(EMPTY_LOOKS):
            if remove_exec_cgroup(main, mark):
                break
            time.sleep(EMPTY_LOOK_S)
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)  # Loaded by a bare interpreter, which has no msgspec.
class ContainerProcess:
    """A process of a container. `is_marked`: its environment or its cgroup has the mark."""

    pid: int
    parent: int
    session: int
    state: str
    is_marked: bool


def processes_to_kill(
    processes: Iterable[ContainerProcess], sessions: set[int], known: set[int], main: int
) -> list[ContainerProcess]:
    """Select the processes to kill, and note their sessions and ids. `main` is the session of the container itself."""
    out = []
    for one in processes:
        if one.is_marked or one.pid in known or one.parent in known or one.session in sessions:
            known.add(one.pid)
            sessions |= {one.session} - {0, main}
            out.append(one)
    return out


def _extinguish(container: str, main: int, mark: str) -> bool:
    own = _process(main, mark, "").session
    sessions: set[int] = set()
    known: set[int] = set()
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for _ in range(TURNS_MAX):
            found = processes_to_kill(container_processes(container, main, mark), sessions, known, own)
            if number == signal.SIGSTOP:
                found = [one for one in found if one.state not in "Tt"]
            if not found:
                break
            for one in found:
                with suppress(ProcessLookupError):
                    os.kill(one.pid, number)
        else:
            return False
    return True


def container_processes(container: str, main: int, mark: str) -> Iterator[ContainerProcess]:
    """Yield the running processes of the container except its first. Raises OSError without permission."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != main:
            with suppress(FileNotFoundError, ProcessLookupError):  # The process ended meanwhile.
                cgroups = Path(entry.path, "cgroup").read_text()
                if container in cgroups:
                    process = _process(int(entry.name), mark, cgroups)
                    if process.state not in "ZX":
                        yield process


def _process(pid: int, mark: str, cgroups: str) -> ContainerProcess:
    folder = Path("/proc", str(pid))
    state, parent, _, session, *_ = folder.joinpath("stat").read_text(errors="replace").rpartition(") ")[2].split()
    is_told = b"\0" + mark_pattern(mark).encode() in b"\0" + folder.joinpath("environ").read_bytes()
    return ContainerProcess(pid, int(parent), int(session), state, is_told or is_in_exec_cgroup(cgroups, mark))
