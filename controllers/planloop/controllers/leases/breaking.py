"""A person takes a lock from whoever holds it. The holder is told, and what it writes next under it is refused."""

from __future__ import annotations

from planloop.controllers.leases.owners import fallen
from planloop.controllers.leases.writing import Rows
from planloop.reconciler.storing.store import View
from planloop.schemas.frozen import frozen
from planloop.schemas.lock import Loss
from planloop.schemas.record import Change


@frozen
class Broken:
    """`changes` take the lock from all of `owners`; who waits for it is served when they are made."""

    changes: tuple[Change, ...]
    owners: tuple[str, ...]


def broken(view: View, path: str, by: str, reason: str, now: float) -> Broken:
    """Every grant of `lock/<path>` that stands, lost to `by` (`human:cli`). No owners: nobody holds it."""
    rows, owners = Rows(view), []
    lock = view.get(f"lock/{path}")
    for owner, grant in ({} if lock is None else lock.status.get("holders", {})).items():
        if not fallen(view, owner, grant, path):
            loss = Loss(grant["uid"], grant["incarnation"], grant["fence"], "broken", now, by, reason, grant["kept"])
            rows.lose(path, owner, loss)
            owners.append(owner)
    return Broken(rows.changes(), tuple(owners))
