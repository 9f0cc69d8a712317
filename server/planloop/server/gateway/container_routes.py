"""Routes of containers: their output, and the chat with the agent that works in one."""

from __future__ import annotations

import codecs
import io
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing, closing
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import anyio
from aiohttp import web

from planloop.client import chat_events, engine_access
from planloop.client.chat_events import AgentAnswered, ContainerEnded
from planloop.client.chat_target import agent_for_container
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.folder_events import watch_folders
from planloop.client.presenters.approvals import ObjectsView
from planloop.client.tail_file import TailFile, file_key, read_page
from planloop.containers.engine.engine import ContainerEngine, EngineFailed
from planloop.containers.engine.secret_env import masks_from_labels
from planloop.controllers.container.context import container_log_path
from planloop.reconciler.store import owner_lock, state_files
from planloop.schemas.canonical_json import Json, JsonObject, decode, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import CHAT_ITEMS_SHOWN_MAX, LOG_PAGE_BYTES, MESSAGE_BYTES_MAX
from planloop.schemas.log.record import record_from_json
from planloop.schemas.objects.container import CONTAINER_KIND, OVER
from planloop.schemas.resource import Resource
from planloop.server import history_views
from planloop.server.gateway.auth import READ_ONLY, READ_ONLY_HINT, RIGHT
from planloop.server.gateway.owner_proxy import OwnerProxy
from planloop.server.gateway.replica import LogReplaced, PlanReplica, RecordFrame
from planloop.server.gateway.websockets import (
    NORMAL_CLOSE,
    HoldSocket,
    SocketEnd,
    SocketListener,
    SocketStep,
    TokenStream,
)
from planloop.server.http_api import OperationHandler


def require_container(plan: ObjectsView, name: str) -> Resource:
    """Return the container of that name. Raises CommandError."""
    item = plan.get(f"{CONTAINER_KIND}/{name}")
    if item is None:
        raise CommandError(
            ExitCode.NOT_FOUND,
            f"no {CONTAINER_KIND}/{name[:80]} in this plan",
            "plan get containers lists them",
        )
    return item


# A chat with the agent that works with a container, over a websocket that closes when the container ends.
#
# Messages of the operator are sent as by `plan send`. The conversation comes from the log, in the format of
# `conversation/AGENT`: first the past items, then each new one.

CHAT_AGAIN: Final = SocketEnd(1012, "the log was replaced: reconnect")
DELIVERIES: Final = frozenset({"queue", "steer", "interrupt"})
ID_CHARS_MAX: Final = 64


@frozen
class ContainerChat:
    """A chat with the agent that works in a container. `right` is the right of the operator's token."""

    replica: PlanReplica
    owner: OwnerProxy
    tokens: TokenStream
    container: str
    agent: str
    right: str


def chat_steps(chat: ContainerChat, listener: SocketListener) -> list[SocketStep]:
    """Return the steps of the chat with `listener`."""
    hear = partial(listener.hear, partial(_hear, chat, listener))
    return [partial(_tell, chat, listener), hear, partial(_say, chat, listener)]


async def _tell(chat: ContainerChat, listener: SocketListener) -> SocketEnd:
    rev, generation = chat.replica.rev, chat.replica.generation
    past = await _conversation(chat, {})
    shown = past["items"][-CHAT_ITEMS_SHOWN_MAX:]
    first: JsonObject = {"agent": chat.agent, "right": chat.right, "items": shown}
    await listener.tell(first | {"earlier": bool(past["earlier"]) or len(shown) < len(past["items"])})
    item = chat.replica.get(chat.container)
    if item is None or item.state in OVER:
        ended = (
            ContainerEnded(chat.container, "gone", "")
            if item is None
            else chat_events.ended_event(item.address, item.status)
        )
        await listener.tell(_ended(ended))
        return NORMAL_CLOSE
    told = int(past["rev"])  # The log may have newer records than the replica had.
    names = (encode(chat.agent), encode(chat.container))
    try:
        while True:
            frame = await chat.replica.frame_after(rev, generation)
            rev = frame.last
            if not any(name in frame.body for name in names):
                continue  # Most records are about other objects; do not decode them.
            more = await _conversation(chat, {"after": str(told)})
            told = int(more["rev"])
            if more["items"]:
                await listener.tell({"items": more["items"]})
            for event in _events(chat, frame):
                await listener.tell(event)
                if "ended" in event:
                    return NORMAL_CLOSE
    except LogReplaced:
        return CHAT_AGAIN


async def _say(chat: ContainerChat, listener: SocketListener) -> SocketEnd:
    """Send the text of the agent's model while it is written. The log has the whole reply later."""
    async with aclosing(chat.tokens.listen()) as heard:
        async for said in heard:
            if said["agent"] == chat.agent:
                await listener.tell({"said": said})
    return NORMAL_CLOSE


async def _conversation(chat: ContainerChat, query: dict[str, str]) -> JsonObject:
    log, name, path = chat.replica.reader, chat.replica.place.name, f"conversation/{chat.agent}"
    found: JsonObject = await chat.replica.read(lambda: history_views.history_view_answer(log, name, path, query))
    return found


def _events(chat: ContainerChat, frame: RecordFrame) -> list[JsonObject]:
    """Return the events of a frame for the chat that are not items of the conversation."""
    found: list[JsonObject] = []
    for raw in decode(frame.body)["records"]:
        for event in chat_events.chat_events(record_from_json(raw), chat.agent, chat.container):
            if isinstance(event, AgentAnswered) and event.agent == chat.agent:
                answer = {"question": event.question, "text": event.text, "error": event.error}
                found.append({"answered": answer})
            elif isinstance(event, ContainerEnded):
                found.append(_ended(event))
    return found


def _ended(event: ContainerEnded) -> JsonObject:
    return {"ended": {"container": event.container, "state": event.state, "why": event.why}}


async def _hear(chat: ContainerChat, listener: SocketListener, said: Json) -> None:
    """Send the operator's message to the agent, and report the outcome."""
    identity = str(said.get("id", ""))[:ID_CHARS_MAX] if isinstance(said, dict) else ""
    try:
        sent = await _sent(chat, said)
    except CommandError as halt:
        await listener.tell({"refused": {"id": identity, "summary": halt.summary, "hint": halt.hint}})
        return
    await listener.tell({"sent": {"id": identity, **sent}})


async def _sent(chat: ContainerChat, said: Json) -> JsonObject:
    if not isinstance(said, dict) or not isinstance(text := said.get("text"), str) or not text.strip():
        raise CommandError(ExitCode.USAGE, "the message is empty", 'send {"text": "…"}')
    if len(text.encode(errors="replace")) > MESSAGE_BYTES_MAX:
        hint = "write the text into a file and send its path"
        raise CommandError(ExitCode.USAGE, f"the message is longer than {MESSAGE_BYTES_MAX} bytes", hint)
    delivery = said.get("delivery", "steer")
    if delivery not in DELIVERIES:
        raise CommandError(ExitCode.USAGE, "unknown delivery", f"use one of {', '.join(sorted(DELIVERIES))}")
    if chat.right != "change":
        raise CommandError(ExitCode.REFUSED, READ_ONLY, READ_ONLY_HINT)
    place = chat.replica.place
    if await chat.replica.read(lambda: owner_lock.current_owner(place.folder)) is None:
        name = place.file.name if place.file is not None else "FILE"
        hint = f"start it with plan apply {name} --detach, then send the message again"
        raise CommandError(ExitCode.NOT_FOUND, f"{place.name} is not running, so no agent can answer", hint)
    body: JsonObject = {"to": chat.agent, "text": text, "delivery": delivery, "asks": True}
    answer = await chat.owner.post("send", body)
    first = answer["sent"][0]
    return {"message": first["id"], "state": first["state"]}


# The output of a container: the newest page, then new output as it is written, and older pages on request.
#
# While an owner is running, the output is in the owner's file. Otherwise it comes from the container engine, or, for a
# removed container, from a blob of the log. Pages are bounded, and a client that reads too slowly is disconnected.

ELSEWHERE: Final = SocketEnd(1012, "the plan is not running any more: reconnect")


def older_output(replica: PlanReplica, name: str, log: str, before: int) -> JsonObject:
    """Return the page before the byte `before` of the output `log`. Raises CommandError if it is not available."""
    item = require_container(replica, name)
    try:
        with _open_output(replica, item) as file:
            if _output_key(file, item) != log:
                raise CommandError(
                    ExitCode.NOT_FOUND, "older output was dropped", "to keep more, raise `logs` of the container"
                )
            start, content = read_page(file, before, LOG_PAGE_BYTES)
    except OSError:
        raise CommandError(
            ExitCode.NOT_FOUND, f"{item.address} has no output", f"plan describe {item.address} shows its state"
        ) from None
    return {"log": log, "start": start, "text": content.decode(errors="replace")}


def _open_output(replica: PlanReplica, item: Resource) -> BinaryIO:
    """Open the stored output. Raises OSError if nothing is stored."""
    try:
        return _output_path(replica, item).open("rb")
    except OSError:
        kept = _kept_output(replica, item)
        if kept is None:
            raise
        return io.BytesIO(kept)


def _output_key(file: BinaryIO, item: Resource) -> str:
    """Return the key that identifies an output."""
    return str(item.status.get("log")) if isinstance(file, io.BytesIO) else file_key(file)


def _output_path(replica: PlanReplica, item: Resource) -> Path:
    return container_log_path(state_files.run_folder(replica.place.folder), item.address)


def _kept_output(replica: PlanReplica, item: Resource) -> bytes | None:
    return replica.get_blob(str(item.status["log"])) if item.status.get("log") else None


async def follow_output(replica: PlanReplica, item: Resource, listener: SocketListener) -> SocketEnd:
    """Send the newest page, then new output, until the client disconnects. Raises SocketClosed."""
    if owner_lock.current_owner(replica.place.folder) is None and await _from_engine(replica, item, listener):
        return NORMAL_CLOSE
    folder = state_files.run_folder(replica.place.folder)
    with closing(TailFile(_output_path(replica, item), item.spec["logs_bytes"])) as writing:
        start, text = writing.end(LOG_PAGE_BYTES)
        key = writing.key
        if not text and (kept := _kept_output(replica, item)) is not None:
            start, content = read_page(io.BytesIO(kept), None, LOG_PAGE_BYTES)
            text, key = content.decode(errors="replace"), str(item.status["log"])
        await listener.tell({"log": key, "start": start, "text": text})
        async with aclosing(watch_folders([folder], anyio.Event())) as batches:
            async for batch in batches:
                more = writing.more()
                told: JsonObject = {"log": writing.key, "start": 0} if writing.is_anew else {}
                for piece in _pieces(more):
                    await listener.tell({**told, "text": piece})
                    told = {}
                if (
                    not (batch or more)
                    and owner_lock.current_owner(replica.place.folder) is None
                    and _runs(replica, item)
                ):
                    return ELSEWHERE
    return NORMAL_CLOSE


def _runs(replica: PlanReplica, item: Resource) -> bool:
    now = replica.get(item.address)
    return now is not None and (now.status.get("seen") or {}).get("run") == "running"


def _pieces(text: str) -> list[str]:
    return [text[at : at + LOG_PAGE_BYTES] for at in range(0, len(text), LOG_PAGE_BYTES)]


async def _from_engine(replica: PlanReplica, item: Resource, listener: SocketListener) -> bool:
    """Send the engine's log of the container. Returns False if the engine has none or does not answer."""
    try:
        own = next(
            (one for one in await engine_access.engine_containers(replica.place, item) if one.last_run.started_at), None
        )
        if own is None:
            return False
        engine, quiet = engine_access.container_engine(), masks_from_labels(own.labels, own.defaults.env).stream()
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


async def _past(engine: ContainerEngine, ref: str) -> tuple[bytes, int]:
    """Return the last page of a container's log, and the size of the whole log in bytes."""
    kept: deque[bytes] = deque()
    seen = held = 0
    async with aclosing(engine.logs(ref, is_following=False)) as pieces:
        async for piece in pieces:
            kept.append(piece)
            seen, held = seen + len(piece), held + len(piece)
            while held - len(kept[0]) > LOG_PAGE_BYTES:
                held -= len(kept.popleft())
    return b"".join(kept), seen


async def _after(engine: ContainerEngine, ref: str, seen: int) -> AsyncGenerator[bytes, None]:
    """Yield the output of a container after the first `seen` bytes."""
    async with aclosing(engine.logs(ref)) as pieces:
        async for piece in pieces:
            yield piece[seen:]
            seen = max(0, seen - len(piece))


class ContainerRoutes:
    """Handlers for the containers of one plan. `websocket` answers a request with a websocket."""

    def __init__(self, replica: PlanReplica, owner: OwnerProxy, tokens: TokenStream, websocket: HoldSocket) -> None:
        self._replica = replica
        self._owner = owner
        self._tokens = tokens
        self._websocket = websocket

    def handlers(self) -> dict[str, OperationHandler]:
        """Return the handlers by operation name."""
        return {"readContainerLog": self._older, "followContainerLog": self._logs, "chat": self._chat}

    async def _older(self, request: web.Request) -> Json:
        name, log, before = (
            request.match_info["name"],
            request.query.get("log", ""),
            int(request.query.get("before", 0)),
        )
        return await self._replica.read(partial(older_output, self._replica, name, log, before))

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        item = require_container(self._replica.moment(), request.match_info["name"])
        tell = partial(follow_output, self._replica, item)
        return await self._websocket(request, lambda listener: [partial(tell, listener), listener.hear])

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        moment = self._replica.moment()
        item = require_container(moment, request.match_info["name"])
        agent = agent_for_container(item, moment.list("task"), moment.list("agent"))
        chat = ContainerChat(self._replica, self._owner, self._tokens, item.address, agent, request[RIGHT])
        return await self._websocket(request, partial(chat_steps, chat))
