"""Jobs of a task: run its command, run a check, try its sandbox. Each writes its result in one append."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress

import anyio

from planloop.controllers.task import budgets, decide, finish, halt, step
from planloop.controllers.task.checks import run
from planloop.controllers.task.decide import next_step
from planloop.controllers.task.finish import CommandOutcome
from planloop.controllers.task.observe import ObservedTask, TaskObserver
from planloop.controllers.task.run_environment import RunEnvironment
from planloop.controllers.task.step import CheckJob, RunJob, StopJob, TaskStep, TryJob
from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.effects import journal
from planloop.reconciler.effects.processes import CommandSandbox, ExitCause, ProcessCommand, Processes, ProcessExit
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.store.store import Store
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Change, RecordDraft, SetStatus
from planloop.schemas.objects.call import CallSpec, CallState, EffectClass
from planloop.schemas.objects.task import RunWork
from planloop.schemas.resource import Uid

ACTOR = "controller:task"


def write_step(store: Store, observed: ObservedTask, step: TaskStep) -> int | None:
    """Write `step`, decided from `observed`, in one append; return its revision, or None if nothing changes.

    The append is not flushed: no effect depends on it, and a later effect flushes it.

    Raises:
        Conflict: the task changed since it was observed.
    """
    changes = step_changes(observed, step)
    if not changes:
        return None
    draft = RecordDraft(step.type, ACTOR, observed.address, changes, step_data(step))
    return store.propose(draft, {observed.address: observed.me.rev})


def step_changes(observed: ObservedTask, step: TaskStep) -> tuple[Change, ...]:
    """Return the object writes of a step."""
    if not step.merge:
        return step.changes
    return (SetStatus(observed.address, observed.me.uid, step.merge), *step.changes)


def step_data(step: TaskStep) -> JsonObject:
    """Return the data of the step's record, for readers of the log."""
    return {"state": str(step.says.state), "reason": step.says.reason, "message": step.says.message}


# A job of its own, so that the command's slot is free before the flush. Commands that end together share one flush.

KEY = "task:clearing"


class OutputCleaner:
    """Removes the output files of ended commands after their results are durable."""

    def __init__(self, store: Store, processes: Processes, plane: WorkPlane) -> None:
        self._store = store
        self._processes = processes
        self._plane = plane
        self._ended: list[str] = []
        self._rev = 0

    def note(self, op: str, rev: int, owner: str) -> None:
        """Remove the files of `op` when its result, written at `rev`, is durable."""
        self._ended.append(op)
        self._rev = rev
        self._plane.start(KEY, owner, self._clear, pool="free")

    async def _clear(self) -> None:
        while self._ended:
            ended, self._ended = self._ended, []
            await self._store.flush(self._rev)
            self._processes.forget(ended)


# The job of a command: one flushed append with `Started` and the status, then the process, then one append with its
# result.
#
# It decides again when it gets a slot, so an edit made while it waited does not have to cancel it. After a crash the
# call is still Started, and the next owner's job adopts the process (law 5).


@frozen
class TaskJobContext:
    """Services that the jobs of tasks use."""

    store: Store
    processes: Processes
    clock: Clock
    ids: Ids
    observer: TaskObserver
    environment: RunEnvironment
    cleaner: OutputCleaner


async def run_command(context: TaskJobContext, uid: Uid, address: str, job: RunJob) -> None:
    """Run or adopt the command of the task, if the task still asks for it."""
    observed = context.observer.observe(address, context.clock.now(), without_job=job.key)
    if observed is None or observed.me.uid != uid or not isinstance(observed.spec.work, RunWork):
        return
    if job.key not in [wanted.key for wanted in next_step(observed).start]:
        return
    if step.is_call_started(observed) and observed.motion.call is not None:
        running = observed.motion.call
        adoption = context.processes.adopt(running.spec["op"], budgets.timeout_s(observed))
        await _wait_and_settle(context, observed, running.address, adoption)
        return
    command, call, op = await _begin(context, observed)
    await _wait_and_settle(context, observed, call, _run_in_folder(context, observed, op, command))


async def _run_in_folder(
    context: TaskJobContext, observed: ObservedTask, op: str, command: ProcessCommand
) -> ProcessExit:
    """Create the folder of the command if it is missing, and run the command."""
    try:
        context.environment.make_workspace(command.cwd, observed.workspace.encloser, observed.workspace.fork)
    except OSError as error:
        words = f"the folder {command.cwd} cannot be created: {error.strerror}"
        return ProcessExit(ExitCause.NOT_STARTED, None, words.encode(errors="replace"))
    return await context.processes.run(op, command)


async def stop_command(context: TaskJobContext, uid: Uid, address: str, job: StopJob) -> None:
    """Stop a command that an earlier owner started, and settle its call as cancelled."""
    await context.processes.stop(job.op)
    _settle(context, uid, address, job.call, finish.cancelled_outcome())


async def _begin(context: TaskJobContext, observed: ObservedTask) -> tuple[ProcessCommand, str, str]:
    """Write durably that the command starts; return it with the address of its call and its operation id."""
    op = context.ids.mint()
    call_id = observed.motion.call.uid if observed.motion.call is not None else op
    incarnation = decide.incarnation_to_start(observed)
    written = decide.command_started_step(observed, journal.call_address(call_id))
    started = journal.start_changes(_call(observed, incarnation, op), call_id)
    command = _command(context, observed, incarnation)
    changes = (*started, *step_changes(observed, written))
    draft = RecordDraft("call.started", ACTOR, observed.address, changes, {"op": op, "incarnation": incarnation})
    # Law 5: the process must not start before this append is durable.
    await context.store.append(draft, {observed.address: observed.me.rev})
    return command, journal.call_address(call_id), op


async def _wait_and_settle(
    context: TaskJobContext, observed: ObservedTask, call: str, process: Awaitable[ProcessExit]
) -> None:
    """Wait for the process and write how it ended. If the job is cancelled, the process is stopped first."""
    uid, address, work = observed.me.uid, observed.address, observed.spec.work
    assert isinstance(work, RunWork)
    try:
        exit_ = await process
    except anyio.get_cancelled_exc_class():
        # If the plan did not cancel it, the owner is stopping, and how far the command got is unknown.
        is_cancelled = _is_cancelled(context, uid, address, call)
        _settle(context, uid, address, call, finish.cancelled_outcome() if is_cancelled else finish.lost_outcome(work))
        raise
    blob = context.store.put_blob(exit_.output) if exit_.output else None
    _settle(context, uid, address, call, finish.outcome_of_exit(exit_, work, blob))


def _is_cancelled(context: TaskJobContext, uid: Uid, address: str, call_address: str) -> bool:
    call = context.store.view.get(call_address)
    me = context.store.view.get((call.owner if call is not None else None) or address)
    return (
        me is None or me.uid != uid or halt.is_cancelled_by_plan(context.observer.observe_as(me, context.clock.now()))
    )


def _settle(context: TaskJobContext, uid: Uid, address: str, call_address: str, ended: CommandOutcome) -> None:
    """Write the result and the step that follows from it in one append; write nothing if the call is gone.

    There is no await between read and write, so the revisions in `expect` are always current.
    """
    view = context.store.view
    call = view.get(call_address)
    if call is None:
        return
    op = call.spec["op"]
    changes = journal.settle_changes(call.address, call.uid, ended.call)
    expect: dict[str, int | None] = {call.address: call.rev}
    me = view.get(call.owner or address)
    if me is not None and me.uid == uid:
        before = context.observer.observe_as(me, context.clock.now())
        expect[me.address] = me.rev
        address, changes = me.address, (*changes, *step_changes(before, decide.command_ended_step(before, call, ended)))
    # If the task is gone, the result is recorded as evidence and changes nothing (law 7).
    data: JsonObject = {"op": op, "call": call.address, "result": ended.call.to_json()}
    blobs = (ended.call.blob,) if ended.call.blob else ()
    rev = context.store.propose(RecordDraft("call.settled", ACTOR, address, changes, data, blobs), expect)
    if ended.call.state is not CallState.UNKNOWN:
        context.cleaner.note(op, rev, address)


def _call(observed: ObservedTask, incarnation: int, op: str) -> CallSpec:
    work = observed.spec.work
    assert isinstance(work, RunWork)
    arguments: JsonObject = {"shell": work.shell} if work.shell else {"argv": list(work.argv)}
    return CallSpec(
        owner=observed.address,
        owner_uid=observed.me.uid,
        incarnation=incarnation,
        op=op,
        tool="run",
        arguments=arguments,
        effect=EffectClass(work.effect),
        is_process=True,
    )


def task_sandbox(context: TaskJobContext, observed: ObservedTask) -> CommandSandbox | None:
    """Return the sandbox of the task's commands and checks; None if they run without one."""
    return context.environment.sandbox(context.store.view, observed.workspace.encloser, observed.workspace.fork)


def _command(context: TaskJobContext, observed: ObservedTask, incarnation: int) -> ProcessCommand:
    spec, work = observed.spec, observed.spec.work
    assert isinstance(work, RunWork) and isinstance(observed.workspace.folder, str), (
        "it was just decided that it may begin"
    )
    return ProcessCommand(
        cwd=observed.workspace.folder,
        argv=work.argv,
        shell=work.shell,
        env=context.environment.env(observed.address, spec, incarnation, observed.workspace.encloser),
        timeout_s=budgets.timeout_s(observed),
        output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
        sandbox=task_sandbox(context, observed),
    )


async def run_task_check(context: TaskJobContext, uid: Uid, address: str, job: CheckJob) -> None:
    """Run the check if its result is still missing; write the result and the step that follows in one append.

    A check has effect class read: if it is cancelled or lost, it runs again.
    """
    observed = _task_that_wants(context, uid, address, job)
    if observed is None:
        return
    spec, run_environment = observed.spec, context.environment
    env = run_environment.env(observed.address, spec, observed.progress.incarnation, observed.workspace.encloser)
    started_at = context.clock.now()
    if isinstance(observed.workspace.folder, str):
        with suppress(OSError):  # The check itself reports a missing folder.
            run_environment.make_workspace(
                observed.workspace.folder, observed.workspace.encloser, observed.workspace.fork
            )
        environment = run.CheckEnvironment(
            context.processes,
            context.ids,
            observed.workspace.folder,
            run_environment.no_links_from(observed.workspace.encloser, observed.workspace.fork),
            env,
            run_environment.containers,
            str(uid),
            task_sandbox(context, observed),
        )
        finding = await run_environment.check(job.check, environment)
    else:
        finding = run.CheckFinding("error", f"not run: {observed.workspace.folder.words}")
    before = context.observer.observe(address, context.clock.now(), without_job=job.key)
    if before is None or before.me.uid != uid or not _is_current(before, job):
        return  # The task was edited or cancelled meanwhile: the result is of an old check or round.
    blob = context.store.put_blob(finding.output) if finding.output else None
    entry: JsonObject = {
        "result": finding.result,
        "message": finding.message,
        "at": before.now,
        "took_s": round(before.now - started_at, 6),
        "blob": blob,
        "incarnation": before.progress.incarnation,
        "round": job.round,
        "digest": job.digest,
    }
    step = decide.check_found_step(before, job, entry)
    data: JsonObject = {"check": job.check.key, "kind": job.check.kind, "result": finding.result}
    data["message"] = finding.message
    blobs = (blob,) if blob else ()
    draft = RecordDraft("check.ran", ACTOR, before.address, step_changes(before, step), data, blobs)
    context.store.propose(draft, {before.address: before.me.rev})


def _is_current(observed: ObservedTask, job: CheckJob) -> bool:
    progress = observed.progress
    is_same = progress.round.number == job.round and observed.digests.get(job.check.key) == job.digest
    return is_same and progress.round.why is not None and not observed.me.deleting


def _task_that_wants(context: TaskJobContext, uid: Uid, address: str, job: CheckJob) -> ObservedTask | None:
    """Return the task if it still asks for this check in this round."""
    observed = context.observer.observe(address, context.clock.now(), without_job=job.key)
    if observed is None or observed.me.uid != uid:
        return None
    return observed if job.key in [wanted.key for wanted in next_step(observed).start] else None


async def try_sandbox(context: TaskJobContext, job: TryJob) -> None:
    """Try the sandbox, once for all tasks that request the same, and write the result into the plan's status.

    The end of this job reconciles the task again.
    """
    answer = await context.environment.sandboxes.tried(job.request)
    plan = context.store.view.get(f"plan/{context.environment.plan}")
    result: JsonObject = {job.request.words: answer.to_json()}
    if plan is None or (plan.status.get("sandbox") or {}).get(job.request.words) == result[job.request.words]:
        return
    change = SetStatus(plan.address, plan.uid, {"sandbox": result})
    context.store.propose(
        RecordDraft("plan.condition", ACTOR, plan.address, (change,), {"sandbox": result}), {plan.address: plan.rev}
    )
