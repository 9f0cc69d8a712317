"""Run one call: durable intent, effect, then its result with everything that takes effect with it (law 5).

A job of the work plane. It reads the agent again before it writes, so that a result that comes too late (another
incarnation, a closed turn) is kept as evidence and changes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import anyio

from planloop.controllers.agent import external_lease
from planloop.controllers.agent.mixins import middleware, retry_policy
from planloop.controllers.agent.mixins.middleware import ResultCache
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.run_environment import workspace_or_denial
from planloop.controllers.agent.services import AgentServices
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
from planloop.controllers.agent.turn import call_locks, pending_calls, records
from planloop.reconciler.effects import journal
from planloop.reconciler.effects.processes import OperationTrace
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, RecordDraft, SetStatus
from planloop.schemas.objects.call import CallResult, CallSpec, CallState, call_from_json
from planloop.schemas.resource import Resource

CLEANUP_S = 10.0  # For writing down that a call was stopped.

CallJob = Callable[[], Awaitable[None]]
LookUp = Callable[[str], ObservedAgent | None]
"""The agent at an address as it stands now."""


@frozen
class CallServices:
    """What all calls of one owner share. `rule` says what stands against a call with other arguments, None: nothing.

    `settle` writes the record of a result, with the steps of its agent that follow, as the last act of the job named;
    True when nobody needs to wake the agent for that.
    """

    world: AgentServices
    look: LookUp
    rule: Callable[[ObservedAgent, Resource, JsonObject], CallResult | None]
    cache: ResultCache
    settle: Callable[[ObservedAgent, RecordDraft, str], Awaitable[bool]]


@dataclass(slots=True)
class CallRun:
    """One start of one call. `call` is the object as of its latest intent, `context` what the tool was given for it.

    `tries` counts the intents that were made for it, those of earlier owners too; `said` is what the tool itself said.
    """

    bench: CallServices
    tool: Tool
    call: Resource
    is_resumed: bool
    context: ToolContext = field(init=False)
    tries: int = field(init=False)
    said: CallEnding | None = field(init=False, default=None)
    went_on: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.tries = 1 + int(self.call.status.get("retries", 0))

    @property
    def world(self) -> AgentServices:
        return self.bench.world

    @property
    def cache(self) -> ResultCache:
        return self.bench.cache

    @property
    def spec(self) -> CallSpec:
        return call_from_json(self.call.spec)

    def look(self, address: str) -> ObservedAgent | None:
        return self.bench.look(address)

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
        """The call was stopped: because its agent was, or because the owner leaves while the agent is to go on."""
        seen = self.look(self.spec.owner)
        if seen is None or not seen.is_wanted or seen.interrupts or external_lease.is_turn_abandoned(seen):
            await self._settle(Settlement(CallResult(CallState.CANCELLED, "stopped", "Cancelled")))
        elif self._is_between_tries() or self.spec.effect.may_run_again:
            await self._go_back()
        else:
            text = "its owner left while it ran: it was stopped, and may have had its effect"
            await self._settle(Settlement(CallResult(CallState.UNKNOWN, text, "Unknown")))

    def _is_between_tries(self) -> bool:
        """Whether it failed, waits to be tried again, and nothing of it is under way."""
        now = self.world.store.view.get(self.call.address)
        return now is not None and now.state == CallState.AUTHORIZED

    async def _go_back(self) -> None:
        store, address = self.world.store, self.call.address
        now = store.view.get(address)
        if now is None or (now.uid, now.spec["op"]) != (self.call.uid, self.spec.op):
            return  # It was called off, or begun anew, while its trace was looked for.
        if now.state == CallState.AUTHORIZED:
            return
        again = call_state_change(now, CallState.AUTHORIZED)
        await store.append(RecordDraft("call.reconciled", records.AGENT_ACTOR, address, (again,)), {address: now.rev})

    async def _performed(self) -> CallEnding:
        await self.world.store.flush(self.world.store.view.rev)
        context = self._context()
        if isinstance(context, Settlement):
            return context
        self.context = context
        return await middleware.run_layers(self, middleware.steps_for_context(context, self.tool))

    async def perform(self) -> CallEnding:
        """See `middleware.CallAttempts`."""
        self.said = await run_tool(self.tool, self.context)
        return self.said

    async def again(self, failed: CallResult, pause_s: float) -> Settlement | None:
        """See `middleware.CallAttempts`. Between the two records nothing of the call is under way."""
        store, seen = self.world.store, self.look(self.spec.owner)
        if seen is None or not is_current_call(seen, self.call) or seen.budget.left.get("retries", 1) < 1:
            return Settlement(failed)
        draft = retry_policy.draft_retry(seen, store.view, self.call, failed, self.tries, pause_s)
        store.propose(draft, {seen.resource.address: seen.resource.rev})
        await self.world.clock.sleep(pause_s)
        seen = self.look(self.spec.owner)
        if seen is None or not is_current_call(seen, self.call):
            return Settlement(failed)
        if (refused := self.bench.rule(seen, self.call, self.spec.arguments)) is not None:
            return Settlement(refused)
        address = seen.resource.address
        await store.append(draft_call_starts(seen, [(self.call, self.world.ids.mint())]), {address: seen.resource.rev})
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
        if (refused := self.bench.rule(self.context.seen, self.call, arguments)) is not None:
            return Settlement(refused)
        self.context = replace(self.context, spec=replace(self.context.spec, arguments=arguments))
        return None

    def _context(self) -> ToolContext | Settlement:
        seen = self.look(self.spec.owner)
        if seen is None:
            return Settlement(failure("Gone", "the agent is gone"))
        return ToolContext(self.world, seen, self.call, self.spec, workspace_or_denial(self.world, seen))

    async def _resumed(self) -> CallEnding | None:
        """What became of a call that somebody else began: its end, None when it goes back to be started again."""
        trace = await self.world.programs.processes.trace(self.spec.op) if self.spec.is_process else OperationTrace.LOST
        if trace in (OperationTrace.RUNNING, OperationTrace.ENDED) and self.tool.ended is not None:
            context = self._context()
            if isinstance(context, Settlement):
                return context
            found = await self.world.programs.processes.adopt(self.spec.op)
            return await self.tool.ended(context, found)
        if trace is OperationTrace.LOST and not self.spec.effect.may_run_again:
            return Settlement(CallResult(CallState.UNKNOWN, journal.OUTCOME_UNKNOWN, "Unknown"))
        await self._go_back()
        return None

    async def _settle(self, ending: CallEnding) -> None:
        seen = self.look(self.spec.owner)
        store = self.world.store
        if seen is None or not is_current_call(seen, self.call):
            came: JsonObject = (
                {"wait": ending.why} if isinstance(ending, PendingCall) else {"result": ending.result.to_json()}
            )
            data = {"tool": self.spec.tool, **came, "late": True}
            # Evidence that changes nothing, so it was computed from nothing.
            await store.append(RecordDraft("call.settled", records.AGENT_ACTOR, self.call.address, data=data), {})
            return
        now = await self._of_now(ending)
        is_alone = await self.bench.settle(seen, draft_ending(seen, self.call, now), self.call.address)
        # Nothing is awaited any more: no other job sees this one in its way.
        self.went_on = is_alone and not self.spec.is_process
        is_over = isinstance(now, Settlement) and now.result.state is not CallState.UNKNOWN
        if self.spec.is_process and is_over:
            await store.flush(store.view.rev)
            self.world.programs.processes.forget([self.spec.op])

    async def _of_now(self, ending: CallEnding) -> CallEnding:
        """`ending` with the changes of this moment: programs took their time since an instant tool said what it writes.

        If it says something else by now (others hold the file), that is what happens, and nothing of the old.
        """
        said = self.said
        if not (self.tool.is_instant and isinstance(said, Settlement) and isinstance(ending, Settlement)):
            return ending
        context = self._context()
        if not said.changes or ending.changes is not said.changes or isinstance(context, Settlement):
            return ending
        # Yields to nobody, for the tool is a plain function: what it read is what there is when it is written.
        now = await run_tool(self.tool, replace(context, spec=self.context.spec, time_s=self.context.time_s))
        if not isinstance(now, Settlement) or now.result != said.result:
            return now
        data = {**ending.data, **now.data}
        return replace(ending, changes=now.changes, agent=now.agent, turn=now.turn, data=data)


def is_current_call(seen: ObservedAgent, call: Resource) -> bool:
    """Whether the open turn still waits for this very call object."""
    opened = seen.status.open
    now = seen.objects.calls.get(call.address)
    if opened is None or now is None or now.uid != call.uid or now.spec["op"] != call.spec["op"]:
        return False
    return any(each.address == call.address for each in opened.calls) and call.address not in opened.results


def draft_ending(seen: ObservedAgent, call: Resource, ending: CallEnding) -> RecordDraft:
    """The record of what a tool said: the call's one result, or that it waits."""
    if isinstance(ending, PendingCall):
        return pending_calls.draft_wait(seen, call, ending)
    opened = seen.status.open
    waited = {} if opened is None else pending_calls.wait_end_merge(seen, opened)
    merge = {**ending.turn, **waited}
    return records.draft_settlement(
        seen, records.SettledCall(call, ending.result, ending.changes, ending.agent, merge, ending.data)
    )


def resolve_waiting_call(tool: Tool, context: ToolContext) -> CallEnding | None:
    """What has become of a waiting call; a fault of the tool is the call's result."""
    if context.call.state == CallState.AWAITING_LOCK and context.call.status.get("wants"):
        return call_locks.resolve_lock_wait(context.seen, context.world.store.view, context.call)
    if context.call.status.get("after"):
        return call_locks.resolve_wait_behind(context.seen, context.world.store.view, context.call)
    if tool.resolve is None:
        return Settlement(failure("Gone", f"nothing is left that `{tool.name}` could wait for"))
    try:
        return tool.resolve(context)
    except ToolFailed as fault:
        return Settlement(failure(fault.reason, str(fault)))
    except ToolDenied as fault:
        return deny_call(str(fault))


async def run_tool(tool: Tool, context: ToolContext) -> CallEnding:
    """What the tool says; its refusals and failures as results."""
    try:
        given = tool.given(context.spec.arguments)
        answer = tool.function(context, **given)
        ended: CallEnding = await answer if inspect.isawaitable(answer) else answer
        return ended
    except ToolFailed as fault:
        return Settlement(failure(fault.reason, str(fault)))
    except ToolDenied as fault:
        return deny_call(str(fault))
    except InvalidToolArguments as fault:
        return Settlement(failure("BadArguments", str(fault)))


def deny_call(text: str) -> Settlement:
    """The settlement of a call that may not be made."""
    return Settlement(CallResult(CallState.DENIED, text, "Denied"))


def draft_call_starts(seen: ObservedAgent, calls: list[tuple[Resource, str]]) -> RecordDraft:
    """The intents of several calls, each with its operation id, in one append: flushed before any of them begins."""
    changes = [change for call, op in calls for change in _begun(call, op)]
    opened = seen.status.open
    waited = {} if opened is None else dict(pending_calls.wait_end_merge(seen, opened))  # For a permit: that is over.
    turn_state = records.status_change(seen, {"state": "running", "why": None} | ({"open": waited} if waited else {}))
    data = {"calls": [call.address for call, _ in calls]}
    return RecordDraft("call.started", records.agent_author(seen), seen.resource.address, (turn_state, *changes), data)


def _begun(call: Resource, op: str) -> tuple[Change, ...]:
    if op == call.spec["op"]:
        return (call_state_change(call, CallState.STARTED, result=None, why=None),)
    return journal.start_changes(replace(call_from_json(call.spec), op=op), call.address.partition("/")[2])


def call_state_change(call: Resource, state: CallState, **more: str | None) -> SetStatus:
    """A call's new state."""
    return SetStatus(call.address, call.uid, {"state": str(state), **more})
