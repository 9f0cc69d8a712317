"""Records survive printing, the vocabulary is the one that is documented, and the fold fences (law 7)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.schemas import canonical_json
from tests.product import (
    RECORD_TYPES,
    RECORD_VERSION,
    Change,
    Drop,
    Mark,
    Move,
    PatchOp,
    PatchSpec,
    Put,
    Record,
    RecordDraft,
    Resource,
    SetStatus,
    Uid,
    change_from_json,
    change_to_json,
    fold_record,
    record_from_json,
    record_to_json,
    resource_from_json,
)

ROOT = Path(__file__).parents[2]

names = st.sampled_from(["task/a", "task/a/b", "agent/.", "plan/p"])
uids = st.sampled_from([Uid("u1"), Uid("u2")])
specs = st.dictionaries(st.sampled_from("xyz"), st.none() | st.integers() | st.text("aé\n", max_size=3), max_size=3)
lists = st.lists(names, max_size=2).map(tuple)
ops = st.builds(PatchOp, st.just("add"), st.tuples(st.text("a/~", max_size=3)), st.integers())
changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(Put, names, uids, specs, lists, st.none() | names, lists),
    st.builds(PatchSpec, names, st.lists(ops, max_size=2).map(tuple)),
    st.builds(SetStatus, names, uids, specs),
    st.builds(Mark, names, uids, st.none() | st.booleans(), st.none() | lists),
    st.builds(Drop, names, uids),
    st.builds(Move, names, uids, names),
)
records = st.builds(
    Record,
    st.integers(1, 9),
    st.floats(0, 2e9),
    st.integers(1, 9),
    st.builds(
        RecordDraft,
        st.sampled_from(sorted(RECORD_TYPES)),
        st.sampled_from(["human:cli", "agent:."]),
        names,
        st.lists(changes, max_size=3).map(tuple),
        specs,
        lists,
        st.none() | st.integers(0, 9),
    ),
)


@given(changes)
def test_a_change_survives_printing(change: Change) -> None:
    assert change_from_json(canonical_json.decode(canonical_json.encode(change_to_json(change)))) == change


@given(records)
def test_a_record_survives_printing(record: Record) -> None:
    printed = record_to_json(record)
    assert printed["v"] == RECORD_VERSION
    assert record_from_json(canonical_json.decode(canonical_json.encode(printed))) == record


@given(st.lists(records, max_size=6))
def test_folding_names_exactly_what_it_changed(history: list[Record]) -> None:
    objects: dict[str, Resource] = {}
    for record in history:
        before = dict(objects)
        if any(isinstance(change, PatchSpec) for change in record.draft.changes):
            continue
        touched = fold_record(objects, record)
        assert len(set(touched)) == len(touched)
        changed = {at for at in before.keys() | objects.keys() if before.get(at) is not objects.get(at)}
        assert changed <= set(touched)
        for address, resource in objects.items():
            assert resource.address == address
            assert resource_from_json(canonical_json.decode(canonical_json.encode(resource.to_json()))) == resource


@given(st.lists(changes, max_size=4))
def test_law_7_changes_with_unknown_uids_change_nothing(late: list[Change]) -> None:
    kept = Resource("task/a", Uid("live"), 1, {}, {})
    objects = {"task/a": kept}
    fenced = tuple(change for change in late if isinstance(change, SetStatus | Mark | Drop | Move))
    assert (
        fold_record(objects, Record(2, 0.0, 1, RecordDraft("object.updated", "controller:x", "task/a", fenced))) == ()
    )
    assert objects == {"task/a": kept}


def test_a_generation_counts_changes_of_spec_and_a_new_uid_starts_again() -> None:
    objects: dict[str, Resource] = {}

    def write(rev: int, *written: Change) -> Resource:
        fold_record(objects, Record(rev, 0.0, 1, RecordDraft("object.updated", "human:cli", "task/a", written)))
        return objects["task/a"]

    assert write(1, Put("task/a", Uid("u1"), {"x": 1})).generation == 1
    assert write(2, SetStatus("task/a", Uid("u1"), {"state": "done"})).generation == 1
    again = write(3, PatchSpec("task/a", (PatchOp("replace", ("x",), 2),)))
    assert (again.generation, again.spec, again.state) == (2, {"x": 2}, "done")
    assert write(4, Put("task/a", Uid("u1"), {})).generation == 3
    fresh = write(5, Put("task/a", Uid("u2"), {}))
    assert (fresh.generation, fresh.status, fresh.created_rev) == (1, {}, 5)


def test_a_moved_object_keeps_its_uid_and_is_found_by_late_writes() -> None:
    objects = {"task/a": Resource("task/a", Uid("u1"), 3, {}, {"state": "running"})}
    move = RecordDraft("plan.patched", "human:file", "plan/p", (Move("task/a", Uid("u1"), "task/b"),))
    assert fold_record(objects, Record(2, 0.0, 1, move)) == ("task/a", "task/b")
    late = RecordDraft("check.ran", "controller:task", "task/a", (SetStatus("task/a", Uid("u1"), {"state": "done"}),))
    assert fold_record(objects, Record(3, 0.0, 1, late)) == ("task/b",)
    assert (objects["task/b"].state, objects["task/b"].generation, list(objects)) == ("done", 3, ["task/b"])


def test_form_of_a_newer_version_is_not_misread() -> None:
    with pytest.raises(KeyError):
        change_from_json({"teleport": "task/a", "uid": "u1"})


def test_record_types_are_a_subject_and_a_past_event() -> None:
    for name in RECORD_TYPES:
        subject, dot, event = name.partition(".")
        assert dot == "."
        assert subject.isalpha()
        assert event.isalpha()


def test_every_type_that_the_product_writes_is_in_the_vocabulary() -> None:
    """Looks at `RecordDraft("…")` and `RecordDraft(type="…")` in the source: what a store would refuse at run time."""
    written: dict[str, str] = {}
    for folder in ("reconciler", "controllers", "containers", "client", "server", "owner", "cli"):
        for path in (ROOT / folder).rglob("*.py"):
            written |= dict.fromkeys(_draft_types(path), str(path.relative_to(ROOT)))
    assert written
    assert {name: path for name, path in written.items() if name not in RECORD_TYPES} == {}


def _draft_types(path: Path) -> set[str]:
    found = set()
    text = path.read_bytes()
    for node in ast.walk(ast.parse(text if b"RecordDraft" in text else b"")):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "RecordDraft":
            given_type = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "type")]
            found |= {one.value for one in given_type if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    return found
