"""Packages of npm's registry, each in one version with the digest of its bytes, fetched by the machine's own npm.

They lie in `/node_modules`, where node looks from every folder. Nothing of them is run while an image is made.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

from anyio import to_thread

from planloop.containers.images.entries import Entry, Tree, symlink
from planloop.containers.images.errors import ImageFailed
from planloop.containers.images.programs import lines_of
from planloop.schemas import limits
from planloop.schemas.frozen import frozen, remade

FOLDER: Final = "node_modules"


@frozen
class Tarball:
    """`sha512` in base64, as npm says it. `architecture` as Debian calls it; empty: of any. `bins` are the programs
    that it has, by the name that they get in `usr/bin`.
    """

    name: str
    version: str
    sha512: str
    architecture: str = ""
    bins: Mapping[str, str] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """What `npm pack` calls it."""
        return f"{self.name.removeprefix('@').replace('/', '-')}-{self.version}.tgz"


def fitting(tarballs: Iterable[Tarball], architecture: str) -> list[Tarball]:
    """Those that are for this architecture."""
    return [tarball for tarball in tarballs if tarball.architecture in ("", architecture)]


async def fetch(tarballs: Iterable[Tarball], folder: Path, on_each: Callable[[str, str], None]) -> None:
    """Has them all in `folder`, with the bytes that their digests say; those there already are kept.

    Raises ImageFailed.
    """
    for tarball in tarballs:
        if await to_thread.run_sync(_is_right, tarball, folder):
            continue
        if shutil.which("npm") is None:
            raise ImageFailed(f"{tarball.name} is a package of npm's, and this machine has no npm", "apt install npm")
        on_each(tarball.name, tarball.version)
        argv = ["npm", "pack", "--silent", "--pack-destination", str(folder), f"{tarball.name}@{tarball.version}"]
        await lines_of(argv, folder=folder, timeout_s=limits.ENGINE_PULL_S)
        if not await to_thread.run_sync(_is_right, tarball, folder):
            raise ImageFailed(f"{tarball.file} did not come with the bytes that it must have", "run it again")


def _is_right(tarball: Tarball, folder: Path) -> bool:
    try:
        with (folder / tarball.file).open("rb") as opened:
            found = hashlib.file_digest(opened, "sha512").digest()
    except FileNotFoundError:
        return False
    return base64.b64encode(found).decode() == tarball.sha512


def placed(tarball: Tarball, tree: Tree) -> Iterator[Entry]:
    """What its tar holds, below one folder of any name, as it lies in an image; and links to its programs."""
    root = f"{FOLDER}/{tarball.name}"
    for entry in tree:
        path = entry.path.partition("/")[2]
        if path:
            mode = 0o755 if path in tarball.bins.values() else entry.mode
            yield remade(entry, path=f"{root}/{path}", mode=mode)
    for name, path in tarball.bins.items():
        yield symlink(f"usr/bin/{name}", f"/{root}/{path}")
