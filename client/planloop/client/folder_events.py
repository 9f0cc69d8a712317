"""File system events of some folders, in batches.

On Linux the kernel is asked directly (inotify, through the C library): the watcher sleeps until something happens. The
`watchfiles` package serves everywhere else; it looks every few milliseconds, which is 0.6 % of a core for a plan that
sleeps (law 12) and 15 ms more for each save. A batch is a set of paths; an empty one says that some time has passed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, TypeAlias

import anyio

Batches: TypeAlias = AsyncGenerator[set[str], None]
EventSource: TypeAlias = Callable[[Iterable[Path], anyio.Event], Batches]

LOOK_INSTEAD_S: Final = 1.0  # Where the kernel has no watch left for this user.
LOOK_ANYWAY_S: Final = 5.0  # Some file systems send no events; one look costs a stat.
DEBOUNCE_MS: Final = 50  # watchfiles: at most so long are events gathered …
STEP_MS: Final = 5  # … and no longer than until so long nothing came.
READ_BYTES: Final = 64 << 10  # Some thousand events; what is left comes with the next read.

# <sys/inotify.h>: modified, attributes, closed after writing, moved away and in, created, deleted, itself gone, moved.
_MOVES: Final = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
_ONLY_FOLDERS: Final = 0x01000000
USED_UP: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC})  # Instances, files and watches.
_EVENT: Final = struct.Struct("iIII")  # Watch, mask, cookie, length of the name that follows.


async def watch_folders(folders: Iterable[Path], stop: anyio.Event) -> Batches:
    """Batches until cancelled or `stop` is set: from inotify where there is one, else from watchfiles.

    If this user has no inotify watches left, the folders are checked every second instead.
    """
    wanted = sorted(folder for folder in folders if folder.is_dir())
    try:
        watch = Inotify(wanted)
    except OSError as fault:
        others = poll_folders(stop) if fault.errno in USED_UP else watchfiles_events(wanted, stop)
        async for batch in others:
            yield batch
        return
    with watch:
        yield set()  # What was saved before the watch began.
        while True:
            with anyio.move_on_after(LOOK_ANYWAY_S):
                await anyio.wait_readable(watch.descriptor)
            yield watch.read()


async def poll_folders(stop: anyio.Event) -> Batches:
    """Yield an empty batch from time to time, without any events."""
    while not stop.is_set():
        yield set()
        with anyio.move_on_after(LOOK_INSTEAD_S):
            await stop.wait()


async def watchfiles_events(folders: Iterable[Path], stop: anyio.Event) -> Batches:
    """The same from `watchfiles`, whose thread ends only when `stop` is set."""
    from watchfiles import awatch  # noqa: PLC0415 - 50 ms that Linux does not need

    yield set()
    async for changes in awatch(
        *folders,
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        rust_timeout=int(LOOK_ANYWAY_S * 1000),
        yield_on_timeout=True,
        watch_filter=None,
        recursive=False,
        stop_event=stop,
    ):
        yield {path for _, path in changes}


class Inotify:
    """One inotify descriptor on some folders. Raises OSError if the system has no inotify."""

    def __init__(self, folders: Iterable[Path]) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(library, "inotify_init1"):
            raise OSError("this system has no inotify")
        self.descriptor: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._folders: dict[int, Path] = {}
        for folder in folders:
            watch = library.inotify_add_watch(self.descriptor, os.fsencode(folder), _MOVES | _ONLY_FOLDERS)
            if watch < 0:
                number = ctypes.get_errno()
                os.close(self.descriptor)
                raise OSError(number, "inotify_add_watch", str(folder))
            self._folders[watch] = folder

    def __enter__(self) -> Inotify:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.descriptor)

    def read(self) -> set[str]:
        """The paths that moved since the last read; empty when nothing did, or when the kernel dropped some."""
        try:
            content = os.read(self.descriptor, READ_BYTES)
        except BlockingIOError:
            return set()
        paths: set[str] = set()
        at = 0
        while at < len(content):
            watch, _, _, length = _EVENT.unpack_from(content, at)
            name = content[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
            at += _EVENT.size + length
            folder = self._folders.get(watch)
            if folder is None:
                return set()  # The queue overflowed, so the changes are unknown and everything is checked.
            paths.add(str(folder / os.fsdecode(name)) if name else str(folder))
        return paths
