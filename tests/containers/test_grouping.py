"""Groups of what commands inside containers start; with a real container: `sandboxing/test_container_escapes.py`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planloop.containers.engine import exec_kill


def test_process_outside_the_container_enters_no_group_of_it(tmp_path: Path) -> None:
    place = tmp_path / ("c" * 64)
    place.mkdir()

    with pytest.raises(ProcessLookupError):
        exec_kill.enter_exec_cgroup(place, "mark", os.getpid())

    assert list(place.iterdir()) == []
