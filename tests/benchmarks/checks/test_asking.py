"""Checks that cannot be judged are reported with their location when their suite is parsed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from planloop.benchmarks.suite_parser import read_suite

SUITE = """\
suite: demo
cases:
  one:
    prompts: [do it]
    checks:
      right: {%s}
"""


class Nothing:
    """No file lies beside the suite."""

    def read(self, path: str) -> bytes:
        raise FileNotFoundError(path)

    def tree(self, path: str) -> Mapping[str, bytes]:
        raise FileNotFoundError(path)


@pytest.mark.parametrize(
    ("check", "guilty", "words"),
    [
        ("calls: {need: [{tool: a, id: x}, {tool: b, after: [y]}]}", "[y", "no needed call has the id `y`"),
        ("calls: {need: [{tool: a, args: {n: {one-of: []}}}]}", "[]", "`one-of` is a list"),
        ("calls: {need: [{tool: a, args: {exact: {n: {between: [2, 1]}}}}]}", "[2", "nothing is between 2 and 1"),
        ("calls: {need: [{args: {}}]}", "{args", "`tool`"),
        ("calls: {need: [{tool: read}], ordr: any}", "ordr", "ordr"),
        ("calls: {need: [{tool: read}], order: some}", "some", "some"),
        ("calls: {need: [{tool: [read, wriet]}]}", "wriet", "the case has no tool `wriet`"),
        ("calls: {need: [{tool: read}], free: [raeds]}", "raeds", "the case has no tool `raeds`"),
        ("calls: {forbid: [lits]}", "lits", "the case has no tool `lits`"),
        ("abstain: {free: [reeds]}", "reeds", "the case has no tool `reeds`"),
        ("calls: {need: [{tool: a}, {tool: a, after: need-1}], order: exact}", "exact", "`after` has no effect"),
        ("calls: {forbid: [{decoys: some}]}", "some", "invalid `decoys`"),
        ("calls: {free: [reads]}", "{free", "this `calls` requires nothing"),
        ("state: {after: [{a: {}, b: {}}]}", "{a", "a golden call must be"),
        ("state: {ignore: [messages]}", "{ignore", "this `state` requires nothing"),
        ("state: {new: {notes: [{text: {one-of: []}}]}}", "[]", "`one-of` is a list"),
        ("abstain: {asks-or-says: {one-of: 1}}", "1", "`one-of` is a list"),
        ("abstain: {says: x}", "says", "says"),
    ],
)
def test_a_problem_is_reported_with_its_location_and_a_hint(check: str, guilty: str, words: str) -> None:
    text = SUITE % check
    (problem,) = read_suite(text.encode(), file="suite.yaml", sources=Nothing()).diagnostics

    assert words in problem.summary
    assert problem.hint
    assert problem.span is not None
    assert text[problem.span.start :].startswith(guilty)


CAN_BE_ASKED = (
    "calls: {need: read}",
    "calls: {forbid: [mail.invented, 'mail.*', reads]}",
    "abstain: {}",
    "state: {after: []}",
    "calls: {extra: deny}",
)


@pytest.mark.parametrize("check", CAN_BE_ASKED)
def test_valid_question_has_no_error(check: str) -> None:
    read = read_suite((SUITE % check).encode(), file="suite.yaml", sources=Nothing())

    assert read.diagnostics == ()
    assert read.suite is not None
