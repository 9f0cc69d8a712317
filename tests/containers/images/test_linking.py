"""The files that a stock image includes for a program, and the errors if they are missing."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from planloop.containers.images.archive import ImageEntry, ImageFailed, data_entry, symlink_entry
from planloop.containers.images.packages import Apt
from planloop.containers.images.stock_build import library_closure, needed_libraries
from tests.golden_text import said

PROGRAM = Path(sys.executable).resolve()


def pool(*entries: ImageEntry) -> Mapping[str, ImageEntry]:
    return {entry.path: entry for entry in entries}


@pytest.mark.needs("linux")  # Programs of other systems have another format.
def test_program_reports_its_linked_libraries() -> None:
    with PROGRAM.open("rb") as opened:
        needed = needed_libraries(opened)

    assert any(name.startswith("/") for name in needed), "what starts it"
    assert any(name.startswith("libc.") for name in needed)
    assert needed_libraries(io.BytesIO(b"#!/bin/sh\n")) == ()
    assert needed_libraries(io.BytesIO(b"\x7fELF")) == ()


@pytest.mark.needs("linux")  # Programs of other systems have another format.
def test_libraries_are_included_and_a_missing_one_is_named() -> None:
    program = data_entry("usr/bin/python3", PROGRAM.read_bytes(), mode=0o755)
    with PROGRAM.open("rb") as opened:
        names = [name for name in needed_libraries(opened) if not name.startswith("/")]
    libraries = [data_entry(f"usr/lib/here/{name}", b"") for name in names]

    assert library_closure(pool(program, *libraries, data_entry("usr/lib/here/libother.so", b"")), [program.path]) == {
        program.path, *(library.path for library in libraries),
    }  # fmt: skip
    with pytest.raises(ImageFailed) as caught:
        library_closure(pool(program, *libraries[:-1]), [program.path])
    said(str(caught.value), "usr/bin/python3", f"{names[-1]}")


def test_links_bring_their_targets_and_broken_ones_are_left_out() -> None:
    files = pool(
        symlink_entry("usr/bin/a", "../../lib/b"),
        symlink_entry("usr/lib/b", "/lib/c"),
        data_entry("usr/lib/c", b""),
        symlink_entry("usr/bin/nowhere", "/etc/alternatives/x"),
        symlink_entry("usr/bin/round", "round"),
    )

    assert library_closure(files, ["usr/bin/a", "usr/bin/nowhere", "usr/bin/round"]) == {
        "usr/bin/a",
        "usr/lib/b",
        "usr/lib/c",
    }


@pytest.mark.anyio
async def test_machine_without_apt_gets_an_alternative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ImageFailed) as told:
        await Apt(tmp_path).architecture()
    said(str(told.value))
    said(told.value.hint)
