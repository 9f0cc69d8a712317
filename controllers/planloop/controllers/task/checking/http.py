"""`http`: holds when a URL answers with the status, text and JSON members asked for; or when several steps hold."""

from __future__ import annotations

import anyio

from planloop.controllers.task.checking.contract import Bench, Finding
from planloop.controllers.task.checking.exchanging import Request, Silence, ask, session
from planloop.controllers.task.checking.json_subset import compare
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject, decode_foreign
from planloop.schemas.task import CheckSpec


async def check(spec: CheckSpec, bench: Bench) -> Finding:
    """Asks once, or does the steps. Nothing listening, or too late, is a fail; a URL that cannot be asked an error.

    `follows` of the arguments is set by who grades a program, which must not have others answer for it.
    """
    if "steps" in spec.arguments:
        from planloop.controllers.task.checking import http_steps  # noqa: PLC0415 - takes 8 ms, and most plans have none

        return await http_steps.check(spec.arguments, bench, spec.timeout_s)
    url = spec.arguments["url"]
    answer = None
    async with session() as made:
        with anyio.move_on_after(spec.timeout_s):
            answer = await ask(
                made, Request(url, follows=spec.arguments.get("follows", "all")), None, limits.OUTPUT_KEPT_BYTES_MAX
            )
    if answer is None:
        return Finding("fail", f"{url} answers too slowly: not done after {spec.timeout_s:g} s")
    if isinstance(answer, Silence):
        return silent(url, answer)
    return judge(spec.arguments, answer.status, answer.body)


def silent(url: str, silence: Silence) -> Finding:
    """What is found where there was no answer. Nobody has looked where nobody could be asked."""
    shown = f"`{url}`" if silence.is_misasked else url
    probes = int(not (silence.is_misasked or silence.is_unreachable))
    return Finding("error" if silence.is_misasked else "fail", f"{shown} {silence.words}", probes=probes)


def judge(wanted: JsonObject, status: int, body: bytes) -> Finding:
    """Whether an answer is the one asked for."""
    url, expected = wanted["url"], wanted.get("status")
    if status != expected if expected is not None else status >= 400:
        asked = f", not {expected}" if expected is not None else ""
        return Finding("fail", f"{url} answers {status}{asked}", body)
    text = wanted.get("contains")
    if text is not None and text not in body.decode(errors="replace"):
        return Finding("fail", f"{url} does not contain `{text}`", body)
    if wanted.get("subset") is not None:
        try:
            return compare(decode_foreign(body), wanted["subset"], url, body)
        except ValueError:
            return Finding("fail", f"{url} does not answer JSON", body)
    return Finding("pass", f"{url} answers {status}", body)
