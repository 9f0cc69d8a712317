"""The `task` tool and declared agents as tools: add child tasks with agents, and wait for their results.

Adding is a patch through the gate and safe to repeat: a child that this call has added is not added again. The prompt
is part of the patch, so the child has it in its first turn. With `prompt` or `wait` the call waits for the end of the
child, which it reads from the child's row. The rights of a child are computed from the plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from typing import Annotated, Any, Final, TypeAlias, TypedDict, Unpack

from pydantic import Field

from planloop.controllers.agent.mail import wake_reasons
from planloop.controllers.agent.tools import messages
from planloop.controllers.agent.tools.errors import ToolFailed
from planloop.controllers.agent.tools.messages import short_name
from planloop.controllers.agent.tools.plan import live_document, patch_as_agent
from planloop.controllers.agent.tools.tool import (
    CallEnding,
    PendingCall,
    RegistryObjects,
    Settlement,
    Tool,
    ToolContext,
    ToolFunction,
    failure,
    success,
)
from planloop.schemas import address as addresses
from planloop.schemas import json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.objects.agent import ADDRESS, DUMP
from planloop.schemas.objects.call import CallResult, CallState, EffectClass
from planloop.schemas.objects.hook import is_hook_agent
from planloop.schemas.objects.message import ThreadAnswer
from planloop.schemas.objects.task import ENDED, TaskState
from planloop.schemas.resource import Resource
from planloop.schemas.tools import AGENT_TOOL

# Unknown fields pass through to the gate, whose schema reports them.

TASK_AGENT_FIELDS: Final = ("model", "tools", "deny", "effects", "script", "python", "from")
"""Fields that the document has under the task's `agent`. `instructions` is there too, under the name `prompt`."""


@frozen
class TaskSketch:
    """A task to add: its id, its document node, the prompts to store in the plan, and the tasks to wait for.

    `waits_for` are paths, below the caller, of this task or tasks below it. `under` is the path, below the caller, of
    its parent; empty for the caller itself. In the call it may also be an agent's address.
    """

    id: str
    node: JsonObject
    prompts: dict[str, str] = field(default_factory=dict)
    waits_for: tuple[str, ...] = ()
    under: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its path below the caller."""
        return "/".join((*self.under, self.id))

    def moved(self, under: tuple[str, ...]) -> TaskSketch:
        """Return the sketch below the task at `under`, with the paths in `waits_for` adapted."""
        old = "".join(f"{part}/" for part in self.under)
        new = "".join(f"{part}/" for part in under)
        return replace(self, under=under, waits_for=tuple(new + path.removeprefix(old) for path in self.waits_for))


TaskFields = TypedDict(
    "TaskFields",
    {
        "goal": Annotated[str | None, Field(description="What is true when it is done; default: `prompt`.")],
        "prompt": str | None,
        "id": str | None,
        "instructions": Annotated[
            str | None,
            Field(description="System prompt: text, a name, `lib:name`, `file:path` or `mcp:server/name`."),
        ],
        "store": Annotated[str | None, Field(description="Name to keep `instructions` under in the plan.")],
        "wait": bool | None,
        "from": Annotated[str | None, Field(description="Agent below you to copy, with memory.")],
        "under": Annotated[str | None, Field(description="Parent below you; default: you.")],
        "agent": Annotated[Any, Field(description="Name or fields.")],
        "model": str | None,
        "tools": list[str] | None,
        "budget": dict[str, Any] | None,
        "acceptance": Annotated[list[Any] | None, Field(description="Checks, for example `{sh: npm test}`.")],
        "needs": Annotated[list[str] | None, Field(description="Ids to finish first.")],
        "run": Annotated[Any, Field(description="Command instead of an agent.")],
        "cwd": str | None,
        "notes": str | None,
        "retries": int | None,
        "effects": dict[str, str] | None,
        "script": list[Any] | None,
        "tasks": Annotated[
            list[dict[str, Any]] | None,
            Field(description="Children as maps; with `goal` or `id`, children of that task."),
        ],
    },
    total=False,
)
"""The arguments of `task`. Other fields of a task can be set in `tasks` or with `edit_plan`."""


def read_sketches(fields: JsonObject) -> list[TaskSketch]:
    """Return the tasks that a call with these fields adds. Raises ToolFailed.

    With other fields besides `tasks`, it adds one task with `tasks` as its children. `wait` and `tasks` alone wait for
    each of the tasks.
    """
    given = {key: value for key, value in fields.items() if value not in (None, "", [], {})}
    tasks = given.get("tasks")
    if not tasks or set(given) - {"tasks", "wait"}:
        return [read_sketch(fields)]
    is_waited_for = bool(given.get("wait"))
    each = [{"wait": True, **raw} if is_waited_for and isinstance(raw, dict) else raw for raw in tasks]
    return require_distinct([read_sketch(raw) for raw in each])


def count_sketches(fields: JsonObject) -> int:
    """Count the tasks that a call with these fields adds, at all depths."""
    tasks = fields.get("tasks")
    below = [each for each in tasks if isinstance(each, dict)] if isinstance(tasks, list) else []
    is_one = not below or any(fields.get(key) not in (None, "", [], {}) for key in set(fields) - {"tasks", "wait"})
    return int(is_one) + sum(map(count_sketches, below))


def require_distinct(sketches: list[TaskSketch]) -> list[TaskSketch]:
    """Return `sketches` if all ids are different. Raises ToolFailed."""
    names = [sketch.name for sketch in sketches]
    if len(set(names)) < len(names):
        raise ToolFailed("SameId", f"two tasks have the same id: {', '.join(names)}")
    return sketches


def collect_prompts(sketches: Iterable[TaskSketch]) -> dict[str, str]:
    """Return all prompts to store. Raises ToolFailed if two texts have the same name."""
    found: dict[str, str] = {}
    for name, text in (entry for sketch in sketches for entry in sketch.prompts.items()):
        if found.setdefault(name, text) != text:
            raise ToolFailed("SameName", f"`store: {name}` is used for two different texts: use two names")
    return found


def read_sketch(raw: Json) -> TaskSketch:
    """Convert the arguments for one task. Raises ToolFailed."""
    if not isinstance(raw, dict):
        raise ToolFailed("BadArguments", "a task must be a map with a goal")
    fields = {key: value for key, value in raw.items() if value is not None}
    prompt = str(fields.pop("prompt", ""))
    is_waited_for = bool(fields.pop("wait", False)) or bool(prompt)
    if prompt and "goal" in fields:
        fields["notes"] = "\n\n".join(part for part in (prompt, str(fields.get("notes", ""))) if part)
    elif prompt:
        fields["goal"] = prompt
    copied = f"{fields['from']}-copy" if fields.get("from") else ""
    name = str(fields.pop("id", "") or _slug(fields.get("goal")) or _slug(copied))
    if not name:
        beside = [key for key in fields if key not in ("tasks", "under")]
        where = f"; `{beside[0]}` besides `tasks` adds a parent for them" if beside and "tasks" in fields else ""
        raise ToolFailed("BadArguments", f"a task needs a goal, a prompt or an id{where}")
    under = tuple(part for part in str(fields.pop("under", "")).split("/") if part not in ("", "."))
    whole = "/".join((*under, name))
    waits_for = [whole] if is_waited_for else []
    prompts = _stored(fields)
    own = {key: fields.pop(key) for key in TASK_AGENT_FIELDS if key in fields}
    if "instructions" in fields:
        own["prompt"] = fields.pop("instructions")
    if own:
        fields["agent"] = _with(fields.get("agent"), own)
    if isinstance(children := fields.get("tasks"), list):
        inner = require_distinct([read_sketch(child) for child in children])
        if any(sketch.under for sketch in inner):
            raise ToolFailed("BadArguments", "`under` is not allowed in nested `tasks`")
        fields["tasks"] = {sketch.id: sketch.node for sketch in inner}
        prompts = collect_prompts([TaskSketch(name, {}, prompts), *inner])
        waits_for += [f"{whole}/{path}" for sketch in inner for path in sketch.waits_for]
    return TaskSketch(name, fields, prompts, tuple(waits_for), under)


def addition_ops(plan: JsonObject, path: Sequence[str], nodes: JsonObject) -> list[PatchOp]:
    """Return the operations that add tasks to the task at `path` of the document `plan`."""
    own = (*json_pointer.task_pointer(path), "tasks")
    if json_pointer.has_value(plan, own):
        return [PatchOp("add", (*own, name), node) for name, node in nodes.items()]
    return [PatchOp("add", own, nodes)]


def _stored(fields: JsonObject) -> dict[str, str]:
    """Replace `store` and the text of `instructions` in `fields` by a reference to a prompt, and return that prompt."""
    name = fields.pop("store", None)
    if name is None:
        return {}
    text = str(fields.get("instructions", ""))
    if not text:
        raise ToolFailed("BadArguments", "`store` needs `instructions`, the text to store")
    fields["instructions"] = name
    return {str(name): text}


def _with(agent: Json, own: JsonObject) -> JsonObject:
    """Return an agent with more fields; an agent given by name is extended. Raises ToolFailed."""
    if agent is None:
        return own
    if isinstance(agent, str):
        return {"extends": agent, **own}
    if isinstance(agent, dict):
        if twice := [key for key in own if key in agent and agent[key] != own[key]]:
            raise ToolFailed("BadArguments", f"`{twice[0]}` has two values, one in `agent` and one outside it")
        return {**agent, **own}
    raise ToolFailed("BadArguments", "`agent` must be a name or a map")


def _slug(goal: Json) -> str:
    words = re.findall(r"[a-z0-9]+", str(goal or "").lower())
    return "-".join(words)[: limits.TASK_ID_CHARS_MAX].strip("-")


PathTokens: TypeAlias = tuple[str, ...]


async def task(context: ToolContext, **fields: Unpack[TaskFields]) -> CallEnding:
    """Add a child task with an agent, or several. With `prompt` wait for its answer, with `wait` for its end.

    Otherwise continue or sleep: you wake when a child ends, fails or asks. It exists until you `terminate` it: ask it
    again with `discuss`.
    """
    return await add_children(context, [_copying(context, sketch) for sketch in read_sketches(dict(fields))])


async def add_children(context: ToolContext, sketches: Sequence[TaskSketch]) -> CallEnding:
    """Add the children that this call has not added yet, and wait for those that the call should wait for."""
    names = [sketch.name for sketch in sketches]
    fresh = [sketch for sketch in sketches if not is_child_added(context, sketch.name)]
    added = await _added(context, fresh) if fresh else Settlement(success(f"added: {', '.join(names)}"))
    if added.result.state is not CallState.SUCCEEDED or any(_child(context, name) is None for name in names):
        return added
    waits_for = [path for sketch in sketches for path in sketch.waits_for]
    if waits_for:
        return wait_for_children(context, waits_for)
    return replace(added, agent=speakers_merge([_task(context, name) for name in names]))


def speakers_merge(children: Sequence[str]) -> JsonObject:
    """Return the status merge that makes the agents of these tasks the default speakers of the next discussion."""
    return {"interlocutors": {"speakers": [_agent_of(child) for child in children], "listeners": []}}


def _copying(context: ToolContext, sketch: TaskSketch) -> TaskSketch:
    """Return the sketch with all `from` agents in it, at any depth, resolved as the caller sees them."""
    if sketch.under:
        under = _below(context, "/".join(sketch.under), "to be its parent")[len(context.task_path) :]
        sketch = sketch.moved(under)
    return replace(sketch, node=_copied(context, sketch.node, (*context.task_path, *sketch.under)))


def _copied(context: ToolContext, node: JsonObject, parent: PathTokens | None) -> JsonObject:
    """Return a node with `from` as a copy: it has the agent of the source, with its own fields on top.

    `parent` is the path of its parent; None if the parent is new too.
    """
    children = node.get("tasks")
    if isinstance(children, dict):
        # Names are resolved below the parent, which is new and has no such agent. So nested copies use addresses.
        nested = {id_: _copied(context, each, None) for id_, each in children.items() if isinstance(each, dict)}
        node = {**node, "tasks": {**children, **nested}}
    own = node.get("agent")
    source = str(own.get("from", "")) if isinstance(own, dict) else ""
    if not isinstance(own, dict) or not source or source.startswith(DUMP):
        return node
    path = _below(context, source, "to copy")
    known = json_pointer.value_at(live_document(context), json_pointer.task_pointer(path))
    written = known.get("agent", "lib:child")
    fields = {"extends": written} if isinstance(written, str) else written
    name = source if path[:-1] == parent else str(addresses.agent_address(*path))
    return {**node, "goal": node.get("goal", known.get("goal", source)), "agent": {**fields, **own, "from": name}}


def _below(context: ToolContext, name: str, what_for: str) -> PathTokens:
    """Resolve the name of an agent below the caller to the path of its task. Raises ToolFailed."""
    own, view = context.task_path, context.services.store.view
    parts = tuple(part for part in name.removeprefix(ADDRESS).split("/") if part)
    is_whole = name.startswith(ADDRESS) and len(parts) > len(own) and parts[: len(own)] == own
    path = parts if is_whole else (*own, *parts)
    is_there = json_pointer.has_value(live_document(context), json_pointer.task_pointer(path)) and len(path) > len(own)
    if not is_there or is_hook_agent(name) or view.get(str(addresses.agent_address(*path))) is None:
        known = (
            addresses.parse_address(each.address).path for each in view.list("agent") if not is_hook_agent(each.address)
        )
        below = ["/".join(each[len(own) :]) for each in known if len(each) > len(own) and each[: len(own)] == own]
        of_that_id = [each for each in below if each.rpartition("/")[2] == name.rpartition("/")[2]]
        near = of_that_id or get_close_matches(name, below, n=1) or below[:5]
        hint = f"; did you mean {', '.join(f'`{each}`' for each in near)}?" if near else ""
        raise ToolFailed("NoSuchAgent", f"there is no agent `{name}` below you {what_for}{hint}")
    return path


def is_child_new(context: ToolContext, name: str) -> bool:
    """Whether the child was added in the open turn, so possibly by this call before a crash."""
    present, turn = _child(context, name), context.seen.status.open
    return present is not None and turn is not None and present.created_rev > turn.news.base_rev


def is_child_added(context: ToolContext, name: str) -> bool:
    """Whether this call added the child before a crash. Raises ToolFailed if another author added it."""
    if _child(context, name) is None:
        return False
    if not is_child_new(context, name):
        raise ToolFailed("Exists", f"the task `{name}` already exists: change it with `edit_plan`, or use another id")
    return True


def _child(context: ToolContext, name: str) -> Resource | None:
    return context.services.store.view.get(_task(context, name))


def _task(context: ToolContext, name: str) -> str:
    return "task/" + "/".join((*context.task_path, name))


def _agent_of(task_address: str) -> str:
    return task_address.replace("task/", "agent/", 1)


async def _added(context: ToolContext, sketches: Sequence[TaskSketch]) -> Settlement:
    prompts, known = collect_prompts(sketches), live_document(context).get("prompts")
    for name in prompts:
        if known and known.get(name, prompts[name]) != prompts[name]:
            raise ToolFailed("Exists", f"the plan has another prompt `{name}`: use another name in `store`")
    ops = [PatchOp("add", ("prompts", name), text) for name, text in prompts.items()]
    if prompts and known is None:
        ops = [PatchOp("add", ("prompts",), dict(prompts))]
    for under in dict.fromkeys(sketch.under for sketch in sketches):
        nodes: JsonObject = {sketch.id: sketch.node for sketch in sketches if sketch.under == under}
        ops += addition_ops(live_document(context), (*context.task_path, *under), nodes)
    return await patch_as_agent(context, ops, f"adds {', '.join(sketch.name for sketch in sketches)}")


def wait_for_children(context: ToolContext, names: Sequence[str]) -> PendingCall:
    """Wait for the ends of these children."""
    call: JsonObject = {"ends": [_task(context, name) for name in names], "since": context.seen.now}
    due_at = context.seen.now + limits.ANSWER_WAIT_S
    return PendingCall(CallState.AWAITING_CHILD, (), call, f"waits for {', '.join(names)}", due_at=due_at)


def resolve_children(context: ToolContext) -> CallEnding | None:
    """Return the results of the children that the call waits for; None until all have ended."""
    status = context.call.status
    is_late = context.seen.now >= float(status["since"]) + limits.ANSWER_WAIT_S
    ends = {str(address): _end(context, str(address), is_late=is_late) for address in status["ends"]}
    if any(end is None for end in ends.values()):
        return None
    # A result collected here must not wake the parent again.
    reported = {
        child.address: child.token
        for child in context.seen.context.children
        if child.address in ends and child.is_ended
    }
    answers = {short_name(context, name): end for name, end in ends.items() if end is not None}
    merge: JsonObject = {**speakers_merge(list(ends)), "told": {"children": reported}}
    return Settlement(result_of_children(answers), agent=merge)


def _end(context: ToolContext, address: str, *, is_late: bool) -> ThreadAnswer | None:
    """Return the result of a child, or why it cannot end; None while it is at work."""
    view = context.services.store.view
    task, agent = view.get(address), view.get(_agent_of(address))
    if task is None or task.deleting:
        return ThreadAnswer("the task was removed", "Gone")
    if task.state in ENDED:
        return wake_reasons.answer_of_end(task)
    if agent is not None:
        found = messages.why_no_answer(view, agent, context.agent) or wake_reasons.answer_if_blocked(agent)
        if found is not None:
            return found
    if task.state == TaskState.BLOCKED:
        return ThreadAnswer(wake_reasons.why_not_ready(task), "Blocked")
    return (
        ThreadAnswer(f"the task is still {task.state}; you get a message when it ends", "NoAnswer") if is_late else None
    )


def result_of_children(answers: Mapping[str, ThreadAnswer]) -> CallResult:
    """Return the answer of one child unchanged, or several answers with their names. Failed only if all failed."""
    if len(answers) == 1:
        (answer,) = answers.values()
        return failure(answer.error, answer.words) if answer.error else success(answer.words, answer.value)
    lines = (f"[{name}] {f'({each.error}) ' if each.error else ''}{each.words}" for name, each in answers.items())
    text = "\n\n".join(lines)
    return failure("NoAnswer", text) if all(answer.error for answer in answers.values()) else success(text)


# `tools: [agent:reviewer]` gives the agent a function of that name. The first call adds a child task with that agent;
# later calls ask the same child, which remembers. It has the rights of any child with that agent.

LIBRARY_AGENTS: Final = "lib:"


class AgentTools(Mapping[str, Tool]):
    """The `own` tools, and a tool for each agent that the plan declares, as one registry."""

    def __init__(self, own: Mapping[str, Tool], view: Callable[[], RegistryObjects]) -> None:
        self._own = own
        self._view = view
        self._kept: dict[tuple[str, str], Tool] = {}

    def __getitem__(self, name: str) -> Tool:
        if name in self._own:
            return self._own[name]
        agent = name.removeprefix(AGENT_TOOL)
        declared = self._declared()
        if not name.startswith(AGENT_TOOL) or agent not in declared:
            raise KeyError(name)
        # Cached, so that the description of a tool is built once.
        doc = str(declared[agent].get("doc") or f"Ask the agent `{agent}`. It remembers earlier questions.")
        if len(self._kept) >= limits.SPECS_KEPT_MAX:
            self._kept.clear()
        return self._kept.setdefault((agent, doc), _tool(agent, doc))

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from (f"{AGENT_TOOL}{name}" for name in self._declared())

    def __len__(self) -> int:
        return len(self._own) + len(self._declared())

    def _declared(self) -> JsonObject:
        for plan in self._view().list("plan"):
            agents = plan.spec.get("agents", {})
            return agents if isinstance(agents, dict) else {}
        return {}


def _tool(agent: str, doc: str) -> Tool:
    return Tool(f"{AGENT_TOOL}{agent}", _asking(agent), EffectClass.IDEMPOTENT, resolve=resolve_declared_agent, doc=doc)


def _asking(agent: str) -> ToolFunction:
    async def asked(
        context: ToolContext, prompt: Annotated[str, Field(min_length=1, description="The question or task.")]
    ) -> CallEnding:
        return await ask_declared_agent(context, agent, prompt)

    return asked


async def ask_declared_agent(context: ToolContext, agent: str, prompt: str) -> CallEnding:
    """Ask the caller's child `agent`, and add that child if it does not exist."""
    view = context.services.store.view
    name = _name_for(context, agent, prompt)
    path = (*context.task_path, name)
    task = view.get(str(addresses.task_address(*path)))
    if task is None or _is_this_very_call(context, name, prompt):
        return await add_children(context, [read_sketch({"id": name, "prompt": prompt, "agent": agent})])
    child = view.get(str(addresses.agent_address(*path)))
    if child is None or child.spec["prototype"] != agent:
        raise ToolFailed("Exists", f"your child task `{agent}` exists and has another agent: ask it with `discuss`")
    return messages.start_discussion(context, prompt, (child.address,), ())


def _is_this_very_call(context: ToolContext, name: str, prompt: str) -> bool:
    task = context.services.store.view.get(str(addresses.task_address(*context.task_path, name)))
    return task is not None and is_child_new(context, name) and task.spec["goal"] == prompt


def _name_for(context: ToolContext, agent: str, prompt: str) -> str:
    """Return the id of the child to ask. A library agent (code) answers once, so each call adds another child."""
    view, name = context.services.store.view, agent
    for number in range(2, limits.CHILDREN_MAX):
        child = view.get(str(addresses.agent_address(*context.task_path, name)))
        if child is None or not str(child.spec["mind"].get("target", "")).startswith(LIBRARY_AGENTS):
            break
        if _is_this_very_call(context, name, prompt):
            break
        name = f"{agent}-{number}"
    return name


def resolve_declared_agent(context: ToolContext) -> CallEnding | None:
    """Return the answer of the child unchanged; None while it works on it."""
    if "ends" in context.call.status:
        return resolve_children(context)
    talk = messages.read_thread(context, str(context.call.status.get("thread")))
    if talk is None:
        return Settlement(failure("Gone", "the question was withdrawn"))
    answer, name = talk.answer(0), short_name(context, talk.spec.speakers[0])
    return (
        None
        if answer is None
        else Settlement(result_of_children({name: answer}), messages.close_thread_changes(talk, [name]))
    )
