"""Commands of a conversation that look: at agents, the plan, what a save would do, logs, budgets."""

from __future__ import annotations

from collections.abc import Iterator

from planloop.app import pointing
from planloop.app.exits import Exit, Halt
from planloop.app.following import all_records
from planloop.cli.chatting.lines import Command
from planloop.cli.chatting.room import Room, name_of
from planloop.cli.rendering import differences, explanations, objects, transcripts, trees
from planloop.cli.rendering.budgets import Costs
from planloop.schemas import pointer
from planloop.schemas.encoding import JsonObject
from planloop.schemas.hook import is_hook_agent

TURNS_SHOWN = 5


def agents(room: Room, command: Command) -> Iterator[str]:
    """A line for each agent; a star at the one that is talked with."""
    del command
    for one in room.access.objects("agent"):
        if is_hook_agent(one.address) and one.address != room.agent:
            continue  # In /hooks.
        mark = "*" if one.address == room.agent else " "
        yield f"{mark} {name_of(one.address) or '.':<20} {objects.state_of(one):<8} {objects.what_of(one)}".rstrip()


def plan(room: Room, command: Command) -> Iterator[str]:
    """The tree of tasks."""
    from planloop.app import wiring

    del command
    tasks = {one.address: one for one in room.access.objects("task")}
    root = tasks.get("task/.")
    if root is not None:
        yield f"{room.plan}  {objects.state_of(root)}  {objects.what_of(root)}".rstrip()
    yield from trees.lines(trees.rows(tasks, now=wiring.now()), width=None, plain=False)


def diff(room: Room, command: Command) -> Iterator[str]:
    """What applying the plan file would do."""
    from planloop.app import compiling, wiring
    from planloop.reconciler.editing.filing import FileSave
    from planloop.server.forms import save_to_json

    del command
    file = room.access.place.file
    if file is None:
        raise Halt(Exit.NOT_FOUND, "no file is known for this plan", "plan diff FILE")
    read = compiling.read(file)
    if read.errors:
        yield from compiling.fault_text(read, color=False).splitlines()
        return
    save = FileSave(file.name, read.content, read.document)
    found = room.access.post("diff", save_to_json(save))["differences"]
    text = differences.text(found, now=wiring.now(), width=None) or differences.unmoved(found)
    yield from (text or f"{file.name} says what is live already").splitlines()


def why(room: Room, command: Command) -> Iterator[str]:
    """Who set a field."""
    if not command.words:
        raise Halt(Exit.USAGE, "/why needs the path of a field", "/why task/ui/goal")
    answer = room.access.get("why", at=pointer.render(pointing.field_named(command.words[0])))
    yield from explanations.why(answer).splitlines()


def logs(room: Room, command: Command) -> Iterator[str]:
    """The last turns of the agent."""
    del command
    yield from transcripts.last_turns(all_records(room.access), room.agent, TURNS_SHOWN) or ["nothing yet"]


def budget(room: Room, command: Command) -> Iterator[str]:
    """What the agent's task may use, has used and has left."""
    del command
    task = room.access.object(f"task/{room.agent.partition('/')[2]}")
    costs = Costs(room.access.objects())
    lines = [costs.line(task), costs.rest(task)]
    yield from [line for line in lines if line] or ["nothing is bounded, and nothing was used yet"]


def hooks(room: Room, command: Command) -> Iterator[str]:
    """A line for each hook of the agent: its points, and what or who is behind it."""
    del command
    found = [one for one in room.access.objects("hook") if one.spec.get("watches") == room.agent]
    if not found:
        yield f"no hooks watch {room.agent}"
    for one in found:
        yield f"  {one.spec['name']:<20} {one.state or 'active':<8} {_hook_words(one.spec)}".rstrip()


def _hook_words(spec: JsonObject) -> str:
    """`before-call write(*) · ~careful`."""
    mind = spec["mind"]
    behind = name_of(str(mind["address"])) if mind["kind"] == "agent" else str(mind["kind"])
    asked = " ".join((*spec["on"], *((spec["match"],) if spec["match"] else ())))
    return f"{asked} · {behind or '.'}"
