"""Who gets which lock: by rules, one at a time, and in any order of taking, waiting, ending, breaking and time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from planloop.controllers.lock.decide import decide_lock
from planloop.controllers.shared.leases import grants
from planloop.controllers.shared.leases.grants import LocksGranted, Wants
from planloop.schemas import limits
from planloop.schemas.objects.lock import LOCK_MODES, LockKept, LockMode, lock_status_from_json
from tests import sets
from tests.controllers.lock.table import Table
from tests.golden_text import said
from tests.product import Drop, Mark, Put, SetStatus, Uid

AGENTS = ("a", "a/x", "a/y", "b", "b/z", "c")
PATHS = ("f", "g", "src", "src/a", "src/b", "src/**", "src/*", "**", "docs/*.md", "docs/a.md")


def test_free_lock_is_granted_in_the_callers_record_and_dropped_on_release() -> None:
    table = Table("ab")
    found = table.want("a", {"f": "write", "g": "read"})
    assert isinstance(found, LocksGranted)
    assert found.fences == {"f": table.view.rev, "g": table.view.rev}
    assert not grants.fence_failure(table.view, table.owner("a"), "f")
    table.release("a")
    assert table.view.list("lock") == []
    said(grants.fence_failure(table.view, table.owner("a"), "f"))


def test_lock_that_is_held_already_costs_no_record() -> None:
    table = Table("ab")
    table.want("a", {"src/**": "write"}, "task")
    found = table.want("a", {"src/a": "write"})
    assert isinstance(found, LocksGranted) and found.changes == () and found.fences["src/a"] > 0


def test_a_lock_taken_for_longer_is_kept_at_the_end_of_the_turn() -> None:
    table = Table("ab")
    table.want("a", {"f": "read"})
    table.want("a", {"f": "write"}, "task")
    table.release("a", ("turn",))
    assert [(mine.mode, mine.kept) for mine in table.holders().values()] == [("write", "task")]


def test_all_or_none() -> None:
    table = Table("abc")
    table.want("a", {"g": "write"})
    call = table.want("b", {"f": "write", "g": "write"})
    table.settle()
    assert [key for key in table.holders() if key[1] == "agent/b"] == []
    table.release("a")
    table.settle()
    assert table.answers[str(call)] == ("granted", "['f', 'g']")


def test_readers_share_and_do_not_starve_a_writer() -> None:
    table = Table("abc")
    assert isinstance(table.want("a", {"f": "read"}), LocksGranted)
    table.now += 1
    writer = table.want("b", {"f": "write"})
    table.now += 1
    assert table.blockers("c", {"f": "read"}) == ["waits f agent/b"]
    reader = table.want("c", {"f": "read"})
    table.release("a")
    table.settle()
    assert (str(writer) in table.answers, str(reader) in table.answers) == (True, False)


def test_request_does_not_wait_behind_a_waiter_for_its_own_agent() -> None:
    table = Table("abc")
    table.want("a", {"f": "write"})
    table.now += 1
    table.want("b", {"f": "write", "g": "write"})
    assert isinstance(table.want("a", {"g": "write"}), LocksGranted)


def test_request_does_not_wait_behind_an_indirect_waiter_for_its_own_agent() -> None:
    table = Table("abcd")
    table.want("a", {"f": "write"})
    table.want("d", {"src": "write"})
    for agent, wants in (("b", ("f", "g")), ("c", ("g", "docs", "src"))):
        table.now += 1
        table.want(agent, dict.fromkeys(wants, "write"))
    table.release("d")  # What c waits for now is its turn after b, which waits for a.
    table.settle()
    table.now += 1
    call = table.want("a", {"docs": "write"})
    table.settle()
    assert table.answers[str(call)] == ("granted", "['docs']")


def test_locks_are_granted_in_order_with_priority_worth_a_number_of_seconds() -> None:
    table = Table("abcd", {"c": 2, "d": 2})
    table.want("a", {"f": "write"})
    table.now += 1
    first = table.want("b", {"f": "write"})
    table.now += 2 * limits.LOCK_AGEING_S - 1
    urgent = table.want("c", {"f": "write"})
    table.now += 2
    late = table.want("d", {"f": "write"})
    for expected in (urgent, first, late):
        for holder in "abcd":
            table.release(holder)
        table.settle()
        assert list(table.answers)[-1] == expected


def test_an_owner_with_several_requests_has_the_place_in_line_of_its_first() -> None:
    table = Table("abc")
    table.want("c", {"f": "write"})
    requests: tuple[tuple[str, LockMode], ...] = (("a", "write"), ("b", "write"), ("a", "read"))
    for waiter, mode in requests:
        table.now += 1
        table.want(waiter, {"f": mode})
    table.release("c")
    assert table.blockers("a", {"f": "write"}) == []
    assert table.blockers("b", {"f": "write"}) == ["waits f agent/a"]


def test_task_that_names_another_lock_keeps_its_place_in_line() -> None:
    table = Table("abc")
    table.want("c", {"f": "write"})
    wait(table, "a", {"f": "write"})
    table.now += 1
    call = table.want("b", {"f": "write"})
    table.now += 1
    wait(table, "a", {"f": "write", "g": "write"})
    table.release("c")
    table.settle()
    assert set(table.get("task/a").status["locks"]) == {"f", "g"}
    assert table.waiting() == [call]


def wait(table: Table, path: str, locks: Wants) -> None:
    """Write what the task controller writes while a task names `locks` and holds none of them."""
    task = table.get(f"task/{path}")
    ready = {"stage": "", "state": "blocked", "conditions": {"Ready": {"reason": "AwaitingLocks"}}}
    table.fold(
        Put(task.address, task.uid, {**task.spec, "locks": dict(locks)}),
        SetStatus(task.address, task.uid, ready),
        *grants.queue_changes(table.view, task.address, grants.lock_owner(task), locks, "because", table.now),
    )


def test_a_call_that_reads_and_writes_one_place_waits_for_its_readers() -> None:
    table = Table("ab")
    table.want("b", {"src": "read"})
    assert table.blockers("a", {"src/**": "read", "src/a": "write"}) == ["holds src agent/b"]
    assert table.blockers("a", {"src/**": "read"}) == []


def test_an_ancestors_lock_is_delegated_down_and_those_below_exclude_each_other() -> None:
    table = Table(AGENTS)
    table.want("a", {"src/**": "write"}, "task")
    assert isinstance(table.want("a/x", {"src/a": "write"}), LocksGranted)
    assert table.blockers("a/y", {"src/a": "read"}) == ["holds src/a agent/a/x"]
    assert table.blockers("a", {"src/a": "write"}) == ["holds src/a agent/a/x"]
    said(grants.fence_failure(table.view, table.owner("a"), "src/a"), "agent/a/x")
    assert not grants.fence_failure(table.view, table.owner("a"), "src/b")
    said(grants.fence_failure(table.view, table.owner("a/x"), "src/b"))
    assert table.blockers("b", {"src/b": "read"}) == ["holds src/** agent/a"]


def test_broken_lock_is_reported_at_the_next_write_and_may_be_requested_again() -> None:
    table = Table("ab")
    table.want("a", {"f": "write"})
    call = table.want("b", {"f": "write"})
    made = grants.break_lock(table.view, "f", "human:cli", "mine now", table.now)
    assert made.owners == ("agent/a",)
    table.fold(*made.changes)
    table.settle()
    assert table.answers[str(call)][0] == "granted"
    told = grants.fence_failure(table.view, table.owner("a"), "f")
    said(told, "agent/b")
    table.release("b")
    table.settle()
    assert isinstance(table.want("a", {"f": "write"}), LocksGranted)
    assert not grants.fence_failure(table.view, table.owner("a"), "f")
    table.release("a")
    assert table.view.list("lock") == []


def test_lease_expires_when_its_owner_only_gets_messages_and_turns_renew_it() -> None:
    table = Table("abc")
    table.want("a", {"f": "write"}, "asked")
    table.want("b", {"g": "write"}, "asked")
    calls = [table.want("c", {"f": "write"}), table.want("c", {"g": "write"})]
    table.settle()
    table.now += limits.LOCK_TTL_S / 2
    agent, other = table.get("agent/b"), table.get("agent/a")
    table.fold(SetStatus(agent.address, agent.uid, {"ended_at": table.now}))
    table.fold(SetStatus(other.address, other.uid, {"inbox": {"m": {"body": "let go"}}}))
    table.now += limits.LOCK_TTL_S / 2
    again = [table.step(f"lock/{path}").again_s for path in "fg"]
    table.settle()
    assert again == [None, limits.LOCK_TTL_S]
    assert (str(calls[0]) in table.answers, str(calls[1]) in table.answers) == (True, False)
    assert ("lock.fenced", "lock/f", "agent/a") in table.said and ("lock.renewed", "lock/g", "agent/b") in table.said
    said(grants.fence_failure(table.view, table.owner("a"), "f"))


def test_uncontested_lock_is_kept() -> None:
    table = Table("ab")
    table.want("a", {"f": "write"}, "asked")
    table.now += 100 * limits.LOCK_TTL_S
    assert table.step("lock/f").again_s is None
    table.settle()
    assert not grants.fence_failure(table.view, table.owner("a"), "f")


@pytest.mark.parametrize("how", ["restarted", "ended", "gone"])
def test_lock_its_owner_can_no_longer_use_goes_to_the_next_immediately(how: str) -> None:
    table = Table("ab")
    table.want("a", {"f": "write"}, "task")
    call = table.want("b", {"f": "write"})
    table.settle()
    agent = table.get("agent/a")
    match how:
        case "restarted":
            table.restart("a")
        case "ended":
            table.fold(SetStatus(agent.address, agent.uid, {"state": "ended"}))
        case _:
            table.fold(Drop(agent.address, agent.uid))
    table.settle()
    assert table.answers[str(call)][0] == "granted"
    assert [key[1] for key in table.holders()] == ["agent/b"]


def test_all_abandoned_locks_go_in_one_pass_to_the_waiter_for_all_of_them() -> None:
    table = Table("ab")
    paths = ("f", "g", "docs/a.md")
    table.want("a", dict.fromkeys(paths, "write"), "task")
    table.want("b", dict.fromkeys(paths, "write"))
    table.settle()
    table.restart("a")
    released, granted = decide_lock(table.view, "lock/f", table.now).says
    assert (released.type, released.data["paths"]) == ("lock.released", sorted(paths))
    assert (granted.type, sorted(granted.data["fences"])) == ("lock.granted", sorted(paths))


def test_deadlock_is_broken_immediately_and_the_lower_priority_gives_way() -> None:
    table = Table("ab", {"a": 1})
    table.want("a", {"f": "write"})
    table.want("b", {"g": "write"})
    table.settle()
    one = table.want("a", {"g": "write"})
    other = table.want("b", {"f": "write"})
    table.settle()
    assert table.answers == {other: ("refused", "Deadlock")}
    table.release("b")
    table.settle()
    assert table.answers[str(one)][0] == "granted"


def test_a_deadlock_of_a_task_and_a_call_refuses_the_call_at_any_priority() -> None:
    table = Table("ab", {"b": 1})
    table.want("a", {"f": "write"}, "task")
    table.want("b", {"g": "write"})
    wait(table, "a", {"g": "write"})
    call = table.want("b", {"f": "write"})
    table.settle()
    assert table.answers == {call: ("refused", "Deadlock")}


def test_deadlock_of_two_readers_that_both_want_to_write_is_broken() -> None:
    table = Table("ab")
    table.want("a", {"f": "read"})
    table.want("b", {"f": "read"})
    table.now += 1
    table.want("a", {"f": "write"})
    table.now += 1
    younger = table.want("b", {"f": "write"})
    table.settle()
    assert table.answers == {younger: ("refused", "Deadlock")}


def test_a_ring_through_a_parent_that_waits_for_its_child_is_found() -> None:
    table = Table(AGENTS)
    table.want("a", {"f": "write"})
    table.want("b", {"g": "write"})
    waits = {"state": "AwaitingChild", "ends": ["task/a/x"]}
    spec = {"owner": "agent/a", "owner_uid": "a-a", "incarnation": 1, "tool": "task"}
    table.fold(Put("call/task", Uid("call/task"), spec, owner="agent/a", status=waits))
    table.want("b", {"f": "write"})
    table.now += 1
    stranger = table.want("a/y", {"g": "read"})  # No agent waits for this child.
    table.settle()
    assert table.answers == {}
    table.now += 1
    child = table.want("a/x", {"g": "write"})
    table.settle()
    assert table.answers == {child: ("refused", "Deadlock")}
    assert str(stranger) in table.waiting()


@pytest.mark.parametrize("kept", ["asked", "task"])
def test_a_ring_through_one_that_goes_first_by_a_ruling_is_found(kept: LockKept) -> None:
    table = Table("ab")
    table.want("a", {"g": "write"}, kept)
    waits = {"state": "AwaitingChild", "after": "task/b", "ends": ["task/b"]}
    spec = {"owner": "agent/a", "owner_uid": "a-a", "incarnation": 1, "tool": "write"}
    table.fold(Put("call/write", Uid("call/write"), spec, owner="agent/a", status=waits))
    call = table.want("b", {"g": "write"})
    table.settle()
    assert table.answers == {call: ("refused", "Deadlock")}


def test_a_ring_of_three_is_found() -> None:
    table = Table("abc")
    calls = []
    for agent, has in zip("abc", "fgh", strict=True):
        table.want(agent, {has: "write"})
    for agent, wants in zip("abc", "ghf", strict=True):
        table.now += 1
        calls.append(table.want(agent, {wants: "write"}))
    table.settle()
    assert table.answers == {calls[2]: ("refused", "Deadlock")}


class Locking(RuleBasedStateMachine):
    """Anything that may happen to locks."""

    @initialize(priorities=st.lists(st.integers(-2, 2), min_size=len(AGENTS), max_size=len(AGENTS)))
    def begin(self, priorities: list[int]) -> None:
        self.table = Table(AGENTS, dict(zip(AGENTS, priorities, strict=True)))

    @rule(
        agent=st.sampled_from(AGENTS),
        paths=st.lists(st.sampled_from(PATHS), min_size=1, max_size=3, unique=True),
        modes=st.lists(st.sampled_from(("read", "write")), min_size=3, max_size=3),
        kept=st.sampled_from(("turn", "asked", "task")),
    )
    def want(self, agent: str, paths: list[str], modes: list[LockMode], kept: LockKept) -> None:
        wants = dict(zip(paths, modes, strict=False))
        found = self.table.want(agent, wants, kept)
        if isinstance(found, LocksGranted):
            owner = self.table.owner(agent)
            assert not any(grants.fence_failure(self.table.view, owner, path, mode) for path, mode in wants.items())
        self.table.settle()

    @rule(agent=st.sampled_from(AGENTS), is_turn=st.booleans())
    def release(self, agent: str, is_turn: bool) -> None:
        self.table.release(agent, ("turn",) if is_turn else None)
        self.table.settle()

    @rule(agent=st.sampled_from(AGENTS))
    def restart(self, agent: str) -> None:
        self.table.restart(agent)
        self.table.settle()

    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        if waiting := self.table.waiting():
            self.table.leave(data.draw(st.sampled_from(waiting)))
            self.table.settle()

    @rule(path=st.sampled_from(PATHS))
    def break_it(self, path: str) -> None:
        self.table.fold(*grants.break_lock(self.table.view, path, "human:cli", "so", self.table.now).changes)
        self.table.settle()

    @rule(seconds=st.sampled_from((0.5, 20.0, limits.LOCK_TTL_S)))
    def wait(self, seconds: float) -> None:
        self.table.now += seconds
        for lock in self.table.view.list("lock"):
            self.table.step(lock.address)
        self.table.settle()

    @invariant()
    def nobody_shares_what_excludes_sharing(self) -> None:
        if hasattr(self, "table"):
            self.table.check()

    @invariant()
    def who_waits_stands_in_every_queue_and_nobody_else_does(self) -> None:
        if not hasattr(self, "table"):
            return
        entries = {
            (waiting, lock.spec["path"])
            for lock in self.table.view.list("lock")
            for waiting in lock_status_from_json(lock.status).waiters
        }
        calls = (self.table.get(call) for call in self.table.waiting())
        assert entries == {(call.address, path) for call in calls for path in call.status["wants"]}

    def teardown(self) -> None:
        """When everybody lets go of what it has, everybody gets what it waits for, and no lock is left."""
        if not hasattr(self, "table"):
            return
        for _ in range(2 * len(self.table.waiting()) + 2):
            for agent in AGENTS:
                self.table.release(agent)
            self.table.settle()
        assert self.table.waiting() == []
        for agent in AGENTS:
            self.table.release(agent)
        self.table.settle()
        assert self.table.view.list("lock") == []


Locking.TestCase.settings = settings(max_examples=sets.examples(60, 20), stateful_step_count=25)
TestLocking = Locking.TestCase


@given(st.data())
def test_whichever_lock_is_looked_at_first_the_same_are_served(data: st.DataObject) -> None:
    modes: st.SearchStrategy[LockMode] = st.sampled_from(LOCK_MODES)
    wish = st.tuples(st.sampled_from(AGENTS), st.dictionaries(st.sampled_from(PATHS), modes, min_size=1, max_size=3))
    wishes = data.draw(st.lists(wish, min_size=2, max_size=8))
    gone = data.draw(st.lists(st.sampled_from(AGENTS), max_size=3))
    ends = []
    for order in range(3):
        table = Table(AGENTS)
        for agent, wants in wishes:
            table.now += 1
            table.want(agent, wants)
        for agent in gone:
            table.release(agent)
        names = sorted(table.dirty)
        table.dirty = dict.fromkeys((names, names[::-1], names[len(names) // 2 :] + names[: len(names) // 2])[order])
        table.settle()
        ends.append((table.answers, table.waiting(), sorted(table.holders())))
    assert ends[0] == ends[1] == ends[2]


def test_low_priority_waiter_does_not_starve() -> None:
    """One waiter of the lowest priority, and one of the highest that returns each second and holds for one second."""
    urgent = [f"u{number}" for number in range(60)]
    table = Table(["low", "h", *urgent], {"low": -99} | dict.fromkeys(urgent, 99))
    table.want("h", {"f": "write"})
    call = str(table.want("low", {"f": "write"}))
    began = table.now
    while call not in table.answers:
        table.now += 1
        again = urgent[int(table.now) % len(urgent)]
        table.want(again, {"f": "write"})
        for holder in [owner.partition("/")[2] for _, owner in table.holders()]:
            table.release(holder)
        table.settle()
    assert table.now - began <= 2 * limits.LOCK_PRIORITY_MAX * limits.LOCK_AGEING_S + 2


def test_lock_being_deleted_is_recreated_by_its_next_holder() -> None:
    table = Table("ab")
    table.fold(
        Put("lock/f", Uid("planned"), {"path": "f"}, owner="plan/p"), Mark("lock/f", Uid("planned"), deleting=True)
    )
    assert isinstance(table.want("a", {"f": "write"}), LocksGranted)
    table.fold(Drop("lock/f", Uid("planned")))
    table.settle()
    assert not grants.fence_failure(table.view, table.owner("a"), "f")
    assert table.blockers("b", {"f": "read"}) == ["holds f agent/a"]
