"""Read a file while another process writes to it: output of commands and of containers."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from planloop.reconciler.effects.rolling_file import newest_lines
from planloop.reconciler.store import state_files

# What a command of a plan has written so far, read from its file: the same with an owner, without, and beside one.

_OP: Final = re.compile(r"[\w-][\w.-]{0,199}", re.ASCII)


def open_output(folder: Path, op: str) -> BinaryIO | None:
    """Open the file that the command of the operation `op` writes to; `folder` is the plan's state.

    None if the file does not exist: the command has ended and its output is a blob, or it never started.
    """
    if _OP.fullmatch(op) is None:
        return None  # Never a file of another folder.
    try:
        return (state_files.run_folder(folder) / f"{op}.out").open("rb")
    except OSError:
        return None


# Read a file while it grows: the output of a container or of a command.


class TailFile:
    """A file that another process appends to, replaces, or shortens at its beginning (`effects/rolling_file.py`)."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._file: BinaryIO | None = None
        self._text = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.is_anew = False
        """Whether what `more` gave last is the beginning of another file, and not what follows."""

    def end(self, bytes_max: int) -> tuple[int, str]:
        """Return the last `bytes_max` bytes in whole lines, and their first position; `more` continues after them.

        Call this only before `more`.
        """
        try:
            self._file = self._path.open("rb")
        except OSError:
            return 0, ""
        start, content = read_page(self._file, None, bytes_max)
        return start, self._text.decode(content)

    @property
    def key(self) -> str:
        """Return an identity of the file; empty if it does not exist."""
        return "" if self._file is None else file_key(self._file)

    def more(self) -> str:
        """What has come since it was asked last."""
        self.is_anew = False
        return self._text.decode(b"".join(self._pieces()))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _pieces(self) -> Iterator[bytes]:
        if self._file is not None:
            yield self._file.read()
        try:
            file = self._path.open("rb")
        except OSError:
            return
        known = b""
        if self._file is not None:
            if _is_same(self._file, file):
                file.close()
                return
            known = self._kept(self._file)
            self._file.close()
            self.is_anew = not known
        self._file = file
        content = file.read()
        yield content.removeprefix(known)

    def _kept(self, file: BinaryIO) -> bytes:
        """What the next file has of this one, which is read to its end: nothing, unless it had become too long."""
        return newest_lines(file, self._bytes_max) if file.tell() > self._bytes_max else b""


def read_page(file: BinaryIO, before: int | None, bytes_max: int) -> tuple[int, bytes]:
    """At most `bytes_max` before the byte `before` (None: the end), in whole lines, and where they begin.

    A longer line is cut. The file position is after the lines.
    """
    end = file.seek(0, os.SEEK_END) if before is None else before
    start = max(0, end - bytes_max)
    file.seek(start)
    content = file.read(end - start)
    cut = content.find(b"\n") + 1 if start > 0 else 0
    cut = cut if cut < len(content) else 0
    return start + cut, content[cut:]


def file_key(file: BinaryIO) -> str:
    """What tells an open file from the one that takes its place."""
    return str(os.fstat(file.fileno()).st_ino)


def _is_same(one: BinaryIO, other: BinaryIO) -> bool:
    return os.path.samestat(os.fstat(one.fileno()), os.fstat(other.fileno()))
