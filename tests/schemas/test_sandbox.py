"""The enforced sandbox in a status."""

from __future__ import annotations

import pytest

from planloop.schemas import json_patch
from planloop.schemas.objects.sandbox import sandbox_status_merge
from tests.product import Json, JsonObject


@pytest.mark.parametrize(
    ("status", "written", "left"),
    [
        ({}, None, {}),
        ({}, 2, {"sandbox": {"tier": 2}}),
        ({}, {"alone": True}, {"sandbox": {"tier": 2}}),
        ({}, {"container": "x"}, {"sandbox": {"tier": 3, "container": "x"}}),
        ({"sandbox": {"tier": 3, "container": "x"}}, 2, {"sandbox": {"tier": 2}}),
        ({"sandbox": {"tier": 2}}, None, {}),
    ],
)
def test_a_status_has_the_sandbox_of_the_newest_run_and_nothing_of_an_earlier_one(
    status: JsonObject, written: Json, left: JsonObject
) -> None:
    assert json_patch.merge_values(status, sandbox_status_merge(written, status)) == left
