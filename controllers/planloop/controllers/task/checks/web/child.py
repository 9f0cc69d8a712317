"""The browser process: one check on stdin as JSON, its answer as a line on stdout.

It is a process of its own because a page does what it likes to who looks at it, and because whoever ends it need not
ask the browser first: its group is killed, and Chromium ends when nobody holds the other end of its pipe.
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
from planloop.schemas.canonical_json import JsonObject, decode, encode
from planloop.schemas.checks.web_check import WebCheck
from planloop.schemas.checks.web_parser import parse_web_check

if TYPE_CHECKING:
    from playwright.async_api import Browser

Opener: TypeAlias = "Callable[[str, str], AbstractAsyncContextManager[Browser]]"
"""Gives the browser at a program's path that reaches one host alone, or any if that is empty. Raises BrowserGone."""

MARK: Final = b"answer: "
"""What the line of the answer begins with: others may be from libraries."""
ACCESSIBLE: Final = "accessible"
"""The figure of a page: the share of its targets that a screen reader tells."""
PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NO_BROWSER: Final = "there is no Chromium on this machine: `apt-get install chromium`"
NO_PACKAGE: Final = "the Python package that drives the browser is missing: `pip install 'planloop[browser]'`"


async def answer_check(
    arguments: JsonObject, nonces: CheckNonces, timeout_s: float, host: str = "", opener: Opener | None = None
) -> JsonObject:
    """What the check finds in this time, for which the browser's start does not count.

    `host` is all that the browser reaches, empty for the whole world. Each way has `nonces` of its own: a program may
    show what was said to it before. Whatever is not about the page is an `error`. `opener` starts the browser, by
    default a new one that is closed after the check; each way has contexts of its own in any browser.
    """

    def check_of(time: int) -> WebCheck:
        check, _ = parse_web_check(nonces.put(arguments, time))
        assert check is not None, "another nonce is as good a text as the first"
        return check

    check, faults = parse_web_check(nonces.put(arguments, 0))
    if check is None:
        return _error("; ".join(f"{'/'.join(one.at)}: {one.summary}" for one in faults))
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
        return _answer("fail", f"not done after {timeout_s:g} s: the page is too slow", 1)
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
    """Reads the check and prints the answer."""
    asked = decode(sys.stdin.buffer.read())
    found = asyncio.run(
        answer_check(asked["arguments"], CheckNonces(asked["nonces"]), asked["timeout_s"], asked.get("host", ""))
    )
    sys.stdout.buffer.write(b"\n" + MARK + encode(found) + b"\n")


if __name__ == "__main__":
    main()
