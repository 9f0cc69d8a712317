"""Opening and joining, as values: one for a pair and its files, numbers that never come twice, bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planloop.controllers.agent.conflicts import detection, resolution
from planloop.controllers.agent.conflicts.detection import ConflictClaim
from planloop.controllers.shared.leases.lock_paths import paths_overlap
from planloop.schemas import limits
from planloop.schemas.objects.conflict import (
    OVER,
    ConflictParty,
    conflict_from_json,
    conflict_number,
    conflict_status_from_json,
    conflict_uid,
)
from tests.product import Change, Drop, MemoryView, Record, RecordDraft, SetStatus

AGENTS = st.sampled_from(["agent/a", "agent/b", "agent/c"])
FILES = st.sampled_from(["src/**", "src/a.py", "src/b.py", "docs/c.md", "**"])
PAIRS = st.tuples(AGENTS, AGENTS).filter(lambda pair: pair[0] != pair[1])
ASKS = st.tuples(PAIRS, st.lists(FILES, min_size=1, max_size=2, unique=True))


def fold(view: MemoryView, *changes: Change) -> None:
    view.fold(Record(view.rev + 1, 0.0, 1, RecordDraft("object.updated", "controller:test", "plan/p", changes)))


def ask(pair: tuple[str, str], paths: list[str]) -> ConflictClaim:
    return ConflictClaim(ConflictParty(pair[0], "u", 1, "it wants it"), pair[1], tuple(sorted(paths)), "contest")


@given(st.lists(ASKS, max_size=12))
def test_agents_have_one_conflict_over_overlapping_files_however_often_opened(
    asks: list[tuple[tuple[str, str], list[str]]],
) -> None:
    view = MemoryView()
    for pair, paths in asks:
        made = detection.open_conflict(view, ask(pair, paths), 1.0)
        fold(view, *made.changes)
        found = view.get(made.address)
        assert found is not None
        status = conflict_status_from_json(found.status)
        assert set(conflict_from_json(found.spec).parties) == set(pair)
        assert set(paths) <= set(status.paths)
        assert status.parties[pair[0]].intent == "it wants it"
        again = detection.open_conflict(view, ask(pair, paths), 2.0)
        assert (again.address, again.changes, again.is_new) == (made.address, (), False), (
            "a repeated message is sent once"
        )
    standing = [(conflict_from_json(one.spec), conflict_status_from_json(one.status)) for one in view.list("conflict")]
    standing = [(spec, status) for spec, status in standing if status.is_open]
    for index, (spec, status) in enumerate(standing):
        for other, more in standing[:index]:
            if set(spec.parties) == set(other.parties):
                assert not any(paths_overlap(one, two) for one in status.paths for two in more.paths)


def test_numbers_are_unique_and_ended_conflicts_are_kept_to_a_bound() -> None:
    view, numbers = MemoryView(), []
    for count in range(3 * limits.CONFLICTS_KEPT_MAX):
        made = detection.open_conflict(view, ask(("agent/a", "agent/b"), ["src/a.py"]), float(count))
        assert made.is_new
        fold(view, *made.changes)
        numbers.append(conflict_number(made.address))
        found = view.get(made.address)
        assert found is not None
        fold(view, SetStatus(found.address, found.uid, {"state": OVER}))
        assert len(view.list("conflict")) <= limits.CONFLICTS_KEPT_MAX
    assert numbers == list(range(1, len(numbers) + 1))


def test_number_of_open_conflicts_is_bounded() -> None:
    view = MemoryView()
    for count in range(limits.CONFLICTS_OPEN_MAX):
        assert detection.has_conflict_room(view)
        fold(view, *detection.open_conflict(view, ask((f"agent/n{count}", "agent/b"), ["f"]), 1.0).changes)
    assert not detection.has_conflict_room(view)


def test_agent_blocked_by_several_gets_a_conflict_with_each_in_one_append() -> None:
    view, party = MemoryView(), ConflictParty("agent/a", "u", 1, "it wants it")
    made = detection.open_conflicts(view, party, ("agent/b", "agent/c"), ("f",), "contest", 1.0)
    fold(view, *(change for one in made for change in one.changes))
    assert [(one.address, one.against) for one in made] == [("conflict/1", "agent/b"), ("conflict/2", "agent/c")]
    assert len(view.list("conflict")) == 2
    for count in range(limits.CONFLICTS_OPEN_MAX - 2):
        fold(view, *detection.open_conflict(view, ask((f"agent/n{count}", "agent/b"), ["f"]), 1.0).changes)
    again = detection.open_conflicts(view, party, ("agent/b", "agent/d"), ("f",), "contest", 2.0)
    assert [one.against for one in again] == ["agent/b"], "an open conflict is joined at the limit"


def test_conflicts_opened_together_each_count_against_the_bound() -> None:
    view, party = MemoryView(), ConflictParty("agent/a", "u", 1, "it wants it")
    for count in range(limits.CONFLICTS_KEPT_MAX):
        made = detection.open_conflict(view, ask(("agent/a", "agent/b"), ["f"]), float(count))
        fold(view, *made.changes)
        fold(view, SetStatus(made.address, conflict_uid(made.address, float(count)), {"state": OVER}))
    found = detection.open_conflicts(view, party, ("agent/b", "agent/c"), ("f",), "contest", 99.0)
    changes = [change for one in found for change in one.changes]
    dropped = [change.address for change in changes if isinstance(change, Drop)]
    assert dropped == ["conflict/1", "conflict/2"]
    fold(view, *changes)
    assert len(view.list("conflict")) == limits.CONFLICTS_KEPT_MAX


def test_conflict_that_absorbs_another_takes_its_orders_so_that_they_are_removed() -> None:
    view = MemoryView()
    fold(view, *detection.open_conflict(view, ask(("agent/a", "agent/b"), ["src/a.py"]), 1.0).changes)
    fold(view, *detection.open_conflict(view, ask(("agent/a", "agent/b"), ["src/b.py"]), 1.0).changes)
    order = {"task": "task/a", "needs": "b"}
    fold(view, SetStatus("conflict/2", conflict_uid("conflict/2", 1.0), {"order": [order]}))
    made = detection.open_conflict(view, ask(("agent/b", "agent/a"), ["src/**"]), 2.0)
    fold(view, *made.changes)
    first, second = view.get("conflict/1"), view.get("conflict/2")
    assert first is not None and second is not None
    assert (made.address, second.state) == ("conflict/1", OVER)
    document = {"tasks": {"a": {"needs": ["b"]}, "b": {}}}
    assert [op.op for op in resolution.undo_ordering(first, document)] == ["remove"]
