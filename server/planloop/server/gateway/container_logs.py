"""What a container writes, for people who look: the newest page at once, what comes as it comes, older pages on demand.

While somebody runs the plan, it is in the file that the owner keeps; with nobody there, the engine is asked for what it
has; what has gone is in a blob of the log. Pages are bounded, and who reads too slowly is let go, and comes again.
"""

from __future__ import annotations

import codecs
import io
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing, closing
from pathlib import Path
from typing import BinaryIO, Final

import anyio

from planloop.app import wiring
from planloop.app.exits import Exit, Halt
from planloop.app.folder_events import moves
from planloop.app.telling import containers
from planloop.app.written import Writing, key_of, page
from planloop.containers.engine import Engine, EngineFailed
from planloop.containers.hiding import masks_of
from planloop.controllers.container.yard import log_path
from planloop.reconciler.storing import layout, owning
from planloop.schemas.encoding import JsonObject
from planloop.schemas.limits import LOG_PAGE_BYTES
from planloop.schemas.resource import Resource
from planloop.server.gateway.replica import Replica
from planloop.server.gateway.sending import Listener
from planloop.server.gateway.tailing import THEIRS, End

ELSEWHERE: Final = End(1012, "nobody runs the plan any more: come again")


def older(replica: Replica, name: str, log: str, before: int) -> JsonObject:
    """The page before the byte `before` of the output `log`. Raises Halt: that output is gone."""
    item = containers.required(replica, name)
    try:
        with _opened(replica, item) as file:
            if _key(file, item) != log:
                raise Halt(Exit.NOT_FOUND, "older output is not kept", "logs: of the container says how much is")
            start, content = page(file, before, LOG_PAGE_BYTES)
    except OSError:
        raise Halt(Exit.NOT_FOUND, f"{item.address} has written nothing", "plan describe says how it is") from None
    return {"log": log, "start": start, "text": content.decode(errors="replace")}


def _opened(replica: Replica, item: Resource) -> BinaryIO:
    """What was kept of it. Raises OSError when nothing was."""
    try:
        return _path(replica, item).open("rb")
    except OSError:
        kept = _blob(replica, item)
        if kept is None:
            raise
        return io.BytesIO(kept)


def _key(file: BinaryIO, item: Resource) -> str:
    """Which output it is."""
    return str(item.status.get("log")) if isinstance(file, io.BytesIO) else key_of(file)


def _path(replica: Replica, item: Resource) -> Path:
    return log_path(layout.run_folder(replica.place.folder), item.address)


def _blob(replica: Replica, item: Resource) -> bytes | None:
    return replica.get_blob(str(item.status["log"])) if item.status.get("log") else None


async def follow(replica: Replica, item: Resource, listener: Listener) -> End:
    """Tells the newest page, then what comes, for as long as somebody listens. Raises Over."""
    if owning.look(replica.place.folder) is None and await _from_engine(replica, item, listener):
        return THEIRS
    folder = layout.run_folder(replica.place.folder)
    with closing(Writing(_path(replica, item), item.spec["logs_bytes"])) as writing:
        start, text = writing.end(LOG_PAGE_BYTES)
        key = writing.key
        if not text and (kept := _blob(replica, item)) is not None:
            start, content = page(io.BytesIO(kept), None, LOG_PAGE_BYTES)
            text, key = content.decode(errors="replace"), str(item.status["log"])
        await listener.tell({"log": key, "start": start, "text": text})
        async with aclosing(moves([folder], anyio.Event())) as batches:
            async for batch in batches:
                more = writing.more()
                told: JsonObject = {"log": writing.key, "start": 0} if writing.is_anew else {}
                for piece in _pieces(more):
                    await listener.tell({**told, "text": piece})
                    told = {}
                if not (batch or more) and owning.look(replica.place.folder) is None and _runs(replica, item):
                    return ELSEWHERE
    return THEIRS


def _runs(replica: Replica, item: Resource) -> bool:
    now = replica.get(item.address)
    return now is not None and (now.status.get("seen") or {}).get("run") == "running"


def _pieces(text: str) -> list[str]:
    return [text[at : at + LOG_PAGE_BYTES] for at in range(0, len(text), LOG_PAGE_BYTES)]


async def _from_engine(replica: Replica, item: Resource, listener: Listener) -> bool:
    """Tells what the engine has of it and what comes; False when it has nothing, or cannot be asked."""
    try:
        own = next((one for one in await wiring.containers_of(replica.place, item) if one.started_at), None)
        if own is None:
            return False
        engine, quiet = wiring.container_engine(), masks_of(own.labels, own.env).stream()
        past, seen = await _past(engine, own.id)
        text = codecs.getincrementaldecoder("utf-8")(errors="replace")
        said = text.decode(quiet.feed(past))
        await listener.tell({"log": "", "start": 0, "text": said[-LOG_PAGE_BYTES:], "left": max(0, seen - len(past))})
        async with aclosing(_after(engine, own.id, seen)) as pieces:
            async for piece in pieces:
                for part in _pieces(text.decode(quiet.feed(piece))):
                    await listener.tell({"text": part})
        await listener.tell({"text": text.decode(quiet.flush())})
    except EngineFailed:
        return False
    return True


async def _past(engine: Engine, ref: str) -> tuple[bytes, int]:
    """The end of what it has written, and how much that is in all."""
    kept: deque[bytes] = deque()
    seen = held = 0
    async with aclosing(engine.logs(ref, is_following=False)) as pieces:
        async for piece in pieces:
            kept.append(piece)
            seen, held = seen + len(piece), held + len(piece)
            while held - len(kept[0]) > LOG_PAGE_BYTES:
                held -= len(kept.popleft())
    return b"".join(kept), seen


async def _after(engine: Engine, ref: str, seen: int) -> AsyncGenerator[bytes, None]:
    """What it writes after the first `seen` bytes."""
    async with aclosing(engine.logs(ref)) as pieces:
        async for piece in pieces:
            yield piece[seen:]
            seen = max(0, seen - len(piece))
