"""`dump` and `restore`: an agent to a file of the workspace and back, as a new child."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from planloop.controllers.agent.calling import holding
from planloop.controllers.agent.copying import dumping, gathering
from planloop.controllers.agent.copying.dumping import BadDump
from planloop.controllers.agent.mail import topology
from planloop.controllers.agent.mail.topology import NotReachable
from planloop.controllers.agent.tools.delegating import add
from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.controllers.agent.tools.patching import document
from planloop.controllers.agent.tools.sketching import sketched
from planloop.controllers.agent.tools.tool import Context, Ending, Settlement, ok
from planloop.controllers.agent.tools.workspace import digest_at, read_file, replace_file
from planloop.reconciler.admitting import ownership
from planloop.schemas import limits, pointer
from planloop.schemas.resource import Resource

PathText = Annotated[str, Field(min_length=1, description="Relative to your workspace.")]


async def dump(
    context: Context,
    path: PathText,
    name: Annotated[str, Field(description="An agent below you, by its id or path; blank: you yourself.")] = "",
) -> Settlement:
    """Writes an agent to a file: its transcript, its memory and what the plan says of it. `restore` brings it back.

    The agents below it go along, with the hooks that you attached to them.
    """
    view = context.world.store.view
    agent = _below(context, name) if name else view.get(context.agent)
    assert agent is not None, "an agent that makes a call is there"
    dump = gathering.gathered(view, document(context), agent, lambda at: _is_its_word(context, at))
    try:
        content = dumping.dumped(dump, context.world.store.get_blob)
    except BadDump as fault:
        raise ToolFailed("TooLarge", str(fault)) from None
    with context.workspace.spot(path, "write", "dump", makes_folders=True) as spot:
        if (refused := holding.write_fault(context, context.workspace.locked(spot.path))) is not None:
            return refused
        if not replace_file(spot, content, digest_at(spot, limits.DUMP_BYTES_MAX), context.spec.op):
            raise ToolFailed("Changed", f"`{spot.path}` was changed meanwhile: try again")
        turns = len(dump.carried.get("transcript", {}))
        with_it = "".join(f", {each}" for each in gathering.words_of(dump))
        return Settlement(ok(f"{agent.address} is in `{spot.path}`: {turns} turns{with_it}, {len(content)} bytes"))


async def restore(
    context: Context,
    path: PathText,
    id: Annotated[str, Field(min_length=1, description="The name of the new child.")],  # noqa: A002 - what models call it
    goal: Annotated[str, Field(description="What it is to do; blank: what it had.")] = "",
    prompt: Annotated[str, Field(description="What to do or answer at once; its answer is your result.")] = "",
    agent: Annotated[str, Field(description="Who it is to be, by name; blank: what the file says it was.")] = "",
) -> Ending:
    """Makes a child that begins with what the agent in a file lived through, with the rights of any child of yours."""
    with context.workspace.spot(path, "read", "restore") as spot:
        content = read_file(spot, limits.DUMP_BYTES_MAX)
    try:
        found = dumping.read(content)
    except BadDump as fault:
        raise ToolFailed("BadDump", f"`{path}`: {fault}") from None
    found = replace(found, hooks=gathering.without_inherited(found, document(context), context.task_path))
    sources = dumping.kept(found, context.world.store.put_blob)
    fields = dumping.as_child(found, id, sources, goal, agent)
    if prompt:
        fields["prompt"] = prompt
    return await add(context, [sketched(fields)])


def _is_its_word(context: Context, at: tuple[str, ...]) -> bool:
    """Whether a hook may be in an agent's file: one that it attached to an agent below itself.

    What else watches an agent is not for agents to read; a copy is watched by it all the same.
    """
    own = pointer.of_task(context.task_path)
    if at[: len(own)] != own or at[len(own) : len(own) + 1] != ("tasks",):
        return False
    plan = context.world.store.view.get(context.world.plan)
    stamp = None if plan is None else ownership.last_change(plan.status.get("stamps", {}), at)
    return stamp is not None and stamp.author == context.author


def _below(context: Context, name: str) -> Resource:
    try:
        return topology.below(context.world.store.view, context.agent, name)
    except NotReachable as error:
        raise ToolFailed(error.reason, str(error)) from None
