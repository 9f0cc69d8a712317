"""Tries ways to have the conversation until one holds: which path and which frames are right, nobody has said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final

import anyio

from planloop.controllers.task.checking.contract import Bench, Finding
from planloop.controllers.task.checking.distinct import Nonces, nonces_of
from planloop.controllers.task.checking.transcript import Transcript
from planloop.controllers.task.checking.ws import watching
from planloop.controllers.task.checking.ws.conversing import Try, converse
from planloop.controllers.task.checking.ws.observed import Observe, Observed
from planloop.controllers.task.checking.ws.ways import Wanted, Way, wanted, ways
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import mutable
from planloop.schemas.task import CheckSpec
from planloop.schemas.ws_check import act_of

EVIDENCE: Final = "frames.txt"


async def check(spec: CheckSpec, bench: Bench, observe: Observe = watching.observe) -> Finding:
    """Holds when there is a way in which all steps do. One that fails in all ways that there was time for, fails.

    Who lets all time go by fails where it was then: else a program could choose to be in no rate, by being slow.
    Where the page should be watched and nobody can, it is an error that no other way works.
    """
    wish = wanted(spec.arguments)
    trying = _Trying(spec.arguments, wish, nonces_of(spec.arguments, bench.ids))
    said = trying.nonces.another("said on the page", bench.ids)
    seen = await _seen(wish, said, bench, observe, trying.notes)
    if isinstance(seen, str) and not (wish.paths and wish.shapes):
        return Finding("error", f"the page cannot be watched: {seen}", probes=0)
    with anyio.move_on_after(spec.timeout_s) as scope:  # A browser takes its own time to start, on a busy machine.
        await trying.all(ways(wish, seen if isinstance(seen, Observed) else None, said))
    found = trying.finding(is_cut=scope.cancelled_caught)
    if found.result == "fail" and found.probes and isinstance(seen, str):
        # The page's own way might have been the right one.
        words = f"{found.message}; and the page cannot be watched: {seen}"
        return Finding("error", words, found.output, found.probes, found.evidence)
    return found


async def _seen(wish: Wanted, said: str, bench: Bench, observe: Observe, notes: Transcript) -> Observed | str | None:
    if not wish.page:
        return None
    seen = await observe(f"{wish.base}{wish.page}", said, bench, limits.OBSERVING_S + limits.WEB_START_S_MAX)
    notes.add(f"-- the page {wish.page}: {_told(seen)}")
    return seen


def _told(seen: Observed | str | None) -> str:
    if isinstance(seen, Observed):
        return f"opens {seen.path} and sends {list(seen.sent)}"
    return seen or "no socket was seen"


@mutable
class _Trying:
    """The ways that were tried, and what came of them; `left` were not."""

    arguments: JsonObject
    wish: Wanted
    nonces: Nonces
    tries: list[Try] = field(default_factory=list)
    left: tuple[Way, ...] = ()
    notes: Transcript = field(default_factory=Transcript)

    @property
    def probes(self) -> int:
        return sum(one.probes for one in self.tries)

    async def all(self, found: tuple[Way, ...]) -> None:
        """Tries one way after the other until one holds, or nothing is there that could answer."""
        shut: set[str] = set()
        for number, way in enumerate(found):
            self.left = found[number + 1 :]
            if way.path in shut:
                continue
            # Each with nonces of its own: a program may tell who comes later what was said before.
            acts = [act_of(step) for step in self.nonces.put(self.arguments["steps"], number)]
            one = Try(way)
            self.tries.append(one)
            await converse(self.wish.base, one, self.arguments["clients"], acts, self.notes)
            if one.is_unreachable or one.is_bad or not one.words:
                return
            if not one.is_open:
                shut.add(way.path)

    def finding(self, *, is_cut: bool) -> Finding:
        """What there is to say in the end."""
        content = self.notes.content()
        evidence = {EVIDENCE: content}
        good = next((one for one in self.tries if not one.words), None)
        if good is not None:
            words = f"{good.held} steps hold {good.way.words}"
            return Finding("pass", words, content, self.probes, evidence)
        bad = next((one for one in self.tries if one.is_bad), None)
        if bad is not None:
            return Finding("error", bad.words, content, self.probes, evidence)
        return Finding("fail", self._why(is_cut=is_cut), content, self.probes, evidence)

    def _why(self, *, is_cut: bool) -> str:
        if not self.tries:
            return "the page opens no socket, and there is no other way to try"
        opened = [one for one in self.tries if one.is_open]
        others = [f"the best of {len(opened)} ways"] if len(opened) > 1 else []
        others += ["more were not tried for lack of time"] if is_cut and self._is_more_left() else []
        note = f" ({', '.join(others)})" if others else ""
        if not opened:
            return "; ".join(dict.fromkeys(self._closed())) + note
        best = max(opened, key=lambda one: one.held)
        return f"{best.way.words}, {best.words}{note}"

    def _is_more_left(self) -> bool:
        """Whether there are ways that were not tried and are at no path that opens no socket."""
        shut = {one.way.path for one in self.tries if not one.is_open}
        return any(way.path not in shut for way in self.left)

    def _closed(self) -> Iterator[str]:
        for one in self.tries:
            yield f"{self.wish.base} {one.words.partition(' ')[2]}" if one.is_unreachable else one.words
