"""The image of a container's `rootfs:`: a tar becomes an image whose name says the digest of that tar.

The engine is the cache: an image of that name is taken as it is. What is written on the way is gone afterwards, also
what a process left that was killed in the middle.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from anyio import to_thread

from planloop.containers.engine import Engine, EngineFailed, ImageFacts, Reason
from planloop.containers.images.archive import PIECE_BYTES, Settings, write_archive
from planloop.containers.images.errors import ImageFailed
from planloop.containers.images.holding import held
from planloop.containers.images.reading import tar_tree

NAME: Final = "planloop/rootfs"
WORK: Final = "rootfs"
FORMAT: Final = b"planloop rootfs 1\n"
"""In the digest, so that another way of writing them is another image."""
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


async def rootfs_image(tar: Path, engine: Engine, cache: Path, on_progress: Callable[[str], None]) -> ImageFacts:
    """The engine's image of `tar`, made if need be by way of the folder `cache`. Raises EngineFailed.

    It has no command of its own, runs as root unless told otherwise, and has owners, modes and times as the tar says.
    """
    try:
        digest = await to_thread.run_sync(rootfs_digest, tar)
        if (there := await engine.image(f"{NAME}:{digest}")) is not None:
            return there
        async with held(cache):
            return await _made(tar, digest, engine, cache / WORK, on_progress)
    except ImageFailed as error:
        raise EngineFailed(Reason.BUILD_FAILED, str(error), error.hint) from error
    except OSError as error:
        raise _failed(tar, error) from error


async def _made(tar: Path, digest: str, engine: Engine, work: Path, on_progress: Callable[[str], None]) -> ImageFacts:
    if (there := await engine.image(f"{NAME}:{digest}")) is not None:
        return there  # Whoever held the folder before has made it.
    try:
        on_progress(f"writes an image of {tar.name}")
        await to_thread.run_sync(write_rootfs, tar, work / "rootfs.tar", digest)
        on_progress(f"gives the image of {tar.name} to the engine")
        return await engine.load(work / "rootfs.tar")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def rootfs_digest(tar: Path) -> str:
    """What names the image of `tar`: of its bytes, whatever it is called. Raises OSError."""
    digest = hashlib.sha256(FORMAT)
    with tar.open("rb") as opened:
        _feed(opened, digest.update)
    return digest.hexdigest()


def write_rootfs(tar: Path, archive: Path, digest: str) -> None:
    """Writes the image of `tar` at `archive`. Raises ImageFailed and OSError."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    machine = os.uname().machine
    settings = Settings(ARCHITECTURES.get(machine, machine), env={"PATH": PATH}, workdir="/")
    with tar_tree(tar, archive.with_suffix(".unpacked")) as tree:
        write_archive(archive, tree, settings, lambda _: [f"{NAME}:{digest}"])


def _feed(opened: IO[bytes], update: Callable[[bytes], None]) -> None:
    while piece := opened.read(PIECE_BYTES):
        update(piece)


def _failed(tar: Path, error: OSError) -> EngineFailed:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR | errno.EISDIR:
            return EngineFailed(Reason.NO_IMAGE, f"there is no file {tar}", "`rootfs` is the path of a tar")
        case errno.EACCES | errno.EPERM:
            return EngineFailed(Reason.NO_IMAGE, f"{error.filename or tar} may not be opened", "chmod u+rw it")
        case errno.ENOSPC | errno.EDQUOT:
            return EngineFailed(Reason.DISK_FULL, f"no room for an image of {tar.name}", "free some disk space")
        case _:
            return EngineFailed(Reason.BUILD_FAILED, f"{tar.name}: {error.strerror or error}")
