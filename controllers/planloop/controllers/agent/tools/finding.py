"""Walking a workspace: what `list` and `search` see. Links are not followed, closed folders are not entered."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Final

from planloop.controllers.agent.tools.faults import ToolFault
from planloop.controllers.agent.tools.workspace import Spot, Workspace, read_file
from planloop.schemas import limits, patterns
from planloop.schemas.encoding import printable
from planloop.schemas.file_text import lines_of, text_of
from planloop.schemas.frozen import frozen

SKIPPED: Final = frozenset({".git", ".plan"})
LINE_SHOWN_CHARS: Final = 300


@frozen
class Found:
    """A regular file. `below` is relative to the folder walked, `path` to the plan's; both can be printed."""

    below: str
    path: str
    size_bytes: int


def files_below(workspace: Workspace, path: str, most: int, tool: str = "list") -> list[Found]:
    """At most `most` files below `path` that `tool` may tell of, in order of their names. Raises ToolFault."""
    found: list[Found] = []
    with workspace.folder_at(path) as spot:
        for folder, names, number in _walk(spot):
            for name in names:
                below = f"{folder}/{name}".removeprefix("/")
                whole = f"{spot.path}/{below}".removeprefix("/")
                if not workspace.shows(tool, whole):
                    continue
                about = _about(name, number)
                if about is not None and stat.S_ISREG(about.st_mode):
                    found.append(Found(printable(below), printable(whole), about.st_size))
                if len(found) >= most:
                    return found
    return found


def _about(name: str, folder: int) -> os.stat_result | None:
    """None for a file that went since its folder was listed."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _walk(spot: Spot) -> Iterator[tuple[str, list[str], int]]:
    for folder, folders, names, number in os.fwalk(spot.name, dir_fd=spot.folder, follow_symlinks=False):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        yield folder.removeprefix(spot.name).removeprefix("/"), sorted(names), number


def hits_in(workspace: Workspace, path: str, glob: str, text: str, any_case: bool) -> list[str]:
    """Lines `path:number: line` that hold `text`, at most SEARCH_HITS_MAX; files that are not text are passed over."""
    wanted = text.casefold() if any_case else text
    hits: list[str] = []
    for found in files_below(workspace, path, limits.FILES_SEARCHED_MAX, "search"):
        if found.size_bytes > limits.FILE_BYTES_MAX or not patterns.any_path([glob], found.below):
            continue
        for number, line in enumerate(_lines(workspace, path, found), start=1):
            if wanted in (line.casefold() if any_case else line):
                hits.append(f"{found.below}:{number}: {line[:LINE_SHOWN_CHARS]}")
            if len(hits) >= limits.SEARCH_HITS_MAX:
                return [*hits, f"[… more than {limits.SEARCH_HITS_MAX} hits …]"]
    return hits


def _lines(workspace: Workspace, path: str, found: Found) -> list[str]:
    try:
        with workspace.spot(f"{path}/{found.below}", "read", "search") as spot:
            text = text_of(read_file(spot))
    except ToolFault:
        return []  # Not allowed, or gone since it was listed: nothing to find in it.
    return [] if text is None else [line.rstrip("\r\n") for line in lines_of(text.shown)]
