"""Answer requests to a plan that is not running.

A read opens the log read-only, without an event loop. This is safe if an owner starts meanwhile, and works in a folder
without write permission. For a change, this process owns the plan until the change is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import BinaryIO

from planloop.client import tail_file
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_paths import PlanPaths
from planloop.reconciler.store import backend, state_files
from planloop.reconciler.store.backend import ReadOnlyStore
from planloop.reconciler.store.log_reader import LogReader
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.resource import Resource
from planloop.server.read_queries import OwnerInfo, is_log_query, read_answer


class OfflinePlanReader:
    """A `plan_reader.PlanReader` of a plan's log at the time of loading."""

    def __init__(self, place: PlanPaths, log: LogReader) -> None:
        self._place = place
        self._log = log
        loaded = log.load()
        self.epoch = loaded.epoch
        self._view = loaded.view

    @property
    def rev(self) -> int:
        return self._view.rev

    def get(self, address: str) -> Resource | None:
        return self._view.get(address)

    def list(self, kind: str) -> Sequence[Resource]:
        return self._view.list(kind)

    def get_blob(self, digest: str) -> bytes | None:
        return self._log.get_blob(digest)

    def open_output(self, op: str) -> BinaryIO | None:
        return tail_file.open_output(self._place.folder, op)


def offline_answer(place: PlanPaths, path: str, query: Mapping[str, str]) -> Json:
    """Return the answer to GET `path`, as an owner would give it. Raises CommandError."""
    if not state_files.has_log(place.folder):
        raise CommandError(
            ExitCode.NOT_FOUND, f"unknown plan `{place.name}`: no state in {place.folder.parent}", "plan apply FILE"
        )
    if path == "why":
        return why_without_owner(place, query.get("at", ""))
    with backend.open_log(place.folder) as log:
        log.verify()
        if is_log_query(path, query):
            from planloop.server import history

            return history.history_answer(log, place.name, path, query)
        return read_answer(OfflinePlanReader(place, log), OwnerInfo(place.name), path, query)


def why_without_owner(place: PlanPaths, at: str) -> Json:
    """Return the answer to GET `why`: who set the value at the pointer `at`. Raises CommandError."""
    import anyio

    from planloop.server import opened_plan
    from planloop.server.payloads import why_answer

    present = opened_plan.gate_without_owner(place).present

    async def ask() -> Json:
        return await why_answer(ReadOnlyStore(place.folder), present, at)

    return anyio.run(ask)


def post_without_owner(place: PlanPaths, path: str, body: JsonObject) -> Json:
    """Own the plan for the time of a change, and return the answer to POST `path`. Raises NotOwner, CommandError."""
    import anyio

    from planloop.server.opened_plan import open_plan
    from planloop.server.owner_service import OwnerService

    async def post() -> Json:
        async with open_plan(place) as core:
            return await OwnerService(core).post(path, body)

    return anyio.run(post)
