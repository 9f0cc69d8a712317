"""Write the files of an image as an archive that engines load."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Final, Literal, TypeAlias

from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, remade


class ImageFailed(Exception):
    """Building an image failed. `str()` is a sentence for users; `hint` is the fix, with a command if one helps."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


# An entry refers to its bytes and does not contain them. Deliberately dropped: names of owners (ids stay), access
# times, and extended attributes with file capabilities, which have no effect because no process may gain privileges.

EntryKind: TypeAlias = Literal["folder", "file", "symlink"]
WHITEOUT: Final = ".wh."
NAME_BYTES_MAX: Final = (
    255  # These two are limits of Linux: with longer names, an engine would fail while it loads the image.
)
PATH_BYTES_MAX: Final = 4_095


@frozen
class ImageEntry:
    """A file, folder or link of an image. `path` is relative, with `/` and without `.` and `..`.

    Times are whole seconds since 1970. `content` opens the `size_bytes` bytes of a file. Files with the same non-empty
    `inode` are hard links of each other.
    """

    path: str
    kind: EntryKind
    mode: int
    uid: int = 0
    gid: int = 0
    mtime: int = 0
    size_bytes: int = 0
    target: str = ""
    inode: str = ""
    content: Callable[[], IO[bytes]] | None = None


class ImageTree:
    """Entries by path. As in a tar, a later entry replaces an earlier one. Missing parent folders are added."""

    def __init__(self) -> None:
        self._entries: dict[str, ImageEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    def __getitem__(self, path: str) -> ImageEntry:
        return self._entries[path]

    def __iter__(self) -> Iterator[ImageEntry]:
        """Paths in the order in which they are written, by bytes: a folder comes before its content."""
        return (self._entries[path] for path in sorted(self._entries, key=_bytes))

    def get(self, path: str) -> ImageEntry | None:
        return self._entries.get(path)

    def add(self, entry: ImageEntry) -> None:
        """Add an entry. Raises ImageFailed for a path that an engine would write to another place."""
        self._allow(entry.path)
        self._add_parents(entry.path)
        there = self._entries.get(entry.path)
        if there is not None and there.kind == "folder" and entry.kind != "folder":
            raise ImageFailed(f"`{printable_path(entry.path)}` is both a folder and a {entry.kind}")
        self._entries[entry.path] = entry

    def link(self, path: str, to: str) -> None:
        """Add a hard link at `path` to the current entry at `to`. Raises ImageFailed if that is not a file."""
        there = self._entries.get(to)
        if there is None or there.kind == "folder":
            raise ImageFailed(
                f"`{printable_path(path)}` is a hard link to `{printable_path(to)}`, which is not a file in the image"
            )
        if there.kind == "file" and not there.inode:
            there = self._entries[to] = remade(there, inode=to)
        self.add(remade(there, path=path))

    def _allow(self, path: str) -> None:
        if len(_bytes(path)) > PATH_BYTES_MAX:
            raise ImageFailed(f"`{printable_path(path)}`: a path is longer than {PATH_BYTES_MAX} bytes")
        for part in path.split("/"):
            if part in ("", ".", "..") or "\0" in part:
                raise ImageFailed(f"`{printable_path(path)}` is not a path inside the image")
            if part.startswith(WHITEOUT):
                raise ImageFailed(
                    f"`{printable_path(path)}`: names that start with {WHITEOUT} mark deletions in an image"
                )
            if len(_bytes(part)) > NAME_BYTES_MAX:
                raise ImageFailed(f"`{printable_path(path)}`: a name is longer than {NAME_BYTES_MAX} bytes")

    def _add_parents(self, path: str) -> None:
        missing: list[str] = []
        parent = path.rpartition("/")[0]
        while parent and parent not in self._entries:
            missing.append(parent)
            parent = parent.rpartition("/")[0]
        if parent and (kind := self._entries[parent].kind) != "folder":
            raise ImageFailed(f"`{printable_path(path)}` is inside `{printable_path(parent)}`, which is a {kind}")
        self._entries |= {each: ImageEntry(each, "folder", 0o755) for each in missing}


def folder_entry(path: str, *, mode: int = 0o755, owner: int = 0) -> ImageEntry:
    """A folder of `owner` and the group with the same id."""
    return ImageEntry(path, "folder", mode, owner, owner)


def text_entry(path: str, content: str, *, mode: int = 0o644) -> ImageEntry:
    """A file of root with this content."""
    return data_entry(path, content.encode(), mode=mode)


def data_entry(path: str, content: bytes, *, mode: int = 0o644) -> ImageEntry:
    """A file of root with this content."""
    return ImageEntry(path, "file", mode, size_bytes=len(content), content=lambda: BytesIO(content))


def symlink_entry(path: str, target: str) -> ImageEntry:
    """A symlink of root."""
    return ImageEntry(path, "symlink", 0o777, target=target)


def printable_path(path: str) -> str:
    """`path` for use in errors: short, and on one line."""
    text = path.encode("utf-8", "backslashreplace").decode()
    text = "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)
    return text if len(text) <= 120 else f"{text[:80]}…{text[-30:]}"


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def read_folder_tree(root: Path) -> ImageTree:
    """The content of `root`. Raises OSError, and ImageFailed for anything but files, folders and symlinks."""
    tree = ImageTree()
    for path in sorted(root.rglob("*")):
        tree.add(_folder_file(path, path.relative_to(root).as_posix()))
    return tree


def _folder_file(path: Path, name: str) -> ImageEntry:
    found = path.lstat()
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISDIR(found.st_mode):
        return ImageEntry(name, "folder", mode)
    if stat.S_ISLNK(found.st_mode):
        return ImageEntry(name, "symlink", 0o777, target=str(path.readlink()))
    if stat.S_ISREG(found.st_mode):
        inode = f"{found.st_dev}:{found.st_ino}" if found.st_nlink > 1 else ""
        return ImageEntry(name, "file", mode, size_bytes=found.st_size, inode=inode, content=partial(_open_file, path))
    raise ImageFailed(f"`{printable_path(str(path))}` is not a file, folder or symlink, so it cannot be in an image")


def _open_file(path: Path) -> IO[bytes]:
    return path.open("rb")


# One layer, in the order of its paths. The image's id is the digest of its configuration, which contains the layer's
# digest, so it is known before an engine has the image. (Engines with containerd's image store show another id.) Only
# one piece of one file is in memory at a time.

BLOCK: Final = 512
END: Final = b"\0" * (2 * BLOCK)
PIECE_BYTES: Final = 1 << 20
CREATED: Final = "1970-01-01T00:00:00Z"
LAYER: Final = "layer.tar"
TYPES: Final = {"folder": tarfile.DIRTYPE, "file": tarfile.REGTYPE, "symlink": tarfile.SYMTYPE}


@frozen
class ImageSettings:
    """Defaults for containers of the image. `architecture` as engines name it: `amd64` …"""

    architecture: str
    cmd: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    workdir: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@frozen
class WrittenArchive:
    """A written image. `id` is `sha256:…`; `size_bytes` is the size of all its files."""

    id: str
    size_bytes: int


def write_archive(
    path: Path, entries: Iterable[ImageEntry], settings: ImageSettings, names: Callable[[str], Sequence[str]]
) -> WrittenArchive:
    """Write the archive at `path` atomically. `names` derives the image's names from its id.

    Raises OSError, and ImageFailed if a file differs from its entry.
    """
    kept = list(entries)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as out:
        written = _write(out, kept, settings, names)
        out.flush()
        os.fsync(out.fileno())
    part.replace(path)
    return written


def _write(
    out: IO[bytes], entries: Sequence[ImageEntry], settings: ImageSettings, names: Callable[[str], Sequence[str]]
) -> WrittenArchive:
    sizes = [(len(head), entry.size_bytes if has_content else 0) for entry, head, has_content in _heads(entries)]
    layer_bytes = sum(head + _padded(content) for head, content in sizes) + len(END)
    out.write(_head_of_file(LAYER, layer_bytes))
    digest = hashlib.sha256()
    for piece in _layer(entries):
        digest.update(piece)
        out.write(piece)
    out.write(_padding(layer_bytes))
    config = _json(image_configuration(settings, f"sha256:{digest.hexdigest()}"))
    hexed = hashlib.sha256(config).hexdigest()
    tags = list(names(f"sha256:{hexed}"))
    manifest = _json([{"Config": f"{hexed}.json", "Layers": [LAYER], "RepoTags": tags}])
    for name, content in ((f"{hexed}.json", config), ("manifest.json", manifest)):
        out.write(_head_of_file(name, len(content)) + content + _padding(len(content)))
    out.write(END)
    return WrittenArchive(f"sha256:{hexed}", sum(content for _, content in sizes))


def image_configuration(settings: ImageSettings, layer: str) -> JsonObject:
    """The image's configuration. It does not depend on the time and place of the build."""
    return {
        "architecture": settings.architecture,
        "os": "linux",
        "created": CREATED,
        "config": {
            "Cmd": list(settings.cmd),
            "Env": [f"{name}={value}" for name, value in sorted(settings.env.items())],
            "Labels": dict(sorted(settings.labels.items())),
            "User": settings.user,
            "WorkingDir": settings.workdir,
        },
        "history": [{"created": CREATED, "created_by": "planloop"}],
        "rootfs": {"type": "layers", "diff_ids": [layer]},
    }


def _layer(entries: Sequence[ImageEntry]) -> Iterator[bytes]:
    for entry, head, has_content in _heads(entries):
        yield head
        if has_content and entry.content is not None:
            yield from _content(entry, entry.content)
            yield _padding(entry.size_bytes)
    yield END


def _heads(entries: Sequence[ImageEntry]) -> Iterator[tuple[ImageEntry, bytes, bool]]:
    """Yield each entry with its header, and whether its content follows. Of hard links, only the first has content."""
    first: dict[str, str] = {}
    for entry in entries:
        linked = first.get(entry.inode, "") if entry.inode else ""
        if entry.inode and not linked:
            first[entry.inode] = entry.path
        yield entry, _head(entry, linked), entry.kind == "file" and not linked


def _head(entry: ImageEntry, linked: str) -> bytes:
    info = tarfile.TarInfo(entry.path + ("/" if entry.kind == "folder" else ""))
    info.type = tarfile.LNKTYPE if linked else TYPES[entry.kind]
    info.mode = stat.S_IMODE(entry.mode)
    info.uid, info.gid, info.mtime = entry.uid, entry.gid, entry.mtime
    info.linkname = linked or entry.target
    info.size = entry.size_bytes if entry.kind == "file" and not linked else 0
    return _bytes_of(info)


def _head_of_file(name: str, size_bytes: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size_bytes
    return _bytes_of(info)


def _bytes_of(info: tarfile.TarInfo) -> bytes:
    # All engines read GNU's format, which supports names of any length and bytes, and sizes over 8 GiB.
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _content(entry: ImageEntry, opened: Callable[[], IO[bytes]]) -> Iterator[bytes]:
    left = entry.size_bytes
    with opened() as source:
        while left:
            piece = source.read(min(PIECE_BYTES, left))
            if not piece:
                raise ImageFailed(
                    f"`{printable_path(entry.path)}` ends {left} bytes early: it changed while it was read"
                )
            left -= len(piece)
            yield piece
        if source.read(1):
            raise ImageFailed(
                f"`{printable_path(entry.path)}` has more bytes than before: it changed while it was read"
            )


def _padded(size_bytes: int) -> int:
    return -(-size_bytes // BLOCK) * BLOCK


def _padding(size_bytes: int) -> bytes:
    return b"\0" * (_padded(size_bytes) - size_bytes)


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
