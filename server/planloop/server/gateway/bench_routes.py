"""Routes of benchmark suites, runs and comparisons. Read-only.

`planloop.server.bench` creates the answers. Runs are read in threads, so that other clients do not wait for a large
run. The events of a live run are processed as they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
import anyio.to_thread
from aiohttp import web

from planloop.benchmarks.events.reader import BenchEvent
from planloop.client.exit_codes import CommandError
from planloop.client.folder_events import watch_folders
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import OUTPUT_KEPT_BYTES_MAX, RUN_EVENTS_TOLD_MAX
from planloop.server.bench import bench_presenter, case_presenter
from planloop.server.bench.run_folder import ReportsFolder, RunName, run_name
from planloop.server.bench.run_library import RunLibrary
from planloop.server.bench.suites import SuiteLibrary
from planloop.server.gateway.websockets import NORMAL_CLOSE, HoldSocket, SocketEnd, SocketListener
from planloop.server.http_api import Answer, OperationHandler

Read = TypeVar("Read")
READS_AT_ONCE: Final = 4  # Each uses a thread.
MESSAGES: Final = frozenset(
    {"run/open", "run/resume", "run/close", "case/start", "tool/call", "check/result", "case/end"}
)
"""Types of events that show the progress of a run."""


@frozen
class ReportFolders:
    """The folder of additional suites, and the folder of runs. Both may be missing."""

    suites: Path
    reports: Path


class BenchRoutes:
    """Handlers for the suites and runs in two folders. `websocket` answers a request with a websocket."""

    def __init__(self, folders: ReportFolders, websocket: HoldSocket) -> None:
        self._reports = ReportsFolder(folders.reports)
        self._library = RunLibrary(self._reports)
        self._suites = SuiteLibrary(folders.suites, self._reports)
        self._websocket = websocket
        self._limiter = anyio.CapacityLimiter(READS_AT_ONCE)

    def handlers(self) -> dict[str, OperationHandler]:
        """Return the handlers by operation name."""
        suites, library = self._suites, self._library
        return {
            "listSuites": self._reading(lambda _: suites.listed()),
            "getSuite": self._reading(lambda request: suites.told(request.match_info["suite"])),
            "listRuns": self._reading(lambda _: bench_presenter.runs_json(library)),
            "compareRuns": self._reading(
                lambda request: bench_presenter.comparison_json(library, request.query["runs"])
            ),
            "getRun": self._reading(lambda request: bench_presenter.run_json(library, _run(request))),
            "getCase": self._reading(self._case),
            "getRunBlob": self._reading(self._blob),
            "followRun": self._tail,
        }

    def _reading(self, step: Callable[[web.Request], Answer]) -> OperationHandler:
        """Return a handler that runs `step` in a thread."""
        return lambda request: self._read(partial(step, request))

    async def _read(self, step: Callable[[], Read]) -> Read:
        return await anyio.to_thread.run_sync(step, limiter=self._limiter)

    def _case(self, request: web.Request) -> JsonObject:
        name, case_id, query = _run(request), request.match_info["case"], request.query
        if not query.get("model"):
            return case_presenter.case_json(self._library, name, case_id)
        return case_presenter.entry_json(self._library, name, case_id, query["model"], int(query.get("trial", 1)))

    def _blob(self, request: web.Request) -> web.Response:
        """Return a file that a check recorded. A browser must not render it as a page, because agents wrote it."""
        with self._reports.opened(_run(request), *case_presenter.blob_parts(request.match_info["digest"])) as file:
            media = case_presenter.media_of(file)
            content = file.read(OUTPUT_KEPT_BYTES_MAX)
        kept = "attachment" if media == case_presenter.BINARY_TYPE else "inline"
        headers = {"Content-Type": media, "Content-Disposition": kept, "Cache-Control": "private, max-age=31536000"}
        return web.Response(body=content, headers=headers)

    async def _tail(self, request: web.Request) -> web.StreamResponse:
        """Send frames `{"seq", "state", "events"}`: the events after `after`, then new ones as they are written."""
        name, after = _run(request), int(request.query.get("after", 0))
        await self._read(partial(self._library.run, name))
        follow = partial(self._follow, name, after)
        return await self._websocket(request, lambda listener: [partial(follow, listener), listener.hear])

    async def _follow(self, name: RunName, after: int, listener: SocketListener) -> SocketEnd:
        before: JsonObject = {}
        async with aclosing(watch_folders([self._reports.path(name)], anyio.Event())) as batches:
            async for _ in batches:
                frame = await self._read(partial(self._frame, name, after))
                if frame != before | {"events": []}:
                    await listener.tell(frame)
                before, after = frame, frame["seq"]
        return NORMAL_CLOSE

    def _frame(self, name: RunName, after: int) -> JsonObject:
        """Return the newest events of the run after the event `after`, and its state."""
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
    """Return an event with a short text."""
    entry: JsonObject = {"case": event.case, "model": event.model, "trial": event.trial, "attempt": event.attempt}
    return {"seq": event.seq, "ts": event.ts, "type": event.type, **entry, "words": _words(event.type, event.data)}


def _words(type_: str, data: JsonObject) -> str:
    match type_:
        case "case/start":
            return "starts"
        case "tool/call":
            return f"calls {data.get('tool', '')}"
        case "check/result":
            return f"check {data.get('check', '')}: {data.get('result', '')}"
        case "case/end":
            return f"{data.get('verdict', '')}: {data.get('why', '')}"
        case "run/close":
            return "the run is complete" if data.get("complete") else f"the run ends with {data.get('errors')} errors"
        case _:
            return {"run/open": "the run starts", "run/resume": "the run is resumed"}[type_]


def _run(request: web.Request) -> RunName:
    return run_name(request.match_info["suite"], request.match_info["run"])
