"""Suites, runs and comparisons over TCP: read-only, and beside the plan, since reports are not the plan's.

What is said is made by `planloop.app.benching`; reading and folding go on in threads, so that nobody who watches a plan
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

from planloop.app.benching import cases, telling
from planloop.app.benching.known_suites import KnownSuites
from planloop.app.benching.library import Library
from planloop.app.benching.shelf import RunName, Shelf, run_name
from planloop.app.exits import Exit, Halt
from planloop.app.folder_events import moves
from planloop.benchmarks.events.reading import Event
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import OUTPUT_KEPT_BYTES_MAX, RUN_EVENTS_TOLD_MAX
from planloop.server.gateway.sending import Listener, steps
from planloop.server.gateway.tailing import THEIRS, End, Talk
from planloop.server.http_api import answered, refused

T = TypeVar("T")
Held: TypeAlias = Callable[[web.Request, Talk], Awaitable[web.StreamResponse]]
"""Answers a request with a websocket."""
READS_AT_ONCE: Final = 4  # Each holds a thread.
TOLD: Final = frozenset({"run/open", "run/resume", "run/close", "case/start", "tool/call", "check/result", "case/end"})
"""Types of events that say how a run goes on."""


@frozen
class Shelves:
    """Where suites are looked for, beside those that are shipped, and where the runs are. Neither need be there."""

    suites: Path
    reports: Path


class Benches:
    """The suites and runs of `shelves`; `held` makes a websocket of a request."""

    def __init__(self, shelves: Shelves, held: Held) -> None:
        shelf = Shelf(shelves.reports)
        self._library = Library(shelf)
        self._suites = KnownSuites(shelves.suites, shelf)
        self._held = held
        self._limiter = anyio.CapacityLimiter(READS_AT_ONCE)

    def add_routes(self, router: web.UrlDispatcher, api: str) -> None:
        """Adds all that is known of reports below `api`."""
        run = f"{api}runs/{{suite}}/{{run}}"
        router.add_get(f"{api}suites", self._told(lambda _: self._suites.listed()))
        router.add_get(f"{api}suites/{{suite:.+}}", self._told(lambda asked: self._suites.told(_part(asked, "suite"))))
        router.add_get(f"{api}runs", self._told(lambda _: telling.runs(self._library)))
        router.add_get(f"{api}comparison", self._told(self._comparison))
        router.add_get(run, self._told(lambda asked: telling.run(self._library, _name(asked))))
        router.add_get(f"{run}/tail", self._tail)
        router.add_get(f"{run}/cases/{{case}}", self._told(self._case))
        router.add_get(f"{run}/blobs/{{digest}}", self._blob)

    def _told(self, tell: Callable[[web.Request], Json]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """A handler that answers with what `tell` says, in a thread."""

        async def handle(request: web.Request) -> web.StreamResponse:
            return await answered(lambda: self._read(partial(tell, request)))

        return handle

    async def _read(self, step: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(step, limiter=self._limiter)

    def _comparison(self, request: web.Request) -> JsonObject:
        return telling.comparison(self._library, request.query.get("runs", ""))

    def _case(self, request: web.Request) -> JsonObject:
        name, case_id = _name(request), _part(request, "case")
        model = request.query.get("model", "")
        if not model:
            return cases.case(self._library, name, case_id)
        return cases.entry(self._library, name, case_id, model, _number(request, "trial", 1))

    async def _blob(self, request: web.Request) -> web.StreamResponse:
        """What a check saw. A browser must never take it for a page: agents wrote what is in it."""
        try:
            content, media = await self._read(partial(self._content, request))
        except Halt as halt:
            return refused(halt)
        kept = "attachment" if media == cases.BINARY else "inline"
        headers = {"Content-Type": media, "Content-Disposition": kept, "Cache-Control": "private, max-age=31536000"}
        return web.Response(body=content, headers=headers)

    def _content(self, request: web.Request) -> tuple[bytes, str]:
        with self._library.shelf.opened(_name(request), *cases.blob_parts(_part(request, "digest"))) as file:
            media = cases.media_of(file)
            return file.read(OUTPUT_KEPT_BYTES_MAX), media

    async def _tail(self, request: web.Request) -> web.StreamResponse:
        """Frames `{"seq", "state", "events"}` whenever a run goes on, those over `after` first."""
        name, after = _name(request), _number(request, "after", 0)
        await self._read(partial(self._library.run, name))
        return await self._held(request, lambda socket: steps(socket, partial(self._follow, name, after), None))

    async def _follow(self, name: RunName, after: int, listener: Listener) -> End:
        before: JsonObject = {}
        async with aclosing(moves([self._library.shelf.path(name)], anyio.Event())) as batches:
            async for _ in batches:
                frame = await self._read(partial(self._frame, name, after))
                if frame != before | {"events": []}:
                    await listener.tell(frame)
                before, after = frame, frame["seq"]
        return THEIRS

    def _frame(self, name: RunName, after: int) -> JsonObject:
        """What became of the run since the event `after`, the newest of it."""
        try:
            run = self._library.run(name)
        except Halt as halt:
            return {"seq": after, "state": "broken", "words": halt.summary, "events": []}
        with run.lock:
            first = max(after, run.seq - RUN_EVENTS_TOLD_MAX) if after <= run.seq else 0
            events = run.events(first, RUN_EVENTS_TOLD_MAX) if run.seq > first else []
            seq = run.seq
        told = [_event(one) for one in events if one.type in TOLD]
        return {"seq": seq, "state": "live" if self._library.is_live(name) else "ended", "events": told}


def _event(event: Event) -> JsonObject:
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
        raise Halt(Exit.USAGE, f"`{name}` is a whole number, not `{text[:80]}`", f"as {name}={default}")
    return int(text)
