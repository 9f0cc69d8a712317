"""One line an event, for logs and pipes: what a person who reads it later wants to know, and no more.

Also says once a minute that nothing happened, so that a quiet run can be told from a dead one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import anyio

from planloop.rendering import objects as cells
from planloop.rendering import records
from planloop.screens.port import Key
from reconciler.storing.store import View
from schemas.record import Record

TOLD: Final = {
    "plan.patched": "edited", "plan.refused": "refused", "plan.held": "held", "plan.approved": "approved",
    "plan.rejected": "rejected", "message.sent": "message", "call.reconciled": "settled", "hook.fired": "hook",
    "lock.fenced": "lock lost",
}  # fmt: skip
"""Records that a reader is told of, in a word. How the plan as a whole stands is said when it becomes another."""

OWN: Final = ("human:file", "controller:")  # Who needs no naming: the file is being followed.
UNTOLD: Final = ("waiting", "new")
QUIET_S: Final = 60.0
GATHER_S: Final = 0.05  # Lines of so long go out in one write: a thousand short tasks print two thousand of them.


class Lines:
    """A `Screen`."""

    def __init__(self) -> None:
        self._view: View | None = None
        self._states: dict[str, str] = {}
        self._told = 0
        self._waiting = anyio.Event()

    def begin(self, view: View, plan: str) -> None:
        """Shows `view` from here on; what is in it already is not told again."""
        self._view = view
        self._states = {one.address: cells.state_of(one) for kind in ("task", "plan") for one in view.list(kind)}
        self.say(f"{plan}  rev {view.rev}")

    def record(self, record: Record, changed: tuple[str, ...]) -> None:
        """Prints what `record` means for a reader, often nothing."""
        for step in records.parted(record):
            word = TOLD.get(step.draft.type) or _fault_of_server(step)
            if word is not None:
                by = "" if step.draft.actor.startswith(OWN) else f"by {records.author(step.draft.actor)}: "
                self._tell(step, word, step.draft.subject, by + records.words(step.draft))
        for address in changed:
            if address.startswith(("task/", "plan/")):
                self._task(address, record)

    def say(self, text: str) -> None:
        """Prints a remark as it is."""
        self._print(text)
        sys.stdout.flush()

    async def run(self, press: Callable[[Key], None]) -> None:
        """Nothing to paint; sends out what was printed, and keeps a reader informed that it goes on."""
        del press
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._reassure)
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
                running = [address for address, state in self._states.items() if state == "running"]
                self.say(f"{len(running)} running: {', '.join(running[:5])}" if running else "waiting")

    def _print(self, line: str) -> None:
        # Not `click.echo`, which asks for the terminal and flushes at every line.
        sys.stdout.write(f"{line}\n")
        self._told += 1
        self._waiting.set()

    def _task(self, address: str, record: Record) -> None:
        task = self._view.get(address) if self._view is not None else None
        state = "gone" if task is None else cells.state_of(task)
        if state == self._states.get(address):
            return
        self._states[address] = state
        if address == "task/." or state in UNTOLD:
            return
        what = "" if task is None or task.kind == "plan" else cells.what_of(task)
        self._tell(record, state, address, what)

    def _tell(self, record: Record, word: str, address: str, what: str) -> None:
        self._print(f"{records.clock_time(record.at)}  {record.rev:>5}  {word:<10} {address}  {what}".rstrip())


def _fault_of_server(record: Record) -> str | None:
    """The word for a tool server that ended when nobody asked it to; None for other records."""
    is_fault = record.draft.type == "server.ended" and record.draft.data.get("reason")
    return "server" if is_fault else None
