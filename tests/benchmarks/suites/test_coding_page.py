"""The page on the suite coding-agent shows what the suite holds."""

from __future__ import annotations

import re
from pathlib import Path

from planloop.benchmarks.grading.containers import find_start_command
from tests.architecture.tree import ROOT
from tests.benchmarks.suites.test_coding_agent import case

PAGE = ROOT / "docs" / "benchmarks" / "coding.md"
NAMES = ("echo", "login", "chat", "game")


def cases() -> str:
    rows = ["| case | checks |", "| --- | --- |"]
    for name in NAMES:
        found = case(f"{name}-typescript")
        checks = ", ".join(f"{check.key} ({check.kind})" for check in found.checks)
        rows.append(f"| {name} | {checks} |")
    return "\n".join(rows)


def mutants() -> str:
    rows = ["| case | wrong programs |", "| --- | --- |"]
    for name in NAMES:
        found = case(f"{name}-typescript").proofs.mutants
        rows.append(f"| {name} | {', '.join(f'{each} ({act.kills[0]})' for each, act in found.items())} |")
    return "\n".join(rows)


def starts(folder: Path) -> str:
    return "\n".join(f"{number}. {what}" for number, what in enumerate(find_start_command(folder, "auto").tried, 1))


def test_the_page_shows_the_cases_the_wrong_programs_and_the_starts(tmp_path: Path, is_updating: bool) -> None:
    text = PAGE.read_text()
    parts = {
        "What is asked, and how it is judged": (r"\| case \| checks \|\n(?:\|.*\n)+|CASES\n", cases()),
        "How a program is started": (r"(?:\d\. .*\n)+|STARTS\n", starts(tmp_path)),
        "How the checks are checked": (r"\| case \| wrong programs \|\n(?:\|.*\n)+|MUTANTS\n", mutants()),
    }
    now = text
    for pattern, made in parts.values():
        now = re.sub(pattern, lambda _, made=made: f"{made}\n", now, count=1)  # type: ignore[misc]

    if is_updating:
        PAGE.write_text(now)
    assert PAGE.read_text() == now, "run `make docs` and look at the difference"
    assert all(f"## {heading}" in now and made in now for heading, (_, made) in parts.items())
