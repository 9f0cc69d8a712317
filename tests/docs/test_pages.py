"""The pages of docs/start and docs/how-to work as they are written: a reader who follows them gets what they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import pages
from tests.docs.sessions import Terminal, check

PAGES = {path.relative_to(pages.DOCS).as_posix(): path for path in pages.pages()}


@pytest.mark.process(keep=3)
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_followed_to_its_end(name: str, tmp_path: Path, is_updating: bool) -> None:
    path = PAGES[name]
    text = path.read_text()
    folder = tmp_path / "work"
    folder.mkdir()
    terminal = Terminal(folder, timeout_s=40)
    try:
        now = pages.follow(text, terminal)
    finally:
        if "--detach" in text:
            terminal.stop_plans()

    check(path, now, is_updating=is_updating)
