"""What a case comes to: from its checks, and from what became of the world it was worked in."""

from __future__ import annotations

import pytest

from planloop.benchmarks.grading.grade import average_figures, decide_verdict, infrastructure_failure
from planloop.schemas.objects.case import CaseStopReason, CaseVerdict
from tests.product import JsonObject, Resource, Uid


def object_of(address: str, **status: object) -> Resource:
    return Resource(address, Uid("u"), 1, {}, status)


@pytest.mark.parametrize(
    ("status", "is_lost"),
    [
        ({}, False),
        ({"incarnation": 1, "starts": 1}, False),
        ({"incarnation": 1, "starts": 2}, True),
        ({"incarnation": 2, "starts": 1}, True),
        ({"incarnation": 1, "starts": 1, "failures": 1}, True),
        ({"incarnation": 1, "starts": 1, "losses": 1}, True),
    ],
)
def test_container_that_ended_or_restarted_during_work_is_an_infrastructure_error(
    status: JsonObject, is_lost: bool
) -> None:
    container = object_of("container/c", **status)

    said = infrastructure_failure(object_of("case/a"), object_of("task/a", state="succeeded"), [container])

    assert said == ("container/c stopped or was replaced while the task used it" if is_lost else "")


@pytest.mark.parametrize(
    ("case", "task", "words"),
    [
        ({"cut": CaseStopReason.WORLD, "why": "no model"}, {"state": "cancelled"}, "no model"),
        ({"cut": CaseStopReason.LIMIT, "why": "too late"}, {"state": "cancelled"}, ""),
        ({}, {"state": "cancelled"}, "the task was cancelled"),
        (
            {},
            {"state": "failed", "conditions": {"Ready": {"reason": "NoSandbox", "message": "none"}}},
            "NoSandbox: none",
        ),
        ({}, {"state": "failed", "conditions": {"Ready": {"reason": "Failed", "message": "it gave up"}}}, ""),
    ],
)
def test_task_outcome_is_attributed_to_the_infrastructure_or_the_contestant(
    case: JsonObject, task: JsonObject, words: str
) -> None:
    assert infrastructure_failure(object_of("case/a", **case), object_of("task/a", **task), []) == words


@pytest.mark.parametrize(
    ("results", "verdict", "why"),
    [
        ("", CaseVerdict.INVALID, "no check was run"),
        ("pass pass", CaseVerdict.PASS, "all 2 checks pass"),
        ("pass error", CaseVerdict.ERROR, "1: error"),
        ("pass invalid", CaseVerdict.INVALID, "1: invalid"),
        ("invalid error", CaseVerdict.ERROR, "1: error"),
        ("error fail pass fail", CaseVerdict.FAIL, "1: fail (and 1 more)"),
    ],
)
def test_one_failed_check_decides_despite_checks_that_could_not_run(
    results: str, verdict: CaseVerdict, why: str
) -> None:
    found: list[JsonObject] = [
        {"check": str(n), "result": result, "message": result} for n, result in enumerate(results.split())
    ]

    graded = decide_verdict(found, {})

    assert (graded.verdict, graded.why) == (verdict, why)


def test_figures_of_several_checks_are_their_mean_over_those_that_have_it() -> None:
    assert average_figures([{"accessible": 1.0}, {}, {"accessible": 0.5, "calls": 2.0}]) == {
        "accessible": 0.75,
        "calls": 2.0,
    }
    assert average_figures([{}]) == {}
