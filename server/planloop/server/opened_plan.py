"""A plan that this process has opened: as its owner, to change it, or read-only, for a preview."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

import anyio

from planloop.client.plan_paths import PlanPaths
from planloop.reconciler.admission.gate import PlanGate
from planloop.reconciler.clock import Clock, Ids, RandomIds, SystemClock
from planloop.reconciler.store import backend, owner_lock
from planloop.reconciler.store.log_reader import LogReader
from planloop.reconciler.store.owner_lock import PlanOwner
from planloop.reconciler.store.store import Store
from planloop.schemas.frozen import frozen
from planloop.schemas.gc_control import gc_paused
from planloop.schemas.resource import Resource
from planloop.server.stream_hub import StreamHub

if TYPE_CHECKING:
    from planloop.compiler.graph import CheckedPlan
    from planloop.reconciler.diff.file_patch import FileSave
    from planloop.reconciler.plan_language_port import PatchingAgent, PlanLanguage
    from planloop.schemas.canonical_json import Json, JsonObject


@frozen
class OpenedPlan:
    """A plan that this process owns. `log` reads flushed records; `had_plan` is false at the first apply.

    `hearing` streams the text of models. A request that sends a message holds `sending` while it looks up whether the
    message was sent before.
    """

    place: PlanPaths
    store: Store
    log: LogReader
    gate: PlanGate
    clock: Clock
    ids: Ids
    owner: PlanOwner
    had_plan: bool
    hearing: StreamHub = field(default_factory=StreamHub)
    sending: anyio.Lock = field(default_factory=anyio.Lock)

    @property
    def plan(self) -> Resource | None:
        """The plan object; None before the first apply."""
        return self.store.view.get(f"plan/{self.place.name}")


def plan_language(place: PlanPaths) -> PlanLanguage:
    """Return the engine's port to the compiler, which reads the files that the plan of `place` refers to."""
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
    """Own and open the plan of `place` while the block runs. Raises NotOwner, StoreFailed, StoreCorrupt."""
    clock, ids = SystemClock(), RandomIds()
    async with backend.own_store(place.folder, clock) as owned:
        store, owner = owned.store, owned.owner
        had_plan = store.view.get(f"plan/{place.name}") is not None
        gate = PlanGate(store, place.name, ids=ids, clock=clock, language=plan_language(place))
        await store.append(owner_lock.epoch_draft(owner, place.name))
        yield OpenedPlan(place, store, owned.reader, gate, clock, ids, owner, had_plan)


def preview_without_owner(place: PlanPaths, save: FileSave) -> Json:
    """Return the answer to POST `diff` without an owner. Writes nothing; `place` may have no state yet."""
    from planloop.server.payloads import file_preview

    with gc_paused():  # The process ends after the answer.
        return file_preview(gate_without_owner(place), save)


def gate_without_owner(place: PlanPaths) -> PlanGate:
    """Return a gate that can only preview changes, on the current log or, before the first apply, on an empty one."""
    return PlanGate(
        backend.ReadOnlyStore(place.folder),
        place.name,
        ids=RandomIds(),
        clock=SystemClock(),
        language=plan_language(place),
    )
