"""The page on forks is true: its example runs and prints what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.docs.sessions import Terminal, check, replayed

PAGE = ROOT / "docs" / "reference" / "forks.md"


@pytest.mark.process
@pytest.mark.needs("git")
@pytest.mark.timeout(120)
def test_the_session_of_the_page_is_real(tmp_path: Path, is_updating: bool) -> None:
    text = PAGE.read_text()
    (plan,) = re.findall(r"(?ms)^```yaml\n(plan: .*?)^```\n", text)
    (tmp_path / "try.plan.yaml").write_text(plan)

    now = replayed(text, Terminal(tmp_path))

    check(PAGE, now, is_updating=is_updating)
