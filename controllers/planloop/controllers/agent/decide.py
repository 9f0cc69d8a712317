"""Decide the next step of an agent: pure functions from an observation to one step.

Each pass computes the reasons for a turn from the state, not from the event that woke the controller (law 3). Without a
reason the agent sleeps, and a sleeping agent is only rows in the store (law 12).
`planloop.controllers.agent.controller` takes the steps.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Final, TypeAlias

from planloop.controllers.agent import budget, escalation, external_lease
from planloop.controllers.agent.hooks import watchers
from planloop.controllers.agent.hooks.questions import HookMoment, HookWait
from planloop.controllers.agent.mail import wake_reasons
from planloop.controllers.agent.mail.wake_reasons import WakeNews, collect_news, is_redirected
from planloop.controllers.agent.models.catalog import UnpricedModel
from planloop.controllers.agent.observe import ObservedAgent, served_prompt_of
from planloop.controllers.agent.status import WAITING_STATES, OpenTurn, TurnCall
from planloop.controllers.agent.tools.tool import CallEnding
from planloop.controllers.agent.turn import model_request
from planloop.controllers.shared.ledger import BudgetShortage
from planloop.schemas import limits
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.agent import NO_MCP_CLIENT, NO_MODEL, UNPRICED, AgentState
from planloop.schemas.objects.approval import WAITING, describe_request, needs_person
from planloop.schemas.objects.budget import format_amount, unit_to_name
from planloop.schemas.objects.call import FINAL_STATES, CallState
from planloop.schemas.objects.fork import AWAITING_FORK
from planloop.schemas.objects.mcp import is_offer_known
from planloop.schemas.objects.message import ThreadAnswer as GivenAnswer
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource

_HOOK_OVER: Final = "its hook is over"
DECIDER_JOB: Final = "mind"
"""The prefix of the keys of jobs that ask the decider."""


# Steps: what `decide` returns and the controller takes.


@frozen
class CancelJobs:
    """Cancel these jobs; the next pass continues with what is left."""

    keys: tuple[str, ...]


@frozen
class CloseTurn:
    """Close the open turn without its remaining calls, because the work was cancelled or restarted."""

    why: str


@frozen
class ReleaseAgent:
    """Remove the finalizer: no job of the agent runs."""


@frozen
class BeginIncarnation:
    """Begin a new incarnation."""

    incarnation: int


@frozen
class StartTurn:
    """Start a turn for this news. `is_last`: the budget is used up, and the agent hands its work over."""

    news: WakeNews
    is_last: bool = False


@frozen
class EscalateModel:
    """Let a stronger model continue the conversation."""

    why: str


@frozen
class AskDecider:
    """Ask the decider for the open turn."""


@frozen
class ConsultHooks:
    """Ask the hooks of the agent, or wait for them, before the turn continues from this moment."""

    moment: HookMoment


@frozen
class AuthorizeCalls:
    """Check the calls of the reply against permissions and verdicts."""


@frozen
class RunCalls:
    """Start these calls, or continue them after a crash."""

    calls: tuple[Resource, ...]


@frozen
class CollectResults:
    """Take the results of calls that ended outside their jobs, by an approval or an answer, into the turn."""

    calls: tuple[Resource, ...]


@frozen
class ResolveWait:
    """End a waiting call, or move it one step."""

    call: Resource
    ending: CallEnding


@frozen
class InterruptTurn:
    """Stop the step in flight for a message or an edit; calls that have not started are cancelled."""


@frozen
class ApplyApprovals:
    """Apply the answers to these calls, which waited for approval."""

    calls: tuple[Resource, ...]


@frozen
class AnswerQuestion:
    """Answer what the agent was asked, without a turn."""

    answer: GivenAnswer


@frozen
class EndLease:
    """End the lease of an MCP client on an external agent."""

    why: str


@frozen
class EndTurn:
    """End the turn: every call has its result."""


@frozen
class AgentRest:
    """Rest. A timer is due in `after_s` seconds (None: only a change wakes the agent).

    `is_wait`: the calls of the open turn only wait, which is not active time. `shortage` is what the next request
    needs and the budget does not have, if the agent is parked for that.
    """

    state: AgentState
    why: str
    condition: str = ""
    unblocks: tuple[str, ...] = ()
    after_s: float | None = None
    is_wait: bool = False
    shortage: BudgetShortage | None = None


AgentStep: TypeAlias = (
    CancelJobs
    | CloseTurn
    | ReleaseAgent
    | BeginIncarnation
    | StartTurn
    | EscalateModel
    | AskDecider
    | ConsultHooks
    | AuthorizeCalls
    | ApplyApprovals
    | ResolveWait
    | InterruptTurn
    | RunCalls
    | CollectResults
    | AnswerQuestion
    | EndLease
    | EndTurn
    | AgentRest
)


IsParallel: TypeAlias = Callable[[TurnCall], bool]
ResolveCall: TypeAlias = Callable[[Resource], CallEnding | None]
"""Returns the end or the next step of a waiting call, from the same observation; None while it keeps waiting."""


HasUnaskedHooks: TypeAlias = Callable[[HookMoment], bool]
"""Whether hooks have not been asked yet at this moment of the turn."""


def resolve_nothing(_: Resource) -> None:
    """A `ResolveCall` for agents without waiting calls."""


def no_hooks_left(_: HookMoment) -> bool:
    """A `HasUnaskedHooks` for agents without hooks."""
    return False


def decide(
    agent: ObservedAgent,
    is_parallel: IsParallel,
    resolved: ResolveCall = resolve_nothing,
    life: str = "",
    unasked: HasUnaskedHooks = no_hooks_left,
) -> AgentStep:
    """The next step of the agent. `life` names the owner that decides: failures under other owners do not count."""
    step = _step(agent, DecisionContext(is_parallel, resolved, life, unasked))
    if isinstance(step, AgentRest):
        answer = wake_reasons.answer_if_unable(agent, step.state, step.condition, step.why)
        return step if answer is None else AnswerQuestion(answer)
    return step


@frozen
class DecisionContext:
    """What a decision needs besides the observed agent; the fields are the arguments of `decide`."""

    is_parallel: IsParallel
    resolved: ResolveCall
    life: str
    unasked: HasUnaskedHooks


def _step(agent: ObservedAgent, around: DecisionContext) -> AgentStep:
    if agent.resource.deleting:
        return _stop(agent, "the agent was removed") or ReleaseAgent()
    if agent.is_watcher:
        return _watching(agent, around)
    if agent.is_over and (step := _answering(agent, around)) is not None:
        return step
    if agent.task is None or agent.wanted_incarnation is None or agent.task_state in ENDED:
        return _without_go(agent)
    if agent.wanted_incarnation != agent.status.incarnation:
        return _stop(agent, "its task restarts it") or BeginIncarnation(agent.wanted_incarnation)
    if agent.task_state == "paused":
        return _paused(agent)
    if agent.status.open is not None:
        return _within(agent, agent.status.open, around)
    return _between(agent)


def _stop(agent: ObservedAgent, why: str) -> AgentStep | None:
    """Cancel the jobs, then close the open turn; None if the agent has neither."""
    if agent.objects.jobs:
        return CancelJobs(tuple(sorted(agent.objects.jobs)))
    if agent.status.open is not None or agent.objects.calls:
        return CloseTurn(why)
    return None


def _without_go(agent: ObservedAgent) -> AgentStep:
    if agent.task_state == "paused":
        return _paused(agent)
    if (stop := _stop(agent, f"its task is {agent.task_state or 'gone'}")) is not None:
        return stop
    if agent.task_state in ENDED:
        return _over(agent, f"its task is {agent.task_state}")
    if agent.is_over:
        return _over(agent, "its own part of its task is done")
    is_leaving = agent.task_state == "stopping"
    return AgentRest(AgentState.IDLE, "its task is stopping" if is_leaving else "its task has not started")


def _over(agent: ObservedAgent, why: str) -> AgentStep:
    return AgentRest(AgentState.ENDED, why) if agent.status.client.lease is None else EndLease(why)


def _answering(agent: ObservedAgent, around: DecisionContext) -> AgentStep | None:
    """The next step towards an answer of an agent with an ended task; None if no question is open."""
    status = agent.status
    if status.open is not None:
        return _within(agent, status.open, around) if status.open.is_answer else None
    if not wake_reasons.unanswered_questions(agent) or agent.objects.jobs or agent.objects.calls:
        return None
    if len(wake_reasons.unanswered_questions(agent)) == len(status.mail.asked) and not (
        status.mail.is_answering and status.wake.again
    ):
        return AnswerQuestion(wake_reasons.answer_of_task(agent))
    return _start(agent, collect_news(agent))


def _watching(agent: ObservedAgent, around: DecisionContext) -> AgentStep:
    """The next step of an agent that works for a hook: only questions wake it."""
    status, incarnation = agent.status, 0 if agent.task is None else int(agent.task.status.get("incarnation") or 0)
    if agent.hooks.works_for is None:
        return _stop(agent, _HOOK_OVER) or _gone(agent)
    if not incarnation:
        why = "the agent that it watches has not started"
        return _stop(agent, why) or AgentRest(AgentState.IDLE, why)
    if incarnation != status.incarnation:
        return _stop(agent, "the agent that it watches restarts") or BeginIncarnation(incarnation)
    if agent.task_state == "paused":
        return _paused(agent)
    if status.open is not None:
        if not watchers.is_answer_awaited(status.open, status.mail.asked):
            return _stop(agent, "the question was withdrawn") or _within(agent, status.open, around)
        return _within(agent, status.open, around)
    found = collect_news(agent)
    if found.reasons:
        return _start(agent, found)
    return AgentRest(AgentState.ENDED if agent.task_state in ENDED else AgentState.ASLEEP, "waits for a question")


def _gone(agent: ObservedAgent) -> AgentStep:
    """The next step of an agent whose hook is over: answer the open questions with that, then end."""
    if wake_reasons.unanswered_questions(agent):
        return AnswerQuestion(GivenAnswer(_HOOK_OVER, "Gone"))
    return AgentRest(AgentState.ENDED, _HOOK_OVER)


def _paused(agent: ObservedAgent) -> AgentStep:
    if agent.status.open is None and (why := external_lease.why_agent_lease_ends(agent)):
        return EndLease(why)
    # Running jobs finish; no new step begins.
    if agent.objects.jobs:
        return AgentRest(AgentState.RUNNING, "pauses when its running work ends")
    return AgentRest(AgentState.BLOCKED, "paused", "Paused", (f"plan resume {agent.spec.task}",))


def _within(agent: ObservedAgent, turn: OpenTurn, around: DecisionContext) -> AgentStep:
    """The next step of an open turn."""
    if _is_stopped(agent, turn) and (stopping := _interrupted(agent, turn)) is not None:
        return stopping
    if not turn.is_replied:
        if agent.hooks.watching and not _is_thinking(agent) and around.unasked("opening"):
            return ConsultHooks("opening")
        return _running("decides its next step") if agent.objects.jobs else _asking(agent, turn, around.life)
    open_calls = [turn.standing(call) for call in turn.reply.calls if call.address not in turn.results]
    objects = [agent.objects.calls[call.address] for call in open_calls if call.address in agent.objects.calls]
    if any(each.state == CallState.PROPOSED for each in objects):
        return ConsultHooks("reply") if agent.hooks.watching and around.unasked("reply") else AuthorizeCalls()
    if answered := tuple(each for each in objects if is_answered(agent, each)):
        return ApplyApprovals(answered)
    ended = tuple(each for each in objects if _has_ended(agent, each))
    if ended:
        return CollectResults(ended)
    if not open_calls:
        return _ending(agent, around) if agent.hooks.watching else EndTurn()
    return _resolving(objects, around.resolved) or _running_calls(agent, open_calls, objects, around.is_parallel)


def _is_thinking(agent: ObservedAgent) -> bool:
    """Whether a job asks the decider; other jobs may ask hooks."""
    return any(key.startswith(f"{DECIDER_JOB}:") for key in agent.objects.jobs)


def _ending(agent: ObservedAgent, around: DecisionContext) -> AgentStep:
    """End the turn when its hooks have been asked; an interrupting message ends it without the closing hooks."""
    for moment in ("reply", "results"):
        if around.unasked(moment):
            return ConsultHooks(moment)
    if agent.interrupts:
        return CancelJobs(tuple(sorted(agent.objects.jobs))) if agent.objects.jobs else EndTurn()
    return ConsultHooks("closing") if around.unasked("closing") else EndTurn()


def _asking(agent: ObservedAgent, turn: OpenTurn, life: str) -> AgentStep:
    """Ask the decider, unless its last request failed and must not be repeated yet."""
    if agent.is_moving:
        return _moving(agent)
    if turn.request.failure is None:
        return AskDecider()
    why = model_request.describe_failure(agent, turn.request.failure)
    match model_request.remedy_for(agent, turn.request.failure, life):
        case "ask":
            return AskDecider()
        case "wait":
            after_s = max(0.0, (turn.request.failure.retry_at or 0.0) - agent.now)
            again = f"{why}; retry {model_request.describe_pause(turn.request.failure)}"
            if not model_request.is_long_pause(turn.request.failure):
                return AgentRest(AgentState.RUNNING, again, after_s=after_s, is_wait=True)
            ways = model_request.ways_to_unblock(agent, turn.request.failure)
            return AgentRest(AgentState.BLOCKED, again, "NoModel", ways, after_s=after_s, is_wait=True)
        case "blocked":
            if agent.unread:
                return InterruptTurn()
            ways = model_request.ways_to_unblock(agent, turn.request.failure)
            return AgentRest(AgentState.BLOCKED, why, NO_MODEL, ways, is_wait=True)


def _resolving(objects: list[Resource], resolved: ResolveCall) -> AgentStep | None:
    """The step for the first waiting call that ends or moves on; None if all keep waiting."""
    for each in objects:
        if each.state in WAITING_STATES and (ending := resolved(each)) is not None:
            return ResolveWait(each, ending)
    return None


def _running_calls(
    agent: ObservedAgent, open_calls: list[TurnCall], objects: list[Resource], is_parallel: IsParallel
) -> AgentStep:
    startable = _startable(agent, open_calls, is_parallel)
    if startable:
        return _moving(agent) if agent.is_moving else RunCalls(startable)
    return _waiting(agent, objects)


def rest_for_hooks(agent: ObservedAgent, waits: HookWait) -> AgentRest:
    """How an agent rests while hooks are asked. Only the time of hook programs counts as its active time."""
    after_s = None if waits.due_at is None else max(0.0, waits.due_at - agent.now)
    return AgentRest(AgentState.RUNNING, waits.why, after_s=after_s, is_wait=not waits.is_thinking)


def rest_for_long_prompt(agent: ObservedAgent) -> AgentRest | None:
    """How an agent rests if its prompt is too long for the model and cannot be shortened; None if no request failed."""
    failure = None if agent.status.open is None else agent.status.open.request.failure
    if failure is None:
        return None
    ways = model_request.ways_to_unblock(agent, failure)
    return AgentRest(AgentState.BLOCKED, model_request.describe_failure(agent, failure), NO_MODEL, ways, is_wait=True)


def _is_stopped(agent: ObservedAgent, turn: OpenTurn) -> bool:
    """Whether the step in flight stops: for an interrupting message, or for news while calls only wait.

    The step of an external agent also stops when its client disconnects or cancels the call.
    """
    if agent.interrupts or (turn.is_replied and external_lease.is_turn_abandoned(agent)):
        return True
    if not turn.is_replied and agent.nature.is_redirected:
        return is_redirected(agent)
    is_wait = not agent.objects.jobs and bool(_waiting_calls(agent, turn))
    return is_wait and (is_redirected(agent) or any(each.delivery == "steer" for each in agent.unread))


def _interrupted(agent: ObservedAgent, turn: OpenTurn) -> AgentStep | None:
    """Stop what an interrupting message stops; None if only the end of the turn is left."""
    if turn.is_replied and all(call.address in turn.results for call in turn.reply.calls):
        return None
    if agent.objects.jobs:
        return CancelJobs(tuple(sorted(agent.objects.jobs)))
    left = (agent.objects.calls.get(call.address) for call in turn.reply.calls if call.address not in turn.results)
    is_open = any(call is not None and call.state != CallState.UNKNOWN for call in left)
    return InterruptTurn() if is_open or not turn.is_replied else None


def is_answered(agent: ObservedAgent, call: Resource) -> bool:
    """Whether a call that waits for approval has its answer. A missing approval counts as a refusal."""
    if call.state != CallState.AWAITING_APPROVAL:
        return False
    approval = agent.objects.approvals.get(str(call.status.get("approval")))
    return approval is None or approval.state != WAITING


def _has_ended(agent: ObservedAgent, call: Resource) -> bool:
    return call.state in FINAL_STATES or (call.state == CallState.UNKNOWN and agent.nature.judges_doubt)


def _startable(agent: ObservedAgent, open_calls: list[TurnCall], is_parallel: IsParallel) -> tuple[Resource, ...]:
    """The authorized calls that may start now. A call that may not run in parallel waits for all calls before it."""
    found: list[Resource] = []
    is_first = True
    for call in open_calls:
        alongside = is_parallel(call)
        if not alongside and not is_first:
            break
        each = agent.objects.calls.get(call.address)
        if each is not None and _is_to_start(agent, each):
            found.append(each)
        if not alongside:
            break
        is_first = False
    return tuple(found)


def _is_to_start(agent: ObservedAgent, call: Resource) -> bool:
    # A call that is Started without a job was started by an earlier owner, and its process may be adopted.
    return call.state in (CallState.AUTHORIZED, CallState.STARTED) and call.address not in agent.objects.jobs


def _waiting(agent: ObservedAgent, objects: list[Resource]) -> AgentStep:
    unknown = [each.address for each in objects if each.state == CallState.UNKNOWN]
    if unknown:
        ways = tuple(f"plan approve {address} {word}" for address in unknown for word in ("--happened", "--did-not"))
        return AgentRest(AgentState.BLOCKED, f"the outcome of {unknown[0]} is unknown", "InDoubt", ways)
    asking = [each for each in objects if each.state == CallState.AWAITING_APPROVAL]
    if asking and not agent.objects.jobs:
        names = [str(each.status.get("approval", each.address)) for each in asking]
        return AgentRest(
            AgentState.BLOCKED,
            f"{asking[0].spec['tool']} needs approval",
            "AwaitingApproval",
            tuple(f"plan approve {name}" for name in names),
            is_wait=True,
        )
    only = [each for each in objects if each.state in WAITING_STATES]
    if only and not agent.objects.jobs:
        return _rest_for_calls(agent, only)
    return _running("its calls are running")


def _running(why: str) -> AgentRest:
    return AgentRest(AgentState.RUNNING, why)


def _between(agent: ObservedAgent) -> AgentStep:
    """No turn is open: start one if there is a reason and the budget allows, else rest."""
    if why := external_lease.why_agent_lease_ends(agent):
        return EndLease(why)
    found = collect_news(agent)
    claim = agent.status.claim
    if claim is not None and not found.reopens:
        return AgentRest(AgentState.CLAIMED, f"called `{claim.kind}`; its task checks that")
    if why := escalation.why_escalate(agent):
        return EscalateModel(why)
    if not found.reasons:
        return _asleep(agent)
    return _start(agent, found)


def _start(agent: ObservedAgent, found: WakeNews) -> AgentStep:
    """Start a turn if the budget allows one, else rest."""
    if (agent.is_to_move or agent.is_moving) and not agent.is_watcher:
        return _moving(agent)
    standing = budget.turn_allowance(
        agent.task,
        agent.budget.left,
        agent.budget.caps,
        can_think=agent.hands_over,
        had_last=agent.status.wake.had_last,
    )
    if standing == "spent":
        return rest_until_budget(agent, budget.spent_units(agent.budget.left))
    return _without_servers(agent) or StartTurn(found, is_last=standing == "last")


def _moving(agent: ObservedAgent) -> AgentRest:
    fork = "its fork" if agent.context.fork is None else agent.context.fork.address
    return AgentRest(AgentState.BLOCKED, f"waits for {fork}", AWAITING_FORK, (f"plan describe {fork}",), is_wait=True)


def rest_until_budget(agent: ObservedAgent, spent: tuple[str, ...], short: BudgetShortage | None = None) -> AgentRest:
    """How an agent rests until the budget of these units grows. `short`: less is left than the next request needs."""
    needed = {} if short is None else short.asked
    found = [
        budget.binding_limit(agent.budget, agent.spec, agent.hooks.works_for, unit, needed.get(unit)) for unit in spent
    ]
    words = "; ".join(bound.words for bound, _ in found)
    unit = next((unit for unit in spent if short is not None and short.left.get(unit, 0) > 0), None)
    if short is not None and unit is not None:
        bound = found[spent.index(unit)][0]
        of = "dollars" if unit == "usd" else unit_to_name(unit)
        left, asked = f"{short.left[unit]:f} {of}", f"{short.asked[unit]:f}"
        of_bound = f"{format_amount(unit, bound.amount)} ({', '.join(bound.lines)})"
        words = f"too little of {bound.holder} is left: {left} of {of_bound}, and the next request may use {asked}"
    return AgentRest(
        AgentState.PARKED, words, "BudgetSpent", tuple(dict.fromkeys(way for _, way in found)), shortage=short
    )


def _without_servers(agent: ObservedAgent) -> AgentRest | None:
    """Wait until the tool servers have reported what they offer; None if they have.

    A prompt declares the tools from the first turn on, so that turn must not begin before.
    """
    starting = [each.address for each in agent.context.servers if not each.deleting and not is_offer_known(each.status)]
    if starting:
        ways = tuple(f"plan describe {address}" for address in starting)
        return AgentRest(AgentState.BLOCKED, f"waits for {', '.join(starting)} to start", "AwaitingServer", ways)
    return next(
        (_without_prompt(agent, name) for name in agent.spec.served_prompts if not served_prompt_of(agent, name).text),
        None,
    )


def _without_prompt(agent: ObservedAgent, name: str) -> AgentRest:
    """Wait for a prompt of a tool server that is part of the agent's instructions."""
    address, error = f"mcp/{name.partition('/')[0]}", served_prompt_of(agent, name).fault
    why = f"its prompt `{name}` is not available: {error}" if error else f"waits for its prompt `{name}`"
    return AgentRest(AgentState.BLOCKED, why, "AwaitingServer", (f"plan describe {address}",))


def _asleep(agent: ObservedAgent) -> AgentRest:
    if agent.nature.is_guest:
        return _rest_until_client(agent)
    live = [child.address for child in agent.context.children if child.is_live]
    due = next_timer_due(agent)
    after_s = None if due is None else max(0.0, due - agent.now)
    if not live and agent.status.wake.wake_at is None and (rest := _rest_until_approved(agent)) is not None:
        return rest
    if agent.status.wake.wake_at is not None:
        return AgentRest(AgentState.ASLEEP, "waits for its timer", after_s=after_s)
    if live:
        return AgentRest(
            AgentState.ASLEEP, f"waits for {', '.join(live[:3])}{' …' if len(live) > 3 else ''}", after_s=after_s
        )
    return AgentRest(AgentState.ASLEEP, "waits for a message", after_s=after_s)


def next_timer_due(agent: ObservedAgent) -> float | None:
    """When the next timer or watchdog of a sleeping agent is due, in seconds since 1970; None if it has none."""
    status = agent.status
    dues = [] if status.wake.wake_at is None else [status.wake.wake_at]
    every = agent.spec.wake_every_s
    if (
        every is not None
        and status.wake.ended_at is not None
        and any(child.is_live for child in agent.context.children)
    ):
        dues.append(status.wake.ended_at + every)
    return min(dues) if dues else None


def has_waiting_calls(agent: ObservedAgent) -> bool:
    """Whether a call of the open turn waits for a child, an input or a lock."""
    return agent.status.open is not None and bool(_waiting_calls(agent, agent.status.open))


def _waiting_calls(agent: ObservedAgent, turn: OpenTurn) -> list[Resource]:
    found = (agent.objects.calls.get(call.address) for call in turn.reply.calls) if agent.objects.calls else ()
    return [each for each in found if each is not None and each.state in WAITING_STATES]


def _rest_for_calls(agent: ObservedAgent, waiting: list[Resource]) -> AgentRest:
    """How an agent rests when all its open calls wait: asleep for a child, else blocked."""
    blocking = [each for each in waiting if each.state != CallState.AWAITING_CHILD]
    first = (blocking or waiting)[0]
    dues = [float(due) for each in waiting if (due := each.status.get("due_at")) is not None]
    return AgentRest(
        AgentState.BLOCKED if blocking else AgentState.ASLEEP,
        str(first.status.get("why") or f"{first.spec['tool']} waits"),
        first.state if blocking else "",
        tuple(dict.fromkeys(str(way) for each in blocking for way in each.status.get("unblocks", ()))),
        max(0.0, min(dues) - agent.now) if dues else None,
        is_wait=True,
    )


def rest_until_priced(model: UnpricedModel) -> AgentRest:
    """How an agent rests until an operator states the price of its model."""
    return AgentRest(AgentState.BLOCKED, model.why, UNPRICED, model.unblocks, is_wait=True)


def _rest_until_approved(agent: ObservedAgent) -> AgentRest | None:
    """How an agent rests until its request is answered; None if it has no open request.

    A request to an operator blocks the agent: only that operator can unblock it.
    """
    asked = [
        each for each in agent.objects.approvals.values() if each.state == WAITING and each.spec["kind"] == "request"
    ]
    of_person = [each for each in asked if needs_person(each.spec)]
    if of_person:
        names = [each.address for each in of_person]
        ways = (*(f"plan approve {name}" for name in names), *(f"plan reject {name}" for name in names))
        words = textwrap.shorten(describe_request(of_person[0].spec), limits.VALUE_SHOWN_CHARS, placeholder=" …")
        why = f"waits for an operator to answer {names[0]}: {words}"
        return AgentRest(AgentState.BLOCKED, why, "AwaitingApproval", ways)
    if asked:
        return AgentRest(AgentState.ASLEEP, f"waits for {asked[0].spec['what']['of']} to answer {asked[0].address}")
    return None


def _rest_until_client(agent: ObservedAgent) -> AgentRest:
    """How an external agent rests between calls, with or without a client."""
    lease = agent.status.client.lease
    if lease is None:
        name = agent.spec.prototype or agent.resource.address
        return AgentRest(AgentState.BLOCKED, "no MCP client is connected", NO_MCP_CLIENT, (f"plan mcp --as {name}",))
    return AgentRest(AgentState.ASLEEP, f"waits for the next call of {lease.client}")
