"""The agent controller: observe an agent, decide its next step, and take it, until nothing is left to do.

Steps that follow from one observation with nothing awaited between are one append (`planloop.controllers.agent.batch`),
so what was decided is what is written; an effect waits until its intent is flushed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from planloop.controllers.agent import agent_copy, budget, decide, escalation, external_lease, services, steps
from planloop.controllers.agent.batch import WriteBatch
from planloop.controllers.agent.hooks import comments
from planloop.controllers.agent.hooks.dispatch import HookDispatcher
from planloop.controllers.agent.mail import wake_reasons
from planloop.controllers.agent.mixins import concurrency_limits
from planloop.controllers.agent.mixins.concurrency_limits import PermitPool
from planloop.controllers.agent.mixins.middleware import LayeredAsk, ResultCache
from planloop.controllers.agent.models.catalog import UnpricedModel
from planloop.controllers.agent.observe import ObservedAgent, SpecCache, observe_again, observe_agent, without_jobs
from planloop.controllers.agent.run_environment import workspace_or_denial
from planloop.controllers.agent.services import AgentServices
from planloop.controllers.agent.status import OpenTurn, TranscriptChunk, TurnCall
from planloop.controllers.agent.tools.delegation import AgentTools
from planloop.controllers.agent.tools.mcp_tools import McpTools
from planloop.controllers.agent.tools.registry import BUILT_IN_TOOLS
from planloop.controllers.agent.tools.tool import CallEnding, Settlement, Tool, ToolCache, ToolContext
from planloop.controllers.agent.turn import (
    ask,
    authorization,
    call_locks,
    call_run,
    model_request,
    pending_calls,
    permissions,
    prompt,
    records,
    transcript,
)
from planloop.controllers.agent.turn.ask import AskJob, AskServices
from planloop.controllers.agent.turn.model_request import PreparedRequest
from planloop.controllers.agent.turn.pending_calls import approve_patterns
from planloop.controllers.agent.turn.prompt import PromptCache
from planloop.controllers.agent.turn.transcript import SummaryPlan
from planloop.controllers.shared.ledger import BudgetShortage
from planloop.reconciler.engine.reconcile import Again, Done, Outcome
from planloop.reconciler.store.store import View, require_blob
from planloop.schemas import limits
from planloop.schemas.address import Address
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.record import Change, RecordDraft, SetStatus
from planloop.schemas.objects.agent import UNPRICED, AgentState
from planloop.schemas.objects.call import CallResult, CallState, EffectClass, call_from_json
from planloop.schemas.objects.lock import LASTING, OF_AGENTS, LockKept
from planloop.schemas.resource import Resource


class AgentReconciler:
    """Drives objects of kind `agent`. `tools` may be a subset or a superset of the built-in ones."""

    def __init__(self, world: AgentServices, tools: Mapping[str, Tool] = BUILT_IN_TOOLS) -> None:
        self._world = world
        served = McpTools(AgentTools(tools, lambda: world.store.view), lambda: world.store.view)
        self._tools = ToolCache(served, lambda: world.store.view)
        self._specs = SpecCache()
        self._prompts = PromptCache()
        self._permits = PermitPool(world.work)
        self._bench = call_run.CallServices(world, self.look, self._against, ResultCache(), self._settled)
        self._firing = HookDispatcher(world, self._tools, self.look, self._go_on_alone)
        self._desk = AskServices(world, self._tools, self.look, self._go_on_alone, world.ids.mint())

    @property
    def kind(self) -> str:
        return "agent"

    async def reconcile(self, address: Address) -> Outcome:
        """Takes steps until the agent rests or waits for a job."""
        store = self._world.store
        if _is_untouched(store.view, str(address)):
            return Done()
        before = store.view.rev
        self._permits.sweep()
        outcome = await self._go_on(str(address), self._ahead(str(address)), "")
        if store.view.rev != before:
            await store.flush(store.view.rev)
        return outcome

    def look(self, address: str) -> ObservedAgent | None:
        """The agent as it stands now; None when it is gone."""
        return self._see(address, self._world.store.view, "")

    def _see(self, address: str, view: View, without: str) -> ObservedAgent | None:
        """The same in a view of what will be, when the job of the key `without` has ended."""
        resource = view.get(address)
        if resource is None:
            return None
        seen = observe_agent(resource, view, self._world.work, self._specs, self._world.clock.now(), self._world.plan)
        return without_jobs(seen, frozenset({without}))

    async def _go_on(self, address: str, ahead: WriteBatch, without: str) -> Outcome:
        """Takes steps after those in `ahead` until the agent rests or waits for a job, in as few records as can be.

        `without` is the key of the job that calls this as its last act, empty when none does.
        """
        seen = self._see(address, ahead, without)
        outcome: Outcome | None = Done() if seen is None else None
        count = 0
        while seen is not None and outcome is None:
            if not ahead.is_empty and _has_waiting(seen):
                ahead.commit()  # What a waiting call looks at is what there is.
            outcome = await self._take(seen, ahead)
            count += 1
            if outcome is None and count >= limits.PASS_STEPS_MAX:
                outcome = Again(0.0)
            if outcome is None:
                seen = observe_again(seen, ahead, self._specs, self._world.plan)
        ahead.commit()
        outcome = outcome or Done()
        return outcome if seen is None else external_lease.wake_by_lease(seen, outcome)

    async def _settled(self, seen: ObservedAgent, draft: RecordDraft, key: str) -> bool:
        """The last act of a call's job: its result, and the steps that follow from it."""
        ahead = self._ahead(seen.resource.address)
        ahead.add(seen.resource.address, draft)
        return await self._go_on_alone(seen.resource.address, ahead, key)

    async def _go_on_alone(self, address: str, ahead: WriteBatch, key: str) -> bool:
        """The last act of the job `key`. True when nobody needs to wake the agent because the job has ended."""
        outcome = await self._go_on(address, ahead, key)
        if isinstance(outcome, Again):
            self._world.work.poke(address, after_s=outcome.after_s)
        return not self._permits.are_out

    def _ahead(self, address: str) -> WriteBatch:
        return WriteBatch(self._world.store, lambda: self._world.work.driving(address))

    async def _take(self, seen: ObservedAgent, ahead: WriteBatch) -> Outcome | None:
        """Does the one next step; None when there may be another."""
        seen = self._firing.without_stale(seen)
        step = decide.decide(
            seen,
            lambda call: permissions.is_parallel(call, seen.spec, self._tools),
            lambda call: self._resolved(seen, call),
            self._desk.life,
            partial(self._firing.unasked, seen),
        )
        if _is_apart(seen, step, ahead):
            ahead.commit()
        draft = self._turned(seen, step, ahead) or self._ruled(seen, step)
        if draft is not None:
            ahead.add(seen.resource.address, draft)
            self._give_back(seen, step, ahead)
            return None
        match step:
            case steps.CancelJobs(keys=keys):
                for key in keys:
                    self._world.work.cancel(key)
                return Done()
            case steps.ReleaseAgent():
                return self._release(seen, ahead)
            case steps.AskDecider():
                return await self._ask(seen, ahead)
            case steps.ConsultHooks(moment=moment):
                waits = self._firing.consult(seen, moment, ahead)
                return None if waits is None else self._rest(seen, decide.rest_for_hooks(seen, waits), ahead)
            case steps.RunCalls(calls=startable):
                return await self._run(seen, startable, ahead)
            case steps.AgentRest() as rest:
                return self._rest(seen, rest, ahead)
            case _:
                raise AssertionError(f"no way to do {step}")

    def _turned(self, seen: ObservedAgent, step: steps.AgentStep, ahead: WriteBatch) -> RecordDraft | None:
        """The record of a step that begins or ends a turn; None for others."""
        match step:
            case steps.CloseTurn(why=why):
                return records.draft_turn_close(seen, ahead, why)
            case steps.BeginIncarnation(incarnation=incarnation):
                store = self._world.store
                return records.draft_incarnation(
                    seen, incarnation, agent_copy.read_origin(seen, store.view, store.get_blob)
                )
            case steps.StartTurn(news=news, is_last=is_last):
                return records.draft_turn_start(seen, news, self._world.ids.mint(), ahead, is_last=is_last)
            case steps.EndTurn():
                return self._ended(seen, ahead)
            case steps.EscalateModel(why=why):
                return records.draft_escalation(seen, why)
            case _:
                return None

    def _give_back(self, seen: ObservedAgent, step: steps.AgentStep, ahead: WriteBatch) -> None:
        """What the agent holds, and what it waits for, goes with its turn, its run or its end, in the same append."""
        gone: tuple[Resource, ...] = ()
        kept: tuple[LockKept, ...] = ()
        match step:
            case steps.EndTurn():
                kept = ("turn",)
            case steps.InterruptTurn():
                gone = tuple(seen.objects.calls.values())
            case steps.EndLease():
                kept = OF_AGENTS
            case (
                steps.CloseTurn()
                | steps.BeginIncarnation()
                | steps.ReleaseAgent()
                | steps.AgentRest(state=AgentState.ENDED)
            ):
                gone, kept = tuple(seen.objects.calls.values()), LASTING
            case _:
                return
        for call in gone:
            if (draft := call_locks.draft_wait_withdrawal(seen, ahead, call)) is not None:
                ahead.add(seen.resource.address, draft)
        if kept and (draft := call_locks.draft_lock_release(seen, ahead, kept)) is not None:
            ahead.add(seen.resource.address, draft)

    def _ended(self, seen: ObservedAgent, ahead: WriteBatch) -> RecordDraft:
        left = comments.outcome_of_turn(seen, ahead, _opened(seen))
        if not seen.nature.is_model:
            return records.draft_turn_end(seen, ahead, left=left)
        content = prompt.encode_turn(_opened(seen))
        by = escalation.escalated_model_name(seen.spec, seen.status)
        chunk = TranscriptChunk(self._world.store.put_blob(content), transcript.estimate_tokens(content), by=by)
        return records.draft_turn_end(seen, ahead, chunk, left, self._effects(seen))

    def _effects(self, seen: ObservedAgent) -> list[EffectClass]:
        """What each call of the open turn may change; one of an unknown tool changes nothing."""
        found: list[EffectClass] = []
        for call in _opened(seen).calls:
            tool = self._tools.get(call.tool)
            found.append(EffectClass.READ if tool is None else permissions.effect_of(tool, call.arguments, seen.spec))
        return found

    def _ruled(self, seen: ObservedAgent, step: steps.AgentStep) -> RecordDraft | None:
        """The record of a step that moves calls without running them; None for others."""
        match step:
            case steps.AuthorizeCalls():
                return authorization.draft_authorization(seen, self._tools, approve_patterns(self._world, seen))
            case steps.InterruptTurn():
                return authorization.draft_interruption(seen)
            case steps.ApplyApprovals(calls=waiting):
                return authorization.draft_approval_answers(seen, waiting)
            case steps.CollectResults(calls=ended):
                return authorization.draft_collected_result(seen, ended[0])
            case steps.AnswerQuestion(answer=answer):
                return records.draft_answer(seen, answer)
            case steps.EndLease(why=why):
                return external_lease.draft_lease_end(seen, why)
            case steps.ResolveWait(call=call, ending=ending):
                tool = self._tools.get(str(call.spec["tool"]))
                return call_run.draft_ending(seen, call, concurrency_limits.trace_wait(seen, call, tool, ending))
            case _:
                return None

    def _release(self, seen: ObservedAgent, ahead: WriteBatch) -> Outcome:
        if "agent" in seen.resource.finalizers:
            ahead.add(seen.resource.address, records.draft_release(seen))
            self._give_back(seen, steps.ReleaseAgent(), ahead)
        return Done()

    async def _ask(self, seen: ObservedAgent, ahead: WriteBatch) -> Outcome | None:
        opened = _opened(seen)
        address = seen.resource.address
        if seen.nature.is_instant and not concurrency_limits.asking_needs_job(seen):
            plain = partial(ask.ask_decider, self._world, self._tools, None)
            reply = await ask.ask_through_mixins(LayeredAsk(self._world, self.look, seen, opened.op, plain))
            ids = [self._world.ids.mint() for _ in range(max(1, len(reply.calls)))]
            ahead.add(address, records.draft_reply(seen, reply, ids, self._tools))
            return None
        # One key an asking: the next one may be started by the last act of the job before it.
        key = f"{decide.DECIDER_JOB}:{seen.resource.uid}:{opened.turn}.{opened.asked + 1}"
        if (full := concurrency_limits.take_turn_permit(self._permits, seen, key)) is not None:
            return self._rest(
                seen,
                steps.AgentRest(AgentState.BLOCKED, concurrency_limits.describe_permit_limit(full), is_wait=True),
                ahead,
            )
        if seen.nature.is_model:
            return self._ask_model(seen, key, ahead)
        # Asked before: an earlier owner's request, of which nothing may be left when it is asked again.
        stale = opened.op if opened.asked else None
        op = self._world.ids.mint() if stale else opened.op
        draft = records.draft_decider_request(seen, op)
        if waited := pending_calls.wait_end_merge(seen, opened):
            draft = replace(
                draft, changes=(*draft.changes, SetStatus(address, seen.resource.uid, {"open": dict(waited)}))
            )
        ahead.add(address, draft)
        ahead.commit()
        self._start(seen, key, AskJob(self._desk, address, key, op, stale, None, seen.now), services.DECIDER_POOL)
        return Done()

    def _ask_model(self, seen: ObservedAgent, key: str, ahead: WriteBatch) -> Outcome | None:
        opened, address = _opened(seen), seen.resource.address
        model = model_request.model_of_agent(seen).model
        held = call_locks.describe_held(seen, ahead)
        prompt = self._prompts.of(seen, model, self._tools, self._world.store.get_blob, held)
        ready = model_request.prepare_request(self._world, prompt, seen, ahead)
        if isinstance(ready, UnpricedModel):
            return self._rest(seen, rest_until_priced(ready), ahead)
        if opened.asked and opened.failure is None and opened.op in self._desk.lost:
            self._desk.lost.discard(opened.op)
            ahead.add(
                address,
                model_request.draft_model_failure(seen, ahead, model_request.LOST_REPLY, ready, self._desk.life),
            )
            return None
        window = self._world.deciders.models.window(model)
        if transcript.is_compaction_due(seen, ready.tokens, ready.request.output_tokens_max or 0, window):
            made = transcript.compact_transcript(seen, self._load, ready.tokens, window)
            if made.chunks:
                chunks, data = transcript.compacted_chunks(made, ready.tokens, self._world.store.put_blob)
                ahead.add(address, model_request.draft_compaction(seen, chunks, data))
                return None
            wanted = transcript.plan_summary(seen, self._load, window)
            if wanted is not None:
                return self._sum(seen, key, wanted, ahead)
            if (rest := decide.rest_for_long_prompt(seen)) is not None:
                return self._rest(seen, rest, ahead)
        return self._request(seen, key, ready, None, ahead)

    def _load(self, blob: str) -> bytes:
        return require_blob(self._world.store, blob)

    def _sum(self, seen: ObservedAgent, key: str, wanted: SummaryPlan, ahead: WriteBatch) -> Outcome | None:
        ready = model_request.prepare_summary_request(self._world, seen, ahead, wanted)
        if isinstance(ready, UnpricedModel):
            return self._rest(seen, rest_until_priced(ready), ahead)
        return self._request(seen, key, ready, wanted, ahead)

    def _request(
        self, seen: ObservedAgent, key: str, ready: PreparedRequest, wanted: SummaryPlan | None, ahead: WriteBatch
    ) -> Outcome | None:
        """Reserves and records a request to a model, and starts its job."""
        opened, address = _opened(seen), seen.resource.address
        op = self._world.ids.mint() if opened.asked else opened.op
        changes = model_request.reservation_changes(seen, ahead, op, ready)
        if isinstance(changes, BudgetShortage):
            had_last = seen.status.had_last or not seen.hands_over
            if not opened.is_last and budget.may_hand_over(
                seen.task, changes.asked, seen.budget.caps, had_last=had_last
            ):
                ahead.add(address, records.draft_last_turn(seen))
                return None
            return self._rest(seen, decide.rest_until_budget(seen, tuple(changes.asked), changes), ahead, changes)
        ahead.add(address, model_request.draft_model_request(seen, op, ready, changes))
        ahead.commit()
        pool = model_request.model_pool(ready.request.model, self._world.store.view, self._world.plan)
        self._start(seen, key, AskJob(self._desk, address, key, op, None, ready, seen.now, wanted), pool)
        return Done()

    def _start(self, seen: ObservedAgent, key: str, job: call_run.CallJob, pool: str) -> None:
        priority = 0 if seen.task_spec is None else seen.task_spec.priority
        self._world.work.start(key, seen.resource.address, job, pool=pool, priority=priority)

    async def _run(self, seen: ObservedAgent, startable: tuple[Resource, ...], ahead: WriteBatch) -> Outcome | None:
        """Settles instant tools in place; gives the others their intent in one append and a job each."""
        if seen.hooks.watching and self._firing.unasked(seen, "starting"):
            waits = self._firing.consult(seen, "starting", ahead)
            return None if waits is None else self._rest(seen, decide.rest_for_hooks(seen, waits), ahead)
        if (draft := authorization.draft_late_verdict(seen, startable)) is not None:
            ahead.add(seen.resource.address, draft)
            return None
        for call in startable:
            tool = self._tools.get(str(call.spec["tool"]))
            if tool is not None and (why := permissions.why_barred(call, tool, seen.spec)):
                ahead.add(
                    seen.resource.address,
                    records.draft_settlement(seen, records.SettledCall(call, permissions.denied_result(why))),
                )
                return None
            if tool is None or concurrency_limits.runs_in_place(seen, call, tool):
                await self._run_instantly(seen, call, tool, ahead)
                return None
        if not self._take_locks(seen, startable, ahead):
            return None
        startable, full = concurrency_limits.take_call_permits(self._permits, seen, self._tools, startable)
        if full is not None and not startable:
            return self._rest(
                seen,
                steps.AgentRest(
                    AgentState.RUNNING, concurrency_limits.describe_permit_limit(full), is_wait=not seen.objects.jobs
                ),
                ahead,
            )
        fresh = [(call, self._op_of(call)) for call in startable if call.state == CallState.AUTHORIZED]
        if fresh:
            ahead.add(seen.resource.address, call_run.draft_call_starts(seen, fresh))
        ahead.commit()
        is_fresh = {call.address for call, _ in fresh}
        for old in startable:
            made = self._world.store.view.get(old.address)
            assert made is not None, "a call that was just started is there"
            tool = self._tools[str(made.spec["tool"])]
            job = call_run.CallRun(self._bench, tool, made, made.address not in is_fresh)
            self._start(seen, decide.job_key(made.address), job, services.TOOL_POOL)
        return Done()

    def _take_locks(self, seen: ObservedAgent, startable: Sequence[Resource], ahead: WriteBatch) -> bool:
        """Whether all of `startable` may start: what they write is locked for them in the append of their intents."""
        is_free = True
        for call in startable:
            tool = self._tools[str(call.spec["tool"])]
            if call.state != CallState.AUTHORIZED or not tool.locks:
                continue
            taken = call_locks.take_locks(seen, ahead, call, tool.locks(self._context(seen, call)))
            if isinstance(taken, RecordDraft):
                ahead.add(seen.resource.address, taken)
            elif taken is not None:
                ahead.add(seen.resource.address, call_run.draft_ending(seen, call, taken))
                is_free = False
        return is_free

    def _op_of(self, call: Resource) -> str:
        """The operation id of a start: the first is the call's own, any later one is new."""
        if self._world.store.view.get(call.address) is None:
            return str(call.spec["op"])
        return self._world.ids.mint()

    async def _run_instantly(self, seen: ObservedAgent, call: Resource, tool: Tool | None, ahead: WriteBatch) -> None:
        if tool is not None and not tool.is_apart:
            ahead.commit()  # What a tool reads of others is what there is.
        ending: CallEnding
        if tool is None:
            ending = Settlement(CallResult(CallState.FAILED, "this tool is no longer there", "UnknownTool"))
        else:
            said = await call_run.run_tool(tool, self._context(seen, call))
            ending = concurrency_limits.trace_in_place(seen, call, tool, said)
        ahead.add(seen.resource.address, call_run.draft_ending(seen, call, ending))

    def _against(self, seen: ObservedAgent, call: Resource, arguments: JsonObject) -> CallResult | None:
        """What stands against `call` with `arguments` by the rights of this moment; None: nothing."""
        asked = TurnCall(call.address, str(call.spec["tool"]), arguments)
        ruled = permissions.check_call(asked, seen.spec, self._tools, approve_patterns(self._world, seen))
        match ruled:
            case permissions.CallRefused(result=result):
                return result
            case permissions.CallNeedsApproval(pattern=pattern) if arguments != call.spec["arguments"]:
                text = f"with other arguments it would need a person's yes to `{pattern}`"
                return CallResult(CallState.DENIED, text, "Denied")
            case _ if arguments != call.spec["arguments"] and (why := self._firing.objection(seen, asked)):
                return CallResult(CallState.DENIED, why, "Denied")
            case _:
                return None

    def _resolved(self, seen: ObservedAgent, call: Resource) -> CallEnding | None:
        """What has become of a waiting call, from this very observation."""
        tool = self._tools.get(str(call.spec["tool"]))
        if tool is None:
            return Settlement(CallResult(CallState.FAILED, "this tool is no longer there", "UnknownTool"))
        return call_run.resolve_waiting_call(tool, self._context(seen, call))

    def _context(self, seen: ObservedAgent, call: Resource) -> ToolContext:
        return ToolContext(self._world, seen, call, call_from_json(call.spec), workspace_or_denial(self._world, seen))

    def _rest(
        self, seen: ObservedAgent, rest: steps.AgentRest, ahead: WriteBatch, lacking: BudgetShortage | None = None
    ) -> Outcome:
        """Writes how it rests, once; a second pass with nothing changed writes nothing."""
        self._give_back(seen, rest, ahead)
        blocking = records.blocking_merge(seen, rest.condition, rest.why if rest.condition else "", rest.unblocks)
        failed = (
            "" if rest.state is AgentState.ENDED else wake_reasons.describe_failures(wake_reasons.failed_children(seen))
        )
        merge = records.join_condition_merges((blocking, records.child_failed_merge(seen, failed)))
        raw = seen.resource.status
        # Why it runs is in its open turn; said once more, it would be a record for every step.
        is_said = rest.state is AgentState.RUNNING and not rest.is_wait and raw.get("state") == AgentState.RUNNING
        # One that never began is idle without a word: a plan of 1,000 agents would begin with 1,000 writes.
        is_said = is_said or (rest.state is AgentState.IDLE and "state" not in raw)
        if not is_said and (raw.get("state") != str(rest.state) or raw.get("why") != rest.why):
            merge |= {"state": str(rest.state), "why": rest.why}
        opened = seen.status.open
        if opened is not None and rest.is_wait and opened.waiting_since is None:
            merge["open"] = {"waiting_since": seen.now}
        if merge and rest.state in (AgentState.BLOCKED, AgentState.PARKED):
            # Its task says it too, with what would end it: the state may be the same word as before.
            merge["signal"] = [rest.why, *rest.unblocks]
        if merge:
            changes: tuple[Change, ...] = (records.status_change(seen, merge),)
            if rest.state is AgentState.PARKED and seen.status.state != AgentState.PARKED:
                changes += records.budget_message_changes(seen, ahead, "spent")
                changes += budget.wait_for_budget_changes(ahead, seen.resource, lacking)
            draft = RecordDraft(
                _record_type(rest), records.AGENT_ACTOR, seen.resource.address, changes, {"why": rest.why}
            )
            ahead.add(seen.resource.address, draft)
        return Done() if rest.after_s is None else Again(rest.after_s)


def rest_until_priced(model: UnpricedModel) -> steps.AgentRest:
    """Until somebody states a price."""
    return steps.AgentRest(AgentState.BLOCKED, model.why, UNPRICED, model.unblocks, is_wait=True)


def _is_untouched(view: View, address: str) -> bool:
    """Whether nobody has written anything about the agent or its task yet: what its task writes first wakes it.

    Most agents of a large plan are first looked at like this, and looking closely would come to the same.
    """
    agent = view.get(address)
    if agent is None or agent.status or agent.deleting or agent.spec.get("watches"):
        return False
    task = view.get(agent.spec["task"])
    return task is not None and not task.status and not task.deleting


def _opened(seen: ObservedAgent) -> OpenTurn:
    assert seen.status.open is not None, "decided on inside a turn"
    return seen.status.open


def _is_apart(seen: ObservedAgent, step: steps.AgentStep, ahead: WriteBatch) -> bool:
    """Whether what comes before `step` is a record of its own, though the step could be in it."""
    match step:
        case steps.StartTurn():
            return seen.nature.is_instant and seen.status.turn > 0  # People read each turn of a script by itself.
        case steps.EndTurn():
            # A replay takes a reply from the open turn, and in the record that ends the turn it is no longer open.
            return not seen.nature.is_instant and ahead.says("model.replied")
        case _:
            return False


def _has_waiting(seen: ObservedAgent) -> bool:
    return seen.status.open is not None and bool(pending_calls.waiting_calls(seen, seen.status.open.calls))


def _record_type(rest: steps.AgentRest) -> str:
    match rest.state:
        case AgentState.ASLEEP:
            return "agent.slept"
        case AgentState.PARKED:
            return "agent.parked"
        case AgentState.ENDED:
            return "agent.ended"
        case _:
            return "object.updated"
