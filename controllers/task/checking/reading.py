"""Reads a file for a check, bounded, away from the event loop."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import anyio.to_thread

from controllers.task.checking.contract import Finding
from schemas import limits


async def read(path: Path, name: str) -> bytes | Finding:
    """The bytes of `path`, or what a check that needs them finds."""
    return await anyio.to_thread.run_sync(_read, path, name)


def _read(path: Path, name: str) -> bytes | Finding:
    try:
        # Not waiting: opening a pipe that nobody writes to would hold this thread, which nothing can cancel, for ever.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return Finding("fail", f"{name} is not a regular file")
            content = file.read(limits.OUTPUT_KEPT_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Finding("fail", f"{name} is not there")
    except OSError as error:
        is_circle = error.errno == errno.ELOOP
        return Finding("fail" if is_circle else "error", f"{name} cannot be read: {error.strerror}")
    if len(content) > limits.OUTPUT_KEPT_BYTES_MAX:
        return Finding("fail", f"{name} is larger than {limits.OUTPUT_KEPT_BYTES_MAX >> 20} MiB")
    return content
