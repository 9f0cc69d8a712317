"""What an agent begins with that is a copy of another: transcript and memory, never rights, budget or mail.

Read when its first incarnation begins, and kept in its own status, so that a later one begins with the same though the
one it was copied from has gone on or is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from planloop.controllers.agent.copying import dumping
from planloop.controllers.agent.copying.dumping import BadDump
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.status import boxed
from planloop.reconciler.storing.store import View
from planloop.schemas.agent import DUMP, KEPT_ORIGIN
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.message import Message

Blobs: TypeAlias = Callable[[str], bytes | None]

CARRIED: Final = ("memory", "transcript", "summary")
"""What of a status is an agent's experience. Replies to come, mail, claims and counts are its own."""


@frozen
class Origin:
    """`merge` goes into the status of the new incarnation; `blobs` are what it refers to."""

    merge: JsonObject
    blobs: tuple[str, ...] = ()


NO_ORIGIN: Final = Origin({})


def origin_of(seen: Observed, view: View, get_blob: Blobs) -> Origin:
    """What the incarnation that begins now takes over; nothing for agents that are no copies."""
    source = seen.spec.source
    if not source:
        return NO_ORIGIN
    kept = seen.resource.status.get("origin")
    try:
        carried = kept[0] if kept else _carried(source, view, get_blob)
        words = f"You begin as a copy of {_named(source)}: what it lived through is yours to remember, its task is not."
    except BadDump as fault:
        carried, words = {}, f"You were to begin as a copy of {_named(source)}, but {fault}."
    chunks: JsonObject = carried.get("transcript", {})
    message = Message(
        f"origin.{seen.resource.uid}", "state", "controller:agent", seen.resource.address, words, seen.now
    )
    merge: JsonObject = {
        **{name: value for name, value in carried.items() if name in CARRIED},
        "turn": max((int(key) for key in chunks), default=0),
        "origin": boxed(carried),
        "inbox": {message.id: message.to_json()},
    }
    return Origin(merge, tuple(str(chunk["blob"]) for chunk in chunks.values()))


def carried_of(status: JsonObject) -> JsonObject:
    """The experience in an agent's status."""
    return {name: status[name] for name in CARRIED if status.get(name) is not None}


def _carried(source: str, view: View, get_blob: Blobs) -> JsonObject:
    if source == KEPT_ORIGIN:
        raise BadDump("it had left the plan before")
    if source.startswith(DUMP):
        return dumping.carried(get_blob(source.removeprefix(DUMP)))
    agent = view.get(source)
    if agent is None:
        raise BadDump("it is gone")
    return carried_of(agent.status)


def _named(source: str) -> str:
    if source == KEPT_ORIGIN:
        return "an agent that has left the plan"
    return "what was restored from a file" if source.startswith(DUMP) else source
