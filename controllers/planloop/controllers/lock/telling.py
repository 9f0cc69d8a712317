"""What those who waited are told: the grant, or that they have to give way because they wait for each other."""

from __future__ import annotations

from collections.abc import Iterator

from planloop.controllers.leases.writing import Rows
from planloop.controllers.lock.observing import Wish
from planloop.controllers.lock.waiting import Waits, yielding
from planloop.schemas.encoding import JsonObject
from planloop.schemas.lock import DEADLOCK
from planloop.schemas.record import Also, Change, SetStatus


def answers(granted: tuple[Wish, ...], rows: Rows, now: float, says: list[Also]) -> Iterator[Change]:
    """The grants, in `rows`, and what wakes those who get them: `granted` in a call, `locks` in a task."""
    for wish in granted:
        fences: JsonObject = {}
        for name, mode in wish.wants.items():
            holder = rows.grant(name, wish.owner, mode, wish.kept, (now, wish.reason))
            rows.leave(name, wish.address)
            fences[name] = holder.fence
        waited_s = round(max(0.0, now - wish.since), 3)
        data: JsonObject = {"owner": wish.owner.address, "fences": fences, "kept": wish.kept, "waited_s": waited_s}
        says.append(Also("lock.granted", f"lock/{min(wish.wants)}", data))
        merge: JsonObject = {"granted": fences} if wish.is_call else {"locks": fences, "ring": None}
        yield SetStatus(wish.address, wish.waiting.uid, merge)


def knotted(waits: Waits, wishes: tuple[Wish, ...]) -> list[tuple[Wish, ...]]:
    """All rings, each without the one who gives way in those before it."""
    found: list[tuple[Wish, ...]] = []
    while ring := waits.ring(wishes):
        found.append(ring)
        out = yielding(ring)
        waits.served(out)
        wishes = tuple(one for one in wishes if one is not out)
    return found


def refusals(
    waiting: tuple[Wish, ...], rings: list[tuple[Wish, ...]], rows: Rows, says: list[Also]
) -> Iterator[Change]:
    """Who gives way is refused at once if it is a call; a task goes on waiting and says that it is stuck, and why."""
    stuck: dict[str, JsonObject] = {}
    for ring in rings:
        out = yielding(ring)
        cycle = [one.owner.address for one in (*ring[ring.index(out) :], *ring[: ring.index(out)])]
        said: JsonObject = {"reason": DEADLOCK, "cycle": cycle, "locks": sorted(out.wants)}
        data: JsonObject = {**said, "owner": out.owner.address, "why": DEADLOCK}
        if out.is_call:
            for name in out.wants:
                rows.leave(name, out.address)
            says.append(Also("lock.deadlock", f"lock/{min(out.wants)}", data))
            yield SetStatus(out.address, out.waiting.uid, {"refused": said})
        else:
            stuck[out.address] = said
    for wish in waiting:
        old, new = wish.waiting.status.get("ring"), stuck.get(wish.address)
        if not wish.is_call and old != new:
            yield SetStatus(wish.address, wish.waiting.uid, {"ring": new})
