"""Follow an output file while its writer appends to it, truncates it and replaces it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from planloop.client.tail_file import TailFile, file_key, read_page
from planloop.reconciler.effects.rolling_file import RollingFile


@pytest.mark.parametrize("bytes_max", [100, 103])  # At 103 a line ends just before the half that stays.
def test_each_line_is_shown_once_while_the_older_half_is_dropped(tmp_path: Path, bytes_max: int) -> None:
    output = RollingFile(tmp_path / "container-x.out", bytes_max)
    lines = [f"line {number} é\n" for number in range(60)]

    with closing(TailFile(tmp_path / "container-x.out", bytes_max)) as writing:
        shown = [writing.more()]
        for index, line in enumerate(lines):
            output.add(line.encode())
            if index % 3 == 2:
                shown.append(writing.more())

        assert "".join(shown) == "".join(lines)
        assert writing.more() == ""


def test_next_run_is_shown_from_its_start_even_with_equal_output(tmp_path: Path) -> None:
    output = RollingFile(tmp_path / "container-x.out", 100)
    with closing(TailFile(tmp_path / "container-x.out", 100)) as writing:
        output.add(b"first run\n")
        assert writing.more() == "first run\n"

        output.clear()
        assert writing.more() == ""
        output.add(b"first run\n")

        assert writing.more() == "first run\n"


def test_newest_page_comes_first_and_nothing_is_missing_behind_it(tmp_path: Path) -> None:
    """Pages are whole lines that meet: read backwards from the newest they are the file."""
    path = tmp_path / "container-x.out"
    output = RollingFile(path, 1_000_000)
    lines = [f"line {number} é\n" for number in range(500)]
    for line in lines:
        output.add(line.encode())

    with closing(TailFile(path, 1_000_000)) as writing, path.open("rb") as file:
        start, shown = writing.end(1_000)
        assert shown.splitlines(keepends=True) == lines[-len(shown.splitlines()) :]
        assert writing.key == file_key(file)
        output.add(b"and on\n")
        assert (writing.more(), writing.is_anew) == ("and on\n", False)
        pages = [shown.encode()]
        while start > 0:
            start, older = read_page(file, start, 1_000)
            assert 0 < len(older) <= 1_000
            pages.insert(0, older)
        assert b"".join(pages).decode() == "".join(lines)


def test_line_longer_than_a_page_is_cut_and_not_left_out(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"x" * 2_500)
    with (tmp_path / "out").open("rb") as file:
        found = [read_page(file, None, 1_000), read_page(file, 1_500, 1_000), read_page(file, 500, 1_000)]

    assert [(start, len(content)) for start, content in found] == [(1_500, 1_000), (500, 1_000), (0, 500)]


def test_new_run_is_distinguished_from_a_resumed_one(tmp_path: Path) -> None:
    path = tmp_path / "container-x.out"
    output = RollingFile(path, 1_000)
    output.add(b"first\n")
    with closing(TailFile(path, 1_000)) as writing:
        assert writing.end(100) == (0, "first\n")
        output.clear()
        output.add(b"second\n")
        assert (writing.more(), writing.is_anew) == ("second\n", True)
        output.add(b"third\n")
        assert (writing.more(), writing.is_anew) == ("third\n", False)
