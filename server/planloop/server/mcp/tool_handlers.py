"""Tools of MCP clients: which are offered, how calls of them are handled, and their results as text and fields.

A client has the tools of its agent, as the check of the agent's calls computes them, and a few for tasks. Calls of the
task tools are handled here; all others are calls of the agent.
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

WAIT_S: Final = 60.0  # For news, when a client does not say: most give up on a call that takes longer.
WAIT_MAX_S: Final = 3_600.0
LEASE: Final = "lease"
"""The argument by which a client without a session says which task it has."""

_TASK: Final[JsonObject] = {"type": "string", "description": "Its path, as list_tasks has it."}


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
    _ours("list_tasks", "Lists the tasks that you may take, how they stand, and who has them.", {}),
    _ours(
        "take_task",
        "Takes a task, the first free one if you name none, and says what it is about. You have it for as long as you "
        "go on calling tools.",
        {"task": _TASK},
    ),
    _ours(
        "leave_task",
        "Gives your task back for somebody else to take. To finish it, call `done` instead.",
        {"reason": {"type": "string", "maxLength": limits.REASON_CHARS_MAX}},
    ),
    _ours(
        "wait_for_news",
        "Waits until there is something new for you: a message, another goal, a subtask that ended.",
        {"for_s": {"type": "number", "minimum": 0, "maximum": WAIT_MAX_S, "default": WAIT_S}},
    ),
    _ours(
        "plan_diff",
        "Says what plan_patch with the same operations would change, or why it would be refused. Changes nothing.",
        {"ops": {"type": "array", "items": {"type": "object"}, "minItems": 1}},
        ("ops",),
    ),
)


def agent_tools(objects: ObjectReader) -> Mapping[str, Tool]:
    """Every tool of the plan by its name there."""
    return McpTools(AgentTools(BUILT_IN_TOOLS, lambda: objects), lambda: objects)


def offered_tools(objects: ObjectReader, parts: Iterable[ExternalRole]) -> list[OfferedTool]:
    """Return the tools of a client with these tasks: the task tools, then those of their agents, each once."""
    tools = agent_tools(objects)
    found: dict[str, OfferedTool] = {}
    for part in parts:
        for name in permissions.granted_tools(agent_from_json(part.agent.spec), tools):
            found.setdefault(name, _offer(tools[name]))
    return [*TASK_TOOLS, *found.values()]


def _offer(tool: Tool) -> OfferedTool:
    parameters = tool.parameters if tool.parameters is not None else arguments_schema(tool.function)
    return OfferedTool(wire_name(tool.name), tool.description, {"type": "object", **parameters}, tool.name, tool.effect)


NEWS: Final = "What is new for you:"


@frozen
class ToolAnswer:
    """The answer to a call: `texts` have all of it, in reading order; `facts` are the same for programs."""

    texts: tuple[str, ...]
    facts: JsonObject
    is_error: bool = False

    def then(self, ended: CallEnded) -> ToolAnswer:
        """Return the answer followed by the news of another call."""
        return ToolAnswer((*self.texts, *_news(ended)), self.facts | _facts_of_news(ended), self.is_error)


NOTHING: Final = ToolAnswer(("Nothing is new.",), {"state": "Succeeded"})


def call_answer(ended: CallEnded) -> ToolAnswer:
    """Return the result of a call, and the news that its turn began with."""
    result = ended.result
    facts: JsonObject = {"state": str(result.state)}
    facts |= {"error": result.error} if result.error else {}
    facts |= {"exit_code": result.exit_code} if result.exit_code is not None else {}
    facts |= {"value": result.value} if result.value is not None else {}
    texts = (result_text(result), *ended.comments)
    return ToolAnswer(texts, facts, result.state is not CallState.SUCCEEDED).then(ended)


def news_answer(ended: CallEnded) -> ToolAnswer:
    """Return the news, or that there is none."""
    if ended.result.state is not CallState.SUCCEEDED:
        return call_answer(ended)
    return ToolAnswer((*ended.comments, *_news(ended)) or NOTHING.texts, NOTHING.facts | _facts_of_news(ended))


def lease_answer(lease: TaskLease, ended: CallEnded, *, shows_lease: bool) -> ToolAnswer:
    """Return the briefing of a task that the client has just taken."""
    silence = quantities.format_duration(lease.lease_s)
    yours = f"{lease.task} is yours for as long as you go on: after {silence} of silence it is not."
    handle = f"Give `lease: {lease.key}` with every call." if shows_lease else ""
    facts: JsonObject = {"task": lease.path, "agent": lease.agent, "lease_s": lease.lease_s}
    facts |= {"lease": lease.key} if shows_lease else {}
    texts = tuple(text for text in (yours, handle, lease.briefing) if text)
    return ToolAnswer(texts, facts).then(ended)


def tasks_answer(parts: list[ExternalRole], mine: str) -> ToolAnswer:
    """The tasks of an identity."""
    lines = [_line(part, is_mine=part.path == mine) for part in parts]
    return ToolAnswer(("\n".join(lines),), {"tasks": [task_summary(part) for part in parts]})


def _line(part: ExternalRole, *, is_mine: bool) -> str:
    short = task_summary(part)
    who = "yours" if is_mine else "free" if part.is_free else f"taken by {part.holder}" if part.holder else ""
    marks = ", ".join(word for word in (str(short["state"]), who) if word)
    line = f"{part.path} [{marks}] {short['goal']}".rstrip()
    return f"{line}\n  {short['why']}" if short["why"] and not (is_mine or part.is_free) else line


def claim_answer(task: Resource) -> ToolAnswer:
    """Return the final result of the checks of a claim."""
    ready = task.status.get("conditions", {}).get("Ready") or {}
    words = str(ready.get("message") or "")
    said = f"{task.address} is {task.state}" + (f": {words}" if words else "")
    facts: JsonObject = {"state": "Succeeded", "task_state": task.state, "accepted": task.state == TaskState.DONE}
    return ToolAnswer((said,), facts, task.state == TaskState.FAILED)


def rejection_answer(ended: CallEnded) -> ToolAnswer:
    """Return that the claim was rejected; the news say what to fix."""
    facts: JsonObject = {"state": "Failed", "error": "NotAccepted", "accepted": False}
    return ToolAnswer(("Not accepted.",), facts, is_error=True).then(ended)


def diff_answer(preview: JsonObject) -> ToolAnswer:
    """Return what a patch would do, or why it would be refused."""
    faults = [str(fault.get("message")) for fault in (*preview.get("faults", ()), *preview.get("stops", ()))]
    if faults:
        return ToolAnswer(("It would be refused: " + "; ".join(faults),), preview, is_error=True)
    lines = [_difference(one) for one in preview.get("differences", ())]
    held = [f"It would wait for a yes: {preview['hold']}"] if preview.get("hold") else []
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
JUDGED: Final = frozenset({AgentState.CLAIMED, AgentState.RUNNING, AgentState.ENDED})  # While its claim is looked at.
INTERRUPTED: Final = "Interrupted"
Do = Callable[["ToolHandlers", JsonObject, ReportProgress], Awaitable[ToolAnswer]]


@dataclass(frozen=True, slots=True)
class ToolHandlers:
    """Handles the calls of `client`. `shows_lease`: it has no session, so each call names its lease."""

    client: McpClientState
    shows_lease: bool = False

    def offers(self) -> list[OfferedTool]:
        """Return its tools: those of the agent that it plays, or of all that it may play."""
        lease, parts = self.client.lease, self.client.parts()
        mine = [part for part in parts if lease is not None and part.agent.address == lease.agent]
        return offered_tools(self.client.context.log, mine or parts)

    async def do(self, name: str, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """Return the answer of the tool `name`. A CommandError becomes an answer, too."""
        try:
            _require_plain(arguments)
            if (ours := _OURS.get(name)) is not None:
                return await ours(self, arguments, report)
            return await self._call(name, arguments, report)
        except CommandError as halt:
            return error_answer(halt)

    async def _call(self, name: str, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        lease = self.client.mine()
        # An unknown name is passed on: the answer of the agent lists the tools.
        tool = next((one.tool for one in self.offers() if one.name == name and one.tool), name)
        ended = await self.client.call(tool, arguments, report)
        if ended.result.error == INTERRUPTED and self.client.lease is not None:
            news = await self.client.call("", {}, report)
            return call_answer(ended).then(news)
        if tool in CLAIMS and ended.result.state is CallState.SUCCEEDED:
            return await self._judged(lease, ended, report)
        return call_answer(ended)

    async def _judged(self, lease: TaskLease, ended: CallEnded, report: ReportProgress) -> ToolAnswer:
        """Wait for the checks of a claim. Returns whether it was accepted."""
        log = self.client.context.log
        await report("its checks run")
        async with self.client.waits(lease, report):
            while _is_open(log, lease):
                await log.moved()
        task = log.get(lease.task)
        if task is None or log.get(lease.agent) is None:
            return ToolAnswer((f"{lease.task} is gone",), {"state": "Cancelled"}, is_error=True)
        if task.state in ENDED:
            self.client.lease = None
            return claim_answer(task).then(ended)
        return rejection_answer(await self.client.call("", {}, report))

    async def list_tasks(self, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """The tasks of its identity."""
        del arguments, report
        await self.client.keep_alive()
        lease = self.client.lease
        return tasks_answer(self.client.parts(), "" if lease is None else lease.path)

    async def take_task(self, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """Takes one, and hears what it is about."""
        lease = await self.client.take(str(arguments.get("task") or ""), report)
        ended = await self.client.call("", {}, report)
        if ended.result.state is not CallState.SUCCEEDED:
            ended = CallEnded(
                CallResult(CallState.SUCCEEDED), ended.told
            )  # The briefing is readable with a spent budget, too.
        return lease_answer(lease, ended, shows_lease=self.shows_lease)

    async def leave_task(self, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """Gives it back."""
        del report
        lease = self.client.mine()
        reason = str(arguments.get("reason") or "its client gave it back")
        await self.client.leave(reason[: limits.REASON_CHARS_MAX])  # Too long a reason must not keep the task.
        return ToolAnswer((f"{lease.task} is free again.",), {"state": "Succeeded", "task": lease.path})

    async def wait_for_news(self, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """Waits for anything that its agent would be told."""
        given = arguments.get("for_s", WAIT_S)
        if not isinstance(given, int | float) or isinstance(given, bool) or not 0 <= given <= WAIT_MAX_S:
            raise CommandError(ExitCode.USAGE, f"for_s is a number from 0 to {WAIT_MAX_S:g}", "60 is usual")
        lease = self.client.mine()
        with anyio.move_on_after(float(given)):
            await self.client.keep_alive()
            while not has_news(self.client, lease):
                # Nothing is awaited between the look and this, so that no change is missed.
                with anyio.move_on_after(lease.lease_s / 3):
                    await self.client.context.log.moved()
                self.client.mine()
                await self.client.keep_alive()
        if not has_news(self.client, lease):
            return NOTHING
        return news_answer(await self.client.call("", {}, report))

    async def plan_diff(self, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """What a patch would do."""
        del report
        lease = self.client.mine()
        if not isinstance(ops := arguments.get("ops"), list) or not ops:
            raise CommandError(ExitCode.USAGE, "ops is a list of RFC 6902 operations", "as for plan_patch")
        await self.client.keep_alive()
        return diff_answer(await self.client.context.act("preview", {"agent": lease.agent, "ops": ops}))


def _is_open(log: ObjectReader, lease: TaskLease) -> bool:
    """Return whether the checks of the claim have not ended."""
    task, agent = log.get(lease.task), log.get(lease.agent)
    return task is not None and agent is not None and task.state not in ENDED and agent.state in JUDGED


def _require_plain(arguments: JsonObject) -> None:
    """Raise CommandError for values that the log cannot hold: NaN, 1e999."""
    try:
        encode(arguments)
    except ValueError as error:
        raise CommandError(ExitCode.USAGE, f"the arguments are no JSON: {error}", "a number has an end") from None


_OURS: Final[Mapping[str, Do]] = {one.name: getattr(ToolHandlers, one.name) for one in TASK_TOOLS}


def has_news(client: McpClientState, lease: TaskLease) -> bool:
    """Return whether the next turn of its agent would have news for it."""
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
