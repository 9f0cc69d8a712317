"""Tools of MCP clients: which are offered, how calls of them are handled, and their results as text and fields.

A client has the tools that its agent is permitted, and the task tools. Calls of the task tools are handled here; all
other calls are made as the agent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.controllers.agent.mail.wake_reasons import fact_digest
from planloop.controllers.agent.models.chat_request import wire_name
from planloop.controllers.agent.observe import observed_child
from planloop.controllers.agent.tools.delegation import AgentTools
from planloop.controllers.agent.tools.mcp_tools import McpTools
from planloop.controllers.agent.tools.registry import BUILT_IN_TOOLS
from planloop.controllers.agent.tools.tool import Tool, arguments_schema
from planloop.controllers.agent.turn import permissions
from planloop.controllers.agent.turn.transcript import result_text
from planloop.controllers.shared import container_exec
from planloop.schemas import limits, quantities
from planloop.schemas.canonical_json import JsonObject, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.agent import AgentState, agent_from_json
from planloop.schemas.objects.approval import APPROVED, REJECTED
from planloop.schemas.objects.call import CallResult, CallState, EffectClass
from planloop.schemas.objects.task import ENDED, TaskState
from planloop.schemas.resource import Resource
from planloop.server.mcp.call_tracker import CallEnded, news_text
from planloop.server.mcp.leases import ExternalRole, McpClientState, ReportProgress, TaskLease
from planloop.server.mcp.resources import task_summary
from planloop.server.plan_reader import ObjectReader

WAIT_S: Final = 60.0  # Default of wait_for_news. Most clients give up on a call that takes longer.
WAIT_MAX_S: Final = 3_600.0
LEASE: Final = "lease"
"""The argument with which a client without a session names its lease."""

_TASK: Final[JsonObject] = {"type": "string", "description": "The task's path, from list_tasks."}


@frozen
class OfferedTool:
    """A tool as it is listed: `tool` is its name in the plan, empty for a task tool."""

    name: str
    description: str
    schema: JsonObject
    tool: str = ""
    effect: EffectClass = EffectClass.ONCE


def _ours(name: str, description: str, properties: JsonObject, required: Iterable[str] = ()) -> OfferedTool:
    schema: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
    effect = EffectClass.READ if name in ("list_tasks", "plan_diff", "wait_for_news") else EffectClass.IDEMPOTENT
    return OfferedTool(name, description, schema | {"required": list(required)} if required else schema, effect=effect)


TASK_TOOLS: Final = (
    _ours("list_tasks", "List the tasks that you may take, with their state and the client that has each.", {}),
    _ours(
        "take_task",
        "Take a task and return its description. Default: the first free task. You keep it as long as you call tools.",
        {"task": _TASK},
    ),
    _ours(
        "leave_task",
        "Give your task back, so that another client can take it. If it is finished, call `done` instead.",
        {"reason": {"type": "string", "maxLength": limits.REASON_CHARS_MAX}},
    ),
    _ours(
        "wait_for_news",
        "Wait for news: a message, a changed goal, or the end of a subtask.",
        {"for_s": {"type": "number", "minimum": 0, "maximum": WAIT_MAX_S, "default": WAIT_S}},
    ),
    _ours(
        "plan_diff",
        "Preview plan_patch: return what the same operations would change, or why they would be refused.",
        {"ops": {"type": "array", "items": {"type": "object"}, "minItems": 1}},
        ("ops",),
    ),
)


def agent_tools(objects: ObjectReader) -> Mapping[str, Tool]:
    """Return every tool of the plan, by its name in the plan."""
    return McpTools(AgentTools(BUILT_IN_TOOLS, lambda: objects), lambda: objects)


def offered_tools(objects: ObjectReader, parts: Iterable[ExternalRole]) -> list[OfferedTool]:
    """Return the tools of a client that may take these tasks: the task tools, then the tools of their agents."""
    tools = agent_tools(objects)
    found: dict[str, OfferedTool] = {}
    for part in parts:
        for name in permissions.granted_tools(agent_from_json(part.agent.spec), tools):
            found.setdefault(name, _offer(tools[name]))
    return [*TASK_TOOLS, *found.values()]


def _offer(tool: Tool) -> OfferedTool:
    parameters = tool.parameters if tool.parameters is not None else arguments_schema(tool.function)
    return OfferedTool(wire_name(tool.name), tool.description, {"type": "object", **parameters}, tool.name, tool.effect)


NEWS: Final = "News:"


@frozen
class ToolAnswer:
    """The answer to a call: `texts` in reading order, and the same as fields (`facts`) for programs."""

    texts: tuple[str, ...]
    facts: JsonObject
    is_error: bool = False

    def then(self, ended: CallEnded) -> ToolAnswer:
        """Return the answer followed by the news of another call."""
        return ToolAnswer((*self.texts, *_news(ended)), self.facts | _facts_of_news(ended), self.is_error)


NOTHING: Final = ToolAnswer(("No news.",), {"state": "Succeeded"})


def call_answer(ended: CallEnded) -> ToolAnswer:
    """Return the result of a call, and the news at the start of its turn."""
    result = ended.result
    facts: JsonObject = {"state": str(result.state)}
    facts |= {"error": result.error} if result.error else {}
    facts |= {"exit_code": result.exit_code} if result.exit_code is not None else {}
    facts |= {"value": result.value} if result.value is not None else {}
    texts = (result_text(result), *ended.comments)
    return ToolAnswer(texts, facts, result.state is not CallState.SUCCEEDED).then(ended)


def news_answer(ended: CallEnded) -> ToolAnswer:
    """Return the news, or NOTHING."""
    if ended.result.state is not CallState.SUCCEEDED:
        return call_answer(ended)
    return ToolAnswer((*ended.comments, *_news(ended)) or NOTHING.texts, NOTHING.facts | _facts_of_news(ended))


def lease_answer(lease: TaskLease, ended: CallEnded, *, shows_lease: bool) -> ToolAnswer:
    """Return the briefing of a task that the client has just taken."""
    silence = quantities.format_duration(lease.lease_s)
    yours = f"You have {lease.task}. You lose it if you call no tool for {silence}."
    handle = f"Pass `lease: {lease.key}` with every call." if shows_lease else ""
    facts: JsonObject = {"task": lease.path, "agent": lease.agent, "lease_s": lease.lease_s}
    facts |= {"lease": lease.key} if shows_lease else {}
    texts = tuple(text for text in (yours, handle, lease.briefing) if text)
    return ToolAnswer(texts, facts).then(ended)


def tasks_answer(parts: list[ExternalRole], mine: str) -> ToolAnswer:
    """Return the list of the identity's tasks."""
    lines = [_line(part, is_mine=part.path == mine) for part in parts]
    return ToolAnswer(("\n".join(lines),), {"tasks": [task_summary(part) for part in parts]})


def _line(part: ExternalRole, *, is_mine: bool) -> str:
    short = task_summary(part)
    who = "yours" if is_mine else "free" if part.is_free else f"taken by {part.holder}" if part.holder else ""
    marks = ", ".join(word for word in (str(short["state"]), who) if word)
    line = f"{part.path} [{marks}] {short['goal']}".rstrip()
    return f"{line}\n  {short['why']}" if short["why"] and not (is_mine or part.is_free) else line


def claim_answer(task: Resource) -> ToolAnswer:
    """Return the final result of a claim's checks."""
    ready = task.status.get("conditions", {}).get("Ready") or {}
    words = str(ready.get("message") or "")
    text = f"{task.address} is {task.state}" + (f": {words}" if words else "")
    facts: JsonObject = {"state": "Succeeded", "task_state": task.state, "accepted": task.state == TaskState.DONE}
    return ToolAnswer((text,), facts, task.state == TaskState.FAILED)


def rejection_answer(ended: CallEnded) -> ToolAnswer:
    """Return that the claim was rejected. The news says what to fix."""
    facts: JsonObject = {"state": "Failed", "error": "NotAccepted", "accepted": False}
    return ToolAnswer(("Not accepted.",), facts, is_error=True).then(ended)


def diff_answer(preview: JsonObject) -> ToolAnswer:
    """Return what a patch would do, or why it would be refused."""
    faults = [str(fault.get("message")) for fault in (*preview.get("faults", ()), *preview.get("stops", ()))]
    if faults:
        return ToolAnswer(("It would be refused: " + "; ".join(faults),), preview, is_error=True)
    lines = [_difference(one) for one in preview.get("differences", ())]
    held = [f"It would wait for approval: {preview['hold']}"] if preview.get("hold") else []
    return ToolAnswer(("\n".join((*lines, *held)) or "It would change nothing.",), preview)


def _difference(one: JsonObject) -> str:
    words = one.get("message") or one.get("why") or ""
    return f"{one.get('action', '')} {one.get('address', '')}: {words}".rstrip(": ")


def error_answer(halt: CommandError) -> ToolAnswer:
    """Return an error with its hint."""
    hint = f" ({halt.hint})" if halt.hint else ""
    return ToolAnswer((f"{halt.summary}{hint}",), {"state": "Denied", "error": halt.exit.name}, is_error=True)


def _news(ended: CallEnded) -> tuple[str, ...]:
    text = news_text(ended.told)
    return (f"{NEWS}\n\n{text}",) if text else ()


def _facts_of_news(ended: CallEnded) -> JsonObject:
    told = [{"kind": one.kind, "from": one.sender, "body": one.body} for one in ended.told]
    return {"news": told} if told else {}


CLAIMS: Final = frozenset({"done", "fail"})
JUDGED: Final = frozenset({AgentState.CLAIMED, AgentState.RUNNING, AgentState.ENDED})  # While a claim's checks run.
INTERRUPTED: Final = "Interrupted"
Do = Callable[["ToolHandlers", JsonObject, ReportProgress], Awaitable[ToolAnswer]]


@dataclass(frozen=True, slots=True)
class ToolHandlers:
    """Handles the calls of `client`. With `shows_lease`, the client has no session, and each call names its lease."""

    client: McpClientState
    shows_lease: bool = False

    def offers(self) -> list[OfferedTool]:
        """Return the client's tools: those of its agent, or of all agents whose tasks it may take."""
        lease, parts = self.client.lease, self.client.parts()
        mine = [part for part in parts if lease is not None and part.agent.address == lease.agent]
        return offered_tools(self.client.context.log, mine or parts)

    async def do(self, name: str, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """Call the tool `name` and return its answer. A CommandError becomes an answer, too."""
        try:
            _require_plain(arguments)
            if (ours := _OURS.get(name)) is not None:
                return await ours(self, arguments, report)
            return await self._call(name, arguments, report)
        except CommandError as halt:
            return error_answer(halt)

    async def _call(self, name: str, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        lease = self.client.mine()
        # Pass an unknown name on: the agent's answer lists the tools.
        tool = next((one.tool for one in self.offers() if one.name == name and one.tool), name)
        ended = await self.client.call(tool, arguments, report)
        if ended.result.error == INTERRUPTED and self.client.lease is not None:
            news = await self.client.call("", {}, report)
            return call_answer(ended).then(news)
        if tool in CLAIMS and ended.result.state is CallState.SUCCEEDED:
            return await self._judged(lease, ended, report)
        return call_answer(ended)

    async def _judged(self, lease: TaskLease, ended: CallEnded, report: ReportProgress) -> ToolAnswer:
        """Wait for the checks of a claim. Return whether it was accepted."""
        log = self.client.context.log
        await report("the checks are running")
        async with self.client.waits(lease, report):
            while _is_open(log, lease):
                await log.moved()
        task = log.get(lease.task)
        if task is None or log.get(lease.agent) is None:
            return ToolAnswer((f"{lease.task} was removed",), {"state": "Cancelled"}, is_error=True)
        if task.state in ENDED:
            self.client.lease = None
            return claim_answer(task).then(ended)
        return rejection_answer(await self.client.call("", {}, report))

    async def list_tasks(self, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """Return the tasks of the client's identity."""
        del arguments, report
        await self.client.keep_alive()
        lease = self.client.lease
        return tasks_answer(self.client.parts(), "" if lease is None else lease.path)

    async def take_task(self, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """Take a task and return its briefing."""
        lease = await self.client.take(str(arguments.get("task") or ""), report)
        ended = await self.client.call("", {}, report)
        if ended.result.state is not CallState.SUCCEEDED:
            # An agent without budget left can still read its briefing.
            ended = CallEnded(CallResult(CallState.SUCCEEDED), ended.told)
        return lease_answer(lease, ended, shows_lease=self.shows_lease)

    async def leave_task(self, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """Release the lease."""
        del report
        lease = self.client.mine()
        reason = str(arguments.get("reason") or "its client gave it back")
        await self.client.leave(reason[: limits.REASON_CHARS_MAX])  # A reason that is too long is cut, not refused.
        return ToolAnswer((f"You have given {lease.task} back.",), {"state": "Succeeded", "task": lease.path})

    async def wait_for_news(self, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """Wait for news of the agent."""
        given = arguments.get("for_s", WAIT_S)
        if not isinstance(given, int | float) or isinstance(given, bool) or not 0 <= given <= WAIT_MAX_S:
            raise CommandError(ExitCode.USAGE, f"for_s must be a number from 0 to {WAIT_MAX_S:g}", "the default is 60")
        lease = self.client.mine()
        with anyio.move_on_after(float(given)):
            await self.client.keep_alive()
            while not has_news(self.client, lease):
                # No await separates the check from this one, so that no change is missed.
                with anyio.move_on_after(lease.lease_s / 3):
                    await self.client.context.log.moved()
                self.client.mine()
                await self.client.keep_alive()
        if not has_news(self.client, lease):
            return NOTHING
        return news_answer(await self.client.call("", {}, report))

    async def plan_diff(self, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """Return what a patch would do."""
        del report
        lease = self.client.mine()
        if not isinstance(ops := arguments.get("ops"), list) or not ops:
            raise CommandError(
                ExitCode.USAGE, "ops must be a list of RFC 6902 operations", "pass the same `ops` as to plan_patch"
            )
        await self.client.keep_alive()
        return diff_answer(await self.client.context.act("preview", {"agent": lease.agent, "ops": ops}))


def _is_open(log: ObjectReader, lease: TaskLease) -> bool:
    """Return whether the checks of the claim are still running."""
    task, agent = log.get(lease.task), log.get(lease.agent)
    return task is not None and agent is not None and task.state not in ENDED and agent.state in JUDGED


def _require_plain(arguments: JsonObject) -> None:
    """Raise CommandError for values that JSON cannot express: NaN, 1e999."""
    try:
        encode(arguments)
    except ValueError as error:
        hint = "use finite numbers only"
        raise CommandError(ExitCode.USAGE, f"the arguments are not valid JSON: {error}", hint) from None


_OURS: Final[Mapping[str, Do]] = {one.name: getattr(ToolHandlers, one.name) for one in TASK_TOOLS}


def has_news(client: McpClientState, lease: TaskLease) -> bool:
    """Return whether the agent's next turn would start with news."""
    log = client.context.log
    agent, task = log.get(lease.agent), log.get(lease.task)
    if agent is None or task is None:
        return True
    told = agent.status.get("told") or {}
    return (
        any(message.get("wakes", True) for message in (agent.status.get("inbox") or {}).values())
        or any(
            fact_digest(str(task.spec.get(name) or "")) != told.get(name, fact_digest("")) for name in ("goal", "notes")
        )
        or any(map(partial(_is_child_news, told.get("children") or {}), _all(log, task.spec.get("children", ()))))
        or any(
            map(partial(_is_container_news, told.get("containers") or {}), _all(log, task.spec.get("containers", ())))
        )
        or any(_is_answered(each) for each in log.list("approval") if each.owner == agent.address)
    )


def _all(log: ObjectReader, addresses: Iterable[str]) -> Iterator[Resource]:
    return (one for address in addresses if (one := log.get(address)) is not None)


def _is_child_news(told: JsonObject, child: Resource) -> bool:
    return child.state in ENDED and told.get(child.address) != observed_child(child).token


def _is_container_news(told: JsonObject, container: Resource) -> bool:
    run = container_exec.container_progress(container).run
    return bool(run) and told.get(container.address, run) != run


def _is_answered(approval: Resource) -> bool:
    return approval.state in (APPROVED, REJECTED) and approval.spec["kind"] not in ("call", "input")
