"""Locks in words: who holds one in which mode, since when and why, and who waits."""

from __future__ import annotations

from planloop.schemas import amounts, limits
from planloop.schemas.lock import Holder, LockStatus, Loss, status_from_json
from planloop.schemas.resource import Resource

_UNTIL = {"turn": "to the end of its turn", "asked": "until it lets go"}


def row(item: Resource, now: float) -> tuple[str, ...]:
    """Path, holder, mode, since when, how many wait, and why, for a table."""
    status = status_from_json(item.status)
    path = item.address.partition("/")[2]
    waits = str(len(status.waiters)) if status.waiters else ""
    if not status.holders:
        return (path, "", "", "", waits, "")
    first = _first(status)
    more = f" and {len(status.holders) - 1} more" if len(status.holders) > 1 else ""
    return (path, first.owner + more, first.mode, amounts.duration(now - first.since), waits, first.reason)


def facts(item: Resource, now: float) -> list[tuple[str, str]]:
    """Labelled lines of a description: holders, waiters in the order in which they came, and what ends it."""
    status = status_from_json(item.status)
    out = [("about", status.place)] if status.place else []
    holders = sorted(status.holders.values(), key=lambda one: one.since)
    out += [("held by", f"{one.owner} {_grant(one, now)}, fence {one.fence}") for one in holders]
    for one in sorted(status.waiters.values(), key=lambda one: one.since)[: limits.LOCK_WAITERS_SHOWN]:
        out.append(("waits", _said(f"{one.owner} ({one.mode}) for {amounts.duration(now - one.since)}", one.reason)))
    if len(status.waiters) > limits.LOCK_WAITERS_SHOWN:
        out.append(
            ("waits", f"{len(status.waiters) - limits.LOCK_WAITERS_SHOWN} more: plan get {item.address} -o yaml")
        )
    for owner, loss in status.lost.items():
        told = ", and will be told" if owner.startswith("agent/") else ""  # A command reads no messages.
        out.append(("lost", _said(f"{owner}, {_how(loss)}{told}", loss.reason)))
    if holders:
        owners = ", ".join(one.owner for one in holders[: limits.LOCK_NAMES_SHOWN])
        out.append(("unblocks", f"{owners} lets go · or: plan unlock {item.address}"))
    return out


def of_other(lock: Resource, item: Resource, now: float) -> list[tuple[str, str]]:
    """What the lock is to another object: it holds or has lost it, or waits for it and who has it now."""
    status = status_from_json(lock.status)
    grant = status.holders.get(item.address)
    out = [("holds", f"{lock.address} {_grant(grant, now)}")] if grant is not None else []
    if loss := status.lost.get(item.address):
        is_command = item.kind == "task" and item.spec["work"]["kind"] == "run"
        goes_on = "; its command goes on, and may still write there" if is_command else ""
        ago = amounts.duration(now - loss.at)
        out.append(("lost", _said(f"{lock.address}, {_how(loss)} {ago} ago", loss.reason) + goes_on))
    wishes = [one for waiting, one in status.waiters.items() if item.address in (waiting, one.owner)]
    for one in wishes[:1]:
        if status.holders:
            first = _first(status)
            has = f"held by {first.owner} {_grant(first, now)}"
        else:
            has = "others that overlap with it are held, or were wanted before: plan get locks"
        out.append(("waits", f"{lock.address} ({one.mode}) for {amounts.duration(now - one.since)}; {has}"))
    return out


def _how(loss: Loss) -> str:
    return f"broken by {loss.by}" if loss.how == "broken" else loss.how


def _first(status: LockStatus) -> Holder:
    return min(status.holders.values(), key=lambda one: (one.since, one.owner))


def _grant(grant: Holder, now: float) -> str:
    """`(write), for 38 s, to the end of its turn, "update examples"`."""
    until = _UNTIL.get(grant.kept, "to the end of its task")
    return _said(f"({grant.mode}), for {amounts.duration(now - grant.since)}, {until}", grant.reason)


def _said(words: str, reason: str) -> str:
    return f'{words}, "{reason}"' if reason else words
