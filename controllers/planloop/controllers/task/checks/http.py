"""Run the checks `port` (a TCP port accepts connections) and `http` (one or more requests get the expected answers)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from planloop.controllers.task.checks.files import compare_json
from planloop.controllers.task.checks.http_exchange import (
    ExchangeTranscript,
    Follows,
    ProgramAnswer,
    ProgramRequest,
    ProgramSilence,
    http_session,
    send_request,
)
from planloop.controllers.task.checks.nonces import CheckNonces, fill_nonces
from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding, FindingResult, late_message
from planloop.schemas import json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject, decode_foreign, encode_text
from planloop.schemas.checks.http_check import (
    KEPT,
    SAME,
    HttpExpect,
    HttpSend,
    HttpStep,
    http_expect_problems,
    parse_http_repeat,
    parse_http_step,
)
from planloop.schemas.checks.matchers import BadPattern, find_mismatch, is_matcher, regex_source
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.objects.task import CheckSpec
from planloop.schemas.spec.template_placeholders import PLACEHOLDER, fill_placeholders


async def check_port(spec: CheckSpec, environment: CheckEnvironment) -> CheckFinding:
    """Connect to the port and close the connection."""
    del environment
    host, port = spec.arguments.get("host") or "127.0.0.1", spec.arguments["port"]
    with anyio.move_on_after(spec.timeout_s):
        try:
            stream = await anyio.connect_tcp(host, port)
        except OSError as error:
            return CheckFinding("fail", f"nothing listens on {host}:{port} ({error.__cause__ or error})")
        await stream.aclose()
        return CheckFinding("pass", f"{host}:{port} is open")
    return CheckFinding("error", late_message(spec.timeout_s))


async def check_http(spec: CheckSpec, environment: CheckEnvironment) -> CheckFinding:
    """Send one request, or run the steps.

    A server that does not listen or is too slow is a `fail`, an invalid URL an `error`. The grader sets `follows` in
    the arguments, so that a program under test cannot redirect to another program that answers for it.
    """
    if "steps" in spec.arguments:
        return await check_http_steps(spec.arguments, environment, spec.timeout_s)
    url = spec.arguments["url"]
    answer = None
    async with http_session() as made:
        with anyio.move_on_after(spec.timeout_s):
            answer = await send_request(
                made,
                ProgramRequest(url, follows=spec.arguments.get("follows", "all")),
                None,
                limits.OUTPUT_KEPT_BYTES_MAX,
            )
    if answer is None:
        return CheckFinding("fail", f"{url} answers too slowly: {late_message(spec.timeout_s)}")
    if isinstance(answer, ProgramSilence):
        return no_answer_finding(url, answer)
    return judge_http_answer(spec.arguments, answer.status, answer.body)


def no_answer_finding(url: str, silence: ProgramSilence) -> CheckFinding:
    """Return the finding for a request without an answer. A request that could not be sent counts no probe."""
    shown = f"`{url}`" if silence.is_invalid else url
    probes = int(not (silence.is_invalid or silence.is_unreachable))
    return CheckFinding("error" if silence.is_invalid else "fail", f"{shown} {silence.words}", probes=probes)


def judge_http_answer(wanted: JsonObject, status: int, body: bytes) -> CheckFinding:
    """Judge an answer by the status, text and JSON members that the check expects."""
    url, expected = wanted["url"], wanted.get("status")
    if status != expected if expected is not None else status >= 400:
        asked = f", not {expected}" if expected is not None else ""
        return CheckFinding("fail", f"{url} answers {status}{asked}", body)
    text = wanted.get("contains")
    if text is not None and text not in body.decode(errors="replace"):
        return CheckFinding("fail", f"{url} does not contain `{text}`", body)
    if wanted.get("subset") is not None:
        try:
            return compare_json(decode_foreign(body), wanted["subset"], url, body)
        except ValueError:
            return CheckFinding("fail", f"{url} does not answer with JSON", body)
    return CheckFinding("pass", f"{url} answers {status}", body)


# Placeholders in the steps of an `http` check (`{{kept.id}}`), filled with values from earlier answers.
#
# The program under test chose these values, so they are never read as patterns: otherwise an answer that contains
# `/.*/` or `{any: true}` could define the expectations for the next answer.

LITERAL: Final = frozenset({"is", "verbatim", "same-instant"})
"""Matchers whose values are never patterns."""


def fill_step(written: JsonObject, kept: Mapping[str, Json]) -> JsonObject:
    """Return the step `written` with its placeholders filled."""
    if not kept:
        return written
    send = written["send"]
    sent = (
        _texts(send, kept) if isinstance(send, str) else {name: _sent(name, item, kept) for name, item in send.items()}
    )
    step: JsonObject = written | {"send": sent}
    if "expect" in written:
        step["expect"] = {name: _expected(name, item, kept) for name, item in written["expect"].items()}
    return step


def _sent(name: str, item: Json, kept: Mapping[str, Json]) -> Json:
    return fill_placeholders(item, kept) if name == "json" else _texts(item, kept)


def _expected(name: str, item: Json, kept: Mapping[str, Json]) -> Json:
    if name in ("body", "json"):
        return _pattern(item, kept)
    if name == "headers":
        return {_name(header, kept): _pattern(pattern, kept) for header, pattern in item.items()}
    return _texts(item, kept)


def _texts(value: Json, kept: Mapping[str, Json]) -> Json:
    """Return `value` with its placeholders filled; each stays part of a text."""
    if isinstance(value, str):
        return _written(fill_placeholders(value, kept))
    if isinstance(value, list):
        return [_texts(item, kept) for item in value]
    return {_name(name, kept): _texts(item, kept) for name, item in value.items()} if isinstance(value, dict) else value


def _pattern(pattern: Json, kept: Mapping[str, Json]) -> Json:
    if isinstance(pattern, str):
        return _text(pattern, kept)
    if isinstance(pattern, list):
        return [_pattern(item, kept) for item in pattern]
    if not isinstance(pattern, dict):
        return pattern
    if is_matcher(pattern):
        return {word: _below(word, item, kept) for word, item in pattern.items()}
    members = _members(pattern, kept)
    return members if members.keys() == pattern.keys() else {"subset": members}


def _below(word: str, item: Json, kept: Mapping[str, Json]) -> Json:
    if word in LITERAL:
        return fill_placeholders(item, kept)
    return _members(item, kept) if word in ("subset", "exact") and isinstance(item, dict) else _pattern(item, kept)


def _members(members: JsonObject, kept: Mapping[str, Json]) -> JsonObject:
    return {_name(name, kept): _pattern(item, kept) for name, item in members.items()}


def _name(name: str, kept: Mapping[str, Json]) -> str:
    return _written(fill_placeholders(name, kept))


def _text(text: str, kept: Mapping[str, Json]) -> Json:
    if regex_source(text) is not None:
        return PLACEHOLDER.sub(lambda found: _escaped(kept[found[1]]) if found[1] in kept else found[0], text)
    value = fill_placeholders(text, kept)
    if value == text:
        return text
    return {"is": value} if isinstance(value, list | dict) or regex_source(value) is not None else value


def _escaped(value: Json) -> str:
    return re.escape(_written(value))


def _written(value: Json) -> str:
    return value if isinstance(value, str) else encode_text(value)


if TYPE_CHECKING:
    from aiohttp import ClientSession

EVIDENCE: Final = "exchanges.txt"
_NOT_THERE: Final = (404, 405, 501)
_IN_THREAD_BYTES: Final = 16 << 10


async def check_http_steps(arguments: JsonObject, environment: CheckEnvironment, timeout_s: float) -> CheckFinding:
    """Run the steps as many times as asked. After the first failed run, no further run begins.

    A program that is too slow for all runs within `timeout_s` fails.
    """
    repeat, nonces = parse_http_repeat(arguments), fill_nonces(arguments, environment.ids)
    if repeat.is_distinct and not nonces.words:
        return CheckFinding("error", "`repeat.distinct` is set, but no step has a nonce", probes=0)
    times: dict[int, _Round] = {}
    slots = anyio.CapacityLimiter(repeat.parallel)

    async def one(number: int) -> None:
        async with slots:
            if all(time.result == "pass" for time in times.values() if time.is_over):
                time = times[number] = _Round(arguments.get("url", ""))
                await time.run(nonces.put(arguments["steps"], number))

    with anyio.move_on_after(timeout_s):
        async with anyio.create_task_group() as group:
            for number in range(repeat.times):
                group.start_soon(one, number)
    for time in times.values():
        time.cut(timeout_s)
    return _summed(times, repeat.times, nonces if repeat.is_distinct else None)


def _summed(times: dict[int, _Round], asked: int, nonces: CheckNonces | None) -> CheckFinding:
    """Combine the runs into one finding. `nonces` is None if all runs had the same."""
    number, worst = min(times.items(), key=lambda each: (_RANK[each[1].result], each[0]))
    which = f"time {number + 1} of {asked}: " if asked > 1 and worst.result != "pass" else ""
    often = f", {asked} times" if asked > 1 and worst.result == "pass" else ""
    words = f"{which}{worst.words}{often}{_crossed(number, worst, times, nonces)}"
    content = worst.transcript.content()
    probes = sum(time.probes for time in times.values())
    return CheckFinding(worst.result, words, content, probes, {EVIDENCE: content})


_RANK: Final[dict[FindingResult, int]] = {"error": 0, "fail": 1, "pass": 2}


def _crossed(number: int, failed: _Round, times: dict[int, _Round], nonces: CheckNonces | None) -> str:
    if failed.result != "fail" or nonces is None:
        return ""
    others = (word for other in times if other != number for word in nonces.of(other).values())
    is_crossed = any(word.encode() in failed.last_body for word in others)
    return "; the answer contains the nonce of another request" if is_crossed else ""


@frozen
class _StepFailure:
    """Why a step fails; `result` is error if the step could not be done."""

    words: str
    result: FindingResult = "fail"


@mutable
class _Round:
    """One run through the steps, and its result."""

    url: str
    words: str = ""
    result: FindingResult = "error"
    is_over: bool = False
    probes: int = 0
    path: str = ""
    kept: dict[str, Json] = field(default_factory=dict)
    last_body: bytes = b""
    transcript: ExchangeTranscript = field(default_factory=ExchangeTranscript)

    async def run(self, steps: list[JsonObject]) -> None:
        """Do the steps up to the first that fails."""
        self.result, self.words = await self._run(steps)
        self.is_over = True

    def cut(self, timeout_s: float) -> None:
        """Fail the run if it is not over: it took too long."""
        if not self.is_over:
            self.result, self.words = "fail", f"it answers too slowly: {late_message(timeout_s)}"

    async def _run(self, steps: list[JsonObject]) -> tuple[FindingResult, str]:
        async with http_session() as made:
            for number, written in enumerate(steps, start=1):
                filled = fill_step(written, self.kept)
                is_own = filled == written
                bad = None if is_own else next(http_expect_problems(filled.get("expect", {}), ()), None)
                failure = (
                    await self._step(made, parse_http_step(filled))
                    if bad is None
                    else _StepFailure(f"with the kept values, {bad.summary}")
                )
                if failure is not None:
                    which = f"step {number}: " if len(steps) > 1 else ""
                    # The program chose the kept values, so a step that they make impossible is a failure, not an error.
                    return failure.result if is_own else "fail", f"{which}{failure.words}"
        return "pass", f"{len(steps)} steps pass" if len(steps) > 1 else "the step passes"

    async def _step(self, made: ClientSession, step: HttpStep) -> _StepFailure | None:
        send = step.send
        paths = [self.path if path == SAME else path for path in send.paths]
        for path in paths or [""]:
            shown = path or send.url
            answer = await self._ask(made, shown, step)
            if isinstance(answer, ProgramSilence):
                return _StepFailure(f"{send.method} {shown} {answer.words}", "error" if answer.is_invalid else "fail")
            self.path = path or self.path
            if path in ("", paths[-1]) or answer.status not in _NOT_THERE:
                self.last_body = answer.body
                return await self._judged(step, answer, shown)
        return None  # Not reached: there is at least one path or URL.

    async def _ask(self, made: ClientSession, shown: str, step: HttpStep) -> ProgramAnswer | ProgramSilence:
        """Send the request to a path of the program, or to a URL. The message omits the address, which changes."""
        send = step.send
        # The path may come from an answer. With the slash it stays a path and cannot name another host.
        url = f"{self.url.rstrip('/')}/{shown.removeprefix('/')}" if send.paths else shown
        follows: Follows = "none" if step.expect.is_redirect else "own"
        request = ProgramRequest(url, send.method, send.bodies, send.headers, follows)
        self.transcript.add(f"> {send.method} {shown} {_shown(send)}")
        answer = await send_request(made, request, step.expect.within_s, limits.HTTP_BODY_BYTES_MAX)
        if isinstance(answer, ProgramSilence):
            self.probes += not (answer.is_unreachable or answer.is_invalid)
            self.transcript.add(f"< {answer.words}")
        else:
            self.probes += 1
            self.transcript.add(f"< {answer.status} {answer.body.decode(errors='replace')}")
        return answer

    async def _judged(self, step: HttpStep, answer: ProgramAnswer, shown: str) -> _StepFailure | None:
        try:
            judge = partial(answer_difference, step.expect, answer)
            is_long = len(answer.body) > _IN_THREAD_BYTES
            words = await anyio.to_thread.run_sync(judge) if is_long else judge()
        except BadPattern as error:
            return _StepFailure(str(error), "error")
        words = words or self._keep(step, answer)
        return _StepFailure(f"{step.send.method} {shown}: {words}") if words else None

    def _keep(self, step: HttpStep, answer: ProgramAnswer) -> str:
        if not step.keep:
            return ""
        try:
            value = decode_foreign(answer.body)
            for name, text in step.keep.items():
                self.kept[f"{KEPT}{name}"] = json_pointer.value_at(value, json_pointer.parse_pointer(text))
        except json_pointer.BadPointer as error:
            return f"{error} of the answer"
        except ValueError:
            return "the answer is not JSON"
        return ""


def _shown(send: HttpSend) -> str:
    return " ".join(item if isinstance(item, str) else encode_text(item) for item in send.bodies.values())


def answer_difference(expect: HttpExpect, answer: ProgramAnswer) -> str:
    """Return how an answer differs from the expected one; empty if it does not.

    Raises:
        BadPattern: an expectation holds an invalid pattern.
    """
    status = str(answer.status)
    is_good = any(status[0] == one[0] and one[1:].lower() in ("xx", status[1:]) for one in expect.statuses)
    if not (is_good if expect.statuses else answer.status < 400):
        return f"the status is {status}" + (f", not {' or '.join(expect.statuses)}" if expect.statuses else "")
    for name, pattern in expect.headers.items():
        found = answer.headers.get(name.lower())
        words = "is missing" if found is None else find_mismatch(pattern, found)
        if words:
            return f"the header {name} {words.removeprefix('it ')}"
    text = answer.body.decode(errors="replace")
    words = find_mismatch(expect.patterns["body"], text) if "body" in expect.patterns else ""
    return f"the body {words.removeprefix('it ')}" if words else _json_differs(expect, answer)


def _json_differs(expect: HttpExpect, answer: ProgramAnswer) -> str:
    if "json" not in expect.patterns:
        return ""
    try:
        value = decode_foreign(answer.body)
    except ValueError:
        return "the body is not JSON"
    words = find_mismatch(expect.patterns["json"], value)
    return f"in the JSON {words}" if words else ""
