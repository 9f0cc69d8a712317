"""The account of processor seconds: what is billed to a test, and what a run leaves behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.suite import processor


def test_pace_grows_with_the_cost_of_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "PROBE_S", 100.0)
    assert processor.pace() == 1.0

    monkeypatch.setattr(processor, "PROBE_S", processor.probe_s() / 50)
    assert processor.pace() > 5.0


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_shared_fixture_is_not_billed_to_the_test() -> None:
    account = processor.Account()
    account.test_begins()
    with account.fixture("session"), account.fixture("function"):
        burn(0.1)
    assert account.test_s() < 0.05
    with account.fixture("function"):
        burn(0.1)
    assert account.test_s() > 0.09


def test_groups_of_ended_workers_are_removed_and_others_stay(tmp_path: Path) -> None:
    ended, running, other = (tmp_path / name for name in (
        f"planloop-tests-gw0-{2**22 + 1}", f"planloop-tests-gw0-{os.getpid()}", "docker",
    ))  # fmt: skip
    for group in (ended, running, other):
        group.mkdir()
    processor.remove_left_behind(tmp_path)
    assert {*tmp_path.iterdir()} == {running, other}
