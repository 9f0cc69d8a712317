"""A conversation with the agent that works with a container, over a websocket that ends with the container.

What a person says goes the way of `plan send`; what the agent is told, says and calls comes from the log, in the form
of `conversation/AGENT`: first what was said before, then each thing as it comes.
"""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import Final

from aiohttp import web

from planloop.app.exits import Exit, Halt
from planloop.app.telling import containers
from planloop.cli.chatting import listening
from planloop.cli.chatting.listening import Answered, Ended
from planloop.reconciler.storing import owning
from planloop.schemas.container import OVER
from planloop.schemas.encoding import Json, JsonObject, decode, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import CHAT_ITEMS_SHOWN_MAX, MESSAGE_BYTES_MAX
from planloop.schemas.record import record_from_json
from planloop.server import log_answers
from planloop.server.gateway import sending
from planloop.server.gateway.forwarding import Forwarding
from planloop.server.gateway.frames import Frame
from planloop.server.gateway.replica import Anew, Replica
from planloop.server.gateway.sending import Listener
from planloop.server.gateway.tailing import THEIRS, End, Step
from planloop.server.gateway.words import Words

AGAIN: Final = End(1012, "the plan was begun anew: come again")
DELIVERIES: Final = frozenset({"queue", "steer", "interrupt"})
ID_CHARS_MAX: Final = 64


@frozen
class Doors:
    """By what a plan is reached."""

    replica: Replica
    forwarding: Forwarding
    words: Words


@frozen
class Room:
    """Who talks: the plan, the container in which, the agent with whom, and what the person may do."""

    replica: Replica
    forwarding: Forwarding
    words: Words
    container: str
    agent: str
    right: str


def room(doors: Doors, name: str, right: str) -> Room:
    """The conversation in the container `name`. Raises Halt: there is none, or nobody works with it."""
    moment = doors.replica.moment()
    item = containers.required(moment, name)
    agent = containers.talked_with(moment, item)
    return Room(doors.replica, doors.forwarding, doors.words, item.address, agent, right)


def steps(room: Room, socket: web.WebSocketResponse) -> list[Step]:
    """The conversation over `socket`, until either side ends it."""
    listener = Listener(socket)
    return [*sending.steps(socket, partial(_tell, room), partial(_hear, room, listener)), partial(_say, room, listener)]


async def _tell(room: Room, listener: Listener) -> End:
    rev, generation = room.replica.rev, room.replica.generation
    past = await _conversation(room, {})
    shown = past["items"][-CHAT_ITEMS_SHOWN_MAX:]
    first: JsonObject = {"agent": room.agent, "right": room.right, "items": shown}
    await listener.tell(first | {"earlier": bool(past["earlier"]) or len(shown) < len(past["items"])})
    item = room.replica.get(room.container)
    if item is None or item.state in OVER:
        ended = Ended(room.container, "gone", "") if item is None else listening.ended_event(item.address, item.status)
        await listener.tell(_ended(ended))
        return THEIRS
    told = int(past["rev"])  # The log may be further than the fold was.
    names = (encode(room.agent), encode(room.container))
    try:
        while True:
            frame = await room.replica.frame_after(rev, generation)
            rev = frame.last
            if not any(name in frame.body for name in names):
                continue  # Most are about others, and are not even read.
            more = await _conversation(room, {"after": str(told)})
            told = int(more["rev"])
            if more["items"]:
                await listener.tell({"items": more["items"]})
            for event in _events(room, frame):
                await listener.tell(event)
                if "ended" in event:
                    return THEIRS
    except Anew:
        return AGAIN


async def _say(room: Room, listener: Listener) -> End:
    """Tells what the agent's model writes while it writes it; the whole comes with the log."""
    async with aclosing(room.words.listen()) as heard:
        async for said in heard:
            if said["agent"] == room.agent:
                await listener.tell({"said": said})
    return THEIRS


async def _conversation(room: Room, query: dict[str, str]) -> JsonObject:
    place, path = room.replica.place, f"conversation/{room.agent}"
    found: JsonObject = await room.replica.read(lambda: log_answers.answer(place.folder, place.name, path, query))
    return found


def _events(room: Room, frame: Frame) -> list[JsonObject]:
    """What the records of a frame mean to who talks here, beside the conversation itself."""
    found: list[JsonObject] = []
    for raw in decode(frame.body)["records"]:
        for event in listening.events(record_from_json(raw), room.agent, room.container):
            if isinstance(event, Answered) and event.agent == room.agent:
                answer = {"question": event.question, "text": event.text, "error": event.error}
                found.append({"answered": answer})
            elif isinstance(event, Ended):
                found.append(_ended(event))
    return found


def _ended(event: Ended) -> JsonObject:
    return {"ended": {"container": event.container, "state": event.state, "why": event.why}}


async def _hear(room: Room, listener: Listener, said: Json) -> None:
    """Sends what a person says on, and tells them what became of it."""
    identity = str(said.get("id", ""))[:ID_CHARS_MAX] if isinstance(said, dict) else ""
    try:
        sent = await _sent(room, said)
    except Halt as halt:
        await listener.tell({"refused": {"id": identity, "summary": halt.summary, "hint": halt.hint}})
        return
    await listener.tell({"sent": {"id": identity, **sent}})


async def _sent(room: Room, said: Json) -> JsonObject:
    if not isinstance(said, dict) or not isinstance(text := said.get("text"), str) or not text.strip():
        raise Halt(Exit.USAGE, "there is nothing to say", 'send {"text": "…"}')
    if len(text.encode(errors="replace")) > MESSAGE_BYTES_MAX:
        raise Halt(Exit.USAGE, f"that is longer than {MESSAGE_BYTES_MAX} bytes", "put it into a file and name that")
    delivery = said.get("delivery", "steer")
    if delivery not in DELIVERIES:
        raise Halt(Exit.USAGE, "that is no way to deliver", f"one of {', '.join(sorted(DELIVERIES))}")
    if room.right != "change":
        raise Halt(Exit.REFUSED, "this link may only look", "plan serve prints the link that may change things, too")
    place = room.replica.place
    if await room.replica.read(lambda: owning.look(place.folder)) is None:
        name = place.file.name if place.file is not None else "FILE"
        hint = f"plan apply {name} --detach keeps it running; then say it again"
        raise Halt(Exit.NOT_FOUND, f"nobody runs {place.name}, so no agent can answer", hint)
    body: JsonObject = {"to": room.agent, "text": text, "delivery": delivery, "asks": True}
    answer = await room.forwarding.post("send", body)
    first = answer["sent"][0]
    return {"message": first["id"], "state": first["state"]}
