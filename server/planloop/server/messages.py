"""Messages from people: into inboxes by the same rules as everybody's, told in one record for each receiver."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from anyio import to_thread

from planloop.app.core import Core
from planloop.app.exits import Exit, Halt
from planloop.controllers.agent.mail import inbox
from planloop.reconciler.storing import sqlite_log
from planloop.schemas.encoding import Json, JsonObject, encode_text
from planloop.schemas.message import Message
from planloop.schemas.record import Change, Draft
from planloop.server.authors import author_of

DELIVERIES = frozenset({"queue", "steer", "interrupt"})
WHERE = "plan get agents lists whom one can write to"


async def send(core: Core, body: JsonObject) -> JsonObject:
    """Delivers `text` to each agent in `to` (one, or a list), or to none when one of them cannot have it.

    `asks` waits for an answer: it is told in the record whose data has the message's id under `answered`. Raises Halt
    with the reason: NOT_FOUND for an agent that there is not, REFUSED for a full inbox and the like.
    """
    receivers = [body["to"]] if isinstance(body["to"], str) else list(dict.fromkeys(body["to"]))
    messages = [_message(core, body, str(receiver)) for receiver in receivers]
    if not body.get("key"):
        return await _sent(core, messages, {})
    async with core.sending:  # Who sends it once more at the same time finds what is sent here.
        return await _sent(core, messages, await _known(core, messages[0]))


async def _sent(core: Core, messages: list[Message], known: Mapping[str, str]) -> JsonObject:
    """Sends to those who are not `known` to have it."""
    wanted = [(one, () if one.receiver in known else _delivered(core, one)) for one in messages]
    told: list[Json] = []
    rev = core.store.view.rev
    for message, changes in wanted:
        if changes:
            data: JsonObject = {"message": message.to_json()}
            rev = core.store.propose(Draft("message.sent", message.sender, message.receiver, changes, data))
        agent = core.store.view.get(message.receiver)
        state = agent.state if agent is not None else "gone"
        name = known.get(message.receiver, message.id)
        told.append({"to": message.receiver, "id": name, "state": state, "is_new": bool(changes)})
    await core.store.flush(rev)
    first = told[0] if told else {"state": "gone"}
    return {"rev": rev, "state": first["state"], "sent": told}


def _message(core: Core, body: JsonObject, receiver: str) -> Message:
    delivery = body.get("delivery", "queue")
    if delivery not in DELIVERIES:
        raise Halt(Exit.USAGE, f"`{delivery}` is no way to deliver", f"one of {', '.join(sorted(DELIVERIES))}")
    now = core.clock.now()
    expires_s = body.get("expires_s")
    return Message(
        id=core.ids.mint(),
        kind="chat",
        sender=str(author_of(body)),
        receiver=receiver,
        body=str(body["text"]),
        sent_at=now,
        delivery=delivery,
        asks=bool(body.get("asks")),
        expires_at=None if expires_s is None else now + float(expires_s),
        idempotency=str(body.get("key", "")),
        trust="untrusted" if body.get("untrusted") else "trusted",
    )


async def _known(core: Core, like: Message) -> dict[str, str]:
    """Who was sent a message with the sender and the key of `like` before, and the id it has."""
    # What was proposed a moment ago is read, too: its sender may not have waited for the answer.
    await core.store.flush(core.store.view.rev)
    return await to_thread.run_sync(_sent_like, core.place.folder, like)


def _sent_like(folder: Path, like: Message) -> dict[str, str]:
    named = encode_text(like.idempotency)
    out: dict[str, str] = {}
    with sqlite_log.reading(folder) as connection:
        for row in sqlite_log.rows_naming(connection, named):
            draft = sqlite_log.to_record(row[5], row[0]).draft
            sent = draft.data.get("message") if draft.type == "message.sent" else None
            if sent is not None and (sent["sender"], sent.get("idempotency")) == (like.sender, like.idempotency):
                out.setdefault(str(sent["receiver"]), str(sent["id"]))
    return out


def _delivered(core: Core, message: Message) -> tuple[Change, ...]:
    changes = inbox.delivery(core.store.view, message)
    if isinstance(changes, inbox.Refusal):
        code = Exit.NOT_FOUND if changes.reason == "NoSuchAgent" else Exit.REFUSED
        raise Halt(code, f"not delivered to {message.receiver} ({changes.reason}): {changes.message}", WHERE)
    return changes
