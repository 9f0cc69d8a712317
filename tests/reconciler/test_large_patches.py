"""A patch whose result would be huge is rejected before any walk over the result, from every sender."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from planloop.schemas import canonical_json, json_patch, limits
from tests import rows
from tests.golden_text import said
from tests.product import HUMAN_CLI, Json, JsonObject, PatchOp, PatchRefused
from tests.reconciler.plans import Plan, agent, op, opened

pytestmark = pytest.mark.anyio

K: Final = "/tasks/a/tasks/k"
DOCUMENT: JsonObject = {
    "plan": "p",
    "goal": "all",
    "tasks": {
        "a": {
            "goal": "g",
            "agent": {"script": []},
            "tasks": {"k": {"goal": "group", "tasks": {"z": {"goal": "z", "tasks": {}}}}},
        }
    },
}


@pytest.fixture
async def plan(tmp_path: Path) -> AsyncIterator[Plan]:
    async with opened(tmp_path) as found:
        await found.save(DOCUMENT)
        yield found


def copied(source: str, path: str) -> PatchOp:
    return json_patch.op_from_json(0, {"op": "copy", "from": source, "path": path})


def spire(levels: int) -> Json:
    value: Json = "top"
    for _ in range(levels):
        value = {"x": value}
    return value


BOMBS: Final = {
    "a copy into itself, 40 times": [copied(K, f"{K}/tasks/x{n}") for n in range(40)],
    "a list that doubles": [
        op("add", f"{K}/notes", ["x"]),
        *(copied(f"{K}/notes", f"{K}/notes/-") for _ in range(60)),
    ],
    "two names that copy each other": [
        op("add", f"{K}/tasks/y", {"goal": "y", "tasks": {}}),
        *(copied(f"{K}/tasks/{'zy'[n % 2]}", f"{K}/tasks/{'yz'[n % 2]}/tasks/v{n}") for n in range(80)),
    ],
    "a long text, many times": [
        op("add", f"{K}/env", {"A": "x" * (1 << 20)}),
        *(copied(f"{K}/env/A", f"{K}/env/B{n}") for n in range(100)),
    ],
    "a long key, many times": [
        op("add", f"{K}/env", {"x" * (1 << 20): ""}),
        *(copied(f"{K}/env", f"{K}/env{n}") for n in range(100)),
    ],
    "one value that is a spire": [op("add", f"{K}/notes", spire(400))],
    "a spire that is moved below another": [
        op("add", f"{K}/m", spire(80)),
        op("add", f"{K}/n", spire(70)),
        json_patch.op_from_json(0, {"op": "move", "from": f"{K}/m", "path": f"{K}/n{'/x' * 70}"}),
    ],
    "a test of a spire": [op("test", K, spire(400))],
    "more values than a plan holds, added": [op("add", f"{K}/notes", [0] * (limits.PATCH_VALUES_MAX + 1))],
}


@pytest.mark.parametrize("by", ["an agent", "a person"])
@pytest.mark.parametrize("name", BOMBS)
async def test_patch_with_a_huge_result_is_refused_and_the_plan_stays(plan: Plan, name: str, by: str) -> None:
    before = plan.gate.present.document
    verdict = await plan.patch(*BOMBS[name], by=agent("a") if by == "an agent" else HUMAN_CLI)
    assert isinstance(verdict, PatchRefused)
    assert {fault.rule for fault in verdict.faults} <= {"schema", "scope", "rights"}
    assert "schema" in {fault.rule for fault in verdict.faults}
    assert plan.gate.present.document == before
    said(next(fault.message for fault in verdict.faults if fault.rule == "schema"))


async def test_patch_that_copies_a_small_task_often_is_accepted(plan: Plan) -> None:
    verdict = await plan.patch(*(copied(K, f"/tasks/a/tasks/x{n}") for n in range(50)), by=agent("a"))
    assert not isinstance(verdict, PatchRefused)
    assert len(plan.gate.present.document["tasks"]["a"]["tasks"]) == 51


def test_patch_with_too_many_operations_is_refused_where_it_is_read() -> None:
    one: Json = {"op": "test", "path": "/goal", "value": "x"}
    assert len(json_patch.ops_from_json([one] * limits.PATCH_OPS_MAX)) == limits.PATCH_OPS_MAX
    with pytest.raises(json_patch.PatchFailed) as failed:
        json_patch.ops_from_json([one] * (limits.PATCH_OPS_MAX + 1))
    assert failed.value.index == limits.PATCH_OPS_MAX
    said(failed.value.reason)


@rows.each(
    ("value", "found"),
    [
        ("text", canonical_json.Extent(1, 4)),
        ({}, canonical_json.Extent(1, 0)),
        ({"key": [1, None, "x"]}, canonical_json.Extent(5, 4)),
        ([[]] * 9, canonical_json.Extent(10, 0)),
        ([[]] * 10, "values"),
        (["123456", "12345"], "size"),
        ({"12345678901": 1}, "size"),
        ([[[[0]]]], "depth"),
    ],
)
def test_extent_of_a_value_counts_each_place_and_stops_at_a_bound(value: Json, found: object) -> None:
    assert canonical_json.measure_extent(value, values_max=10, bytes_max=10, depth_max=3) == found


@pytest.mark.parametrize("name", ["path", "from"])
def test_law_11_a_path_in_a_patch_is_bounded(name: str) -> None:
    ways = {"op": "copy", "from": "/goal", "path": "/goal", name: "/" * (limits.PATCH_POINTER_CHARS_MAX + 1)}

    with pytest.raises(json_patch.PatchFailed) as failed:
        json_patch.ops_from_json([ways])

    assert len(failed.value.reason) < limits.PATCH_POINTER_CHARS_MAX
