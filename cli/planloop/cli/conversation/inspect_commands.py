"""Slash commands that show something: agents, plan, diff, logs, budgets, hooks."""

from __future__ import annotations

from collections.abc import Iterator

from planloop.cli.conversation.input_line import SlashCommand
from planloop.client import references
from planloop.client.chat_target import ChatTarget, agent_name
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_follower import read_records
from planloop.client.render import differences, explanations, object_tables, task_tree, transcripts
from planloop.client.render.budgets import Costs
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.objects.hook import is_hook_agent

TURNS_SHOWN = 5


def show_agents(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """A line for each agent; a star at the one that is talked with."""
    del command
    for one in room.access.objects("agent"):
        if is_hook_agent(one.address) and one.address != room.agent:
            continue  # In /hooks.
        mark = "*" if one.address == room.agent else " "
        name, state = agent_name(one.address) or ".", object_tables.state_of(one)
        yield f"{mark} {name:<20} {state:<8} {object_tables.state_reason(one)}".rstrip()


def show_plan(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """The tree of tasks."""
    from planloop.client import context

    del command
    tasks = {one.address: one for one in room.access.objects("task")}
    root = tasks.get("task/.")
    if root is not None:
        yield f"{room.plan}  {object_tables.state_of(root)}  {object_tables.state_reason(root)}".rstrip()
    yield from task_tree.tree_lines(task_tree.tree_rows(tasks, now=context.now()), width=None, plain=False)


def show_diff(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """What applying the plan file would do."""
    from planloop.client import context, plan_file
    from planloop.reconciler.diff.file_patch import FileSave
    from planloop.server.payloads import save_to_json

    del command
    file = room.access.place.file
    if file is None:
        raise CommandError(ExitCode.NOT_FOUND, "no file is known for this plan", "plan diff FILE")
    read = plan_file.read_plan(file)
    if read.errors:
        yield from plan_file.fault_text(read, color=False).splitlines()
        return
    save = FileSave(file.name, read.content, read.document)
    found = room.access.post("diff", save_to_json(save))["differences"]
    text = differences.differences_text(found, now=context.now(), width=None) or differences.unchanged_text(found)
    yield from (text or f"{file.name} says what is live already").splitlines()


def show_why(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """Who set a field."""
    if not command.words:
        raise CommandError(ExitCode.USAGE, "/why needs the path of a field", "/why task/ui/goal")
    answer = room.access.get("why", at=json_pointer.render_pointer(references.named_field(command.words[0])))
    yield from explanations.value_origin(answer).splitlines()


def show_logs(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """The last turns of the agent."""
    del command
    yield from transcripts.last_turns(read_records(room.access), room.agent, TURNS_SHOWN) or ["nothing yet"]


def show_budget(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
    """What the agent's task may use, has used and has left."""
    del command
    task = room.access.object(f"task/{room.agent.partition('/')[2]}")
    costs = Costs(room.access.objects())
    lines = [costs.line(task), costs.rest(task)]
    yield from [line for line in lines if line] or ["nothing is bounded, and nothing was used yet"]


def show_hooks(room: ChatTarget, command: SlashCommand) -> Iterator[str]:
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
    behind = agent_name(str(mind["address"])) if mind["kind"] == "agent" else str(mind["kind"])
    asked = " ".join((*spec["on"], *((spec["match"],) if spec["match"] else ())))
    return f"{asked} · {behind or '.'}"
