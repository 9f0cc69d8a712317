"""Tars of root file systems: ordinary ones come through, hostile and broken ones are refused by name, within bounds."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from planloop.containers.images import rootfs
from planloop.containers.images.archive import ImageEntry, ImageFailed
from planloop.containers.images.rootfs import DAMAGED, read_tar_tree
from planloop.schemas import limits
from tests import golden_text


def info(
    name: str, type_: bytes = tarfile.REGTYPE, *, to: str = "", size: int = 0, mode: int = 0o644
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size, made.mode = type_, to, size, mode
    return made


def tar(path: Path, *infos: tarfile.TarInfo, format_: int = tarfile.GNU_FORMAT) -> Path:
    with tarfile.open(path, "w", format=format_) as opened:
        for one in infos:
            opened.addfile(one, io.BytesIO(b"x" * one.size))
    return path


def read(path: Path) -> dict[str, ImageEntry]:
    with read_tar_tree(path, path.parent / "scratch") as tree:
        return {entry.path: entry for entry in tree}


def contents(path: Path) -> dict[str, bytes]:
    with read_tar_tree(path, path.parent / "scratch") as tree:
        return {entry.path: entry.content().read() for entry in tree if entry.content is not None}


def test_ordinary_tar_is_read(tmp_path: Path) -> None:
    shell = info("./bin/sh", size=3, mode=0o4755)
    shell.uid, shell.gid, shell.mtime, shell.uname = 7, 8, 99.5, "somebody"
    found = read(
        tar(
            tmp_path / "root.tar",
            info("./", tarfile.DIRTYPE, mode=0o755),
            info("./bin/", tarfile.DIRTYPE, mode=0o755),
            shell,
            info("./bin/ash", tarfile.LNKTYPE, to="./bin/sh"),
            info("/etc/absolute", size=1),
            info("lib", tarfile.SYMTYPE, to="../../../usr/lib"),
            info("dev/null", tarfile.CHRTYPE),
            format_=tarfile.PAX_FORMAT,
        )
    )

    assert list(found) == ["bin", "bin/ash", "bin/sh", "etc", "etc/absolute", "lib"]
    sh = found["bin/sh"]
    assert (sh.mode, sh.uid, sh.gid, sh.mtime, sh.size_bytes) == (0o4755, 7, 8, 99, 3)
    assert sh.inode == found["bin/ash"].inode != ""
    assert found["lib"].target == "../../../usr/lib"  # Inside, there is nothing above the root.


def test_the_last_of_two_files_with_one_name_is_taken_as_tar_does(tmp_path: Path) -> None:
    assert contents(tar(tmp_path / "root.tar", info("a", size=1), info("./a", size=2))) == {"a": b"xx"}


@pytest.mark.parametrize(
    ("infos", "said"),
    [
        ([info("../../etc/passwd")], "`../../etc/passwd` points outside of the tar"),
        ([info("a/../../b")], "points outside of the tar"),
        ([info("a", tarfile.LNKTYPE, to="/etc/../../b")], "points outside of the tar"),
        (
            [info("a", tarfile.LNKTYPE, to="/etc/shadow")],
            "`a` is a hard link to `etc/shadow`, which is not a file in the image",
        ),
        ([info("a", tarfile.SYMTYPE, to="/etc"), info("a/passwd")], "`a/passwd` is inside `a`, which is a symlink"),
        ([info("mem", tarfile.CHRTYPE)], "`mem` is a device, which is not allowed outside of dev"),
        ([info("sda", tarfile.BLKTYPE)], "`sda` is a device"),
        ([info("p", tarfile.FIFOTYPE)], "`p` is a named pipe"),
        ([info("a", b"Z")], "`a` is an entry of type b'Z'"),
        ([info("a/.wh..wh..opq")], "mark deletions in an image"),
        ([info("a\n\x1b[2J" + "b" * 300)], r"`a\\x0a\\x1b\[2Jb+…b+`: a name is longer than 255 bytes"),
        ([], "contains no files"),
        ([info("manifest.json"), info("0a/layer.tar")], "is an image, not a root file system"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_hostile_tar_is_refused_by_name(infos: list[tarfile.TarInfo], said: str, tmp_path: Path) -> None:
    with pytest.raises(ImageFailed, match=said.replace("`../../", r"`\.\./\.\./")):
        read(tar(tmp_path / "root.tar", *infos))


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "two streams": lambda content: lzma.compress(content[:700]) + b"\0" * 4 + lzma.compress(content[700:]),
}


@pytest.mark.parametrize("packing", PACKED)
def test_packed_tars_are_unpacked_and_nothing_of_that_stays(packing: str, tmp_path: Path) -> None:
    plain = tar(tmp_path / "plain.tar", info("a", size=3_000_000)).read_bytes()
    (tmp_path / "root.tar").write_bytes(PACKED[packing](plain))

    assert contents(tmp_path / "root.tar") == {"a": b"x" * 3_000_000}
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("packing", PACKED)
def test_truncated_packed_tar_is_reported(packing: str, tmp_path: Path) -> None:
    packed = PACKED[packing](tar(tmp_path / "plain.tar", info("a", size=3_000)).read_bytes())
    (tmp_path / "root.tar").write_bytes(packed[:-20])

    with pytest.raises(ImageFailed) as caught:
        read(tmp_path / "root.tar")
    golden_text.said(str(caught.value))


def test_zstd_is_reported_with_a_fix(tmp_path: Path) -> None:
    (tmp_path / "root.tar").write_bytes(b"\x28\xb5\x2f\xfd and so on")

    with pytest.raises(ImageFailed) as told:
        read(tmp_path / "root.tar")
    golden_text.said(str(told.value))
    golden_text.said(told.value.hint)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "no tar": lambda _: b"I am a poem " * 100,
    "empty": lambda _: b"",
    "cut off in a file": lambda tar: tar[:1000],
    "a damaged header": lambda tar: tar[:1024] + b"?" * 512 + tar[1536:],
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_tar_is_reported_and_never_taken_for_a_shorter_one(how: str, tmp_path: Path) -> None:
    whole = tar(tmp_path / "whole.tar", info("a", size=500), info("b", size=500)).read_bytes()
    (tmp_path / "root.tar").write_bytes(DAMAGE[how](whole))

    with pytest.raises(ImageFailed) as told:
        read(tmp_path / "root.tar")
    golden_text.said(str(told.value))
    golden_text.said(told.value.hint)


def test_negative_size_ends_reading_immediately(tmp_path: Path) -> None:
    bad = info("a")
    bad.size = -1024
    (tmp_path / "root.tar").write_bytes(bad.tobuf(tarfile.GNU_FORMAT) + b"\0" * 1024)

    with pytest.raises(ImageFailed) as caught:
        read(tmp_path / "root.tar")
    # Python 3.11.2 refuses such a header itself, later ones leave it to us.
    assert str(caught.value).startswith("root.tar is not a complete tar: ")
    assert caught.value.hint == DAMAGED


def huge_name(path: Path) -> None:
    """A header that says its name has four gigabytes, in a file that has them as a hole."""
    long = info("././@LongLink", tarfile.GNUTYPE_LONGNAME, size=4 << 30)
    with path.open("wb") as out:
        out.write(long.tobuf(tarfile.GNU_FORMAT))
        out.truncate((4 << 30) + 2048)


def many_names(path: Path) -> None:
    """Three names of half a megabyte for one file: each header is allowed, together they are not."""
    long = info("././@LongLink", tarfile.GNUTYPE_LONGNAME, size=1 << 19).tobuf(tarfile.GNU_FORMAT) + b"a" * (1 << 19)
    path.write_bytes(3 * long + info("a").tobuf(tarfile.GNU_FORMAT) + b"\0" * 1024)


def huge_file(path: Path) -> None:
    """A file larger than all that may be in an image, as a hole."""
    one = info("a", size=limits.ROOTFS_BYTES_MAX + 1)
    with path.open("wb") as out:
        out.write(one.tobuf(tarfile.GNU_FORMAT))
        out.truncate(limits.ROOTFS_BYTES_MAX + 4096)


@contextmanager
def little_memory() -> Iterator[None]:
    """The block never holds 16 MiB."""
    tracemalloc.start()
    try:
        yield
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 16 << 20


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (huge_name, "a header is longer than 1024 KiB"),
        (many_names, "a header is longer than 1024 KiB"),
        (huge_file, "unpacks to more than 16 GiB"),
    ],
)
def test_gigabytes_are_refused_before_they_are_read(make: Callable[[Path], None], said: str, tmp_path: Path) -> None:
    make(tmp_path / "root.tar")

    with little_memory(), pytest.raises(ImageFailed, match=said):
        read(tmp_path / "root.tar")


def test_writing_an_image_holds_no_file_in_memory(tmp_path: Path) -> None:
    with (tmp_path / "root.tar").open("wb") as out:
        out.write(info("a", size=64 << 20).tobuf(tarfile.GNU_FORMAT))
        out.truncate((64 << 20) + 2048)

    with little_memory():
        rootfs.write_rootfs(tmp_path / "root.tar", tmp_path / "work" / "image.tar", "0" * 64)
    assert (tmp_path / "work" / "image.tar").stat().st_size > 64 << 20
