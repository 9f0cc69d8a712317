"""`require-file`: holds when the file is there and, unless `empty` is said, has something in it."""

from __future__ import annotations

import stat

from controllers.task.checking.contract import Bench, Finding
from schemas.task import CheckSpec


async def check(spec: CheckSpec, bench: Bench) -> Finding:
    """Looks at the file's size, and at nothing in it."""
    name = spec.arguments["path"]
    try:
        found = bench.path(name).stat()
    except (FileNotFoundError, NotADirectoryError):
        return Finding("fail", f"{name} is not there")
    except OSError as error:
        return Finding("error", f"{name} cannot be looked at: {error.strerror}")
    if not stat.S_ISREG(found.st_mode):
        return Finding("fail", f"{name} is not a regular file")
    if not found.st_size and not spec.arguments.get("empty"):
        return Finding("fail", f"{name} is empty")
    return Finding("pass", f"{name} is there, {found.st_size} bytes")
