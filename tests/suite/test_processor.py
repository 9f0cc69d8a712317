"""The processor budget apart from the plugin that applies it."""

from __future__ import annotations

import pytest

from tests.suite import processor


def test_pace_grows_with_the_cost_of_the_same_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "PROBE_S", 100.0)
    assert processor.pace() == 1.0

    monkeypatch.setattr(processor, "PROBE_S", processor.probe_s() / 50)
    assert processor.pace() > 5.0
