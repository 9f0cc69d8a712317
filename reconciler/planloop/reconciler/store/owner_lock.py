"""The lock on a plan's `owner` file: the process that holds it owns the plan, under an epoch of its own.

The kernel drops the lock with the process, so an owner that was killed is simply replaced. The lock keeps two owners
apart on one machine; the epoch, which the log checks at every write, stops one that lost the plan and does not know it.
What the file says (pid, socket) is for people and clients; who owns the plan is decided by the lock alone.
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
"""File systems on which a lock or the memory that SQLite shares between processes does not hold across machines."""

_WIDTH: Final = 1024  # Bytes: the file is always this long, so one write replaces it and no reader sees half of one.
_LOOKS: Final = 10  # Somebody who looks holds the lock for a moment; so many tries tell a look from an owner …
_LOOK_S: Final = 0.005  # … this far apart, in seconds.


@frozen
class PlanOwner:
    """What the owner says of itself. `since` is seconds since 1970."""

    pid: int
    epoch: int
    socket: str
    since: float


@contextmanager
def own_plan(
    folder: Path, *, now: float, stored_epoch: Callable[[Path], int], socket: Path | None = None
) -> Iterator[PlanOwner]:
    """Owns the plan in `folder` (made if missing) until the block ends; the new epoch is in what is returned.

    `stored_epoch` reads the highest epoch of the store (`database.stored_epoch`): the file may have been deleted.
    Append `taken(...)` next. Raises NotOwner with the pid of who owns it, StoreFailed when the folder cannot be used.
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
        owner = PlanOwner(os.getpid(), epoch, str(socket or state_files.socket_file(folder)), now)
        _write(handle, owner)
        yield owner
    finally:
        os.close(handle)  # Drops the lock. The file stays: removing it could remove the next owner's.


def current_owner(folder: Path) -> PlanOwner | None:
    """Who owns the plan now; None when nobody does. Cheap enough for every command."""
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
    """The record with which an epoch begins."""
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
    with suppress(OSError):  # No such file outside Linux: then it cannot be told.
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
