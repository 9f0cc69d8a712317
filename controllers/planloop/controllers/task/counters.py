"""Count each task's children and needs by state, and assign the slots of `limits.tasks`; updated with each change."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from planloop.controllers.task.status import TaskStage, TaskStanding, task_standing
from planloop.reconciler.store.store import Store, View
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Record
from planloop.schemas.objects.case import CASE_KIND as CASE
from planloop.schemas.objects.case import CaseState
from planloop.schemas.objects.container import AWAITING_CONTAINERS
from planloop.schemas.objects.fork import AWAITING_FORK
from planloop.schemas.objects.sandbox import TRYING_SANDBOX
from planloop.schemas.objects.task import ENDED, TaskState
from planloop.schemas.quantities import pluralize
from planloop.schemas.resource import Resource

# Children and needs. Counting 1,000 children at each of their 2,000 changes would be quadratic, so counts are kept next
# to the view. They can always be computed again from the view; a property test compares both.


class TaskCounts(NamedTuple):
    """Number of tasks by standing. Open tasks may still run."""

    open: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    stuck: int = 0

    @property
    def bad(self) -> int:
        """Tasks that failed, or are blocked until a person or another task acts."""
        return self.failed + self.stuck


_INDEX = {stand: index for index, stand in enumerate(TaskStanding)}
assert [stand.value for stand in _INDEX] == list(TaskCounts._fields)


@frozen
class _Seen:
    standing: TaskStanding
    owner: str | None
    needs: tuple[str, ...]
    spec: object  # The spec's identity: a new one may have other needs.


NONE = TaskCounts()


class TaskCounters:
    """Counts of children by owner and of needs by task, for all tasks of one store."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._children: dict[str, list[int]] = {}
        self._needs: dict[str, list[int]] = {}
        self._needed_by: dict[str, set[str]] = {}

    def follow(self, store: Store) -> None:
        """Count all tasks of the store, and update the counts with each change."""
        self.count(store.view)

        def on_change(_: Record, addresses: Sequence[str]) -> None:
            self.update(store.view, addresses)

        store.on_change(on_change)

    def count(self, view: View) -> None:
        """Count all tasks of `view`."""
        self.update(view, [task.address for task in view.list("task")])

    def update(self, view: View, addresses: Iterable[str]) -> None:
        """Update the counts for the tasks among `addresses`, which may have changed or gone."""
        for address in addresses:
            if address.startswith("task/"):
                self._take(address, view.get(address))

    def children(self, address: str) -> TaskCounts:
        """Return the counts of the tasks that `address` owns. A task that is being removed counts as open."""
        return TaskCounts(*self._children.get(address, ()))

    def needs(self, address: str) -> TaskCounts:
        """Return the counts of the needs of `address`. A need that does not exist counts as open."""
        return TaskCounts(*self._needs.get(address, ()))

    def _take(self, address: str, task: Resource | None) -> None:
        old = self._seen.get(address)
        if task is None:
            if old is not None:
                self._forget(address, old)
            return
        stand = task_standing(task)
        if old is not None and old.spec is task.spec and old.owner == task.owner:
            if stand is not old.standing:
                self._move(address, old.owner, old.standing, stand)
                self._seen[address] = _Seen(stand, old.owner, old.needs, old.spec)
            return
        if old is not None:
            self._forget(address, old)
        self._learn(address, task, stand)

    def _learn(self, address: str, task: Resource, stand: TaskStanding) -> None:
        needs = tuple(task.spec["needs"])
        self._seen[address] = _Seen(stand, task.owner, needs, task.spec)
        if task.owner is not None:
            self._children.setdefault(task.owner, [0] * len(TaskStanding))[_INDEX[stand]] += 1
        # While this task was absent, its dependents counted it as open.
        self._shift_dependents(address, TaskStanding.OPEN, stand)
        if needs:
            counts = self._needs[address] = [0] * len(TaskStanding)
            for need in needs:
                self._needed_by.setdefault(need, set()).add(address)
                counts[_INDEX[self._standing_of(need)]] += 1

    def _forget(self, address: str, old: _Seen) -> None:
        del self._seen[address]
        if old.owner is not None:
            counts = self._children[old.owner]
            counts[_INDEX[old.standing]] -= 1
            if not any(counts):
                del self._children[old.owner]
        self._shift_dependents(address, old.standing, TaskStanding.OPEN)
        for need in old.needs:
            self._needed_by[need].discard(address)
            if not self._needed_by[need]:
                del self._needed_by[need]
        self._needs.pop(address, None)

    def _move(self, address: str, owner: str | None, before: TaskStanding, after: TaskStanding) -> None:
        if owner is not None:
            counts = self._children[owner]
            counts[_INDEX[before]] -= 1
            counts[_INDEX[after]] += 1
        self._shift_dependents(address, before, after)

    def _shift_dependents(self, address: str, before: TaskStanding, after: TaskStanding) -> None:
        if before is after:
            return
        for dependent in self._needed_by.get(address, ()):
            counts = self._needs[dependent]
            counts[_INDEX[before]] -= 1
            counts[_INDEX[after]] += 1

    def _standing_of(self, address: str) -> TaskStanding:
        seen = self._seen.get(address)
        return TaskStanding.OPEN if seen is None else seen.standing


# Slots (`limits.tasks`). A task with an agent or a command takes a slot when nothing else blocks it, before it asks for
# containers and locks, and keeps the slot until it and all tasks below it have ended (a benchmark entry: until it is
# judged). So a task that others wait for never waits for a slot. Tasks below it use its slot: otherwise a parent would
# wait for children that wait for the parent's slot. For the same reason, a task elsewhere that one of them needs takes
# no slot, nor do the needs of that task.
#
# Besides the view, the slots remember which tasks ask for one and which were admitted and have not begun, as each
# task's last reconcile reported. A start reconciles every task; a task that was not reconciled yet counts as asking, so
# the first slots go by priority and the plan's order.

AWAITING_SLOT: Final = "AwaitingSlot"
AFTER: Final = frozenset({AWAITING_FORK, AWAITING_CONTAINERS, TRYING_SANDBOX, "AwaitingLocks", "Queued"})
"""Reasons of a task that has its slot and has not begun."""

_BEGUN: Final = frozenset({TaskStage.BEFORE, TaskStage.WORK, TaskStage.VERIFY})
_MOVING: Final = frozenset({TaskState.RUNNING, TaskState.CHECKING, TaskState.STOPPING})
_Place: TypeAlias = tuple[int, int, str]  # -priority, number in the plan's order, address


@frozen
class TaskSlot:
    """`taken` of `bound` slots are taken. `is_mine`: the task has a slot, or is the next to get one."""

    taken: int
    bound: int
    is_mine: bool

    @property
    def words(self) -> str:
        running = pluralize(max(self.taken, self.bound), "running task")
        return f"{running}, and `limits.tasks` is {self.bound}"


class TaskSlots:
    """Slots of one plan; without `limits.tasks` it keeps nothing. `call` wakes a task that can have a slot."""

    def __init__(self, call: Callable[[str], None] = lambda _: None) -> None:
        self._call = call
        self._bound: int | None = None
        self._order = _Order()
        self._held: set[str] = set()  # Tasks at work, by their status.
        self._admitted: set[str] = set()  # Tasks that got a slot and whose start is not written yet.
        self._asking: set[str] = set()
        self._resting: set[str] = set()  # Reconciled tasks that are not at work and do not ask for a slot.
        self._line: list[_Place] = []  # All other tasks, sorted: asking, or not reconciled yet.

    def follow(self, store: Store) -> None:
        """Count all tasks of the store, and update the slots with each change."""
        self.count(store.view)

        def on_change(_: Record, addresses: Sequence[str]) -> None:
            self.update(store.view, addresses)

        store.on_change(on_change)

    def count(self, view: View) -> None:
        """Count all tasks of `view`."""
        self._bound = next((_bound(plan) for plan in view.list("plan")), None)
        self._recount(view)

    def update(self, view: View, addresses: Iterable[str]) -> None:
        """Update the slots after a change of the plan's bound or of the tasks among `addresses`."""
        plan = next((found for one in addresses if one.startswith("plan/") and (found := view.get(one))), None)
        if plan is not None and (bound := _bound(plan)) != self._bound:
            self._bound = bound
            waited = self._not_at_work()
            self._recount(view)
            changed = frozenset(addresses)  # These tasks are reconciled anyway.
            for address in dict.fromkeys((*waited, *self._not_at_work())):
                if address not in changed:
                    self._call(address)  # A task that gets no slot asks for one again.
            return
        if self._bound is None:
            return
        tasks = list(dict.fromkeys(task for one in addresses if (task := _task_of(view, one)) is not None))
        if any(not self._order.is_known(view, address) for address in tasks):
            self._recount(view)
        for address in tasks:
            if address in self._order.places:
                self._note(view, address)
        self._call_up()

    def slot(self, address: str) -> TaskSlot | None:
        """Return the slot of the task at `address`; None if no limit applies to it."""
        place = self._order.places.get(address)
        if self._bound is None or place is None:
            return None
        taken = len(self._held) + len(self._admitted)
        has_it = address in self._held or address in self._admitted
        return TaskSlot(taken, self._bound, has_it or bisect_left(self._line, place) < self._bound - taken)

    def settle(self, address: str, reason: str, *, is_stuck: bool) -> None:
        """Note the result of a reconcile of the task at `address`."""
        place = self._order.places.get(address)
        if self._bound is None or place is None:
            return
        if reason == AWAITING_SLOT:
            self._put(place, self._asking)
        elif address not in self._held:
            self._put(place, self._admitted if reason in AFTER and not is_stuck else self._resting)
        self._call_up()

    def _not_at_work(self) -> list[str]:
        return [*self._resting, *(place[2] for place in self._line)]

    def _note(self, view: View, address: str) -> None:
        task, place = view.get(address), self._order.places[address]
        if task is None:
            return
        if _is_at_work(task.status) or _is_being_judged(view, task):
            self._put(place, self._held)
        elif address in self._held:
            self._put(place, self._resting)

    def _put(self, place: _Place, where: set[str]) -> None:
        """Move a task into the set `where` and out of all others; only asking tasks are in the line."""
        address = place[2]
        if address in where:
            return
        for other in (self._held, self._admitted, self._asking, self._resting):
            other.discard(address)
        where.add(address)
        at = bisect_left(self._line, place)
        is_there = at < len(self._line) and self._line[at] == place
        if where is self._asking and not is_there:
            insort(self._line, place)
        elif where is not self._asking and is_there:
            del self._line[at]

    def _call_up(self) -> None:
        room = (self._bound or 0) - len(self._held) - len(self._admitted)
        if room > 0 and self._asking:
            for _, _, address in self._line[:room]:
                if address in self._asking:
                    self._call(address)

    def _recount(self, view: View) -> None:
        self._order = _Order() if self._bound is None else _Order(view)
        places = self._order.places
        for known in (self._held, self._admitted, self._asking, self._resting):
            known.intersection_update(places)
        others = self._held | self._admitted | self._resting
        self._line = sorted(place for address, place in places.items() if address not in others)
        for address in places:
            self._note(view, address)


class _Order:
    """The tasks that take a slot and their places, by the specs of a view."""

    def __init__(self, view: View | None = None) -> None:
        self.places: dict[str, _Place] = {}
        self._holders: dict[str, str] = {}  # The task whose slot a task uses; empty for groups above all slots.
        self._shapes: dict[str, tuple[JsonObject, _Shape]] = {}
        if view is None:
            return
        for address, holder in self._walk(view):
            task = view.get(address)
            if task is None:
                continue
            mine = holder or ("" if task.spec["work"]["kind"] == "group" else address)
            self._holders[address] = mine
            self._shapes[address] = task.spec, _shape(task.spec, is_nested=bool(holder))
            if mine == address:
                self.places[address] = (-task.spec["priority"], len(self.places), address)
        for address in self._waited_for(view):
            self.places.pop(address, None)

    def is_known(self, view: View, address: str) -> bool:
        """Whether the order is the same after `address` changed. Adds a task that uses another task's slot."""
        task, known = view.get(address), self._shapes.get(address)
        if task is None:
            return known is None or (self._holders[address] not in ("", address) and not known[1].needs)
        if known is not None and known[0] is task.spec:
            return True
        holder = self._holders.get(task.spec["parent"] or "", "")
        shape = _shape(task.spec, is_nested=bool(holder))
        is_same = shape == known[1] if known is not None else bool(holder) and not shape.needs
        if is_same:
            self._holders.setdefault(address, holder)
            self._shapes[address] = task.spec, shape
        return is_same

    def _walk(self, view: View) -> Iterator[tuple[str, str]]:
        """Yield every task after its parent, in the plan's order, with the task whose slot the parent uses."""
        todo = ["task/."]
        while todo:
            address = todo.pop()
            task = view.get(address)
            if task is not None:
                yield address, self._holders.get(task.spec["parent"] or "", "")
                todo.extend(reversed(task.spec["children"]))
        for task in view.list("task"):  # Tasks that were removed from the plan and are not gone yet.
            if task.address not in self._holders:
                yield task.address, self._holders.get(task.spec["parent"] or "", "")

    def _waited_for(self, view: View) -> set[str]:
        """Return the tasks without a slot: what descendants of slot holders need elsewhere, with all its needs."""
        found: set[tuple[str, bool]] = set()
        todo = [
            (need, True)
            for address, (_, shape) in self._shapes.items()
            if shape.is_nested
            for need in shape.needs
            if self._holders.get(need) != self._holders[address]
        ]
        while todo:
            address, is_whole = one = todo.pop()
            task = view.get(address)
            if task is None or one in found:
                continue
            found.add(one)
            spec = task.spec
            todo += [(need, True) for need in spec["needs"]]
            todo += [(spec["parent"], False)] if spec["parent"] else []
            todo += [(child, True) for child in spec["children"]] if is_whole else []
        return {address for address, _ in found}


@frozen
class _Shape:
    """The parts of a spec that the order depends on."""

    is_nested: bool
    is_group: bool = False
    priority: int = 0
    needs: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


def _shape(spec: JsonObject, *, is_nested: bool) -> _Shape:
    if is_nested:
        return _Shape(True, needs=tuple(spec["needs"]))
    is_group = spec["work"]["kind"] == "group"
    children = tuple(spec["children"]) if is_group else ()
    return _Shape(False, is_group, spec["priority"], tuple(spec["needs"]), children)


def _task_of(view: View, address: str) -> str | None:
    """Return the task whose slot a change of `address` may affect."""
    if address.startswith("task/"):
        return address
    case = view.get(address) if address.startswith(f"{CASE}/") else None
    return None if case is None else str(case.spec["task"])


def _is_being_judged(view: View, task: Resource) -> bool:
    """Whether the task is a benchmark entry that has ended and has no verdict yet."""
    case = view.get(f"{CASE}/{task.address.partition('/')[2]}") if task.state in ENDED else None
    return case is not None and case.state != CaseState.ENDED


def _bound(plan: Resource) -> int | None:
    bound = (plan.spec.get("limits") or {}).get("tasks")
    return None if bound is None else int(bound)


def _is_at_work(status: JsonObject) -> bool:
    """Whether the task has begun and not ended, or waits for something that only a task with a slot asks for."""
    if status.get("stage") in _BEGUN or status.get("state") in _MOVING:
        return True
    ready: JsonObject = status.get("conditions", {}).get("Ready") or {}
    is_stuck = (status.get("signal") or {}).get("stuck", False)
    return ready.get("reason") in AFTER and not is_stuck and not status.get("stage")
