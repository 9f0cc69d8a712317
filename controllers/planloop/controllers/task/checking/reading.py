"""Reads a file for a check, bounded, away from the event loop."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

import anyio.to_thread

from planloop.controllers.task.checking.contract import Bench, Finding
from planloop.controllers.task.checking.placing import LeadsOut, placed
from planloop.schemas import limits

# Not waiting: opening a pipe that nobody writes to would hold this thread, which nothing can cancel, for ever.
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


async def read(bench: Bench, name: str) -> bytes | Finding:
    """The bytes of the file `name` of the workspace, or what a check that needs them finds."""
    return await anyio.to_thread.run_sync(_read, bench, name)


def _read(bench: Bench, name: str) -> bytes | Finding:
    try:
        with (
            placed(bench.cwd, name, no_links_from=bench.no_links_from) as spot,
            os.fdopen(os.open(spot.name, _FLAGS, dir_fd=spot.folder), "rb") as file,
        ):
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return Finding("fail", f"{name} is not a regular file")
            content = file.read(limits.OUTPUT_KEPT_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return Finding("fail", f"{name} is not there")
    except LeadsOut as error:
        return Finding("fail", f"{name} is not read: {error}")
    except OSError as error:
        is_circle = error.errno == errno.ELOOP
        return Finding("fail" if is_circle else "error", f"{name} cannot be read: {error.strerror}")
    if len(content) > limits.OUTPUT_KEPT_BYTES_MAX:
        return Finding("fail", f"{name} is larger than {limits.OUTPUT_KEPT_BYTES_MAX >> 20} MiB")
    return content
