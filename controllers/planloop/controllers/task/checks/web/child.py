"""Decide one `web` check in a browser process: the check on stdin as JSON, the answer as a line on stdout.

A process of its own protects the owner from the page. It can also be ended without the browser's help: its process
group is killed, and Chromium exits when the other end of its pipe is closed.
"""

from __future__ import annotations

import asyncio
import base64
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, TypeAlias

from planloop.controllers.task.checks.nonces import CheckNonces
from planloop.controllers.task.checks.run import late_message
from planloop.schemas.canonical_json import JsonObject, decode, encode
from planloop.schemas.checks.web_check import WebCheck
from planloop.schemas.checks.web_parser import parse_web_check

if TYPE_CHECKING:
    from playwright.async_api import Browser

Opener: TypeAlias = "Callable[[str, str], AbstractAsyncContextManager[Browser]]"
"""Opens the browser at a path; it can reach only the given host, or any if that is empty. Raises BrowserGone."""

MARK: Final = b"answer: "
"""Prefix of the answer's line; libraries may print other lines."""
ACCESSIBLE: Final = "accessible"
"""Figure of a page: the share of its targets that a screen reader announces."""
PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NO_BROWSER: Final = "Chromium is not installed: `apt-get install chromium`"
NO_PACKAGE: Final = "the Python package that drives the browser is missing: `pip install 'planloop[browser]'`"


async def answer_check(
    arguments: JsonObject, nonces: CheckNonces, timeout_s: float, host: str = "", opener: Opener | None = None
) -> JsonObject:
    """Return the finding of a check within `timeout_s`, not counting the start of the browser.

    The browser can reach only `host`, or any host if it is empty. Each way has its own nonces, because a program may
    show earlier input. Problems that the page did not cause are an `error`. `opener` starts the browser, by default a
    new one that is closed after the check; each way has its own browser contexts.
    """

    def check_of(time: int) -> WebCheck:
        check, _ = parse_web_check(nonces.put(arguments, time))
        assert check is not None, "the check is valid with its first nonces, so it is with others"
        return check

    check, problems = parse_web_check(nonces.put(arguments, 0))
    if check is None:
        return _error("; ".join(f"{'/'.join(one.at)}: {one.summary}" for one in problems))
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        return _error(NO_BROWSER)
    try:
        from planloop.controllers.task.checks.web.browser import BrowserGone, open_chromium, run_while_browser_lives  # noqa: PLC0415 - may be missing
        from planloop.controllers.task.checks.web.search import decide_check  # noqa: PLC0415 - as above
    except ModuleNotFoundError as missing:
        if missing.name is None or not missing.name.startswith("playwright"):
            raise
        return _error(NO_PACKAGE)
    try:
        async with (opener or open_chromium)(program, host) as browser:
            async with asyncio.timeout(timeout_s):
                verdict = await run_while_browser_lives(browser, decide_check(check_of, browser))
    except TimeoutError:
        return _answer("fail", f"{late_message(timeout_s)}: the page is too slow", 1)
    except BrowserGone as gone:
        return _error(str(gone))
    shown = verdict.shown
    evidence = {**shown.evidence, "accessibility.json": encode(shown.accessibility)}
    probes = sum(one.probes for one in verdict.tried)
    share = shown.accessibility.get("share")
    return _answer("pass" if verdict.holds else "fail", verdict.message, probes) | {
        "output": "\n\n".join("\n".join((f"way {number}:", *one.log)) for number, one in enumerate(verdict.tried, 1)),
        "evidence": {name: base64.b64encode(content).decode() for name, content in evidence.items()},
        "figures": {} if share is None else {ACCESSIBLE: share},
    }


def _error(message: str) -> JsonObject:
    return _answer("error", message, 0)


def _answer(result: str, message: str, probes: int) -> JsonObject:
    return {"result": result, "message": message, "probes": probes, "output": "", "evidence": {}, "figures": {}}


def main() -> None:
    """Read the check from stdin and print the answer."""
    asked = decode(sys.stdin.buffer.read())
    found = asyncio.run(
        answer_check(asked["arguments"], CheckNonces(asked["nonces"]), asked["timeout_s"], asked.get("host", ""))
    )
    sys.stdout.buffer.write(b"\n" + MARK + encode(found) + b"\n")


if __name__ == "__main__":
    main()
