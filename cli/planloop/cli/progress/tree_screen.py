"""The live tree on a terminal: tasks, newest messages, keys."""

from __future__ import annotations

import os
import sys
import termios
import tty
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import anyio
from rich.console import Console
from rich.live import Live
from rich.text import Text

from planloop.client import process
from planloop.client.render import approval_requests, object_tables, records, task_tree
from planloop.client.render import differences as differing
from planloop.client.render.budgets import COUNTED, Costs
from planloop.owner.screen import ScreenKey
from planloop.reconciler.store.store import View
from planloop.schemas import quantities
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.patch import describe_author
from planloop.schemas.log.record import Record
from planloop.schemas.objects.approval import WAITING, needs_person

# Single keys from a terminal while something is painted: no echo, no Enter; the terminal is always put back.


@contextmanager
def raw_keys() -> Iterator[int | None]:
    """Yield the file descriptor to read keys from; None without a terminal. Ctrl-C stays a signal."""
    if not sys.stdin.isatty():
        yield None
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def pressed_key(descriptor: int | None) -> AsyncIterator[str]:
    """Every key as it comes; ends when the terminal does."""
    if descriptor is None:
        return
    while True:
        await anyio.wait_readable(descriptor)
        content = os.read(descriptor, 32)
        if not content:
            return
        for key in content.decode(errors="replace"):
            yield key


# The live tree: head line, tasks, newest messages, keys; repainted when something moved, at most ten times a second.
#
# Messages stay above the tree in the terminal's history. Signs and colours only repeat the text.

PAINT_S: Final = 0.1
CLOCK_S: Final = 1.0  # Ages move on even when nothing else does.
MESSAGES_SHOWN: Final = 3
TOLD_MAX: Final = 10  # Consequences of one edit.
ROWS_KEPT: Final = 8  # Lines of the terminal that are not for tasks.
STYLES: Final = {
    "done": "green", "failed": "red", "running": "cyan", "checking": "cyan", "blocked": "yellow",
    "cancelled": "dim", "waiting": "dim", "new": "dim", "paused": "magenta", "stopping": "yellow",
    "preparing": "cyan", "starting": "cyan", "healthy": "cyan", "unhealthy": "yellow", "restarting": "yellow",
    "completed": "green", "removed": "dim", "kept": "dim",
}  # fmt: skip
URGENT: Final = ("failed", "blocked", "unhealthy", "restarting", "running", "checking", "stopping", "paused")
STUCK: Final = ("blocked", "waiting", "failed", "paused", "unhealthy", "restarting")
KEYS: Final = {"q": ScreenKey.HAND_OVER, "p": ScreenKey.PAUSE}
HELP: Final = "p pause   ? why   q run in background   Ctrl-C detach"
HELP_NARROW: Final = "p pause  ? why  q background  ^C detach"


class TreeScreen:
    """A `Screen` for terminals."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, file=process.underlying_stream(sys.stdout))
        self._view: View | None = None
        self._plan = ""
        self._began = process.now()
        self._messages: deque[str] = deque(maxlen=MESSAGES_SHOWN)
        self._is_dirty = True
        self._asked: set[str] = set()  # Approvals that were reported.
        self._live: Live | None = None

    def begin(self, view: View, plan: str) -> None:
        """Shows `view` from here on."""
        self._view, self._plan = view, plan
        for one in view.list("approval"):
            self._ask(one.address)

    def record(self, record: Record, changed: tuple[str, ...]) -> None:
        """Announces edits above the tree and keeps the newest messages."""
        self._is_dirty = True  # The whole tree is repainted, at most ten times a second.
        for step in records.expand_record(record):
            self._step(step)
        for address in changed:
            if address.startswith("approval/"):
                self._ask(address, f"{records.clock_time(record.at)} rev {record.rev}")

    def _ask(self, address: str, when: str = "") -> None:
        """Report once that an approval is pending, with the commands that answer it."""
        approval = self._view.get(address) if self._view is not None else None
        if approval is None or address in self._asked:
            return
        self._asked.add(address)
        if said := approval_requests.approval_notice(approval):
            self.say(f"{when} {address} is pending, {said}".strip())

    def _step(self, record: Record) -> None:
        draft = record.draft
        if draft.type.startswith("message.sent"):
            by = "" if records.names_author(draft) else f"by {describe_author(draft.actor)}: "
            self._messages.append(f"{draft.subject}: {by}{records.record_words(draft)}")
        elif draft.type in ("conflict.opened", "conflict.raised", "conflict.ruled"):
            self.say(f"{records.clock_time(record.at)} rev {record.rev} {draft.subject}: {records.record_words(draft)}")
        elif draft.type in ("plan.patched", "plan.refused", "plan.held", "plan.approved", "plan.rejected"):
            verb = draft.type.partition(".")[2]
            by = describe_author(draft.actor)
            self.say(f"{records.clock_time(record.at)} rev {record.rev} {by} {verb}: {records.record_words(draft)}")
            self._announce(draft.data.get("differences") or ())

    def say(self, text: str) -> None:
        """Prints a remark above the tree."""
        console = self._live.console if self._live is not None else self._console
        console.print(Text(process.escaped(text)))

    async def run(self, press: Callable[[ScreenKey], None]) -> None:
        """Paints until cancelled; the last picture stays on the terminal."""
        with raw_keys() as keys, Live(self._picture(), console=self._console, auto_refresh=False) as live:
            self._live = live
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._heed, keys, press)
                    await self._paint(live)
            finally:
                live.update(self._picture(is_last=True), refresh=True)
                self._live = None

    async def _paint(self, live: Live) -> None:
        waited = 0.0
        while True:
            if self._is_dirty or waited >= CLOCK_S:
                self._is_dirty, waited = False, 0.0
                live.update(self._picture(), refresh=True)
            await anyio.sleep(PAINT_S)
            waited += PAINT_S

    async def _heed(self, keys: int | None, press: Callable[[ScreenKey], None]) -> None:
        async for key in pressed_key(keys):
            if key in KEYS:
                press(KEYS[key])
            elif key == "?":
                for line in self._why():
                    self.say(line)

    def _announce(self, differences: tuple[JsonObject, ...]) -> None:
        told = [one for one in differences if one["action"] not in differing.ADDED]
        text = differing.differences_text(told[:TOLD_MAX], now=process.now(), width=self._console.width)
        if text:
            self.say(text)

    def _why(self) -> list[str]:
        known = () if self._view is None else (*self._view.list("task"), *self._view.list("container"))
        waiting = [one for one in known if object_tables.state_of(one) in STUCK]
        return [
            f"   {one.address}  {object_tables.state_of(one)}: {object_tables.state_reason(one)}"
            for one in waiting[:10]
        ]

    def _picture(self, *, is_last: bool = False) -> Text:
        out = Text(no_wrap=True, overflow="crop")
        if self._view is None:
            return out
        width = self._console.width
        out.append(quantities.truncate_cells(self._head(), width) + "\n", style="bold")
        known = {one.address: one for kind in ("task", "container") for one in self._view.list(kind)}
        found = task_tree.tree_rows(known, now=process.now(), costs=self._costs())
        shown = found if is_last else _fitting(found, self._console.height - ROWS_KEPT)
        plain = self._console.encoding.lower().replace("-", "") != "utf8"
        for row, line in zip(shown, task_tree.tree_lines(shown, width=width, plain=plain), strict=True):
            out.append(process.escaped(line) + "\n", style=STYLES.get(row.state, ""))
        if len(shown) < len(found):
            out.append(f"… {quantities.pluralize(len(found) - len(shown), 'more row')}: plan tree\n", style="dim")
        if not is_last:
            for message in self._messages:
                out.append(quantities.truncate_cells(process.escaped(f"  {message}"), width) + "\n")
            out.append(HELP if len(HELP) <= width else quantities.truncate_cells(HELP_NARROW, width), style="dim")
        else:
            out.rstrip()
        return out

    def _costs(self) -> Costs:
        assert self._view is not None
        return Costs((*self._view.list("task"), *self._view.list("agent")))

    def _head(self) -> str:
        assert self._view is not None
        root = self._view.get("task/.")
        parts = [f"{self._plan}  rev {self._view.rev}  {quantities.format_stopwatch(process.now() - self._began)}"]
        if root is not None:
            parts.append(self._costs().line(root, units=COUNTED))
        waiting = [one for one in self._view.list("approval") if one.state == WAITING and needs_person(one.spec)]
        if waiting:
            parts.append(f"{quantities.pluralize(len(waiting), 'approval')} waiting: plan get approvals")
        return "   ".join(part for part in parts if part)


def _fitting(found: list[task_tree.TreeRow], rows_max: int) -> list[task_tree.TreeRow]:
    """Return the rows that fit, the most important ones, in the order of the tree."""
    if len(found) <= rows_max:
        return found
    ranked = sorted(range(len(found)), key=lambda index: (found[index].state not in URGENT, index))
    return [found[index] for index in sorted(ranked[: max(rows_max, 1)])]
