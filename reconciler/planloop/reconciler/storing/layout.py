"""Where a plan's state lies on disk: `.plan/<name>/` beside the plan file, and what each name in it is for.

Every path of the state folder is spelled here and nowhere else, so that a reader can list what a backup must hold: the
log and the blobs. All the rest is rebuilt, or belongs to processes that run now.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from planloop.schemas.encoding import decode

STATE: Final = ".plan"  # Beside the plan file; one folder a plan inside.
LOG: Final = "log.db"  # The truth: log, snapshot, small blobs. SQLite keeps `-wal` and `-shm` beside it.
BLOBS: Final = "blobs"  # Large blobs, in files named by digest below two digits of it.
MIRROR: Final = "events.jsonl"  # The log as text, for any program to tail; rebuilt when missing.
OWNER: Final = "owner"  # The locked file that says which process owns the plan.
SOCKET: Final = "socket"  # The owner's API.
NOTE: Final = "file.json"  # Which plan file the folder belongs to; a hint that may be deleted.
RUN: Final = "run"  # Files of child processes, by operation.


def state_folder(plan_file: Path, name: str) -> Path:
    """The folder of the plan `name` described by `plan_file`. It need not exist."""
    return plan_file.parent / STATE / name


def log_file(folder: Path) -> Path:
    """The database of the log."""
    return folder / LOG


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
    return folder / RUN


def blobs_folder(folder: Path) -> Path:
    """Where large blobs are."""
    return folder / BLOBS


def noted_file(folder: Path) -> str:
    """The name of the plan file that the state folder `folder` belongs to; empty when it is not known."""
    try:
        noted = decode((folder / NOTE).read_bytes())
    except (OSError, ValueError):
        return ""
    return str(noted.get("file", "")) if isinstance(noted, dict) else ""
