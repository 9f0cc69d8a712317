"""`require-file`: holds when the file is there and, unless `empty` is said, has something in it."""

from __future__ import annotations

import errno
import os
import stat

from planloop.controllers.task.checking.contract import Bench, Finding
from planloop.controllers.task.checking.placing import LeadsOut, placed
from planloop.schemas.task import CheckSpec


async def check(spec: CheckSpec, bench: Bench) -> Finding:
    """Looks at the file's size, and at nothing in it."""
    name = spec.arguments["path"]
    try:
        with placed(bench.cwd, name, no_links_from=bench.no_links_from) as spot:
            found = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return Finding("fail", f"{name} is not there")
    except LeadsOut as error:
        return Finding("fail", f"{name} is not looked at: {error}")
    except OSError as error:
        is_circle = error.errno == errno.ELOOP  # Or became a link while it was looked for: no file either way.
        return Finding("fail" if is_circle else "error", f"{name} cannot be looked at: {error.strerror}")
    if not stat.S_ISREG(found.st_mode):
        return Finding("fail", f"{name} is not a regular file")
    if not found.st_size and not spec.arguments.get("empty"):
        return Finding("fail", f"{name} is empty")
    return Finding("pass", f"{name} is there, {found.st_size} bytes")
