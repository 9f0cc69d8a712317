"""The description of the API: made of the table and its models, committed, and what the page's types are made of."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from planloop.server.api import openapi, validation
from planloop.server.api.base_model import ApiModel
from planloop.server.api.operations import TABLE, Operation
from tests import rows

ROOT = Path(__file__).parents[3]
WEB = ROOT / "web"
TYPES = WEB / "src" / "api-types.d.ts"


def test_the_committed_description_is_that_of_the_table(is_updating: bool) -> None:
    made = json.dumps(openapi.openapi_description(), indent=1, ensure_ascii=False) + "\n"
    if is_updating:
        openapi.FILE.write_text(made)

    assert openapi.FILE.read_text() == made, "run `make docs` and look at the difference"


@pytest.mark.process
@pytest.mark.needs("node")
def test_the_types_of_the_page_are_made_of_the_description(is_updating: bool) -> None:
    made = subprocess.run(
        ["node_modules/.bin/openapi-typescript", str(openapi.FILE)], cwd=WEB, capture_output=True, text=True, check=True
    ).stdout
    if is_updating:
        TYPES.write_text(made)

    assert TYPES.read_text() == made, "run `make docs` and look at the difference"


@rows.each("row", TABLE, ids=lambda row: f"{row.method} {row.path}")
def test_every_row_names_models_and_its_parameters(row: Operation) -> None:
    assert validation.model_or_union(row.answer) is not None
    assert (row.method == "POST") is bool(row.request)
    assert not row.request or validation.model_or_union(row.request) is not None
    assert bool(row.takes) is bool(row.of)
    assert row.summary.endswith(".")


def test_no_two_models_have_one_name() -> None:
    found = [
        name
        for module in validation.MODEL_MODULES
        for name, one in vars(module).items()
        if isinstance(one, type) and issubclass(one, ApiModel) and one.__module__ == module.__name__
    ]

    assert sorted(found) == sorted(set(found))


def test_no_two_rows_have_one_route() -> None:
    assert len({(row.method, row.path, row.door) for row in TABLE}) == len(TABLE)
    assert len({row.name for row in TABLE}) == len(TABLE)


def test_a_read_at_the_owners_socket_loads_no_models() -> None:
    code = "import sys, planloop.server.http_api, planloop.server.api.operations; sys.exit('pydantic' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
