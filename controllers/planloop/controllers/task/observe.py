"""Observe a task: read everything that a decision about it needs into one frozen value. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final, Literal, TypeAlias

from planloop.controllers.shared.leases.grants import (
    LockMessage,
    explain_blockers,
    explain_free,
    find_blockers,
    lock_owner,
    queue_changes,
    wanted_locks_of,
    why_grant_ended,
)
from planloop.controllers.shared.sandbox import GROUP_ONLY, SandboxSupport, nearest_agent
from planloop.controllers.shared.workspace import WorkspaceFault
from planloop.controllers.task.counters import NONE, TaskCounters, TaskCounts, TaskSlot, TaskSlots
from planloop.controllers.task.status import TaskProgress, TaskStanding, read_task_progress, task_standing
from planloop.reconciler.engine.work_pools import WorkPlane
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject, sha256_of_value
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.log.record import Change
from planloop.schemas.objects import sandbox
from planloop.schemas.objects.sandbox import SANDBOX_AVAILABLE, SandboxAvailability
from planloop.schemas.objects.task import ENDED, AgentWork, GroupWork, RunWork, TaskSpec, task_from_json
from planloop.schemas.resource import Resource

# Keys of a task's jobs: the uid of the task, which survives a move, then the kind of job and its details.


def run_job_key(uid: str, incarnation: int, priority: int) -> str:
    """Return the key of the command of `incarnation`, queued at `priority`."""
    return f"{uid}:run:{incarnation}:{priority}"


def check_job_key(uid: str, round_: int, key: str, digest: str) -> str:
    """Return the key of one check of a round; `digest` identifies its version."""
    return f"{uid}:check:{round_}:{key}:{digest}"


def stop_job_key(uid: str, call: str) -> str:
    """Return the key of the job that stops a command which no job waits for."""
    return f"{uid}:stop:{call}"


def try_job_key(uid: str) -> str:
    """Return the key of the job that finds out whether the task's sandbox is available."""
    return f"{uid}:try"


def is_run_key(key: str) -> bool:
    """Whether `key` is of a job that runs a command."""
    return ":run:" in key


def is_check_key(key: str) -> bool:
    """Whether `key` is of a job that runs a check."""
    return ":check:" in key


def is_stop_key(key: str) -> bool:
    """Whether `key` is of a job that stops a command."""
    return ":stop:" in key


# Other tasks that an entry in a ledger concerns. Both look-ups are free for a task without a ledger at or above it.


def ended_grantees(view: View, me: Resource, above: Sequence[Resource]) -> tuple[str, ...]:
    """Return the uids among `me` and its ancestors `above` that hold a grant and have ended with all descendants.

    Ancestors are included, because a task may end long after its parent.
    """
    if me.deleting or me.state not in ENDED or not (above or "ledger" in me.status):
        return ()
    found: list[str] = []
    for task in (me, *above):
        if task.state not in ENDED:
            break
        if holds_grant(task) and _has_ended(view, task) and _grantees(task) <= set(found):
            found.append(task.uid)
    return tuple(found)


def ledger_relatives(view: View, me: Resource, above: Sequence[Resource]) -> tuple[Resource, ...]:
    """Return the grantees of a budget that the plan no longer has, and the givers of a budget of a moved task."""
    if "ledger" not in me.status:
        return ()
    ledger = {unit: one for unit, one in me.status["ledger"].items() if not one.get("closed")}
    if not ledger:
        return ()
    known = {task.uid for task in above}
    givers = {one["giver"] for one in ledger.values() if one.get("giver")} - known
    grantees = {uid for unit, one in ledger.items() if unit not in me.spec["budget"] for uid in one.get("granted", ())}
    wanted = givers | grantees
    return tuple(task for task in view.list("task") if task.uid in wanted) if wanted else ()


def holds_grant(task: Resource) -> bool:
    """Whether the task holds a grant from another task's budget that it has not returned."""
    if "ledger" not in task.status:
        return False
    return any(one.get("giver") and not one.get("closed") for one in task.status["ledger"].values())


def _grantees(task: Resource) -> set[str]:
    """Return the uids of the tasks that hold a grant of this task; they return theirs first."""
    return {uid for one in task.status.get("ledger", {}).values() for uid in one.get("granted", ())}


def _has_ended(view: View, task: Resource) -> bool:
    if task.deleting or task.state not in ENDED:
        return False
    children = [view.get(address) for address in task.spec["children"]]
    if any(child is None for child in children):
        return False
    return all(_has_ended(view, child) for child in view.owned_by(task.address) if child.kind == "task")


# Digests of the spec that an incarnation started with. A comparison with the current spec shows edits of running or
# finished work.
#
# There are three, because an edit of each has another effect: `work` restarts the task (a new incarnation); `goal` and
# `notes` are sent to a running agent and restart an ended one.

Basis: TypeAlias = dict[str, str]
DIGITS = 12  # 48 bits are enough: a digest is only compared with the previous one.


@mutable
class ParsedSpec:
    """Parsed spec of a task with its digests, cached until the spec changes. `digests` are of its checks, by key."""

    raw: JsonObject
    spec: TaskSpec
    own: Basis
    digests: dict[str, str]
    _agent: Resource | None = field(default=None)
    _whole: Basis | None = field(default=None)

    def basis(self, agent: Resource | None) -> Basis:
        """Return the digests. If an agent does the work, `work` covers its decider and sandbox too."""
        if agent is None:
            return self.own
        if self._whole is None or self._agent is None or self._agent.spec is not agent.spec:
            what = {"task": self.own["work"], "mind": agent.spec.get("mind"), "sandbox": agent.spec.get("sandbox")}
            self._agent, self._whole = agent, {**self.own, "work": sha256_of_value(what)[:DIGITS]}
        return self._whole


def parse_spec(raw: JsonObject) -> ParsedSpec:
    """Parse the spec of a task."""
    spec = task_from_json(raw)
    return ParsedSpec(
        raw, spec, _own(spec), {check.key: sha256_of_value(check.to_json())[:DIGITS] for check in spec.acceptance}
    )


def _own(spec: TaskSpec) -> Basis:
    match spec.work:
        case GroupWork():
            return {"work": ""}  # A group has no work of its own that an edit could make obsolete.
        case RunWork():
            what: JsonObject = {"run": _command(spec.work), "cwd": spec.cwd, "env": spec.env, "again": spec.again}
            if spec.on_change == "restart":
                what |= {"goal": spec.goal, "notes": spec.notes}
            return {"work": sha256_of_value(what)[:DIGITS]}
        case AgentWork():
            # Not the agent's address: a moved task keeps its agent and continues.
            what = {"cwd": spec.cwd, "env": spec.env, "again": spec.again}
            if spec.on_change == "restart":
                what |= {"goal": spec.goal, "notes": spec.notes}
            sent = {"goal": sha256_of_value(spec.goal)[:DIGITS], "notes": sha256_of_value(spec.notes)[:DIGITS]}
            return {"work": sha256_of_value(what)[:DIGITS], **sent}


def _command(work: RunWork) -> JsonObject:
    # `timeout` and `effect` apply to a running command too: an edit of them does not restart it.
    return {key: value for key, value in work.to_json().items() if key in ("shell", "argv")}


# The locks that a task names. One append writes the reason `AwaitingLocks` and enters the task into their queues. The
# lock controller then grants all of them at once, in the locks and in the task's status, which wakes the task.


@frozen
class MissingLock:
    """Locks that the task waits for, in words. `request` are the changes that enter it into the queues, if needed.

    `ring` names the tasks and agents of a deadlock, this task first, or empty.
    """

    words: LockMessage
    request: tuple[Change, ...]
    ring: tuple[str, ...] = ()


def missing_lock(view: View, me: Resource, spec: TaskSpec, now: float) -> MissingLock | None:
    """Return the locks that `me` must wait for before it starts; None if it holds all locks that it names."""
    missing = [path for path in spec.locks if not _is_held(view, me, path)]
    if not missing:
        return None
    owner, wants = lock_owner(me), wanted_locks_of(view, me.address)
    others = find_blockers(view, owner, wants, now)
    words = explain_blockers(others) if others else explain_free(min(missing))
    ring: JsonObject = me.status.get("ring") or {}
    return MissingLock(
        words, queue_changes(view, me.address, owner, spec.locks, spec.goal, now), tuple(ring.get("cycle", ()))
    )


def _is_held(view: View, me: Resource, path: str) -> bool:
    lock = view.get(f"lock/{path}")
    grant = None if lock is None else lock.status.get("holders", {}).get(me.address)
    return grant is not None and not why_grant_ended(view, me.address, grant, path)


# All reads are look-ups in the view and the work plane, so an observation is of one instant. Only the workspace is
# looked up on disk, when a rule first asks for it.

_BAD: Final = (TaskStanding.FAILED, TaskStanding.STUCK)

Halting: TypeAlias = Literal["cancel", "pause"]
FindWorkspace: TypeAlias = Callable[[View, str, TaskSpec, Resource | None, Resource | None], str | WorkspaceFault]
"""Returns the workspace of the task at an address, given its nearest agent and its fork: `RunEnvironment.ground`."""


class WorkspaceLook:
    """Workspace of a task, looked up with `find` at the first use and cached.

    Use it before the first await after the observation, so that it is of the same instant.
    """

    __slots__ = ("_find", "_found")

    def __init__(self, find: Callable[[], str | WorkspaceFault]) -> None:
        self._find = find
        self._found: str | WorkspaceFault | None = None

    def found(self) -> str | WorkspaceFault:
        """Return the absolute folder, or why the task may not work there."""
        if self._found is None:
            self._found = self._find()
        return self._found


@frozen
class TaskHalt:
    """Cancel or pause of a task, by the topmost of itself and its ancestors that has it. Cancel beats pause."""

    how: Halting
    by: str


@frozen
class TaskFamily:
    """Tasks related to a task. `bad_need` and `bad_child` are the first that failed or are stuck, `open_need` is the
    first that may still be done. `remains` are the objects that the task still owns; read only when it is being removed
    and has no child tasks left.
    """

    parent: Resource | None = None
    children: TaskCounts = NONE
    needs: TaskCounts = NONE
    bad_need: Resource | None = None
    bad_child: Resource | None = None
    open_need: str = ""
    remains: tuple[str, ...] = ()


@frozen
class BudgetRelatives:
    """`above` are a task's ancestors with a budget, nearest first. `over` are the uids among itself and them that have
    ended and must return a grant. `kin` are tasks elsewhere that an edit of the budget concerns.
    """

    above: tuple[Resource, ...] = ()
    over: tuple[str, ...] = ()
    kin: tuple[Resource, ...] = ()


@frozen
class TaskMotion:
    """What runs for a task: the call of its command, its agent, the keys of its jobs, and of the jobs with a slot."""

    call: Resource | None = None
    agent: Resource | None = None
    jobs: frozenset[str] = field(default_factory=frozenset)
    running: frozenset[str] = field(default_factory=frozenset)


@frozen
class TaskWorkspace:
    """Where a task works: its fork, the agent whose sandbox encloses its commands, and whether that sandbox is
    available (None: not tried yet).
    """

    look: WorkspaceLook
    fork: Resource | None = None
    encloser: Resource | None = None
    sandbox: SandboxAvailability | None = SANDBOX_AVAILABLE

    @property
    def folder(self) -> str | WorkspaceFault:
        """The absolute folder, or why the task may not work there."""
        return self.look.found()


@frozen
class StartConditions:
    """What a task waits for before it starts. `slot` is None if no limit on tasks applies, `lock` if it holds all its
    locks; `containers` are those it names that exist.
    """

    slot: TaskSlot | None = None
    lock: MissingLock | None = None
    containers: Mapping[str, Resource] = field(default_factory=dict)


@frozen
class ObservedTask:
    """A task and everything that a decision about it reads. `digests` identify its checks as written now; `now` is in
    seconds since 1970.
    """

    me: Resource
    spec: TaskSpec
    progress: TaskProgress
    basis: Basis
    digests: Mapping[str, str]
    now: float
    halt: TaskHalt | None
    family: TaskFamily
    budget: BudgetRelatives
    motion: TaskMotion
    workspace: TaskWorkspace
    start: StartConditions

    @property
    def address(self) -> str:
        return self.me.address


class TaskObserver:
    """Reads for decisions. Keeps parsed specs and statuses by address; each is parsed once in its life."""

    def __init__(
        self,
        view: View,
        counters: TaskCounters,
        plane: WorkPlane | None,
        sandboxes: SandboxSupport = GROUP_ONLY,
        slots: TaskSlots | None = None,
        *,
        ground: FindWorkspace,
    ) -> None:
        self._view = view
        self._slots = slots
        self._sandboxes = sandboxes
        self._ground = ground
        self._counters = counters
        self._plane = plane
        self._parsed: dict[str, ParsedSpec] = {}
        self._progresses: dict[str, tuple[JsonObject, TaskProgress]] = {}

    def observe(self, address: str, now: float, *, without_job: str = "") -> ObservedTask | None:
        """Return the observation of `address`; None if the object does not exist.

        `without_job` is left out of its jobs: the calling job is about to end.
        """
        me = self._view.get(address)
        if me is None:
            self._parsed.pop(address, None)
            self._progresses.pop(address, None)
            return None
        return self.observe_as(me, now, without_job=without_job)

    def observe_as(self, me: Resource, now: float, *, without_job: str = "") -> ObservedTask:
        """Return the observation of `me`, which may be the object after a write that is being composed."""
        parsed = self._parse(me)
        spec, view, progress = parsed.spec, self._view, self._progress(me)
        motion = self._motion(me, spec, progress, without_job)
        halt, above = self._upward(me)
        return ObservedTask(
            me=me,
            spec=spec,
            progress=progress,
            basis=parsed.basis(motion.agent),
            digests=parsed.digests,
            now=now,
            halt=halt,
            family=self._family(me, spec),
            budget=BudgetRelatives(above, ended_grantees(view, me, above), ledger_relatives(view, me, above)),
            motion=motion,
            workspace=self._workspace(me, spec),
            start=StartConditions(
                slot=None if self._slots is None else self._slots.slot(me.address),
                lock=missing_lock(view, me, spec, now) if spec.locks else None,
                containers={name: one for name in spec.containers if (one := view.get(name)) is not None},
            ),
        )

    def _family(self, me: Resource, spec: TaskSpec) -> TaskFamily:
        needs, children = self._counters.needs(me.address), self._counters.children(me.address)
        return TaskFamily(
            parent=self._view.get(spec.parent) if spec.parent else None,
            children=children,
            needs=needs,
            bad_need=self._first(spec.needs, (*_BAD, TaskStanding.CANCELLED)) if needs.bad + needs.cancelled else None,
            bad_child=self._first(spec.children, _BAD) if children.bad and not children.open else None,
            open_need=self._first_open(spec) if needs.open else "",
            remains=self._remains(me) if me.deleting and not sum(children) else (),
        )

    def _motion(self, me: Resource, spec: TaskSpec, progress: TaskProgress, without_job: str) -> TaskMotion:
        jobs = self._jobs(me, progress, spec.priority, without_job)
        return TaskMotion(
            call=self._view.get(progress.call) if progress.call else None,
            agent=self._view.get(spec.work.agent) if isinstance(spec.work, AgentWork) else None,
            jobs=jobs,
            running=jobs if self._plane is None else frozenset(filter(self._plane.is_running, jobs)),
        )

    def _workspace(self, me: Resource, spec: TaskSpec) -> TaskWorkspace:
        view = self._view
        encloser, fork = nearest_agent(view, me.address), view.get(spec.fork) if spec.fork else None
        look = WorkspaceLook(lambda: self._ground(view, me.address, spec, encloser, fork))
        if encloser is None:
            return TaskWorkspace(look, fork)
        known = self._sandboxes.known(sandbox.sandbox_request(encloser.spec.get("sandbox")))
        return TaskWorkspace(look, fork, encloser, known)

    def _parse(self, me: Resource) -> ParsedSpec:
        known = self._parsed.get(me.address)
        if known is None or known.raw is not me.spec:
            known = self._parsed[me.address] = parse_spec(me.spec)
        return known

    def _progress(self, me: Resource) -> TaskProgress:
        known = self._progresses.get(me.address)
        if known is None or known[0] is not me.status:
            known = self._progresses[me.address] = me.status, read_task_progress(me.status)
        return known[1]

    def _jobs(self, me: Resource, progress: TaskProgress, priority: int, without: str) -> frozenset[str]:
        if self._plane is None:
            return frozenset()
        live = {key for key in self._plane.live_for(me.address) if key != without}
        # A moved task keeps its job, which the work plane has under the old address.
        run = run_job_key(me.uid, progress.incarnation, priority)
        if run != without and run not in live and self._plane.is_live(run):
            live.add(run)
        return frozenset(live)

    def _remains(self, me: Resource) -> tuple[str, ...]:
        return tuple(owned.address for owned in self._view.owned_by(me.address))

    def _first(self, addresses: Sequence[str], standings: Sequence[TaskStanding]) -> Resource | None:
        found = (self._view.get(address) for address in addresses)
        return next((task for task in found if task is not None and task_standing(task) in standings), None)

    def _first_open(self, spec: TaskSpec) -> str:
        # Only the first in the plan's order: a message with all open needs would be rewritten at each step of any.
        for need in spec.needs:
            task = self._view.get(need)
            if task is None or task_standing(task) is TaskStanding.OPEN:
                return need
        return ""

    def _upward(self, me: Resource) -> tuple[TaskHalt | None, tuple[Resource, ...]]:
        """Return which task cancels or pauses this one, and its ancestors with a budget, in one walk to the root."""
        halt: TaskHalt | None = None
        found: list[Resource] = []
        at: Resource | None = me
        for _ in range(limits.TASK_DEPTH_MAX + 1):
            if at is None:
                break
            spec = at.spec
            # The compiler copies both flags to descendants, so the topmost task with a flag is where it was written.
            if spec["cancel"]:
                halt = TaskHalt("cancel", at.address)
            elif spec["pause"] and (halt is None or halt.how == "pause"):
                halt = TaskHalt("pause", at.address)
            if at is not me and (spec["budget"] or "ledger" in at.status):
                found.append(at)
            above = spec["parent"]
            at = self._view.get(above) if above else None
        return halt, tuple(found)
