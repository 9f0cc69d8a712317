"""Handle tool calls: task tools here, all others as calls of the agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.controllers.agent.mail.wake_reasons import fact_digest
from planloop.controllers.agent.observe import observed_child
from planloop.controllers.shared import container_exec
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject, encode
from planloop.schemas.objects.agent import AgentState
from planloop.schemas.objects.approval import APPROVED, REJECTED
from planloop.schemas.objects.call import CallResult, CallState
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource
from planloop.server.mcp import tool_results
from planloop.server.mcp.call_tracker import CallEnded
from planloop.server.mcp.identities import IdentityObjects
from planloop.server.mcp.leases import McpClientState, ReportProgress, TaskLease
from planloop.server.mcp.tool_list import TASK_TOOLS, WAIT_MAX_S, WAIT_S, OfferedTool, offered_tools
from planloop.server.mcp.tool_results import ToolAnswer

CLAIMS: Final = frozenset({"done", "fail"})
JUDGED: Final = frozenset({AgentState.CLAIMED, AgentState.RUNNING, AgentState.ENDED})  # While its claim is looked at.
INTERRUPTED: Final = "Interrupted"
Do = Callable[["ToolHandlers", JsonObject, ReportProgress], Awaitable[ToolAnswer]]


@dataclass(frozen=True, slots=True)
class ToolHandlers:
    """What `client` may do. `shows_lease`: it has no session, so it says with each call which task it has."""

    client: McpClientState
    shows_lease: bool = False

    def offers(self) -> list[OfferedTool]:
        """The tools it is shown: those of the agent that it plays, or of all that it may play."""
        taken, parts = self.client.taken, self.client.parts()
        mine = [part for part in parts if taken is not None and part.agent.address == taken.agent]
        return offered_tools(self.client.house.log, mine or parts)

    async def do(self, name: str, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """What the tool `name` gives. Never raises CommandError: that is an answer, too."""
        try:
            _require_plain(arguments)
            if (ours := _OURS.get(name)) is not None:
                return await ours(self, arguments, report)
            return await self._call(name, arguments, report)
        except CommandError as halt:
            return tool_results.error_answer(halt)

    async def _call(self, name: str, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        taken = self.client.mine()
        # A name that is not offered goes through as it stands: its agent says what there is.
        tool = next((one.tool for one in self.offers() if one.name == name and one.tool), name)
        ended = await self.client.call(tool, arguments, report)
        if ended.result.error == INTERRUPTED and self.client.taken is not None:
            news = await self.client.call("", {}, report)
            return tool_results.call_answer(ended).then(news)
        if tool in CLAIMS and ended.result.state is CallState.SUCCEEDED:
            return await self._judged(taken, ended, report)
        return tool_results.call_answer(ended)

    async def _judged(self, taken: TaskLease, ended: CallEnded, report: ReportProgress) -> ToolAnswer:
        """What comes of a claim: its checks run, and it counts or does not."""
        log = self.client.house.log
        await report("its checks run")
        async with self.client.waits(taken, report):
            while _is_open(log, taken):
                await log.moved()
        task = log.get(taken.task)
        if task is None or log.get(taken.agent) is None:
            return ToolAnswer((f"{taken.task} is gone",), {"state": "Cancelled"}, is_error=True)
        if task.state in ENDED:
            self.client.taken = None
            return tool_results.claim_answer(task).then(ended)
        return tool_results.rejection_answer(await self.client.call("", {}, report))

    async def list_tasks(self, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """The tasks of its identity."""
        del arguments, report
        await self.client.seen()
        taken = self.client.taken
        return tool_results.tasks_answer(self.client.parts(), "" if taken is None else taken.path)

    async def take_task(self, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """Takes one, and hears what it is about."""
        taken = await self.client.take(str(arguments.get("task") or ""), report)
        ended = await self.client.call("", {}, report)
        if ended.result.state is not CallState.SUCCEEDED:
            ended = CallEnded(CallResult(CallState.SUCCEEDED), ended.told)  # A spent budget hinders no reading.
        return tool_results.lease_answer(taken, ended, shows_lease=self.shows_lease)

    async def leave_task(self, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """Gives it back."""
        del report
        taken = self.client.mine()
        reason = str(arguments.get("reason") or "its client gave it back")
        await self.client.leave(reason[: limits.REASON_CHARS_MAX])  # Too long a reason must not keep the task.
        return ToolAnswer((f"{taken.task} is free again.",), {"state": "Succeeded", "task": taken.path})

    async def wait_for_news(self, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """Waits for anything that its agent would be told."""
        given = arguments.get("for_s", WAIT_S)
        if not isinstance(given, int | float) or isinstance(given, bool) or not 0 <= given <= WAIT_MAX_S:
            raise CommandError(ExitCode.USAGE, f"for_s is a number from 0 to {WAIT_MAX_S:g}", "60 is usual")
        taken = self.client.mine()
        with anyio.move_on_after(float(given)):
            await self.client.seen()
            while not has_news(self.client, taken):
                # Nothing is awaited between the look and this, so that no change is missed.
                with anyio.move_on_after(taken.lease_s / 3):
                    await self.client.house.log.moved()
                self.client.mine()
                await self.client.seen()
        if not has_news(self.client, taken):
            return tool_results.NOTHING
        return tool_results.news_answer(await self.client.call("", {}, report))

    async def plan_diff(self, arguments: JsonObject, report: ReportProgress) -> ToolAnswer:
        """What a patch would do."""
        del report
        taken = self.client.mine()
        if not isinstance(ops := arguments.get("ops"), list) or not ops:
            raise CommandError(ExitCode.USAGE, "ops is a list of RFC 6902 operations", "as for plan_patch")
        await self.client.seen()
        return tool_results.diff_answer(await self.client.house.act("preview", {"agent": taken.agent, "ops": ops}))


def _is_open(log: IdentityObjects, taken: TaskLease) -> bool:
    """Whether nothing has come of the claim yet."""
    task, agent = log.get(taken.task), log.get(taken.agent)
    return task is not None and agent is not None and task.state not in ENDED and agent.state in JUDGED


def _require_plain(arguments: JsonObject) -> None:
    """Raises CommandError for what clients may write and no log can hold: NaN, 1e999."""
    try:
        encode(arguments)
    except ValueError as error:
        raise CommandError(ExitCode.USAGE, f"the arguments are no JSON: {error}", "a number has an end") from None


_OURS: Final[Mapping[str, Do]] = {one.name: getattr(ToolHandlers, one.name) for one in TASK_TOOLS}


def has_news(client: McpClientState, taken: TaskLease) -> bool:
    """Whether the next turn of its agent would tell it something that nobody has told it yet."""
    log = client.house.log
    agent, task = log.get(taken.agent), log.get(taken.task)
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


def _all(log: IdentityObjects, addresses: Iterable[str]) -> Iterator[Resource]:
    return (one for address in addresses if (one := log.get(address)) is not None)


def _is_child_news(told: JsonObject, child: Resource) -> bool:
    return child.state in ENDED and told.get(child.address) != observed_child(child).token


def _is_container_news(told: JsonObject, container: Resource) -> bool:
    run = container_exec.container_progress(container).run
    return bool(run) and told.get(container.address, run) != run


def _is_answered(approval: Resource) -> bool:
    return approval.state in (APPROVED, REJECTED) and approval.spec["kind"] not in ("call", "input")
