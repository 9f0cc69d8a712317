"""A plan that this process has opened for changes: paths, store, gate, clock, ids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

import anyio

from planloop.client.plan_paths import PlanPaths
from planloop.reconciler.admission.gate import PlanGate
from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.store.owner_lock import PlanOwner
from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource
from planloop.server.stream_hub import StreamHub

if TYPE_CHECKING:
    from planloop.compiler.graph import CheckedPlan
    from planloop.reconciler.plan_language_port import PatchingAgent, PlanLanguage
    from planloop.schemas.canonical_json import JsonObject


@frozen
class OpenedPlan:
    """A plan that this process owns: its log and its gate. `had_plan` says that it is not its first apply.

    `hearing` is where one listens to its models; `sending` is held while a message from outside finds out whether it
    was sent before.
    """

    place: PlanPaths
    store: SqliteStore
    gate: PlanGate
    clock: Clock
    ids: Ids
    owner: PlanOwner
    had_plan: bool
    hearing: StreamHub = field(default_factory=StreamHub)
    sending: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def plan(self) -> Resource | None:
        """The plan object, None before the first apply."""
        return self.store.view.get(f"plan/{self.place.name}")


def plan_language(place: PlanPaths) -> PlanLanguage:
    """The compiler as the engine sees it, reading what the plan of `place` refers to."""
    from planloop.client.plan_sources import FolderSources
    from planloop.compiler import merge
    from planloop.compiler.error_codes import STOPS_APPLY
    from planloop.compiler.plan_compiler import check_document
    from planloop.reconciler.plan_language_port import PlanLanguage
    from planloop.schemas.spec.tables import change_class

    check = partial(check_document, sources=FolderSources(place.root))

    def check_by(document: JsonObject, visit: PatchingAgent) -> CheckedPlan:
        from planloop.server import reference_check

        return reference_check.check_as_author(document, visit, place.root)

    return PlanLanguage(check, merge.merge_documents, change_class, STOPS_APPLY, check_by)


@asynccontextmanager
async def open_plan(place: PlanPaths) -> AsyncIterator[OpenedPlan]:
    """The plan of `place`, owned by this process and open for changes. Raises NotOwner, StoreFailed, StoreCorrupt."""
    from planloop.reconciler.admission.gate import PlanGate
    from planloop.reconciler.clock import RandomIds, SystemClock
    from planloop.reconciler.store import owner_lock
    from planloop.reconciler.store.sqlite import database
    from planloop.reconciler.store.sqlite.sqlite_store import SqliteStore

    clock, ids = SystemClock(), RandomIds()
    with owner_lock.own_plan(place.folder, now=clock.now(), stored_epoch=database.stored_epoch) as owner:
        async with SqliteStore.open(place.folder, clock=clock, epoch=owner.epoch) as store:
            had_plan = store.view.get(f"plan/{place.name}") is not None
            gate = PlanGate(store, place.name, ids=ids, clock=clock, language=plan_language(place))
            await store.append(owner_lock.epoch_draft(owner, place.name))
            yield OpenedPlan(place, store, gate, clock, ids, owner, had_plan)
