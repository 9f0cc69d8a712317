"""What the plan of a run gives those who work in it."""

from __future__ import annotations

from typing import Any

import pytest

from planloop.benchmarks.runs.contestants import contestant_from_name
from planloop.benchmarks.runs.plan import plan_document
from planloop.benchmarks.runs.run_compiler import RunRequest, compile_run
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
def test_contestant_that_may_start_programs_does_not_see_grading_data(more: dict[str, Any], sandbox: Any) -> None:
    compiled = compile_run(suite_of(one=SOUND | more), [contestant_from_name("nop")], RunRequest())

    document = plan_document(compiled, {"one--nop--1": 1}, parallel=1)

    assert document["tasks"]["one--nop--1"]["agent"].get("sandbox") == sandbox


def test_containers_differ_in_their_workspaces_alone() -> None:
    compiled = compile_run(
        suite_of(one=SOUND | {"image": "planloop/node"}), [contestant_from_name("nop")], RunRequest(trials=2)
    )

    document = plan_document(compiled, {"one--nop--1": 1, "one--nop--2": 1}, parallel=2)

    first, second = (document["containers"][f"c-one--nop--{trial}"] for trial in (1, 2))
    assert [mount.pop("host") for made in (first, second) for mount in made["mounts"][:1]] == [
        "./work/one--nop--1",
        "./work/one--nop--2",
    ]
    assert (first.pop("task"), second.pop("task")) == ("one--nop--1", "one--nop--2")
    assert first == second
    assert first["read-only"] and first["networks"] == ["none"]
    assert first["limits"] == {"memory": "2GiB", "pids": 512}
    assert first["env"] == {"TZ": "UTC", "LANG": "C.UTF-8", "HOME": "/tmp"}
    assert {"tmpfs": True, "container": "/tmp"} in first["mounts"]
