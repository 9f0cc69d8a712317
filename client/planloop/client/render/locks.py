"""Locks and lock waits in words, with the current holders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from planloop.schemas import limits, quantities
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.objects.lock import LockGrant, LockStatus, LostGrant, lock_status_from_json
from planloop.schemas.resource import Resource

# Locks in words: who holds one in which mode, since when and why, and who waits.

_UNTIL = {"turn": "until its turn ends", "asked": "until it releases the lock"}


def lock_row(item: Resource, now: float) -> tuple[str, ...]:
    """Path, holder, mode, since when, how many wait, and why, for a table."""
    status = lock_status_from_json(item.status)
    path = item.address.partition("/")[2]
    waits = str(len(status.waiters)) if status.waiters else ""
    if not status.holders:
        return (path, "", "", "", waits, "")
    first = _first_holder(status)
    more = f" and {len(status.holders) - 1} more" if len(status.holders) > 1 else ""
    return (path, first.owner + more, first.mode, quantities.format_duration(now - first.since), waits, first.reason)


def lock_facts(item: Resource, now: float) -> list[tuple[str, str]]:
    """Labelled lines of a description: holders, waiters in the order in which they came, and what ends it."""
    status = lock_status_from_json(item.status)
    out = [("about", status.place)] if status.place else []
    holders = sorted(status.holders.values(), key=lambda one: one.since)
    out += [("held by", f"{one.owner} {_grant(one, now)}, fence {one.fence}") for one in holders]
    for one in sorted(status.waiters.values(), key=lambda one: one.since)[: limits.LOCK_WAITERS_SHOWN]:
        out.append(
            (
                "waits",
                _lock_words(f"{one.owner} ({one.mode}) for {quantities.format_duration(now - one.since)}", one.reason),
            )
        )
    if len(status.waiters) > limits.LOCK_WAITERS_SHOWN:
        out.append(
            ("waits", f"{len(status.waiters) - limits.LOCK_WAITERS_SHOWN} more: plan get {item.address} -o yaml")
        )
    for owner, loss in status.lost.items():
        told = ", and gets a message" if owner.startswith("agent/") else ""  # A command reads no messages.
        out.append(("lost", _lock_words(f"{owner}, {_lock_mode(loss)}{told}", loss.reason)))
    if holders:
        owners = ", ".join(one.owner for one in holders[: limits.LOCK_NAMES_SHOWN])
        out.append(("unblocks", f"{owners} releases it · or: plan unlock {item.address}"))
    return out


def lock_relation(lock: Resource, item: Resource, now: float) -> list[tuple[str, str]]:
    """What the lock is to another object: it holds or has lost it, or waits for it and who has it now."""
    status = lock_status_from_json(lock.status)
    grant = status.holders.get(item.address)
    out = [("holds", f"{lock.address} {_grant(grant, now)}")] if grant is not None else []
    if loss := status.lost.get(item.address):
        is_command = item.kind == "task" and item.spec["work"]["kind"] == "run"
        goes_on = "; its command continues and may still write there" if is_command else ""
        ago = quantities.format_duration(now - loss.at)
        out.append(("lost", _lock_words(f"{lock.address}, {_lock_mode(loss)} {ago} ago", loss.reason) + goes_on))
    wishes = [one for waiting, one in status.waiters.items() if item.address in (waiting, one.owner)]
    for one in wishes[:1]:
        if status.holders:
            first = _first_holder(status)
            has = f"held by {first.owner} {_grant(first, now)}"
        else:
            has = "an overlapping lock is held or was requested first: plan get locks"
        out.append(("waits", f"{lock.address} ({one.mode}) for {quantities.format_duration(now - one.since)}; {has}"))
    return out


def _lock_mode(loss: LostGrant) -> str:
    return f"broken by {loss.by}" if loss.how == "broken" else "expired"


def _first_holder(status: LockStatus) -> LockGrant:
    return min(status.holders.values(), key=lambda one: (one.since, one.owner))


def _grant(grant: LockGrant, now: float) -> str:
    """`(write), for 38 s, until its turn ends, "update examples"`."""
    until = _UNTIL.get(grant.kept, "until its task ends")
    return _lock_words(f"({grant.mode}), for {quantities.format_duration(now - grant.since)}, {until}", grant.reason)


def _lock_words(words: str, reason: str) -> str:
    return f'{words}, "{reason}"' if reason else words


# Reasons that name who holds a lock, said as it is now.
#
# Who waits is woken by its own grant and by nothing else, so its reason may name a holder of some time ago: in a long
# queue that would be a write for each waiter at each grant. The locks know better, and are asked where people look.

_HELD: Final = re.compile(
    r'lock (?P<path>\S.*?) is held by (?P<owner>\S+) \(\w+\) since [\d:]+ UTC(?:, ".*?"(?=$|; | · | and \d))?'
)


def names_lock_holders(items: Iterable[Resource]) -> bool:
    """Whether any of them says who holds a lock."""
    return any(_HELD.search(text) for one in items for text in _texts(one))


def with_current_holders(items: Sequence[Resource], locks: Iterable[Resource]) -> list[Resource]:
    """`items` with the holders that `locks` have."""
    known = {one.address.partition("/")[2]: lock_status_from_json(one.status) for one in locks}
    return [_holder_words(one, known) if any(map(_HELD.search, _texts(one))) else one for one in items]


def _texts(item: Resource) -> Iterable[str]:
    yield str(item.status.get("why") or "")
    yield from (str(one.get("message") or "") for one in _conditions(item).values())


def _conditions(item: Resource) -> Mapping[str, JsonObject]:
    return item.status.get("conditions") or {}


def _holder_words(item: Resource, locks: Mapping[str, LockStatus]) -> Resource:
    def now(text: object) -> str:
        return _HELD.sub(lambda found: _holders(found, locks), str(text or ""))

    status = dict(item.status)
    if status.get("why"):
        status["why"] = now(status["why"])
    if "conditions" in status:
        status["conditions"] = {
            name: one | {"message": now(one.get("message"))} for name, one in _conditions(item).items()
        }
    return replace(item, status=status)


def _holders(found: re.Match[str], locks: Mapping[str, LockStatus]) -> str:
    path = found["path"]
    holders = locks[path].holders if path in locks else {}
    if found["owner"] in holders:
        return found[0]
    if not holders:
        return f"lock {path} is free, and not granted yet"
    first = min(holders.values(), key=lambda one: (one.since, one.owner))
    since = datetime.fromtimestamp(first.since, UTC).strftime("%H:%M:%S UTC")
    why = f', "{first.reason}"' if first.reason else ""
    return f"lock {path} is held by {first.owner} ({first.mode}) since {since}{why}"
