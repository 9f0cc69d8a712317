"""`dump` and `restore`: an agent to a file of the workspace and back, as a new child."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from controllers.agent.calling import holding
from controllers.agent.copying import dumping, origins
from controllers.agent.copying.dumping import BadDump
from controllers.agent.mail import topology
from controllers.agent.mail.topology import NotReachable
from controllers.agent.tools.delegating import add
from controllers.agent.tools.faults import ToolFailed
from controllers.agent.tools.patching import document
from controllers.agent.tools.sketching import sketched
from controllers.agent.tools.tool import Context, Ending, Settlement, ok
from controllers.agent.tools.workspace import digest_at, read_file, replace_file
from schemas import limits
from schemas.resource import Resource

PathText = Annotated[str, Field(min_length=1, description="Relative to your workspace.")]


async def dump(
    context: Context,
    path: PathText,
    name: Annotated[str, Field(description="An agent below you, by its id or path; blank: you yourself.")] = "",
) -> Settlement:
    """Writes an agent to a file: its transcript, its memory and what the plan says of it. `restore` brings it back."""
    view = context.world.store.view
    agent = _below(context, name) if name else view.get(context.agent)
    assert agent is not None, "an agent that makes a call is there"
    carried = origins.carried_of(agent.status)
    written = dumping.written_of(document(context), agent.address)
    if isinstance(written, dict):  # What watches an agent is not for agents to read; a copy is watched by all the same.
        written = {key: value for key, value in written.items() if key != "hooks"}
    task = view.get(str(agent.spec["task"]))
    try:
        content = dumping.dumped(agent, task, written, carried, context.world.store.get_blob)
    except BadDump as fault:
        raise ToolFailed("TooLarge", str(fault)) from None
    with context.workspace.spot(path, "write", "dump", makes_folders=True) as spot:
        if (refused := holding.write_fault(context, context.workspace.locked(spot.path))) is not None:
            return refused
        if not replace_file(spot, content, digest_at(spot, limits.DUMP_BYTES_MAX), context.spec.op):
            raise ToolFailed("Changed", f"`{spot.path}` was changed meanwhile: try again")
        turns = len(carried.get("transcript", {}))
        return Settlement(ok(f"{agent.address} is in `{spot.path}`: {turns} turns, {len(content)} bytes"))


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
    source = dumping.kept(found, context.world.store.put_blob)
    fields = dumping.as_child(found, id, source, goal, agent)
    if prompt:
        fields["prompt"] = prompt
    return await add(context, [sketched(fields)])


def _below(context: Context, name: str) -> Resource:
    try:
        return topology.below(context.world.store.view, context.agent, name)
    except NotReachable as error:
        raise ToolFailed(error.reason, str(error)) from None
