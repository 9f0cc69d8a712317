"""Run one call: durable intent, effect, then its result with everything that takes effect with it (law 5).

`CallRun` is the job. It reads the agent again before it writes: a late result, of another incarnation or a closed turn,
is recorded as evidence and changes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import anyio

from planloop.controllers.agent import external_lease
from planloop.controllers.agent.batch import WriteBatch
from planloop.controllers.agent.decide import AgentRest
from planloop.controllers.agent.mixins import concurrency_limits, middleware
from planloop.controllers.agent.mixins.concurrency_limits import PermitPool
from planloop.controllers.agent.mixins.middleware import ResultCache
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.run_environment import workspace_or_denial
from planloop.controllers.agent.services import TOOL_POOL, AgentServices
from planloop.controllers.agent.status import AGENT_ACTOR, TurnCall
from planloop.controllers.agent.tools.errors import ToolDenied, ToolFailed
from planloop.controllers.agent.tools.tool import (
    CallEnding,
    InvalidToolArguments,
    PendingCall,
    Settlement,
    Tool,
    ToolContext,
    failure,
)
from planloop.controllers.agent.turn import authorization, call_locks, permissions, records
from planloop.controllers.agent.turn.permissions import ToolMap
from planloop.reconciler.effects import journal
from planloop.reconciler.engine.reconcile import Done, Outcome
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import RecordDraft
from planloop.schemas.objects.agent import AgentState
from planloop.schemas.objects.call import CallResult, CallSpec, CallState, call_from_json
from planloop.schemas.resource import Resource

CLEANUP_S = 10.0  # The time to record that a call was stopped.
NO_TOOL: Final = Settlement(CallResult(CallState.FAILED, "this tool is no longer available", "UnknownTool"))

LookUp = Callable[[str], ObservedAgent | None]
"""The agent at an address as it is now; None when it is gone."""


@frozen
class CallServices:
    """What all calls of one owner share.

    `objection` returns why hooks forbid a call with other arguments; empty if they allow it. `settle` writes the record
    of a result and the agent's next steps, as the last act of the job with that key. It returns True if the end of the
    job need not wake the agent.
    """

    services: AgentServices
    tools: ToolMap
    look: LookUp
    objection: Callable[[ObservedAgent, TurnCall], str]
    permits: PermitPool
    cache: ResultCache
    settle: Callable[[ObservedAgent, RecordDraft, str], Awaitable[bool]]


async def start_calls(
    calling: CallServices, agent: ObservedAgent, startable: tuple[Resource, ...], batch: WriteBatch
) -> Outcome | AgentRest | None:
    """Settle an instant call in place, or write the intents of the others in one append and start a job for each.

    Returns how the agent rests if no call may start yet, and None if the next step can be decided immediately.
    """
    address = agent.resource.address
    if (draft := authorization.draft_late_verdict(agent, startable)) is not None:
        batch.add(address, draft)
        return None
    for call in startable:
        tool = calling.tools.get(str(call.spec["tool"]))
        if tool is not None and (why := permissions.why_barred(call, tool, agent.spec)):
            batch.add(
                address, records.draft_settlement(agent, records.SettledCall(call, permissions.denied_result(why)))
            )
            return None
        if tool is None or concurrency_limits.runs_in_place(agent, call, tool):
            await _run_in_place(calling, agent, call, tool, batch)
            return None
    if not _take_locks(calling, agent, startable, batch):
        return None
    startable, full = concurrency_limits.take_call_permits(calling.permits, agent, calling.tools, startable)
    if full is not None and not startable:
        why = concurrency_limits.describe_permit_limit(full)
        return AgentRest(AgentState.RUNNING, why, is_wait=not agent.objects.jobs)
    fresh = [(call, _operation_id(calling, call)) for call in startable if call.state == CallState.AUTHORIZED]
    if fresh:
        batch.add(address, records.draft_call_starts(agent, fresh))
    batch.commit()
    is_fresh = {call.address for call, _ in fresh}
    for old in startable:
        made = calling.services.store.view.get(old.address)
        assert made is not None, "a call that was just started is there"
        tool = calling.tools[str(made.spec["tool"])]
        job = CallRun(calling, tool, made, made.address not in is_fresh)
        calling.services.start_job(agent, made.address, job, TOOL_POOL)
    return Done()


async def _run_in_place(
    calling: CallServices, agent: ObservedAgent, call: Resource, tool: Tool | None, batch: WriteBatch
) -> None:
    if tool is not None and not tool.is_apart:
        batch.commit()  # The tool may read what other agents have written.
    ending: CallEnding = NO_TOOL
    if tool is not None:
        returned = await run_tool(tool, _tool_context(calling.services, agent, call))
        ending = concurrency_limits.trace_in_place(agent, call, tool, returned)
    batch.add(agent.resource.address, records.draft_ending(agent, call, ending))


def _take_locks(calling: CallServices, agent: ObservedAgent, startable: Sequence[Resource], batch: WriteBatch) -> bool:
    """Lock the paths that `startable` write, in the append of their intents. Returns whether all of them may start."""
    is_free = True
    for call in startable:
        tool = calling.tools[str(call.spec["tool"])]
        if call.state != CallState.AUTHORIZED or not tool.locks:
            continue
        taken = call_locks.take_locks(agent, batch, call, tool.locks(_tool_context(calling.services, agent, call)))
        if isinstance(taken, RecordDraft):
            batch.add(agent.resource.address, taken)
        elif taken is not None:
            batch.add(agent.resource.address, records.draft_ending(agent, call, taken))
            is_free = False
    return is_free


def _operation_id(calling: CallServices, call: Resource) -> str:
    """The operation id of a start: the first is the call's own, any later one is new."""
    known = calling.services.store.view.get(call.address)
    return str(call.spec["op"]) if known is None else calling.services.ids.mint()


def why_not_now(
    calling: CallServices, agent: ObservedAgent, call: Resource, arguments: JsonObject
) -> CallResult | None:
    """Why `call` may not run now with `arguments`, by the agent's present rights and hooks; None if it may."""
    asked = TurnCall(call.address, str(call.spec["tool"]), arguments)
    approve = authorization.approve_patterns(calling.services.store.view, calling.services.plan, agent)
    is_changed = arguments != call.spec["arguments"]
    match permissions.check_call(asked, agent.spec, calling.tools, approve):
        case permissions.CallRefused(result=result):
            return result
        case permissions.CallNeedsApproval(pattern=pattern) if is_changed:
            text = (
                f"its arguments were changed, and the new ones need approval: {authorization.approval_reason(pattern)}"
            )
            return CallResult(CallState.DENIED, text, "Denied")
        case _ if is_changed and (why := calling.objection(agent, asked)):
            return CallResult(CallState.DENIED, why, "Denied")
        case _:
            return None


def _tool_context(services: AgentServices, agent: ObservedAgent, call: Resource) -> ToolContext:
    return ToolContext(services, agent, call, call_from_json(call.spec), workspace_or_denial(services, agent))


@dataclass(slots=True)
class CallRun:
    """One start of one call. `call` is the object as of its latest intent, `context` the tool's context for it.

    `tries` counts its intents, including those of earlier owners. `returned` is what the tool returned, before mixins
    changed it. `took_next_steps`: the job has taken the agent's next steps, so that its end need not wake the agent.
    """

    calling: CallServices
    tool: Tool
    call: Resource
    is_resumed: bool
    context: ToolContext = field(init=False)
    tries: int = field(init=False)
    returned: CallEnding | None = field(init=False, default=None)
    took_next_steps: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.tries = 1 + int(self.call.status.get("retries", 0))

    @property
    def services(self) -> AgentServices:
        return self.calling.services

    @property
    def cache(self) -> ResultCache:
        return self.calling.cache

    @property
    def spec(self) -> CallSpec:
        return call_from_json(self.call.spec)

    def look(self, address: str) -> ObservedAgent | None:
        return self.calling.look(address)

    async def __call__(self) -> None:
        """The job: from a durable Started to a durable result."""
        if not self.spec.effect.is_read:
            self.cache.changed()
        try:
            ending = await self._resumed() if self.is_resumed else await self._performed()
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(CLEANUP_S, shield=True):
                await self._stopped()
            raise
        finally:
            if not self.spec.effect.is_read:
                self.cache.changed()
        if ending is not None:
            await self._settle(ending)

    async def _stopped(self) -> None:
        """Settle a call that was stopped with its agent, or put it back if only the owner ends."""
        agent = self.look(self.spec.owner)
        if agent is None or not agent.is_wanted or agent.interrupts or external_lease.is_turn_abandoned(agent):
            await self._settle(Settlement(CallResult(CallState.CANCELLED, "stopped", "Cancelled")))
        elif self._is_between_tries() or self.spec.effect.may_run_again:
            await self._go_back()
        else:
            text = "the owner of the plan ended while it ran: it was stopped, and its effect may have happened"
            await self._settle(Settlement(CallResult(CallState.UNKNOWN, text, "Unknown")))

    def _is_between_tries(self) -> bool:
        """Whether the call failed and waits for its next attempt."""
        now = self.services.store.view.get(self.call.address)
        return now is not None and now.state == CallState.AUTHORIZED

    async def _go_back(self) -> None:
        store, address = self.services.store, self.call.address
        now = store.view.get(address)
        if now is None or (now.uid, now.spec["op"]) != (self.call.uid, self.spec.op):
            return  # The call was cancelled or restarted while its trace was read.
        if now.state == CallState.AUTHORIZED:
            return
        again = records.call_state_change(now, CallState.AUTHORIZED)
        await store.append(RecordDraft("call.reconciled", AGENT_ACTOR, address, (again,)), {address: now.rev})

    async def _performed(self) -> CallEnding:
        await self.services.store.flush(self.services.store.view.rev)
        context = self._context()
        if isinstance(context, Settlement):
            return context
        self.context = context
        return await middleware.run_layers(self, middleware.steps_for_context(context, self.tool))

    async def perform(self) -> CallEnding:
        """See `middleware.CallAttempts`."""
        self.returned = await run_tool(self.tool, self.context)
        return self.returned

    async def again(self, failed: CallResult, pause_s: float) -> Settlement | None:
        """See `middleware.CallAttempts`. Between the two records the call does not run."""
        store, agent = self.services.store, self.look(self.spec.owner)
        if agent is None or not is_current_call(agent, self.call) or agent.budget.left.get("retries", 1) < 1:
            return Settlement(failed)
        draft = middleware.draft_retry(agent, store.view, self.call, failed, self.tries, pause_s)
        store.propose(draft, {agent.resource.address: agent.resource.rev})
        await self.services.clock.sleep(pause_s)
        agent = self.look(self.spec.owner)
        if agent is None or not is_current_call(agent, self.call):
            return Settlement(failed)
        if (refused := why_not_now(self.calling, agent, self.call, self.spec.arguments)) is not None:
            return Settlement(refused)
        address = agent.resource.address
        await store.append(
            records.draft_call_starts(agent, [(self.call, self.services.ids.mint())]), {address: agent.resource.rev}
        )
        now, context = store.view.get(self.call.address), None
        if now is not None:
            self.call, self.tries = now, self.tries + 1
            context = self._context()
        if isinstance(context, ToolContext):
            self.context = replace(context, time_s=self.context.time_s)
            return None
        return context or Settlement(failed)

    def narrowed(self, arguments: JsonObject) -> Settlement | None:
        """See `middleware.CallAttempts`."""
        if (refused := why_not_now(self.calling, self.context.seen, self.call, arguments)) is not None:
            return Settlement(refused)
        self.context = replace(self.context, spec=replace(self.context.spec, arguments=arguments))
        return None

    def _context(self) -> ToolContext | Settlement:
        agent = self.look(self.spec.owner)
        if agent is None:
            return Settlement(failure("Gone", "the agent was removed"))
        return _tool_context(self.services, agent, self.call)

    async def _resumed(self) -> CallEnding | None:
        """The end of a call that an earlier owner started; None if the call is to be started again."""
        trace = await journal.trace_call(self.spec, self.services.programs.processes)
        fate = journal.call_fate(trace, self.spec.effect)
        if fate == "adopt" and self.tool.ended is not None:
            context = self._context()
            if isinstance(context, Settlement):
                return context
            found = await self.services.programs.processes.adopt(self.spec.op)
            return await self.tool.ended(context, found)
        if fate == "doubt":
            return Settlement(CallResult(CallState.UNKNOWN, journal.OUTCOME_UNKNOWN, "Unknown"))
        await self._go_back()
        return None

    async def _settle(self, ending: CallEnding) -> None:
        agent = self.look(self.spec.owner)
        store = self.services.store
        if agent is None or not is_current_call(agent, self.call):
            came: JsonObject = (
                {"wait": ending.why} if isinstance(ending, PendingCall) else {"result": ending.result.to_json()}
            )
            data = {"tool": self.spec.tool, **came, "late": True}
            # Evidence changes no object, so the record expects no revision.
            await store.append(RecordDraft("call.settled", AGENT_ACTOR, self.call.address, data=data), {})
            return
        now = await self._recomputed(ending)
        is_alone = await self.calling.settle(agent, records.draft_ending(agent, self.call, now), self.call.address)
        # Nothing is awaited from here on, so no other job waits for this one.
        self.took_next_steps = is_alone and not self.spec.is_process
        is_over = isinstance(now, Settlement) and now.result.state is not CallState.UNKNOWN
        if self.spec.is_process and is_over:
            await store.flush(store.view.rev)
            self.services.programs.processes.forget([self.spec.op])

    async def _recomputed(self, ending: CallEnding) -> CallEnding:
        """`ending` with changes for the present state: mixin programs may have run since an instant tool returned them.

        If the tool returns another result now, for example because another agent locked the file, that result counts.
        """
        returned = self.returned
        if not (self.tool.is_instant and isinstance(returned, Settlement) and isinstance(ending, Settlement)):
            return ending
        context = self._context()
        if not returned.changes or ending.changes is not returned.changes or isinstance(context, Settlement):
            return ending
        # The tool is a plain function and awaits nothing, so what it read is still true when its result is written.
        now = await run_tool(self.tool, replace(context, spec=self.context.spec, time_s=self.context.time_s))
        if not isinstance(now, Settlement) or now.result != returned.result:
            return now
        data = {**ending.data, **now.data}
        return replace(ending, changes=now.changes, agent=now.agent, turn=now.turn, data=data)


def is_current_call(agent: ObservedAgent, call: Resource) -> bool:
    """Whether the open turn still waits for this very call object."""
    opened = agent.status.open
    now = agent.objects.calls.get(call.address)
    if opened is None or now is None or now.uid != call.uid or now.spec["op"] != call.spec["op"]:
        return False
    return any(each.address == call.address for each in opened.reply.calls) and call.address not in opened.results


def resolve_call(calling: CallServices, agent: ObservedAgent, call: Resource) -> CallEnding | None:
    """The end or the next step of a waiting call, by this observation; None while it waits as before."""
    tool = calling.tools.get(str(call.spec["tool"]))
    found = NO_TOOL if tool is None else _resolved(tool, _tool_context(calling.services, agent, call))
    return None if found is None else concurrency_limits.trace_wait(agent, call, tool, found)


def _resolved(tool: Tool, context: ToolContext) -> CallEnding | None:
    if context.call.state == CallState.AWAITING_LOCK and context.call.status.get("wants"):
        return call_locks.resolve_lock_wait(context.seen, context.services.store.view, context.call)
    if context.call.status.get("after"):
        return call_locks.resolve_wait_behind(context.seen, context.services.store.view, context.call)
    if tool.resolve is None:
        return Settlement(failure("Gone", f"what `{tool.name}` waited for no longer exists"))
    try:
        return tool.resolve(context)
    except ToolFailed as error:
        return Settlement(failure(error.reason, str(error)))
    except ToolDenied as error:
        return deny_call(str(error))


async def run_tool(tool: Tool, context: ToolContext) -> CallEnding:
    """Run the tool; its refusals and failures are results."""
    try:
        given = tool.given(context.spec.arguments)
        answer = tool.function(context, **given)
        ended: CallEnding = await answer if inspect.isawaitable(answer) else answer
        return ended
    except ToolFailed as error:
        return Settlement(failure(error.reason, str(error)))
    except ToolDenied as error:
        return deny_call(str(error))
    except InvalidToolArguments as error:
        return Settlement(failure("BadArguments", str(error)))


def deny_call(text: str) -> Settlement:
    """The settlement of a denied call."""
    return Settlement(CallResult(CallState.DENIED, text, "Denied"))
