"""The files of the page: one that finds its way by itself from every path, and those that it loads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from aiohttp import web

from planloop.app.exits import Exit, Halt

ROUTE: Final = "/{path:.*}"  # Whatever no other route takes.
CANONICAL: Final = "/{path}"  # The same, as the router calls it.
INDEX: Final = "index.html"
ASSETS: Final = "assets/"  # Their names hold a hash of what is in them, so they never change.
NAME: Final = re.compile(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*", re.ASCII)  # No way up, nothing hidden, nothing absolute.


def answer(page: Path, path: str) -> web.FileResponse:
    """The file at `path` in the folder `page`, or the page itself. Raises Halt for an asset that there is not."""
    if NAME.fullmatch(path) and path != INDEX and _is_there(page / path):
        is_hashed = path.startswith(ASSETS)
        return _file(page / path, "public, max-age=31536000, immutable" if is_hashed else "no-cache")
    if path.startswith(ASSETS):
        # Not the page in its place, which a browser would keep as this script.
        raise Halt(Exit.NOT_FOUND, "the page has no such file", "load it again: it is of another version")
    if not (page / INDEX).is_file():
        raise Halt(Exit.NOT_FOUND, "the page is not built here", "make page builds it; the API answers without it")
    return _file(page / INDEX, "no-cache")


def _is_there(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # A name too long for any file.
        return False


def _file(file: Path, keeping: str) -> web.FileResponse:
    return web.FileResponse(file, headers={"Cache-Control": keeping})
