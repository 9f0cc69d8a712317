"""The agent controller: observes, decides, and does the one step, until there is nothing to do.

Every step is one append made from one observation with nothing awaited between, so what was decided is what is
written. Steps that only record are proposed and flushed together; what follows an intent waits for its flush.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from controllers.agent import asking, calls, conditions, deciding, origins, prompting, ruling, running, transcript, turn
from controllers.agent.approving import approve_patterns
from controllers.agent.behaviours import starting
from controllers.agent.behaviours.caching import Cache
from controllers.agent.behaviours.permits import Permits
from controllers.agent.behaviours.thinking import Asking
from controllers.agent.minds.port import Reply
from controllers.agent.observing import Observed, Specs, observe
from controllers.agent.ports import World
from controllers.agent.status import OpenTurn, TurnCall
from controllers.agent.tools.agents import AgentTools
from controllers.agent.tools.faults import ToolDenied
from controllers.agent.tools.registry import BUILT_IN
from controllers.agent.tools.served import ServedTools
from controllers.agent.tools.tool import Context, Ending, Settlement, Tool
from controllers.agent.workspaces import workspace_of
from reconciler.contract import Again, Done, Outcome
from schemas import limits
from schemas.address import Address
from schemas.agent import AgentState, Model
from schemas.call import CallResult, CallState, call_from_json
from schemas.encoding import JsonObject
from schemas.record import Change, Draft
from schemas.resource import Resource

MIND: Final = "mind"


class AgentReconciler:
    """Drives objects of kind `agent`. `tools` may be a subset or a superset of the built-in ones."""

    def __init__(self, world: World, tools: Mapping[str, Tool] = BUILT_IN) -> None:
        self._world = world
        self._tools = ServedTools(AgentTools(tools, world.store), lambda: world.store.view)
        self._specs = Specs()
        self._permits = Permits(world.work)
        self._bench = running.Bench(world, self.look, self._against, Cache())

    @property
    def kind(self) -> str:
        return "agent"

    async def reconcile(self, address: Address) -> Outcome:
        """Takes steps until the agent rests or waits for a job."""
        store = self._world.store
        name = str(address)
        before = store.view.rev
        self._permits.sweep()
        outcome: Outcome | None = None
        for _ in range(limits.PASS_STEPS_MAX):
            seen = self.look(name)
            if seen is None:
                break
            outcome = await self._take(seen)
            if outcome is not None:
                break
        if store.view.rev != before:
            await store.flush(store.view.rev)
        return outcome or Done()

    def look(self, address: str) -> Observed | None:
        """The agent as it stands now; None when it is gone."""
        resource = self._world.store.view.get(address)
        if resource is None:
            return None
        return observe(resource, self._world.store.view, self._world.work, self._specs, self._world.clock.now())

    async def _take(self, seen: Observed) -> Outcome | None:
        """Does the one next step; None when there may be another."""
        step = deciding.decide(
            seen,
            lambda call: calls.is_parallel(call, seen.spec, self._tools),
            lambda call: self._resolved(seen, call),
        )
        draft = self._turned(seen, step) or self._ruled(seen, step)
        if draft is not None:
            self._propose(seen, draft)
            return None
        match step:
            case deciding.Cancel(keys=keys):
                for key in keys:
                    self._world.work.cancel(key)
                return Done()
            case deciding.Release():
                return self._release(seen)
            case deciding.Ask():
                return await self._ask(seen)
            case deciding.Run(calls=startable):
                return await self._run(seen, startable)
            case deciding.Rest() as rest:
                return self._rest(seen, rest)
            case _:
                raise AssertionError(f"no way to do {step}")

    def _turned(self, seen: Observed, step: deciding.Step) -> Draft | None:
        """The record of a step that begins or ends a turn; None for others."""
        match step:
            case deciding.Close(why=why):
                return turn.closed(seen, why)
            case deciding.Begin(incarnation=incarnation):
                return turn.begun(seen, incarnation, origins.origin_of(seen, self._world.store.view, self._world.store.get_blob))
            case deciding.Start(news=news):
                return turn.started(seen, news, self._world.ids.mint(), self._world.store.view)
            case deciding.End():
                return self._ended(seen)
            case _:
                return None

    def _ended(self, seen: Observed) -> Draft:
        if not isinstance(seen.spec.mind, Model):
            return turn.ended(seen, self._world.store.view)
        content = prompting.turn_blob(_opened(seen))
        tokens = transcript.tokens_of(content)
        return turn.ended(seen, self._world.store.view, self._world.store.put_blob(content), tokens)

    def _ruled(self, seen: Observed, step: deciding.Step) -> Draft | None:
        """The record of a step that moves calls without running them; None for others."""
        match step:
            case deciding.Authorise():
                return ruling.authorised(seen, self._tools, approve_patterns(self._world, seen))
            case deciding.Interrupt():
                return ruling.interrupted(seen)
            case deciding.Answer(calls=waiting):
                return ruling.answered(seen, waiting)
            case deciding.Collect(calls=ended):
                return ruling.collected(seen, ended[0])
            case deciding.Reply(answer=answer):
                return turn.answered(seen, answer)
            case deciding.Resolve(call=call, ending=ending):
                return running.draft_of(seen, call, ending)
            case _:
                return None

    def _propose(self, seen: Observed, draft: Draft) -> int:
        return self._world.store.propose(draft, {seen.resource.address: seen.resource.rev})

    def _release(self, seen: Observed) -> Outcome:
        if "agent" in seen.resource.finalizers:
            self._propose(seen, turn.released(seen))
        return Done()

    async def _ask(self, seen: Observed) -> Outcome | None:
        opened = _opened(seen)
        if asking.is_instant(seen) and not starting.needs_job(seen):
            self._reply(seen, await asking.answered(self._asking(seen, opened.op)))
            return None
        key = f"{MIND}:{seen.resource.uid}"
        if (full := starting.asking_waits_for(self._permits, seen, key)) is not None:
            return self._rest(seen, deciding.Rest(AgentState.RUNNING, starting.words_of(full)))
        # Asked before: an earlier owner's request, of which nothing may be left when it is asked again.
        stale = opened.op if opened.asked else None
        op = self._world.ids.mint() if stale else opened.op
        self._propose(seen, turn.requested(seen, op))
        name = seen.resource.address

        async def job() -> None:
            await self._ask_outside(name, op, stale)

        self._start(seen, key, job, self._world.mind_pool)
        return Done()

    async def _ask_outside(self, address: str, op: str, stale: str | None) -> None:
        """The job of asking: stops what is left of an earlier request, asks, and appends the reply."""
        await self._world.store.flush(self._world.store.view.rev)
        seen = self.look(address)
        is_taken_up = seen is not None and asking.outlives(seen) and _waits_for(seen, op)
        if stale is not None and not is_taken_up:
            await self._world.processes.stop(stale)
            self._world.processes.forget([stale])
            seen = self.look(address)
        if seen is None or not _waits_for(seen, op):
            return
        asked = self._asking(seen, op, stale)
        reply = await asking.answered(asked)
        now = self.look(address)
        if now is not None and _waits_for(now, asked.op):
            rev = self._reply(now, reply)
            await self._world.store.flush(rev)
        self._world.processes.forget([asked.op])

    def _asking(self, seen: Observed, op: str, stale: str | None = None) -> Asking:
        return Asking(self._world, self.look, seen, op, partial(asking.ask, self._world, self._tools, stale))

    def _reply(self, seen: Observed, reply: Reply) -> int:
        ids = [self._world.ids.mint() for _ in range(max(1, len(reply.calls)))]
        return self._propose(seen, turn.replied(seen, reply, ids, self._tools))

    def _start(self, seen: Observed, key: str, job: running.Job, pool: str) -> None:
        priority = 0 if seen.task_spec is None else seen.task_spec.priority
        self._world.work.start(key, seen.resource.address, job, pool=pool, priority=priority)

    async def _run(self, seen: Observed, startable: tuple[Resource, ...]) -> Outcome | None:
        """Settles instant tools in place; gives the others their intent in one append and a job each."""
        for call in startable:
            tool = self._tools.get(str(call.spec["tool"]))
            if tool is None or starting.is_in_place(seen, call, tool):
                await self._run_instantly(seen, call, tool)
                return None
        startable, full = starting.permitted(self._permits, seen, self._tools, startable)
        if full is not None and not startable:
            return self._rest(seen, deciding.Rest(AgentState.RUNNING, starting.words_of(full)))
        fresh = [(call, self._world.ids.mint()) for call in startable if call.state == CallState.AUTHORIZED]
        if fresh:
            self._propose(seen, running.started(seen, fresh))
        is_fresh = {call.address for call, _ in fresh}
        for old in startable:
            made = self._world.store.view.get(old.address)
            assert made is not None, "a call that was just started is there"
            tool = self._tools[str(made.spec["tool"])]
            job = running.CallRun(self._bench, tool, made, made.address not in is_fresh)
            self._start(seen, deciding.job_key(made.address), job, self._world.pool)
        return Done()

    async def _run_instantly(self, seen: Observed, call: Resource, tool: Tool | None) -> None:
        context = self._context(seen, call)
        ending: Ending
        if tool is None:
            ending = Settlement(CallResult(CallState.FAILED, "this tool is no longer there", "UnknownTool"))
        elif isinstance(context, Settlement):
            ending = context
        else:
            ending = starting.marked(seen, call, tool, await running.performed(tool, context))
        self._propose(seen, running.draft_of(seen, call, ending))

    def _against(self, seen: Observed, call: Resource, arguments: JsonObject) -> CallResult | None:
        """What stands against `call` with `arguments` by the rights of this moment; None: nothing."""
        asked = TurnCall(call.address, str(call.spec["tool"]), arguments)
        ruled = calls.ruling(asked, seen.spec, self._tools, approve_patterns(self._world, seen))
        match ruled:
            case calls.Refused(result=result):
                return result
            case calls.NeedsYes(pattern=pattern) if arguments != call.spec["arguments"]:
                text = f"with other arguments it would need a person's yes to `{pattern}`"
                return CallResult(CallState.DENIED, text, "Denied")
            case _:
                return None

    def _resolved(self, seen: Observed, call: Resource) -> Ending | None:
        """What has become of a waiting call, from this very observation."""
        tool = self._tools.get(str(call.spec["tool"]))
        if tool is None:
            return Settlement(CallResult(CallState.FAILED, "this tool is no longer there", "UnknownTool"))
        context = self._context(seen, call)
        return context if isinstance(context, Settlement) else running.resolved(tool, context)

    def _context(self, seen: Observed, call: Resource) -> Context | Settlement:
        try:
            space = workspace_of(self._world, seen)
        except ToolDenied as fault:
            return running.denied(str(fault))
        return Context(self._world, seen, call, call_from_json(call.spec), space)

    def _rest(self, seen: Observed, rest: deciding.Rest) -> Outcome:
        """Writes how it rests, once; a second pass with nothing changed writes nothing."""
        merge = conditions.blocking_merge(seen, rest.condition, rest.why if rest.condition else "", rest.unblocks)
        raw = seen.resource.status
        if raw.get("state") != str(rest.state) or raw.get("why") != rest.why:
            merge |= {"state": str(rest.state), "why": rest.why}
        opened = seen.status.open
        if opened is not None and rest.is_wait and opened.waiting_since is None:
            merge["open"] = {"waiting_since": seen.now}
        if merge:
            changes: tuple[Change, ...] = (turn.change(seen, merge),)
            if rest.state is AgentState.PARKED and seen.status.state != AgentState.PARKED:
                changes += turn.told_above(seen, self._world.store.view, "spent")
            self._propose(
                seen, Draft(_record_type(rest), turn.ACTOR, seen.resource.address, changes, {"why": rest.why})
            )
        return Done() if rest.after_s is None else Again(rest.after_s)


def _opened(seen: Observed) -> OpenTurn:
    assert seen.status.open is not None, "decided on inside a turn"
    return seen.status.open


def _waits_for(seen: Observed, op: str) -> bool:
    opened = seen.status.open
    return opened is not None and opened.op == op and not opened.is_replied and seen.is_wanted


def _record_type(rest: deciding.Rest) -> str:
    match rest.state:
        case AgentState.ASLEEP:
            return "agent.slept"
        case AgentState.PARKED:
            return "agent.parked"
        case AgentState.ENDED:
            return "agent.ended"
        case _:
            return "object.updated"
