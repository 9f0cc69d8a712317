"""Where a file that a check names lies: below the task's workspace after links, whatever other processes do meanwhile.

A check looks with the owner's eyes, and the workspace is the agent's: a link in it could have the check tell of any
file of this machine. So links count while they stay inside. A name that itself steps out (`../data/x`), as people may
write it, stays below the folder that it has in common with the workspace.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from planloop.schemas.frozen import frozen

# Folders on the way need not be readable, where the system can tell that from passing through.
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", 0)


class LeadsOut(Exception):
    """`link`, a part of the name that a check has, is a link that leads out of the workspace."""

    def __init__(self, link: str) -> None:
        super().__init__(f"the link {link} leads out of the workspace")


@frozen
class Spot:
    """A name that is no link, or was none just now, in an open folder."""

    folder: int
    name: str


@contextmanager
def placed(workspace: str, name: str, *, no_links_from: str | None) -> Iterator[Spot]:
    """The place of `name`. Raises LeadsOut, and OSError where a folder on the way is not there.

    `no_links_from`: from that folder on the way to the workspace has no links; one that has come since is not followed.
    """
    top = os.path.realpath(workspace)
    if no_links_from is not None and top != workspace:
        raise LeadsOut(workspace)
    bound = Path(os.path.commonpath((top, os.path.normpath(os.path.join(top, name)))))  # noqa: PTH118 - as text
    real = Path(os.path.realpath(f"{top}/{name}" if not name.startswith("/") else name))
    if not real.is_relative_to(bound):
        raise LeadsOut(_link_in(top, name, bound))
    with ExitStack() as held:
        # By hand and following nothing: what was a folder a moment ago may be a link by now.
        names = real.relative_to(bound).parts or (".",)
        # Nobody whose work is checked writes around the plan's folder, and what is around it may not be readable.
        first = bound if no_links_from is None or not bound.is_relative_to(no_links_from) else Path(no_links_from)
        at = _entered(held, str(first), None)
        for folder in (*bound.relative_to(first).parts, *names[:-1]):
            at = _entered(held, folder, at)
        yield Spot(at, names[-1])


def _entered(held: ExitStack, folder: str, at: int | None) -> int:
    number = os.open(folder, _FOLDER, dir_fd=at)
    held.callback(os.close, number)
    return number


def _link_in(top: str, name: str, bound: Path) -> str:
    """The part of `name` up to the first link that leads out of `bound`."""
    parts = Path(name).parts
    ways = (Path(*parts[:count]) for count in range(1, len(parts)))
    return next((str(way) for way in ways if _is_out(Path(top, way), bound)), name)


def _is_out(way: Path, bound: Path) -> bool:
    return way.is_symlink() and not Path(os.path.realpath(way)).is_relative_to(bound)
