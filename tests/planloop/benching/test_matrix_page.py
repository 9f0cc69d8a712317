"""The page with the matrices is about the suites as they are: every case, check and mutant of theirs, and all valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.reading.suite import Case
from planloop.benching import suites
from tests.planloop.verb_pages import ROOT, shell

PAGE = ROOT / "docs" / "matrix.md"
SHIPPED = suites.shipped()
SHOWN = re.findall(r"(?m)^## (\S+)$", PAGE.read_text())


def section(text: str, suite: str) -> str:
    """What the page says of `suite`."""
    return next(part for part in text.split("\n## ") if part.startswith(f"{suite}\n"))


def shown(case: Case) -> tuple[str, list[str], list[str]]:
    return f"{case.id}: valid", [check.key for check in case.checks], list(case.mutants)


def read(block: str) -> tuple[str, list[str], list[str]]:
    """The same from the page: the head of a case, its rows, the names below its columns."""
    lines = block.split("\n")
    rows = [found[1] for line in lines if (found := re.match(r"  (\S+) +[✗x·!?][ ✗x·!?]*$", line))]
    return lines[0], rows, re.findall(r"\b\d+ ([A-Za-z][^\s,]*)(?=,|$)", "\n".join(lines[1:-3]), re.MULTILINE)


def test_suites_that_need_no_engine_are_on_the_page() -> None:
    needs_none = {
        name
        for name, path in SHIPPED.items()
        if not any(case.image for case in suites.required(path).suite.cases.values())
    }

    assert needs_none <= set(SHOWN) <= set(SHIPPED)


@pytest.mark.parametrize("suite", SHOWN)
def test_the_page_shows_every_case_check_and_mutant_of_the_suite(suite: str) -> None:
    cases = suites.required(SHIPPED[suite]).suite.cases
    blocks = section(PAGE.read_text(), suite).partition("```text\n")[2].partition("\n```")[0].split("\n\n")

    assert [read(block) for block in blocks] == [shown(case) for case in cases.values()], (
        "plan bench validate --all -o md > docs/matrix.md"
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_matrix_of_the_calls_is_what_validating_prints(tmp_path: Path, is_updating_docs: bool) -> None:
    text = PAGE.read_text()
    printed, code = shell("plan bench validate tool-calling -o md", tmp_path, timeout_s=280)

    now = text.replace(section(text, "tool-calling").rstrip(), section(printed, "tool-calling").rstrip())

    if is_updating_docs:
        PAGE.write_text(now)
    assert code == 0 and PAGE.read_text() == now, "run the tests with --update-docs and look at the difference"
