"""Build an image from the tar archive of a root file system."""

from __future__ import annotations

import errno
import fcntl
import gzip
import hashlib
import io
import os
import shutil
import tarfile
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Final, cast

import anyio
from anyio import to_thread

from planloop.containers.engine.engine import ContainerEngine, EngineErrorReason, EngineFailed, ImageFacts
from planloop.containers.images.archive import (
    PIECE_BYTES,
    ImageEntry,
    ImageFailed,
    ImageSettings,
    ImageTree,
    printable_path,
    write_archive,
)
from planloop.schemas import limits

AGAIN_S: Final = 0.2


@asynccontextmanager
async def hold_folder(folder: Path, on_wait: Callable[[], None] = lambda: None) -> AsyncIterator[None]:
    """Create and lock `folder`; the lock ends with the process. Calls `on_wait` once if another process has the
    lock."""
    with _opened(folder) as lock:
        if not _taken(lock):
            on_wait()
            # Waiting for a lock blocks a thread, which cannot be cancelled, so this polls.
            while not _taken(lock):  # noqa: ASYNC110
                await anyio.sleep(AGAIN_S)
        yield


def _opened(folder: Path) -> IO[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    return (folder / ".lock").open("ab")


def _taken(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# The tar is untrusted: it is read with limits and never unpacked. A leading `/` is removed, and device nodes in `dev`
# are skipped (the engine mounts its own). Entries that are harmful, or whose meaning would change, are refused by name.

READ_PIECE_BYTES: Final = 1 << 20
IMAGE_PARTS: Final = ("layer.tar", "oci-layout")
DAMAGED: Final = "create it again, for example with `tar -C FOLDER -cf root.tar .`"


@contextmanager
def read_tar_tree(tar: Path, scratch: Path) -> Iterator[ImageTree]:
    """Yield the tree of a tar, plain or compressed with gzip, bzip2 or xz; `scratch` is the path for decompressing it.

    Raises ImageFailed and OSError.
    """
    with ExitStack() as stack:
        plain = stack.enter_context(_plain(tar, scratch))
        source = stack.enter_context(_Bounded(plain.open("rb")))
        try:
            opened = stack.enter_context(tarfile.TarFile(fileobj=cast("IO[bytes]", source), mode="r"))
            tree = _tree(source, opened, tar.name)
            _end_with_zeros(source, opened, tar.name)
        except tarfile.TarError as error:
            raise ImageFailed(f"{tar.name} is not a complete tar: {error}", DAMAGED) from error
        source.is_in_headers = False
        yield tree


def _tree(source: _Bounded, opened: tarfile.TarFile, name: str) -> ImageTree:
    tree = ImageTree()
    size_bytes = 0
    while (info := opened.next()) is not None:
        source.headers_bytes = 0
        cast("list[tarfile.TarInfo]", vars(opened)["members"]).clear()  # tarfile would keep all of them in memory.
        if info.size < 0:
            raise ImageFailed(
                f"{name} is not a complete tar: `{printable_path(info.name)}` has a negative size", DAMAGED
            )
        size_bytes += info.size if info.isreg() else 0
        if size_bytes > limits.ROOTFS_BYTES_MAX:
            raise _too_large(name)
        _add(tree, opened, info)
        if len(tree) > limits.ROOTFS_FILES_MAX:
            raise ImageFailed(f"{name} has more than {limits.ROOTFS_FILES_MAX:,} files", "leave out unneeded files")
    if not len(tree):
        raise ImageFailed(f"{name} contains no files", DAMAGED)
    if "manifest.json" in tree and any(each.path.endswith(IMAGE_PARTS) for each in tree):
        raise ImageFailed(f"{name} is an image, not a root file system", f"run docker load -i {name}, and set `image`")
    return tree


def _add(tree: ImageTree, opened: tarfile.TarFile, info: tarfile.TarInfo) -> None:
    path = path_in_image(info.name)
    if not path:
        return  # The root itself.
    entry = partial(
        ImageEntry, path, mode=info.mode & 0o7777, uid=info.uid, gid=info.gid, mtime=max(0, int(info.mtime))
    )
    if info.isdir():
        tree.add(entry(kind="folder"))
    elif info.issym():
        tree.add(entry(kind="symlink", target=info.linkname))
    elif info.islnk():
        tree.link(path, path_in_image(info.linkname))
    elif info.isreg():
        content = cast("Callable[[], IO[bytes]]", partial(opened.extractfile, info))
        tree.add(entry(kind="file", size_bytes=info.size, content=content))
    elif not path.startswith("dev/"):
        raise ImageFailed(
            f"`{printable_path(path)}` is {_special(info)}, which is not allowed outside of dev",
            f"leave it out: tar --exclude='{printable_path(path)}' …",
        )


def path_in_image(name: str) -> str:
    """The path in the image for a name in a tar; empty for the root. Raises ImageFailed for a path outside of it."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ImageFailed(f"`{printable_path(name)}` points outside of the tar", DAMAGED)
    return "/".join(parts)


def _special(info: tarfile.TarInfo) -> str:
    if info.ischr() or info.isblk():
        return "a device"
    return "a named pipe" if info.isfifo() else f"an entry of type {info.type!r}"


def _too_large(name: str) -> ImageFailed:
    return ImageFailed(f"{name} unpacks to more than {limits.ROOTFS_BYTES_MAX >> 30} GiB", "leave out unneeded files")


def _end_with_zeros(source: _Bounded, opened: tarfile.TarFile, name: str) -> None:
    """Raise ImageFailed unless the tar ends with zeros: tarfile treats a damaged header like the end."""
    source.seek(opened.offset)
    if source.read(tarfile.BLOCKSIZE).strip(b"\0"):
        raise ImageFailed(f"{name} is damaged at byte {opened.offset}", DAMAGED)


class _Bounded(io.BufferedIOBase):
    """Reads a file, and limits the size of the headers of one entry, which `tarfile` reads into memory."""

    def __init__(self, opened: IO[bytes]) -> None:
        self._opened = opened
        self.is_in_headers = True
        self.headers_bytes = 0
        """Bytes read so far for the headers of the current entry."""

    def read(self, size: int | None = -1, /) -> bytes:
        wanted_bytes = -1 if size is None else size
        if self.is_in_headers:
            self.headers_bytes += wanted_bytes
            if wanted_bytes < 0 or self.headers_bytes > limits.TAR_HEADER_BYTES_MAX:
                raise tarfile.ReadError(f"a header is longer than {limits.TAR_HEADER_BYTES_MAX >> 10} KiB")
        return self._opened.read(wanted_bytes)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._opened.seek(offset, whence)

    def tell(self) -> int:
        return self._opened.tell()

    def close(self) -> None:
        self._opened.close()
        super().close()


@contextmanager
def _plain(tar: Path, scratch: Path) -> Iterator[Path]:
    """Yield the uncompressed tar. A temporary file for it is removed at the end."""
    with tar.open("rb") as source:
        unpacked = _unpacked(source, tar.name)
        if unpacked is None:
            yield tar
            return
        scratch.mkdir(parents=True, exist_ok=True)
        plain = scratch / "plain.tar"
        try:
            with plain.open("wb") as out:
                _copy(unpacked, out, tar.name)
            yield plain
        finally:
            plain.unlink(missing_ok=True)


def _copy(unpacked: Iterator[bytes], out: IO[bytes], name: str) -> None:
    left = limits.ROOTFS_BYTES_MAX + limits.ROOTFS_FILES_MAX * 2 * tarfile.BLOCKSIZE
    try:
        for piece in unpacked:
            left -= len(piece)
            if left < 0:
                raise _too_large(name)
            out.write(piece)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ImageFailed(f"{name} cannot be decompressed: {error}", DAMAGED) from error
    except OSError as error:
        if error.errno is None:  # bzip2 reports damage this way.
            raise ImageFailed(f"{name} cannot be unpacked: {error}", DAMAGED) from error
        raise


def _unpacked(source: IO[bytes], name: str) -> Iterator[bytes] | None:
    """The decompressed pieces; None if the file is not compressed."""
    magic = source.read(6)
    source.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return _pieces(cast("IO[bytes]", gzip.GzipFile(fileobj=source)))
    if magic.startswith(b"BZh"):
        with _able(name, "bzip2"):
            from bz2 import BZ2File
        return _pieces(cast("IO[bytes]", BZ2File(source)))
    if magic == b"\xfd7zXZ\0":
        with _able(name, "xz"):
            import lzma  # noqa: F401 - that it can be had
        return _unpacked_xz(source)
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        raise ImageFailed(
            f"{name} is compressed with zstd, which planloop cannot read", f"run zstd -d {name}, and use the result"
        )
    return None


def _pieces(opened: IO[bytes]) -> Iterator[bytes]:
    with opened:
        while piece := opened.read(READ_PIECE_BYTES):
            yield piece


@contextmanager
def _able(name: str, packing: str) -> Iterator[None]:
    """Report compression formats that this Python was built without."""
    try:
        yield
    except ImportError as error:
        raise ImageFailed(
            f"{name} is compressed with {packing}, which this Python does not support",
            f"decompress it with {packing} -d",
        ) from error


def _unpacked_xz(source: IO[bytes]) -> Iterator[bytes]:
    """Like `lzma.open`, with a limit on the memory that a file may require."""
    from lzma import FORMAT_XZ, LZMADecompressor, LZMAError

    packed = source.read(READ_PIECE_BYTES)
    while packed:
        stream = LZMADecompressor(FORMAT_XZ, memlimit=limits.XZ_MEMORY_BYTES_MAX)
        while not stream.eof:
            try:
                piece = stream.decompress(packed, READ_PIECE_BYTES)
            except LZMAError as error:
                raise EOFError(str(error)) from error
            yield piece
            packed = source.read(READ_PIECE_BYTES) if stream.needs_input else b""
            if not packed and stream.needs_input:
                raise EOFError("unexpected end of file")
        packed = (stream.unused_data or source.read(READ_PIECE_BYTES)).lstrip(b"\0")  # Streams may have padding.


# The engine is the cache: an image with the digest's name is reused. Temporary files are removed afterwards, also those
# of a process that was killed.

NAME: Final = "planloop/rootfs"
WORK: Final = "rootfs"
FORMAT: Final = b"planloop rootfs 1\n"
"""Part of the digest. Change it if images are written differently."""
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


async def ensure_rootfs_image(
    tar: Path, engine: ContainerEngine, cache: Path, on_progress: Callable[[str], None]
) -> ImageFacts:
    """Return the engine's image of `tar`, built in the folder `cache` if it is missing. Raises EngineFailed.

    The image has no command, runs as root by default, and has the owners, modes and times of the tar.
    """
    try:
        digest = await to_thread.run_sync(rootfs_digest, tar)
        if (there := await engine.image(f"{NAME}:{digest}")) is not None:
            return there
        async with hold_folder(cache):
            return await _build_rootfs(tar, digest, engine, cache / WORK, on_progress)
    except ImageFailed as error:
        raise EngineFailed(EngineErrorReason.BUILD_FAILED, str(error), error.hint) from error
    except OSError as error:
        raise _failed(tar, error) from error


async def _build_rootfs(
    tar: Path, digest: str, engine: ContainerEngine, work: Path, on_progress: Callable[[str], None]
) -> ImageFacts:
    if (there := await engine.image(f"{NAME}:{digest}")) is not None:
        return there  # Another process has built it meanwhile.
    try:
        on_progress(f"writing an image of {tar.name}")
        await to_thread.run_sync(write_rootfs, tar, work / "rootfs.tar", digest)
        on_progress(f"loading the image of {tar.name} into the engine")
        return await engine.load(work / "rootfs.tar")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def rootfs_digest(tar: Path) -> str:
    """The digest that names the image of `tar`; depends only on its bytes. Raises OSError."""
    digest = hashlib.sha256(FORMAT)
    with tar.open("rb") as opened:
        _feed(opened, digest.update)
    return digest.hexdigest()


def write_rootfs(tar: Path, archive: Path, digest: str) -> None:
    """Write the image of `tar` to `archive`. Raises ImageFailed and OSError."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    machine = os.uname().machine
    settings = ImageSettings(ARCHITECTURES.get(machine, machine), env={"PATH": PATH}, workdir="/")
    with read_tar_tree(tar, archive.with_suffix(".unpacked")) as tree:
        write_archive(archive, tree, settings, lambda _: [f"{NAME}:{digest}"])


def _feed(opened: IO[bytes], update: Callable[[bytes], None]) -> None:
    while piece := opened.read(PIECE_BYTES):
        update(piece)


def _failed(tar: Path, error: OSError) -> EngineFailed:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR | errno.EISDIR:
            return EngineFailed(
                EngineErrorReason.NO_IMAGE, f"the file {tar} does not exist", "set `rootfs` to the path of a tar"
            )
        case errno.EACCES | errno.EPERM:
            return EngineFailed(
                EngineErrorReason.NO_IMAGE, f"no permission to open {error.filename or tar}", "run chmod u+rw on it"
            )
        case errno.ENOSPC | errno.EDQUOT:
            return EngineFailed(
                EngineErrorReason.DISK_FULL, f"no disk space for an image of {tar.name}", "free some disk space"
            )
        case _:
            return EngineFailed(EngineErrorReason.BUILD_FAILED, f"{tar.name}: {error.strerror or error}")
