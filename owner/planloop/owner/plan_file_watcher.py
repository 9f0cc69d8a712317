"""Watch the plan file and the files it uses, and report each complete save.

The folder is watched, not the inode, because editors replace the file. Each symbolic link on the path is watched, too:
deployments swap the link to a folder (`current`, Kubernetes' `..data`) without changing its target. A save counts when
size and content have not changed for a moment. A missing, empty or half-saved file is reported, and never means "delete
everything".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Final

import anyio

from planloop.client import folder_events
from planloop.client.folder_events import EventSource
from planloop.client.plan_sources import read_bounded
from planloop.schemas.canonical_json import sha256_hex
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import FILE_MISSING_GRACE_S, FILE_SETTLE_S, LINKS_MAX

SETTLES_MAX: Final = 500  # A file that is written for ten seconds without a pause is used in its current form.


@frozen
class SavedFile:
    """The whole content of the plan file after a save of it or of a file that it uses."""

    content: bytes


@frozen
class UnusableFile:
    """The plan file cannot be used. `why` is a clause for a message."""

    why: str


FileChange = SavedFile | UnusableFile


class PlanFileWatcher:
    """Watches the plan file at `path`. `used` returns the other files that it was compiled from, after each save.

    `tell_moves` yields changes of folders; the default uses the best method that the system has.
    """

    def __init__(
        self,
        path: Path,
        *,
        size_max: int,
        used: Callable[[], frozenset[Path]],
        tell_moves: EventSource = folder_events.watch_folders,
    ) -> None:
        self._tell_moves = tell_moves
        self._path = path.absolute()
        self._size_max = size_max
        self._used = used
        self._seen = ""
        self._filled: frozenset[Path] = frozenset()
        self._stop = anyio.Event()

    def start_from(self, content: bytes) -> None:
        """Treat `content` as seen, because it was applied before watching started."""
        self._seen, self._filled = self._print(content), self._with_content()

    def expect(self, content: bytes) -> None:
        """Treat this content as seen, because planloop is about to write it."""
        self._seen = self._print(content)

    async def run(self, on_save: Callable[[FileChange], Awaitable[None]]) -> None:
        """Call `on_save` for every save, one after the other, until cancelled."""
        async with anyio.create_task_group() as group:
            # The watching thread cannot be cancelled. It checks this event, so that detaching does not wait for it.
            group.start_soon(_set_when_cancelled, self._stop)
            await self._follow(on_save)

    async def _follow(self, on_save: Callable[[FileChange], Awaitable[None]]) -> None:
        while True:
            ways = self._ways()
            async with aclosing(self._tell_moves(ways.folders, self._stop)) as batches:
                looked_at = anyio.current_time()
                async for paths in batches:
                    is_due = anyio.current_time() - looked_at >= folder_events.LOOK_ANYWAY_S
                    if paths and not is_due and not ways.touched_by(paths):
                        continue
                    await self._look(on_save)
                    looked_at = anyio.current_time()
                    if self._ways() != ways:
                        break  # Files or links have changed: watch the folders on the new paths.

    async def _look(self, on_save: Callable[[FileChange], Awaitable[None]]) -> None:
        found = await self._settled()
        if found is None:
            await self._tell("missing", UnusableFile(f"{self._path.name} is missing"), on_save)
        elif not found.strip():
            await self._tell("empty", UnusableFile(f"{self._path.name} is empty"), on_save)
        else:
            await self._tell(self._print(found), SavedFile(found), on_save)

    async def _tell(self, print_: str, save: FileChange, on_save: Callable[[FileChange], Awaitable[None]]) -> None:
        if print_ != self._seen:
            self._seen = print_
            await on_save(save)
            self._filled = self._with_content()

    async def _settled(self) -> bytes | None:
        """Return the content when the plan file and all files that it uses are present and have stopped changing.

        After a grace period, return the current content, or None if the file is still missing.
        """
        with anyio.move_on_after(FILE_MISSING_GRACE_S):
            before = self._look_once()
            for _ in range(SETTLES_MAX):
                await anyio.sleep(FILE_SETTLE_S)
                content, print_, is_whole = self._look_once()
                if is_whole and print_ == before[1]:
                    return content
                before = content, print_, is_whole
        return self._read()

    def _look_once(self) -> tuple[bytes | None, str, bool]:
        """Return the content, the fingerprint of all files, and whether no file has been emptied or removed."""
        content = self._read() or b""
        is_whole = bool(content.strip()) and self._filled <= self._with_content()
        return content, self._print(content), is_whole

    def _with_content(self) -> frozenset[Path]:
        """Return the used files that are not empty. An emptied or missing one may be in the middle of a save."""
        found = (file.absolute() for file in self._used())
        return frozenset(file for file in found if _size(file))

    def _read(self) -> bytes | None:
        with suppress(OSError):
            return read_bounded(self._path, self._size_max)
        return None

    def _print(self, content: bytes) -> str:
        """Return a text that changes when the plan file or a file that it uses changes."""
        parts = [sha256_hex(content)]
        for file in sorted(self._used()):
            with suppress(OSError):
                parts.append(sha256_hex(read_bounded(file, self._size_max)))
        return " ".join(parts)

    def _ways(self) -> _Ways:
        return _ways_to({self._path, *(file.absolute() for file in self._used())})


async def _set_when_cancelled(stop: anyio.Event) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        stop.set()


@frozen
class _Ways:
    """What to watch for some files: `names`, the paths on the way to them (a link among them can lead elsewhere after a
    change), and the folders of these paths, each with its identity, since a folder can be swapped as well."""

    names: frozenset[str]
    identities: frozenset[tuple[Path, tuple[int, int]]]

    @property
    def folders(self) -> frozenset[Path]:
        return frozenset(folder for folder, _ in self.identities)

    def touched_by(self, paths: set[str]) -> bool:
        """Return whether one of the changed `paths` is on a watched path or is a watched folder."""
        return not paths.isdisjoint(self.names) or not paths.isdisjoint(map(str, self.folders))


def _ways_to(files: set[Path]) -> _Ways:
    names = frozenset(name for file in files for name in _steps(file))
    folders = {name.parent for name in names}
    return _Ways(frozenset(map(str, names)), frozenset((folder, _identity(folder)) for folder in folders))


def _steps(file: Path) -> set[Path]:
    """Return the real paths of the symbolic links on the way to the file, and the real path of the file."""
    found: list[Path] = []
    rest, at = list(file.parts[1:]), Path(file.anchor)
    while rest and len(found) < LINKS_MAX:
        name = at / rest.pop(0)
        target = _link_of(name)
        if target is not None:
            found.append(name)
            at = Path(target.anchor) if target.is_absolute() else at
            rest = [*target.parts[target.is_absolute() :], *rest]
        else:
            at = at.parent if name.name == ".." else name
    return {*found, at}


def _link_of(name: Path) -> Path | None:
    """Return the target of a link; None if the path is not a link or cannot be read."""
    with suppress(OSError):
        return name.readlink()
    return None


def _identity(folder: Path) -> tuple[int, int]:
    """Return device and inode; zeros if the folder is missing."""
    try:
        about = folder.stat()
    except OSError:
        return 0, 0
    return about.st_dev, about.st_ino


def _size(file: Path) -> int:
    """Return the size of a file in bytes; 0 if it is missing."""
    try:
        return file.stat().st_size
    except OSError:
        return 0
