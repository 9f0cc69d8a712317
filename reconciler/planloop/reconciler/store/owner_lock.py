"""The lock on a plan's `owner` file: the process that holds it owns the plan, under a new epoch.

The kernel releases the lock when the process ends, so a killed owner can be replaced. The lock prevents two owners on
one machine. The epoch, which the log checks at every write, stops an owner that lost the plan without noticing. The
content of the file (pid, socket) is information for clients; only the lock decides which process owns the plan.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from planloop.reconciler.errors import AGAIN, NotOwner, StoreFailed
from planloop.reconciler.store import state_files
from planloop.schemas import canonical_json
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import RecordDraft

MOUNTS: Final = Path("/proc/self/mounts")
NETWORK_SYSTEMS: Final = frozenset(
    "nfs nfs4 cifs smb3 smbfs ncpfs afs ceph glusterfs lustre beegfs gpfs fuse.sshfs fuse.glusterfs fuse.s3fs".split()
)
"""File systems on which locks and shared memory do not work across machines."""

_WIDTH: Final = 1024  # Bytes: the file always has this size, so that one write replaces it whole.
_LOOKS: Final = 10  # A command that looks for the owner holds the lock for a moment, so try this often …
_LOOK_S: Final = 0.005  # … this many seconds apart, before reporting an owner.


@frozen
class PlanOwner:
    """The content of the `owner` file. `since` is seconds since 1970."""

    pid: int
    epoch: int
    socket: str
    since: float


@contextmanager
def own_plan(folder: Path, *, now: float, stored_epoch: Callable[[Path], int]) -> Iterator[PlanOwner]:
    """Own the plan in `folder`, created if missing, until the block ends; the value has the new epoch.

    `stored_epoch` reads the highest epoch in the log, in case the `owner` file was deleted. Append `epoch_draft(...)`
    next. Raises NotOwner with the owner's pid, StoreFailed if the folder cannot be used.
    """
    _refuse_network(folder)
    try:
        state_files.make_folder(folder)
        for one in (folder, folder.parent) if folder.parent.name == state_files.STATE else (folder,):
            state_files.close_to_others(one)
        handle = os.open(state_files.owner_file(folder), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        hint = f"make {folder} a folder that this user can write, then {AGAIN}"
        raise StoreFailed(f"cannot take {folder}: {error.strerror}", hint) from error
    try:
        _lock(handle)
        before = _read(handle)
        epoch = max(before.epoch if before else 0, stored_epoch(folder)) + 1
        owner = PlanOwner(os.getpid(), epoch, str(state_files.socket_file(folder)), now)
        _write(handle, owner)
        yield owner
    finally:
        os.close(handle)  # Releases the lock. The file stays: removing it could remove the next owner's.


def current_owner(folder: Path) -> PlanOwner | None:
    """The process that owns the plan, or None. Cheap enough for every command."""
    try:
        handle = os.open(state_files.owner_file(folder), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _try_lock(handle, fcntl.LOCK_SH):
            return None
        return _read(handle)
    finally:
        os.close(handle)


def epoch_draft(owner: PlanOwner, plan: str) -> RecordDraft:
    """The first record of an epoch."""
    data = {"epoch": owner.epoch, "pid": owner.pid}
    return RecordDraft(type="epoch.taken", actor="controller:owner", subject=f"plan/{plan}", data=data)


def network_file_system(path: Path, mounts: str) -> str | None:
    """The type of the network file system that `path` (absolute, resolved) is on, by the text of `/proc/mounts`."""
    best, found = -1, ""
    for line in mounts.splitlines():
        point, system = [*line.split(), "", "", ""][1:3]
        point = point.replace("\\040", " ")
        if len(point) >= best and path.is_relative_to(point or "?"):
            best, found = len(point), system
    return found if found in NETWORK_SYSTEMS else None


def _refuse_network(folder: Path) -> None:
    with suppress(OSError):  # The file does not exist outside Linux: the type is unknown there.
        if system := network_file_system(folder.absolute().resolve(), MOUNTS.read_text(errors="replace")):
            raise StoreFailed(
                f"{folder} is on a network file system ({system}), where locks and the log are not safe",
                "move the plan file to a folder on a local disk",
            )


def _lock(handle: int) -> None:
    for _ in range(_LOOKS):
        if _try_lock(handle, fcntl.LOCK_EX):
            return
        time.sleep(_LOOK_S)
    owner = _read(handle)
    raise NotOwner(owner.pid if owner else None)


def _try_lock(handle: int, how: int) -> bool:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(handle: int) -> PlanOwner | None:
    try:
        return PlanOwner(**canonical_json.decode(os.pread(handle, _WIDTH, 0)))
    except (ValueError, TypeError):
        return None


def _write(handle: int, owner: PlanOwner) -> None:
    facts = {"pid": owner.pid, "epoch": owner.epoch, "socket": owner.socket, "since": owner.since}
    os.pwrite(handle, canonical_json.encode(facts).ljust(_WIDTH - 1) + b"\n", 0)
    os.ftruncate(handle, _WIDTH)
    os.fsync(handle)
