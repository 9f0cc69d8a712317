"""The agent controller: observes, decides, and does the one step, until there is nothing to do.

Steps that follow from one observation with nothing awaited between are one append (`ahead.py`), so what was decided is
what is written; an effect waits until its intent is flushed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from planloop.controllers.agent import budget, conditions, deciding, escalation, seating, steps, turn
from planloop.controllers.agent.ahead import Ahead
from planloop.controllers.agent.behaviours import starting
from planloop.controllers.agent.behaviours.caching import Cache
from planloop.controllers.agent.behaviours.permits import Permits
from planloop.controllers.agent.behaviours.thinking import Asking
from planloop.controllers.agent.budget import Spent
from planloop.controllers.agent.calling import calls, holding, ruling, running, waiting
from planloop.controllers.agent.calling.approving import approve_patterns
from planloop.controllers.agent.calling.workspaces import space_of
from planloop.controllers.agent.copying import origins
from planloop.controllers.agent.hooking import closing
from planloop.controllers.agent.hooking.firing import Firing
from planloop.controllers.agent.mail import telling
from planloop.controllers.agent.observing import Observed, Specs, observe, observe_again
from planloop.controllers.agent.ports import World
from planloop.controllers.agent.status import Chunk, OpenTurn, TurnCall
from planloop.controllers.agent.thinking import asking, attempts, compacting, prompting, transcript
from planloop.controllers.agent.thinking.attempts import Prepared
from planloop.controllers.agent.thinking.compacting import ToSum
from planloop.controllers.agent.thinking.pricing import Unpriced
from planloop.controllers.agent.thinking.prompting import Prompts
from planloop.controllers.agent.thinking.requesting import Desk, Request
from planloop.controllers.agent.tools.agents import AgentTools
from planloop.controllers.agent.tools.kept import KeptTools
from planloop.controllers.agent.tools.registry import BUILT_IN
from planloop.controllers.agent.tools.served import ServedTools
from planloop.controllers.agent.tools.tool import Context, Ending, Settlement, Tool
from planloop.reconciler.contract import Again, Done, Outcome
from planloop.reconciler.storing.store import View, kept
from planloop.schemas import limits
from planloop.schemas.address import Address
from planloop.schemas.agent import UNPRICED, AgentState
from planloop.schemas.call import CallResult, CallState, EffectClass, call_from_json
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import remade
from planloop.schemas.lock import LASTING, OF_AGENTS, LockKept
from planloop.schemas.record import Change, Draft, SetStatus
from planloop.schemas.resource import Resource


class AgentReconciler:
    """Drives objects of kind `agent`. `tools` may be a subset or a superset of the built-in ones."""

    def __init__(self, world: World, tools: Mapping[str, Tool] = BUILT_IN) -> None:
        self._world = world
        served = ServedTools(AgentTools(tools, lambda: world.store.view), lambda: world.store.view)
        self._tools = KeptTools(served, lambda: world.store.view)
        self._specs = Specs()
        self._prompts = Prompts()
        self._permits = Permits(world.work)
        self._bench = running.Bench(world, self.look, self._against, Cache(), self._settled)
        self._firing = Firing(world, self._tools, self.look, self._go_on_alone)
        self._desk = Desk(world, self._tools, self.look, self._go_on_alone, world.ids.mint())

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

    def look(self, address: str) -> Observed | None:
        """The agent as it stands now; None when it is gone."""
        return self._see(address, self._world.store.view, "")

    def _see(self, address: str, view: View, without: str) -> Observed | None:
        """The same in a view of what will be, when the job of the key `without` has ended."""
        resource = view.get(address)
        if resource is None:
            return None
        seen = observe(resource, view, self._world.work, self._specs, self._world.clock.now(), self._world.plan)
        return remade(seen, live=seen.live - {without}) if without in seen.live else seen

    async def _go_on(self, address: str, ahead: Ahead, without: str) -> Outcome:
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
        return outcome if seen is None else seating.bounded(seen, outcome)

    async def _settled(self, seen: Observed, draft: Draft, key: str) -> bool:
        """The last act of a call's job: its result, and the steps that follow from it."""
        ahead = self._ahead(seen.resource.address)
        ahead.add(seen.resource.address, draft)
        return await self._go_on_alone(seen.resource.address, ahead, key)

    async def _go_on_alone(self, address: str, ahead: Ahead, key: str) -> bool:
        """The last act of the job `key`. True when nobody needs to wake the agent because the job has ended."""
        outcome = await self._go_on(address, ahead, key)
        if isinstance(outcome, Again):
            self._world.work.poke(address, after_s=outcome.after_s)
        return not self._permits.are_out

    def _ahead(self, address: str) -> Ahead:
        return Ahead(self._world.store, lambda: self._world.work.driving(address))

    async def _take(self, seen: Observed, ahead: Ahead) -> Outcome | None:
        """Does the one next step; None when there may be another."""
        seen = self._firing.without_stale(seen)
        step = deciding.decide(
            seen,
            lambda call: calls.is_parallel(call, seen.spec, self._tools),
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
            case steps.Cancel(keys=keys):
                for key in keys:
                    self._world.work.cancel(key)
                return Done()
            case steps.Release():
                return self._release(seen, ahead)
            case steps.Ask():
                return await self._ask(seen, ahead)
            case steps.Consult(moment=moment):
                waits = self._firing.consult(seen, moment, ahead)
                return None if waits is None else self._rest(seen, deciding.asking(seen, waits), ahead)
            case steps.Run(calls=startable):
                return await self._run(seen, startable, ahead)
            case steps.Rest() as rest:
                return self._rest(seen, rest, ahead)
            case _:
                raise AssertionError(f"no way to do {step}")

    def _turned(self, seen: Observed, step: steps.Step, ahead: Ahead) -> Draft | None:
        """The record of a step that begins or ends a turn; None for others."""
        match step:
            case steps.Close(why=why):
                return turn.closed(seen, ahead, why)
            case steps.Begin(incarnation=incarnation):
                store = self._world.store
                return turn.begun(seen, incarnation, origins.origin_of(seen, store.view, store.get_blob))
            case steps.Start(news=news, is_last=is_last):
                return turn.started(seen, news, self._world.ids.mint(), ahead, is_last=is_last)
            case steps.End():
                return self._ended(seen, ahead)
            case steps.Escalate(why=why):
                return turn.escalated(seen, why)
            case _:
                return None

    def _give_back(self, seen: Observed, step: steps.Step, ahead: Ahead) -> None:
        """What the agent holds, and what it waits for, goes with its turn, its run or its end, in the same append."""
        gone: tuple[Resource, ...] = ()
        kept: tuple[LockKept, ...] = ()
        match step:
            case steps.End():
                kept = ("turn",)
            case steps.Interrupt():
                gone = tuple(seen.calls.values())
            case steps.Vacate():
                kept = OF_AGENTS
            case steps.Close() | steps.Begin() | steps.Release() | steps.Rest(state=AgentState.ENDED):
                gone, kept = tuple(seen.calls.values()), LASTING
            case _:
                return
        for call in gone:
            if (draft := holding.given_up(seen, ahead, call)) is not None:
                ahead.add(seen.resource.address, draft)
        if kept and (draft := holding.given_back(seen, ahead, kept)) is not None:
            ahead.add(seen.resource.address, draft)

    def _ended(self, seen: Observed, ahead: Ahead) -> Draft:
        left = closing.left(seen, ahead, _opened(seen))
        if not seen.nature.is_model:
            return turn.ended(seen, ahead, left=left)
        content = prompting.turn_blob(_opened(seen))
        by = escalation.model_by(seen.spec, seen.status)
        chunk = Chunk(self._world.store.put_blob(content), transcript.tokens_of(content), by=by)
        return turn.ended(seen, ahead, chunk, left, self._effects(seen))

    def _effects(self, seen: Observed) -> list[EffectClass]:
        """What each call of the open turn may change; one of an unknown tool changes nothing."""
        found: list[EffectClass] = []
        for call in _opened(seen).calls:
            tool = self._tools.get(call.tool)
            found.append(EffectClass.READ if tool is None else calls.effect_of(tool, call.arguments, seen.spec))
        return found

    def _ruled(self, seen: Observed, step: steps.Step) -> Draft | None:
        """The record of a step that moves calls without running them; None for others."""
        match step:
            case steps.Authorise():
                return ruling.authorised(seen, self._tools, approve_patterns(self._world, seen))
            case steps.Interrupt():
                return ruling.interrupted(seen)
            case steps.Answer(calls=waiting):
                return ruling.answered(seen, waiting)
            case steps.Collect(calls=ended):
                return ruling.collected(seen, ended[0])
            case steps.Reply(answer=answer):
                return turn.answered(seen, answer)
            case steps.Vacate(why=why):
                return seating.left(seen, why)
            case steps.Resolve(call=call, ending=ending):
                tool = self._tools.get(str(call.spec["tool"]))
                return running.draft_of(seen, call, starting.waited_out(seen, call, tool, ending))
            case _:
                return None

    def _release(self, seen: Observed, ahead: Ahead) -> Outcome:
        if "agent" in seen.resource.finalizers:
            ahead.add(seen.resource.address, turn.released(seen))
            self._give_back(seen, steps.Release(), ahead)
        return Done()

    async def _ask(self, seen: Observed, ahead: Ahead) -> Outcome | None:
        opened = _opened(seen)
        address = seen.resource.address
        if seen.nature.is_instant and not starting.needs_job(seen):
            plain = partial(asking.ask, self._world, self._tools, None)
            reply = await asking.answered(Asking(self._world, self.look, seen, opened.op, plain))
            ids = [self._world.ids.mint() for _ in range(max(1, len(reply.calls)))]
            ahead.add(address, turn.replied(seen, reply, ids, self._tools))
            return None
        # One key an asking: the next one may be started by the last act of the job before it.
        key = f"{deciding.MIND}:{seen.resource.uid}:{opened.turn}.{opened.asked + 1}"
        if (full := starting.asking_waits_for(self._permits, seen, key)) is not None:
            return self._rest(seen, steps.Rest(AgentState.BLOCKED, starting.words_of(full), is_wait=True), ahead)
        if seen.nature.is_model:
            return self._ask_model(seen, key, ahead)
        # Asked before: an earlier owner's request, of which nothing may be left when it is asked again.
        stale = opened.op if opened.asked else None
        op = self._world.ids.mint() if stale else opened.op
        draft = turn.requested(seen, op)
        if waited := waiting.waited(seen, opened):
            draft = replace(
                draft, changes=(*draft.changes, SetStatus(address, seen.resource.uid, {"open": dict(waited)}))
            )
        ahead.add(address, draft)
        ahead.commit()
        self._start(seen, key, Request(self._desk, address, key, op, stale, None, seen.now), self._world.mind_pool)
        return Done()

    def _ask_model(self, seen: Observed, key: str, ahead: Ahead) -> Outcome | None:
        opened, address = _opened(seen), seen.resource.address
        model = attempts.model_of(seen).model
        held = holding.held_text(seen, ahead)
        prompt = self._prompts.of(seen, model, self._tools, self._world.store.get_blob, held)
        ready = attempts.prepared(self._world, prompt, seen, ahead)
        if isinstance(ready, Unpriced):
            return self._rest(seen, unpriced(ready), ahead)
        if opened.asked and opened.failure is None and opened.op in self._desk.lost:
            self._desk.lost.discard(opened.op)
            ahead.add(address, attempts.failed(seen, ahead, attempts.LOST, ready, self._desk.life))
            return None
        window = self._world.models.window(model)
        if compacting.is_due(seen, ready.tokens, ready.request.output_tokens_max or 0, window):
            made = compacting.shorter_of(seen, self._load, ready.tokens, window)
            if made.chunks:
                chunks, data = compacting.settled(made, ready.tokens, self._world.store.put_blob)
                ahead.add(address, attempts.compacted(seen, chunks, data))
                return None
            wanted = compacting.to_sum(seen, self._load, window)
            if wanted is not None:
                return self._sum(seen, key, wanted, ahead)
            if (rest := deciding.too_long(seen)) is not None:
                return self._rest(seen, rest, ahead)
        return self._request(seen, key, ready, None, ahead)

    def _load(self, blob: str) -> bytes:
        return kept(self._world.store, blob)

    def _sum(self, seen: Observed, key: str, wanted: ToSum, ahead: Ahead) -> Outcome | None:
        ready = attempts.for_summary(self._world, seen, ahead, wanted)
        if isinstance(ready, Unpriced):
            return self._rest(seen, unpriced(ready), ahead)
        return self._request(seen, key, ready, wanted, ahead)

    def _request(self, seen: Observed, key: str, ready: Prepared, wanted: ToSum | None, ahead: Ahead) -> Outcome | None:
        """Reserves and records a request to a model, and starts its job."""
        opened, address = _opened(seen), seen.resource.address
        op = self._world.ids.mint() if opened.asked else opened.op
        changes = attempts.reserved(seen, ahead, op, ready)
        if isinstance(changes, Spent):
            had_last = seen.status.had_last or not seen.hands_over
            if not opened.is_last and budget.may_hand_over(seen.task, changes.asked, seen.caps, had_last=had_last):
                ahead.add(address, turn.made_last(seen))
                return None
            return self._rest(seen, deciding.parked(seen, tuple(changes.asked), changes), ahead, changes)
        ahead.add(address, attempts.requested(seen, op, ready, changes))
        ahead.commit()
        pool = attempts.pool_of(ready.request.model, self._world.store.view, self._world.plan)
        self._start(seen, key, Request(self._desk, address, key, op, None, ready, seen.now, wanted), pool)
        return Done()

    def _start(self, seen: Observed, key: str, job: running.Job, pool: str) -> None:
        priority = 0 if seen.task_spec is None else seen.task_spec.priority
        self._world.work.start(key, seen.resource.address, job, pool=pool, priority=priority)

    async def _run(self, seen: Observed, startable: tuple[Resource, ...], ahead: Ahead) -> Outcome | None:
        """Settles instant tools in place; gives the others their intent in one append and a job each."""
        if seen.hooks and self._firing.unasked(seen, "starting"):
            waits = self._firing.consult(seen, "starting", ahead)
            return None if waits is None else self._rest(seen, deciding.asking(seen, waits), ahead)
        if (draft := ruling.reruled(seen, startable)) is not None:
            ahead.add(seen.resource.address, draft)
            return None
        for call in startable:
            tool = self._tools.get(str(call.spec["tool"]))
            if tool is not None and (why := calls.barred(call, tool, seen.spec)):
                ahead.add(seen.resource.address, turn.settled(seen, turn.Outcome(call, calls.denied(why))))
                return None
            if tool is None or starting.is_in_place(seen, call, tool):
                await self._run_instantly(seen, call, tool, ahead)
                return None
        if not self._take_locks(seen, startable, ahead):
            return None
        startable, full = starting.permitted(self._permits, seen, self._tools, startable)
        if full is not None and not startable:
            return self._rest(
                seen, steps.Rest(AgentState.RUNNING, starting.words_of(full), is_wait=not seen.live), ahead
            )
        fresh = [(call, self._op_of(call)) for call in startable if call.state == CallState.AUTHORIZED]
        if fresh:
            ahead.add(seen.resource.address, running.started(seen, fresh))
        ahead.commit()
        is_fresh = {call.address for call, _ in fresh}
        for old in startable:
            made = self._world.store.view.get(old.address)
            assert made is not None, "a call that was just started is there"
            tool = self._tools[str(made.spec["tool"])]
            job = running.CallRun(self._bench, tool, made, made.address not in is_fresh)
            self._start(seen, deciding.job_key(made.address), job, self._world.pool)
        return Done()

    def _take_locks(self, seen: Observed, startable: Sequence[Resource], ahead: Ahead) -> bool:
        """Whether all of `startable` may start: what they write is locked for them in the append of their intents."""
        is_free = True
        for call in startable:
            tool = self._tools[str(call.spec["tool"])]
            if call.state != CallState.AUTHORIZED or not tool.locks:
                continue
            taken = holding.taking(seen, ahead, call, tool.locks(self._context(seen, call)))
            if isinstance(taken, Draft):
                ahead.add(seen.resource.address, taken)
            elif taken is not None:
                ahead.add(seen.resource.address, running.draft_of(seen, call, taken))
                is_free = False
        return is_free

    def _op_of(self, call: Resource) -> str:
        """The operation id of a start: the first is the call's own, any later one is new."""
        if self._world.store.view.get(call.address) is None:
            return str(call.spec["op"])
        return self._world.ids.mint()

    async def _run_instantly(self, seen: Observed, call: Resource, tool: Tool | None, ahead: Ahead) -> None:
        if tool is not None and not tool.is_apart:
            ahead.commit()  # What a tool reads of others is what there is.
        ending: Ending
        if tool is None:
            ending = Settlement(CallResult(CallState.FAILED, "this tool is no longer there", "UnknownTool"))
        else:
            said = await running.performed(tool, self._context(seen, call))
            ending = starting.marked(seen, call, tool, said)
        ahead.add(seen.resource.address, running.draft_of(seen, call, ending))

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
            case _ if arguments != call.spec["arguments"] and (why := self._firing.objection(seen, asked)):
                return CallResult(CallState.DENIED, why, "Denied")
            case _:
                return None

    def _resolved(self, seen: Observed, call: Resource) -> Ending | None:
        """What has become of a waiting call, from this very observation."""
        tool = self._tools.get(str(call.spec["tool"]))
        if tool is None:
            return Settlement(CallResult(CallState.FAILED, "this tool is no longer there", "UnknownTool"))
        return running.resolved(tool, self._context(seen, call))

    def _context(self, seen: Observed, call: Resource) -> Context:
        return Context(self._world, seen, call, call_from_json(call.spec), space_of(self._world, seen))

    def _rest(self, seen: Observed, rest: steps.Rest, ahead: Ahead, lacking: Spent | None = None) -> Outcome:
        """Writes how it rests, once; a second pass with nothing changed writes nothing."""
        self._give_back(seen, rest, ahead)
        blocking = conditions.blocking_merge(seen, rest.condition, rest.why if rest.condition else "", rest.unblocks)
        failed = "" if rest.state is AgentState.ENDED else telling.words_of(telling.failures(seen))
        merge = conditions.united((blocking, conditions.standing_merge(seen, failed)))
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
            changes: tuple[Change, ...] = (turn.change(seen, merge),)
            if rest.state is AgentState.PARKED and seen.status.state != AgentState.PARKED:
                changes += turn.told_above(seen, ahead, "spent")
                changes += budget.waiting(ahead, seen.resource, lacking)
            draft = Draft(_record_type(rest), turn.ACTOR, seen.resource.address, changes, {"why": rest.why})
            ahead.add(seen.resource.address, draft)
        return Done() if rest.after_s is None else Again(rest.after_s)


def unpriced(model: Unpriced) -> steps.Rest:
    """Until somebody states a price."""
    return steps.Rest(AgentState.BLOCKED, model.why, UNPRICED, model.unblocks, is_wait=True)


def _is_untouched(view: View, address: str) -> bool:
    """Whether nobody has written anything about the agent or its task yet: what its task writes first wakes it.

    Most agents of a large plan are first looked at like this, and looking closely would come to the same.
    """
    agent = view.get(address)
    if agent is None or agent.status or agent.deleting or agent.spec.get("watches"):
        return False
    task = view.get(agent.spec["task"])
    return task is not None and not task.status and not task.deleting


def _opened(seen: Observed) -> OpenTurn:
    assert seen.status.open is not None, "decided on inside a turn"
    return seen.status.open


def _is_apart(seen: Observed, step: steps.Step, ahead: Ahead) -> bool:
    """Whether what comes before `step` is a record of its own, though the step could be in it."""
    match step:
        case steps.Start():
            return seen.nature.is_instant and seen.status.turn > 0  # People read each turn of a script by itself.
        case steps.End():
            # A replay takes a reply from the open turn, and in the record that ends the turn it is no longer open.
            return not seen.nature.is_instant and ahead.says("model.replied")
        case _:
            return False


def _has_waiting(seen: Observed) -> bool:
    return seen.status.open is not None and bool(waiting.of_turn(seen, seen.status.open.calls))


def _record_type(rest: steps.Rest) -> str:
    match rest.state:
        case AgentState.ASLEEP:
            return "agent.slept"
        case AgentState.PARKED:
            return "agent.parked"
        case AgentState.ENDED:
            return "agent.ended"
        case _:
            return "object.updated"
