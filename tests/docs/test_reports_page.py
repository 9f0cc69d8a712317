"""The page on reports is true: its suite runs, and its commands print what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.docs.sessions import Terminal, check, replayed

PAGE = ROOT / "docs" / "benchmarks" / "reports.md"


@pytest.mark.process
@pytest.mark.timeout(120)
@pytest.mark.needs("bubblewrap")
def test_the_session_of_the_page_is_real(tmp_path: Path, is_updating: bool) -> None:
    text = PAGE.read_text()
    (suite,) = re.findall(r"(?ms)^```yaml\n(suite: .*?)^```\n", text)
    (tmp_path / "notes.yaml").write_text(suite)

    now = replayed(text, Terminal(tmp_path))

    check(PAGE, now, is_updating=is_updating)
