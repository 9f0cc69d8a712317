"""Locks in tables and descriptions."""

from __future__ import annotations

from planloop.client.render import locks, object_tables
from planloop.schemas.objects.lock import LockGrant, LockRequest, LostGrant
from tests import golden_text
from tests.product import Resource, Uid

NOW = 1_000.0


def lock(
    *holders: LockGrant, waiters: dict[str, LockRequest] | None = None, lost: dict[str, LostGrant] | None = None
) -> Resource:
    status = {
        "state": "held" if holders else "free",
        "holders": {one.owner: one.to_json() for one in holders},
        "waiters": {name: one.to_json() for name, one in (waiters or {}).items()},
        "lost": {name: one.to_json() for name, one in (lost or {}).items()},
    }
    return Resource("lock/src/app.py", Uid("u"), 1, {"path": "src/app.py"}, status)


DOCS = LockGrant("agent/docs", "d", 1, "write", 962.0, 7, "turn", "renames")
READER = LockGrant("agent/b", "b", 1, "read", 990.0, 9, "asked")
WISH = LockRequest("agent/c", "write", 995.0, "a new field")


def test_row_names_the_holder_its_mode_since_when_and_each_waiter_with_a_reason() -> None:
    found = lock(DOCS, waiters={"call/1": WISH})
    assert locks.lock_row(found, NOW) == ("src/app.py", "agent/docs", "write", "38 s", "1", "renames")
    both = lock(READER, LockGrant("agent/a", "a", 1, "read", 980.0, 8, "task"))
    assert locks.lock_row(both, NOW) == ("src/app.py", "agent/a and 1 more", "read", "20 s", "", "")
    assert locks.lock_row(lock(), NOW) == ("src/app.py", "", "", "", "", "")
    assert "HELD BY" in object_tables.object_tables_text([found], now=NOW)


def test_a_description_has_all_holders_the_first_waiters_and_the_way_out() -> None:
    waiters = {f"call/{n}": LockRequest(f"agent/w{n}", "read", 900.0 + n) for n in range(20)}
    said = locks.lock_facts(lock(DOCS, waiters=waiters), NOW)
    assert said[0] == ("held by", 'agent/docs (write), for 38 s, until its turn ends, "renames", fence 7')
    assert said[1] == ("waits", "agent/w0 (read) for 1m40s")
    assert ("waits", "8 more: plan get lock/src/app.py -o yaml") in said
    assert said[-1] == ("unblocks", "agent/docs releases it · or: plan unlock lock/src/app.py")


def test_unreported_loss_of_a_lock_is_shown() -> None:
    said = locks.lock_facts(lock(lost={"agent/docs": LostGrant("d", 1, 7, "broken", 990.0, "human:cli", "mine")}), NOW)
    assert said == [("lost", 'agent/docs, broken by human:cli, and gets a message, "mine"')]
    expired = LostGrant("d", 1, 7, "lapsed", 990.0, "controller:lock")
    assert locks.lock_facts(lock(lost={"agent/docs": expired}), NOW) == [
        ("lost", "agent/docs, expired, and gets a message")
    ]


def test_holder_and_waiter_see_the_lock_in_their_description() -> None:
    found = lock(DOCS, waiters={"call/1": WISH})
    holder = Resource("agent/docs", Uid("d"), 1, {}, {})
    waiter = Resource("agent/c", Uid("c"), 1, {}, {})
    assert locks.lock_relation(found, holder, NOW) == [
        ("holds", 'lock/src/app.py (write), for 38 s, until its turn ends, "renames"')
    ]
    ((label, words),) = locks.lock_relation(found, waiter, NOW)
    assert label == "waits"
    golden_text.said(words.split(";")[0], "lock/src/app.py")
    golden_text.said(words, "agent/docs")


def test_waiting_text_names_the_current_lock_holder() -> None:
    old = 'agent/c: lock src/app.py is held by agent/a (write) since 10:00:00 UTC, "a; first" · conflict/1 is about it'
    stale = Resource("task/c", Uid("c"), 1, {}, {"why": old, "conditions": {"Ready": {"message": old}}})
    other = Resource("task/d", Uid("d"), 1, {}, {"why": "its agent is working"})
    assert locks.names_lock_holders([other, stale]) and not locks.names_lock_holders([other])

    found, untouched = locks.with_current_holders([stale, other], [lock(DOCS)])
    has_it = 'lock src/app.py is held by agent/docs (write) since 00:16:02 UTC, "renames"'
    new = f"agent/c: {has_it} · conflict/1 is about it"
    assert found.status == {"why": new, "conditions": {"Ready": {"message": new}}}
    assert untouched is other

    holder = LockGrant("agent/a", "a", 1, "write", 1.0, 8, "task", "a; first")
    assert locks.with_current_holders([stale], [lock(holder)])[0].status["why"] == old
    for locks_now in ([lock()], []):
        (found,) = locks.with_current_holders([stale], locks_now)
        golden_text.said(found.status["why"])
