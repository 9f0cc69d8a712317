"""`http`: holds when a URL answers with the status, text and JSON members asked for. One request, no retries."""

from __future__ import annotations

from controllers.task.checking.contract import Bench, Finding
from controllers.task.checking.json_subset import compare
from schemas import limits
from schemas.encoding import JsonObject, decode_foreign
from schemas.task import CheckSpec


async def check(spec: CheckSpec, bench: Bench) -> Finding:
    """Asks once. Nothing listening is a fail, a URL that cannot be asked an error."""
    del bench
    import aiohttp  # noqa: PLC0415 - takes 150 ms, and most plans have no http check

    url = spec.arguments["url"]
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            body = await response.content.read(limits.OUTPUT_KEPT_BYTES_MAX)
            return judge(spec.arguments, response.status, body)
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
        return Finding("error", f"`{url}` is not an http URL")
    except (aiohttp.ClientError, OSError) as error:
        return Finding("fail", f"{url} does not answer: {error}")


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
