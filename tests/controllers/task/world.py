"""A plan in memory whose effects are said, not run: the pure core of the task controller, step by step.

The view, the fold, the tallies and the rules are the product's. Jobs are only noted; a test says when a command begins
and how it ends, and what a check finds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from planloop.controllers.shared.sandbox import GROUP_ONLY, SandboxSupport
from planloop.controllers.shared.workspace import WorkspaceFault
from planloop.controllers.task import decide, jobs
from planloop.controllers.task.counters import TaskCounters
from planloop.controllers.task.decide import decide_task
from planloop.controllers.task.finish import CommandOutcome, cancelled_outcome, outcome_of_exit
from planloop.controllers.task.observe import ObservedTask, TaskObserver
from planloop.controllers.task.step import CheckJob, RunJob, StopJob, TaskJob, TaskStep
from planloop.reconciler.effects import journal
from planloop.reconciler.store.store import View
from tests.controllers.task.harness import family, is_at, put
from tests.product import (
    AgentWork,
    CallSpec,
    CallState,
    Change,
    Drop,
    ExitCause,
    Json,
    JsonObject,
    Mark,
    MemoryView,
    Put,
    Record,
    RecordDraft,
    Resource,
    RunWork,
    SetStatus,
    TaskSpec,
    Uid,
    task_from_json,
)
from tests.product import ProcessExit as Exit


@dataclass
class NotedPlane:
    """A work plane that runs nothing. Jobs are queued until a test gives them their slot."""

    jobs: dict[str, TaskJob] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    slots: set[str] = field(default_factory=set)

    def start(self, key: str, owner: str, job: Callable[[], Awaitable[None]], *, pool: str, priority: int = 0) -> None:
        raise AssertionError("the pure core starts nothing")

    def without_waking(self, address: str) -> AbstractContextManager[None]:
        raise AssertionError("the pure core writes nothing")

    def poke(self, address: str, *, after_s: float = 0.0, priority: int = 0) -> None:
        raise AssertionError("the pure core wakes no object")

    def note(self, owner: str, job: TaskJob) -> None:
        self.jobs.setdefault(job.key, job)
        self.owners[job.key] = owner

    def cancel(self, key: str) -> None:
        # A running job lives on until it has cleaned up.
        if key not in self.slots:
            self.jobs.pop(key, None)

    def end(self, key: str) -> None:
        self.jobs.pop(key, None)
        self.slots.discard(key)

    def is_live(self, key: str) -> bool:
        return key in self.jobs

    def is_running(self, key: str) -> bool:
        return key in self.slots

    def live_for(self, owner: str) -> Sequence[str]:
        return [key for key in self.jobs if self.owners[key] == owner]


class Crash(Exception):
    """The owner dies right after a write."""


class World:
    """Tasks and agents as objects, and a clock that stands until it is moved."""

    def __init__(self, **tasks: TaskSpec) -> None:
        self.view = MemoryView()
        self.plane = NotedPlane()
        self.tallies = TaskCounters()
        self.now = 1_000.0
        self.specs: dict[str, TaskSpec] = {}
        self.writes = 0
        self.folds = 0
        self.crash_after: int | None = None
        self.astray: WorkspaceFault | None = None
        self.sandboxes: SandboxSupport = GROUP_ONLY
        self.looks: list[str] = []
        self.edit({name.replace("_", "/").replace("root", "."): wanted for name, wanted in tasks.items()})

    # What people and agents do.

    def edit(self, changes: dict[str, TaskSpec | None]) -> None:
        """Writes tasks by path (`.` is the root): new, changed, or None to remove."""
        before = family(self.specs)
        for name, wanted in changes.items():
            address = f"task/{name}"
            if wanted is None:
                self.specs = {known: kept for known, kept in self.specs.items() if not is_at(known, address)}
            else:
                self.specs[address] = wanted
        after = family(self.specs)
        self.fold(*[put(each, after[each], self._uid(each)) for each in after if after[each] != before.get(each)])
        for gone in set(before) - set(after):
            self.fold(Mark(gone, self[gone].uid, deleting=True))

    def change(self, name: str, **fields: Any) -> None:
        self.edit({name: replace(self.specs[f"task/{name}"], **fields)})

    def agent(self, name: str, **status: Json) -> None:
        """Says what an agent's status is; the agent appears at the first word about it."""
        address = f"agent/{name}"
        if self.view.get(address) is None:
            self.fold(Put(address, Uid(f"uid-{address}"), {"mind": {"kind": "script", "steps": []}}))
        self.fold(SetStatus(address, Uid(f"uid-{address}"), status))

    def mind(self, name: str, steps: list[JsonObject]) -> None:
        address = f"agent/{name}"
        self.fold(Put(address, Uid(f"uid-{address}"), {"mind": {"kind": "script", "steps": steps}}))

    # What the controller does.

    def ground(self, view: View, task: str, spec: TaskSpec, *_: Resource | None) -> str | WorkspaceFault:
        """The folder of a task, recorded; none while `astray` is set."""
        self.looks.append(task)
        return self.astray or f"/plan/{spec.cwd}"

    def observe(self, name: str) -> ObservedTask:
        observed = self._observer().observe(f"task/{name}", self.now)
        assert observed is not None
        return observed

    def step(self, name: str) -> TaskStep:
        """One reconcile."""
        observed = self.observe(name)
        step = decide_task(observed)
        changes = jobs.step_changes(observed, step)
        if changes:
            self.fold(*changes)
            self.writes += 1
        for key in step.cancel:
            self.plane.cancel(key)
        for job in step.start:
            self.plane.note(observed.address, job)
        self._drop_released()
        return step

    def settle(self) -> None:
        """Reconciles everything until nothing is written any more."""
        for _ in range(200):
            before = self.writes, len(self.plane.jobs), self.view.rev
            for task in list(self.view.list("task")):
                if self.view.get(task.address) is not None:
                    self.step(task.address.removeprefix("task/"))
            if (self.writes, len(self.plane.jobs), self.view.rev) == before:
                return
        raise AssertionError("the rules never come to rest")

    # What the world does.

    def begin(self, name: str) -> str:
        """The queued command of a task gets its slot and starts; returns its call."""
        (job,) = [job for job in self._jobs(name) if isinstance(job, RunJob)]
        before = self._without(name, job.key)
        call = f"call/{before.me.uid}-{self.view.rev}".replace("task/", "")
        step = decide.command_started_step(before, call)
        assert isinstance(before.spec.work, RunWork)
        spec = CallSpec(before.address, before.me.uid, decide.incarnation_to_start(before), "op", "run", {})
        self.fold(*journal.start_changes(spec, call.removeprefix("call/")), *jobs.step_changes(before, step))
        self.plane.slots.add(job.key)
        self.settle()
        return call

    def end(self, name: str, code: int = 0, *, ending: ExitCause = ExitCause.EXITED, took_s: float = 1.0) -> None:
        """The command of a task ends."""
        self.now += took_s
        work = task_from_json(self[f"task/{name}"].spec).work
        assert isinstance(work, RunWork)
        self._end(name, outcome_of_exit(Exit(ending, code, b"said\n"), work, None))

    def stopped(self, name: str) -> None:
        """The command of a task was stopped by its cancelled job."""
        self._end(name, cancelled_outcome())

    def run(self, name: str, code: int = 0) -> None:
        """Begins and ends the command of a task."""
        self.begin(name)
        self.end(name, code)

    def finds(self, name: str, result: str, key: str = "0") -> None:
        """A check of a task comes to a result."""
        (job,) = [job for job in self._jobs(name) if isinstance(job, CheckJob) and job.check.key == key]
        before = self._without(name, job.key)
        entry: JsonObject = {
            "result": result,
            "message": f"it is a {result}",
            "at": self.now,
            "incarnation": before.progress.incarnation,
            "round": job.round,
            "digest": job.digest,
            "blob": None,
        }
        self.plane.end(job.key)
        self.fold(*jobs.step_changes(before, decide.check_found_step(before, job, entry)))
        self.settle()

    # What tests look at.

    def __getitem__(self, address: str) -> Resource:
        found = self.view.get(address)
        assert found is not None, f"there is no {address}"
        return found

    def state(self, name: str) -> str:
        return self[f"task/{name}"].state

    def says(self, name: str) -> str:
        """The state and the reason, as they are or would be written."""
        step = decide_task(self.observe(name))
        return f"{step.says.state} {step.says.reason}"

    def queued(self) -> list[str]:
        """The tasks whose command waits for a slot, by path."""
        runs = [key for key, job in self.plane.jobs.items() if isinstance(job, RunJob) and key not in self.plane.slots]
        return sorted(self.plane.owners[key].removeprefix("task/") for key in runs)

    def checking(self, name: str) -> list[str]:
        return sorted(job.check.key for job in self._jobs(name) if isinstance(job, CheckJob))

    def stopping(self) -> list[str]:
        return sorted(job.call for job in self.plane.jobs.values() if isinstance(job, StopJob))

    def fold(self, *changes: Change) -> None:
        if not changes:
            return
        draft = RecordDraft("task.changed", "controller:task", "task/.", changes)
        self.folds += 1
        changed = self.view.fold(Record(self.view.rev + 1, self.now, 1, draft))
        self.tallies.update(self.view, changed)
        if self.folds == self.crash_after:
            raise Crash

    def _end(self, name: str, outcome: CommandOutcome) -> None:
        running = [job.key for job in self._jobs(name) if isinstance(job, RunJob)]
        before = self._without(name, running[0] if running else "")
        call = before.motion.call
        assert call is not None
        step = decide.command_ended_step(before, call, outcome)
        for key in running:
            self.plane.end(key)
        self.fold(*journal.settle_changes(call.address, call.uid, outcome.call), *jobs.step_changes(before, step))
        self.settle()

    def _without(self, name: str, key: str) -> ObservedTask:
        observed = self._observer().observe(f"task/{name}", self.now, without_job=key)
        assert observed is not None
        return observed

    def _observer(self) -> TaskObserver:
        return TaskObserver(self.view, self.tallies, self.plane, ground=self.ground, sandboxes=self.sandboxes)

    def _jobs(self, name: str) -> list[TaskJob]:
        return [job for key, job in self.plane.jobs.items() if self.plane.owners[key] == f"task/{name}"]

    def _uid(self, address: str) -> Uid:
        """The uid of the task there; for a new one, one that no task has, also none that has moved away from there."""
        if (found := self.view.get(address)) is not None:
            return found.uid
        used, uid = {task.uid for task in self.view.list("task")}, f"uid-{address}"
        while uid in used:
            uid += "'"
        return Uid(uid)

    def _drop_released(self) -> None:
        for task in list(self.view.list("task")):
            if task.deleting and not task.finalizers:
                self.fold(Drop(task.address, task.uid))


def by_agent(name: str) -> AgentWork:
    return AgentWork(f"agent/{name}")


def started(world: World, call: str) -> bool:
    return world[call].state == CallState.STARTED
