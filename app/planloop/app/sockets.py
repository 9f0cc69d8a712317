"""The owner's unix socket: where it is, and how both sides get to it when its path is too long for the kernel.

The socket stands in the plan's state folder with mode 0600: who may read the log may talk to the owner. The kernel
takes about a hundred bytes of path, so a longer one is reached through a short-lived symlink in a private folder.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from planloop.reconciler.storing import layout

PATH_BYTES_MAX: Final = 100  # Linux takes 107, macOS 103.


def connect(folder: Path, *, timeout_s: float | None = None) -> socket.socket:
    """A connection to the owner of the plan in `folder`. Raises OSError when nobody listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout_s)
    try:
        with _short(folder) as short:
            connection.connect(short)
    except BaseException:
        connection.close()
        raise
    return connection


def listen(folder: Path) -> socket.socket:
    """A listening socket in `folder`, in place of what a killed owner left there. The caller holds the owner's lock."""
    with suppress(FileNotFoundError):
        layout.socket_file(folder).unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(folder) as short:
            old_mask = os.umask(0o177)  # The socket is never open to others, not even for a moment.
            try:
                listener.bind(short)
            finally:
                os.umask(old_mask)
    except BaseException:
        listener.close()
        raise
    listener.listen(64)
    listener.setblocking(False)
    return listener


def made(folder: Path) -> tuple[int, ...]:
    """What tells the socket's file from another of its name; empty when there is none."""
    try:
        found = layout.socket_file(folder).lstat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_mtime_ns)


def remove(folder: Path, own: tuple[int, ...]) -> None:
    """Takes the socket's file away if it is still `own`; called by its owner when it leaves.

    Where somebody removed the state folder, another owner may have made its own there.
    """
    if made(folder) == own:
        with suppress(OSError):
            layout.socket_file(folder).unlink()


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    path = str(layout.socket_file(folder))
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield path
        return
    private = Path("/tmp") / f"planloop-{os.urandom(6).hex()}"
    private.mkdir(mode=0o700)
    link = private / "s"
    try:
        link.symlink_to(folder.absolute(), target_is_directory=True)
        yield str(layout.socket_file(link))
    finally:
        link.unlink(missing_ok=True)
        private.rmdir()
