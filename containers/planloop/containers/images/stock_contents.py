"""Choose the files of a stock image from its unpacked packages, with every library that a chosen program needs."""

from __future__ import annotations

import posixpath
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import IO, Final

from planloop.containers.images.image_tree import (
    ImageEntry,
    ImageFailed,
    ImageTree,
    data_entry,
    folder_entry,
    symlink_entry,
    text_entry,
)
from planloop.containers.images.stock import CERTIFICATES, CLOJURE_SCRIPT, JAVA, NPM_SCRIPT, USER, StockImage
from planloop.schemas.frozen import frozen, remade

# Which libraries a program needs, read from the program: so that an image has those, and is never short of one.

MAGIC: Final = b"\x7fELF\x02\x01"  # 64 bits, the low byte first: every Debian machine but s390x and 32-bit ARM.
LOAD, DYNAMIC, INTERPRETER = 1, 2, 3
NEEDED, STRINGS = 1, 5
MERGED_USR_FOLDERS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders that are links to those of the same name in `usr`."""


def merged_usr_path(path: str) -> str:
    """Where a package's file is once `bin`, `lib` … are links into `usr`."""
    return f"usr/{path}" if path.partition("/")[0] in MERGED_USR_FOLDERS else path


def library_closure(pool: Mapping[str, ImageEntry], chosen: Iterable[str]) -> set[str]:
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


def _next(entry: ImageEntry, libraries: Mapping[str, str]) -> Iterator[str]:
    if entry.kind == "symlink":
        yield _target(entry)
    elif entry.kind == "file" and entry.content is not None:
        with entry.content() as opened:
            needed = needed_libraries(opened)
        for name in needed:
            if name.startswith("/"):
                yield merged_usr_path(name.lstrip("/"))
            elif name in libraries:
                yield libraries[name]
            else:
                raise ImageFailed(f"`{entry.path}` needs {name}, which is in none of the packages that were fetched")


def _libraries(pool: Mapping[str, ImageEntry]) -> dict[str, str]:
    """The paths of libraries by name; of several, that of the folder in which all programs look."""
    shared = [path for path in pool if ".so" in posixpath.basename(path) and pool[path].kind != "folder"]
    return {posixpath.basename(path): path for path in sorted(shared, key=lambda path: (-path.count("/"), path))}


def _target(link: ImageEntry) -> str:
    joined = posixpath.normpath(posixpath.join("/", posixpath.dirname(link.path), link.target))
    return merged_usr_path(joined.lstrip("/"))


def _leads_somewhere(pool: Mapping[str, ImageEntry], link: ImageEntry) -> bool:
    seen = set[str]()
    entry: ImageEntry | None = link
    while entry is not None and entry.kind == "symlink" and entry.path not in seen:
        seen.add(entry.path)
        entry = pool.get(_target(entry))
    return entry is not None and entry.kind != "symlink"


def needed_libraries(opened: IO[bytes]) -> tuple[str, ...]:
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


# What a stock image is made of once its packages are at hand: their files chosen, and a few of our own beside them.

PASSWD: Final = f"root:x:0:0:root:/root:/bin/sh\nplan:x:{USER}:{USER}:plan:/tmp:/bin/sh\n"
"""A home that can be written in also where the root file system is read-only and `tmp` is memory."""
GROUP: Final = f"root:x:0:\nplan:x:{USER}:\n"
BUNDLE: Final = "etc/ssl/certs/ca-certificates.crt"


@frozen
class UnpackedPackages:
    """Files by path, each with the package that it is from."""

    entries: Mapping[str, ImageEntry]
    owners: Mapping[str, str]


def unpack_packages(trees: Iterable[tuple[str, str, Iterable[ImageEntry]]]) -> UnpackedPackages:
    """All files and links of (package, folder to put it in, its files), as root's, of 1970, with one of two modes."""
    entries, owners = dict[str, ImageEntry](), dict[str, str]()
    for package, under, tree in trees:
        for entry in tree:
            if entry.kind != "folder":
                path = merged_usr_path(f"{under}{entry.path}")
                mode = 0o755 if entry.mode & 0o111 or entry.kind == "symlink" else 0o644
                entries[path] = remade(entry, path=path, mode=mode, uid=0, gid=0, mtime=0, inode="")
                owners[path] = package
    return UnpackedPackages(entries, owners)


def choose_files(
    stock: StockImage, found: UnpackedPackages, applets: Sequence[str]
) -> tuple[ImageTree, frozenset[str]]:
    """The tree of the image, and the packages that it has something of. Raises ImageFailed."""
    kept = library_closure(found.entries, [path for path in found.entries if _is_kept(path, stock)])
    packages = {found.owners[path] for path in kept}
    tree = ImageTree()
    for top in MERGED_USR_FOLDERS:
        if top in ("bin", "sbin") or any(path.startswith(f"usr/{top}/") for path in kept):
            tree.add(symlink_entry(top, f"usr/{top}"))
    for path in sorted({*kept, *_copyrights(found, packages)}):
        tree.add(found.entries[path])
    for each in _own(stock, applets, kept):
        if each.path not in tree:
            tree.add(each)
    if bundle := _bundle(found):
        tree.add(data_entry(BUNDLE, bundle))
        tree.add(symlink_entry("usr/lib/ssl/cert.pem", f"/{BUNDLE}"))
        packages.add(CERTIFICATES)
    return tree, frozenset(packages)


def _is_kept(path: str, stock: StockImage) -> bool:
    is_wanted = any(fnmatchcase(path, pattern) for pattern in stock.keep)
    return is_wanted and not any(fnmatchcase(path, pattern) for pattern in stock.drop)


def _copyrights(found: UnpackedPackages, packages: set[str]) -> list[str]:
    paths = [f"usr/share/doc/{package}/copyright" for package in packages]
    return [path for path in paths if path in found.entries and found.entries[path].kind == "file"]


def _own(stock: StockImage, applets: Sequence[str], kept: set[str]) -> list[ImageEntry]:
    out = [
        text_entry("etc/passwd", PASSWD),
        text_entry("etc/group", GROUP),
        text_entry("etc/nsswitch.conf", "hosts: files dns\n"),
        folder_entry("root", mode=0o700),
        folder_entry("tmp", mode=0o1777),
        folder_entry("usr/sbin"),
        folder_entry("var/tmp", mode=0o1777),
        folder_entry("work", owner=USER),
        *(symlink_entry(f"usr/bin/{applet}", "busybox") for applet in applets),
    ]
    if stock.modules:
        out += [
            text_entry("usr/bin/clojure", CLOJURE_SCRIPT, mode=0o755),
            symlink_entry("usr/bin/java", f"/{JAVA}/bin/java"),
        ]
    if "usr/bin/node" in kept:
        out.append(text_entry("usr/bin/npm", NPM_SCRIPT, mode=0o755))
    return out


def _bundle(found: UnpackedPackages) -> bytes:
    """What installing `ca-certificates` would make of its files."""
    pieces = []
    for path in sorted(found.entries):
        content = found.entries[path].content
        if path.startswith(f"usr/share/{CERTIFICATES}/") and content is not None:
            with content() as opened:
                pieces.append(opened.read().rstrip(b"\n") + b"\n")
    return b"".join(pieces)
