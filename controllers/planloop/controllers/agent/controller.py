"""The agent controller: observe an agent, decide its next step, and take it, until nothing is left to do.

`planloop.controllers.agent.turn` lists the modules that a turn passes through, in order. Steps between which nothing is
awaited go into one append (`planloop.controllers.agent.batch`), so that the written state is the one that was decided
on. An effect begins only after its intent is flushed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from planloop.controllers.agent import agent_copy, budget, decide, escalation, external_lease
from planloop.controllers.agent.batch import WriteBatch
from planloop.controllers.agent.hooks import agent_hooks
from planloop.controllers.agent.hooks.dispatch import HookDispatcher
from planloop.controllers.agent.hooks.questions import HookMoment
from planloop.controllers.agent.mail import wake_reasons
from planloop.controllers.agent.mixins.concurrency_limits import PermitPool
from planloop.controllers.agent.mixins.middleware import ResultCache
from planloop.controllers.agent.observe import ObservedAgent, SpecCache, observe_again, observe_agent, without_jobs
from planloop.controllers.agent.services import AgentServices
from planloop.controllers.agent.status import AGENT_ACTOR, TranscriptChunk
from planloop.controllers.agent.tools.delegation import AgentTools
from planloop.controllers.agent.tools.mcp_tools import McpTools
from planloop.controllers.agent.tools.registry import BUILT_IN_TOOLS
from planloop.controllers.agent.tools.tool import Tool, ToolCache
from planloop.controllers.agent.turn import (
    ask,
    authorization,
    call_locks,
    call_run,
    permissions,
    prompt,
    records,
    transcript,
)
from planloop.reconciler.engine.reconcile import Again, Done, Outcome
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.address import Address
from planloop.schemas.log.record import Change, RecordDraft
from planloop.schemas.objects.agent import AgentState
from planloop.schemas.objects.call import EffectClass
from planloop.schemas.objects.lock import LASTING, OF_AGENTS, LockKept
from planloop.schemas.resource import Resource


class AgentReconciler:
    """Drives objects of kind `agent`. `tools` may be a subset or a superset of the built-in ones."""

    def __init__(self, services: AgentServices, tools: Mapping[str, Tool] = BUILT_IN_TOOLS) -> None:
        self._services = services
        served = McpTools(AgentTools(tools, lambda: services.store.view), lambda: services.store.view)
        self._tools = ToolCache(served, lambda: services.store.view)
        self._specs = SpecCache()
        self._permits = PermitPool(services.work)
        self._hooks = HookDispatcher(services, self._tools, self.look, self._take_next_steps_in_job)
        self._asking = ask.AskServices(
            services, self._tools, self.look, self._take_next_steps_in_job, services.ids.mint(), self._permits
        )
        self._calling = call_run.CallServices(
            services, self._tools, self.look, self._hooks.objection, self._permits, ResultCache(), self._settle_in_job
        )

    @property
    def kind(self) -> str:
        return "agent"

    async def reconcile(self, address: Address) -> Outcome:
        """Take steps until the agent rests or waits for a job."""
        store = self._services.store
        if _is_untouched(store.view, str(address)):
            return Done()
        before = store.view.rev
        self._permits.sweep()
        outcome = await self._take_steps(str(address), self._batch(str(address)), "")
        if store.view.rev != before:
            await store.flush(store.view.rev)
        return outcome

    def look(self, address: str) -> ObservedAgent | None:
        """The agent as it is now; None if it was removed."""
        return self._observe(address, self._services.store.view, "")

    def _observe(self, address: str, view: View, without: str) -> ObservedAgent | None:
        """The agent in `view`, as if the job with the key `without` had ended."""
        resource = view.get(address)
        if resource is None:
            return None
        services = self._services
        agent = observe_agent(resource, view, services.work, self._specs, services.clock.now(), services.plan)
        return without_jobs(agent, frozenset({without}))

    async def _take_steps(self, address: str, batch: WriteBatch, without: str) -> Outcome:
        """Take steps after those in `batch` until the agent rests or waits for a job, in as few records as possible.

        `without` is the key of the job that calls this as its last act; empty if none does.
        """
        agent = self._observe(address, batch, without)
        outcome: Outcome | None = Done() if agent is None else None
        count = 0
        while agent is not None and outcome is None:
            if not batch.is_empty and decide.has_waiting_calls(agent):
                batch.commit()  # A waiting call reads what other agents have written.
            outcome = await self._take(agent, batch)
            count += 1
            if outcome is None and count >= limits.PASS_STEPS_MAX:
                outcome = Again(0.0)
            if outcome is None:
                agent = observe_again(agent, batch, self._specs, self._services.plan)
        batch.commit()
        outcome = outcome or Done()
        return outcome if agent is None else external_lease.wake_by_lease(agent, outcome)

    async def _settle_in_job(self, agent: ObservedAgent, draft: RecordDraft, key: str) -> bool:
        """The last act of a call's job: write its result and take the agent's next steps."""
        batch = self._batch(agent.resource.address)
        batch.add(agent.resource.address, draft)
        return await self._take_next_steps_in_job(agent.resource.address, batch, key)

    async def _take_next_steps_in_job(self, address: str, batch: WriteBatch, key: str) -> bool:
        """Take the agent's next steps as the last act of the job `key`.

        Returns True if the end of the job need not wake the agent.
        """
        outcome = await self._take_steps(address, batch, key)
        if isinstance(outcome, Again):
            self._services.work.poke(address, after_s=outcome.after_s)
        return not self._permits.are_out

    def _batch(self, address: str) -> WriteBatch:
        return WriteBatch(self._services.store, lambda: self._services.work.without_waking(address))

    async def _take(self, agent: ObservedAgent, batch: WriteBatch) -> Outcome | None:
        """Decide the next step and take it. Returns None if another step may follow immediately."""
        agent = self._hooks.without_stale(agent)
        step = decide.decide(
            agent,
            lambda call: permissions.is_parallel(call, agent.spec, self._tools),
            lambda call: call_run.resolve_call(self._calling, agent, call),
            self._asking.life,
            partial(self._hooks.unasked, agent),
        )
        if _needs_own_record(agent, step, batch):
            batch.commit()
        draft = self._turn_draft(agent, step, batch) or self._call_draft(agent, step)
        if draft is not None:
            batch.add(agent.resource.address, draft)
            self._release_locks(agent, step, batch)
            return None
        match step:
            case decide.CancelJobs(keys=keys):
                for key in keys:
                    self._services.work.cancel(key)
                return Done()
            case decide.ReleaseAgent():
                return self._release(agent, batch)
            case decide.AskDecider():
                return self._finish(agent, await ask.ask_for_reply(self._asking, agent, batch), batch)
            case decide.ConsultHooks(moment=moment):
                return self._consult(agent, moment, batch)
            case decide.RunCalls(calls=calls):
                return await self._run(agent, calls, batch)
            case decide.AgentRest() as rest:
                return self._rest(agent, rest, batch)
            case _:
                raise AssertionError(f"no code takes the step {step}")

    def _turn_draft(self, agent: ObservedAgent, step: decide.AgentStep, batch: WriteBatch) -> RecordDraft | None:
        """The record of a step that begins or ends a turn; None for others."""
        match step:
            case decide.CloseTurn(why=why):
                return records.draft_turn_close(agent, batch, why)
            case decide.BeginIncarnation(incarnation=incarnation):
                store = self._services.store
                origin = agent_copy.read_origin(agent, store.view, store.get_blob)
                return records.draft_incarnation(agent, incarnation, origin)
            case decide.StartTurn(news=news, is_last=is_last):
                return records.draft_turn_start(agent, news, self._services.ids.mint(), batch, is_last=is_last)
            case decide.EndTurn():
                return self._turn_end(agent, batch)
            case decide.EscalateModel(why=why):
                return records.draft_escalation(agent, why)
            case _:
                return None

    def _turn_end(self, agent: ObservedAgent, batch: WriteBatch) -> RecordDraft:
        opened = agent.opened
        left = agent_hooks.outcome_of_turn(agent, batch, opened)
        if not agent.nature.is_model:
            return records.draft_turn_end(agent, batch, left=left)
        content = prompt.encode_turn(opened)
        by = escalation.escalated_model_name(agent.spec, agent.status)
        chunk = TranscriptChunk(self._services.store.put_blob(content), transcript.estimate_tokens(content), by=by)
        effects: list[EffectClass] = []
        for call in opened.reply.calls:
            tool = self._tools.get(call.tool)
            # An unknown tool changes nothing.
            effects.append(
                EffectClass.READ if tool is None else permissions.effect_of(tool, call.arguments, agent.spec)
            )
        return records.draft_turn_end(agent, batch, chunk, left, effects)

    def _call_draft(self, agent: ObservedAgent, step: decide.AgentStep) -> RecordDraft | None:
        """The record of a step that moves calls without running them; None for others."""
        match step:
            case decide.AuthorizeCalls():
                approve = authorization.approve_patterns(self._services.store.view, self._services.plan, agent)
                return authorization.draft_authorization(agent, self._tools, approve)
            case decide.InterruptTurn():
                return authorization.draft_interruption(agent)
            case decide.ApplyApprovals(calls=waiting):
                return authorization.draft_approval_answers(agent, waiting)
            case decide.CollectResults(calls=ended):
                return authorization.draft_collected_result(agent, ended[0])
            case decide.AnswerQuestion(answer=answer):
                return records.draft_answer(agent, answer)
            case decide.EndLease(why=why):
                return external_lease.draft_lease_end(agent, why)
            case decide.ResolveWait(call=call, ending=ending):
                return records.draft_ending(agent, call, ending)
            case _:
                return None

    def _release_locks(self, agent: ObservedAgent, step: decide.AgentStep, batch: WriteBatch) -> None:
        """Release the locks of a turn, run or agent that ends with `step`, and withdraw its requests for locks."""
        gone: tuple[Resource, ...] = ()
        kept: tuple[LockKept, ...] = ()
        match step:
            case decide.EndTurn():
                kept = ("turn",)
            case decide.InterruptTurn():
                gone = tuple(agent.objects.calls.values())
            case decide.EndLease():
                kept = OF_AGENTS
            case (
                decide.CloseTurn()
                | decide.BeginIncarnation()
                | decide.ReleaseAgent()
                | decide.AgentRest(state=AgentState.ENDED)
            ):
                gone, kept = tuple(agent.objects.calls.values()), LASTING
            case _:
                return
        for call in gone:
            if (draft := call_locks.draft_wait_withdrawal(agent, batch, call)) is not None:
                batch.add(agent.resource.address, draft)
        if kept and (draft := call_locks.draft_lock_release(agent, batch, kept)) is not None:
            batch.add(agent.resource.address, draft)

    def _release(self, agent: ObservedAgent, batch: WriteBatch) -> Outcome:
        if "agent" in agent.resource.finalizers:
            batch.add(agent.resource.address, records.draft_release(agent))
            self._release_locks(agent, decide.ReleaseAgent(), batch)
        return Done()

    def _consult(self, agent: ObservedAgent, moment: HookMoment, batch: WriteBatch) -> Outcome | None:
        waits = self._hooks.consult(agent, moment, batch)
        return None if waits is None else self._rest(agent, decide.rest_for_hooks(agent, waits), batch)

    async def _run(self, agent: ObservedAgent, calls: tuple[Resource, ...], batch: WriteBatch) -> Outcome | None:
        if agent.hooks.watching and self._hooks.unasked(agent, "starting"):
            return self._consult(agent, "starting", batch)
        return self._finish(agent, await call_run.start_calls(self._calling, agent, calls, batch), batch)

    def _finish(
        self, agent: ObservedAgent, result: Outcome | decide.AgentRest | None, batch: WriteBatch
    ) -> Outcome | None:
        return self._rest(agent, result, batch) if isinstance(result, decide.AgentRest) else result

    def _rest(self, agent: ObservedAgent, rest: decide.AgentRest, batch: WriteBatch) -> Outcome:
        """Write how the agent rests, once; a second pass with nothing changed writes nothing."""
        self._release_locks(agent, rest, batch)
        blocking = records.blocking_merge(agent, rest.condition, rest.why if rest.condition else "", rest.unblocks)
        is_ended = rest.state is AgentState.ENDED
        failed = "" if is_ended else wake_reasons.describe_failures(wake_reasons.failed_children(agent))
        merge = records.join_condition_merges((blocking, records.child_failed_merge(agent, failed)))
        raw = agent.resource.status
        # The open turn shows why the agent runs. Repeating it would need a record for every step.
        is_shown = rest.state is AgentState.RUNNING and not rest.is_wait and raw.get("state") == AgentState.RUNNING
        # An agent that never started is idle without a record; a plan of 1,000 agents would begin with 1,000 writes.
        is_shown = is_shown or (rest.state is AgentState.IDLE and "state" not in raw)
        if not is_shown and (raw.get("state") != str(rest.state) or raw.get("why") != rest.why):
            merge |= {"state": str(rest.state), "why": rest.why}
        opened = agent.status.open
        if opened is not None and rest.is_wait and opened.times.waiting_since is None:
            merge["open"] = {"waiting_since": agent.now}
        if merge and rest.state in (AgentState.BLOCKED, AgentState.PARKED):
            # The task shows the reason and the ways to end it. Both may change while the state stays the same.
            merge["signal"] = [rest.why, *rest.unblocks]
        if merge:
            changes: tuple[Change, ...] = (records.status_change(agent, merge),)
            if rest.state is AgentState.PARKED and agent.status.state != AgentState.PARKED:
                changes += records.budget_message_changes(agent, batch, "spent")
                changes += budget.wait_for_budget_changes(batch, agent.resource, rest.shortage)
            type_ = REST_RECORDS.get(rest.state, "object.updated")
            address = agent.resource.address
            batch.add(address, RecordDraft(type_, AGENT_ACTOR, address, changes, {"why": rest.why}))
        return Done() if rest.after_s is None else Again(rest.after_s)


REST_RECORDS = {
    AgentState.ASLEEP: "agent.slept",
    AgentState.PARKED: "agent.parked",
    AgentState.ENDED: "agent.ended",
}


def _is_untouched(view: View, address: str) -> bool:
    """Whether neither the agent nor its task has a status yet. The first write of the task wakes the agent.

    Most agents of a large plan are in this state at first, and a full observation would have the same result.
    """
    agent = view.get(address)
    if agent is None or agent.status or agent.deleting or agent.spec.get("watches"):
        return False
    task = view.get(agent.spec["task"])
    return task is not None and not task.status and not task.deleting


def _needs_own_record(agent: ObservedAgent, step: decide.AgentStep, batch: WriteBatch) -> bool:
    """Whether `step` must not be in the same record as the steps before it."""
    match step:
        case decide.StartTurn():
            return agent.nature.is_instant and agent.status.turn > 0  # The log shows each turn of a script separately.
        case decide.EndTurn():
            # A replay takes a reply from the open turn, so the record with the reply must not end the turn.
            return not agent.nature.is_instant and batch.has_record("model.replied")
        case _:
            return False
