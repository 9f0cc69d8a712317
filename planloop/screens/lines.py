"""One line an event, for logs and pipes: what a person who reads it later wants to know, and no more.

Also says once a minute that nothing happened, so that a quiet run can be told from a dead one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
import click

from planloop.rendering import objects as cells
from planloop.rendering import records
from planloop.screens.port import Key
from reconciler.store import View
from schemas.record import Record

TOLD: Final = ("plan.", "message.sent", "call.reconciled", "hook.fired", "lock.fenced")
QUIET_S: Final = 60.0


class Lines:
    """A `Screen`."""

    def __init__(self) -> None:
        self._view: View | None = None
        self._states: dict[str, str] = {}
        self._told = 0

    def begin(self, view: View, plan: str) -> None:
        """Shows `view` from here on; what is in it already is not told again."""
        self._view = view
        self._states = {task.address: cells.state_of(task) for task in view.list("task")}
        self.say(f"{plan}  rev {view.rev}")

    def record(self, record: Record, changed: tuple[str, ...]) -> None:
        """Prints what `record` means for a reader, often nothing."""
        if record.draft.type.startswith(TOLD):
            click.echo(records.line(record))
            self._told += 1
        for address in changed:
            if address.startswith("task/"):
                self._task(address, record)

    def say(self, text: str) -> None:
        """Prints a remark as it is."""
        click.echo(text)
        self._told += 1

    async def run(self, press: Callable[[Key], None]) -> None:
        """Nothing to paint; keeps a reader informed that it goes on."""
        del press
        while True:
            before = self._told
            await anyio.sleep(QUIET_S)
            if before == self._told:
                running = [address for address, state in self._states.items() if state == "running"]
                self.say(f"{len(running)} running: {', '.join(running[:5])}" if running else "waiting")

    def _task(self, address: str, record: Record) -> None:
        task = self._view.get(address) if self._view is not None else None
        state = "gone" if task is None else cells.state_of(task)
        if state == self._states.get(address):
            return
        self._states[address] = state
        if address == "task/." or state == "waiting":
            return
        what = "" if task is None else cells.what_of(task)
        click.echo(f"{records.clock_time(record.at)}  {record.rev:>5}  {state:<10} {address}  {what}".rstrip())
        self._told += 1
