"""Reads everything that one decision about a task needs into one frozen value.

All reads are look-ups in the view and the work plane, so an observation is of one instant; only where the task works is
looked at on the disk, when a rule first asks. Nothing else in this package reads any of them to decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final, Literal, TypeAlias

from planloop.controllers.sandboxes import NO_OTHERS, Astray, Sandboxes, agent_above
from planloop.controllers.task import granting, keys
from planloop.controllers.task.basis import Basis, Wish, wish_of
from planloop.controllers.task.locking import MissingLock, missing_lock
from planloop.controllers.task.slots import Slot, Slots
from planloop.controllers.task.status import Progress, Standing, progress_of, standing
from planloop.controllers.task.tallying import NONE, Tallies, Tally
from planloop.reconciler.driving.working import WorkPlane
from planloop.reconciler.storing.store import View
from planloop.schemas import limits, sandbox
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource
from planloop.schemas.sandbox import HAD, Answer
from planloop.schemas.task import ByAgent, TaskSpec

_BAD: Final = (Standing.FAILED, Standing.STUCK)

Halting: TypeAlias = Literal["cancel", "pause"]
Ground: TypeAlias = Callable[[View, str, TaskSpec, Resource | None, Resource | None], str | Astray]
"""Where the task at an address works, below the agent that encloses it, in its fork: `Surroundings.ground`."""


class Look:
    """Where a task works, as `find` says: looked at when a rule first asks, which most never do, and kept from then on.

    So it is asked of an observation before anything is awaited.
    """

    __slots__ = ("_find", "_found")

    def __init__(self, find: Callable[[], str | Astray]) -> None:
        self._find = find
        self._found: str | Astray | None = None

    def found(self) -> str | Astray:
        """The absolute folder, or why it is not worked in."""
        if self._found is None:
            self._found = self._find()
        return self._found


@frozen
class Halt:
    """Who says that the task is not to go on: the topmost of itself and its ancestors that does. Cancel beats pause."""

    how: Halting
    by: str


@frozen
class Observed:
    """One task and all that bears on it. `jobs` are the keys of its live jobs, `running` those that have a slot.

    `bad_need` and `bad_child` are the first that will not be done by themselves, `open_need` the first that may be.
    `remains` is what it still owns, read when it is being removed and has no tasks left; `fork` the fork that it works
    in; `containers` those that it names, as far as they are there; `encloser` the agent whose sandbox its commands are
    in, and `sandbox` what is known of that: None before it was tried; `look` is at the folder where it works. `above`
    are its ancestors with a budget, nearest first; `over` the uids among itself and them whose grants are of no more
    use, and `kin` tasks elsewhere that an edit of a budget concerns. `slot` is None where no bound on tasks concerns
    it. `now` is in seconds; `digests` name its checks as now written.
    """

    me: Resource
    spec: TaskSpec
    progress: Progress
    basis: Basis
    digests: Mapping[str, str]
    now: float
    look: Look
    parent: Resource | None = None
    agent: Resource | None = None
    call: Resource | None = None
    children: Tally = NONE
    needs: Tally = NONE
    bad_need: Resource | None = None
    bad_child: Resource | None = None
    open_need: str = ""
    halt: Halt | None = None
    above: tuple[Resource, ...] = ()
    over: tuple[str, ...] = ()
    kin: tuple[Resource, ...] = ()
    slot: Slot | None = None
    lock: MissingLock | None = None
    remains: tuple[str, ...] = ()
    fork: Resource | None = None
    containers: Mapping[str, Resource] = field(default_factory=dict)
    encloser: Resource | None = None
    sandbox: Answer | None = HAD
    jobs: frozenset[str] = field(default_factory=frozenset)
    running: frozenset[str] = field(default_factory=frozenset)

    @property
    def address(self) -> str:
        return self.me.address

    @property
    def ground(self) -> str | Astray:
        """The absolute folder where it works, or why it may not."""
        return self.look.found()


class Observer:
    """Reads for decisions. Keeps parsed specs and statuses by address; each is parsed once in its life."""

    def __init__(
        self,
        view: View,
        tallies: Tallies,
        plane: WorkPlane | None,
        sandboxes: Sandboxes = NO_OTHERS,
        slots: Slots | None = None,
        *,
        ground: Ground,
    ) -> None:
        self._view = view
        self._slots = slots
        self._sandboxes = sandboxes
        self._ground = ground
        self._tallies = tallies
        self._plane = plane
        self._wishes: dict[str, Wish] = {}
        self._progresses: dict[str, tuple[JsonObject, Progress]] = {}

    def observe(self, address: str, now: float, *, without_job: str = "") -> Observed | None:
        """What there is to know about `address`; None when there is no such object.

        `without_job` leaves a job out: the one that asks is about to end.
        """
        me = self._view.get(address)
        if me is None:
            self._wishes.pop(address, None)
            self._progresses.pop(address, None)
            return None
        return self.observe_as(me, now, without_job=without_job)

    def observe_as(self, me: Resource, now: float, *, without_job: str = "") -> Observed:
        """The same for an object as it would be after a write that is being composed."""
        wish = self._wish(me)
        spec = wish.spec
        view = self._view
        progress = self._progress(me)
        parent = view.get(spec.parent) if spec.parent else None
        jobs = self._jobs(me, progress, spec.priority, without_job)
        agent = view.get(spec.work.agent) if isinstance(spec.work, ByAgent) else None
        basis = wish.basis(agent)
        encloser, fork = agent_above(view, me.address), view.get(spec.fork) if spec.fork else None
        halt, above = self._upward(me)
        needs = self._tallies.needs(me.address)
        children = self._tallies.children(me.address)
        return Observed(
            me=me,
            spec=spec,
            progress=progress,
            basis=basis,
            digests=wish.digests,
            now=now,
            parent=parent,
            agent=agent,
            call=view.get(progress.call) if progress.call else None,
            children=children,
            needs=needs,
            bad_need=self._first(spec.needs, (*_BAD, Standing.CANCELLED)) if needs.bad + needs.cancelled else None,
            bad_child=self._first(spec.children, _BAD) if children.bad and not children.open else None,
            open_need=self._first_open(spec) if needs.open else "",
            halt=halt,
            above=above,
            over=granting.over(view, me, above),
            kin=granting.kin(view, me, above),
            slot=None if self._slots is None else self._slots.slot(me.address),
            lock=missing_lock(view, me, spec, now) if spec.locks else None,
            fork=fork,
            containers={name: one for name in spec.containers if (one := view.get(name)) is not None},
            encloser=encloser,
            look=Look(lambda: self._ground(view, me.address, spec, encloser, fork)),
            sandbox=HAD if encloser is None else self._sandboxes.known(sandbox.wish_of(encloser.spec.get("sandbox"))),
            remains=self._remains(me) if me.deleting and not sum(children) else (),
            jobs=jobs,
            running=jobs if self._plane is None else frozenset(filter(self._plane.is_running, jobs)),
        )

    def _wish(self, me: Resource) -> Wish:
        known = self._wishes.get(me.address)
        if known is None or known.raw is not me.spec:
            known = self._wishes[me.address] = wish_of(me.spec)
        return known

    def _progress(self, me: Resource) -> Progress:
        known = self._progresses.get(me.address)
        if known is None or known[0] is not me.status:
            known = self._progresses[me.address] = me.status, progress_of(me.status)
        return known[1]

    def _jobs(self, me: Resource, progress: Progress, priority: int, without: str) -> frozenset[str]:
        if self._plane is None:
            return frozenset()
        live = {key for key in self._plane.live_for(me.address) if key != without}
        # A task that moved keeps its job, which the work plane still knows under the old address.
        run = keys.run(me.uid, progress.incarnation, priority)
        if run != without and run not in live and self._plane.is_live(run):
            live.add(run)
        return frozenset(live)

    def _remains(self, me: Resource) -> tuple[str, ...]:
        return tuple(owned.address for owned in self._view.owned_by(me.address))

    def _first(self, addresses: Sequence[str], standings: Sequence[Standing]) -> Resource | None:
        found = (self._view.get(address) for address in addresses)
        return next((task for task in found if task is not None and standing(task) in standings), None)

    def _first_open(self, spec: TaskSpec) -> str:
        # The first in the plan's order, and no list of all: a message that names every open need would be rewritten
        # at each step of any of them.
        for need in spec.needs:
            task = self._view.get(need)
            if task is None or standing(task) is Standing.OPEN:
                return need
        return ""

    def _upward(self, me: Resource) -> tuple[Halt | None, tuple[Resource, ...]]:
        """Who halts the task, and which ancestors have a budget: one walk to the root."""
        halt: Halt | None = None
        found: list[Resource] = []
        at: Resource | None = me
        for _ in range(limits.TASK_DEPTH_MAX + 1):
            if at is None:
                break
            spec = at.spec
            # Lowering hands both flags down, so the topmost task that has one is where it was written.
            if spec["cancel"]:
                halt = Halt("cancel", at.address)
            elif spec["pause"] and (halt is None or halt.how == "pause"):
                halt = Halt("pause", at.address)
            if at is not me and (spec["budget"] or "ledger" in at.status):
                found.append(at)
            above = spec["parent"]
            at = self._view.get(above) if above else None
        return halt, tuple(found)
