"""A file of output that is followed while its owner writes it, makes it shorter and begins it anew."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from planloop.cli.container_logs import Writing
from reconciler.effects.rolling_file import RollingFile


@pytest.mark.parametrize("bytes_max", [100, 103])  # At 103 a line ends just before the half that stays.
def test_each_line_is_shown_once_while_the_older_half_goes(tmp_path: Path, bytes_max: int) -> None:
    output = RollingFile(tmp_path / "container-x.out", bytes_max)
    lines = [f"line {number} é\n" for number in range(60)]

    with closing(Writing(tmp_path / "container-x.out", bytes_max)) as writing:
        shown = [writing.more()]
        for index, line in enumerate(lines):
            output.add(line.encode())
            if index % 3 == 2:
                shown.append(writing.more())

        assert "".join(shown) == "".join(lines)
        assert writing.more() == ""


def test_the_next_run_is_shown_from_its_beginning_also_when_it_says_the_same(tmp_path: Path) -> None:
    output = RollingFile(tmp_path / "container-x.out", 100)
    with closing(Writing(tmp_path / "container-x.out", 100)) as writing:
        output.add(b"first run\n")
        assert writing.more() == "first run\n"

        output.clear()
        assert writing.more() == ""
        output.add(b"first run\n")

        assert writing.more() == "first run\n"
