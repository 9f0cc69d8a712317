"""What is wrong with a case follows from what became of its proofs."""

from __future__ import annotations

import pytest

from planloop.benchmarks.suite import Suite
from planloop.benchmarks.validation import CaseJudgement, judge_cases, place_in_text
from planloop.schemas.objects.case import CaseVerdict
from tests.benchmarks.validating.suites import SOUND, entries, suite_of

But = tuple[str, CaseVerdict | None, tuple[str, ...]]


def judged(suite: Suite, *but: But) -> CaseJudgement:
    case = suite.cases["one"]
    (found,) = judge_cases([case], entries(case, *but))
    return found


def test_valid_case_has_no_error() -> None:
    found = judged(suite_of(one=SOUND))

    assert found.is_valid and found.problems == ()
    assert [proof.name for proof in found.proofs if proof.verdict is CaseVerdict.PASS] == [
        "oracle:plain",
        "oracle:long",
        "oracle:short",
    ]


@pytest.mark.parametrize(
    ("but", "code", "words"),
    [
        (("oracle:long", CaseVerdict.FAIL, ("right",)), "P0501", "the oracle `long` fails: because"),
        (("mutant:other-word", CaseVerdict.PASS, ()), "P0502", "the mutant `other-word` passes"),
        (("mutant:other-word", CaseVerdict.FAIL, ("there",)), "P0503", "not killed by `right`, but by `there`"),
        (("cheat:printed-pass", CaseVerdict.PASS, ()), "P0504", "the cheat `printed-pass` passes"),
        (("nop", CaseVerdict.PASS, ()), "P0505", "an agent that does nothing passes"),
        (("mutant:other-word", CaseVerdict.FAIL, ("there",)), "P0506", "the check `right` kills no mutant"),
        (("oracle:long", CaseVerdict.ERROR, ()), "P0509", "`oracle:long` was not decided: because"),
        (("nop", CaseVerdict.INVALID, ()), "P0509", "`nop` was not decided: because"),
        (("mutant:other-file", None, ()), "P0509", "`mutant:other-file` was not decided: it did not finish"),
    ],
)
def test_proof_with_an_unexpected_verdict_is_an_error(but: But, code: str, words: str) -> None:
    found = judged(suite_of(one=SOUND), but)

    assert not found.is_valid
    assert any(problem.code == code and words in problem.summary and problem.hint for problem in found.problems), (
        found.problems
    )


def test_a_case_with_few_oracles_is_valid_and_warned_of_and_one_without_is_not() -> None:
    one = SOUND["proof"] | {"oracles": {"plain": {"files": {"a.txt": "{{nonce.word}}"}}}}
    few = judged(suite_of(one=SOUND | {"proof": one}))
    none = judged(suite_of(one=SOUND | {"proof": one | {"oracles": {}}}))

    assert few.is_valid and [(problem.code, problem.severity) for problem in few.problems] == [("P0507", "warning")]
    assert not none.is_valid and [problem.code for problem in none.problems] == ["P0508"]


def test_a_check_that_only_a_mutant_named_for_another_fails_is_not_dead() -> None:
    found = judged(
        suite_of(one=SOUND),
        ("mutant:other-word", CaseVerdict.FAIL, ("there", "right")),
        ("mutant:other-file", CaseVerdict.FAIL, ("there",)),
    )

    assert found.is_valid


def test_problems_have_the_location_of_what_they_are_about() -> None:
    text = (
        "suite: s\ncases:\n  one:\n    checks:\n      there: {}\n    proof:\n      mutants:\n        other-word: {}\n"
    )
    problems = judged(suite_of(one=SOUND), ("mutant:other-word", CaseVerdict.PASS, ())).problems

    placed = place_in_text(problems, text, "suite.yaml")

    lines = {problem.code: problem.span.line for problem in placed if problem.span is not None}
    assert lines == {"P0502": 8, "P0506": 4}
