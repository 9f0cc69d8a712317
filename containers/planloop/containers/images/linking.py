"""Which libraries a program needs, read from the program: so that an image has those, and is never short of one."""

from __future__ import annotations

import posixpath
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Final

from planloop.containers.images.entries import Entry
from planloop.containers.images.errors import ImageFailed

MAGIC: Final = b"\x7fELF\x02\x01"  # 64 bits, the low byte first: every Debian machine but s390x and 32-bit ARM.
LOAD, DYNAMIC, INTERPRETER = 1, 2, 3
NEEDED, STRINGS = 1, 5
MERGED: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders that are links to those of the same name in `usr`."""


def merged(path: str) -> str:
    """Where a package's file is once `bin`, `lib` … are links into `usr`."""
    return f"usr/{path}" if path.partition("/")[0] in MERGED else path


def closure(pool: Mapping[str, Entry], chosen: Iterable[str]) -> set[str]:
    """`chosen` with all that it links to and needs out of `pool`; symlinks that lead nowhere are left out.

    Raises ImageFailed for a library that is nowhere in the pool.
    """
    libraries = _libraries(pool)
    todo, out = sorted(chosen), set[str]()
    while todo:
        path = todo.pop()
        entry = pool.get(path)
        if entry is None or path in out:
            continue
        if entry.kind == "symlink" and not _leads_somewhere(pool, entry):
            continue
        out.add(path)
        todo += _next(entry, libraries)
    return out


def _next(entry: Entry, libraries: Mapping[str, str]) -> Iterator[str]:
    if entry.kind == "symlink":
        yield _target(entry)
    elif entry.kind == "file" and entry.content is not None:
        with entry.content() as opened:
            needed = needed_by(opened)
        for name in needed:
            if name.startswith("/"):
                yield merged(name.lstrip("/"))
            elif name in libraries:
                yield libraries[name]
            else:
                raise ImageFailed(f"`{entry.path}` needs {name}, which is in none of the packages that were fetched")


def _libraries(pool: Mapping[str, Entry]) -> dict[str, str]:
    """The paths of libraries by name; of several, that of the folder in which all programs look."""
    shared = [path for path in pool if ".so" in posixpath.basename(path) and pool[path].kind != "folder"]
    return {posixpath.basename(path): path for path in sorted(shared, key=lambda path: (-path.count("/"), path))}


def _target(link: Entry) -> str:
    joined = posixpath.normpath(posixpath.join("/", posixpath.dirname(link.path), link.target))
    return merged(joined.lstrip("/"))


def _leads_somewhere(pool: Mapping[str, Entry], link: Entry) -> bool:
    seen = set[str]()
    entry: Entry | None = link
    while entry is not None and entry.kind == "symlink" and entry.path not in seen:
        seen.add(entry.path)
        entry = pool.get(_target(entry))
    return entry is not None and entry.kind != "symlink"


def needed_by(opened: IO[bytes]) -> tuple[str, ...]:
    """The names of the libraries that it is linked with, and the path of what starts it; nothing for other files."""
    content = opened.read(len(MAGIC))
    if content != MAGIC:
        return ()
    content += opened.read()
    offset, (size, count) = struct.unpack_from("<Q", content, 32)[0], struct.unpack_from("<HH", content, 54)
    parts = [struct.unpack_from("<IIQQQQ", content, offset + size * index) for index in range(count)]
    found = [_text(content, start) for kind, _, start, *_ in parts if kind == INTERPRETER]
    loaded = [(start, virtual, length) for kind, _, start, virtual, _, length in parts if kind == LOAD]
    for kind, _, start, _, _, length in parts:
        if kind == DYNAMIC:
            tags = [struct.unpack_from("<QQ", content, at) for at in range(start, start + length, 16)]
            (strings,) = [value for tag, value in tags if tag == STRINGS]
            base = next(begin + strings - virtual for begin, virtual, span in loaded if 0 <= strings - virtual < span)
            found += [_text(content, base + value) for tag, value in tags if tag == NEEDED]
    return tuple(found)


def _text(content: bytes, at: int) -> str:
    return content[at : content.index(b"\0", at)].decode()
