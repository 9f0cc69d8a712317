"""Lock a folder across processes, so that one process at a time builds images in it."""

from __future__ import annotations

import fcntl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Final

import anyio

AGAIN_S: Final = 0.2


@asynccontextmanager
async def hold_folder(folder: Path, on_wait: Callable[[], None] = lambda: None) -> AsyncIterator[None]:
    """Makes `folder` and holds it; a process that dies lets go. `on_wait` is called once if somebody else has it."""
    with _opened(folder) as lock:
        if not _taken(lock):
            on_wait()
            # The system tells nobody when a lock is free but a thread that waits for it, which cannot be cancelled.
            while not _taken(lock):  # noqa: ASYNC110
                await anyio.sleep(AGAIN_S)
        yield


def _opened(folder: Path) -> IO[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / ".lock").open("ab")


def _taken(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
