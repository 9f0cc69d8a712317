"""What a stock image is made of once its packages are at hand: their files chosen, and a few of our own beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from planloop.containers.images.entries import Entry, Tree, data, folder, symlink, text
from planloop.containers.images.linking import MERGED, closure, merged
from planloop.containers.images.scripts import CLOJURE, NPM
from planloop.containers.images.stock import CERTIFICATES, JAVA, USER, Stock
from planloop.schemas.frozen import frozen, remade

PASSWD: Final = f"root:x:0:0:root:/root:/bin/sh\nplan:x:{USER}:{USER}:plan:/tmp:/bin/sh\n"
"""A home that can be written in also where the root file system is read-only and `tmp` is memory."""
GROUP: Final = f"root:x:0:\nplan:x:{USER}:\n"
BUNDLE: Final = "etc/ssl/certs/ca-certificates.crt"


@frozen
class Unpacked:
    """Files by path, each with the package that it is from."""

    entries: Mapping[str, Entry]
    owners: Mapping[str, str]


def unpacked(trees: Iterable[tuple[str, str, Iterable[Entry]]]) -> Unpacked:
    """All files and links of (package, folder to put it in, its files), as root's, of 1970, with one of two modes."""
    entries, owners = dict[str, Entry](), dict[str, str]()
    for package, under, tree in trees:
        for entry in tree:
            if entry.kind != "folder":
                path = merged(f"{under}{entry.path}")
                mode = 0o755 if entry.mode & 0o111 or entry.kind == "symlink" else 0o644
                entries[path] = remade(entry, path=path, mode=mode, uid=0, gid=0, mtime=0, inode="")
                owners[path] = package
    return Unpacked(entries, owners)


def chosen(stock: Stock, found: Unpacked, applets: Sequence[str]) -> tuple[Tree, frozenset[str]]:
    """The tree of the image, and the packages that it has something of. Raises ImageFailed."""
    kept = closure(found.entries, [path for path in found.entries if _is_kept(path, stock)])
    packages = {found.owners[path] for path in kept}
    tree = Tree()
    for top in MERGED:
        if top in ("bin", "sbin") or any(path.startswith(f"usr/{top}/") for path in kept):
            tree.add(symlink(top, f"usr/{top}"))
    for path in sorted({*kept, *_copyrights(found, packages)}):
        tree.add(found.entries[path])
    for each in _own(stock, applets, kept):
        if each.path not in tree:
            tree.add(each)
    if bundle := _bundle(found):
        tree.add(data(BUNDLE, bundle))
        tree.add(symlink("usr/lib/ssl/cert.pem", f"/{BUNDLE}"))
        packages.add(CERTIFICATES)
    return tree, frozenset(packages)


def _is_kept(path: str, stock: Stock) -> bool:
    is_wanted = any(fnmatchcase(path, pattern) for pattern in stock.keep)
    return is_wanted and not any(fnmatchcase(path, pattern) for pattern in stock.drop)


def _copyrights(found: Unpacked, packages: set[str]) -> list[str]:
    paths = [f"usr/share/doc/{package}/copyright" for package in packages]
    return [path for path in paths if path in found.entries and found.entries[path].kind == "file"]


def _own(stock: Stock, applets: Sequence[str], kept: set[str]) -> list[Entry]:
    out = [
        text("etc/passwd", PASSWD),
        text("etc/group", GROUP),
        text("etc/nsswitch.conf", "hosts: files dns\n"),
        folder("root", mode=0o700),
        folder("tmp", mode=0o1777),
        folder("usr/sbin"),
        folder("var/tmp", mode=0o1777),
        folder("work", owner=USER),
        *(symlink(f"usr/bin/{applet}", "busybox") for applet in applets),
    ]
    if stock.modules:
        out += [text("usr/bin/clojure", CLOJURE, mode=0o755), symlink("usr/bin/java", f"/{JAVA}/bin/java")]
    if "usr/bin/node" in kept:
        out.append(text("usr/bin/npm", NPM, mode=0o755))
    return out


def _bundle(found: Unpacked) -> bytes:
    """What installing `ca-certificates` would make of its files."""
    pieces = []
    for path in sorted(found.entries):
        content = found.entries[path].content
        if path.startswith(f"usr/share/{CERTIFICATES}/") and content is not None:
            with content() as opened:
                pieces.append(opened.read().rstrip(b"\n") + b"\n")
    return b"".join(pieces)
