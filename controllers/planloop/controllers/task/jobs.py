"""The jobs of a task: run its command, run a check, try its sandbox. Each writes its result in one append."""

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

# A step as one append: the status, what else it changes, and what readers of the log are told.

ACTOR = "controller:task"


def write_step(store: Store, observed: ObservedTask, step: TaskStep) -> int | None:
    """Proposes what `step` writes, computed from `observed`; None when it writes nothing.

    Not flushed: no effect follows a status, and whatever effect comes later flushes what came before it. Raises
    Conflict when the task has moved since it was observed.
    """
    changes = step_changes(observed, step)
    if not changes:
        return None
    draft = RecordDraft(step.type, ACTOR, observed.address, changes, step_data(step))
    return store.propose(draft, {observed.address: observed.me.rev})


def step_changes(observed: ObservedTask, step: TaskStep) -> tuple[Change, ...]:
    """The object writes of a step."""
    if not step.merge:
        return step.changes
    return (SetStatus(observed.address, observed.me.uid, step.merge), *step.changes)


def step_data(step: TaskStep) -> JsonObject:
    """What readers of the log see without looking into statuses."""
    return {"state": str(step.says.state), "reason": step.says.reason, "message": step.says.message}


# Removes the files of ended commands once their results are durable, many at a time and in nobody's way.
#
# A command's slot is not held for that: results of commands that end close together share one flush.

KEY = "task:clearing"


class OutputCleaner:
    """What has ended and still has files."""

    def __init__(self, store: Store, processes: Processes, plane: WorkPlane) -> None:
        self._store = store
        self._processes = processes
        self._plane = plane
        self._ended: list[str] = []
        self._rev = 0

    def note(self, op: str, rev: int, owner: str) -> None:
        """The result of `op` is written at `rev`; its files go when that is durable."""
        self._ended.append(op)
        self._rev = rev
        self._plane.start(KEY, owner, self._clear, pool="free")

    async def _clear(self) -> None:
        while self._ended:
            ended, self._ended = self._ended, []
            await self._store.flush(self._rev)
            self._processes.forget(ended)


# The job of a command: `Started` and the status in one flushed append, the process, its result in one append.
#
# It decides once more when its slot comes, on what then holds, so an edit made while it waited needs no cancelling. A
# crash leaves the call Started; the next owner's job adopts the process (law 5).


@frozen
class TaskJobContext:
    """What the jobs of tasks work with."""

    store: Store
    processes: Processes
    clock: Clock
    ids: Ids
    observer: TaskObserver
    surroundings: RunEnvironment
    clearing: OutputCleaner


async def run_command(desk: TaskJobContext, uid: Uid, address: str, job: RunJob) -> None:
    """Runs or adopts the command of the task, if that is still what is wanted."""
    observed = desk.observer.observe(address, desk.clock.now(), without_job=job.key)
    if observed is None or observed.me.uid != uid or not isinstance(observed.spec.work, RunWork):
        return
    if job.key not in [wanted.key for wanted in next_step(observed).start]:
        return
    if step.is_call_started(observed) and observed.motion.call is not None:
        left_by_another = observed.motion.call
        adoption = desk.processes.adopt(left_by_another.spec["op"], budgets.timeout_s(observed))
        await _see_out(desk, observed, left_by_another.address, adoption)
        return
    command, call, op = await _begin(desk, observed)
    await _see_out(desk, observed, call, _run_in_folder(desk, observed, op, command))


async def _run_in_folder(desk: TaskJobContext, observed: ObservedTask, op: str, command: ProcessCommand) -> ProcessExit:
    """Runs the command in its folder, which is made first if it is not there."""
    try:
        desk.surroundings.make_ground(command.cwd, observed.workspace.encloser, observed.workspace.fork)
    except OSError as error:
        words = f"the folder {command.cwd} cannot be made: {error.strerror}"
        return ProcessExit(ExitCause.NOT_STARTED, None, words.encode(errors="replace"))
    return await desk.processes.run(op, command)


async def stop_command(desk: TaskJobContext, uid: Uid, address: str, job: StopJob) -> None:
    """Stops a command that an earlier owner left, and says that it was stopped."""
    await desk.processes.stop(job.op)
    _settle(desk, uid, address, job.call, finish.cancelled_outcome())


async def _begin(desk: TaskJobContext, observed: ObservedTask) -> tuple[ProcessCommand, str, str]:
    """Writes that the command starts, durably; returns it with the address of its call and its operation id."""
    op = desk.ids.mint()
    call_id = observed.motion.call.uid if observed.motion.call is not None else op
    incarnation = decide.incarnation_to_start(observed)
    written = decide.command_started_step(observed, journal.call_address(call_id))
    started = journal.start_changes(_call(observed, incarnation, op), call_id)
    command = _command(desk, observed, incarnation)
    changes = (*started, *step_changes(observed, written))
    draft = RecordDraft("call.started", ACTOR, observed.address, changes, {"op": op, "incarnation": incarnation})
    # This await is the law: nothing may run before it returns.
    await desk.store.append(draft, {observed.address: observed.me.rev})
    return command, journal.call_address(call_id), op


async def _see_out(desk: TaskJobContext, observed: ObservedTask, call: str, process: Awaitable[ProcessExit]) -> None:
    """Waits for the process and writes how it ended; a cancelled job has stopped it by then."""
    uid, address, work = observed.me.uid, observed.address, observed.spec.work
    assert isinstance(work, RunWork)
    try:
        exit_ = await process
    except anyio.get_cancelled_exc_class():
        # Unless the plan called it off, the owner itself stops: a command that is still wanted was cut off in the
        # middle, and how far it got nobody knows.
        is_called_off = _is_called_off(desk, uid, address, call)
        _settle(desk, uid, address, call, finish.cancelled_outcome() if is_called_off else finish.lost_outcome(work))
        raise
    blob = desk.store.put_blob(exit_.output) if exit_.output else None
    _settle(desk, uid, address, call, finish.outcome_of_exit(exit_, work, blob))


def _is_called_off(desk: TaskJobContext, uid: Uid, address: str, call_address: str) -> bool:
    call = desk.store.view.get(call_address)
    me = desk.store.view.get((call.owner if call is not None else None) or address)
    return me is None or me.uid != uid or halt.is_cancelled_by_plan(desk.observer.observe_as(me, desk.clock.now()))


def _settle(desk: TaskJobContext, uid: Uid, address: str, call_address: str, ended: CommandOutcome) -> None:
    """Writes the result and the step that follows from it in one append; nothing when the call is gone already.

    Nothing is awaited between reading and writing, so the race that `expect` guards against cannot be lost.
    """
    view = desk.store.view
    call = view.get(call_address)
    if call is None:
        return
    op = call.spec["op"]
    changes = journal.settle_changes(call.address, call.uid, ended.call)
    expect: dict[str, int | None] = {call.address: call.rev}
    me = view.get(call.owner or address)
    if me is not None and me.uid == uid:
        before = desk.observer.observe_as(me, desk.clock.now())
        expect[me.address] = me.rev
        address, changes = me.address, (*changes, *step_changes(before, decide.command_ended_step(before, call, ended)))
    # Else the task is gone, and the result is kept as evidence and changes nothing (law 7).
    data: JsonObject = {"op": op, "call": call.address, "result": ended.call.to_json()}
    blobs = (ended.call.blob,) if ended.call.blob else ()
    rev = desk.store.propose(RecordDraft("call.settled", ACTOR, address, changes, data, blobs), expect)
    if ended.call.state is not CallState.UNKNOWN:
        desk.clearing.note(op, rev, address)


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


def task_sandbox(desk: TaskJobContext, observed: ObservedTask) -> CommandSandbox | None:
    """What the commands of the task are enclosed in, its checks among them."""
    return desk.surroundings.sandbox(desk.store.view, observed.workspace.encloser, observed.workspace.fork)


def _command(desk: TaskJobContext, observed: ObservedTask, incarnation: int) -> ProcessCommand:
    spec, work = observed.spec, observed.spec.work
    assert isinstance(work, RunWork) and isinstance(observed.workspace.folder, str), (
        "it was just decided that it may begin"
    )
    return ProcessCommand(
        cwd=observed.workspace.folder,
        argv=work.argv,
        shell=work.shell,
        env=desk.surroundings.env(observed.address, spec, incarnation, observed.workspace.encloser),
        timeout_s=budgets.timeout_s(observed),
        output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
        sandbox=task_sandbox(desk, observed),
    )


# The job of one acceptance check: runs it, and writes what it found with the step that follows, in one append.


async def run_task_check(desk: TaskJobContext, uid: Uid, address: str, job: CheckJob) -> None:
    """Runs the check, if its result is still missing. It is of class read: cancelled or lost, it just runs again."""
    observed = _wanted(desk, uid, address, job)
    if observed is None:
        return
    spec, surroundings = observed.spec, desk.surroundings
    env = surroundings.env(observed.address, spec, observed.progress.incarnation, observed.workspace.encloser)
    started_at = desk.clock.now()
    if isinstance(observed.workspace.folder, str):
        with suppress(OSError):  # The check says that it has no folder.
            surroundings.make_ground(observed.workspace.folder, observed.workspace.encloser, observed.workspace.fork)
        box = task_sandbox(desk, observed)
        environment = run.CheckEnvironment(
            desk.processes,
            desk.ids,
            observed.workspace.folder,
            surroundings.no_links_from(observed.workspace.encloser, observed.workspace.fork),
            env,
            surroundings.containers,
            str(uid),
            box,
        )
        finding = await surroundings.check(job.check, environment)
    else:
        finding = run.CheckFinding("error", f"not run: {observed.workspace.folder.words}")
    before = desk.observer.observe(address, desk.clock.now(), without_job=job.key)
    if before is None or before.me.uid != uid or not _is_asked(before, job):
        return  # Edited or called off meanwhile: the finding is about something that is no longer asked.
    blob = desk.store.put_blob(finding.output) if finding.output else None
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
    desk.store.propose(draft, {before.address: before.me.rev})


def _is_asked(observed: ObservedTask, job: CheckJob) -> bool:
    progress = observed.progress
    is_same = progress.round.number == job.round and observed.digests.get(job.check.key) == job.digest
    return is_same and progress.round.why is not None and not observed.me.deleting


def _wanted(desk: TaskJobContext, uid: Uid, address: str, job: CheckJob) -> ObservedTask | None:
    """The task, if it still asks for this check in this round."""
    observed = desk.observer.observe(address, desk.clock.now(), without_job=job.key)
    if observed is None or observed.me.uid != uid:
        return None
    return observed if job.key in [wanted.key for wanted in next_step(observed).start] else None


# The job that finds out whether a sandbox is to be had; the task that wanted to know looks again when it ends.


async def try_sandbox(desk: TaskJobContext, job: TryJob) -> None:
    """Tries it, once for all tasks that want the same, and says in the plan's status what came of it."""
    answer = await desk.surroundings.sandboxes.tried(job.wish)
    plan = desk.store.view.get(f"plan/{desk.surroundings.plan}")
    told: JsonObject = {job.wish.words: answer.to_json()}
    if plan is None or (plan.status.get("sandbox") or {}).get(job.wish.words) == told[job.wish.words]:
        return
    change = SetStatus(plan.address, plan.uid, {"sandbox": told})
    desk.store.propose(
        RecordDraft("plan.condition", ACTOR, plan.address, (change,), {"sandbox": told}), {plan.address: plan.rev}
    )
