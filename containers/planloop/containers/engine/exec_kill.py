"""Kill every process started in a container under one mark, from inside or from the host. Standard library only.

The mark is a variable of the environment, which children inherit. Some lose it (they clear their environment, or write
their title over it), so what is in a session with a marked process, or is a child of one, goes with it; and where there
may be a group for it (`planloop.containers.engine.exec_cgroup`), whatever is in that, which none gets out of.
Everything is stopped before it is killed: what forks faster than one can kill comes to rest that way.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from planloop.containers.engine import exec_cgroup

VARIABLE: Final = "PLANLOOP_MARK"
END: Final = ";"  # After each mark, so that none is the beginning of another.
TURNS_MAX: Final = 500  # Looks at the process table; what has not died of KILL by then hangs in the kernel.
EMPTY_LOOKS: Final = 100
EMPTY_LOOK_S: Final = 0.005  # Who was killed takes a moment to leave its group.
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
"""For any /bin/sh, by what is built into it; `$1` is what to look for. Exit code 1: something would not die.

Shells skip the zero bytes between variables, which is why a mark has an end of its own.
"""


def mark_value(mark: str) -> str:
    """The value of the variable. Raises ValueError for a mark that a shell might take for more than a name."""
    if not _MARK.fullmatch(mark):
        raise ValueError(f"no mark: {mark!r}")
    return mark + END


def mark_pattern(mark: str) -> str:
    """What to look for in an environment; of the empty mark, whatever has one."""
    return f"{VARIABLE}={mark_value(mark) if mark else ''}"


def kill_argv(mark: str) -> tuple[str, ...]:
    """The command that ends everything under `mark` when it is run inside."""
    return ("/bin/sh", "-c", SCRIPT, "sh", mark_pattern(mark))


def kill_from_outside(container: str, main: int, mark: str) -> bool:
    """Ends everything under `mark` in the container with the id `container` and the first process `main`.

    False when this machine does not show the container's processes to us, or will not have us end them; then some may
    have been. Blocks, for milliseconds.
    """
    try:
        if container not in Path(f"/proc/{main}/cgroup").read_text():
            return False  # Another machine's number: the engine is elsewhere, or in a virtual machine.
        if not _extinguish(container, main, mark):
            return False
        for _ in range(EMPTY_LOOKS):
            if exec_cgroup.remove_exec_cgroup(main, mark):
                break
            time.sleep(EMPTY_LOOK_S)
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)  # Loaded by a bare interpreter, which has no msgspec.
class ContainerProcess:
    """One of a container. `is_marked` is whether its own environment or its group says so."""

    pid: int
    parent: int
    session: int
    state: str
    is_marked: bool


def processes_to_kill(
    processes: Iterable[ContainerProcess], sessions: set[int], known: set[int], main: int
) -> list[ContainerProcess]:
    """Those to end, of which it notes the sessions and numbers; `main` is the session of the container's own."""
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
    """Those of the container that live, but for its first. Raises OSError where we may not look."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != main:
            with suppress(FileNotFoundError, ProcessLookupError):  # It ended while we looked.
                cgroups = Path(entry.path, "cgroup").read_text()
                if container in cgroups:
                    process = _process(int(entry.name), mark, cgroups)
                    if process.state not in "ZX":
                        yield process


def _process(pid: int, mark: str, cgroups: str) -> ContainerProcess:
    folder = Path("/proc", str(pid))
    state, parent, _, session, *_ = folder.joinpath("stat").read_text(errors="replace").rpartition(") ")[2].split()
    is_told = b"\0" + mark_pattern(mark).encode() in b"\0" + folder.joinpath("environ").read_bytes()
    return ContainerProcess(
        pid, int(parent), int(session), state, is_told or exec_cgroup.is_in_exec_cgroup(cgroups, mark)
    )
