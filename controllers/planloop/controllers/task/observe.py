"""Read everything that one decision about a task needs into one frozen value. Pure."""

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

# The keys of a task's jobs. A key says whose job it is (by uid, so that it survives a move), which, and how urgent.


def run_job_key(uid: str, incarnation: int, priority: int) -> str:
    """The key of the command of `incarnation`, queued at `priority`."""
    return f"{uid}:run:{incarnation}:{priority}"


def check_job_key(uid: str, round_: int, key: str, digest: str) -> str:
    """The key of one check of a round, as it is worded."""
    return f"{uid}:check:{round_}:{key}:{digest}"


def stop_job_key(uid: str, call: str) -> str:
    """The key of the job that stops a command which nobody waits for."""
    return f"{uid}:stop:{call}"


def try_job_key(uid: str) -> str:
    """The key of the job that finds out whether the task's sandbox is to be had."""
    return f"{uid}:try"


def is_run_key(key: str) -> bool:
    """Whether it is a command's."""
    return ":run:" in key


def is_check_key(key: str) -> bool:
    """Whether it is a check's."""
    return ":check:" in key


def is_stop_key(key: str) -> bool:
    """Whether it is a stopping job's."""
    return ":stop:" in key


# Which tasks an entry in a ledger concerns besides the task itself and its ancestors, read from the view.
#
# Both look-ups cost nothing for a task without a ledger of its own or above.


def ended_grantees(view: View, me: Resource, above: Sequence[Resource]) -> tuple[str, ...]:
    """The uids among `me` and the tasks `above` it that hold a grant and have ended with all that is below them.

    Looked at from below as well, because a task may end long after the one that it was a part of.
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
    """The children of a budget that is no longer in the plan, and the givers of one that was moved; else nothing."""
    if "ledger" not in me.status:
        return ()
    ledger = {unit: one for unit, one in me.status["ledger"].items() if not one.get("closed")}
    if not ledger:
        return ()
    known = {task.uid for task in above}
    givers = {one["giver"] for one in ledger.values() if one.get("giver")} - known
    heirs = {uid for unit, one in ledger.items() if unit not in me.spec["budget"] for uid in one.get("granted", ())}
    wanted = givers | heirs
    return tuple(task for task in view.list("task") if task.uid in wanted) if wanted else ()


def holds_grant(task: Resource) -> bool:
    """Whether it has something of another's budget that it has not given back."""
    if "ledger" not in task.status:
        return False
    return any(one.get("giver") and not one.get("closed") for one in task.status["ledger"].values())


def _grantees(task: Resource) -> set[str]:
    """Who holds a grant of the task: they give theirs back first."""
    return {uid for one in task.status.get("ledger", {}).values() for uid in one.get("granted", ())}


def _has_ended(view: View, task: Resource) -> bool:
    if task.deleting or task.state not in ENDED:
        return False
    children = [view.get(address) for address in task.spec["children"]]
    if any(child is None for child in children):
        return False
    return all(_has_ended(view, child) for child in view.owned_by(task.address) if child.kind == "task")


# What an incarnation was begun with, as digests: how an edit of running or finished work is noticed by level.
#
# Three parts, because an edit of each means something else: `work` is the restart class (a new incarnation), `goal` and
# `notes` are told to a running agent but give one that ended a reason to begin again.

Basis: TypeAlias = dict[str, str]
DIGITS = 12  # 48 bits: a change is compared with the one before it, never searched for.


@mutable
class ParsedWish:
    """A parsed spec with its digests, kept as long as the spec is the same. `digests` are of its checks, by key."""

    raw: JsonObject
    spec: TaskSpec
    own: Basis
    digests: dict[str, str]
    _agent: Resource | None = field(default=None)
    _whole: Basis | None = field(default=None)

    def basis(self, agent: Resource | None) -> Basis:
        """The digests, with the mind of `agent` in them when an agent does the work."""
        if agent is None:
            return self.own
        if self._whole is None or self._agent is None or self._agent.spec is not agent.spec:
            mind = {"task": self.own["work"], "mind": agent.spec.get("mind"), "sandbox": agent.spec.get("sandbox")}
            self._agent, self._whole = agent, {**self.own, "work": sha256_of_value(mind)[:DIGITS]}
        return self._whole


def parse_wish(raw: JsonObject) -> ParsedWish:
    """Parses a task's spec."""
    spec = task_from_json(raw)
    return ParsedWish(
        raw, spec, _own(spec), {check.key: sha256_of_value(check.to_json())[:DIGITS] for check in spec.acceptance}
    )


def _own(spec: TaskSpec) -> Basis:
    match spec.work:
        case GroupWork():
            return {"work": ""}  # A group does nothing itself: nothing of it can be out of date.
        case RunWork():
            what: JsonObject = {"run": _command(spec.work), "cwd": spec.cwd, "env": spec.env, "again": spec.again}
            if spec.on_change == "restart":
                what |= {"goal": spec.goal, "notes": spec.notes}
            return {"work": sha256_of_value(what)[:DIGITS]}
        case AgentWork():
            # Not the agent's address: a task that moves keeps its agent and goes on.
            what = {"cwd": spec.cwd, "env": spec.env, "again": spec.again}
            if spec.on_change == "restart":
                what |= {"goal": spec.goal, "notes": spec.notes}
            told = {"goal": sha256_of_value(spec.goal)[:DIGITS], "notes": sha256_of_value(spec.notes)[:DIGITS]}
            return {"work": sha256_of_value(what)[:DIGITS], **told}


def _command(work: RunWork) -> JsonObject:
    # How long it may take and what an unknown outcome means are hot: they change nothing about what was run.
    return {key: value for key, value in work.to_json().items() if key in ("shell", "argv")}


# Whether the locks that a task names are held by it, and the wish that puts it into their queues.
#
# The task says that it waits for them (reason `AwaitingLocks`) and stands in their queues from the same append on; the
# lock controller grants all or none, in the locks and in the task's own status, which wakes it.


@frozen
class MissingLock:
    """A lock that the task does not hold: in words, and the changes that put it into the queue, none when it is there.

    `ring` names those who wait for each other, the task first; empty when they do not.
    """

    words: LockMessage
    wish: tuple[Change, ...]
    ring: tuple[str, ...] = ()


def missing_lock(view: View, me: Resource, spec: TaskSpec, now: float) -> MissingLock | None:
    """What keeps `me` from starting, of the locks that it names: None when it holds them all."""
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


# Reads everything that one decision about a task needs into one frozen value.
#
# All reads are look-ups in the view and the work plane, so an observation is of one instant; only where the task works
# is looked at on the disk, when a rule first asks. Nothing else in this package reads any of them to decide.

_BAD: Final = (TaskStanding.FAILED, TaskStanding.STUCK)

Halting: TypeAlias = Literal["cancel", "pause"]
FindWorkspace: TypeAlias = Callable[[View, str, TaskSpec, Resource | None, Resource | None], str | WorkspaceFault]
"""Where the task at an address works, below the agent that encloses it, in its fork: `RunEnvironment.ground`."""


class WorkspaceLook:
    """Where a task works, as `find` says: looked at when a rule first asks, which most never do, and kept from then on.

    So it is asked of an observation before anything is awaited.
    """

    __slots__ = ("_find", "_found")

    def __init__(self, find: Callable[[], str | WorkspaceFault]) -> None:
        self._find = find
        self._found: str | WorkspaceFault | None = None

    def found(self) -> str | WorkspaceFault:
        """The absolute folder, or why it is not worked in."""
        if self._found is None:
            self._found = self._find()
        return self._found


@frozen
class TaskHalt:
    """Who says that the task is not to go on: the topmost of itself and its ancestors that does. Cancel beats pause."""

    how: Halting
    by: str


@frozen
class TaskFamily:
    """The tasks around a task. `bad_need` and `bad_child` are the first that will not be done by themselves,
    `open_need` the first that may be. `remains` are the objects that it still owns, read when it is being removed and
    has no tasks left.
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
    """`above` are a task's ancestors with a budget, nearest first; `over` the uids among itself and them that have
    ended with a grant to give back; `kin` tasks elsewhere that an edit of the budget concerns.
    """

    above: tuple[Resource, ...] = ()
    over: tuple[str, ...] = ()
    kin: tuple[Resource, ...] = ()


@frozen
class TaskMotion:
    """What runs for a task: the call of its command, its agent, the keys of its live jobs, and those with a slot."""

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
        tallies: TaskCounters,
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
        self._tallies = tallies
        self._plane = plane
        self._wishes: dict[str, ParsedWish] = {}
        self._progresses: dict[str, tuple[JsonObject, TaskProgress]] = {}

    def observe(self, address: str, now: float, *, without_job: str = "") -> ObservedTask | None:
        """What there is to know about `address`; None when there is no such object.

        `without_job` leaves a job out: the one that asks is about to end.
        """
        me = self._view.get(address)
        if me is None:
            self._wishes.pop(address, None)
            self._progresses.pop(address, None)
            return None
        return self.observe_as(me, now, without_job=without_job)

    def observe_as(self, me: Resource, now: float, *, without_job: str = "") -> ObservedTask:
        """The same for an object as it would be after a write that is being composed."""
        wish = self._wish(me)
        spec, view, progress = wish.spec, self._view, self._progress(me)
        motion = self._motion(me, spec, progress, without_job)
        halt, above = self._upward(me)
        return ObservedTask(
            me=me,
            spec=spec,
            progress=progress,
            basis=wish.basis(motion.agent),
            digests=wish.digests,
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
        needs, children = self._tallies.needs(me.address), self._tallies.children(me.address)
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

    def _wish(self, me: Resource) -> ParsedWish:
        known = self._wishes.get(me.address)
        if known is None or known.raw is not me.spec:
            known = self._wishes[me.address] = parse_wish(me.spec)
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
        # A task that moved keeps its job, which the work plane still knows under the old address.
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
        # The first in the plan's order, and no list of all: a message that names every open need would be rewritten
        # at each step of any of them.
        for need in spec.needs:
            task = self._view.get(need)
            if task is None or task_standing(task) is TaskStanding.OPEN:
                return need
        return ""

    def _upward(self, me: Resource) -> tuple[TaskHalt | None, tuple[Resource, ...]]:
        """Who halts the task, and which ancestors have a budget: one walk to the root."""
        halt: TaskHalt | None = None
        found: list[Resource] = []
        at: Resource | None = me
        for _ in range(limits.TASK_DEPTH_MAX + 1):
            if at is None:
                break
            spec = at.spec
            # Lowering hands both flags down, so the topmost task that has one is where it was written.
            if spec["cancel"]:
                halt = TaskHalt("cancel", at.address)
            elif spec["pause"] and (halt is None or halt.how == "pause"):
                halt = TaskHalt("pause", at.address)
            if at is not me and (spec["budget"] or "ledger" in at.status):
                found.append(at)
            above = spec["parent"]
            at = self._view.get(above) if above else None
        return halt, tuple(found)
