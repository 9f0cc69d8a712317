"""What an agent does next: pure functions from an observation to one step.

Reasons to be awake are recomputed from state at every pass (law 3): nothing that woke the controller is looked at.
No reason means asleep, and an agent that is asleep is rows in the store (law 12). How a step is done is `acting.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from planloop.controllers.agent import bounds, budget, escalation, seating
from planloop.controllers.agent.calling import approving, waiting
from planloop.controllers.agent.hooking import watchers
from planloop.controllers.agent.hooking.moments import Moment, Waits
from planloop.controllers.agent.mail import answering
from planloop.controllers.agent.mail.telling import News, is_redirected, news
from planloop.controllers.agent.observing import Observed, prompt_of
from planloop.controllers.agent.status import OpenTurn, TurnCall
from planloop.controllers.agent.steps import (
    Answer,
    Ask,
    Authorise,
    Begin,
    Cancel,
    Close,
    Collect,
    Consult,
    End,
    Escalate,
    Interrupt,
    Release,
    Reply,
    Resolve,
    Rest,
    Run,
    Start,
    Step,
    Vacate,
)
from planloop.controllers.agent.thinking import attempts
from planloop.controllers.agent.tools.tool import Ending
from planloop.schemas.agent import NO_MODEL, AgentState
from planloop.schemas.approval import WAITING
from planloop.schemas.call import FINAL, CallState
from planloop.schemas.fork import AWAITING_FORK
from planloop.schemas.frozen import frozen
from planloop.schemas.ledger import named, shown
from planloop.schemas.mcp import is_settled
from planloop.schemas.resource import Resource
from planloop.schemas.task import ENDED
from planloop.schemas.thread import Answer as GivenAnswer

_HOOK_OVER: Final = "its hook is over"
MIND: Final = "mind"
"""Before the key of a job that asks the agent's mind."""


IsParallel: TypeAlias = Callable[[TurnCall], bool]
Resolved: TypeAlias = Callable[[Resource], Ending | None]
"""What has become of a waiting call, read from the same view; None while it waits as before."""


Unasked: TypeAlias = Callable[[Moment], bool]
"""Whether hooks have still to be heard at this moment of the turn."""


def as_before(_: Resource) -> None:
    """No waiting call is over."""


def all_asked(_: Moment) -> bool:
    """No hook has anything to say."""
    return False


def decide(
    seen: Observed,
    is_parallel: IsParallel,
    resolved: Resolved = as_before,
    life: str = "",
    unasked: Unasked = all_asked,
) -> Step:
    """The one next step of this agent. `life` names the owner that decides: its own failures only are believed."""
    step = _step(seen, Surroundings(is_parallel, resolved, life, unasked))
    if isinstance(step, Rest):
        answer = answering.unable(seen, step.state, step.condition, step.why)
        return step if answer is None else Reply(answer)
    return step


@frozen
class Surroundings:
    """What a decision needs beside the agent."""

    is_parallel: IsParallel
    resolved: Resolved
    life: str
    unasked: Unasked


def _step(seen: Observed, around: Surroundings) -> Step:
    if seen.resource.deleting:
        return _stop(seen, "it was removed") or Release()
    if seen.is_watcher:
        return _watching(seen, around)
    if seen.is_over and (step := _answering(seen, around)) is not None:
        return step
    if seen.task is None or seen.go is None or seen.task_state in ENDED:
        return _without_go(seen)
    if seen.go != seen.status.incarnation:
        return _stop(seen, "it begins anew") or Begin(seen.go)
    if seen.task_state == "paused":
        return _paused(seen)
    if seen.status.open is not None:
        return _within(seen, seen.status.open, around)
    return _between(seen)


def _stop(seen: Observed, why: str) -> Step | None:
    """The next rung of the ladder, None when nothing is left to stop."""
    if seen.live:
        return Cancel(tuple(sorted(seen.live)))
    if seen.status.open is not None or seen.calls:
        return Close(why)
    return None


def _without_go(seen: Observed) -> Step:
    if seen.task_state == "paused":
        return _paused(seen)
    if (stop := _stop(seen, f"its task is {seen.task_state or 'gone'}")) is not None:
        return stop
    if seen.task_state in ENDED:
        return _over(seen, f"its task is {seen.task_state}")
    if seen.is_over:
        return _over(seen, "its own part of its task is done")
    is_leaving = seen.task_state == "stopping"
    return Rest(AgentState.IDLE, "its task is stopping" if is_leaving else "its task has not started")


def _over(seen: Observed, why: str) -> Step:
    return Rest(AgentState.ENDED, why) if seen.status.seat is None else Vacate(why)


def _answering(seen: Observed, around: Surroundings) -> Step | None:
    """The next step towards an answer of an agent whose task is over; None when it owes none."""
    status = seen.status
    if status.open is not None:
        return _within(seen, status.open, around) if status.open.is_answer else None
    if not answering.questions(seen) or seen.live or seen.calls:
        return None
    if len(answering.questions(seen)) == len(status.asked) and not (status.is_answering and status.again):
        return Reply(answering.of_task(seen))
    return _start(seen, news(seen))


def _watching(seen: Observed, around: Surroundings) -> Step:
    """The next step of an agent that is there for a hook: it is woken by what it is asked and by nothing else."""
    status, incarnation = seen.status, 0 if seen.task is None else int(seen.task.status.get("incarnation") or 0)
    if seen.hook is None:
        return _stop(seen, _HOOK_OVER) or _gone(seen)
    if not incarnation:
        return _stop(seen, "nobody is there to be watched") or Rest(AgentState.IDLE, "the agent has not started")
    if incarnation != status.incarnation:
        return _stop(seen, "the agent that it watches begins anew") or Begin(incarnation)
    if seen.task_state == "paused":
        return _paused(seen)
    if status.open is not None:
        if not watchers.is_waited_for(status.open, status.asked):
            return _stop(seen, "nobody waits for its answer any more") or _within(seen, status.open, around)
        return _within(seen, status.open, around)
    found = news(seen)
    if found.reasons:
        return _start(seen, found)
    return Rest(AgentState.ENDED if seen.task_state in ENDED else AgentState.ASLEEP, "waits to be asked")


def _gone(seen: Observed) -> Step:
    """Its hook is over: whoever asks it is told so."""
    if answering.questions(seen):
        return Reply(GivenAnswer(_HOOK_OVER, "Gone"))
    return Rest(AgentState.ENDED, _HOOK_OVER)


def _paused(seen: Observed) -> Step:
    if seen.status.open is None and (why := seating.vacated(seen)):
        return Vacate(why)
    # The boundary: what runs comes to its end, nothing new begins.
    if seen.live:
        return Rest(AgentState.RUNNING, "paused after what runs now")
    return Rest(AgentState.BLOCKED, "paused", "Paused", (f"plan resume {seen.spec.task}",))


def _within(seen: Observed, turn: OpenTurn, around: Surroundings) -> Step:
    """The next step of an open turn."""
    if _is_stopped(seen, turn) and (stopping := _interrupted(seen, turn)) is not None:
        return stopping
    if not turn.is_replied:
        if seen.hooks and not _is_thinking(seen) and around.unasked("opening"):
            return Consult("opening")
        return _running("it is thinking") if seen.live else _asking(seen, turn, around.life)
    open_calls = [turn.standing(call) for call in turn.calls if call.address not in turn.results]
    objects = [seen.calls[call.address] for call in open_calls if call.address in seen.calls]
    if any(each.state == CallState.PROPOSED for each in objects):
        return Consult("reply") if seen.hooks and around.unasked("reply") else Authorise()
    if answered := tuple(each for each in objects if is_answered(seen, each)):
        return Answer(answered)
    ended = tuple(each for each in objects if _has_ended(seen, each))
    if ended:
        return Collect(ended)
    if not open_calls:
        return _ending(seen, around) if seen.hooks else End()
    return _resolving(objects, around.resolved) or _running_calls(seen, open_calls, objects, around.is_parallel)


def _is_thinking(seen: Observed) -> bool:
    """Whether the mind is being asked, and not one of its hooks."""
    return any(key.startswith(f"{MIND}:") for key in seen.live)


def _ending(seen: Observed, around: Surroundings) -> Step:
    """The turn ends when its hooks have been heard; with somebody at the door nobody has to be kept from sleeping."""
    for moment in ("reply", "results"):
        if around.unasked(moment):
            return Consult(moment)
    if seen.interrupts:
        return Cancel(tuple(sorted(seen.live))) if seen.live else End()
    return Consult("closing") if around.unasked("closing") else End()


def _asking(seen: Observed, turn: OpenTurn, life: str) -> Step:
    """The mind is asked, unless it failed and is not to be asked again yet."""
    if seen.is_moving:
        return _moving(seen)
    if turn.failure is None:
        return Ask()
    why = attempts.words_of(seen, turn.failure)
    match attempts.cure_of(seen, turn.failure, life):
        case "ask":
            return Ask()
        case "wait":
            after_s = max(0.0, (turn.failure.retry_at or 0.0) - seen.now)
            again = f"{why}; asked again {attempts.pause_words(turn.failure)}"
            if not attempts.is_long(turn.failure):
                return Rest(AgentState.RUNNING, again, after_s=after_s, is_wait=True)
            ways = attempts.unblocks_of(seen, turn.failure)
            return Rest(AgentState.BLOCKED, again, "NoModel", ways, after_s=after_s, is_wait=True)
        case "blocked":
            if seen.unread:
                return Interrupt()
            ways = attempts.unblocks_of(seen, turn.failure)
            return Rest(AgentState.BLOCKED, why, NO_MODEL, ways, is_wait=True)


def _resolving(objects: list[Resource], resolved: Resolved) -> Step | None:
    """The first waiting call that is over or a step further."""
    for each in objects:
        if waiting.is_waiting(each) and (ending := resolved(each)) is not None:
            return Resolve(each, ending)
    return None


def _running_calls(
    seen: Observed, open_calls: list[TurnCall], objects: list[Resource], is_parallel: IsParallel
) -> Step:
    startable = _startable(seen, open_calls, is_parallel)
    if startable:
        return _moving(seen) if seen.is_moving else Run(startable)
    return _waiting(seen, objects)


def asking(seen: Observed, waits: Waits) -> Rest:
    """How an agent rests whose hooks are asked: the time of programs is its own, that of agents is theirs."""
    after_s = None if waits.due_at is None else max(0.0, waits.due_at - seen.now)
    return Rest(AgentState.RUNNING, waits.why, after_s=after_s, is_wait=not waits.is_thinking)


def too_long(seen: Observed) -> Rest | None:
    """How an agent rests whose model finds the prompt too long though nothing of it can be made shorter."""
    failure = None if seen.status.open is None else seen.status.open.failure
    if failure is None:
        return None
    ways = attempts.unblocks_of(seen, failure)
    return Rest(AgentState.BLOCKED, attempts.words_of(seen, failure), NO_MODEL, ways, is_wait=True)


def _is_stopped(seen: Observed, turn: OpenTurn) -> bool:
    """Whether the step in flight is to be given up: for an interrupting message, or for news while calls only wait.

    That of an outside agent is, too, when its client is gone or takes it back; what it said first becomes a reply.
    """
    if seen.interrupts or (turn.is_replied and seating.is_given_up(seen)):
        return True
    if not turn.is_replied and seen.nature.is_redirected:
        return is_redirected(seen)
    is_wait = not seen.live and bool(waiting.of_turn(seen, turn.calls))
    return is_wait and (is_redirected(seen) or any(each.delivery == "steer" for each in seen.unread))


def _interrupted(seen: Observed, turn: OpenTurn) -> Step | None:
    """What an interrupting message stops; None when nothing of the step is left but to end it."""
    if turn.is_replied and all(call.address in turn.results for call in turn.calls):
        return None
    if seen.live:
        return Cancel(tuple(sorted(seen.live)))
    left = (seen.calls.get(call.address) for call in turn.calls if call.address not in turn.results)
    is_open = any(call is not None and call.state != CallState.UNKNOWN for call in left)
    return Interrupt() if is_open or not turn.is_replied else None


def is_answered(seen: Observed, call: Resource) -> bool:
    """Whether a call that waits for approval has its answer; one whose approval is gone has it too: no."""
    if call.state != CallState.AWAITING_APPROVAL:
        return False
    approval = seen.approvals.get(str(call.status.get("approval")))
    return approval is None or approval.state != WAITING


def _has_ended(seen: Observed, call: Resource) -> bool:
    return call.state in FINAL or (call.state == CallState.UNKNOWN and seen.nature.judges_doubt)


def job_key(call: str) -> str:
    """The key of the job that runs the call object at `call`."""
    return call


def _startable(seen: Observed, open_calls: list[TurnCall], is_parallel: IsParallel) -> tuple[Resource, ...]:
    """Authorised calls whose turn it is: a call that may not run beside others waits for all before it."""
    found: list[Resource] = []
    is_first = True
    for call in open_calls:
        alongside = is_parallel(call)
        if not alongside and not is_first:
            break
        each = seen.calls.get(call.address)
        if each is not None and _is_to_start(seen, each):
            found.append(each)
        if not alongside:
            break
        is_first = False
    return tuple(found)


def _is_to_start(seen: Observed, call: Resource) -> bool:
    # Started without a job: an earlier owner began it, and its process is there to be adopted.
    return call.state in (CallState.AUTHORIZED, CallState.STARTED) and job_key(call.address) not in seen.live


def _waiting(seen: Observed, objects: list[Resource]) -> Step:
    doubtful = [each.address for each in objects if each.state == CallState.UNKNOWN]
    if doubtful:
        ways = tuple(f"plan approve {address} {word}" for address in doubtful for word in ("--happened", "--did-not"))
        return Rest(AgentState.BLOCKED, f"{doubtful[0]} may or may not have happened", "InDoubt", ways)
    asking = [each for each in objects if each.state == CallState.AWAITING_APPROVAL]
    if asking and not seen.live:
        names = [str(each.status.get("approval", each.address)) for each in asking]
        return Rest(
            AgentState.BLOCKED,
            f"{asking[0].spec['tool']} needs somebody's yes",
            "AwaitingApproval",
            tuple(f"plan approve {name}" for name in names),
            is_wait=True,
        )
    only = [each for each in objects if waiting.is_waiting(each)]
    if only and not seen.live:
        wait = waiting.rest_of(only)
        after_s = None if wait.due_at is None else max(0.0, wait.due_at - seen.now)
        return Rest(wait.state, wait.why, wait.condition, wait.unblocks, after_s, is_wait=True)
    return _running("its calls run")


def _running(why: str) -> Rest:
    return Rest(AgentState.RUNNING, why)


def _between(seen: Observed) -> Step:
    """No turn is open: start one if there is a reason and the budget allows, else rest."""
    if why := seating.vacated(seen):
        return Vacate(why)
    found = news(seen)
    claim = seen.status.claim
    if claim is not None and not found.reopens:
        return Rest(AgentState.CLAIMED, f"it says {claim.kind}; its task decides")
    if why := escalation.due(seen):
        return Escalate(why)
    if not found.reasons:
        return _asleep(seen)
    return _start(seen, found)


def _start(seen: Observed, found: News) -> Step:
    """A turn, if the budget allows one."""
    if (seen.is_to_move or seen.is_moving) and not seen.is_watcher:
        return _moving(seen)
    standing = budget.standing(
        seen.task, seen.left, seen.caps, can_think=seen.hands_over, had_last=seen.status.had_last
    )
    if standing == "spent":
        return parked(seen, budget.spent_out(seen.left))
    return _without_servers(seen) or Start(found, is_last=standing == "last")


def _moving(seen: Observed) -> Rest:
    fork = "its fork" if seen.fork is None else seen.fork.address
    return Rest(AgentState.BLOCKED, f"waits for {fork}", AWAITING_FORK, (f"plan describe {fork}",), is_wait=True)


def parked(seen: Observed, spent: tuple[str, ...], short: budget.Spent | None = None) -> Rest:
    """Until the budget of these units grows. `short`: something is left, but less than the next request may take."""
    lacking = {} if short is None else short.asked
    found = [bounds.binding(seen, unit, lacking.get(unit)) for unit in spent]
    words = "; ".join(bound.words for bound, _ in found)
    unit = next((unit for unit in spent if short is not None and short.left.get(unit, 0) > 0), None)
    if short is not None and unit is not None:
        bound = found[spent.index(unit)][0]
        of = "dollars" if unit == "usd" else named(unit)
        left, asked = f"{short.left[unit]:f} {of}", f"{short.asked[unit]:f}"
        of_bound = f"{shown(unit, bound.amount)} ({', '.join(bound.lines)})"
        words = f"too little of {bound.holder} is left: {left} of {of_bound}, and the next request may take {asked}"
    return Rest(AgentState.PARKED, words, "BudgetSpent", tuple(dict.fromkeys(way for _, way in found)))


def _without_servers(seen: Observed) -> Rest | None:
    """Before its first words an agent waits to know what its servers offer, for it is told of that once."""
    starting = [each.address for each in seen.servers if not each.deleting and not is_settled(each.status)]
    if starting:
        ways = tuple(f"plan describe {address}" for address in starting)
        return Rest(AgentState.BLOCKED, f"waits for {', '.join(starting)} to start", "AwaitingServer", ways)
    return next(
        (_without_prompt(seen, name) for name in seen.spec.served_prompts if not prompt_of(seen, name).text), None
    )


def _without_prompt(seen: Observed, name: str) -> Rest:
    """It does not begin without the instructions that the plan gives it."""
    address, fault = f"mcp/{name.partition('/')[0]}", prompt_of(seen, name).fault
    why = f"its prompt `{name}` is not to be had: {fault}" if fault else f"waits for its prompt `{name}`"
    return Rest(AgentState.BLOCKED, why, "AwaitingServer", (f"plan describe {address}",))


def _asleep(seen: Observed) -> Rest:
    if seen.nature.is_guest:
        return seating.waiting(seen)
    live = [child.address for child in seen.children if child.is_live]
    due = next_due(seen)
    after_s = None if due is None else max(0.0, due - seen.now)
    if not live and seen.status.wake_at is None and (rest := approving.awaited(seen)) is not None:
        return rest
    if seen.status.wake_at is not None:
        return Rest(AgentState.ASLEEP, "sleeps until its timer is due", after_s=after_s)
    if live:
        return Rest(
            AgentState.ASLEEP, f"waits for {', '.join(live[:3])}{' …' if len(live) > 3 else ''}", after_s=after_s
        )
    return Rest(AgentState.ASLEEP, "waits for a message", after_s=after_s)


def next_due(seen: Observed) -> float | None:
    """When the next timer or watchdog of a sleeping agent is due, seconds since 1970; None when it has none."""
    status = seen.status
    dues = [] if status.wake_at is None else [status.wake_at]
    every = seen.spec.wake_every_s
    if every is not None and status.ended_at is not None and any(child.is_live for child in seen.children):
        dues.append(status.ended_at + every)
    return min(dues) if dues else None
