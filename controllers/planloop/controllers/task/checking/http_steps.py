"""The steps of an `http` check: requests one after the other, done once or often, and what their answers must be."""

from __future__ import annotations

from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from planloop.controllers.task.checking.contract import Bench, Finding, Result
from planloop.controllers.task.checking.distinct import Nonces, nonces_of
from planloop.controllers.task.checking.exchanging import Answer, Follows, Request, Silence, ask, session
from planloop.controllers.task.checking.kept import filled_step
from planloop.controllers.task.checking.transcript import Transcript
from planloop.schemas import limits, pointer
from planloop.schemas.encoding import Json, JsonObject, decode_foreign, encode_text
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.http_check import KEPT, SAME, Expect, Send, Step, expect_faults, repeat_of, step_of
from planloop.schemas.matchers import BadPattern, matches

if TYPE_CHECKING:
    from aiohttp import ClientSession

EVIDENCE: Final = "exchanges.txt"
_NOT_THERE: Final = (404, 405, 501)
_IN_THREAD_BYTES: Final = 16 << 10


async def check(arguments: JsonObject, bench: Bench, timeout_s: float) -> Finding:
    """Does the steps as often as asked. Once one time has failed no further one begins.

    A program that answers so slowly that there is no time for all of it fails.
    """
    repeat, nonces = repeat_of(arguments), nonces_of(arguments, bench.ids)
    if repeat.is_distinct and not nonces.words:
        return Finding("error", "its nonces cannot be made distinct: there are none", probes=0)
    times: dict[int, _Time] = {}
    slots = anyio.CapacityLimiter(repeat.parallel)

    async def one(number: int) -> None:
        async with slots:
            if all(time.result == "pass" for time in times.values() if time.is_over):
                time = times[number] = _Time(arguments.get("url", ""))
                await time.run(nonces.put(arguments["steps"], number))

    with anyio.move_on_after(timeout_s):
        async with anyio.create_task_group() as group:
            for number in range(repeat.times):
                group.start_soon(one, number)
    for time in times.values():
        time.cut(timeout_s)
    return _summed(times, repeat.times, nonces if repeat.is_distinct else None)


def _summed(times: dict[int, _Time], asked: int, nonces: Nonces | None) -> Finding:
    """`nonces` are those that were distinct, None where they were not."""
    number, worst = min(times.items(), key=lambda each: (_RANK[each[1].result], each[0]))
    which = f"time {number + 1} of {asked}: " if asked > 1 and worst.result != "pass" else ""
    often = f", {asked} times" if asked > 1 and worst.result == "pass" else ""
    words = f"{which}{worst.words}{often}{_crossed(number, worst, times, nonces)}"
    content = worst.transcript.content()
    probes = sum(time.probes for time in times.values())
    return Finding(worst.result, words, content, probes, {EVIDENCE: content})


_RANK: Final[dict[Result, int]] = {"error": 0, "fail": 1, "pass": 2}


def _crossed(number: int, failed: _Time, times: dict[int, _Time], nonces: Nonces | None) -> str:
    if failed.result != "fail" or nonces is None:
        return ""
    others = (word for other in times if other != number for word in nonces.of(other).values())
    is_crossed = any(word.encode() in failed.last_body for word in others)
    return "; it answers what another request sent" if is_crossed else ""


@frozen
class _Lapse:
    """Why a step does not hold; an error when it could not be done."""

    words: str
    result: Result = "fail"


@mutable
class _Time:
    """One time through the steps, and what came of it."""

    url: str
    words: str = ""
    result: Result = "error"
    is_over: bool = False
    probes: int = 0
    path: str = ""
    kept: dict[str, Json] = field(default_factory=dict)
    last_body: bytes = b""
    transcript: Transcript = field(default_factory=Transcript)

    async def run(self, steps: list[JsonObject]) -> None:
        """Does the steps up to the first that does not hold."""
        self.result, self.words = await self._run(steps)
        self.is_over = True

    def cut(self, timeout_s: float) -> None:
        """Says of one that is not over that it took too long."""
        if not self.is_over:
            self.result, self.words = "fail", f"it answers too slowly: not done after {timeout_s:g} s"

    async def _run(self, steps: list[JsonObject]) -> tuple[Result, str]:
        async with session() as made:
            for number, written in enumerate(steps, start=1):
                filled = filled_step(written, self.kept)
                is_own = filled == written
                bad = None if is_own else next(expect_faults(filled.get("expect", {}), ()), None)
                lapse = (
                    await self._step(made, step_of(filled))
                    if bad is None
                    else _Lapse(f"with what was kept, {bad.summary}")
                )
                if lapse is not None:
                    which = f"step {number}: " if len(steps) > 1 else ""
                    # What cannot be done with what an answer had is the doing of who answered.
                    return lapse.result if is_own else "fail", f"{which}{lapse.words}"
        return "pass", f"{len(steps)} steps hold" if len(steps) > 1 else "the step holds"

    async def _step(self, made: ClientSession, step: Step) -> _Lapse | None:
        send = step.send
        paths = [self.path if path == SAME else path for path in send.paths]
        for path in paths or [""]:
            shown = path or send.url
            answer = await self._ask(made, shown, step)
            if isinstance(answer, Silence):
                return _Lapse(f"{send.method} {shown} {answer.words}", "error" if answer.is_misasked else "fail")
            self.path = path or self.path
            if path in ("", paths[-1]) or answer.status not in _NOT_THERE:
                self.last_body = answer.body
                return await self._judged(step, answer, shown)
        return None  # Not reached: there is a URL.

    async def _ask(self, made: ClientSession, shown: str, step: Step) -> Answer | Silence:
        """Asks at a path of the program, or at a URL. What is said of it names no address, which changes by itself."""
        send = step.send
        url = f"{self.url.rstrip('/')}{shown}" if send.paths else shown
        follows: Follows = "none" if step.expect.is_redirect else "own"
        request = Request(url, send.method, send.bodies, send.headers, follows)
        self.transcript.add(f"> {send.method} {shown} {_shown(send)}")
        answer = await ask(made, request, step.expect.within_s, limits.HTTP_BODY_BYTES_MAX)
        if isinstance(answer, Silence):
            self.probes += not (answer.is_unreachable or answer.is_misasked)
            self.transcript.add(f"< {answer.words}")
        else:
            self.probes += 1
            self.transcript.add(f"< {answer.status} {answer.body.decode(errors='replace')}")
        return answer

    async def _judged(self, step: Step, answer: Answer, shown: str) -> _Lapse | None:
        try:
            judge = partial(differs, step.expect, answer)
            is_long = len(answer.body) > _IN_THREAD_BYTES
            words = await anyio.to_thread.run_sync(judge) if is_long else judge()
        except BadPattern as error:
            return _Lapse(str(error), "error")
        words = words or self._keep(step, answer)
        return _Lapse(f"{step.send.method} {shown}: {words}") if words else None

    def _keep(self, step: Step, answer: Answer) -> str:
        if not step.keep:
            return ""
        try:
            value = decode_foreign(answer.body)
            for name, text in step.keep.items():
                self.kept[f"{KEPT}{name}"] = pointer.get(value, pointer.parse(text))
        except pointer.BadPointer as error:
            return f"{error} of the answer"
        except ValueError:
            return "the answer is not JSON"
        return ""


def _shown(send: Send) -> str:
    return " ".join(item if isinstance(item, str) else encode_text(item) for item in send.bodies.values())


def differs(expect: Expect, answer: Answer) -> str:
    """Why an answer is not the one expected; empty when it is. Raises BadPattern."""
    status = str(answer.status)
    is_good = any(status[0] == one[0] and one[1:].lower() in ("xx", status[1:]) for one in expect.statuses)
    if not (is_good if expect.statuses else answer.status < 400):
        return f"the status is {status}" + (f", not {' or '.join(expect.statuses)}" if expect.statuses else "")
    for name, pattern in expect.headers.items():
        found = answer.headers.get(name.lower())
        words = "is missing" if found is None else matches(pattern, found)
        if words:
            return f"the header {name} {words.removeprefix('it ')}"
    text = answer.body.decode(errors="replace")
    words = matches(expect.patterns["body"], text) if "body" in expect.patterns else ""
    return f"the body {words.removeprefix('it ')}" if words else _json_differs(expect, answer)


def _json_differs(expect: Expect, answer: Answer) -> str:
    if "json" not in expect.patterns:
        return ""
    try:
        value = decode_foreign(answer.body)
    except ValueError:
        return "the body is not JSON"
    words = matches(expect.patterns["json"], value)
    return f"in the JSON {words}" if words else ""
