"""What breaks while a case is judged ends it as an error, and the run goes on to its end."""

from __future__ import annotations

import pytest

from planloop.benchmarks.case_controller import _broken
from planloop.reconciler.engine.reconcile import AttemptFailure, Bug, Failed


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Failed("DiskFull", "the disk is full"), "grading failed: the disk is full"),
        (Bug(KeyError("x")), "grading failed by a bug of planloop: KeyError('x')"),
    ],
)
def test_what_breaks_is_said(fault: AttemptFailure, words: str) -> None:
    assert _broken(fault) == words
