"""Requests of operators other than edits: message agents, move the session, resolve a conflict, break a lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import anyio
from anyio import to_thread

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.controllers.agent import session
from planloop.controllers.agent.conflicts import resolution
from planloop.controllers.agent.conflicts.resolution import InvalidResolution, ResolutionRequest
from planloop.controllers.agent.mail import message_policy
from planloop.controllers.agent.services import ToolServers
from planloop.controllers.shared.leases.grants import break_lock
from planloop.reconciler.store.log_reader import LogReader, RecordQuery
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.log.patch import Patch, PatchAccepted
from planloop.schemas.log.record import Change, RecordDraft
from planloop.schemas.objects.mcp import ServerFailed
from planloop.schemas.objects.message import Message
from planloop.schemas.objects.plan import primary_agent
from planloop.server.opened_plan import OpenedPlan
from planloop.server.payloads import author_of, verdict_to_json

# The session: the agent that an operator talks with if a command names none.

AGENTS_HINT = "plan get agents lists them"


async def move_session(core: OpenedPlan, body: JsonObject) -> JsonObject:
    """Make the agent at `to`, or the agent of the hook at `to`, the primary agent. `was` is the previous one or empty.

    Raises CommandError: NOT_FOUND if the agent does not exist, or if the hook has none.
    """
    view, to = core.store.view, str(body["to"])
    hook = view.get(to) if to.startswith("hook/") else None
    if hook is not None:
        to = str(hook.spec["mind"].get("address", to))
    agent, plan = view.get(to), view.get(f"plan/{core.place.name}")
    if agent is None or agent.deleting or plan is None:
        raise CommandError(ExitCode.NOT_FOUND, f"no agent {to} in this plan", AGENTS_HINT)
    was = primary_agent(plan.status)
    changes = session.session_move_changes(view, plan.address, to, str(author_of(body)))
    rev = view.rev
    if changes:
        rev = core.store.propose(RecordDraft("session.moved", str(author_of(body)), to, changes, {"was": was}))
    await core.store.flush(rev)
    return {"rev": rev, "primary": to, "was": was}


# Prompts of tool servers: requested from the running server for the agent that the text is sent to.


async def prompt_text(servers: Callable[[], ToolServers], body: JsonObject) -> JsonObject:
    """Return the `text` of the prompt `name` of `server` with `arguments`. Raises CommandError."""
    server, arguments = str(body["server"]), {str(key): str(value) for key, value in body.get("arguments", {}).items()}
    look = f"plan describe mcp/{server}; the server runs only while an agent that may use it is active"
    try:
        with anyio.fail_after(limits.PROMPT_WAIT_S):
            text = await servers().prompt(server, str(body["name"]), arguments, by=str(body["agent"]))
    except TimeoutError:
        raise CommandError(
            ExitCode.TIMEOUT, f"mcp/{server} did not answer within {limits.PROMPT_WAIT_S:.0f} s", look
        ) from None
    except ServerFailed as error:
        code = ExitCode.NOT_FOUND if error.reason == "NoServer" else ExitCode.FAILED
        raise CommandError(code, f"mcp/{server} returned no prompt ({error.reason}): {error}", look) from None
    return {"text": text}


# Messages of operators follow the same rules as those of agents. Each receiver has a separate record.

DELIVERIES = frozenset({"queue", "steer", "interrupt"})


async def send_message(core: OpenedPlan, body: JsonObject) -> JsonObject:
    """Deliver `text` to each agent in `to` (one or a list), or to none if one of them cannot receive it.

    `asks` requests an answer: it is in the record whose data has the message's id under `answered`. Raises
    CommandError: NOT_FOUND if an agent does not exist, REFUSED if, for example, its inbox is full.
    """
    receivers = [body["to"]] if isinstance(body["to"], str) else list(dict.fromkeys(body["to"]))
    messages = [_message(core, body, str(receiver)) for receiver in receivers]
    if not body.get("key"):
        return await _sent(core, messages, {})
    async with core.sending:  # A concurrent request with the same key must find this one's messages.
        return await _sent(core, messages, await _known(core, messages[0]))


async def _sent(core: OpenedPlan, messages: list[Message], known: Mapping[str, str]) -> JsonObject:
    """Send to all receivers that have not got the message before (`known`)."""
    wanted = [(one, () if one.receiver in known else _delivered(core, one)) for one in messages]
    told: list[Json] = []
    rev = core.store.view.rev
    for message, changes in wanted:
        if changes:
            data: JsonObject = {"message": message.to_json()}
            rev = core.store.propose(RecordDraft("message.sent", message.sender, message.receiver, changes, data))
        agent = core.store.view.get(message.receiver)
        state = agent.state if agent is not None else "gone"
        name = known.get(message.receiver, message.id)
        told.append({"to": message.receiver, "id": name, "state": state, "is_new": bool(changes)})
    await core.store.flush(rev)
    first = told[0] if told else {"state": "gone"}
    return {"rev": rev, "state": first["state"], "sent": told}


def _message(core: OpenedPlan, body: JsonObject, receiver: str) -> Message:
    delivery = body.get("delivery", "queue")
    if delivery not in DELIVERIES:
        raise CommandError(
            ExitCode.USAGE, f"unknown delivery `{delivery}`", f"use one of {', '.join(sorted(DELIVERIES))}"
        )
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


async def _known(core: OpenedPlan, like: Message) -> dict[str, str]:
    """Return the receivers of an earlier message with the sender and key of `like`, with the message's id."""
    # Flush first, because a sender may repeat a message before the first one is durable.
    await core.store.flush(core.store.view.rev)
    return await to_thread.run_sync(_sent_like, core.log, like)


def _sent_like(log: LogReader, like: Message) -> dict[str, str]:
    out: dict[str, str] = {}
    query = RecordQuery(types=frozenset({"message.sent"}), containing=(encode_text(like.idempotency),))
    for entry in log.records(query):
        sent = entry.record.draft.data.get("message")
        if sent is not None and (sent["sender"], sent.get("idempotency")) == (like.sender, like.idempotency):
            out.setdefault(str(sent["receiver"]), str(sent["id"]))
    return out


def _delivered(core: OpenedPlan, message: Message) -> tuple[Change, ...]:
    changes = message_policy.delivery_changes(core.store.view, message)
    if isinstance(changes, message_policy.DeliveryRefused):
        code = ExitCode.NOT_FOUND if changes.reason == "NoSuchAgent" else ExitCode.REFUSED
        raise CommandError(
            code, f"not delivered to {message.receiver} ({changes.reason}): {changes.message}", AGENTS_HINT
        )
    return changes


# The resolution of a conflict is a patch whose author is the operator, together with the changes that it causes.

CODES = {"NotFound": ExitCode.NOT_FOUND, "Resolved": ExitCode.CONFLICT, "BadArguments": ExitCode.USAGE}


async def resolve_conflict(core: OpenedPlan, body: JsonObject) -> JsonObject:
    """Resolve a `conflict` as `how` says, optionally with `for` and `plan`. Raises CommandError."""
    view, plan = core.store.view, core.plan
    request = ResolutionRequest(
        str(body["conflict"]), str(body["how"]), str(body.get("for") or ""), str(body.get("plan") or "")
    )
    try:
        made = resolution.plan_resolution(
            view, {} if plan is None else plan.spec, request, author_of(body), core.clock.now()
        )
    except InvalidResolution as error:
        raise CommandError(
            CODES.get(error.reason, ExitCode.REFUSED), str(error), "plan get conflicts lists them"
        ) from None
    outcome = f"resolved as `{made.ruling.how}` for {made.ruling.for_agent.partition('/')[2]}"
    if made.is_again:
        return verdict_to_json(PatchAccepted(view.rev, (f"already {outcome}",)), (), is_changed=False)
    patch = Patch(author_of(body), made.ops, view.rev, f"{request.conflict}: {outcome}", is_approved=True)
    verdict = await core.gate.rule(patch, made.changes, made.also)
    return verdict_to_json(verdict, ()) | {"said": outcome}


# The record of a broken lock has the operator as its actor, and each holder gets a message.


async def unlock_for_person(core: OpenedPlan, body: JsonObject) -> JsonObject:
    """Take `lock` away from all its holders. Raises CommandError: NOT_FOUND if it has none."""
    view, address, by = core.store.view, str(body["lock"]), str(author_of(body))
    reason, now = str(body.get("reason", "")), core.clock.now()
    made = break_lock(view, address.partition("/")[2], by, reason, now)
    if not made.owners:
        what = f"{address} is free" if view.get(address) is not None else f"no {address} in this plan"
        raise CommandError(ExitCode.NOT_FOUND, what, "plan get locks lists locks and their holders")
    told = [change for owner in made.owners for change in _lock_notices(core, owner, by, (address, reason, now))]
    data: JsonObject = {"owners": list(made.owners), "why": "broken", "reason": reason}
    rev = await core.store.append(RecordDraft("lock.fenced", by, address, (*made.changes, *told), data))
    return {
        "rev": rev,
        "owners": list(made.owners),
        "commands": [each for each in made.owners if _is_command(view, each)],
    }


def _is_command(view: View, owner: str) -> bool:
    """Return whether the owner is a task with a command. A lock cannot stop the writes of a command."""
    found = view.get(owner)
    return found is not None and found.kind == "task" and found.spec["work"]["kind"] == "run"


def _lock_notices(core: OpenedPlan, owner: str, by: str, broken_lock: tuple[str, str, float]) -> tuple[Change, ...]:
    """Return the message to the agent of a former holder. It does not wake the agent: it matters at the next write."""
    lock, reason, now = broken_lock
    agent = f"agent/{owner.partition('/')[2]}"
    why = f": {reason}" if reason else ""
    text = f"An operator took {lock} away from you{why}. Writes to its files are refused until you lock them again."
    message = Message(core.ids.mint(), "control", by, agent, text, now, delivery="steer", wakes=False)
    found = message_policy.delivery_changes(core.store.view, message)
    return () if isinstance(found, message_policy.DeliveryRefused) else found
