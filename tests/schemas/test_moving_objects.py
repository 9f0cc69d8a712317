"""An object's uid is the object and its address only its place: what the fold makes of moves and of late writes."""

from __future__ import annotations

import pytest

from planloop.schemas.log import record
from tests.product import Change, Drop, Mark, Move, Put, Record, RecordDraft, Resource, SetStatus, Uid

A, B = Uid("a"), Uid("b")


def folded(*changes: Change, after: dict[str, Resource] | None = None) -> dict[str, Resource]:
    objects = dict(after or {})
    record.fold_record(objects, Record(7, 0.0, 1, RecordDraft("object.updated", "controller:plan", "plan/p", changes)))
    return objects


BEFORE = folded(Put("task/a", A, {"goal": "g"}, finalizers=("task",)), SetStatus("task/a", A, {"state": "running"}))


def test_a_moved_object_keeps_all_but_its_address() -> None:
    after = folded(Move("task/a", A, "task/b"), after=BEFORE)
    assert list(after) == ["task/b"]
    old, new = BEFORE["task/a"], after["task/b"]
    assert (new.address, new.rev) == ("task/b", 7)
    assert (new.uid, new.generation, new.status, new.finalizers) == (A, old.generation, old.status, ("task",))


def test_both_addresses_are_reported_as_changed() -> None:
    draft = RecordDraft("object.updated", "controller:plan", "plan/p", (Move("task/a", A, "task/b"),))
    assert record.fold_record(dict(BEFORE), Record(7, 0.0, 1, draft)) == ("task/a", "task/b")


def test_nothing_moves_onto_another_object() -> None:
    both = folded(Put("task/b", B, {}), after=BEFORE)
    assert folded(Move("task/a", A, "task/b"), after=both) == both


def test_deleted_object_does_not_move() -> None:
    assert folded(Move("task/a", B, "task/b"), after=BEFORE) == BEFORE


@pytest.mark.parametrize(
    "late", [SetStatus("task/a", A, {"state": "done"}), Mark("task/a", A, deleting=True), Drop("task/a", A)]
)
def test_a_late_write_follows_the_object_to_its_new_address(late: Change) -> None:
    moved = folded(Move("task/a", A, "task/b"), after=BEFORE)
    after = folded(late, after=moved)
    assert after != moved
    assert "task/a" not in after


def test_a_late_write_for_the_mover_leaves_the_new_tenant_alone() -> None:
    moved = folded(Move("task/a", A, "task/b"), Put("task/a", B, {"goal": "new"}), after=BEFORE)
    after = folded(SetStatus("task/a", A, {"state": "done"}), after=moved)
    assert after["task/a"].status == {}
    assert after["task/b"].state == "done"


def test_law_7_a_write_for_an_object_that_was_replaced_is_dropped() -> None:
    replaced = folded(Put("task/a", B, {"goal": "new"}), after=BEFORE)
    assert folded(SetStatus("task/a", A, {"state": "done"}), after=replaced) == replaced


@pytest.mark.parametrize("change", [Move("task/a", A, "task/b"), Drop("task/a", A), Mark("task/a", A, True, ("x",))])
def test_every_change_survives_being_written_down(change: Change) -> None:
    assert record.change_from_json(record.change_to_json(change)) == change
