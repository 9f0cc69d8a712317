"""The tools `recall` (an agent reads its earlier turns), `dump` (writes an agent to a file) and `restore`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from planloop.controllers.agent import agent_copy
from planloop.controllers.agent.agent_copy import InvalidDump
from planloop.controllers.agent.mail import message_policy
from planloop.controllers.agent.mail.message_policy import NotReachable
from planloop.controllers.agent.tools.delegation import add_children, read_sketch
from planloop.controllers.agent.tools.errors import ToolFailed
from planloop.controllers.agent.tools.plan import live_document
from planloop.controllers.agent.tools.tool import CallEnding, Settlement, ToolContext, success
from planloop.controllers.agent.tools.workspace import digest_at, read_file, replace_open_file
from planloop.controllers.agent.turn import call_locks, transcript
from planloop.reconciler.admission import field_ownership
from planloop.reconciler.effects.truncate import truncate_output
from planloop.schemas import json_pointer, limits
from planloop.schemas.canonical_json import decode
from planloop.schemas.resource import Resource

AROUND_CHARS = 160  # Shown before and after a hit.


def recall(
    context: ToolContext,
    turn: Annotated[int | None, Field(ge=1)] = None,
    text: Annotated[str | None, Field(min_length=1)] = None,
) -> Settlement:
    """Read your earlier turns: turn number `turn` in full, or the places where `text` occurs."""
    digests = transcript.original_turns(context.seen.status.memory.transcript, lambda digest: _content(context, digest))
    if turn is not None:
        return Settlement(success(_turn(context, digests, turn)))
    if text is None:
        numbers = ", ".join(str(int(key)) for key in digests)
        return Settlement(success(f"your turns so far: {numbers or 'none'}"))
    return Settlement(success(_hits(context, digests, text)))


def _turn(context: ToolContext, digests: dict[str, str], turn: int) -> str:
    found = next((digest for key, digest in digests.items() if int(key) == turn), None)
    if found is None:
        raise ToolFailed("NoSuchTurn", f"turn {turn} is not one of your {len(digests)} ended turns")
    return truncate_output(_text(context, found).encode(), limits.RECALL_BYTES)


def _hits(context: ToolContext, digests: dict[str, str], text: str) -> str:
    wanted, lines = text.casefold(), []
    for key, digest in digests.items():
        content = _text(context, digest)
        at = content.casefold().find(wanted)
        if at >= 0:
            shown = content[max(0, at - AROUND_CHARS) : at + len(text) + AROUND_CHARS].replace("\n", " ")
            lines.append(f"turn {int(key)}: …{shown}…")
        if len(lines) >= limits.RECALL_HITS_MAX:
            lines.append("[there may be more hits: search for a longer text]")
            break
    return "\n".join(lines) or f"`{text}` does not occur in your turns"


def _text(context: ToolContext, digest: str) -> str:
    return "\n\n".join(transcript.message_line(decode(line)) for line in _content(context, digest).split(b"\n"))


def _content(context: ToolContext, digest: str) -> bytes:
    content = context.services.store.get_blob(digest)
    if content is None:
        raise ToolFailed("Gone", "the content of this turn is no longer stored")
    return content


DumpPathText = Annotated[str, Field(min_length=1)]


async def dump(context: ToolContext, path: DumpPathText, name: str = "") -> Settlement:
    """Write an agent to a file: you, or one below you by id or path. `restore` reads it.

    It has transcript, memory and plan, also of the agents below, with hooks that you attached to them.
    """
    view = context.services.store.view
    agent = _below(context, name) if name else view.get(context.agent)
    assert agent is not None, "an agent that makes a call exists"
    dump = agent_copy.dump_of_agent(view, live_document(context), agent, lambda at: _attached_by_it(context, at))
    try:
        content = agent_copy.encode_dump(dump, context.services.store.get_blob)
    except InvalidDump as error:
        raise ToolFailed("TooLarge", str(error)) from None
    with context.workspace.spot(path, "write", "dump", makes_folders=True) as spot:
        if (refused := call_locks.write_error(context, context.workspace.locked(spot.path))) is not None:
            return refused
        if not replace_open_file(spot, content, digest_at(spot, limits.DUMP_BYTES_MAX), context.spec.op):
            raise ToolFailed("Changed", f"`{spot.path}` was changed meanwhile. Try again")
        turns = len(dump.carried.get("transcript", {}))
        with_it = "".join(f", {each}" for each in agent_copy.describe_dump(dump))
        return Settlement(
            success(f"{agent.address} written to `{spot.path}`: {turns} turns{with_it}, {len(content)} bytes")
        )


async def restore(
    context: ToolContext,
    path: DumpPathText,
    id: Annotated[str, Field(min_length=1)],  # noqa: A002 - the argument's name
    goal: str = "",
    prompt: str = "",
    agent: str = "",
) -> CallEnding:
    """Add a child with the history of the agent in a `dump` file and the rights of any child of yours.

    Default goal and agent (a name): those in the file. With `prompt`, wait for its answer.
    """
    with context.workspace.spot(path, "read", "restore") as spot:
        content = read_file(spot, limits.DUMP_BYTES_MAX)
    try:
        found = agent_copy.decode_dump(content)
    except InvalidDump as error:
        raise ToolFailed("BadDump", f"`{path}`: {error}") from None
    found = replace(found, hooks=agent_copy.own_hooks(found, live_document(context), context.task_path))
    sources = agent_copy.store_carried(found, context.services.store.put_blob)
    fields = agent_copy.restore_arguments(found, id, sources, goal, agent)
    if prompt:
        fields["prompt"] = prompt
    return await add_children(context, [read_sketch(fields)])


def _attached_by_it(context: ToolContext, at: tuple[str, ...]) -> bool:
    """Whether a hook may be in an agent's file: only hooks that the caller attached to agents below itself.

    Agents must not read about other hooks, which watch a restored copy anyway.
    """
    own = json_pointer.task_pointer(context.task_path)
    if at[: len(own)] != own or at[len(own) : len(own) + 1] != ("tasks",):
        return False
    plan = context.services.store.view.get(context.services.plan)
    stamp = None if plan is None else field_ownership.last_change(plan.status.get("stamps", {}), at)
    return stamp is not None and stamp.author == context.author


def _below(context: ToolContext, name: str) -> Resource:
    try:
        return message_policy.agent_below(context.services.store.view, context.agent, name)
    except NotReachable as error:
        raise ToolFailed(error.reason, str(error)) from None
