"""What the plan of a run gives those who work in it."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.compiling.compiling import Wish, compile_run
from benchmarks.compiling.contestants import contestant
from benchmarks.planning import plan_document
from tests.benchmarks.validating.suites import SOUND, suite_of


@pytest.mark.parametrize(
    ("more", "sandbox"),
    [
        ({}, {"alone": True}),
        ({"tools": ["all"]}, {"alone": True}),
        ({"tools": ["read", "shell"]}, {"alone": True}),
        ({"tools": ["shell(./check *)"]}, {"alone": True}),
        ({"tools": ["task"]}, {"alone": True}),
        ({"tools": ["read", "write"]}, None),
        ({"tools": []}, None),
        ({"image": "planloop/node"}, {"container": "c-one--nop--1"}),
    ],
)
def test_who_may_start_programs_sees_nothing_of_what_graders_know(more: dict[str, Any], sandbox: Any) -> None:
    compiled = compile_run(suite_of(one=SOUND | more), [contestant("nop")], Wish())

    document = plan_document(compiled, {"one--nop--1": 1}, parallel=1)

    assert document["tasks"]["one--nop--1"]["agent"].get("sandbox") == sandbox
