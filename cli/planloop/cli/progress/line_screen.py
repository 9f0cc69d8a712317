"""One line per event, for logs and pipes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import anyio

from planloop.client import process
from planloop.client.render import approval_requests, containers, object_tables, records
from planloop.owner.screen import ScreenKey
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.log.patch import describe_author
from planloop.schemas.log.record import Record
from planloop.schemas.objects.container import ContainerState
from planloop.schemas.resource import Resource, conditions_of_status

# When lines about a container are printed: repeated failures are reported less and less often.
#
# The first failure is reported immediately. The same failure is reported again after 10 s, 30 s, 70 s and so on, with
# the number of attempts and the time of the next. "Running" is reported once the state has lasted, because a crashing
# container also runs each time. A different end is reported immediately.

FIRST_S: Final = 10.0
LONGEST_S: Final = 300.0


@frozen
class _Trouble:
    """Last report on a container, at `told_at`; not repeated for `pause_s`. `up_at`: since when it runs again."""

    what: str
    is_crash: bool
    told_at: float
    pause_s: float = FIRST_S
    up_at: float | None = None


class TroubleFilter:
    """Of the containers of one plan. Times are seconds since 1970."""

    def __init__(self) -> None:
        self._troubles: dict[str, _Trouble] = {}

    @property
    def is_holding(self) -> bool:
        """Return whether `due` will report something later, even without an event."""
        return any(one.up_at is not None for one in self._troubles.values())

    def is_told(self, item: Resource, at: float) -> bool:
        """Return whether to report now the state that `item` entered at `at`."""
        before, what = self._troubles.get(item.address), _trouble(item)
        if what:
            return self._is_news(item, what, at)
        if before is None:
            return True
        if item.state == ContainerState.STARTING or (item.state == ContainerState.RUNNING and before.is_crash):
            up_at = at if item.state == ContainerState.RUNNING else None
            self._troubles[item.address] = replace(before, up_at=up_at)
            return False
        if item.state != ContainerState.PREPARING:
            del self._troubles[item.address]
        return True

    def due(self, at: float) -> list[str]:
        """Return the containers that have run for long enough to be reported; each once."""
        held = {address: one.up_at for address, one in self._troubles.items() if one.up_at is not None}
        found = [address for address, up_at in held.items() if at - up_at >= limits.CONTAINER_STEADY_S]
        for address in found:
            del self._troubles[address]
        return found

    def _is_news(self, item: Resource, what: str, at: float) -> bool:
        before = self._troubles.get(item.address)
        if before is not None and before.what == what:
            is_late = at - before.told_at >= before.pause_s
            pause_s = min(before.pause_s * 2, LONGEST_S) if is_late else before.pause_s
            told_at = at if is_late else before.told_at
            self._troubles[item.address] = replace(before, told_at=told_at, pause_s=pause_s, up_at=None)
            return is_late
        # A failing engine is reported once, not for each container.
        is_said = bool(item.status.get("engine")) and any(one.what == what for one in self._troubles.values())
        self._troubles[item.address] = _Trouble(what, item.state == ContainerState.RESTARTING, at)
        return not is_said


def _trouble(item: Resource) -> str:
    """What is tried again, in the same words each time; empty when nothing is."""
    ready = conditions_of_status(item.status).get("Ready")
    if ready is None or item.state not in (ContainerState.WAITING, ContainerState.RESTARTING):
        return ""
    if (engine := item.status.get("engine")) is not None:
        return f"{engine.get('reason', '')} {engine.get('why', '')}"
    return f"{ready.reason} {item.status.get('why', '')}" if item.status.get("retry_at") is not None else ""


# One line per event, for logs and pipes: only what a later reader needs.
#
# Once a minute a line reports that nothing happened, so that an idle run differs from a dead one.

SHOWN_TYPES: Final = {
    "plan.patched": "edited", "plan.refused": "refused", "plan.held": "held", "plan.approved": "approved",
    "plan.rejected": "rejected", "message.sent": "message", "call.reconciled": "settled", "hook.fired": "hook",
    "hook.changed": "hook",
    "lock.fenced": "lock lost", "lock.deadlock": "deadlock",
    "conflict.opened": "conflict", "conflict.raised": "conflict", "conflict.ruled": "decided",
}  # fmt: skip
"""Records that are printed, with their label. The state of the whole plan is printed when it changes."""

OWN: Final = ("human:file", "controller:")  # Authors that are not named: the file is followed anyway.
HIDDEN_TYPES: Final = ("waiting", "new")
WITH_REASON: Final = ("failed", "blocked", "cancelled")  # For a plan: a running or done plan needs no reason.
GROUP: Final[JsonObject] = {"kind": "group"}  # A task that is only its tasks.
NAMED_MAX: Final = 5  # In the remark on a quiet run.
QUIET_S: Final = 60.0
PULL_S: Final = 5.0  # Between two remarks on how far an image is.
HELD_S: Final = 1.0  # How often to check whether a container that crashed before is still running.
GATHER_S: Final = 0.05  # Lines of so long go out in one write: a thousand short tasks print two thousand of them.


class LineScreen:
    """A `Screen`."""

    def __init__(self) -> None:
        self._view: View | None = None
        self._states: dict[str, str] = {}
        self._asked: set[str] = set()  # Approvals that were reported.
        self._pulled: dict[str, float] = {}  # When the progress of each container's image was last reported.
        self._folding = TroubleFilter()
        self._told = 0
        self._waiting = anyio.Event()
        self._holding = anyio.Event()

    def begin(self, view: View, plan: str) -> None:
        """Show changes of `view` from now on, without its present content."""
        self._view = view
        self._states = {
            one.address: object_tables.state_of(one) for kind in ("task", "plan") for one in view.list(kind)
        }
        self._states |= {one.address: containers.standing_words(one) for one in view.list("container")}
        self.say(f"{plan}  rev {view.rev}")
        for one in view.list("approval"):
            self._asked.add(one.address)
            if said := approval_requests.approval_notice(one):
                self.say(f"{one.address} is pending, {said}")

    def record(self, record: Record, changed: tuple[str, ...]) -> None:
        """Print the line for `record`; many records have none."""
        for step in records.expand_record(record):
            word = SHOWN_TYPES.get(step.draft.type) or _fault_of_server(step)
            is_hook = step.draft.type.startswith("hook.")
            if is_hook and records.is_silent_verdict(step.draft.data):
                word = None
            if word is not None:
                is_named = records.names_author(step.draft) or step.draft.actor.startswith(OWN)
                by = "" if is_named else f"by {describe_author(step.draft.actor)}: "
                self._tell(step, word, step.draft.subject, by + records.record_words(step.draft))
            if said := records.violation_words(step.draft.data):
                self._tell(step, "violation", describe_author(step.draft.actor), f"{step.draft.data['tool']} {said}")
        for address in changed:
            if address.startswith(("task/", "plan/")):
                self._task(address, record)
            elif address.startswith("container/"):
                self._container(address, record)
            elif address.startswith("approval/"):
                self._approval(address, record)

    def say(self, text: str) -> None:
        """Print a note."""
        self._print(text)
        sys.stdout.flush()

    async def run(self, press: Callable[[ScreenKey], None]) -> None:
        """Write the printed lines, and report from time to time that the run continues."""
        del press
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._reassure)
                group.start_soon(self._tell_held)
                while True:
                    await self._waiting.wait()
                    await anyio.sleep(GATHER_S)
                    self._waiting = anyio.Event()
                    sys.stdout.flush()
        finally:
            sys.stdout.flush()

    async def _reassure(self) -> None:
        while True:
            before = self._told
            await anyio.sleep(QUIET_S)
            if before == self._told:
                self.say(self._quiet())

    async def _tell_held(self) -> None:
        while True:
            await self._holding.wait()
            self._holding = anyio.Event()
            while self._folding.is_holding:
                await anyio.sleep(HELD_S)
                self._tell_due(process.now())

    def _tell_due(self, at: float) -> None:
        for address in self._folding.due(at):
            found = self._view.get(address) if self._view is not None else None
            if found is not None and (said := containers.container_notice(found, at)) is not None:
                self._line(at, found.rev, object_tables.state_of(found), address, said)

    def _quiet(self) -> str:
        """Return what is running and what is blocked."""
        tasks = [] if self._view is None else [one for one in self._view.list("task") if one.spec["work"] != GROUP]
        running = [one.address for one in tasks if one.state in ("running", "checking")]
        blocked = [f"{one.address}: {object_tables.state_reason(one)}" for one in tasks if one.state == "blocked"]
        parts = [f"{len(running)} running: {', '.join(running[:NAMED_MAX])}"] if running else []
        parts += [f"{len(blocked)} blocked: {'; '.join(blocked[:NAMED_MAX])}"] if blocked else []
        up = "" if self._view is None else containers.containers_headline(self._view.list("container"))
        return " · ".join([*parts, *([up] if up else [])]) or "waiting"

    def _print(self, line: str) -> None:
        # Not `click.echo`, which asks for the terminal and flushes at every line.
        sys.stdout.write(f"{line}\n")
        self._told += 1
        self._waiting.set()

    def _task(self, address: str, record: Record) -> None:
        task = self._view.get(address) if self._view is not None else None
        state = "gone" if task is None else object_tables.state_of(task)
        if state == self._states.get(address):
            return
        self._states[address] = state
        if address == "task/." or state in HIDDEN_TYPES:
            return
        self._tell(record, state, address, "" if task is None else self._what(task))

    def _container(self, address: str, record: Record) -> None:
        found = self._view.get(address) if self._view is not None else None
        stand = "gone" if found is None else containers.standing_words(found)
        if stand == self._states.get(address):
            return
        self._states[address] = stand
        if found is None or not self._folding.is_told(found, record.at):
            self._hold()
            return
        if (said := containers.container_notice(found, record.at)) is None:
            return
        if found.state == ContainerState.PREPARING:
            if record.at - self._pulled.get(address, 0.0) < PULL_S:
                return
            self._pulled[address] = record.at
        self._tell(record, object_tables.state_of(found), address, said)

    def _hold(self) -> None:
        if self._folding.is_holding:
            self._holding.set()

    def _approval(self, address: str, record: Record) -> None:
        """Report once that an approval is pending, with the commands that answer it."""
        approval = self._view.get(address) if self._view is not None else None
        if approval is None or address in self._asked:
            return
        self._asked.add(address)
        if said := approval_requests.approval_notice(approval):
            self._tell(record, "approval", address, said)

    def _what(self, task: Resource) -> str:
        """Return the reason of the task's state; for a plan, that of its root task."""
        if task.kind == "plan":
            root = self._view.get("task/.") if self._view is not None else None
            return self._what(root) if root is not None and root.state in WITH_REASON else ""
        way = object_tables.next_command(task) if task.state == "blocked" else ""
        return " · ".join(part for part in (object_tables.state_reason(task), way) if part)

    def _tell(self, record: Record, word: str, address: str, what: str) -> None:
        self._line(record.at, record.rev, word, address, what)

    def _line(self, at: float, rev: int, word: str, address: str, what: str) -> None:
        self._print(f"{records.clock_time(at)}  {rev:>5}  {word:<10} {address}  {what}".rstrip())


def _fault_of_server(record: Record) -> str | None:
    """Return the label for a tool server that ended unexpectedly; None for other records."""
    is_fault = record.draft.type == "server.ended" and record.draft.data.get("reason")
    return "server" if is_fault else None
