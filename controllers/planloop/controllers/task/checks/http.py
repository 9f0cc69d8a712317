"""The checks `port` (a TCP port accepts connections) and `http` (a URL returns the expected status, text and JSON)."""

from __future__ import annotations

import anyio

from planloop.controllers.task.checks.contract import CheckEnvironment, CheckFinding
from planloop.controllers.task.checks.http_exchange import ProgramRequest, ProgramSilence, http_session, send_request
from planloop.controllers.task.checks.json_subset import compare_json
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject, decode_foreign
from planloop.schemas.objects.task import CheckSpec

# `port`: holds when something listens on the TCP port.


async def check_port(spec: CheckSpec, bench: CheckEnvironment) -> CheckFinding:
    """Connects and hangs up."""
    del bench
    host, port = spec.arguments.get("host") or "127.0.0.1", spec.arguments["port"]
    try:
        stream = await anyio.connect_tcp(host, port)
    except OSError as error:
        return CheckFinding("fail", f"nothing listens on {host}:{port} ({error.__cause__ or error})")
    await stream.aclose()
    return CheckFinding("pass", f"{host}:{port} is open")


# `http`: holds when a URL answers with the status, text and JSON members asked for; or when several steps hold.


async def check_http(spec: CheckSpec, bench: CheckEnvironment) -> CheckFinding:
    """Asks once, or does the steps. Nothing listening, or too late, is a fail; a URL that cannot be asked an error.

    `follows` of the arguments is set by who grades a program, which must not have others answer for it.
    """
    if "steps" in spec.arguments:
        from planloop.controllers.task.checks import http_steps  # noqa: PLC0415 - takes 8 ms, and most plans have none

        return await http_steps.check_http_steps(spec.arguments, bench, spec.timeout_s)
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
        return CheckFinding("fail", f"{url} answers too slowly: not done after {spec.timeout_s:g} s")
    if isinstance(answer, ProgramSilence):
        return no_answer_finding(url, answer)
    return judge_http_answer(spec.arguments, answer.status, answer.body)


def no_answer_finding(url: str, silence: ProgramSilence) -> CheckFinding:
    """What is found where there was no answer. Nobody has looked where nobody could be asked."""
    shown = f"`{url}`" if silence.is_misasked else url
    probes = int(not (silence.is_misasked or silence.is_unreachable))
    return CheckFinding("error" if silence.is_misasked else "fail", f"{shown} {silence.words}", probes=probes)


def judge_http_answer(wanted: JsonObject, status: int, body: bytes) -> CheckFinding:
    """Whether an answer is the one asked for."""
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
            return CheckFinding("fail", f"{url} does not answer JSON", body)
    return CheckFinding("pass", f"{url} answers {status}", body)
