"""The workspace of an agent: path resolution with symbolic links, rights, reading, atomic replacement, and search.

Each path is resolved one name at a time from an open directory. The kernel never follows a link: links are read and
resolved here, and `..` leaves only directories that this walk entered. A process that replaces a folder by a link
between check and use therefore cannot lead the agent outside. `.plan` cannot be read; `.git` and the plan file cannot
be written (law 9).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Final, Literal

from planloop.controllers.agent.tools.errors import ToolDenied, ToolError, ToolFailed
from planloop.schemas import limits, patterns
from planloop.schemas.canonical_json import printable_name, sha256_hex
from planloop.schemas.file_text import decode_file_text, is_binary, split_lines
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.objects.fork import LOCK_PLACES
from planloop.schemas.quantities import format_size

CLOSED_NAMES: Final = frozenset({".plan"})
UNWRITABLE_NAMES: Final = frozenset({".git", ".plan"})

BINARY_FILE: Final = "Binary"
"""The reason of errors about binary files, which the file tools neither show nor change."""
START_BYTES: Final = 4096  # The part of a large file that decides whether it is text.

AccessMode = Literal["read", "write"]
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOVED: Final = frozenset({errno.ELOOP, errno.ENOTDIR})


class _Missing(ToolFailed):
    """A folder in the path does not exist."""


@frozen
class OpenPath:
    """A name in an open directory. `path` is relative to the plan's folder, with `/` between names."""

    folder: int
    name: str
    path: str


@frozen
class Workspace:
    """The folder of a task and the agent's rights in it.

    `folder` is the plan's folder, `root` the task's folder below it; both are absolute and without links. `read` and
    `write` are globs relative to `folder`, None for the whole workspace. `deny` are call patterns. `allow` are lists of
    call patterns, and every list must allow a call. `place` is the prefix of paths in locks: a file of a fork is not
    the file of that name in the plan's folder.
    """

    folder: Path
    root: Path
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    allow: tuple[tuple[str, ...] | None, ...] = ()
    plan_file: Path | None = None
    place: str = ""

    def locked(self, path: str) -> str:
        """Return the name in locks of a path or glob relative to `folder`."""
        return f"{self.place}/{path}" if self.place else path

    def unlocked(self, name: str) -> str | None:
        """Return the path of a name in locks, the inverse of `locked`; None for a lock outside this tree."""
        if not self.place:
            return None if name.startswith(f"{LOCK_PLACES}/") else name
        return name.removeprefix(f"{self.place}/") if name.startswith(f"{self.place}/") else None

    def ensure(self) -> None:
        """Create the workspace's folder if it does not exist."""
        with _Walk(self, is_making=True) as walk:
            walk.enter(())

    @contextmanager
    def spot(self, path: str, mode: AccessMode, tool: str, *, makes_folders: bool = False) -> Iterator[OpenPath]:
        """Resolve `path`, check the rights, and hold its directory open. Raises ToolDenied and ToolFailed."""
        with _Walk(self, is_making=makes_folders) as walk:
            name = walk.enter(self._names(path))
            spot = OpenPath(walk.at, name, "/".join((*walk.names, name)))
            self._admit(spot, mode, tool)
            yield spot

    @contextmanager
    def folder_at(self, path: str) -> Iterator[OpenPath]:
        """Resolve the folder `path`. The caller checks the rights of each file in it."""
        with _Walk(self, is_making=False) as walk:
            name = walk.enter(self._names(path))
            if name != ".":
                walk.enter((name, "."))
            if CLOSED_NAMES & {name.casefold() for name in walk.names}:
                raise ToolDenied(f"`{path}` cannot be read by agents")
            yield OpenPath(walk.at, ".", "/".join(walk.names))

    def leads_to(self, path: str) -> str:
        """Resolve the links in `path`, relative to the plan's folder. Names that do not exist are kept as written.

        Raises ToolDenied and ToolFailed.
        """
        names = [name for name in self._names(path) if name not in ("", ".")]
        for depth in range(len(names), 0, -1):
            with suppress(_Missing), _Walk(self, is_making=False) as walk:
                name = walk.enter(tuple(names[:depth]))
                found, rest = (*walk.names, *(() if name == "." else (name,))), names[depth:]
                break
        else:
            found, rest = self.root.relative_to(self.folder).parts, names
        if ".." in rest:
            raise ToolFailed("BadPath", f"`{path}` has `..` after a folder that does not exist")
        return "/".join((*found, *rest)) or "."

    def _names(self, path: str) -> tuple[str, ...]:
        if "\0" in path or not path.strip():
            raise ToolFailed("BadPath", "a path must be non-empty text without NUL, relative to the workspace")
        if not path.startswith("/"):
            return tuple(path.split("/"))
        try:
            return Path(path).relative_to(self.root).parts
        except ValueError:
            raise ToolDenied(f"`{path}` is outside the workspace `{self.root}`") from None

    def _admit(self, spot: OpenPath, mode: AccessMode, tool: str) -> None:
        names = {name.casefold() for name in spot.path.split("/")}
        closed = (CLOSED_NAMES if mode == "read" else UNWRITABLE_NAMES) & names
        if closed:
            raise ToolDenied(
                f"`{spot.path}`: {min(closed)} cannot be {'read' if mode == 'read' else 'written'} by agents"
            )
        globs = self.read if mode == "read" else self.write
        if not patterns.path_matches(globs, spot.path):
            raise outside_rights(spot.path, mode, globs)
        if denial := patterns.find_denial(self.deny, tool, (spot.path,)):
            raise ToolDenied(f"`{spot.path}` is denied by `{denial}`")
        if not self.allows(tool, spot.path):
            raise ToolDenied(f"`{spot.path}`: rights allow `{tool}` on other paths only")
        if mode == "write" and self._is_plan_file(spot):
            raise ToolDenied(f"`{spot.path}` is the plan file, which only people edit: use the plan tools")

    def allows(self, tool: str, path: str) -> bool:
        """Whether every list of allowed calls allows `tool` on `path`, relative to the plan's folder."""
        return all(patterns.is_allowed_by(allowed, tool, (path,)) for allowed in self.allow)

    def shows(self, tool: str, path: str) -> bool:
        """Whether `tool` may list the file at `path`."""
        is_denied = patterns.find_denial(self.deny, tool, (path,))
        return patterns.path_matches(self.read, path) and not is_denied and self.allows(tool, path)

    def may_write(self, path: str, tool: str) -> bool:
        """Whether `tool` may write the file at `path`, relative to the plan's folder and without links."""
        root = "" if self.root == self.folder else f"{self.root.relative_to(self.folder)}/"
        is_denied = patterns.find_denial(self.deny, tool, (path,))
        is_allowed = patterns.path_matches(self.write, path) and not is_denied and self.allows(tool, path)
        return path.startswith(root) and is_allowed

    def _is_plan_file(self, spot: OpenPath) -> bool:
        if self.plan_file is None:
            return False
        if (self.folder / spot.path) == self.plan_file:
            return True
        try:
            theirs = self.plan_file.stat()
            ours = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
        except OSError:
            return False
        return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


def outside_rights(path: str, mode: AccessMode, globs: Sequence[str] | None) -> ToolDenied:
    """The error for a path that the rights to read or write do not cover."""
    allowed = ", ".join(f"`{glob}`" for glob in globs or ()) or "no path"
    return ToolDenied(f"`{path}` may not be {'read' if mode == 'read' else 'written'}: rights allow {allowed}")


@mutable
class _Walk:
    """The directories entered so far, innermost last; all are closed at the end."""

    space: Workspace
    is_making: bool
    names: list[str] = field(default_factory=list)
    _open: list[int] = field(default_factory=list)
    _floor: int = 0
    _links: int = 0

    def __enter__(self) -> _Walk:
        try:
            self._open.append(os.open(self.space.folder, _DIRECTORY))
        except FileNotFoundError:  # The working tree of a fork was removed, or the run is a replay.
            raise _Missing("NotFound", f"the folder `{self.space.folder}` does not exist") from None
        try:
            if self.space.root is not self.space.folder:
                # Neither path has links or `..`, so a text operation suffices; `relative_to` takes ten times as long.
                for name in filter(None, str(self.space.root)[len(str(self.space.folder)) :].split("/")):
                    self._descend(name)
        except BaseException:
            self._close()
            raise
        self._floor = len(self.names)
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        while self._open:
            os.close(self._open.pop())

    @property
    def at(self) -> int:
        return self._open[-1]

    def enter(self, names: tuple[str, ...]) -> str:
        """Walk to the directory of the last name and return that name; `.` for the directory itself."""
        rest = [name for name in names if name]
        while rest:
            name = rest.pop(0)
            if name == ".":
                continue
            if name == "..":
                self._ascend()
            elif (target := self._link(name)) is not None:
                rest = [*self._through(target), *rest]
            elif not rest:
                return name
            else:
                self._descend(name)
        return "."

    def _link(self, name: str) -> str | None:
        try:
            if not stat.S_ISLNK(os.stat(name, dir_fd=self.at, follow_symlinks=False).st_mode):
                return None
            return os.readlink(name, dir_fd=self.at)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ToolFailed("BadPath", f"`{name}`: {error.strerror}") from error

    def _through(self, target: str) -> list[str]:
        self._links += 1
        if self._links > limits.LINKS_MAX:
            raise ToolDenied(f"the path has more than {limits.LINKS_MAX} symbolic links")
        names = list(Path(target).parts)
        if Path(target).is_absolute():
            try:
                names = list(Path(target).relative_to(self.space.root).parts)
            except ValueError:
                raise ToolDenied(
                    f"a symbolic link leads outside the workspace, to `{printable_name(target)}`"
                ) from None
            while len(self.names) > self._floor:
                self._ascend()
        return [name for name in names if name not in ("", ".")]

    def _ascend(self) -> None:
        if len(self.names) <= self._floor:
            raise ToolDenied(f"`..` leads outside the workspace `{self.space.root}`")
        self.names.pop()
        os.close(self._open.pop())

    def _descend(self, name: str) -> None:
        try:
            self._open.append(self._opened(name))
        except FileNotFoundError:
            raise _Missing("NotFound", f"there is no folder `{'/'.join((*self.names, name))}`") from None
        except OSError as error:
            if error.errno in _MOVED:
                where = "/".join((*self.names, name))
                raise ToolDenied(f"`{where}` is not a folder, or was replaced by a link") from error
            raise ToolFailed("BadPath", f"`{name}`: {error.strerror}") from error
        self.names.append(name)

    def _opened(self, name: str) -> int:
        if self.is_making:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self.at)
        return os.open(name, _DIRECTORY, dir_fd=self.at)


def read_file(spot: OpenPath, bytes_max: int = limits.FILE_BYTES_MAX) -> bytes:
    """Read the regular file at `spot`. Raises ToolFailed: NotFound, NotAFile, TooLarge."""
    try:
        number = os.open(spot.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=spot.folder)
    except FileNotFoundError:
        raise ToolFailed("NotFound", f"there is no file `{spot.path}`") from None
    except OSError as error:
        raise ToolFailed("NotReadable", f"`{spot.path}`: {error.strerror}") from error
    try:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode):
            raise ToolFailed("NotAFile", f"`{spot.path}` is not a regular file")
        if about.st_size > bytes_max:
            raise too_large_error(spot.path, about.st_size, os.read(number, START_BYTES), bytes_max)
        return _content(number, about.st_size, bytes_max)
    finally:
        os.close(number)


def too_large_error(path: str, size_bytes: int, start: bytes, bytes_max: int) -> ToolFailed:
    """The error for a file that is too large to read; `start` are its first bytes."""
    if is_binary(start):
        return binary_error(path, size_bytes)
    return ToolFailed("TooLarge", f"`{path}` has {size_bytes} bytes; the limit is {bytes_max}")


def binary_error(path: str, size_bytes: int) -> ToolFailed:
    """The error for a binary file."""
    return ToolFailed(BINARY_FILE, f"`{path}` is binary, {format_size(size_bytes)}: read and change it with a command")


def _content(number: int, size: int, bytes_max: int) -> bytes:
    """The content of an open file, which may grow while it is read; at most one byte more than `bytes_max`."""
    found = b""
    while len(found) <= bytes_max and (piece := os.read(number, min(max(size + 1, 4096), bytes_max + 1 - len(found)))):
        found += piece
    return found


def digest_at(spot: OpenPath, bytes_max: int = limits.FILE_BYTES_MAX) -> str | None:
    """Return the digest of the file at `spot`; None if the file does not exist."""
    try:
        os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return sha256_hex(read_file(spot, bytes_max))


def replace_open_file(
    spot: OpenPath, content: bytes, expected: str | None, mark: str, may_write: Callable[[str], bool] | None = None
) -> bool:
    """Replace the file at `spot` atomically, if its digest is still `expected` (None: if there is no file).

    Returns whether it did. The new file keeps the old one's permissions, owner and extended attributes, and its other
    names (hard links) if `may_write` allows all of them. `mark` makes the temporary name unique. Raises OSError.
    """
    temporary = f".{spot.name[:100]}.{mark}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    if expected is not None and not os.access(spot.name, os.W_OK, dir_fd=spot.folder, effective_ids=True):
        raise PermissionError(errno.EACCES, "it is read-only")
    number = os.open(temporary, flags, 0o666, dir_fd=spot.folder)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            if expected is not None:
                _take_after(number, spot)
            os.fsync(number)
        # Nothing is awaited after this last check, so no other agent of this owner can write in between.
        if digest_at(spot) != expected:
            return False
        if expected is not None and may_write is not None and _has_own_names(spot, may_write):
            _write_in_place(spot, content)
            return True
        os.replace(temporary, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
        temporary = ""
        return True
    except FileNotFoundError:
        return False
    finally:
        if temporary:
            _remove(temporary, spot.folder)


def _take_after(number: int, spot: OpenPath) -> None:
    """Give the open file `number` the owner, permissions and extended attributes of the file at `spot`."""
    old = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    now = os.fstat(number)
    if (old.st_uid, old.st_gid) != (now.st_uid, now.st_gid):
        with suppress(PermissionError):
            os.fchown(number, old.st_uid, old.st_gid)
    os.fchmod(number, stat.S_IMODE(old.st_mode))
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        source = os.open(spot.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=spot.folder)
        try:
            for name in os.listxattr(source):
                if name == "security.capability":
                    continue  # As in the kernel, new content does not inherit the capabilities of a program.
                with suppress(OSError):
                    os.setxattr(number, name, os.getxattr(source, name))
        finally:
            os.close(source)


def _has_own_names(spot: OpenPath, may_write: Callable[[str], bool]) -> bool:
    """Whether the file has several names, all of them in the plan's folder and writable.

    A name elsewhere, for example in the store of a package manager, must not change: then only the name at `spot` gets
    the new content.
    """
    about = os.stat(spot.name, dir_fd=spot.folder, follow_symlinks=False)
    if about.st_nlink < 2:
        return False
    depth = spot.path.count("/")
    top = os.open("/".join([".."] * depth) or ".", _DIRECTORY, dir_fd=spot.folder)
    try:
        names = list(_names_of((about.st_dev, about.st_ino), top))
    finally:
        os.close(top)
    return len(names) == about.st_nlink and all(map(may_write, names))


def _names_of(file: tuple[int, int], top: int) -> Iterator[str]:
    """Yield the paths below `top` of the file with this device and inode, among the first FILES_SEARCHED_MAX files."""
    seen = 0
    for folder, folders, names, number in os.fwalk(".", dir_fd=top, follow_symlinks=False):
        folders[:] = [name for name in folders if name not in UNWRITABLE_NAMES]
        for name in names:
            seen += 1
            if seen > limits.FILES_SEARCHED_MAX:
                return
            with suppress(FileNotFoundError):
                about = os.stat(name, dir_fd=number, follow_symlinks=False)
                if (about.st_dev, about.st_ino) == file:
                    yield f"{folder}/{name}".removeprefix("./")


def _write_in_place(spot: OpenPath, content: bytes) -> None:
    """Overwrite the file. There is space for it, because the temporary file with the same content exists."""
    number = os.open(spot.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=spot.folder)
    with os.fdopen(number, "wb") as file:
        file.write(content)
        file.truncate()
        file.flush()
        os.fsync(number)


def _remove(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return


# `list` and `search` do not follow links and skip the folders `.git` and `.plan`.

SKIPPED_FOLDERS: Final = frozenset({".git", ".plan"})
LINE_SHOWN_CHARS: Final = 300


@frozen
class FoundFile:
    """A regular file. `below` is relative to the folder walked, `path` to the plan's; both can be printed."""

    below: str
    path: str
    size_bytes: int


def files_below(workspace: Workspace, path: str, most: int, tool: str = "list") -> list[FoundFile]:
    """Return at most `most` files below `path` that `tool` may list, sorted by name. Raises ToolError."""
    found: list[FoundFile] = []
    with workspace.folder_at(path) as spot:
        for folder, names, number in _walk(spot):
            for name in names:
                below = f"{folder}/{name}".removeprefix("/")
                whole = f"{spot.path}/{below}".removeprefix("/")
                if not workspace.shows(tool, whole):
                    continue
                about = _about(name, number)
                if about is not None and stat.S_ISREG(about.st_mode):
                    found.append(FoundFile(printable_name(below), printable_name(whole), about.st_size))
                if len(found) >= most:
                    return found
    return found


def _about(name: str, folder: int) -> os.stat_result | None:
    """The metadata of a file; None if it was removed after its folder was listed."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _walk(spot: OpenPath) -> Iterator[tuple[str, list[str], int]]:
    for folder, folders, names, number in os.fwalk(spot.name, dir_fd=spot.folder, follow_symlinks=False):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        yield folder.removeprefix(spot.name).removeprefix("/"), sorted(names), number


def search_hits(workspace: Workspace, path: str, glob: str, text: str, any_case: bool) -> list[str]:
    """Return lines `path:number: line` that contain `text`, at most SEARCH_HITS_MAX. Binary files are skipped."""
    wanted = text.casefold() if any_case else text
    hits: list[str] = []
    for found in files_below(workspace, path, limits.FILES_SEARCHED_MAX, "search"):
        if found.size_bytes > limits.FILE_BYTES_MAX or not patterns.path_matches([glob], found.below):
            continue
        for number, line in enumerate(_lines(workspace, path, found), start=1):
            if wanted in (line.casefold() if any_case else line):
                hits.append(f"{found.below}:{number}: {line[:LINE_SHOWN_CHARS]}")
            if len(hits) >= limits.SEARCH_HITS_MAX:
                return [*hits, f"[… more than {limits.SEARCH_HITS_MAX} hits …]"]
    return hits


def _lines(workspace: Workspace, path: str, found: FoundFile) -> list[str]:
    try:
        with workspace.spot(f"{path}/{found.below}", "read", "search") as spot:
            text = decode_file_text(read_file(spot))
    except ToolError:
        return []  # Not allowed, or removed after it was listed.
    return [] if text is None else [line.rstrip("\r\n") for line in split_lines(text.shown)]
