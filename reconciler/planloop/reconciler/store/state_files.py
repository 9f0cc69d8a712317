"""The paths of a plan's state folder `.plan/<name>/`, and durable writes of files that other users cannot read."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from planloop.schemas.canonical_json import decode

# Every path of the state folder is spelled here and nowhere else, so that one place shows what a backup must hold: the
# log and the blobs. The rest can be rebuilt, or belongs to processes that run now.

STATE: Final = ".plan"  # Beside the plan file; one folder a plan inside.
LOG: Final = "log.db"  # The truth: log, snapshot, small blobs. SQLite adds `-wal` and `-shm` files.
BLOBS: Final = "blobs"  # Large blobs, each a file named by its digest, in folders named by its first two digits.
MIRROR: Final = "events.jsonl"  # The log as text, for any program to tail; rebuilt when missing.
OWNER: Final = "owner"  # The locked file that says which process owns the plan.
SOCKET: Final = "socket"  # The owner's API.
FILE_NOTE: Final = "file.json"  # Which plan file the folder belongs to; a hint that may be deleted.
RUN_FOLDER: Final = "run"  # Files of child processes, by operation.


def state_folder(plan_file: Path, name: str) -> Path:
    """The folder of the plan `name` described by `plan_file`. It need not exist."""
    return plan_file.parent / STATE / name


def log_file(folder: Path) -> Path:
    """The database of the log."""
    return folder / LOG


def has_log(folder: Path) -> bool:
    """Whether the state folder `folder` has a log, so its plan was applied at least once."""
    return log_file(folder).exists()


def mirror_file(folder: Path) -> Path:
    """The log as text."""
    return folder / MIRROR


def owner_file(folder: Path) -> Path:
    """The lock file."""
    return folder / OWNER


def socket_file(folder: Path) -> Path:
    """The owner's API."""
    return folder / SOCKET


def run_folder(folder: Path) -> Path:
    """Where child processes leave their output and exit codes."""
    return folder / RUN_FOLDER


def noted_plan_file(folder: Path) -> str:
    """The name of the plan file that the state folder `folder` belongs to; empty when it is not known."""
    try:
        noted = decode((folder / FILE_NOTE).read_bytes())
    except (OSError, ValueError):
        return ""
    return str(noted.get("file", "")) if isinstance(noted, dict) else ""


# A file survives a power cut only if every folder above it was flushed, too. These files hold what agents say, what
# commands print and what people answer, so other users of the machine must not read them.

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
OTHERS: Final = 0o077


def make_folder(folder: Path) -> None:
    """Create `folder` and its missing parents, durably. Raises OSError."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(FOLDER_MODE, exist_ok=True)
        sync_folder(new.parent)


def private_opener(path: str, flags: int) -> int:
    """For `open`: creates a file that other users cannot read."""
    return os.open(path, flags, FILE_MODE)


def write_private_file(path: Path, content: bytes) -> None:
    """Write `content` to the file at `path`. Raises OSError."""
    with open(path, "wb", opener=private_opener) as file:
        file.write(content)


def close_to_others(path: Path) -> None:
    """Remove other users' rights to the file or folder at `path`, which an older version may have created."""
    with suppress(OSError):  # It belongs to another user, or does not exist.
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & OTHERS:
            path.chmod(mode & ~OTHERS)


def sync_folder(folder: Path) -> None:
    """Flush the names in `folder`. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
