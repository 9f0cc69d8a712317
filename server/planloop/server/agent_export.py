"""Export an agent of a plan as text, and restore one from text.

The same file and the same child as the tools `dump` and `restore` make; what the child may do is computed by the gate
from the plan, like that of any other.
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

UNNAMED_AGENT: Final = "restored"  # What was a plan's own agent has no id.


def export_agent(archive: PlanReader, plan: str, agent: str) -> JsonObject:
    """The file of `agent` as `text`, how many turns are in it, and its other `parts` in words. Raises CommandError."""
    found, document = archive.get(agent), archive.get(f"plan/{plan}")
    if found is None or found.kind != "agent" or document is None:
        raise CommandError(ExitCode.NOT_FOUND, f"no {agent} in this plan", near_addresses(archive, agent))
    dump = agent_copy.dump_of_agent(archive, document.spec, found)
    try:
        content = agent_copy.encode_dump(dump, archive.get_blob)
    except InvalidDump as fault:
        raise CommandError(
            ExitCode.REFUSED, f"{agent} is not written: {fault}", "plan logs shows what it lived through"
        ) from None
    turns = len(dump.carried.get("transcript", {}))
    return {"agent": agent, "text": content.decode(), "turns": turns, "parts": list(agent_copy.describe_dump(dump))}


async def restore_agent(core: OpenedPlan, body: JsonObject) -> JsonObject:
    """Adds the agent in `text` as a child of the agent `under`; the gate's verdict with the new agent's address,
    and what came with it as `parts`, in words.

    `name` is the child's id, empty for the one that it had. Raises CommandError: the file is no dump or not a whole
    one, there is such a child already.
    """
    under = str(body["under"])
    parent = core.store.view.get(under)
    if parent is None or parent.kind != "agent":
        raise CommandError(ExitCode.NOT_FOUND, f"no {under} in this plan", "plan get agents lists those there are")
    try:
        found = agent_copy.decode_dump(str(body["text"]).encode())
    except InvalidDump as fault:
        raise CommandError(
            ExitCode.INVALID, f"it cannot be restored: {fault}", "/dump FILE writes one that can"
        ) from None
    path = addresses.parse_address(under).path
    name = str(body.get("name", "")) or _id_of(found.name)
    plan = core.gate.present.document
    if json_pointer.has_value(plan, json_pointer.task_pointer((*path, name))):
        raise CommandError(
            ExitCode.CONFLICT, f"{under} has a child `{name}` already", f"take another name: as {name}-2"
        )
    found = replace(found, hooks=agent_copy.own_hooks(found, plan, path))
    fields = agent_copy.restore_arguments(found, name, agent_copy.store_carried(found, core.store.put_blob))
    try:
        node = read_sketch(fields).node
    except ToolFailed as fault:
        raise CommandError(ExitCode.INVALID, f"it cannot be restored: {fault}", "") from None
    ops = tuple(addition_ops(plan, path, {name: node}))
    patch = Patch(author_of(body), ops, core.gate.present.rev, f"restores what was {found.name or 'an agent'}")
    verdict = decision_to_json(await core.gate.decide(patch))
    parts = list(agent_copy.describe_dump(found))
    return {**verdict, "agent": str(addresses.agent_address(*path, name)), "was": found.name, "parts": parts}


def _id_of(agent: str) -> str:
    last = agent.rpartition("/")[2]
    return last if last not in ("", addresses.ROOT) else UNNAMED_AGENT
