"""Write an image in the format of `docker save`, byte for byte the same for the same entries and settings.

One layer in the order of its paths. The image's id is the digest of its configuration, which says the layer's: it is
known before any engine has seen it. (Engines that keep images as containerd does show another number for it.) Memory
holds one piece of one file at a time.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import IO, Final

from planloop.containers.images.image_tree import ImageEntry, ImageFailed, printable_path
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen

BLOCK: Final = 512
END: Final = b"\0" * (2 * BLOCK)
PIECE_BYTES: Final = 1 << 20
CREATED: Final = "1970-01-01T00:00:00Z"
LAYER: Final = "layer.tar"
TYPES: Final = {"folder": tarfile.DIRTYPE, "file": tarfile.REGTYPE, "symlink": tarfile.SYMTYPE}


@frozen
class ImageSettings:
    """What a container of the image has unless it is told otherwise. `architecture` as engines call it: `amd64` …"""

    architecture: str
    cmd: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    workdir: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@frozen
class WrittenArchive:
    """`id` is the image's, `sha256:…`; `size_bytes` of all its files."""

    id: str
    size_bytes: int


def write_archive(
    path: Path, entries: Iterable[ImageEntry], settings: ImageSettings, names: Callable[[str], Sequence[str]]
) -> WrittenArchive:
    """Writes the archive at `path`, which is whole or not there at all. `names` gives the image's from its id.

    Raises OSError, and ImageFailed when a file is not as its entry says.
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
    """The image's configuration, in which nothing depends on when and where it is made."""
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
    """Each entry with its header, and whether its content follows: of hard links, the first has it."""
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
    # GNU's form has names of any length and any bytes, and sizes over 8 GiB, which every engine reads.
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
            raise ImageFailed(f"`{printable_path(entry.path)}` is longer than it was: it changed while it was read")


def _padded(size_bytes: int) -> int:
    return -(-size_bytes // BLOCK) * BLOCK


def _padding(size_bytes: int) -> bytes:
    return b"\0" * (_padded(size_bytes) - size_bytes)


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
