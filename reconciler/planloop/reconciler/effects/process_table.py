"""Find processes by planloop's labels, and wait for exits, with the kernel.

On Linux, labels are read from `/proc`, and pidfds report exits without polling. Elsewhere kqueue reports exits, and
labels cannot be read, so callers use the process ids in their files.
"""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path
from typing import Final

import anyio

from planloop.schemas.frozen import frozen

PLAN_LABEL: Final = "PLANLOOP_PLAN"
OP_LABEL: Final = "PLANLOOP_OP"
EPOCH_LABEL: Final = "PLANLOOP_EPOCH"
HAS_LABELS: Final = sys.platform == "linux"
_PROC: Final = Path("/proc")


@frozen
class LabelledProcess:
    """A running process of a plan."""

    pid: int
    op: str


def labelled_processes(plan: str) -> list[LabelledProcess]:
    """Return all running processes with the label of `plan` except this one; empty if labels cannot be read."""
    if not HAS_LABELS:
        return []
    mark = f"{PLAN_LABEL}={plan}".encode()
    found = []
    for entry in os.listdir(_PROC):  # noqa: PTH208 - Path objects for each process double the time of a scan
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        environment = _environment(int(entry))
        if mark in environment:
            found.append(LabelledProcess(int(entry), _value(environment, OP_LABEL)))
    return found


def has_labels(pid: int, plan: str, op: str) -> bool:
    """Whether `pid` runs and is a process of `op`; if labels cannot be read, whether it runs."""
    if not HAS_LABELS:
        return _lives(pid)
    environment = _environment(pid)
    return f"{PLAN_LABEL}={plan}".encode() in environment and _value(environment, OP_LABEL) == op


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []  # It has ended, or belongs to another user.


def _value(environment: list[bytes], name: str) -> str:
    start = f"{name}=".encode()
    return next((item[len(start) :].decode() for item in environment if item.startswith(start)), "")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def boot_id() -> str:
    """A text that changes with every reboot; empty if the system has none."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


async def wait_for_exit(pid: int) -> None:
    """Return when `pid` has exited, a child or not. A child stays a zombie until it is reaped."""
    try:
        watched = _exit_fd(pid)
    except ProcessLookupError:
        return
    try:
        await anyio.wait_readable(watched)
    finally:
        os.close(watched)


if sys.platform == "darwin":

    def _exit_fd(pid: int) -> int:
        queue = select.kqueue()
        wanted = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
        try:
            queue.control([wanted], 0, 0)
            return os.dup(queue.fileno())
        finally:
            queue.close()

else:

    def _exit_fd(pid: int) -> int:
        return os.pidfd_open(pid)


def read_umask() -> int:
    """Return the umask of this process without changing it."""
    try:
        lines = (_PROC / "self/status").read_text().splitlines()
        return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))
    except (OSError, StopIteration, ValueError):
        mask = os.umask(0o077)
        os.umask(mask)
        return mask
