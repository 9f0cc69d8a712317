"""The page on suites of tool calls is true: its commands print what it shows, its tables are whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from planloop.benchmarks.checks import calls
from planloop.benchmarks.checks.call_rules import MEMBERS
from planloop.benchmarks.checks.calls import CallClass
from planloop.benchmarks.checks.evidence import EmittedCall, Evidence
from tests.architecture.tree import ROOT
from tests.docs.sessions import Terminal, check, replayed

PAGE = ROOT / "docs" / "benchmarks" / "tool-calling.md"


@pytest.mark.process
@pytest.mark.timeout(120)
def test_the_session_of_the_page_is_real(tmp_path: Path, is_updating: bool) -> None:
    text = PAGE.read_text()
    files = re.findall(r"(?ms)^```yaml\n(.*?)^```\n", text)
    for name, content in zip(("desk.yaml", "world.yaml", "others.yaml"), files, strict=True):
        (tmp_path / name).write_text(content)

    now = replayed(text, Terminal(tmp_path))

    check(PAGE, now, is_updating=is_updating)


def test_every_member_class_and_figure_is_on_the_page() -> None:
    decoy, right = EmittedCall("b", {}), EmittedCall("a", {"x": 1})
    seen = Evidence((right, decoy), "", frozenset("ab"), frozenset("b"), frozenset("c"))
    figures = calls.judge_calls({"need": [{"tool": "a", "args": {"x": 1}}]}, seen).figures
    text = PAGE.read_text()

    assert [name for name in (*MEMBERS, *CallClass, *figures) if f"`{name}`" not in text] == []
