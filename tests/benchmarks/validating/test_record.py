"""What is remembered of validations counts for cases as they were, and for no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planloop.benchmarks.suite import Suite
from planloop.benchmarks.validation import is_validated, judge_cases, update_record
from planloop.schemas.objects.case import CaseVerdict
from tests.benchmarks.validating.suites import SOUND, entries, suite_of
from tests.product import JsonObject

TWO = suite_of(one=SOUND, two=SOUND | {"tags": {"kind": "other"}})


def validated(suite: Suite, before: JsonObject, *names: str, bad: tuple[str, ...] = ()) -> JsonObject:
    """The record after cases were validated, of which those in `bad` were not valid."""
    but = {name: [("nop", CaseVerdict.PASS, ())] if name in bad else [] for name in names}
    found = [entry for name in names for entry in entries(suite.cases[name], *but[name])]
    return update_record(before, suite, judge_cases([suite.cases[name] for name in names], found))


@pytest.mark.parametrize(
    ("names", "bad", "asked", "known"),
    [
        ((), (), ("one", "two"), None),
        (("one",), (), ("one",), True),
        (("one",), (), ("one", "two"), None),
        (("one", "two"), (), ("one", "two"), True),
        (("one", "two"), ("two",), ("one", "two"), False),
        (("one", "two"), ("two",), ("one",), True),
        (("two",), ("two",), ("one", "two"), False),
    ],
)
def test_a_run_is_validated_when_all_of_its_cases_are(
    names: tuple[str, ...], bad: tuple[str, ...], asked: tuple[str, ...], known: bool | None
) -> None:
    assert is_validated(validated(TWO, {}, *names, bad=bad), TWO, asked) is known


def test_a_case_that_was_edited_is_not_known_and_the_others_still_are() -> None:
    record = validated(TWO, validated(TWO, {}, "one"), "two")
    edited = replace(TWO, cases={**TWO.cases, "two": replace(TWO.cases["two"], prompts=("something else",))})

    assert is_validated(record, TWO, ("one", "two")) is True
    assert is_validated(record, edited, ("one", "two")) is None
    assert is_validated(record, edited, ("one",)) is True


def test_later_validation_replaces_an_earlier_one_and_removed_cases_go() -> None:
    record = validated(TWO, validated(TWO, {}, "one", "two", bad=("one",)), "one")
    fewer = replace(TWO, cases={"one": TWO.cases["one"]})

    assert is_validated(record, TWO, ("one", "two")) is True
    assert list(validated(fewer, record, "one")["cases"]) == ["one"]
