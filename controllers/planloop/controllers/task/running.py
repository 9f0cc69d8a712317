"""The job of a command: `Started` and the status in one flushed append, the process, its result in one append.

It decides once more when its slot comes, on what then holds, so an edit made while it waited needs no cancelling. A
crash leaves the call Started; the next owner's job adopts the process (law 5).
"""

from __future__ import annotations

from collections.abc import Awaitable

import anyio

from planloop.controllers.task import budgets, flight, halting, outcome, settling, writing
from planloop.controllers.task.clearing import Clearing
from planloop.controllers.task.deciding import step_for
from planloop.controllers.task.observing import Observed, Observer
from planloop.controllers.task.outcome import Outcome
from planloop.controllers.task.step import RunJob, StopJob
from planloop.controllers.task.surroundings import Surroundings
from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.effects import journal
from planloop.reconciler.effects.processes import Command, Ending, Exit, Processes, Sandbox
from planloop.reconciler.storing.store import Store
from planloop.schemas import limits
from planloop.schemas.call import CallSpec, CallState, EffectClass
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.record import Draft
from planloop.schemas.resource import Uid
from planloop.schemas.task import Run


@frozen
class Desk:
    """What the jobs of tasks work with."""

    store: Store
    processes: Processes
    clock: Clock
    ids: Ids
    observer: Observer
    surroundings: Surroundings
    clearing: Clearing


async def run(desk: Desk, uid: Uid, address: str, job: RunJob) -> None:
    """Runs or adopts the command of the task, if that is still what is wanted."""
    observed = desk.observer.observe(address, desk.clock.now(), without_job=job.key)
    if observed is None or observed.me.uid != uid or not isinstance(observed.spec.work, Run):
        return
    if job.key not in [wanted.key for wanted in step_for(observed).start]:
        return
    if flight.is_call_started(observed) and observed.call is not None:
        left_by_another = observed.call
        adoption = desk.processes.adopt(left_by_another.spec["op"], budgets.timeout_s(observed))
        await _see_out(desk, observed, left_by_another.address, adoption)
        return
    command, call, op = await _begin(desk, observed)
    await _see_out(desk, observed, call, _run_in_folder(desk, observed, op, command))


async def _run_in_folder(desk: Desk, observed: Observed, op: str, command: Command) -> Exit:
    """Runs the command in its folder, which is made first if it is not there."""
    try:
        desk.surroundings.make_ground(command.cwd, observed.encloser, observed.fork)
    except OSError as error:
        words = f"the folder {command.cwd} cannot be made: {error.strerror}"
        return Exit(Ending.NOT_STARTED, None, words.encode(errors="replace"))
    return await desk.processes.run(op, command)


async def stop(desk: Desk, uid: Uid, address: str, job: StopJob) -> None:
    """Stops a command that an earlier owner left, and says that it was stopped."""
    await desk.processes.stop(job.op)
    _settle(desk, uid, address, job.call, outcome.cancelled())


async def _begin(desk: Desk, observed: Observed) -> tuple[Command, str, str]:
    """Writes that the command starts, durably; returns it with the address of its call and its operation id."""
    op = desk.ids.mint()
    call_id = observed.call.uid if observed.call is not None else op
    incarnation = settling.next_incarnation(observed)
    written = settling.begins(observed, journal.call_address(call_id))
    started = journal.started(_call(observed, incarnation, op), call_id)
    command = _command(desk, observed, incarnation)
    changes = (*started, *writing.changes_of(observed, written))
    draft = Draft("call.started", writing.ACTOR, observed.address, changes, {"op": op, "incarnation": incarnation})
    # This await is the law: nothing may run before it returns.
    await desk.store.append(draft, {observed.address: observed.me.rev})
    return command, journal.call_address(call_id), op


async def _see_out(desk: Desk, observed: Observed, call: str, process: Awaitable[Exit]) -> None:
    """Waits for the process and writes how it ended; a cancelled job has stopped it by then."""
    uid, address, work = observed.me.uid, observed.address, observed.spec.work
    assert isinstance(work, Run)
    try:
        exit_ = await process
    except anyio.get_cancelled_exc_class():
        # Unless the plan called it off, the owner itself stops: a command that is still wanted was cut off in the
        # middle, and how far it got nobody knows.
        is_called_off = _is_called_off(desk, uid, address, call)
        _settle(desk, uid, address, call, outcome.cancelled() if is_called_off else outcome.lost(work))
        raise
    blob = desk.store.put_blob(exit_.output) if exit_.output else None
    _settle(desk, uid, address, call, outcome.of_exit(exit_, work, blob))


def _is_called_off(desk: Desk, uid: Uid, address: str, call_address: str) -> bool:
    call = desk.store.view.get(call_address)
    me = desk.store.view.get((call.owner if call is not None else None) or address)
    return me is None or me.uid != uid or halting.is_called_off(desk.observer.observe_as(me, desk.clock.now()))


def _settle(desk: Desk, uid: Uid, address: str, call_address: str, ended: Outcome) -> None:
    """Writes the result and the step that follows from it in one append; nothing when the call is gone already.

    Nothing is awaited between reading and writing, so the race that `expect` guards against cannot be lost.
    """
    view = desk.store.view
    call = view.get(call_address)
    if call is None:
        return
    op = call.spec["op"]
    changes = journal.settled(call.address, call.uid, ended.call)
    expect: dict[str, int | None] = {call.address: call.rev}
    me = view.get(call.owner or address)
    if me is not None and me.uid == uid:
        before = desk.observer.observe_as(me, desk.clock.now())
        expect[me.address] = me.rev
        address, changes = me.address, (*changes, *writing.changes_of(before, settling.ended(before, call, ended)))
    # Else the task is gone, and the result is kept as evidence and changes nothing (law 7).
    data: JsonObject = {"op": op, "call": call.address, "result": ended.call.to_json()}
    blobs = (ended.call.blob,) if ended.call.blob else ()
    rev = desk.store.propose(Draft("call.settled", writing.ACTOR, address, changes, data, blobs), expect)
    if ended.call.state is not CallState.UNKNOWN:
        desk.clearing.note(op, rev, address)


def _call(observed: Observed, incarnation: int, op: str) -> CallSpec:
    work = observed.spec.work
    assert isinstance(work, Run)
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


def sandbox(desk: Desk, observed: Observed) -> Sandbox | None:
    """What the commands of the task are enclosed in, its checks among them."""
    return desk.surroundings.sandbox(desk.store.view, observed.encloser, observed.fork)


def _command(desk: Desk, observed: Observed, incarnation: int) -> Command:
    spec, work = observed.spec, observed.spec.work
    assert isinstance(work, Run) and isinstance(observed.ground, str), "it was just decided that it may begin"
    return Command(
        cwd=observed.ground,
        argv=work.argv,
        shell=work.shell,
        env=desk.surroundings.env(observed.address, spec, incarnation, observed.encloser),
        timeout_s=budgets.timeout_s(observed),
        output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
        sandbox=sandbox(desk, observed),
    )
