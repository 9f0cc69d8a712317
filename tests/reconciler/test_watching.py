"""Which addresses a change wakes: itself, its owner, and its referrers when its signal changed."""

from __future__ import annotations

from planloop.reconciler.engine.change_tracker import ChangeWatcher
from tests.product import Change, Drop, MemoryView, Put, Record, RecordDraft, SetStatus, Uid


class World:
    def __init__(self, *changes: Change) -> None:
        self.view = MemoryView()
        self.rev = 0
        self.fold(*changes)
        self.watcher = ChangeWatcher([resource for kind in ("task", "agent") for resource in self.view.list(kind)])

    def fold(self, *changes: Change) -> tuple[str, ...]:
        self.rev += 1
        return self.view.fold(
            Record(self.rev, 0.0, 1, RecordDraft("object.updated", "controller:task", "task/a", changes))
        )

    def woken(self, *changes: Change) -> list[str]:
        changed = self.fold(*changes)
        return self.watcher.concerned(self.view, changed)


def put(address: str, uid: str = "u", owner: str | None = None, refs: tuple[str, ...] = ()) -> Put:
    return Put(address, Uid(uid), {}, refs, owner)


def status(address: str, uid: str = "u", **merge: object) -> SetStatus:
    return SetStatus(address, Uid(uid), dict(merge))


def test_a_new_state_wakes_itself_its_owner_and_its_referrers() -> None:
    world = World(put("task/."), put("task/a", owner="task/."), put("task/b", refs=("task/a",)))

    assert world.woken(status("task/a", state="done")) == ["task/a", "task/.", "task/b"]


def test_a_status_that_leaves_the_signal_alone_does_not_wake_referrers() -> None:
    world = World(put("task/."), put("task/a", owner="task/."), put("task/b", refs=("task/a",)))

    assert world.woken(status("task/a", progress=3)) == ["task/a", "task/."]
    assert world.woken(status("task/a", signal=3)) == ["task/a", "task/.", "task/b"]


def test_deleted_object_wakes_its_last_owner_and_its_referrers() -> None:
    world = World(put("task/."), put("task/a", owner="task/."), put("task/b", refs=("task/a",)))

    assert world.woken(Drop("task/a", Uid("u"))) == ["task/a", "task/.", "task/b"]


def test_an_object_that_changes_hands_wakes_both_owners() -> None:
    world = World(put("task/old"), put("task/new"), put("task/a", owner="task/old"))

    assert set(world.woken(put("task/a", owner="task/new"))) == {"task/a", "task/old", "task/new"}


def test_an_object_put_again_under_another_uid_is_another_object() -> None:
    world = World(put("task/a"), put("task/b", refs=("task/a",)))

    assert "task/b" in world.woken(put("task/a", uid="second"))
