"""Waits for file locks, as the page and other programs read them."""

from __future__ import annotations

from planloop.client.presenters import lock_waits
from tests.controllers.lock.table import Table


def edges(table: Table) -> set[tuple[str, str, str, str]]:
    found = lock_waits.lock_waits_answer(table.view, table.now)["waits"]
    return {(one["from"], one["to"], one["lock"], one["why"]) for one in found}


def test_waiter_points_at_overlapping_holders_and_earlier_waiters() -> None:
    table = Table(["a", "b", "c"])
    table.want("a", {"src/**": "write"}, kept="asked", reason="renames")
    table.want("b", {"src/x": "write"})
    assert edges(table) == {("agent/b", "agent/a", "lock/src/**", "holds")}
    table.release("a")
    table.now += 1
    table.want("c", {"src/x": "write"})
    assert ("agent/c", "agent/b", "lock/src/x", "waits") in edges(table), "b has waited longer and is served first"


def test_cycle_is_reported_with_its_members_in_order() -> None:
    table = Table(["a", "b", "c"])
    for path in "abc":
        table.want(path, {path: "write"}, kept="asked")
    for path, other in ("ab", "bc", "ca"):
        table.want(path, {other: "write"})
    answer = lock_waits.lock_waits_answer(table.view, table.now)
    (ring,) = answer["rings"]
    assert sorted(ring["owners"]) == ["agent/a", "agent/b", "agent/c"]
    start = ring["owners"].index("agent/a")
    assert [*ring["owners"][start:], *ring["owners"][:start]] == ["agent/a", "agent/b", "agent/c"]
    assert "agent/b, which waits for agent/c" in ring["words"] or "agent/b waits for agent/c" in ring["words"]
    assert answer["waits_left"] == 0
    table.settle()
    assert lock_waits.lock_waits_answer(table.view, table.now)["rings"] == [], "the controller has broken it"


def test_lock_lists_its_holders_and_its_queue_in_order_of_arrival() -> None:
    table = Table(["a", "b", "c"])
    table.want("a", {"x": "write"}, reason="first")
    for path in "cb":
        table.now += 1
        table.want(path, {"x": "write"})
    (lock,) = lock_waits.lock_waits_answer(table.view, table.now)["locks"]
    assert [(one["owner"], one["until"], one["reason"]) for one in lock["holders"]] == [
        ("agent/a", "until its turn ends", "first")
    ]
    assert [one["owner"] for one in lock["waiters"]] == ["agent/c", "agent/b"]
