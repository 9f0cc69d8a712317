"""Export an agent of a plan as text, and restore one from text.

The tools `dump` and `restore` do the same. The gate computes the rights of a restored child from the plan, like those
of any child.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.controllers.agent import agent_copy
from planloop.controllers.agent.agent_copy import InvalidDump
from planloop.controllers.agent.tools.delegation import addition_ops, read_sketch
from planloop.controllers.agent.tools.errors import ToolFailed
from planloop.schemas import address as addresses
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.patch import Patch
from planloop.server.opened_plan import OpenedPlan
from planloop.server.payloads import author_of, decision_to_json
from planloop.server.plan_reader import PlanReader, near_addresses

UNNAMED_AGENT: Final = "restored"  # The id for a restored root agent, which has none.


def export_agent(archive: PlanReader, plan: str, agent: str) -> JsonObject:
    """Return the dump of `agent` as `text`, its number of turns, and its other `parts` as text. Raises CommandError."""
    found, document = archive.get(agent), archive.get(f"plan/{plan}")
    if found is None or found.kind != "agent" or document is None:
        raise CommandError(ExitCode.NOT_FOUND, f"no {agent} in this plan", near_addresses(archive, agent))
    dump = agent_copy.dump_of_agent(archive, document.spec, found)
    try:
        content = agent_copy.encode_dump(dump, archive.get_blob)
    except InvalidDump as error:
        raise CommandError(
            ExitCode.REFUSED, f"cannot dump {agent}: {error}", f"plan logs {agent} shows its conversation"
        ) from None
    turns = len(dump.carried.get("transcript", {}))
    return {"agent": agent, "text": content.decode(), "turns": turns, "parts": list(agent_copy.describe_dump(dump))}


async def restore_agent(core: OpenedPlan, body: JsonObject) -> JsonObject:
    """Add the agent in `text` as a child of the agent `under`.

    `name` is the child's id, by default its old one. Returns the gate's verdict with the new agent's address and its
    `parts` as text. Raises CommandError if the text is not a complete dump or the child exists already.
    """
    under = str(body["under"])
    parent = core.store.view.get(under)
    if parent is None or parent.kind != "agent":
        raise CommandError(ExitCode.NOT_FOUND, f"no {under} in this plan", "plan get agents lists them")
    try:
        found = agent_copy.decode_dump(str(body["text"]).encode())
    except InvalidDump as error:
        raise CommandError(
            ExitCode.INVALID, f"cannot restore the file: {error}", "write one with /dump FILE in a chat"
        ) from None
    path = addresses.parse_address(under).path
    name = str(body.get("name", "")) or _id_of(found.name)
    plan = core.gate.present.document
    if json_pointer.has_value(plan, json_pointer.task_pointer((*path, name))):
        raise CommandError(
            ExitCode.CONFLICT, f"{under} has a child `{name}` already", f"choose another name: as {name}-2"
        )
    found = replace(found, hooks=agent_copy.own_hooks(found, plan, path))
    fields = agent_copy.restore_arguments(found, name, agent_copy.store_carried(found, core.store.put_blob))
    try:
        node = read_sketch(fields).node
    except ToolFailed as error:
        raise CommandError(ExitCode.INVALID, f"cannot restore the file: {error}", "") from None
    ops = tuple(addition_ops(plan, path, {name: node}))
    patch = Patch(author_of(body), ops, core.gate.present.rev, f"restores {found.name or 'an agent'}")
    verdict = decision_to_json(await core.gate.decide(patch))
    parts = list(agent_copy.describe_dump(found))
    return {**verdict, "agent": str(addresses.agent_address(*path, name)), "was": found.name, "parts": parts}


def _id_of(agent: str) -> str:
    last = agent.rpartition("/")[2]
    return last if last not in ("", addresses.ROOT) else UNNAMED_AGENT
