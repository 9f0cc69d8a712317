"""The state machine of a task: start, work, claims, its fork, its acceptance checks, and what reopens it. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, assert_never

from planloop.controllers.shared.leases.grants import AWAITING
from planloop.controllers.shared.workspace import WorkspaceFault
from planloop.controllers.task import budgets, container_needs, finish, observe, step
from planloop.controllers.task.counters import AWAITING_SLOT
from planloop.controllers.task.observe import ObservedTask
from planloop.controllers.task.status import CheckRound, TaskStage, TaskStanding, read_task_progress, task_standing
from planloop.controllers.task.step import TaskExplanation, TaskStep, TryJob, observed_after
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.log.record import Drop
from planloop.schemas.objects.agent import FOR_OTHERS, STUCK, AgentState
from planloop.schemas.objects.call import CallState, EffectClass
from planloop.schemas.objects.fork import (
    AWAITING_FORK,
    FORK_FAILED,
    IN_USE,
    MERGE_CONFLICT,
    MOVING,
    ForkState,
    ForkStatus,
    fork_request,
    fork_status_from_json,
)
from planloop.schemas.objects.lock import describe_cycle
from planloop.schemas.objects.sandbox import NO_SANDBOX, TRYING_SANDBOX, sandbox_request, sandbox_status_merge
from planloop.schemas.objects.task import AgentWork, CheckSpec, GroupWork, RunWork, TaskState
from planloop.schemas.resource import Resource, condition_from_json, conditions_of_status

# Tasks that have ended, and what makes them begin again: edits, checks that no longer hold, more retries.

AFRESH_MERGE: JsonObject = {"stage": "", "attempt": 1, "not_before": None, "round_for": None, "call": None, "go": None}
"""What is written when a task is to begin again from nothing."""


_PLAIN = {TaskState.FAILED: "Failed", TaskState.WAITING: "Retrying"}


def begin_afresh(observed: ObservedTask) -> TaskStep:
    """A new incarnation with all its retries; nothing of the task is in motion."""
    afresh = {**AFRESH_MERGE, "basis": None, "skipped": None, "result": None}
    return start_task(observed_after(observed, afresh)).on_top_of(afresh)


def keep_done(observed: ObservedTask) -> TaskStep:
    """Done, and watched: new children, edited checks, and for `heal` the checks at their interval."""
    progress = observed.progress
    if progress.round.why is not None:
        return advance_checks(observed)
    unfinished = None if progress.is_skipped else finish.children_not_done(observed)
    if unfinished is not None:
        if isinstance(observed.spec.work, GroupWork):
            return finish_own_work(observed)
        return TaskStep(unfinished)
    if (bringing := bring_fork_in(observed)) is not None:
        return bringing  # Tasks below were done once more, in a fork of their time.
    if are_checks_edited(observed):
        return begin_check_round(observed, "edit")
    return _heal(observed)


def keep_failed(observed: ObservedTask) -> TaskStep:
    """Failed, until retries are raised, its checks are edited, or (for a group) its children or containers change."""
    progress = observed.progress
    if progress.round.why is not None:
        return advance_checks(observed)
    says = stored_explanation(observed)
    if isinstance(observed.spec.work, GroupWork) and finish.children_not_done(observed) is not None:
        return finish_own_work(observed)
    if container_needs.has_recovered(observed):
        return begin_afresh(observed)
    if finish.may_retry(observed):
        return finish.failed_step(observed, says.reason, says.message)
    if are_checks_edited(observed) and (progress.result or {}).get("ok"):
        return begin_check_round(observed, "edit")
    # Nothing of a group is to be done again: it heals when what its checks look at does.
    return _heal(observed) if isinstance(observed.spec.work, GroupWork) else TaskStep(says)


def stored_explanation(observed: ObservedTask) -> TaskExplanation:
    """What was written about an ended task when it ended."""
    is_failed = observed.progress.stage is TaskStage.FAILED
    return stored_explanation_as(observed, TaskState.FAILED if is_failed else TaskState.DONE)


def stored_explanation_as(observed: ObservedTask, state: TaskState) -> TaskExplanation:
    """`state` with the words that were written with it, if it is the one that was."""
    raw = observed.me.status.get("conditions", {}).get("Ready")
    if raw is None or observed.progress.state is not state:
        return TaskExplanation(state, _PLAIN.get(state, "Done"))
    ready = condition_from_json("Ready", raw)
    return TaskExplanation(state, ready.reason, ready.message, ready.unblocks)


def _heal(observed: ObservedTask) -> TaskStep:
    says = stored_explanation(observed)
    if not (observed.spec.heal and observed.spec.acceptance):
        return TaskStep(says)
    due_s = _next_heal_at(observed) - observed.now
    return begin_check_round(observed, "heal") if due_s <= 0 else TaskStep(says, again_s=due_s)


def _next_heal_at(observed: ObservedTask) -> float:
    checks = observed.progress.round.results or {}
    last = max((result["at"] for result in checks.values()), default=0.0)
    return float(last + observed.spec.heal_every_s)


# Rounds of acceptance checks. A result is fresh when it is of this round and of the check as now written.
#
# A round is begun by a write, so that after a crash the missing results, and only they, are run again.


def begin_check_round(observed: ObservedTask, why: CheckRound) -> TaskStep:
    """Starts all checks. Results of checks that are no longer written go."""
    kept = observed.digests
    gone = {key: None for key in observed.progress.round.results or () if key not in kept}
    merge: JsonObject = {"round": observed.progress.round.number + 1, "round_for": why}
    if why == "work":
        merge["stage"] = "verify"
    if gone:
        merge["checks"] = gone
    return advance_checks(observed_after(observed, merge)).on_top_of(merge)


def advance_checks(observed: ObservedTask) -> TaskStep:
    """Starts the checks that have no fresh result, or answers when all have one."""
    missing = [check for check in observed.spec.acceptance if not is_result_fresh(observed, check)]
    if not missing:
        return _answer(observed)
    wanted = [step.check_job(observed, check, observed.progress.round.number) for check in missing]
    asked = {job.key for job in wanted}
    stale = tuple(sorted(key for key in observed.motion.jobs if observe.is_check_key(key) and key not in asked))
    return TaskStep(
        _checking(observed), start=tuple(job for job in wanted if job.key not in observed.motion.jobs), cancel=stale
    )


def is_result_fresh(observed: ObservedTask, check: CheckSpec) -> bool:
    """Whether the result of `check` is of this round and of its present wording."""
    result = (observed.progress.round.results or {}).get(check.key)
    return (
        result is not None
        and result["round"] == observed.progress.round.number
        and result["digest"] == observed.digests[check.key]
    )


def are_checks_edited(observed: ObservedTask) -> bool:
    """Whether a check was added or reworded since it last ran."""
    checks = observed.progress.round.results or {}
    return any(checks.get(key, {}).get("digest") != digest for key, digest in observed.digests.items())


def failing_checks(observed: ObservedTask) -> list[CheckSpec]:
    """The checks whose result is not a pass."""
    checks = observed.progress.round.results or {}
    return [check for check in observed.spec.acceptance if checks.get(check.key, {}).get("result") != "pass"]


def failure_summary(observed: ObservedTask) -> str:
    """The first check that does not hold, and how many more."""
    bad = failing_checks(observed)
    result = (observed.progress.round.results or {}).get(bad[0].key, {})
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    return f"{bad[0].kind}: {result.get('message', '')}{more}"


def _checking(observed: ObservedTask) -> TaskExplanation:
    if observed.progress.round.why == "heal":
        return stored_explanation(observed)
    return TaskExplanation(TaskState.CHECKING, "Checking", "its acceptance checks run")


def _answer(observed: ObservedTask) -> TaskStep:
    holds = not failing_checks(observed)
    match observed.progress.round.why:
        case "before":
            if not holds:
                return begin_work(observed)
            return bring_fork_in(observed) or finish.done_step(observed, is_skipped=True)
        case "work":
            return _accept(observed) if holds else _reject(observed)
        case _:
            if holds:
                return _accept(observed) if observed.progress.stage is not TaskStage.DONE else _still_done(observed)
            return _no_longer(observed)


def _accept(observed: ObservedTask) -> TaskStep:
    if (bringing := bring_fork_in(observed)) is not None:
        return bringing
    step = finish.done_step(observed)
    if not isinstance(observed.spec.work, AgentWork):
        return step
    return step.on_top_of({"verdict": claim_verdict(observed, accepted=True, message="accepted")})


def _still_done(observed: ObservedTask) -> TaskStep:
    merge: JsonObject = {"round_for": None}
    return keep_done(observed_after(observed, merge)).on_top_of(merge)


def _no_longer(observed: ObservedTask) -> TaskStep:
    # A failed task whose edited checks still fail stays failed: its command is not run again for that.
    if observed.progress.stage is TaskStage.FAILED or isinstance(observed.spec.work, GroupWork):
        says = TaskExplanation(
            TaskState.FAILED, "ChecksFailing", failure_summary(observed), ("edit the task, or mend what fails",)
        )
        return TaskStep(says, merge={"stage": "failed", "round_for": None})
    return begin_afresh(observed)


def _reject(observed: ObservedTask) -> TaskStep:
    message = failure_summary(observed)
    if not isinstance(observed.spec.work, AgentWork):
        return finish.failed_step(observed, "ChecksFailing", message)
    refused = claim_verdict(observed, accepted=False, message=message)
    if words := last_claim_reason(observed):
        reason = STUCK if stuck_reason(observed) else "ChecksFailing"
        return finish.failed_step(observed, reason, f"{message}; {words}").on_top_of({"verdict": refused})
    merge: JsonObject = {"stage": "work", "round_for": None, "verdict": refused}
    return advance_work(observed_after(observed, merge)).on_top_of(merge)


def last_claim_reason(observed: ObservedTask) -> str:
    """Why no other claim is waited for when the one at hand is rejected; empty while it is not the last."""
    if words := stuck_reason(observed):
        return words
    is_last = observed.progress.claims.rejections + 1 >= limits.CLAIMS_REJECTED_MAX
    return f"its agent claimed {limits.CLAIMS_REJECTED_MAX} times to be done and was not" if is_last else ""


def stuck_reason(observed: ObservedTask) -> str:
    """What the claim at hand repeats, if the agent has nothing else to try; empty for any other."""
    claim = (observed.motion.agent.status.get("claim") or {}) if observed.motion.agent is not None else {}
    return str(claim.get("stuck") or "")


def claim_verdict(observed: ObservedTask, *, accepted: bool, message: str) -> JsonObject:
    """The answer to the agent's newest claim."""
    claim = (observed.motion.agent.status.get("claim") or {}) if observed.motion.agent is not None else {}
    count: JsonObject = {} if accepted else {"rejections": observed.progress.claims.rejections + 1}
    return count | {
        "claim": claim.get("seq", 0),
        "incarnation": observed.progress.incarnation,
        "accepted": accepted,
        "message": message,
        "failing": [] if accepted else [check.key for check in failing_checks(observed)],
    }


# A task and the fork that it works in: asked for before it starts, brought in before it is done.
#
# The task says what it wants of the fork in its own status and reads the answer in the fork's; how a fork is made and
# merged is its controller's. A task below the one that has the fork only waits for it to be there.

_UNMARKED: Final = (
    "A file without marks (binary, UTF-16, or removed on one side) has your version, and `git show MERGE_HEAD:./FILE` "
    "prints the other"
)
FORK_WANTED: JsonObject = {"fork": {"wants": "made"}}
"""What a task writes that cannot go on before its fork is there."""


def fork_obstacle(observed: ObservedTask) -> TaskExplanation | None:
    """What the task says while its fork is not ready to be worked in; None when it is, or when it has none."""
    if not observed.spec.fork:
        return None
    status = _fork_state(observed)
    if status.state in IN_USE and status.state not in MOVING:
        return None
    return _fork_failed(status) or TaskExplanation(
        TaskState.WAITING, AWAITING_FORK, f"{observed.spec.fork} is made first"
    )


def hold_for_fork(observed: ObservedTask) -> TaskStep | None:
    """Keeps an agent at work that was given a fork from its next turn until the fork is there; None when it is."""
    if not observed.spec.fork or not isinstance(observed.spec.work, AgentWork):
        return None
    status = _fork_state(observed)
    if status.state in IN_USE or newest_claim(observed) is not None:
        return None
    words = f"its agent ends its turn and goes on in {observed.spec.fork}"
    return TaskStep(_fork_failed(status) or TaskExplanation(TaskState.RUNNING, AWAITING_FORK, words), FORK_WANTED)


def clear_fork_wish(observed: ObservedTask, step: TaskStep) -> TaskStep:
    """`step`, which no longer asks for a fork that is there."""
    return step.on_top_of({"fork": {"wants": None}}) if fork_request(observed.me.status).wish == "made" else step


def bring_fork_in(observed: ObservedTask) -> TaskStep | None:
    """What is to happen before the task is done: its fork is brought in. None: all of it is, or it has none."""
    if observed.workspace.fork is None or observed.workspace.fork.spec["task"] != observed.address:
        return None
    status, asked = _fork_state(observed), fork_request(observed.me.status)
    if status.state in (ForkState.NONE, ForkState.IN, ForkState.KEPT):
        return None
    says = _fork_failed(status) or TaskExplanation(
        TaskState.CHECKING, "BringingIn", f"what was done in {observed.spec.fork} is merged"
    )
    if asked.wish == "in" and asked.bring > status.answered:
        return TaskStep(says)
    if status.state is ForkState.CONFLICT and asked.told < status.answered:
        return _conflict(observed, status)
    if status.state is ForkState.READY and asked.wish == "in" and asked.told < status.answered:
        return _check_again(observed, status)
    if status.state in MOVING:
        return TaskStep(says)
    return TaskStep(says, {"fork": {"wants": "in", "bring": status.answered + 1}})


def _check_again(observed: ObservedTask, status: ForkStatus) -> TaskStep:
    """What others did meanwhile was merged in, and the checks have not seen that yet."""
    merge: JsonObject = {"fork": {"wants": None, "told": status.answered}}
    return begin_check_round(observed_after(observed, merge), observed.progress.round.why or "work").on_top_of(merge)


def _conflict(observed: ObservedTask, status: ForkStatus) -> TaskStep:
    """The merge stands open in the fork: its agent is told to mend it, or a person is."""
    words = _in_conflict(status)
    if not isinstance(observed.spec.work, AgentWork):
        cure = (f"mend the files in {status.folder}, no mark left; what has none: git add it",)
        return TaskStep(TaskExplanation(TaskState.BLOCKED, MERGE_CONFLICT, words, cure))
    words = (
        f"{words}: mend them where they are marked `<<<<<<<` and `>>>>>>>`. {_UNMARKED}; then say again that it is done"
    )
    refused = claim_verdict(observed, accepted=False, message=words)
    told: JsonObject = {"fork": {"wants": None, "told": status.answered}, "verdict": refused}
    if hopeless := last_claim_reason(observed):
        return finish.failed_step(observed, MERGE_CONFLICT, f"{words}; {hopeless}").on_top_of(told)
    merge: JsonObject = {**told, "stage": "work", "round_for": None}
    return advance_work(observed_after(observed, merge)).on_top_of(merge)


def fork_conflict(observed: ObservedTask) -> str:
    """What of the task's own fork does not merge and is not mended; empty when all of it does."""
    if observed.workspace.fork is None or observed.workspace.fork.spec["task"] != observed.address:
        return ""
    status = _fork_state(observed)
    return _in_conflict(status) if status.state is ForkState.CONFLICT else ""


def _in_conflict(status: ForkStatus) -> str:
    shown = [path.removeprefix(status.prefix) for path in status.files[: limits.FORK_FILES_SHOWN]]
    more = len(status.files) - len(shown)
    files = ", ".join(shown) + (f" and {more} more" if more else "")
    verb = "was" if len(status.files) == 1 else "were"
    return f"{files} {verb} changed by others meanwhile and did not merge into {status.branch}"


def _fork_failed(status: ForkStatus) -> TaskExplanation | None:
    if not status.fault:
        return None
    cure = ("mend what git says; it is tried again by itself",)
    return TaskExplanation(TaskState.BLOCKED, FORK_FAILED, f"its fork: {status.fault}", cure)


def _fork_state(observed: ObservedTask) -> ForkStatus:
    return (
        fork_status_from_json(observed.workspace.fork.status) if observed.workspace.fork is not None else ForkStatus()
    )


# The agent's side of a task: it goes until it claims an end, and each claim is answered once.
#
# A claim names the incarnation it is about; one of an older incarnation is not seen (law 7).


def advance_agent(observed: ObservedTask) -> TaskStep:
    """Lets the agent go, or answers what it claims."""
    # The digests follow the plan while the agent works: it is told of a new goal, and what it then ends is that goal.
    merge: JsonObject = {"go": observed.progress.incarnation, "basis": observed.basis}
    claim = newest_claim(observed)
    if claim is None:
        return TaskStep(_at_work(observed), merge=merge)
    if claim["kind"] == "fail":
        reason = str(_said(claim) or "the agent gave up")
        refused = claim_verdict(observed, accepted=False, message=reason)
        word = STUCK if claim.get("stuck") else "AgentFailed"
        return finish.failed_step(observed, word, reason).on_top_of({"verdict": refused})
    merge["result"] = {"ok": True, "text": _said(claim)}
    says = finish.children_not_done(observed)
    if says is not None and says.state is TaskState.FAILED:
        merge["verdict"] = claim_verdict(observed, accepted=False, message=says.message)
        if hopeless := last_claim_reason(observed):
            word = STUCK if stuck_reason(observed) else "AgentFailed"
            return finish.failed_step(observed, word, f"{says.message}; {hopeless}").on_top_of(merge)
        return TaskStep(_at_work(observed), merge=merge)
    if observed.spec.acceptance or says is not None:
        return finish_own_work(observed_after(observed, merge)).on_top_of(merge)
    if (bringing := bring_fork_in(observed_after(observed, merge))) is not None:
        return bringing.on_top_of(merge)
    merge["verdict"] = claim_verdict(observed, accepted=True, message="accepted")
    return finish.done_step(observed_after(observed, merge)).on_top_of(merge)


def newest_claim(observed: ObservedTask) -> JsonObject | None:
    """What the agent claims of this incarnation and has no answer to yet."""
    claim: JsonObject | None = observed.motion.agent.status.get("claim") if observed.motion.agent is not None else None
    if not claim or claim.get("incarnation") != observed.progress.incarnation:
        return None
    return claim if claim["seq"] > observed.progress.claims.judged else None


def _said(claim: JsonObject) -> Json:
    # Agents keep free values in a list of one, where a merge cannot look into them.
    said = claim.get("result")
    return said[0] if isinstance(said, list) and said else said


def _at_work(observed: ObservedTask) -> TaskExplanation:
    """It works, unless its agent waits for what only somebody else can do: then the task says what that is."""
    agent = observed.motion.agent
    if agent is None or agent.state not in (AgentState.PARKED, AgentState.BLOCKED):
        return TaskExplanation(TaskState.RUNNING, "Running", _works(observed))
    found = [one for type_, one in conditions_of_status(agent.status).items() if type_ in FOR_OTHERS]
    if found:
        return TaskExplanation(
            TaskState.BLOCKED, found[0].reason, f"{agent.address}: {found[0].message}", found[0].unblocks
        )
    waits = conditions_of_status(agent.status).get(CallState.AWAITING_LOCK)
    if waits is not None:  # For its like, which let go by themselves: nobody else has to do anything.
        return TaskExplanation(TaskState.RUNNING, waits.reason, f"{agent.address}: {waits.message}", waits.unblocks)
    if agent.state == AgentState.PARKED:
        return TaskExplanation(TaskState.BLOCKED, "BudgetSpent", f"{agent.address} has used up its budget")
    return TaskExplanation(TaskState.RUNNING, "Running", _works(observed))


def _works(observed: ObservedTask) -> str:
    """That it works, and on what after a claim that its checks did not bear out."""
    if conflict := fork_conflict(observed):
        return f"its agent mends what did not merge: {conflict}"
    verdict = observed.me.status.get("verdict") or {}
    is_of_now = verdict.get("incarnation") == observed.progress.incarnation
    if is_of_now and not verdict.get("accepted") and verdict.get("failing"):
        return f"its agent works on what failed: {verdict['message']}"
    return "its agent works"


# The task while its work is under way: a group, a command, or an agent that goes until it claims an end.


def advance_work(observed: ObservedTask) -> TaskStep:
    """One step further with the work of the current incarnation."""
    match observed.spec.work:
        case GroupWork():
            return finish_own_work(observed)
        case RunWork():
            return _command(observed)
        case AgentWork():
            return advance_agent(observed)
        case _:
            assert_never(observed.spec.work)


def finish_own_work(observed: ObservedTask) -> TaskStep:
    """The task's own work is done: its children, then its checks, then it."""
    says = finish.children_not_done(observed)
    if says is not None:
        return TaskStep(says, merge={"stage": "work", "round_for": None})
    if (step := container_needs.container_run_step(observed)) is not None:
        return step
    if observed.spec.acceptance:
        return begin_check_round(observed, "work")
    return bring_fork_in(observed) or finish.done_step(observed)


def _command(observed: ObservedTask) -> TaskStep:
    progress = observed.progress
    if progress.result is not None:
        return _ended(observed, progress.result)
    call = observed.motion.call
    state = CallState(call.state) if call is not None and call.state else CallState.AUTHORIZED
    match state:
        case CallState.STARTED:
            return _running(observed)
        case CallState.UNKNOWN:
            return TaskStep(explain_unknown_outcome(observed))
        case CallState.SUCCEEDED:
            return _ended(observed, finish.result_json(ok=True, text="a person says that it happened"))
        case CallState.FAILED | CallState.CANCELLED | CallState.DENIED:
            words = "the call was settled as failed"
            return _ended(observed, finish.result_json(ok=False, reason="CommandFailed", text=words))
        case _:
            # It never began, or may begin again: the same incarnation under a new operation.
            if isinstance(observed.workspace.folder, WorkspaceFault):
                return _without_call(observed, finish.workspace_failed_step(observed, observed.workspace.folder))
            return step.queue_command(observed, TaskStep(explain_queued(observed)), progress.incarnation)


def _running(observed: ObservedTask) -> TaskStep:
    says = TaskExplanation(TaskState.RUNNING, "Running", "its command runs")
    if any(observe.is_run_key(key) for key in observed.motion.jobs):
        return TaskStep(says)
    return TaskStep(says, start=(step.run_job(observed, observed.progress.incarnation, is_adoption=True),))


def _ended(observed: ObservedTask, result: JsonObject) -> TaskStep:
    ended = observed_after(observed, {"call": None, "result": result})
    step = finish_own_work(ended) if result["ok"] else finish.failed_step(ended, result["reason"], result["text"])
    return _without_call(observed, step.on_top_of({"result": result}))


def _without_call(observed: ObservedTask, step: TaskStep) -> TaskStep:
    """`step` with the call of the incarnation that it ends gone."""
    dropped = (
        (Drop(observed.motion.call.address, observed.motion.call.uid),) if observed.motion.call is not None else ()
    )
    return replace(step.on_top_of({"call": None}), changes=(*step.changes, *dropped))


def explain_unknown_outcome(observed: ObservedTask) -> TaskExplanation:
    """Nobody saw how the command ended, and it may not be run twice."""
    call = observed.motion.call.address if observed.motion.call is not None else "the call"
    command = observed.spec.work
    shown = (command.shell or " ".join(command.argv)) if isinstance(command, RunWork) else ""
    says = f"nobody saw how `{shown}` ended, and with `effect: {EffectClass.ONCE}` it is not run again"
    return TaskExplanation(
        TaskState.BLOCKED, "InDoubt", says, (f"plan approve {call} --happened", f"plan approve {call} --did-not")
    )


# From not begun to begun: what must hold before a task may start, in the order in which it is told.
#
# A parent that has started, needs, budget, the pause before a retry, what is left of an earlier incarnation, a slot
# where the plan bounds how many tasks are at work, its fork, which is made of what its needs have left, its containers,
# which may mount the fork, its sandbox, which may be in one of them, and locks last: a task asks for them when nothing
# else is in its way, so that none is held by a task that waits.

SANDBOX_RETRY = f"it is tried again within {limits.SANDBOX_RETRY_CAP_S:g} s, and the task goes on when that helped"
_OPEN_PARENT = (TaskStage.WORK, TaskStage.VERIFY, TaskStage.DONE)


def start_task(observed: ObservedTask) -> TaskStep:
    """Begins the task, or says what it waits for."""
    says = start_obstacle(observed)
    if says is not None:
        return _waiting(observed, says)
    if (astray := _astray(observed)) is not None:
        return _led_out(observed, astray)
    if observed.spec.when == "before" and observed.spec.acceptance:
        merge: JsonObject = {"stage": "before", "basis": observed.basis, "checks": dict.fromkeys(_old_checks(observed))}
        return begin_check_round(observed_after(observed, merge), "before").on_top_of(merge)
    return begin_work(observed)


def _waiting(observed: ObservedTask, says: TaskExplanation) -> TaskStep:
    wait_s = observed.progress.times.not_before - observed.now
    again_s = wait_s if wait_s > 0 else None
    if says.reason in (TRYING_SANDBOX, NO_SANDBOX) and observed.workspace.encloser is not None:
        return _trying(observed, says, observed.workspace.encloser)
    if says.reason in (AWAITING_FORK, FORK_FAILED):
        return TaskStep(says, FORK_WANTED, again_s=again_s)
    if says.reason == AWAITING and observed.start.lock is not None:
        return TaskStep(
            says,
            changes=observed.start.lock.wish,
            type="lock.requested" if observed.start.lock.wish else "task.changed",
        )
    if says.reason not in (budgets.NO_BUDGET_LEFT, "BudgetSpent"):
        return TaskStep(says, again_s=again_s)
    notes = budgets.request_budget(observed)
    return TaskStep(says, notes.merge, notes.changes, again_s=again_s)


def _trying(observed: ObservedTask, says: TaskExplanation, encloser: Resource) -> TaskStep:
    """Its sandbox is tried, or will be: a person may put there what is missing while the plan runs."""
    answer = observed.workspace.sandbox
    if answer is not None and not answer.is_due(observed.now):
        return TaskStep(says, again_s=None if answer.again_at is None else answer.again_at - observed.now)
    job = TryJob(observe.try_job_key(observed.me.uid), sandbox_request(encloser.spec.get("sandbox")))
    return TaskStep(says, start=() if job.key in observed.motion.jobs else (job,))


def start_obstacle(observed: ObservedTask) -> TaskExplanation | None:
    """The first thing in the way, None when the task may start."""
    before = (_parent, _needs, _budget, _retry, _leftover, _slot, fork_obstacle, _no_sandbox)
    for look in (*before, container_needs.container_obstacle, _untried_sandbox, _locks):
        says = look(observed)
        if says is not None:
            return says
    return None


def begin_work(observed: ObservedTask) -> TaskStep:
    """Opens a group, lets the agent go, or queues the command; a queued command has not begun."""
    spec, incarnation = observed.spec, observed.progress.incarnation + 1
    says = budgets.missing_budget(observed)
    if says is not None:
        return _waiting(observed, says)
    if (astray := _astray(observed)) is not None:
        return _led_out(observed, astray)
    if isinstance(spec.work, RunWork):
        return step.queue_command(observed, TaskStep(explain_queued(observed)), incarnation)
    merge = begin_merge(observed, incarnation)
    if isinstance(spec.work, AgentWork):
        merge |= {"go": incarnation, "verdict": None}
    grants = budgets.grant_budget(observed)
    merge |= grants.merge
    return advance_work(observed_after(grants.then, merge)).on_top_of(merge).first(grants.changes)


def _astray(observed: ObservedTask) -> WorkspaceFault | None:
    """What keeps a task that does something itself from its folder: looked at last, for its needs may have made it."""
    if isinstance(observed.spec.work, GroupWork):
        return None
    ground = observed.workspace.folder
    return ground if isinstance(ground, WorkspaceFault) else None


def _led_out(observed: ObservedTask, astray: WorkspaceFault) -> TaskStep:
    """The task ends before anything of it begins, as an incarnation of its own."""
    merge = begin_merge(observed, observed.progress.incarnation + 1)
    return finish.workspace_failed_step(observed_after(observed, merge), astray).on_top_of(merge)


def begin_merge(observed: ObservedTask, incarnation: int) -> JsonObject:
    """What is written when incarnation `incarnation` begins."""
    encloser = observed.workspace.encloser
    return {
        "stage": "work",
        "incarnation": incarnation,
        "attempt": observed.progress.attempt,
        "basis": observed.basis,
        "started_at": observed.now,
        "ended_at": None,
        "not_before": None,
        "result": None,
        "skipped": None,
        "round_for": None,
        "fork": None,
        **sandbox_status_merge(None if encloser is None else encloser.spec.get("sandbox"), observed.me.status),
    }


def explain_queued(observed: ObservedTask) -> TaskExplanation:
    """A command that may start and has no slot yet."""
    del observed
    return TaskExplanation(TaskState.WAITING, "Queued", "waits for a free slot", ("a running command or check ends",))


def _old_checks(observed: ObservedTask) -> list[str]:
    return list(observed.progress.round.results or ())


def _parent(observed: ObservedTask) -> TaskExplanation | None:
    parent = observed.family.parent
    if observed.spec.parent is None:
        return None
    if parent is None:
        return TaskExplanation(TaskState.WAITING, "ParentWaiting", f"{observed.spec.parent} is not there yet")
    progress = read_task_progress(parent.status)
    if progress.is_skipped:
        says = f"{parent.address} was skipped: its checks held before any work"
        return TaskExplanation(TaskState.WAITING, "ParentSkipped", says, (f"the checks of {parent.address} fail",))
    if progress.stage is TaskStage.FAILED and parent.spec["work"]["kind"] != "group":
        says = f"{parent.address} failed before this task began"
        return TaskExplanation(
            TaskState.BLOCKED, "ParentFailed", says, (f"{parent.address} is tried again",), is_stuck=True
        )
    if progress.stage in (*_OPEN_PARENT, TaskStage.FAILED):
        return None
    return TaskExplanation(
        TaskState.WAITING, "ParentWaiting", f"{parent.address} has not started", (f"{parent.address} starts",)
    )


def _needs(observed: ObservedTask) -> TaskExplanation | None:
    bad = observed.family.bad_need
    if bad is not None:
        how = _HOW[task_standing(bad)]
        cure = (f"{bad.address} becomes done: edit it, or raise its retries", f"the need on {bad.address} is removed")
        reason = "NeedsCancelled" if how == "cancelled" else "NeedsFailed"
        return TaskExplanation(TaskState.BLOCKED, reason, f"needs {bad.address}, which is {how}", cure, is_stuck=True)
    if observed.family.needs.open:
        open_need = observed.family.open_need
        return TaskExplanation(TaskState.WAITING, "NeedsNotDone", f"needs {open_need}", (f"{open_need} is done",))
    return None


_HOW = {
    TaskStanding.FAILED: "failed",
    TaskStanding.CANCELLED: "cancelled",
    TaskStanding.STUCK: "blocked by a failure itself",
}


def _slot(observed: ObservedTask) -> TaskExplanation | None:
    slot = observed.start.slot
    if slot is None or slot.is_mine:
        return None
    ways = ("a task at work ends", f"plan patch . limits.tasks={slot.bound + 1}")
    return TaskExplanation(TaskState.WAITING, AWAITING_SLOT, slot.words, ways)


def _untried_sandbox(observed: ObservedTask) -> TaskExplanation | None:
    if observed.workspace.sandbox is not None:
        return None
    return TaskExplanation(
        TaskState.WAITING, TRYING_SANDBOX, "finds out whether its sandbox is to be had", ("it was tried",)
    )


def _no_sandbox(observed: ObservedTask) -> TaskExplanation | None:
    """Nothing that a task does may run in less than its plan asks for, so that it does not begin.

    This comes before its containers: one that the sandbox is in goes when the plan is over because of this, and a task
    that then waited for it would take heart, and the plan with it, without end.
    """
    answer = observed.workspace.sandbox
    if answer is None or answer.is_had:
        return None
    cures = (answer.cure,) if answer.again_at is None else (answer.cure, SANDBOX_RETRY)
    # Once is not enough: a container may have been on its way out, or the machine too busy.
    return TaskExplanation(TaskState.BLOCKED, NO_SANDBOX, answer.why, cures, is_stuck=answer.tries != 1)


def _locks(observed: ObservedTask) -> TaskExplanation | None:
    lock = observed.start.lock
    if lock is None:
        return None
    words = lock.words
    if lock.ring:
        ring = f"a deadlock: {describe_cycle(lock.ring)}; {words.message}"
        return TaskExplanation(TaskState.BLOCKED, AWAITING, ring, words.unblocks, is_stuck=True)
    return TaskExplanation(TaskState.BLOCKED, AWAITING, words.message, words.unblocks)


def _budget(observed: ObservedTask) -> TaskExplanation | None:
    lacking = budgets.missing_budget(observed)
    if lacking is not None or budgets.time_left_s(observed) != 0:
        return lacking
    says = "the time that its budget allows is used up"
    return TaskExplanation(
        TaskState.BLOCKED, "BudgetSpent", says, (budgets.more_time_command(observed),), is_stuck=True
    )


def _retry(observed: ObservedTask) -> TaskExplanation | None:
    if observed.progress.times.not_before <= observed.now:
        return None
    return stored_explanation_as(observed, TaskState.WAITING)  # What failed was written with the pause.


def _leftover(observed: ObservedTask) -> TaskExplanation | None:
    if isinstance(observed.spec.work, AgentWork) and observed.motion.agent is None:
        return TaskExplanation(TaskState.WAITING, "AgentMissing", f"{observed.spec.work.agent} is not there yet")
    if isinstance(observed.spec.work, GroupWork) or not step.is_agent_busy(observed):
        return None
    return TaskExplanation(
        TaskState.STOPPING, "Restarting", "the agent ends its earlier run", ("the agent has stopped",)
    )
