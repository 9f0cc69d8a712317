from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from planloop.reconciler.admission import object_changes
from tests.product import Change, Drop, JsonObject, Mark, MemoryView, Move, Put, Record, RecordDraft, SetStatus, Uid
from tests.reconciler import small_language
from tests.reconciler.plans import CountedIds

PLAN = "plan/p"


class Live:
    """A view that documents are materialised into."""

    def __init__(self) -> None:
        self.view = MemoryView()
        self.ids = CountedIds()

    def made(self, document: JsonObject, moved: dict[str, str] | None = None) -> object_changes.ObjectChanges:
        graph = small_language.check(document).graph
        assert graph is not None
        return object_changes.object_changes(graph.objects, self.view, PLAN, self.ids.mint, moved)

    def apply(self, document: JsonObject, moved: dict[str, str] | None = None) -> object_changes.ObjectChanges:
        made = self.made(document, moved)
        self.write(*made.changes)
        return made

    def write(self, *changes: Change) -> None:
        draft = RecordDraft("object.updated", "controller:plan", PLAN, changes)
        self.view.fold(Record(self.view.rev + 1, 0.0, 1, draft))

    def status(self, address: str, merge: JsonObject) -> None:
        self.write(SetStatus(address, self.uid(address), merge))

    def uid(self, address: str) -> Uid:
        found = self.view.get(address)
        assert found is not None, address
        return found.uid


def task(goal: str = "g", **fields: Any) -> JsonObject:
    return {"goal": goal, **fields}


def names(live: Live) -> list[str]:
    return [one.address for one in live.view.everything() if not one.deleting]


NAMES = st.sampled_from("abc")
DOCUMENTS: st.SearchStrategy[JsonObject] = st.recursive(
    st.fixed_dictionaries({"goal": st.sampled_from(["g", "h"])}, optional={"agent": st.just({"script": []})}),
    lambda children: st.fixed_dictionaries(
        {"goal": st.sampled_from(["g", "h"]), "tasks": st.dictionaries(NAMES, children, max_size=3)}
    ),
    max_leaves=6,
)


@given(st.lists(DOCUMENTS, min_size=1, max_size=4))
def test_a_second_materialise_is_silent(documents: list[JsonObject]) -> None:
    live = Live()
    for document in documents:
        live.apply(document)
        assert live.made(document).changes == ()


@given(DOCUMENTS, DOCUMENTS)
def test_an_object_keeps_its_uid_as_long_as_it_is_wanted(first: JsonObject, second: JsonObject) -> None:
    live = Live()
    live.apply(first)
    before = {one.address: one.uid for one in live.view.everything()}
    live.apply(second)
    assert all(before.get(one.address, one.uid) == one.uid for one in live.view.everything())


def test_vanished_object_is_marked_and_keeps_its_finalizers() -> None:
    live = Live()
    live.apply(task(tasks={"a": task()}))
    made = live.apply(task())
    assert any(isinstance(change, Mark) and change.address == "task/a" for change in made.changes)
    found = live.view.get("task/a")
    assert found is not None
    assert (found.deleting, found.finalizers) == (True, ("task",))


def test_object_being_deleted_is_left_until_it_is_deleted() -> None:
    live = Live()
    live.apply(task(tasks={"a": task()}))
    live.apply(task())
    made = live.apply(task(tasks={"a": task("again")}))
    assert made.pending == ("task/a",)
    old = live.uid("task/a")
    live.view = MemoryView([one for one in live.view.everything() if one.address != "task/a"], live.view.rev)
    assert live.apply(task(tasks={"a": task("again")})).pending == ()
    assert live.uid("task/a") != old


def test_children_wait_with_a_parent_whose_old_object_still_exists() -> None:
    live = Live()
    family = task(tasks={"a": task(agent={}, tasks={"x": task()})})
    live.apply(family)
    live.apply(task())
    live.write(Drop("task/a/x", live.uid("task/a/x")), Drop("agent/a", live.uid("agent/a")))
    made = live.apply(family)
    assert made.pending == ("task/a", "agent/a", "task/a/x")
    assert live.view.get("task/a/x") is None
    live.write(Drop("task/a", live.uid("task/a")))
    assert live.apply(family).pending == ()
    assert names(live) == ["agent/a", "task/.", "task/a", "task/a/x"]


def test_a_moved_task_keeps_uid_status_and_calls_and_everything_below_follows() -> None:
    live = Live()
    live.apply(task(tasks={"a": task(agent={}, tasks={"x": task()})}))
    live.status("task/a", {"state": "running", "incarnation": 3})
    live.write(Put("call/1", Uid("call-1"), {"owner": "task/a"}, owner="task/a"))
    live.write(SetStatus("call/1", Uid("call-1"), {"state": "Started"}))
    uids = {one: live.uid(one) for one in ("task/a", "agent/a", "task/a/x")}
    moved = {"task/a": "task/b"}
    live.apply(task(tasks={"b": task(agent={}, tasks={"x": task()})}), moved)
    assert names(live) == ["agent/b", "call/1", "task/.", "task/b", "task/b/x"]
    assert [live.uid(one) for one in ("task/b", "agent/b", "task/b/x")] == list(uids.values())
    there = live.view.get("task/b")
    call = live.view.get("call/1")
    assert there is not None
    assert call is not None
    assert there.status == {"state": "running", "incarnation": 3}
    assert (call.owner, call.spec, call.status) == ("task/b", {"owner": "task/b"}, {"state": "Started"})


def test_a_result_on_its_way_to_the_old_address_reaches_the_moved_object() -> None:
    live = Live()
    live.apply(task(tasks={"a": task()}))
    uid = live.uid("task/a")
    live.apply(task(tasks={"b": task()}), {"task/a": "task/b"})
    live.write(SetStatus("task/a", uid, {"state": "done"}))
    found = live.view.get("task/b")
    assert found is not None
    assert found.state == "done"


def test_a_move_that_was_made_is_not_made_again() -> None:
    live = Live()
    moved = {"task/a": "task/b"}
    live.apply(task(tasks={"a": task()}))
    live.apply(task(tasks={"b": task()}), moved)
    assert live.made(task(tasks={"b": task()}), moved).changes == ()


def test_a_chain_of_moves_frees_each_address_before_it_is_taken() -> None:
    live = Live()
    live.apply(task(tasks={"a": task(), "b": task()}))
    a, b = live.uid("task/a"), live.uid("task/b")
    made = live.apply(task(tasks={"b": task(), "c": task()}), {"task/a": "task/b", "task/b": "task/c"})
    assert [change.address for change in made.changes if isinstance(change, Move)] == ["task/b", "task/a"]
    assert (live.uid("task/b"), live.uid("task/c")) == (a, b)


def test_a_task_can_move_below_another_parent() -> None:
    live = Live()
    live.apply(task(tasks={"a": task(tasks={"x": task()}), "b": task()}))
    uid = live.uid("task/a/x")
    live.apply(task(tasks={"a": task(), "b": task(tasks={"x": task()})}), {"task/a/x": "task/b/x"})
    assert live.uid("task/b/x") == uid
    found = live.view.get("task/b/x")
    assert found is not None
    assert found.owner == "task/b"


def test_nothing_moves_onto_an_existing_task() -> None:
    live = Live()
    live.apply(task(tasks={"a": task(), "b": task()}))
    uid = live.uid("task/b")
    live.apply(task(tasks={"b": task()}), {"task/a": "task/b"})
    assert live.uid("task/b") == uid
    gone = live.view.get("task/a")
    assert gone is not None
    assert gone.deleting


def test_calls_and_approvals_are_kept_by_the_materialiser() -> None:
    live = Live()
    live.apply(task())
    live.write(Put("approval/1", Uid("1"), {"kind": "patch"}, owner=PLAN), Put("lock/x", Uid("2"), {}, owner="task/."))
    assert live.made(task()).changes == ()
