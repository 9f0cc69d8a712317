"""Reasons that name who holds a lock, said as it is now.

Who waits is woken by its own grant and by nothing else, so its reason may name a holder of some time ago: in a long
queue that would be a write for each waiter at each grant. The locks know better, and are asked where people look.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from planloop.schemas.encoding import JsonObject
from planloop.schemas.lock import LockStatus, status_from_json
from planloop.schemas.resource import Resource

_HELD: Final = re.compile(
    r'lock (?P<path>\S.*?) is held by (?P<owner>\S+) \(\w+\) since [\d:]+ UTC(?:, ".*?"(?=$|; | · | and \d))?'
)


def has_reasons(items: Iterable[Resource]) -> bool:
    """Whether any of them says who holds a lock."""
    return any(_HELD.search(text) for one in items for text in _texts(one))


def reasons(items: Sequence[Resource], locks: Iterable[Resource]) -> list[Resource]:
    """`items` with the holders that `locks` have."""
    known = {one.address.partition("/")[2]: status_from_json(one.status) for one in locks}
    return [_said(one, known) if any(map(_HELD.search, _texts(one))) else one for one in items]


def _texts(item: Resource) -> Iterable[str]:
    yield str(item.status.get("why") or "")
    yield from (str(one.get("message") or "") for one in _conditions(item).values())


def _conditions(item: Resource) -> Mapping[str, JsonObject]:
    return item.status.get("conditions") or {}


def _said(item: Resource, locks: Mapping[str, LockStatus]) -> Resource:
    def now(text: object) -> str:
        return _HELD.sub(lambda found: _held(found, locks), str(text or ""))

    status = dict(item.status)
    if status.get("why"):
        status["why"] = now(status["why"])
    if "conditions" in status:
        status["conditions"] = {
            name: one | {"message": now(one.get("message"))} for name, one in _conditions(item).items()
        }
    return replace(item, status=status)


def _held(found: re.Match[str], locks: Mapping[str, LockStatus]) -> str:
    path = found["path"]
    holders = locks[path].holders if path in locks else {}
    if found["owner"] in holders:
        return found[0]
    if not holders:
        return f"lock {path} is not held any more, and not granted yet"
    first = min(holders.values(), key=lambda one: (one.since, one.owner))
    since = datetime.fromtimestamp(first.since, UTC).strftime("%H:%M:%S UTC")
    why = f', "{first.reason}"' if first.reason else ""
    return f"lock {path} is held by {first.owner} ({first.mode}) since {since}{why}"
