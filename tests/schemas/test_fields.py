"""The table of fields: what is made from it cannot drift, and no field is without a reader (law 10)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields as dataclass_fields
from pathlib import Path

import jsonschema
import pytest

from planloop.compiler.read import read_source
from planloop.schemas.objects.agent import AgentSpec
from planloop.schemas.spec.field import ChangeClass, Field
from planloop.schemas.spec.json_schema import ID_PATTERN, plan_schema
from planloop.schemas.spec.tables import TABLES, change_class, find_field
from tests import rows
from tests.compiler.compiling import GOLDEN
from tests.product import Json, JsonObject, TaskSpec

SCHEMA = Path(__file__).parents[2] / "schemas/planloop/schemas/json/plan.schema.json"
ROWS = [(table.name, row) for table in TABLES.values() for row in table.fields]
IDS = [f"{table}.{row.name}" for table, row in ROWS]


def test_the_schema_file_is_what_the_tables_say(is_updating: bool) -> None:
    text = json.dumps(plan_schema(), indent=1, ensure_ascii=False) + "\n"
    if is_updating:
        SCHEMA.write_text(text)
    assert SCHEMA.read_text() == text, "run `make docs` and look at the difference"


def test_the_schema_is_a_valid_draft_7_schema() -> None:
    assert faults(jsonschema.Draft7Validator.META_SCHEMA, plan_schema()) == []


def faults(schema: JsonObject, value: Json) -> list[str]:
    return [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(value)]


def _yaml_plans() -> Iterator[Path]:
    for folder in ("valid", "seeds"):
        yield from sorted((GOLDEN / folder).glob("*.yaml"))
    yield from sorted((GOLDEN.parents[1] / "plans" / "examples").glob("*/*.yaml"))


@pytest.mark.parametrize("path", list(_yaml_plans()), ids=lambda path: path.name)
def test_the_schema_accepts_what_the_compiler_accepts(path: Path) -> None:
    # Read as editors do, by YAML 1.2; PyYAML by itself would take the key `on` for true.
    assert faults(plan_schema(), read_source(path.read_bytes(), file=path.name).value) == []


@pytest.mark.parametrize("path", sorted((GOLDEN / "valid").glob("*.graph.json")), ids=lambda path: path.name)
def test_the_schema_accepts_every_canonical_document(path: Path) -> None:
    assert faults(plan_schema(), json.loads(path.read_text())["document"]) == []


@pytest.mark.parametrize(
    "name",
    [
        "P0201-unknown-field.yaml",
        "P0202-type.yaml",
        "P0207-id.yaml",
        "P0207-plan.yaml",
        "P0210-missing.yaml",
        "P0211-exclude.yaml",
        "P0212-bounds.yaml",
    ],
)
def test_the_schema_refuses_what_one_map_alone_shows_to_be_wrong(name: str) -> None:
    plan = read_source((GOLDEN / "invalid" / name).read_bytes(), file=name).value
    assert not jsonschema.Draft7Validator(plan_schema()).is_valid(plan)


def test_schema_accepts_letters_of_every_script_with_ascii_word_classes() -> None:
    # Editors read `\\w` as JavaScript does.
    pattern = re.compile(ID_PATTERN, re.ASCII)
    assert all(pattern.search(id_) for id_ in ("größe", "日本語", "v1.2", "a-b_c", "0"))
    assert not any(pattern.search(id_) for id_ in ("", "-a", ".a", "a/b", "a b", "x" * 65))


@rows.each(("table", "row"), ROWS, ids=IDS)
def test_every_field_is_documented_in_a_sentence(table: str, row: Field) -> None:
    assert row.doc[0].isupper() or row.doc[0] in "`"
    assert row.doc.endswith(".")
    assert row.example is not None


@rows.each(("table", "row"), ROWS, ids=IDS)
def test_every_field_is_found_by_its_dotted_name(table: str, row: Field) -> None:
    found = find_field(f"{table}.{row.name}")
    assert found is not None
    assert found[1] == row


@pytest.mark.parametrize("kind", [("task", TaskSpec), ("agent", AgentSpec)], ids=["task", "agent"])
def test_every_lowered_field_comes_from_a_row_or_from_structure(kind: tuple[str, type]) -> None:
    name, spec = kind
    rows = {lowered for table in ("task", "plan", "agent") for row in TABLES[table].fields for lowered in row.lowered}
    structural = {"task": {"parent"}, "agent": {"task", "parent", "watches"}}[name]
    assert {one.name for one in dataclass_fields(spec)} <= rows | structural


@rows.each(
    ("kind", "field", "expected"),
    [
        ("task", "goal", "tail"),
        ("task", "notes", "tail"),
        ("task", "acceptance", "hot"),
        ("task", "spec", "hot"),
        ("task", "budget", "hot"),
        ("task", "priority", "hot"),
        ("task", "cwd", "restart"),
        ("task", "env", "restart"),
        ("task", "work", "restart"),
        ("task", "run", "restart"),
        ("task", "on_change", "hot"),
        ("task", "on-change", "hot"),
        ("task", "heal_every_s", "hot"),
        ("task", "parent", "none"),
        ("agent", "mind", "restart"),
        ("agent", "prompt", "prefix"),
        ("agent", "tools", "prefix"),
        ("agent", "rights", "prefix"),
        ("agent", "talk_to", "hot"),
        ("agent", "sandbox", "restart"),
        ("container", "image", "replace"),
        ("container", "limits", "hot"),
        ("container", "labels", "none"),
        ("plan", "plan", "immutable"),
    ],
)
def test_the_class_of_a_change(kind: str, field: str, expected: str) -> None:
    assert change_class(kind, field) == ChangeClass(expected)
