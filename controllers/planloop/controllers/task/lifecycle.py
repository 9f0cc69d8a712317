"""State machine of a task: start, work, claims of its agent, its fork, acceptance checks, and restart. Pure."""

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

# Ended tasks, and what restarts them: edits, checks that fail again, more retries.

AFRESH_MERGE: JsonObject = {"stage": "", "attempt": 1, "not_before": None, "round_for": None, "call": None, "go": None}
"""Status merge that restarts a task with all its retries."""

COMMAND_RUNNING: Final = TaskExplanation(TaskState.RUNNING, "Running", "its command is running")
AGENT_WORKING: Final = "its agent is working"
QUEUED: Final = TaskExplanation(
    TaskState.WAITING, "Queued", "waits for a free slot", ("a running command or check ends",)
)
"""A command that may start and has no slot yet."""


_PLAIN = {TaskState.FAILED: "Failed", TaskState.WAITING: "Retrying"}


def begin_afresh(observed: ObservedTask) -> TaskStep:
    """Begin a new incarnation with all retries. Nothing of the task may be running."""
    afresh = {**AFRESH_MERGE, "basis": None, "skipped": None, "result": None}
    return start_task(observed_after(observed, afresh)).on_top_of(afresh)


def keep_done(observed: ObservedTask) -> TaskStep:
    """Keep a task done; react to new children and edited checks, and run the checks of `heal` at their interval."""
    progress = observed.progress
    if progress.round.why is not None:
        return advance_checks(observed)
    unfinished = None if progress.is_skipped else finish.children_not_done(observed)
    if unfinished is not None:
        if isinstance(observed.spec.work, GroupWork):
            return finish_own_work(observed)
        return TaskStep(unfinished)
    if (bringing := bring_fork_in(observed)) is not None:
        return bringing  # Child tasks ran again and made new commits in the fork.
    if are_checks_edited(observed):
        return begin_check_round(observed, "edit")
    return _heal(observed)


def keep_failed(observed: ObservedTask) -> TaskStep:
    """Keep a task failed until more retries, edited checks, or (for a group) changed children or containers."""
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
    # A group has no work of its own to repeat, so only its checks run again.
    return _heal(observed) if isinstance(observed.spec.work, GroupWork) else TaskStep(says)


def stored_explanation(observed: ObservedTask) -> TaskExplanation:
    """Return the explanation that was written when the task ended."""
    is_failed = observed.progress.stage is TaskStage.FAILED
    return stored_explanation_as(observed, TaskState.FAILED if is_failed else TaskState.DONE)


def stored_explanation_as(observed: ObservedTask, state: TaskState) -> TaskExplanation:
    """Return `state` with the reason and message written with it, or plain ones if another state is written."""
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


# Rounds of acceptance checks. A result is fresh if it belongs to this round and to the current version of the check.
#
# The start of a round is written, so after a crash only the checks without a result run again.


def begin_check_round(observed: ObservedTask, why: CheckRound) -> TaskStep:
    """Start all checks, and drop the results of checks that are no longer in the plan."""
    kept = observed.digests
    gone = {key: None for key in observed.progress.round.results or () if key not in kept}
    merge: JsonObject = {"round": observed.progress.round.number + 1, "round_for": why}
    if why == "work":
        merge["stage"] = "verify"
    if gone:
        merge["checks"] = gone
    return advance_checks(observed_after(observed, merge)).on_top_of(merge)


def advance_checks(observed: ObservedTask) -> TaskStep:
    """Start the checks that have no fresh result; decide the round when all have one."""
    missing = [check for check in observed.spec.acceptance if not is_result_fresh(observed, check)]
    if not missing:
        return _decide_round(observed)
    wanted = [step.check_job(observed, check, observed.progress.round.number) for check in missing]
    asked = {job.key for job in wanted}
    stale = tuple(sorted(key for key in observed.motion.jobs if observe.is_check_key(key) and key not in asked))
    return TaskStep(
        _checking(observed), start=tuple(job for job in wanted if job.key not in observed.motion.jobs), cancel=stale
    )


def is_result_fresh(observed: ObservedTask, check: CheckSpec) -> bool:
    """Whether the result of `check` belongs to this round and to its current version."""
    result = (observed.progress.round.results or {}).get(check.key)
    return (
        result is not None
        and result["round"] == observed.progress.round.number
        and result["digest"] == observed.digests[check.key]
    )


def are_checks_edited(observed: ObservedTask) -> bool:
    """Whether a check was added or edited since the checks last ran."""
    checks = observed.progress.round.results or {}
    return any(checks.get(key, {}).get("digest") != digest for key, digest in observed.digests.items())


def failing_checks(observed: ObservedTask) -> list[CheckSpec]:
    """Return the checks whose result is not a pass."""
    checks = observed.progress.round.results or {}
    return [check for check in observed.spec.acceptance if checks.get(check.key, {}).get("result") != "pass"]


def failure_summary(observed: ObservedTask) -> str:
    """Return the message of the first failing check, and how many more fail."""
    bad = failing_checks(observed)
    result = (observed.progress.round.results or {}).get(bad[0].key, {})
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    return f"{bad[0].kind}: {result.get('message', '')}{more}"


def _checking(observed: ObservedTask) -> TaskExplanation:
    if observed.progress.round.why == "heal":
        return stored_explanation(observed)
    return TaskExplanation(TaskState.CHECKING, "Checking", "its acceptance checks are running")


def _decide_round(observed: ObservedTask) -> TaskStep:
    all_pass = not failing_checks(observed)
    match observed.progress.round.why:
        case "before":
            if not all_pass:
                return begin_work(observed)
            return bring_fork_in(observed) or finish.done_step(observed, is_skipped=True)
        case "work":
            return _accept(observed) if all_pass else _reject(observed)
        case _:
            if all_pass:
                return _accept(observed) if observed.progress.stage is not TaskStage.DONE else _still_done(observed)
            return _reopen(observed)


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


def _reopen(observed: ObservedTask) -> TaskStep:
    # A failed task whose edited checks still fail stays failed: its command does not run again.
    if observed.progress.stage is TaskStage.FAILED or isinstance(observed.spec.work, GroupWork):
        says = TaskExplanation(
            TaskState.FAILED, "ChecksFailing", failure_summary(observed), ("edit the task", "fix what the check found")
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
    """Return why a rejection of the current claim is final; empty if the agent may claim again."""
    if words := stuck_reason(observed):
        return words
    is_last = observed.progress.claims.rejections + 1 >= limits.CLAIMS_REJECTED_MAX
    return f"its checks failed after {limits.CLAIMS_REJECTED_MAX} claims of its agent to be done" if is_last else ""


def stuck_reason(observed: ObservedTask) -> str:
    """Return what the current claim repeats if the agent is stuck; empty for any other claim."""
    claim = (observed.motion.agent.status.get("claim") or {}) if observed.motion.agent is not None else {}
    return str(claim.get("stuck") or "")


def claim_verdict(observed: ObservedTask, *, accepted: bool, message: str) -> JsonObject:
    """Return the verdict on the agent's newest claim, for the task's status."""
    claim = (observed.motion.agent.status.get("claim") or {}) if observed.motion.agent is not None else {}
    count: JsonObject = {} if accepted else {"rejections": observed.progress.claims.rejections + 1}
    return count | {
        "claim": claim.get("seq", 0),
        "incarnation": observed.progress.incarnation,
        "accepted": accepted,
        "message": message,
        "failing": [] if accepted else [check.key for check in failing_checks(observed)],
    }


# The fork of a task: requested before the task starts, merged back before it is done.
#
# The task writes its request into its own status and reads the answer in the fork's status; the fork controller creates
# and merges the fork. A descendant of the task that has the fork only waits until the fork is ready.

_UNMARKED: Final = (
    "A file without conflict markers (binary, UTF-16, or removed on one side) has your version; "
    "`git show MERGE_HEAD:./FILE` prints the other one"
)
FORK_WANTED: JsonObject = {"fork": {"wants": "made"}}
"""Status merge of a task that waits for its fork."""


def fork_obstacle(observed: ObservedTask) -> TaskExplanation | None:
    """Return why the task cannot work in its fork yet; None if it can, or if it has no fork."""
    if not observed.spec.fork:
        return None
    status = _fork_state(observed)
    if status.state in IN_USE and status.state not in MOVING:
        return None
    return _fork_failed(status) or TaskExplanation(
        TaskState.WAITING, AWAITING_FORK, f"waits until {observed.spec.fork} is created"
    )


def hold_for_fork(observed: ObservedTask) -> TaskStep | None:
    """Hold back the next turn of a running agent whose task was given a fork until the fork exists; None if it does."""
    if not observed.spec.fork or not isinstance(observed.spec.work, AgentWork):
        return None
    status = _fork_state(observed)
    if status.state in IN_USE or newest_claim(observed) is not None:
        return None
    words = f"its agent ends its turn and continues in {observed.spec.fork}"
    return TaskStep(_fork_failed(status) or TaskExplanation(TaskState.RUNNING, AWAITING_FORK, words), FORK_WANTED)


def clear_fork_request(observed: ObservedTask, step: TaskStep) -> TaskStep:
    """Return `step` without the request for a fork that exists."""
    return step.on_top_of({"fork": {"wants": None}}) if fork_request(observed.me.status).wish == "made" else step


def bring_fork_in(observed: ObservedTask) -> TaskStep | None:
    """Return the step that merges the task's fork before it is done; None if it is merged, or if it has no fork."""
    if observed.workspace.fork is None or observed.workspace.fork.spec["task"] != observed.address:
        return None
    status, asked = _fork_state(observed), fork_request(observed.me.status)
    if status.state in (ForkState.NONE, ForkState.IN, ForkState.KEPT):
        return None
    says = _fork_failed(status) or TaskExplanation(
        TaskState.CHECKING, "BringingIn", f"the changes in {observed.spec.fork} are being merged"
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
    """Run the checks again, because commits of others were merged into the fork since they ran."""
    merge: JsonObject = {"fork": {"wants": None, "told": status.answered}}
    return begin_check_round(observed_after(observed, merge), observed.progress.round.why or "work").on_top_of(merge)


def _conflict(observed: ObservedTask, status: ForkStatus) -> TaskStep:
    """Ask the agent, or a person if the task has no agent, to resolve the open merge in the fork."""
    words = _in_conflict(status)
    if not isinstance(observed.spec.work, AgentWork):
        fix = (f"resolve the files in {status.folder}: remove all conflict markers; `git add` files that have none",)
        return TaskStep(TaskExplanation(TaskState.BLOCKED, MERGE_CONFLICT, words, fix))
    words = (
        f"{words}. Resolve each conflict between `<<<<<<<` and `>>>>>>>`. {_UNMARKED}. Then claim again that the task "
        "is done"
    )
    refused = claim_verdict(observed, accepted=False, message=words)
    answered: JsonObject = {"fork": {"wants": None, "told": status.answered}, "verdict": refused}
    if final := last_claim_reason(observed):
        return finish.failed_step(observed, MERGE_CONFLICT, f"{words}; {final}").on_top_of(answered)
    merge: JsonObject = {**answered, "stage": "work", "round_for": None}
    return advance_work(observed_after(observed, merge)).on_top_of(merge)


def fork_conflict(observed: ObservedTask) -> str:
    """Return which files of the task's own fork have unresolved merge conflicts; empty if none have."""
    if observed.workspace.fork is None or observed.workspace.fork.spec["task"] != observed.address:
        return ""
    status = _fork_state(observed)
    return _in_conflict(status) if status.state is ForkState.CONFLICT else ""


def _in_conflict(status: ForkStatus) -> str:
    shown = [path.removeprefix(status.prefix) for path in status.files[: limits.FORK_FILES_SHOWN]]
    more = len(status.files) - len(shown)
    files = ", ".join(shown) + (f" and {more} more" if more else "")
    return f"merge conflicts in {files}, on branch {status.branch}"


def _fork_failed(status: ForkStatus) -> TaskExplanation | None:
    if not status.fault:
        return None
    fix = ("fix the problem that git reports; planloop then tries again by itself",)
    return TaskExplanation(TaskState.BLOCKED, FORK_FAILED, f"its fork: {status.fault}", fix)


def _fork_state(observed: ObservedTask) -> ForkStatus:
    return (
        fork_status_from_json(observed.workspace.fork.status) if observed.workspace.fork is not None else ForkStatus()
    )


# The agent of a task works until it claims to be done or to have failed, and each claim gets one verdict.
#
# A claim names its incarnation; a claim of an older incarnation is ignored (law 7).


def advance_agent(observed: ObservedTask) -> TaskStep:
    """Let the agent work, or decide its claim."""
    # The digests follow the plan while the agent works: it gets each new goal, so its claim is about the newest one.
    merge: JsonObject = {"go": observed.progress.incarnation, "basis": observed.basis}
    claim = newest_claim(observed)
    if claim is None:
        return TaskStep(_at_work(observed), merge=merge)
    if claim["kind"] == "fail":
        reason = str(_claim_result(claim) or "the agent gave up without a reason")
        refused = claim_verdict(observed, accepted=False, message=reason)
        word = STUCK if claim.get("stuck") else "AgentFailed"
        return finish.failed_step(observed, word, reason).on_top_of({"verdict": refused})
    merge["result"] = {"ok": True, "text": _claim_result(claim)}
    says = finish.children_not_done(observed)
    if says is not None and says.state is TaskState.FAILED:
        merge["verdict"] = claim_verdict(observed, accepted=False, message=says.message)
        if final := last_claim_reason(observed):
            word = STUCK if stuck_reason(observed) else "AgentFailed"
            return finish.failed_step(observed, word, f"{says.message}; {final}").on_top_of(merge)
        return TaskStep(_at_work(observed), merge=merge)
    if observed.spec.acceptance or says is not None:
        return finish_own_work(observed_after(observed, merge)).on_top_of(merge)
    if (bringing := bring_fork_in(observed_after(observed, merge))) is not None:
        return bringing.on_top_of(merge)
    merge["verdict"] = claim_verdict(observed, accepted=True, message="accepted")
    return finish.done_step(observed_after(observed, merge)).on_top_of(merge)


def newest_claim(observed: ObservedTask) -> JsonObject | None:
    """Return the agent's claim about this incarnation that has no verdict yet, or None."""
    claim: JsonObject | None = observed.motion.agent.status.get("claim") if observed.motion.agent is not None else None
    if not claim or claim.get("incarnation") != observed.progress.incarnation:
        return None
    return claim if claim["seq"] > observed.progress.claims.judged else None


def _claim_result(claim: JsonObject) -> Json:
    # Agents wrap free values in a list of one, so that a merge patch replaces them as a whole.
    result = claim.get("result")
    return result[0] if isinstance(result, list) and result else result


def _at_work(observed: ObservedTask) -> TaskExplanation:
    """Return running, or blocked with the reason if its agent waits for a person or another agent to act."""
    agent = observed.motion.agent
    if agent is None or agent.state not in (AgentState.PARKED, AgentState.BLOCKED):
        return TaskExplanation(TaskState.RUNNING, "Running", _agent_activity(observed))
    found = [one for type_, one in conditions_of_status(agent.status).items() if type_ in FOR_OTHERS]
    if found:
        return TaskExplanation(
            TaskState.BLOCKED, found[0].reason, f"{agent.address}: {found[0].message}", found[0].unblocks
        )
    waits = conditions_of_status(agent.status).get(CallState.AWAITING_LOCK)
    if waits is not None:  # The holders are agents, which release their locks without an operator.
        return TaskExplanation(TaskState.RUNNING, waits.reason, f"{agent.address}: {waits.message}", waits.unblocks)
    if agent.state == AgentState.PARKED:
        return TaskExplanation(TaskState.BLOCKED, "BudgetSpent", f"{agent.address} has used up its budget")
    return TaskExplanation(TaskState.RUNNING, "Running", _agent_activity(observed))


def _agent_activity(observed: ObservedTask) -> str:
    """Return what the agent is working on: a merge conflict, the checks that rejected its claim, or just its task."""
    if conflict := fork_conflict(observed):
        return f"its agent is resolving {conflict}"
    verdict = observed.me.status.get("verdict") or {}
    is_of_now = verdict.get("incarnation") == observed.progress.incarnation
    if is_of_now and not verdict.get("accepted") and verdict.get("failing"):
        return f"its agent is fixing a failed check: {verdict['message']}"
    return AGENT_WORKING


def advance_work(observed: ObservedTask) -> TaskStep:
    """Take one step with the work of the current incarnation: a group, a command or an agent."""
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
    """Continue after the task's own work: wait for its children, run its checks, then end it."""
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
            return _ended(observed, finish.result_json(ok=True, text="a person confirmed that it happened"))
        case CallState.FAILED | CallState.CANCELLED | CallState.DENIED:
            words = "its call was settled as failed"
            return _ended(observed, finish.result_json(ok=False, reason="CommandFailed", text=words))
        case _:
            # The command never began, or may run again: the same incarnation, a new operation.
            if isinstance(observed.workspace.folder, WorkspaceFault):
                return _without_call(observed, finish.workspace_failed_step(observed, observed.workspace.folder))
            return step.queue_command(observed, TaskStep(QUEUED), progress.incarnation)


def _running(observed: ObservedTask) -> TaskStep:
    if any(observe.is_run_key(key) for key in observed.motion.jobs):
        return TaskStep(COMMAND_RUNNING)
    return TaskStep(COMMAND_RUNNING, start=(step.run_job(observed, observed.progress.incarnation, is_adoption=True),))


def _ended(observed: ObservedTask, result: JsonObject) -> TaskStep:
    ended = observed_after(observed, {"call": None, "result": result})
    step = finish_own_work(ended) if result["ok"] else finish.failed_step(ended, result["reason"], result["text"])
    return _without_call(observed, step.on_top_of({"result": result}))


def _without_call(observed: ObservedTask, step: TaskStep) -> TaskStep:
    """Return `step`, which also drops the call of the incarnation that it ends."""
    dropped = (
        (Drop(observed.motion.call.address, observed.motion.call.uid),) if observed.motion.call is not None else ()
    )
    return replace(step.on_top_of({"call": None}), changes=(*step.changes, *dropped))


def explain_unknown_outcome(observed: ObservedTask) -> TaskExplanation:
    """Return blocked with the commands that settle a call with an unknown outcome."""
    call = observed.motion.call.address if observed.motion.call is not None else "the call"
    command = observed.spec.work
    shown = (command.shell or " ".join(command.argv)) if isinstance(command, RunWork) else ""
    says = f"the outcome of `{shown}` is unknown, and with `effect: {EffectClass.ONCE}` it is not run again"
    return TaskExplanation(
        TaskState.BLOCKED, "InDoubt", says, (f"plan approve {call} --happened", f"plan approve {call} --did-not")
    )


# What must be true before a task starts, in the order of the checks: its parent has started, its needs are done, there
# is budget, the retry delay is over, nothing of an earlier incarnation runs, and it has a slot (`limits.tasks`). Then
# its fork, which starts from the commits of its needs; its containers, which may mount the fork; its sandbox, which may
# be in one of the containers. Locks are last, so that no waiting task holds one.

SANDBOX_RETRY = f"planloop tries again within {limits.SANDBOX_RETRY_CAP_S:g} s and then continues the task"
_OPEN_PARENT = (TaskStage.WORK, TaskStage.VERIFY, TaskStage.DONE)


def start_task(observed: ObservedTask) -> TaskStep:
    """Begin the task, or return what it waits for."""
    says = start_obstacle(observed)
    if says is not None:
        return _waiting(observed, says)
    if (problem := _missing_folder(observed)) is not None:
        return _fail_without_folder(observed, problem)
    if observed.spec.when == "before" and observed.spec.acceptance:
        merge: JsonObject = {"stage": "before", "basis": observed.basis, "checks": dict.fromkeys(_old_checks(observed))}
        return begin_check_round(observed_after(observed, merge), "before").on_top_of(merge)
    return begin_work(observed)


def _waiting(observed: ObservedTask, says: TaskExplanation) -> TaskStep:
    wait_s = observed.progress.times.not_before - observed.now
    again_s = wait_s if wait_s > 0 else None
    if says.reason in (TRYING_SANDBOX, NO_SANDBOX) and observed.workspace.encloser is not None:
        return _try_sandbox(observed, says, observed.workspace.encloser)
    if says.reason in (AWAITING_FORK, FORK_FAILED):
        return TaskStep(says, FORK_WANTED, again_s=again_s)
    if says.reason == AWAITING and observed.start.lock is not None:
        return TaskStep(
            says,
            changes=observed.start.lock.request,
            type="lock.requested" if observed.start.lock.request else "task.changed",
        )
    if says.reason not in (budgets.NO_BUDGET_LEFT, "BudgetSpent"):
        return TaskStep(says, again_s=again_s)
    notes = budgets.request_budget(observed)
    return TaskStep(says, notes.merge, notes.changes, again_s=again_s)


def _try_sandbox(observed: ObservedTask, says: TaskExplanation, encloser: Resource) -> TaskStep:
    """Try the sandbox, or again when the last try is old: a person may install what is missing while the plan runs."""
    answer = observed.workspace.sandbox
    if answer is not None and not answer.is_due(observed.now):
        return TaskStep(says, again_s=None if answer.again_at is None else answer.again_at - observed.now)
    job = TryJob(observe.try_job_key(observed.me.uid), sandbox_request(encloser.spec.get("sandbox")))
    return TaskStep(says, start=() if job.key in observed.motion.jobs else (job,))


def start_obstacle(observed: ObservedTask) -> TaskExplanation | None:
    """Return the first obstacle; None if the task may start."""
    before = (_parent, _needs, _budget, _retry, _leftover, _slot, fork_obstacle, _no_sandbox)
    for look in (*before, container_needs.container_obstacle, _untried_sandbox, _locks):
        says = look(observed)
        if says is not None:
            return says
    return None


def begin_work(observed: ObservedTask) -> TaskStep:
    """Open a group, start the agent, or queue the command. A queued command has not begun."""
    spec, incarnation = observed.spec, observed.progress.incarnation + 1
    says = budgets.missing_budget(observed)
    if says is not None:
        return _waiting(observed, says)
    if (problem := _missing_folder(observed)) is not None:
        return _fail_without_folder(observed, problem)
    if isinstance(spec.work, RunWork):
        return step.queue_command(observed, TaskStep(QUEUED), incarnation)
    merge = begin_merge(observed, incarnation)
    if isinstance(spec.work, AgentWork):
        merge |= {"go": incarnation, "verdict": None}
    grants = budgets.grant_budget(observed)
    merge |= grants.merge
    return advance_work(observed_after(grants.then, merge)).on_top_of(merge).first(grants.changes)


def _missing_folder(observed: ObservedTask) -> WorkspaceFault | None:
    """Return why a command or agent may not work in its folder. Checked last: its needs may create the folder."""
    if isinstance(observed.spec.work, GroupWork):
        return None
    folder = observed.workspace.folder
    return folder if isinstance(folder, WorkspaceFault) else None


def _fail_without_folder(observed: ObservedTask, problem: WorkspaceFault) -> TaskStep:
    """Fail the task before it starts; the failure counts as an incarnation."""
    merge = begin_merge(observed, observed.progress.incarnation + 1)
    return finish.workspace_failed_step(observed_after(observed, merge), problem).on_top_of(merge)


def begin_merge(observed: ObservedTask, incarnation: int) -> JsonObject:
    """Return the status merge that begins incarnation `incarnation`."""
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


def _old_checks(observed: ObservedTask) -> list[str]:
    return list(observed.progress.round.results or ())


def _parent(observed: ObservedTask) -> TaskExplanation | None:
    parent = observed.family.parent
    if observed.spec.parent is None:
        return None
    if parent is None:
        return TaskExplanation(TaskState.WAITING, "ParentWaiting", f"{observed.spec.parent} does not exist yet")
    progress = read_task_progress(parent.status)
    if progress.is_skipped:
        says = f"{parent.address} was skipped: its checks passed before any work"
        return TaskExplanation(TaskState.WAITING, "ParentSkipped", says, (f"the checks of {parent.address} fail",))
    if progress.stage is TaskStage.FAILED and parent.spec["work"]["kind"] != "group":
        says = f"{parent.address} failed before this task began"
        return TaskExplanation(
            TaskState.BLOCKED, "ParentFailed", says, (f"edit or retry {parent.address}",), is_stuck=True
        )
    if progress.stage in (*_OPEN_PARENT, TaskStage.FAILED):
        return None
    return TaskExplanation(
        TaskState.WAITING, "ParentWaiting", f"{parent.address} has not started", (f"{parent.address} starts",)
    )


def _needs(observed: ObservedTask) -> TaskExplanation | None:
    bad = observed.family.bad_need
    if bad is not None:
        standing = task_standing(bad)
        how, fix = _BAD_NEEDS[standing]
        fixes = (fix.format(bad.address), f"remove the need on {bad.address}")
        reason = "NeedsCancelled" if standing is TaskStanding.CANCELLED else "NeedsFailed"
        return TaskExplanation(TaskState.BLOCKED, reason, f"needs {bad.address}, which {how}", fixes, is_stuck=True)
    if observed.family.needs.open:
        open_need = observed.family.open_need
        return TaskExplanation(TaskState.WAITING, "NeedsNotDone", f"needs {open_need}", (f"{open_need} is done",))
    return None


_BAD_NEEDS: Final = {
    TaskStanding.FAILED: ("failed", "edit {} or raise its retries"),
    TaskStanding.CANCELLED: ("is cancelled", "remove `cancel` from {}"),
    TaskStanding.STUCK: ("is blocked", "resolve what blocks {}"),
}
"""What became of a need, and how to fix it."""


def _slot(observed: ObservedTask) -> TaskExplanation | None:
    slot = observed.start.slot
    if slot is None or slot.is_mine:
        return None
    ways = ("a running task ends", f"plan patch . limits.tasks={slot.bound + 1}")
    return TaskExplanation(TaskState.WAITING, AWAITING_SLOT, slot.words, ways)


def _untried_sandbox(observed: ObservedTask) -> TaskExplanation | None:
    if observed.workspace.sandbox is not None:
        return None
    return TaskExplanation(
        TaskState.WAITING, TRYING_SANDBOX, "its sandbox is being tried", ("the try of the sandbox ends",)
    )


def _no_sandbox(observed: ObservedTask) -> TaskExplanation | None:
    """Return blocked if the sandbox of the task is not available: its commands never run with less isolation.

    Checked before containers. If the sandbox is in a container, the plan ends because of this obstacle and stops that
    container; a task that then waited for the container would restart the plan, in an endless loop.
    """
    answer = observed.workspace.sandbox
    if answer is None or answer.is_had:
        return None
    fixes = (answer.cure,) if answer.again_at is None else (answer.cure, SANDBOX_RETRY)
    # One failed try proves nothing: a container may have been stopping, or the machine busy.
    return TaskExplanation(TaskState.BLOCKED, NO_SANDBOX, answer.why, fixes, is_stuck=answer.tries != 1)


def _locks(observed: ObservedTask) -> TaskExplanation | None:
    lock = observed.start.lock
    if lock is None:
        return None
    words = lock.words
    if lock.ring:
        ring = f"deadlock: {describe_cycle(lock.ring)}; {words.message}"
        return TaskExplanation(TaskState.BLOCKED, AWAITING, ring, words.unblocks, is_stuck=True)
    return TaskExplanation(TaskState.BLOCKED, AWAITING, words.message, words.unblocks)


def _budget(observed: ObservedTask) -> TaskExplanation | None:
    missing = budgets.missing_budget(observed)
    if missing is not None or budgets.time_left_s(observed) != 0:
        return missing
    says = "the time of its budget is used up"
    return TaskExplanation(
        TaskState.BLOCKED, "BudgetSpent", says, (budgets.more_time_command(observed),), is_stuck=True
    )


def _retry(observed: ObservedTask) -> TaskExplanation | None:
    if observed.progress.times.not_before <= observed.now:
        return None
    return stored_explanation_as(observed, TaskState.WAITING)  # Holds the failure that started the delay.


def _leftover(observed: ObservedTask) -> TaskExplanation | None:
    if isinstance(observed.spec.work, AgentWork) and observed.motion.agent is None:
        return TaskExplanation(TaskState.WAITING, "AgentMissing", f"{observed.spec.work.agent} does not exist yet")
    if isinstance(observed.spec.work, GroupWork) or not step.is_agent_busy(observed):
        return None
    return TaskExplanation(
        TaskState.STOPPING, "Restarting", "its agent is ending its previous run", ("its agent has stopped",)
    )
