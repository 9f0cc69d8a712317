"""Agents out of a plan as a file and into one, for people: the text crosses the API, the file is where the person is.

The same file and the same child as the tools `dump` and `restore` make; what the child may do is computed by the gate
from the plan, like that of any other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from planloop.app.core import Core
from planloop.app.exits import Exit, Halt
from planloop.controllers.agent.copying import dumping, gathering
from planloop.controllers.agent.copying.dumping import BadDump
from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.controllers.agent.tools.sketching import additions, sketched
from planloop.schemas import address as addresses
from planloop.schemas import pointer
from planloop.schemas.encoding import JsonObject
from planloop.schemas.patch import Patch
from planloop.server.answering import Archive, near
from planloop.server.authors import author_of
from planloop.server.forms import decision_to_json

UNNAMED: Final = "restored"  # What was a plan's own agent has no id.


def dumped(archive: Archive, plan: str, agent: str) -> JsonObject:
    """The file of `agent` as `text`, how many turns are in it, and its other `parts` in words. Raises Halt."""
    found, document = archive.get(agent), archive.get(f"plan/{plan}")
    if found is None or found.kind != "agent" or document is None:
        raise Halt(Exit.NOT_FOUND, f"no {agent} in this plan", near(archive, agent))
    dump = gathering.gathered(archive, document.spec, found)
    try:
        content = dumping.dumped(dump, archive.get_blob)
    except BadDump as fault:
        raise Halt(Exit.REFUSED, f"{agent} is not written: {fault}", "plan logs shows what it lived through") from None
    turns = len(dump.carried.get("transcript", {}))
    return {"agent": agent, "text": content.decode(), "turns": turns, "parts": list(gathering.words_of(dump))}


async def restored(core: Core, body: JsonObject) -> JsonObject:
    """Adds the agent in `text` as a child of the agent `under`; the gate's verdict with the new agent's address,
    and what came with it as `parts`, in words.

    `name` is the child's id, empty for the one that it had. Raises Halt: the file is no dump or not a whole one, there
    is such a child already.
    """
    under = str(body["under"])
    parent = core.store.view.get(under)
    if parent is None or parent.kind != "agent":
        raise Halt(Exit.NOT_FOUND, f"no {under} in this plan", "plan get agents lists those there are")
    try:
        found = dumping.read(str(body["text"]).encode())
    except BadDump as fault:
        raise Halt(Exit.INVALID, f"it cannot be restored: {fault}", "/dump FILE writes one that can") from None
    path = addresses.parse(under).path
    name = str(body.get("name", "")) or _id_of(found.name)
    plan = core.gate.present.document
    if pointer.has(plan, pointer.of_task((*path, name))):
        raise Halt(Exit.CONFLICT, f"{under} has a child `{name}` already", f"take another name: as {name}-2")
    found = replace(found, hooks=gathering.without_inherited(found, plan, path))
    fields = dumping.as_child(found, name, dumping.kept(found, core.store.put_blob))
    try:
        node = sketched(fields).node
    except ToolFailed as fault:
        raise Halt(Exit.INVALID, f"it cannot be restored: {fault}", "") from None
    ops = tuple(additions(plan, path, {name: node}))
    patch = Patch(author_of(body), ops, core.gate.present.rev, f"restores what was {found.name or 'an agent'}")
    verdict = decision_to_json(await core.gate.decide(patch))
    parts = list(gathering.words_of(found))
    return {**verdict, "agent": str(addresses.agent(*path, name)), "was": found.name, "parts": parts}


def _id_of(agent: str) -> str:
    last = agent.rpartition("/")[2]
    return last if last not in ("", addresses.ROOT) else UNNAMED
