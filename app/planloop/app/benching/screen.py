"""The screen of a run: one line a case that ended, and on a terminal a line below that says how far everything is."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable
from typing import Final

import anyio
import click

from planloop.app import wiring
from planloop.app.streams import styled
from planloop.benchmarks.events.reading import event_of
from planloop.benchmarks.reporting.progress import line, progress
from planloop.benchmarks.scoring.folding import Fold
from planloop.cli.screens.port import Key
from planloop.reconciler.storing.store import View
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Record

SIGNS = {"pass": "✓", "fail": "✗", "error": "!", "invalid": "?"}
DRAWN_S: Final = 0.5  # Between two drawings of the line below: it says how long the rest takes.


class BenchScreen:
    """A `Screen` that is told of events beside. `fold` has the events that were there before, if there were any.

    `total` is how many entries are tried: those that were decided before are not among them.
    """

    def __init__(self, total: int, fold: Fold | None = None, parallel: int = 1) -> None:
        self.fold = fold or Fold()
        """Of all events so far."""
        self._total = total
        self._parallel = parallel
        self._ended: set[tuple[str, str, int]] = set()

    def begin(self, view: View, plan: str) -> None:
        """Nothing: what counts here are events."""

    def record(self, record: Record, changed: tuple[str, ...]) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Prints a remark."""
        _clear()
        click.echo(text)

    def events(self, events: Iterable[JsonObject]) -> None:
        """Shows what is new."""
        for event in events:
            self.fold.add(event_of(event, event["seq"]))
            if event["type"] == "case/end":
                _clear()
                self._ended.add((event["case"], event["model"], event["trial"]))
                data = event["data"]
                why = "" if data["verdict"] == "pass" else f"  {data['why']}"
                head = f"{len(self._ended)}/{self._total}  {SIGNS[data['verdict']]} {event['case']}  {event['model']}"
                click.echo(f"{head} {event['trial']}{why}")
        sys.stdout.flush()

    async def run(self, press: Callable[[Key], None]) -> None:  # noqa: ARG002
        """Reads no keys. Draws the line below where that is a terminal."""
        if not sys.stderr.isatty():
            await anyio.sleep_forever()
        try:
            while True:
                self._draw()
                await anyio.sleep(DRAWN_S)
        finally:
            _clear()

    def _draw(self) -> None:
        width = shutil.get_terminal_size().columns - 1  # A full last column would wrap on some terminals.
        found = progress(self.fold, wiring.now(), parallel=self._parallel)
        styled(f"\r{line(found, width=width)}\033[K", sys.stderr)
        sys.stderr.flush()


def _clear() -> None:
    """Takes the line below away, so that what is printed stands where it was."""
    if sys.stderr.isatty():
        styled("\r\033[K", sys.stderr)
        sys.stderr.flush()


class ProofScreen(BenchScreen):
    """Only the line below: what became of each proof is shown once it is judged."""

    def events(self, events: Iterable[JsonObject]) -> None:
        """Counts them."""
        for event in events:
            self.fold.add(event_of(event, event["seq"]))
