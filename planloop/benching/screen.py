"""The screen of a run: one line a case that ended, and how far everything is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

import anyio
import click

from planloop.screens.port import Key
from planloop.streams import styled
from reconciler.storing.store import View
from schemas.encoding import JsonObject
from schemas.record import Record

SIGNS = {"pass": "✓", "fail": "✗", "error": "!", "invalid": "?"}


class BenchScreen:
    """A `Screen` that is told of events beside."""

    def __init__(self, total: int, kept: int = 0) -> None:
        self._total = total
        self._ended = kept

    def begin(self, view: View, plan: str) -> None:
        """Nothing: what counts here are events."""

    def record(self, record: Record, changed: tuple[str, ...]) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Prints a remark."""
        click.echo(text)

    def events(self, events: Iterable[JsonObject]) -> None:
        """Shows what is new."""
        for event in events:
            if event["type"] == "case/end":
                self._ended += 1
                data = event["data"]
                why = "" if data["verdict"] == "pass" else f"  {data['why']}"
                head = f"{self._ended}/{self._total}  {SIGNS[data['verdict']]} {event['case']}  {event['model']}"
                click.echo(f"{head} {event['trial']}{why}")
        sys.stdout.flush()

    async def run(self, press: Callable[[Key], None]) -> None:  # noqa: ARG002
        """Reads no keys."""
        await anyio.sleep_forever()


class ProofScreen(BenchScreen):
    """Only counts, on a terminal: what became of each proof is shown once it is judged."""

    def events(self, events: Iterable[JsonObject]) -> None:
        """Shows how many have ended."""
        self._ended += sum(event["type"] == "case/end" for event in events)
        if sys.stderr.isatty():
            styled(f"\r{self._ended}/{self._total} proofs\033[K", sys.stderr)
            sys.stderr.flush()

    def over(self) -> None:
        """Takes the count away."""
        if sys.stderr.isatty():
            styled("\r\033[K", sys.stderr)
