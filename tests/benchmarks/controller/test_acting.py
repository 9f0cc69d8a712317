"""If grading fails, the case ends with an error, and the run continues."""

from __future__ import annotations

import pytest

from planloop.benchmarks.case_controller import _failure_text
from planloop.reconciler.engine.reconcile import AttemptFailure, Bug, Failed


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (Failed("DiskFull", "the disk is full"), "grading failed: the disk is full"),
        (Bug(KeyError("x")), "grading failed with an internal error: KeyError('x')"),
    ],
)
def test_the_failure_of_a_grading_is_named(failure: AttemptFailure, words: str) -> None:
    assert _failure_text(failure) == words
