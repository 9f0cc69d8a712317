"""The scripts that read and write files inside containers, with the shells that images have; nothing is half done."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from planloop.controllers.agent.tools import file_target
from tests import needs
from tests.product import sha256_hex

CHANGED, NO_FOLDER, NONE, OTHER, LARGE, LINK, TORN, NOT_WRITABLE = 70, 71, 72, 73, 74, 75, 76, 77


@pytest.fixture(params=["sh", "busybox", "bash"])
def shell(request: pytest.FixtureRequest) -> list[str]:
    found = needs.program(request.param, "a static busybox" if request.param == "busybox" else "")
    return [found, "sh"] if request.param == "busybox" else [found]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def run(shell: list[str], script: str, *words: str, stdin: bytes = b"") -> tuple[int, bytes]:
    ended = subprocess.run([*shell, "-c", script, "sh", *words], input=stdin, capture_output=True, check=False)
    assert ended.stderr == b""
    return ended.returncode, ended.stdout


def write(shell: list[str], path: Path, content: bytes, expected: bytes | None, arrived: bytes | None = None) -> int:
    """The exit code when `expected` is what was looked at; only `arrived` comes through, None: all of it."""
    before = "-" if expected is None else sha256_hex(expected)
    given = content if arrived is None else arrived
    words = (str(path), before, sha256_hex(content), f".{path.name}.op.tmp")
    return run(shell, file_target._WRITE, *words, stdin=given)[0]


def names(folder: Path) -> list[str]:
    return sorted(str(each.relative_to(folder)) for each in folder.rglob("*"))


def test_a_file_is_replaced_in_one_step_and_keeps_its_mode(shell: list[str], folder: Path) -> None:
    path = folder / "a b$c"
    path.write_bytes(b"old")
    path.chmod(0o640)

    assert write(shell, path, b"new\0\n", b"old") == 0

    assert path.read_bytes() == b"new\0\n" and path.stat().st_mode & 0o777 == 0o640
    assert names(folder) == ["a b$c"]


def test_a_new_file_brings_its_folders(shell: list[str], folder: Path) -> None:
    assert write(shell, folder / "x/y/-n", b"", None) == 0

    assert names(folder) == ["x", "x/y", "x/y/-n"]


@pytest.mark.parametrize("arrived", [b"", b"ne"])
def test_incomplete_transfer_is_not_written(shell: list[str], folder: Path, arrived: bytes) -> None:
    path = folder / "a"
    path.write_bytes(b"old")

    assert write(shell, path, b"new", b"old", arrived) == TORN
    assert path.read_bytes() == b"old" and names(folder) == ["a"]


def test_file_that_others_changed_created_or_removed_is_not_overwritten(shell: list[str], folder: Path) -> None:
    path = folder / "a"
    path.write_bytes(b"theirs")

    assert write(shell, path, b"new", b"old") == CHANGED
    assert write(shell, path, b"new", None) == CHANGED
    assert write(shell, folder / "gone", b"new", b"old") == CHANGED
    assert path.read_bytes() == b"theirs" and names(folder) == ["a"]


def test_nothing_is_done_through_links(shell: list[str], folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "real/a").write_bytes(b"old")
    (folder / "way").symlink_to("real")
    (folder / "link").symlink_to("real/a")
    before = names(folder)

    for path in ("way/a", "way/new/deep", "link"):
        assert write(shell, folder / path, b"new", None) == LINK
    assert run(shell, file_target._READ, str(folder / "way/a"), "9") == (LINK, str(folder / "real/a").encode())
    assert run(shell, file_target._READ, str(folder / "link"), "9") == (LINK, str(folder / "real/a").encode())
    assert run(shell, file_target._FIND, str(folder / "way"), "9")[0] == LINK
    assert names(folder) == before and (folder / "real/a").read_bytes() == b"old"


def test_path_that_is_not_a_file_is_reported(shell: list[str], folder: Path) -> None:
    (folder / "d").mkdir()
    (folder / "f").write_bytes(b"12345")

    for path, code in (("none", NONE), ("no/none", NO_FOLDER), ("f/x", NO_FOLDER), ("d", OTHER), ("f", LARGE)):
        assert run(shell, file_target._READ, str(folder / path), "4")[0] == code
    assert write(shell, folder / "d", b"", None) == OTHER
    assert write(shell, folder / "f/x", b"", None) == NO_FOLDER
    assert run(shell, file_target._READ, str(folder / "f"), "5") == (0, f"{sha256_hex(b'12345')}\n12345".encode())
    assert run(shell, file_target._READ, "/", "5")[0] in (OTHER, NO_FOLDER)


def test_a_file_of_the_plan_has_one_name_also_where_it_is_mounted_through_a_link(
    shell: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "real/x y/d").mkdir(parents=True)
    (folder / "real/x y/d/a").write_bytes(b"old")
    (folder / "real/other").write_bytes(b"")
    (folder / "way").symlink_to("real")
    monkeypatch.setenv(file_target.OWN_PREFIX, f"{folder}/none\n{folder}/way/x y\n{folder}/real/x")

    named = f"{folder}/way/x y/d"
    assert run(shell, file_target._READ, str(folder / "real/x y/d/a"), "9") == (LINK, f"{named}/a".encode())
    assert run(shell, file_target._FIND, str(folder / "real/x y/d"), "9") == (LINK, named.encode())
    assert write(shell, folder / "real/x y/d/a", b"new", b"old") == LINK
    assert write(shell, folder / "real/x y/new/a", b"new", None) == LINK
    assert run(shell, file_target._READ, str(folder / "real/other"), "9")[0] == 0
    assert names(folder / "real") == ["other", "x y", "x y/d", "x y/d/a"]


def test_variables_of_the_container_say_nothing_to_the_scripts(
    shell: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a").write_bytes(b"")
    monkeypatch.setenv("system", "-o -true")

    assert run(shell, file_target._FIND, str(folder), "9") == (0, b"./a\n")


def test_a_file_that_is_too_large_is_not_read_to_know_it(shell: list[str], folder: Path) -> None:
    (folder / "a").write_bytes(b"")
    os.truncate(folder / "a", 1 << 40)

    assert run(shell, file_target._READ, str(folder / "a"), "9", "2") == (LARGE, b"%d\n\0\0" % (1 << 40))
