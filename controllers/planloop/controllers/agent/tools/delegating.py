"""`task`: child tasks with their agents; with `prompt` or `wait` the call's result is what comes of them.

Adding is a patch through the gate, safe to repeat after a crash: a child that this call added is not added again. A
prompt is part of what is added, so the child has it in its first turn however soon that is; the call then waits for
the child's end, which it finds in the child's own row. What a new child may do is computed from the plan like that of
any child.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TypeAlias, Unpack

from planloop.controllers.agent.mail import answering
from planloop.controllers.agent.tools import threads
from planloop.controllers.agent.tools.faults import ToolFailed
from planloop.controllers.agent.tools.patching import document, submit
from planloop.controllers.agent.tools.sketching import Sketch, TaskFields, additions, prompts_of, sketches_of
from planloop.controllers.agent.tools.threads import short_name
from planloop.controllers.agent.tools.tool import Context, Ending, Settlement, Waiting, failure, ok
from planloop.schemas import address as addresses
from planloop.schemas import limits, pointer
from planloop.schemas.agent import ADDRESS, DUMP
from planloop.schemas.call import CallResult, CallState
from planloop.schemas.encoding import JsonObject
from planloop.schemas.hook import is_hook_agent
from planloop.schemas.patching import Op
from planloop.schemas.resource import Resource
from planloop.schemas.task import ENDED, TaskState
from planloop.schemas.thread import Answer

Tokens: TypeAlias = tuple[str, ...]


async def task(context: Context, **fields: Unpack[TaskFields]) -> Ending:
    """Adds a child task with its agent, or several under `tasks`. You wake when one ends, fails or asks.

    With `prompt` your result is the child's answer to it, and with `wait` how it ended. Without either you go on, or
    sleep until it reports. A child is there until you terminate it: ask it again with `discuss`.
    """
    return await add(context, [_copying(context, sketch) for sketch in sketches_of(dict(fields))])


async def add(context: Context, sketches: Sequence[Sketch]) -> Ending:
    """Adds the children that are not there yet by this call, and waits for those that are to be waited for."""
    names = [sketch.name for sketch in sketches]
    fresh = [sketch for sketch in sketches if not is_added(context, sketch.name)]
    added = await _added(context, fresh) if fresh else Settlement(ok(f"{', '.join(names)} are in the plan"))
    if added.result.state is not CallState.SUCCEEDED or any(_child(context, name) is None for name in names):
        return added
    waits_for = [path for sketch in sketches for path in sketch.waits_for]
    if waits_for:
        return waited(context, waits_for)
    return replace(added, agent=talking_to([_task(context, name) for name in names]))


def talking_to(children: Sequence[str]) -> JsonObject:
    """The merge that makes the agents of these tasks the speakers of the next discussion."""
    return {"interlocutors": {"speakers": [_agent_of(child) for child in children], "listeners": []}}


def _copying(context: Context, sketch: Sketch) -> Sketch:
    """The sketch with every copy in it, at whatever depth, made of the agent that it names, as seen by the caller."""
    if sketch.under:
        under = _below(context, "/".join(sketch.under), "to be its parent")[len(context.task_path) :]
        sketch = sketch.moved(under)
    return replace(sketch, node=_copied(context, sketch.node, (*context.task_path, *sketch.under)))


def _copied(context: Context, node: JsonObject, parent: Tokens | None) -> JsonObject:
    """A child that is to be a copy of another has the agent of that one, but for what is said of itself.

    `parent` is the task that gets it, None for one that is new itself.
    """
    children = node.get("tasks")
    if isinstance(children, dict):
        # A name goes down from the parent, which is new and has no such agent below it: an address does.
        nested = {id_: _copied(context, each, None) for id_, each in children.items() if isinstance(each, dict)}
        node = {**node, "tasks": {**children, **nested}}
    own = node.get("agent")
    source = str(own.get("from", "")) if isinstance(own, dict) else ""
    if not isinstance(own, dict) or not source or source.startswith(DUMP):
        return node
    path = _below(context, source, "to copy")
    known = pointer.get(document(context), pointer.of_task(path))
    written = known.get("agent", "lib:child")
    fields = {"extends": written} if isinstance(written, str) else written
    name = source if path[:-1] == parent else str(addresses.agent(*path))
    return {**node, "goal": node.get("goal", known.get("goal", source)), "agent": {**fields, **own, "from": name}}


def _below(context: Context, name: str, what_for: str) -> Tokens:
    """The path of the task of the agent below the caller that is meant. Raises ToolFailed."""
    own, view = context.task_path, context.world.store.view
    parts = tuple(part for part in name.removeprefix(ADDRESS).split("/") if part)
    is_whole = name.startswith(ADDRESS) and len(parts) > len(own) and parts[: len(own)] == own
    path = parts if is_whole else (*own, *parts)
    is_there = pointer.has(document(context), pointer.of_task(path)) and len(path) > len(own)
    if not is_there or is_hook_agent(name) or view.get(str(addresses.agent(*path))) is None:
        known = (addresses.parse(each.address).path for each in view.list("agent") if not is_hook_agent(each.address))
        below = ["/".join(each[len(own) :]) for each in known if len(each) > len(own) and each[: len(own)] == own]
        of_that_id = [each for each in below if each.rpartition("/")[2] == name.rpartition("/")[2]]
        near = of_that_id or get_close_matches(name, below, n=1) or below[:5]
        hint = f"; there is {', '.join(f'`{each}`' for each in near)}" if near else ""
        raise ToolFailed("NoSuchAgent", f"there is no agent `{name}` below you {what_for}{hint}")
    return path


def is_new(context: Context, name: str) -> bool:
    """Whether the child was added in the turn that is open, so perhaps by this very call before a crash."""
    present, turn = _child(context, name), context.seen.status.open
    return present is not None and turn is not None and present.created_rev > turn.base_rev


def is_added(context: Context, name: str) -> bool:
    """Whether this call added the child before a crash. Raises ToolFailed when somebody else has."""
    if _child(context, name) is None:
        return False
    if not is_new(context, name):
        raise ToolFailed("Exists", f"there is a `{name}` already: change it with `edit_plan`, or take another id")
    return True


def _child(context: Context, name: str) -> Resource | None:
    return context.world.store.view.get(_task(context, name))


def _task(context: Context, name: str) -> str:
    return "task/" + "/".join((*context.task_path, name))


def _agent_of(task_address: str) -> str:
    return task_address.replace("task/", "agent/", 1)


async def _added(context: Context, sketches: Sequence[Sketch]) -> Settlement:
    prompts, known = prompts_of(sketches), document(context).get("prompts")
    for name in prompts:
        if known and known.get(name, prompts[name]) != prompts[name]:
            raise ToolFailed("Exists", f"the plan has another prompt `{name}`: take another name in `store`")
    ops = [Op("add", ("prompts", name), text) for name, text in prompts.items()]
    if prompts and known is None:
        ops = [Op("add", ("prompts",), dict(prompts))]
    for under in dict.fromkeys(sketch.under for sketch in sketches):
        nodes: JsonObject = {sketch.id: sketch.node for sketch in sketches if sketch.under == under}
        ops += additions(document(context), (*context.task_path, *under), nodes)
    return await submit(context, ops, f"adds {', '.join(sketch.name for sketch in sketches)}")


def waited(context: Context, names: Sequence[str]) -> Waiting:
    """Waits for the ends of these children."""
    call: JsonObject = {"ends": [_task(context, name) for name in names], "since": context.seen.now}
    due_at = context.seen.now + limits.ANSWER_WAIT_S
    return Waiting(CallState.AWAITING_CHILD, (), call, f"waits for {', '.join(names)}", due_at=due_at)


def resolve(context: Context) -> Ending | None:
    """How the children that are waited for came to their ends, when all have."""
    status = context.call.status
    is_late = context.seen.now >= float(status["since"]) + limits.ANSWER_WAIT_S
    ends = {str(address): _end(context, str(address), is_late=is_late) for address in status["ends"]}
    if any(end is None for end in ends.values()):
        return None
    # What is told here is no news any more: the parent is not woken for a result that it has collected.
    told = {child.address: child.token for child in context.seen.children if child.address in ends and child.is_ended}
    said = {short_name(context, name): end for name, end in ends.items() if end is not None}
    return Settlement(result_of(said), agent={**talking_to(list(ends)), "told": {"children": told}})


def _end(context: Context, address: str, *, is_late: bool) -> Answer | None:
    """How a child came to its end, or why none is to be waited for; None while it is at work."""
    view = context.world.store.view
    task, agent = view.get(address), view.get(_agent_of(address))
    if task is None or task.deleting:
        return Answer("it was removed", "Gone")
    if task.state in ENDED:
        return answering.of_end(task)
    if agent is not None:
        found = threads.hindrance(view, agent, context.agent) or answering.blocked(agent)
        if found is not None:
            return found
    if task.state == TaskState.BLOCKED:
        return Answer(answering.ready(task), "Blocked")
    return Answer(f"it is still {task.state}; you are told when it ends", "NoAnswer") if is_late else None


def result_of(answers: Mapping[str, Answer]) -> CallResult:
    """One child's answer as it is; those of several under their names. It has failed when every one of them has."""
    if len(answers) == 1:
        (answer,) = answers.values()
        return failure(answer.error, answer.text) if answer.error else ok(answer.text, answer.value)
    lines = (f"[{name}] {f'({each.error}) ' if each.error else ''}{each.text}" for name, each in answers.items())
    text = "\n\n".join(lines)
    return failure("NoAnswer", text) if all(answer.error for answer in answers.values()) else ok(text)
