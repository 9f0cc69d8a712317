"""What a fork's first record makes of locks and of calls that wait for them."""

from __future__ import annotations

from itertools import count

from planloop.reconciler.admission import plan_fork
from planloop.reconciler.admission.plan_fork import PlanForkOrigin, PlanForkTarget
from planloop.schemas.objects.lock import LockGrant, LockRequest, lock_status_from_json
from tests.product import JsonObject, MemoryView, Record, Resource, Uid

AGENT, CALL = "aaaa00000001", "bbbb00000002"


def forked(*objects: Resource) -> MemoryView:
    """A fork, 1,000 s later, of a plan with `objects`."""
    plan = Resource("plan/p", Uid("cccc00000003"), 1, {}, {"document_rev": 4})
    fresh = PlanForkTarget("q", {}, {"blob": "", "document": ""}, 6_000.0)
    ids = (f"dddd{number:08x}" for number in count(1))
    draft = plan_fork.fork_draft((plan, *objects), PlanForkOrigin("p", "/p", 40, 5_000.0), fresh, lambda: next(ids))
    view = MemoryView()
    view.fold(Record(1, 6_000.0, 1, draft))
    return view


def test_lock_is_held_by_the_copy_of_its_holder_with_an_unchanged_lease() -> None:
    holder = LockGrant("agent/a", AGENT, 1, "write", 4_900.0, 33, "turn", "r", 4_950.0, 35)
    waiter = LockRequest("agent/b", "write", 4_990.0)
    status: JsonObject = {
        "state": "held",
        "holders": {"agent/a": holder.to_json()},
        "waiters": {f"call/{CALL}": waiter.to_json()},
    }
    view = forked(
        Resource("agent/a", Uid(AGENT), 1, {}, {}),
        Resource(
            f"call/{CALL}",
            Uid(CALL),
            1,
            {"op": CALL},
            {"state": "AwaitingLock", "waits_since": 4_990.0, "due_at": 5_100.0},
        ),
        Resource("lock/x", Uid("lock@33:x"), 1, {"path": "x"}, status, ("agent/a",)),
    )
    lock, agent, (call,) = view.get("lock/x"), view.get("agent/a"), view.list("call")
    assert lock is not None and agent is not None
    found = lock_status_from_json(lock.status)
    held = found.holders["agent/a"]
    assert (held.uid, held.since, held.renewed_at) == (agent.uid, 5_900.0, 5_950.0)
    assert (held.fence, held.progress) == (1, 1)
    assert found.waiters[call.address].since == 5_990.0
    assert (call.status["waits_since"], call.status["due_at"]) == (5_990.0, 6_100.0)
