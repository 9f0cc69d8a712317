"""`docs/architecture.md` is a map: the files that it names are there, and it stays two pages."""

from __future__ import annotations

import re

from tests.architecture.tree import ROOT

PAGE = ROOT / "docs" / "architecture.md"
LINES_MAX = 130  # Two printed pages in a small face.


def _missing(row: str) -> list[str]:
    """The files of a table's row that are not there; a bare name is beside one named before it, or above that."""
    folders = {ROOT}
    out: list[str] = []
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", row):
        found = next((folder / name for folder in folders if (folder / name).exists()), None)
        if found is None:
            out.append(name)
        else:
            folders |= {found.parent, found.parent.parent}
    return out


def test_every_file_that_the_map_names_is_there() -> None:
    rows = re.findall(r"(?m)^\|.*\.py`.*\|$", PAGE.read_text())

    assert len(rows) > 30
    assert {row: missing for row in rows if (missing := _missing(row))} == {}


def test_the_map_stays_two_pages() -> None:
    assert len(PAGE.read_text().splitlines()) <= LINES_MAX
