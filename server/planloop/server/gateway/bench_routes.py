"""Routes of benchmark suites, runs and comparisons. Read-only.

What is said is made by `planloop.server.bench`; reading and folding go on in threads, so that nobody who watches a plan
waits for a large run. A run that goes on is listened to: its events are folded as they are written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import anyio
import anyio.to_thread
from aiohttp import web

from planloop.benchmarks.events.reader import BenchEvent
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.folder_events import watch_folders
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import OUTPUT_KEPT_BYTES_MAX, RUN_EVENTS_TOLD_MAX
from planloop.server.bench import bench_presenter, case_presenter
from planloop.server.bench.reports_folder import ReportsFolder, RunName, run_name
from planloop.server.bench.run_library import RunLibrary
from planloop.server.bench.suites import SuiteLibrary
from planloop.server.gateway.log_websocket import NORMAL_CLOSE, SocketEnd, SocketHandler, SocketListener, socket_steps
from planloop.server.http_api import answer_response, refusal_response

Read = TypeVar("Read")
HoldSocket: TypeAlias = Callable[[web.Request, SocketHandler], Awaitable[web.StreamResponse]]
"""Answers a request with a websocket."""
READS_AT_ONCE: Final = 4  # Each holds a thread.
MESSAGES: Final = frozenset(
    {"run/open", "run/resume", "run/close", "case/start", "tool/call", "check/result", "case/end"}
)
"""Types of events that say how a run goes on."""


@frozen
class ReportFolders:
    """Where suites are looked for, beside those that are shipped, and where the runs are. Neither need be there."""

    suites: Path
    reports: Path


class BenchRoutes:
    """The suites and runs of `shelves`; `held` makes a websocket of a request."""

    def __init__(self, shelves: ReportFolders, held: HoldSocket) -> None:
        shelf = ReportsFolder(shelves.reports)
        self._library = RunLibrary(shelf)
        self._suites = SuiteLibrary(shelves.suites, shelf)
        self._held = held
        self._limiter = anyio.CapacityLimiter(READS_AT_ONCE)

    def add_routes(self, router: web.UrlDispatcher, api: str) -> None:
        """Adds all that is known of reports below `api`."""
        run = f"{api}runs/{{suite}}/{{run}}"
        router.add_get(f"{api}suites", self._told(lambda _: self._suites.listed()))
        router.add_get(f"{api}suites/{{suite:.+}}", self._told(lambda asked: self._suites.told(_part(asked, "suite"))))
        router.add_get(f"{api}runs", self._told(lambda _: bench_presenter.runs_json(self._library)))
        router.add_get(f"{api}comparison", self._told(self._comparison))
        router.add_get(run, self._told(lambda asked: bench_presenter.run_json(self._library, _name(asked))))
        router.add_get(f"{run}/tail", self._tail)
        router.add_get(f"{run}/cases/{{case}}", self._told(self._case))
        router.add_get(f"{run}/blobs/{{digest}}", self._blob)

    def _told(self, tell: Callable[[web.Request], Json]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """A handler that answers with what `tell` says, in a thread."""

        async def handle(request: web.Request) -> web.StreamResponse:
            return await answer_response(lambda: self._read(partial(tell, request)))

        return handle

    async def _read(self, step: Callable[[], Read]) -> Read:
        return await anyio.to_thread.run_sync(step, limiter=self._limiter)

    def _comparison(self, request: web.Request) -> JsonObject:
        return bench_presenter.comparison_json(self._library, request.query.get("runs", ""))

    def _case(self, request: web.Request) -> JsonObject:
        name, case_id = _name(request), _part(request, "case")
        model = request.query.get("model", "")
        if not model:
            return case_presenter.case_json(self._library, name, case_id)
        return case_presenter.entry_json(self._library, name, case_id, model, _number(request, "trial", 1))

    async def _blob(self, request: web.Request) -> web.StreamResponse:
        """What a check saw. A browser must never take it for a page: agents wrote what is in it."""
        try:
            content, media = await self._read(partial(self._content, request))
        except CommandError as halt:
            return refusal_response(halt)
        kept = "attachment" if media == case_presenter.BINARY_TYPE else "inline"
        headers = {"Content-Type": media, "Content-Disposition": kept, "Cache-Control": "private, max-age=31536000"}
        return web.Response(body=content, headers=headers)

    def _content(self, request: web.Request) -> tuple[bytes, str]:
        with self._library.shelf.opened(_name(request), *case_presenter.blob_parts(_part(request, "digest"))) as file:
            media = case_presenter.media_of(file)
            return file.read(OUTPUT_KEPT_BYTES_MAX), media

    async def _tail(self, request: web.Request) -> web.StreamResponse:
        """Frames `{"seq", "state", "events"}` whenever a run goes on, those over `after` first."""
        name, after = _name(request), _number(request, "after", 0)
        await self._read(partial(self._library.run, name))
        return await self._held(request, lambda socket: socket_steps(socket, partial(self._follow, name, after), None))

    async def _follow(self, name: RunName, after: int, listener: SocketListener) -> SocketEnd:
        before: JsonObject = {}
        async with aclosing(watch_folders([self._library.shelf.path(name)], anyio.Event())) as batches:
            async for _ in batches:
                frame = await self._read(partial(self._frame, name, after))
                if frame != before | {"events": []}:
                    await listener.tell(frame)
                before, after = frame, frame["seq"]
        return NORMAL_CLOSE

    def _frame(self, name: RunName, after: int) -> JsonObject:
        """What became of the run since the event `after`, the newest of it."""
        try:
            run = self._library.run(name)
        except CommandError as halt:
            return {"seq": after, "state": "broken", "words": halt.summary, "events": []}
        with run.lock:
            first = max(after, run.seq - RUN_EVENTS_TOLD_MAX) if after <= run.seq else 0
            events = run.events(first, RUN_EVENTS_TOLD_MAX) if run.seq > first else []
            seq = run.seq
        told = [_event(one) for one in events if one.type in MESSAGES]
        return {"seq": seq, "state": "live" if self._library.is_live(name) else "ended", "events": told}


def _event(event: BenchEvent) -> JsonObject:
    """An event in a line."""
    entry: JsonObject = {"case": event.case, "model": event.model, "trial": event.trial, "attempt": event.attempt}
    return {"seq": event.seq, "ts": event.ts, "type": event.type, **entry, "words": _words(event.type, event.data)}


def _words(type_: str, data: JsonObject) -> str:
    match type_:
        case "case/start":
            return "begins"
        case "tool/call":
            return f"calls {data.get('tool', '')}"
        case "check/result":
            return f"check {data.get('check', '')}: {data.get('result', '')}"
        case "case/end":
            return f"{data.get('verdict', '')}: {data.get('why', '')}"
        case "run/close":
            return "the run is complete" if data.get("complete") else f"the run ends with {data.get('errors')} errors"
        case _:
            return {"run/open": "the run begins", "run/resume": "the run is gone on with"}[type_]


def _part(request: web.Request, name: str) -> str:
    return request.match_info[name]


def _name(request: web.Request) -> RunName:
    return run_name(_part(request, "suite"), _part(request, "run"))


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise CommandError(ExitCode.USAGE, f"`{name}` is a whole number, not `{text[:80]}`", f"as {name}={default}")
    return int(text)
