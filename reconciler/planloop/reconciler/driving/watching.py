"""Which addresses a change concerns: the level-triggered side of waking.

A changed object wakes itself, its owner, and, when its `signal` changed, those that name it in their `refs`; an owner
that does so has said that the signal is what it looks at. The
answer depends on state before and after only, never on what kind of record it was; so a wake-up that is lost is found
again by reconciling everything, as every start does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planloop.reconciler.storing.store import View
from planloop.schemas.encoding import Json
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource


@frozen
class _Seen:
    signal: tuple[Json, ...]
    owner: str | None


class Watcher:
    """Remembers the signal of every object, to tell whether it changed."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._seen = {resource.address: _Seen(resource.signal, resource.owner) for resource in resources}

    def concerned(self, view: View, changed: Sequence[str]) -> list[str]:
        """The addresses to reconcile after `changed` moved, each once, the changed ones first."""
        woken = dict.fromkeys(changed)
        for address in changed:
            old = self._seen.get(address)
            resource = view.get(address)
            new = None if resource is None else _Seen(resource.signal, resource.owner)
            if old is not None and new is not None and old == new:
                if new.owner is not None and new.owner not in view.referrers(address):
                    woken[new.owner] = None
                continue
            woken.update(
                dict.fromkeys(each.owner for each in (old, new) if each is not None and each.owner is not None)
            )
            if new is None:
                self._seen.pop(address, None)
            else:
                self._seen[address] = new
            if (old.signal if old else None) != (new.signal if new else None):
                woken.update(dict.fromkeys(view.referrers(address)))
        return list(woken)
