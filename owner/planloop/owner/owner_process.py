"""The process that owns a plan: engine, API, file watcher and screen under one task group.

Detaching works like a crash, which is tested most: acknowledged records are durable, commands keep running, and the
next owner adopts them. Therefore nothing may depend on cleanup.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NoReturn

import anyio
from anyio.abc import TaskGroup, TaskStatus

from planloop.client import engine_access, owner_client
from planloop.client.error_report import refused_error
from planloop.client.exit_codes import ExitCode
from planloop.client.plan_file import PlanFile
from planloop.client.render import object_tables, records
from planloop.owner import build, container_teardown
from planloop.owner.build import PlanRuntime
from planloop.owner.plan_file_sync import PlanFileSync
from planloop.owner.screen import ProgressScreen, ScreenKey
from planloop.owner.stop_commands import record_stopped
from planloop.reconciler.diff.file_patch import FileSave
from planloop.reconciler.effects.journal import Recovery, recover_calls
from planloop.reconciler.engine.work_pools import WorkPools
from planloop.reconciler.store.store import View
from planloop.schemas import quantities
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.gc_control import freeze_and_collect_rarely
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.limits import PARALLEL_DEFAULT
from planloop.schemas.log.patch import HUMAN_CLI, Patch
from planloop.schemas.log.record import Record
from planloop.schemas.objects.agent import surviving_request
from planloop.schemas.objects.case import CaseState
from planloop.schemas.objects.task import ENDED, TaskState
from planloop.schemas.resource import Resource
from planloop.server import owner_listener
from planloop.server.opened_plan import OpenedPlan

if TYPE_CHECKING:
    from planloop.server.owner_service import OwnerService

ROOT_TASK: Final = "task/."
FLUSHES_MAX: Final = 10  # On detaching. Each flush covers all earlier writes.
LEFT_BEHIND: Final = 50  # Records that are searched for the last one of an earlier owner.
LOOK_S: Final = 0.02  # How often to check whether the engine of an ended plan is idle.


class ExitReason(Enum):
    """Why an owner stopped."""

    FINISHED = "finished"  # Every task is done, failed or cancelled.
    LEFT = "left"  # Ctrl-C or a closed terminal: commands keep running.
    HANDED_OVER = "handed over"  # `q`: another owner takes over in the background.
    DOWN = "down"  # `plan down`: commands were stopped.


@frozen
class OwnerOptions:
    """Options of `plan apply`.

    `save` is the first save to apply, and the pattern for later ones; None ignores the file and keeps the live plan.
    `words` are the options for a command that resumes the plan. `stay` keeps the owner running after all tasks have
    ended; `size_max` limits the file.
    """

    file: PlanFile
    save: FileSave | None
    size_max: int
    words: tuple[str, ...] = ()
    stay: bool = False
    sync: bool = False


class OwnerProcess:
    """One run of one plan by this process."""

    def __init__(
        self, core: OpenedPlan, wish: OwnerOptions, screen: ProgressScreen, on_leave: Callable[[ExitReason], NoReturn]
    ) -> None:
        self._on_leave = on_leave
        self._core = core
        self._wish = wish
        self._screen = screen
        self._edits = PlanFileSync(core, wish.file, wish.save, wish.size_max, screen.say)
        self._leaving: ExitReason | None = None
        self._over = anyio.Event()
        self._group: TaskGroup | None = None
        self._screen_scope = anyio.CancelScope()
        self._screen_closed = anyio.Event()
        self._moved = anyio.Event()
        self._takes_volumes = False
        self.is_cleared = True  # After the run: whether every container that is not needed was removed.

    async def run(self) -> ExitReason:
        """Run the plan until it ends. Raises CommandError if the file is refused, EngineError if the log fails."""
        core = self._core
        if self._wish.file.document.get("containers") or core.store.view.list("container"):
            engine_access.preload_container_client()
        bounds = plan_limits(self._wish.file.document)
        machine = build.build_runtime(core, parallel=bounds[0], models=bounds[1])
        telemetry = build.start_telemetry(core, machine.engine)
        machine.engine.on_bug = lambda report: self._screen.say(f"bug: {report.address}: {report.error!r}")
        recovery = await recover_calls(core.store, machine.processes)
        swept = await machine.processes.sweep(recovery.keep | _requests_that_go_on(core.store.view))
        await self._tell_takeover(recovery, swept)
        self._screen.begin(core.store.view, core.place.name)
        core.store.on_change(self._note)
        core.store.on_change(lambda record, _: self._heed_limits(record, machine.work))
        await self._begin()
        freeze_and_collect_rarely()  # After the long-lived objects have been created.
        core.place.note_file(self._wish.file.path)

        def service() -> OwnerService:
            return build.owner_service(core, self._wish.file.path, self._stop, machine.servers)

        async with owner_listener.serve_owner(service, core.place.folder) as own, anyio.create_task_group() as group:
            await self._start_all(group, machine)
            await self._over.wait()
            if self._wish.sync:
                await self._edits.sync_now()
            if self._leaving in (ExitReason.LEFT, ExitReason.HANDED_OVER):
                owner_client.remove_socket(core.place.folder, own)
                await self._close_screen()
                await self._flush_all()
                telemetry.close()
                # Ends the process. Cancelling the group would stop commands that are to keep running.
                self._on_leave(self._leaving)
            group.cancel_scope.cancel()
        telemetry.close()
        assert self._leaving is not None
        if self._leaving is ExitReason.DOWN:
            await machine.processes.sweep(frozenset())
            await record_stopped(core)
            await container_teardown.take_down(core, self._screen.say, with_volumes=self._takes_volumes)
        else:
            self.is_cleared = await container_teardown.remove_unneeded(core, self._screen.say)
        return self._leaving

    def leave(self, how: ExitReason) -> None:
        """Stop the owner. The first reason counts."""
        if self._leaving is None:
            self._leaving = how
            self._over.set()

    async def _show(self) -> None:
        try:
            with self._screen_scope:
                await self._screen.run(self._pressed)
        finally:
            self._screen_closed.set()

    async def _close_screen(self) -> None:
        """Close only the screen, which restores the terminal."""
        self._screen_scope.cancel()
        await self._screen_closed.wait()

    async def _flush_all(self) -> None:
        """Make all records durable, including those written meanwhile. Stop after FLUSHES_MAX if writing continues."""
        store, flushed = self._core.store, -1
        for _ in range(FLUSHES_MAX):
            if (rev := store.view.rev) == flushed:
                return
            await store.flush(rev)
            flushed = rev

    def _pressed(self, key: ScreenKey) -> None:
        match key:
            case ScreenKey.HAND_OVER:
                self.leave(ExitReason.HANDED_OVER)
            case ScreenKey.PAUSE:
                assert self._group is not None, "keys are read while the group runs"
                self._group.start_soon(self._toggle_pause)

    async def _toggle_pause(self) -> None:
        plan = self._core.plan
        if plan is not None:
            op = PatchOp("remove", ("pause",)) if plan.spec.get("pause") else PatchOp("add", ("pause",), True)
            await self._core.gate.submit(Patch(HUMAN_CLI, (op,), self._core.store.view.rev, "pressed p"))

    async def _start_all(self, group: TaskGroup, machine: PlanRuntime) -> None:
        # First, so that Ctrl-C works while the other parts start.
        await group.start(self._heed_signals)
        group.start_soon(machine.background.run)
        # Wait until everything is queued. Before that, the plan of an earlier owner looks finished.
        await group.start(machine.engine.run)
        group.start_soon(self._show)
        self._group = group
        if not self._wish.stay:
            group.start_soon(self._until_finished, machine)
        if self._wish.save is not None:
            group.start_soon(self._edits.follow)
        if self._wish.sync:
            group.start_soon(self._edits.sync)

    async def _begin(self) -> None:
        """Apply the file of the command. Raises CommandError if it is refused and no earlier plan can continue."""
        if self._wish.save is None:
            return
        verdict = await self._edits.submit(self._wish.save)
        if verdict["verdict"] == "refused" and not self._core.had_plan:
            raise refused_error(verdict)

    async def _tell_takeover(self, recovery: Recovery, swept: list[str]) -> None:
        """Report what the earlier owner left; nothing for a plan that had ended."""
        core = self._core
        parts = [
            f"{quantities.pluralize(len(recovery.adoptable), 'command')} adopted" if recovery.adoptable else "",
            f"{quantities.pluralize(len(recovery.again), 'call')} run again" if recovery.again else "",
            f"{quantities.pluralize(len(recovery.in_doubt), 'call')} with unknown outcome" if recovery.in_doubt else "",
            f"{quantities.pluralize(len(swept), 'stray process', 'stray processes')} stopped" if swept else "",
        ]
        if not core.had_plan or (self._is_ended() and not any(parts)):
            return
        say = self._screen.say
        left = await _left_at(core)
        say(f"{core.place.name}  resumes" + (f" the run that stopped at {left}" if left else ""))
        if any(parts):
            say("  " + " · ".join(part for part in parts if part))
        for address in recovery.in_doubt:
            call = core.store.view.get(address)
            if call is not None:
                say(_doubt_words(call))

    async def _until_finished(self, machine: PlanRuntime) -> None:
        while not await self._is_finished(machine):
            if self._is_ended():
                await anyio.sleep(LOOK_S)
            else:
                self._moved = anyio.Event()
                await self._moved.wait()
        self.leave(ExitReason.FINISHED)

    async def _is_finished(self, machine: PlanRuntime) -> bool:
        """Return whether nothing is left to do. Removing containers may show that something is."""
        if not (self._is_ended() and _is_idle(machine)):
            return False
        await container_teardown.wait_until_gone(self._core, machine.work)
        return self._is_ended() and _is_idle(machine)

    def _note(self, record: Record, changed: Sequence[str]) -> None:
        self._screen.record(record, tuple(changed))
        self._moved.set()
        if f"plan/{self._core.place.name}" in changed and record.draft.type == "plan.patched":
            self._edits.changed()

    def _heed_limits(self, record: Record, work: WorkPools) -> None:
        """Apply edited limits to the next command that starts."""
        plan = self._core.plan
        if plan is not None and record.draft.type == "plan.patched":
            parallel, models = plan_limits(plan.spec)
            work.resize("tools", parallel)
            for pattern, bound in models.items():
                work.resize(f"models:{pattern}", bound)

    def _is_ended(self) -> bool:
        view = self._core.store.view
        root = view.get(ROOT_TASK)
        # A benchmark entry may wait, with no job running, until its workspace is known to be unused.
        return root is not None and root.state in ENDED and all(_is_judged(case) for case in view.list("case"))

    async def _stop(self, is_left: bool, takes_volumes: bool) -> None:
        self._takes_volumes = takes_volumes
        self.leave(ExitReason.LEFT if is_left else ExitReason.DOWN)

    async def _heed_signals(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as received:
            task_status.started()
            async for _ in received:
                if self._leaving is not None:
                    os._exit(130)  # The second signal: do not wait for a slow disk.
                self.leave(ExitReason.LEFT)


def _is_judged(case: Resource) -> bool:
    return case.deleting or case.state == CaseState.ENDED


def plan_limits(document: JsonObject) -> tuple[int, dict[str, int]]:
    """Return the limits for concurrent commands, and for concurrent requests by model pattern."""
    limits = document.get("limits") or {}
    return int(limits.get("parallel", PARALLEL_DEFAULT)), dict(limits.get("models") or {})


def exit_code_of_plan(view: View) -> ExitCode:
    """Return the exit code of a plan that has ended."""
    root = view.get(ROOT_TASK)
    state = root.state if root is not None else ""
    if state == TaskState.CANCELLED:
        return ExitCode.CANCELLED
    failed = any(task.state == TaskState.FAILED for task in view.list("task"))
    return ExitCode.FINISHED_WITH_FAILURES if failed or state != TaskState.DONE else ExitCode.DONE


async def _left_at(core: OpenedPlan) -> str:
    """Return the time of the last record of an earlier owner; empty if it is not among the newest records."""
    rev = core.store.view.rev
    for record in reversed(await core.store.log(max(0, rev - LEFT_BEHIND), LEFT_BEHIND)):
        if record.draft.type != "epoch.taken" and not record.draft.actor.startswith("human:"):
            return records.clock_time(record.at)
    return ""


def _is_idle(machine: PlanRuntime) -> bool:
    counts = machine.queue.counts()
    return not (counts.ready or counts.processing or machine.work.live_count)


def _doubt_words(call: Resource) -> str:
    spec = call.spec
    arguments = ", ".join(repr(value) for value in spec.get("arguments", {}).values() if isinstance(value, str))
    return (
        f"  ? {spec['owner']}  {spec['tool']}({arguments})  outcome unknown, effect {spec['effect']}\n"
        f"    plan describe {call.address} · plan approve {call.address} --happened · or: --did-not"
    )


def plan_summary(view: View, plan: str) -> str:
    """`webchat  done: 5 of 5 tasks` or `webchat  failed: 3 of 5 tasks done, 1 failed, 1 waiting`."""
    tasks = [task for task in view.list("task") if task.address != ROOT_TASK]
    states = [task.state or "waiting" for task in tasks]
    root = view.get(ROOT_TASK)
    others = [state for state in dict.fromkeys(states) if state != TaskState.DONE]
    rest = "".join(f", {states.count(state)} {state}" for state in others)
    state = root.state if root is not None else "new"
    if root is not None and (state == TaskState.FAILED or not tasks):
        reason = object_tables.state_reason(root)
        counted = f": {states.count('done')} of {len(states)} tasks done{rest}" if tasks else ""
        return f"{plan}  {state}{counted}" + (f"{';' if counted else ':'} {reason}" if reason else "")
    return f"{plan}  {state}: {states.count('done')} of {len(states)} tasks done{rest}"


def _requests_that_go_on(view: View) -> frozenset[str]:
    """Return running external requests of agents of an earlier owner whose results are still needed."""
    found = (surviving_request(agent.spec, agent.status) for agent in view.list("agent"))
    return frozenset(op for op in found if op is not None)
