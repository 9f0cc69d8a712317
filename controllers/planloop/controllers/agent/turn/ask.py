"""Ask an agent's decider: prepare the request, start its job, record the reply; and the decider that the spec names.

A request has no effect but its cost. If an owner ends before the reply comes, the next owner stops what the request
left running and asks again under a new operation id. The job reads the agent again before it writes: a reply that the
agent no longer waits for is kept as evidence, billed, and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, assert_never

import anyio

from planloop.controllers.agent import budget, run_environment
from planloop.controllers.agent.batch import WriteBatch
from planloop.controllers.agent.decide import (
    DECIDER_JOB,
    AgentRest,
    rest_for_long_prompt,
    rest_until_budget,
    rest_until_priced,
)
from planloop.controllers.agent.deciders import program
from planloop.controllers.agent.deciders.port import (
    CallOutcome,
    DeciderFailed,
    DeciderPort,
    DeciderReply,
    ProposedCall,
    TurnInput,
)
from planloop.controllers.agent.deciders.program import (
    CLI_AGENT_RULES,
    CliAgentBriefing,
    CliAgentRunner,
    ProgramRunner,
    python_runner,
)
from planloop.controllers.agent.deciders.script import ScriptRunner
from planloop.controllers.agent.hooks import agent_hooks
from planloop.controllers.agent.mail.wake_reasons import rejected_verdict
from planloop.controllers.agent.mixins import concurrency_limits
from planloop.controllers.agent.mixins.concurrency_limits import PermitPool
from planloop.controllers.agent.mixins.middleware import LayeredAsk
from planloop.controllers.agent.mixins.steps import steps_for_turn
from planloop.controllers.agent.models import catalog
from planloop.controllers.agent.models.catalog import UnpricedModel
from planloop.controllers.agent.models.port import ModelFailed, ModelReply, ModelRequest, TokenUsage
from planloop.controllers.agent.observe import ObservedAgent, agent_instructions
from planloop.controllers.agent.run_environment import RESERVED_VARIABLES, command_environment, resolve_agent_workspace
from planloop.controllers.agent.services import DECIDER_POOL, AgentServices
from planloop.controllers.agent.status import AGENT_ACTOR, ClientCall, PastCall
from planloop.controllers.agent.tools.errors import ToolError
from planloop.controllers.agent.turn import call_locks, model_request, permissions, prompt, records, transcript
from planloop.controllers.agent.turn.model_request import PreparedRequest, reply_from_model, usage_json
from planloop.controllers.agent.turn.permissions import ToolMap
from planloop.controllers.agent.turn.prompt import PromptCache
from planloop.controllers.agent.turn.transcript import SummaryPlan
from planloop.controllers.shared.ledger import BudgetShortage
from planloop.reconciler.engine.reconcile import Done, Outcome
from planloop.reconciler.store.store import require_blob
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, mutable, remade
from planloop.schemas.log.record import Change, RecordDraft
from planloop.schemas.objects.agent import (
    AgentState,
    CliAgentSpec,
    McpClientSpec,
    ModelDeciderSpec,
    ProgramSpec,
    PythonFunctionSpec,
    ScriptSpec,
)
from planloop.schemas.objects.budget import Cost
from planloop.schemas.objects.call import arguments_as_map

CANCELLED_REASON = "Cancelled"
LATE_REASON = "Late"
ANNOUNCED = "tool_calls"
QUEUED_S = 0.05  # Shorter waits for a slot are not recorded.


@dataclass(frozen=True, slots=True)
class AskServices:
    """What all requests of one owner share. `take_next_steps` writes a first step and those that follow, in one record.

    `life` names the owner: only its own failures count. `lost` are requests whose job ended with an internal error.
    They count as failures; otherwise they would be repeated forever.
    """

    services: AgentServices
    tools: ToolMap
    look: Callable[[str], ObservedAgent | None]
    take_next_steps: Callable[[str, WriteBatch, str], Awaitable[bool]]
    life: str
    permits: PermitPool
    prompts: PromptCache = field(default_factory=PromptCache)
    lost: set[str] = field(default_factory=set)


async def ask_for_reply(asking: AskServices, agent: ObservedAgent, batch: WriteBatch) -> Outcome | AgentRest | None:
    """Ask the decider for the open turn: in place if it answers instantly, else in a job.

    Returns how the agent rests if its decider cannot be asked now; None if the next step can be decided immediately.
    """
    opened, address, services = agent.opened, agent.resource.address, asking.services
    if agent.nature.is_instant and not concurrency_limits.asking_needs_job(agent):
        plain = partial(ask_decider, services, asking.tools, None)
        reply = await ask_through_mixins(LayeredAsk(services, asking.look, agent, opened.request.op, plain))
        ids = [services.ids.mint() for _ in range(max(1, len(reply.calls)))]
        batch.add(address, records.draft_reply(agent, reply, ids, asking.tools))
        return None
    # Each request has its own key, because the last act of a job may start the next request.
    key = f"{DECIDER_JOB}:{agent.resource.uid}:{opened.turn}.{opened.request.asked + 1}"
    if (full := concurrency_limits.take_turn_permit(asking.permits, agent, key)) is not None:
        return AgentRest(AgentState.BLOCKED, concurrency_limits.describe_permit_limit(full), is_wait=True)
    if agent.nature.is_model:
        return _ask_model(asking, agent, key, batch)
    # If an earlier owner asked, the job stops what that request left running before it asks the decider again.
    stale = opened.request.op if opened.request.asked else None
    op = services.ids.mint() if stale else opened.request.op
    draft = records.draft_decider_request(agent, op)
    if waited := records.wait_end_merge(agent, opened):
        draft = replace(draft, changes=(*draft.changes, records.status_change(agent, {"open": dict(waited)})))
    batch.add(address, draft)
    batch.commit()
    services.start_job(agent, key, AskJob(asking, address, key, op, stale, None, agent.now), DECIDER_POOL)
    return Done()


def _ask_model(asking: AskServices, agent: ObservedAgent, key: str, batch: WriteBatch) -> Outcome | AgentRest | None:
    """Start a request to the agent's model, after a compaction of its transcript if the prompt is too long."""
    opened, services = agent.opened, asking.services
    model = model_request.model_of_agent(agent).model
    made = asking.prompts.of(
        agent, model, asking.tools, services.store.get_blob, call_locks.describe_held(agent, batch)
    )
    ready = model_request.prepare_request(services, made, agent, batch)
    if isinstance(ready, UnpricedModel):
        return rest_until_priced(ready)
    if opened.request.asked and opened.request.failure is None and opened.request.op in asking.lost:
        asking.lost.discard(opened.request.op)
        lost = model_request.draft_model_failure(agent, batch, model_request.LOST_REPLY, ready, asking.life)
        batch.add(agent.resource.address, lost)
        return None
    window, load = services.deciders.models.window(model), partial(require_blob, services.store)
    if transcript.is_compaction_due(agent, ready.tokens, ready.request.output_tokens_max or 0, window):
        compacted = transcript.compact_transcript(agent, load, ready.tokens, window)
        if compacted.chunks:
            chunks, data = transcript.compacted_chunks(compacted, ready.tokens, services.store.put_blob)
            batch.add(agent.resource.address, model_request.draft_compaction(agent, chunks, data))
            return None
        wanted = transcript.plan_summary(agent, load, window)
        if wanted is not None:
            summary = model_request.prepare_summary_request(services, agent, batch, wanted)
            if isinstance(summary, UnpricedModel):
                return rest_until_priced(summary)
            return _start_request(asking, agent, key, summary, wanted, batch)
        if (rest := rest_for_long_prompt(agent)) is not None:
            return rest
    return _start_request(asking, agent, key, ready, None, batch)


def _start_request(
    asking: AskServices,
    agent: ObservedAgent,
    key: str,
    ready: PreparedRequest,
    wanted: SummaryPlan | None,
    batch: WriteBatch,
) -> Outcome | AgentRest | None:
    """Reserve the cost of a request to a model, record the request, and start its job."""
    opened, address, services = agent.opened, agent.resource.address, asking.services
    op = services.ids.mint() if opened.request.asked else opened.request.op
    changes = model_request.reservation_changes(agent, batch, op, ready)
    if isinstance(changes, BudgetShortage):
        had_last = agent.status.wake.had_last or not agent.hands_over
        if not opened.is_last and budget.may_hand_over(agent.task, changes.asked, agent.budget.caps, had_last=had_last):
            batch.add(address, records.draft_last_turn(agent))
            return None
        return rest_until_budget(agent, tuple(changes.asked), changes)
    batch.add(address, model_request.draft_model_request(agent, op, ready, changes))
    batch.commit()
    pool = model_request.model_pool(ready.request.model, services.store.view, services.plan)
    services.start_job(agent, key, AskJob(asking, address, key, op, None, ready, agent.now, wanted), pool)
    return Done()


@mutable
class AskJob:
    """One request to a decider. `ready` is a request to a model, None for other deciders; `stale` as for `ask_decider`.

    `wanted` is the plan of a summary; None if the model is asked for a reply. `received_chars` counts the characters of
    the reply that have arrived. `took_next_steps`: the job has taken the agent's next steps, so that its end need not
    wake the agent.
    """

    asking: AskServices
    address: str
    key: str
    op: str
    stale: str | None
    ready: PreparedRequest | None
    asked_at: float
    wanted: SummaryPlan | None = None
    took_next_steps: bool = False
    used: list[TokenUsage] = field(default_factory=list)
    received_chars: int = 0

    async def __call__(self) -> None:
        """The job."""
        is_recorded = False
        try:
            await self._perform()
            is_recorded = True
        except anyio.get_cancelled_exc_class():
            is_recorded = True
            raise
        finally:
            if not is_recorded:
                self.asking.lost.add(self.op)

    async def _perform(self) -> None:
        services = self.asking.services
        await services.store.flush(services.store.view.rev)
        agent = await self._stop_stale_request()
        if agent is None or not model_request.is_current_request(agent, self.op):
            return
        began_at = services.clock.now()
        asked = LayeredAsk(services, self.asking.look, agent, self.op, self._ask, self._renew)
        try:
            if self.wanted is not None:
                await self._summarize(self.wanted)
                return
            reply = await ask_through_mixins(asked)
        except ModelFailed as failure:
            await self._record_failure(failure)
        except anyio.get_cancelled_exc_class():
            self._bill_unanswered(CANCELLED_REASON)
            raise
        else:
            await self._record_reply(reply, began_at - self.asked_at)
            if self.ready is None:  # A cancelled request keeps its traces: the next request looks at them.
                services.programs.processes.forget([self.op])

    async def _stop_stale_request(self) -> ObservedAgent | None:
        """Stop the processes of an earlier owner's request, unless they are adopted. Returns the agent after that."""
        services = self.asking.services
        agent = self.asking.look(self.address)
        if self.ready is not None or self.stale is None:
            return agent
        if agent is not None and agent.nature.outlives_owner and model_request.is_current_request(agent, self.op):
            return agent
        await services.programs.processes.stop(self.stale)
        services.programs.processes.forget([self.stale])
        return self.asking.look(self.address)

    async def _ask(self, agent: ObservedAgent, op: str) -> DeciderReply:
        if self.ready is None:
            return await ask_decider(self.asking.services, self.asking.tools, self.stale, agent, op)
        opened = agent.opened
        request = self.ready.request
        if request.key.attempt != opened.request.asked:  # A mixin repeats the request in the same job.
            request = replace(request, key=replace(request.key, attempt=opened.request.asked))
        answer = await self._complete(request)
        if not answer.calls and (not answer.text.strip() or answer.finish == ANNOUNCED):
            raise model_request.empty_reply_failure(
                self.used.pop(), opened.request.tries + 1, has_text=bool(answer.text.strip())
            )
        return reply_from_model(answer, called_tools_by_wire_name(agent, self.asking.tools, answer))

    async def _complete(self, request: ModelRequest) -> ModelReply:
        """The answer of the model. Its usage goes into `used`; if the request is cancelled, an estimate of it does."""
        assert self.ready is not None, "only models are asked like this"
        self.received_chars = 0
        try:
            answer = await self.asking.services.deciders.models.complete(request, self._count_received)
        except anyio.get_cancelled_exc_class():
            received = transcript.estimate_tokens(self.received_chars)
            self.used.append(TokenUsage(self.ready.tokens, received, is_estimated=True))
            raise
        self.used.append(answer.usage)
        return answer

    def _renew(self, agent: ObservedAgent, op: str) -> tuple[Change, ...] | None:
        """See `middleware.RenewRequest`: bill the request before, and reserve what the next one may cost."""
        if self.ready is None:
            self.op = op
            return ()
        batch = WriteBatch(self.asking.services.store)
        billed = self._billed(agent, batch)
        batch.add(self.address, RecordDraft("model.failed", AGENT_ACTOR, self.address, billed))
        reserved = model_request.reservation_changes(agent, batch, op, self.ready)
        if isinstance(reserved, model_request.Spent):
            return None
        self.used.clear()
        self.op = op
        return (*billed, *reserved)

    def _count_received(self, text: str) -> None:
        self.received_chars += len(text)

    async def _record_reply(self, reply: DeciderReply, queued_s: float) -> None:
        services, batch = self.asking.services, self._batch()
        agent = self.asking.look(self.address)
        if agent is None:
            return
        if not model_request.is_current_request(agent, self.op):
            self._record_late_reply(agent, reply)
            return
        ids = [services.ids.mint() for _ in range(max(1, len(reply.calls)))]
        late_s = queued_s if queued_s > QUEUED_S else 0.0
        draft = records.draft_reply(agent, reply, ids, self.asking.tools, queued_s=late_s)
        more = self._billed(agent, batch, reply)
        data = draft.data | self._own_count()
        batch.add(self.address, remade(draft, changes=(*draft.changes, *more), data=data))
        await self._take_next_steps(batch)
        if self.ready is None:
            await services.store.flush(services.store.view.rev)

    async def _summarize(self, wanted: SummaryPlan) -> None:
        """Request a summary, replace its turns with it, and take the agent's next steps."""
        assert self.ready is not None, "a model writes summaries"
        answer = await self._complete(self.ready.request)
        if not answer.text.strip():
            text = "it returned an empty summary"
            raise ModelFailed(model_request.EMPTY_REPLY, text, is_transient=True, usage=self.used.pop())
        services, batch = self.asking.services, self._batch()
        agent = self.asking.look(self.address)
        if agent is None or not model_request.is_current_request(agent, self.op):
            self._bill_unanswered(LATE_REASON)
            return
        chunks, data = transcript.summarized_chunks(agent, answer.text, wanted, services.store.put_blob)
        data |= {"op": self.op, "model": self.ready.request.model, "usage": usage_json(answer.usage)}
        billed = (*self._billed(agent, batch), records.status_change(agent, {"open": {"tries": 0}}))
        batch.add(self.address, model_request.draft_compaction(agent, chunks, data, billed))
        await self._take_next_steps(batch)

    def _batch(self) -> WriteBatch:
        services = self.asking.services
        return WriteBatch(services.store, lambda: services.work.without_waking(self.address))

    async def _take_next_steps(self, batch: WriteBatch) -> None:
        is_alone = await self.asking.take_next_steps(self.address, batch, self.key)
        # Nothing is awaited from here on, so no other job waits for this one.
        self.took_next_steps = is_alone and self.ready is not None

    def _own_count(self) -> JsonObject:
        """Our token count, if the provider's differs much from it; the provider's count is billed."""
        if self.ready is None or not self.used or not catalog.is_count_off(self.ready.tokens, self.used[-1]):
            return {}
        return {"tokens_counted": self.ready.tokens}

    async def _record_failure(self, failure: ModelFailed) -> None:
        batch = self._batch()
        agent = self.asking.look(self.address)
        assert self.ready is not None, "only models fail like this"
        if agent is None or not model_request.is_current_request(agent, self.op):
            self.used += [] if failure.usage is None else [failure.usage]
            self._bill_unanswered(failure.reason)
            return
        batch.add(self.address, model_request.draft_model_failure(agent, batch, failure, self.ready, self.asking.life))
        await self._take_next_steps(batch)

    def _bill_unanswered(self, reason: str) -> None:
        """Bill a cancelled or superseded request for what it has cost so far."""
        agent = self.asking.look(self.address)
        if self.ready is None or agent is None or not (self.used or model_request.is_current_request(agent, self.op)):
            return
        data: JsonObject = {"op": self.op, "reason": reason}
        if self.used:
            data["usage"] = usage_json(self.used[-1])
        batch = WriteBatch(self.asking.services.store)
        draft = RecordDraft("model.failed", AGENT_ACTOR, self.address, self._billed(agent, batch), data)
        batch.add(self.address, draft)
        batch.commit()

    def _record_late_reply(self, agent: ObservedAgent, reply: DeciderReply) -> None:
        """Record a late reply as evidence: it changes only the usage."""
        batch = WriteBatch(self.asking.services.store)
        data = {"op": self.op, "text": reply.text, "usage": reply.usage, "late": True}
        billed = self._billed(agent, batch, reply)
        batch.add(self.address, RecordDraft("model.replied", AGENT_ACTOR, self.address, billed, data))
        batch.commit()

    def _billed(self, agent: ObservedAgent, view: WriteBatch, reply: DeciderReply | None = None) -> tuple[Change, ...]:
        if self.ready is None:
            reported = None if reply is None else program.reported_cost(reply.usage)
            return () if reported is None else budget.settle_changes(view, agent.resource, self.op, reported)
        cost = Cost()
        for used in self.used:
            cost = cost + catalog.request_cost(self.ready.price, used)
        return budget.settle_changes(view, agent.resource, self.op, cost)


def called_tools_by_wire_name(agent: ObservedAgent, tools: ToolMap, answer: ModelReply) -> Mapping[str, str]:
    """The tools of the agent by their wire names; empty if the reply has no calls."""
    return prompt.tools_by_wire_name(permissions.granted_tools(agent.spec, tools)) if answer.calls else {}


ENV_REFERENCE: Final = "env:"


def decider_of(services: AgentServices, agent: ObservedAgent, stale: str | None = None) -> DeciderPort:
    """The decider that the spec names, ready to be asked; `stale` as for `ask_decider`. Raises DeciderFailed."""
    match agent.spec.mind:
        case ScriptSpec(steps=steps):
            return ScriptRunner(steps)
        case ProgramSpec(argv=argv):
            return ProgramRunner(services.programs.processes, argv, _setting(services, agent))
        case PythonFunctionSpec(target=target):
            return python_runner(services, target, _setting(services, agent))
        case ModelDeciderSpec():
            raise AssertionError("an `AskJob` sends requests to models")
        case CliAgentSpec() as how:
            return _cli_agent(services, agent, how, stale)
        case McpClientSpec():
            return McpClientRelay(None if agent.status.open is None else agent.status.open.client.said)
        case other:
            assert_never(other)


def _cli_agent(services: AgentServices, agent: ObservedAgent, how: CliAgentSpec, stale: str | None) -> CliAgentRunner:
    given = {
        name: _variable(services, str(value))
        for name, value in how.env.items()
        if not name.startswith(RESERVED_VARIABLES)
    }
    setting = _setting(services, agent, how.timeout_s or limits.OUTSIDE_TURN_S)
    setting = replace(setting, env={**setting.env, **given})
    secrets = tuple(given[name] for name, value in how.env.items() if str(value).startswith(ENV_REFERENCE))
    news = prompt.cli_agent_news(agent, call_locks.describe_held(agent, services.store.view))
    briefing = CliAgentBriefing(prompt.role_briefing(agent, CLI_AGENT_RULES) + f"\n\n{news}", news)
    return CliAgentRunner(services.programs.processes, how, setting, briefing, services.store.put_blob, secrets, stale)


def _variable(services: AgentServices, written: str) -> str:
    """The value of a variable; `env:NAME` is read from the owner's environment. Raises DeciderFailed."""
    if not written.startswith(ENV_REFERENCE):
        return written
    name = written.removeprefix(ENV_REFERENCE)
    found = services.programs.owner_env.get(name)
    if not found:
        raise DeciderFailed(f"the environment variable {name} is not set in the process that runs the plan")
    return found


def _setting(
    services: AgentServices, agent: ObservedAgent, most_s: float = limits.CALL_TIMEOUT_S
) -> ProgramRunner.Setting:
    """How a program runs: in its task's workspace, with the clean environment, for at most the remaining time."""
    try:
        workspace = resolve_agent_workspace(services, agent)
        workspace.ensure()
    except ToolError as error:
        raise DeciderFailed(str(error)) from error
    time_s = min(most_s, agent.budget.left.get("time_s", most_s))
    is_function = isinstance(agent.spec.mind, PythonFunctionSpec)
    box = (
        run_environment.function_sandbox(services, agent)
        if is_function
        else run_environment.agent_sandbox(services, agent)
    )
    return ProgramRunner.Setting(str(workspace.root), command_environment(services, agent), time_s, box)


async def ask_decider(
    services: AgentServices, tools: ToolMap, stale: str | None, agent: ObservedAgent, op: str
) -> DeciderReply:
    """The reply of the decider, without mixins. Raises DeciderFailed.

    `stale` is the operation id of a request that an earlier owner made and that has no answer; None without such a
    request.
    """
    if services.deciders.replayed_replies is not None and not agent.nature.is_instant:
        return await services.deciders.replayed_replies(agent)
    return await decider_of(services, agent, stale).respond(turn_input(services, tools, agent, op))


async def ask_through_mixins(asking: LayeredAsk) -> DeciderReply:
    """The reply of the decider through the agent's mixins; a failed decider replies with `fail` and the reason."""
    try:
        return await asking.answer(steps_for_turn(asking.seen.spec))
    except DeciderFailed as failure:
        fail = ProposedCall("fail", {"reason": str(failure)})
        return DeciderReply(text="", calls=(fail,), memory=asking.seen.status.memory.own)


def turn_input(services: AgentServices, tools: ToolMap, agent: ObservedAgent, op: str) -> TurnInput:
    """The input of the decider for the open turn."""
    turn, task, spec = agent.status.open, agent.task_spec, agent.spec
    assert turn is not None, "a decider is asked inside a turn"
    return TurnInput(
        agent=agent.resource.address,
        incarnation=agent.status.incarnation,
        turn=turn.turn,
        op=op,
        now=agent.now,
        goal="" if task is None else task.goal,
        cwd=run_environment.working_directory(services, agent),
        notes="" if task is None else task.notes,
        prompt=agent_instructions(agent),
        checks=() if task is None else tuple(check.to_json() for check in task.acceptance),
        reasons=turn.news.reasons,
        messages=turn.news.messages,
        results=tuple(_outcome(call) for call in agent.status.memory.past),
        children=tuple(child.view for child in agent.context.children),
        tools=()
        if isinstance(spec.mind, ScriptSpec)
        else permissions.granted_tools(spec, tools),  # Scripts do not read the list.
        budget_left=agent.budget.left,
        rejected=rejected_verdict(agent),
        memory=agent.status.memory.own,
        options=spec.mind.options if isinstance(spec.mind, PythonFunctionSpec) else {},
        comments=agent_hooks.opening_comments(turn) if turn.hooks.fired else (),
    )


def _outcome(call: PastCall) -> CallOutcome:
    return CallOutcome(call.address, call.tool, arguments_as_map(call.arguments), call.result, call.comments)


@frozen
class McpClientRelay:
    """Answers with the call of the MCP client that started the turn; a call without a tool only reads the news."""

    said: ClientCall | None

    async def respond(self, turn: TurnInput) -> DeciderReply:
        del turn
        if self.said is None or not self.said.tool:
            return DeciderReply(then="sleep")
        return DeciderReply(calls=(ProposedCall(self.said.tool, self.said.arguments, self.said.id),), then="sleep")
