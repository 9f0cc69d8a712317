"""The matrix of a case as people read it, also on a narrow terminal."""

from __future__ import annotations

from typing import Any

import pytest

from planloop.benchmarks.validation import SuiteMatrix, judge_cases, matrix_lines, matrix_page
from planloop.schemas.objects.case import CaseVerdict
from planloop.schemas.quantities import cell_width
from tests.benchmarks.validating.suites import SOUND, entries, suite_of
from tests.golden_text import said


def test_matrix_shows_the_checks_that_caught_each_mutant_and_unexpected_verdicts() -> None:
    case = suite_of(one=SOUND).cases["one"]
    (found,) = judge_cases(
        [case],
        entries(
            case,
            ("oracle:long", CaseVerdict.FAIL, ("there",)),
            ("mutant:other-word", CaseVerdict.FAIL, ("there",)),
            ("mutant:other-file", CaseVerdict.FAIL, ("there", "right")),
            ("cheat:peeking", CaseVerdict.PASS, ()),
            ("nop", CaseVerdict.ERROR, ()),
        ),
    )

    said(list(matrix_lines(found)))


@pytest.mark.parametrize("width", [40, 60, 79, 200])
def test_no_line_is_wider_than_the_terminal_for_any_number_of_mutants(width: int) -> None:
    many: dict[str, Any] = {f"mutant-{n}": {"files": {"a.txt": f"{n}"}, "kills": ["right"]} for n in range(30)}
    case = suite_of(one=SOUND | {"proof": SOUND["proof"] | {"mutants": many}}).cases["one"]
    (found,) = judge_cases([case], entries(case))

    shown = list(matrix_lines(found, width))

    assert max(map(cell_width, shown)) <= width
    assert sum(line.count("✗") for line in shown) == len(many)
    assert all(f"{number} {name}" in "\n".join(shown) for number, name in enumerate(many, 1))


def test_a_page_has_the_sums_of_each_suite_and_its_cases() -> None:
    case = suite_of(one=SOUND).cases["one"]
    judgements = judge_cases([case], entries(case, ("oracle:long", CaseVerdict.FAIL, ("right",))))

    text = matrix_page([SuiteMatrix("made-up", "Is it right?", judgements)])

    assert "\n| made-up | 1 | 2 | 2 of 3 | 2 of 2 | 7 of 7 | 1 of 1 |\n" in text
    assert "\n## made-up\n\nIs it right?\n\n```text\none: not valid\n        1 2\n" in text
