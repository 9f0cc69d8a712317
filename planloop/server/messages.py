"""Messages from people: into inboxes by the same rules as everybody's, told in one record for each receiver."""

from __future__ import annotations

from controllers.agent.mail import inbox
from planloop.core import Core
from planloop.exits import Exit, Halt
from schemas.encoding import Json, JsonObject
from schemas.message import Message
from schemas.patch import HUMAN_CLI
from schemas.record import Change, Draft

DELIVERIES = frozenset({"queue", "steer", "interrupt"})
PAGE = 1_000  # Records read at once.
WHERE = "plan get agents lists whom one can write to"


async def send(core: Core, body: JsonObject) -> JsonObject:
    """Delivers `text` to each agent in `to` (one, or a list), or to none when one of them cannot have it.

    `asks` waits for an answer: it is told in the record whose data has the message's id under `answered`. Raises Halt
    with the reason: NOT_FOUND for an agent that there is not, REFUSED for a full inbox and the like.
    """
    receivers = [body["to"]] if isinstance(body["to"], str) else list(dict.fromkeys(body["to"]))
    messages = [_message(core, body, str(receiver)) for receiver in receivers]
    known = await _known(core, messages[0]) if body.get("key") else set()
    wanted = [(one, () if one.receiver in known else _delivered(core, one)) for one in messages]
    told: list[Json] = []
    rev = core.store.view.rev
    for message, changes in wanted:
        if changes:
            data: JsonObject = {"message": message.to_json()}
            rev = core.store.propose(Draft("message.sent", str(HUMAN_CLI), message.receiver, changes, data))
        agent = core.store.view.get(message.receiver)
        state = agent.state if agent is not None else "gone"
        told.append({"to": message.receiver, "id": message.id, "state": state, "is_new": bool(changes)})
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
        sender=f"human:{body.get('by', 'cli')}",
        receiver=receiver,
        body=str(body["text"]),
        sent_at=now,
        delivery=delivery,
        asks=bool(body.get("asks")),
        expires_at=None if expires_s is None else now + float(expires_s),
        idempotency=str(body.get("key", "")),
        trust="untrusted" if body.get("untrusted") else "trusted",
    )


async def _known(core: Core, like: Message) -> set[str]:
    """Who was sent a message with the sender and the key of `like` before. Few have a key, so the log is read."""
    out: set[str] = set()
    after = 0
    while page := await core.store.log(after, PAGE):
        for record in page:
            sent = record.draft.data.get("message") if record.draft.type == "message.sent" else None
            if sent is not None and (sent["sender"], sent.get("idempotency")) == (like.sender, like.idempotency):
                out.add(str(sent["receiver"]))
        after = page[-1].rev
    return out


def _delivered(core: Core, message: Message) -> tuple[Change, ...]:
    changes = inbox.delivery(core.store.view, message)
    if isinstance(changes, inbox.Refusal):
        code = Exit.NOT_FOUND if changes.reason == "NoSuchAgent" else Exit.REFUSED
        raise Halt(code, f"not delivered to {message.receiver} ({changes.reason}): {changes.message}", WHERE)
    return changes
