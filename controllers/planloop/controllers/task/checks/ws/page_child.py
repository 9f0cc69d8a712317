"""Observe the WebSocket that a page opens in a browser, in a process of its own.

Reads the URL and a text from stdin as JSON, and prints the socket. It uses the page like a person: it types the message
and sends it. The browser itself records the frames, so the scripts of the page do not notice.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

from planloop.controllers.task.checks.web.child import NO_BROWSER, NO_PACKAGE, PROGRAMS
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, decode, encode
from planloop.schemas.checks.web_parser import parse_web_check

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page, WebSocket

MARK: Final = b"socket: "
"""Prefix of the answer's line; libraries may print other lines."""
_SEE_S: Final = 1
_LEXICON: Final[JsonObject] = {
    # Narrower than the usual lexicon: a field for a name may be missing, and a single field is for messages.
    "called-field": {"role": ["textbox"], "name": r"/\b(name|nick|handle|user|alias)/"},
    "enter-button": {"role": ["button"], "name": "/join|enter|connect|start|continue/", "or": {"key": "Enter"}},
}
_NAMED: Final[list[Json]] = [{"maybe": [{"fill": {"called-field": "ann"}}, {"press": "enter-button"}]}]


@dataclass  # No slots: Playwright sets an attribute on the owner of a callback.
class _Sockets:
    """Sockets of all pages in the order of opening, with the frames that the pages sent."""

    found: list[tuple[str, list[str]]] = field(default_factory=list)

    def attend(self, page: Page) -> None:
        page.on("websocket", self._opened)

    def _opened(self, socket: WebSocket) -> None:
        sent: list[str] = []
        if len(self.found) == limits.OBSERVED_SOCKETS_MAX:
            return
        self.found.append((socket.url, sent))

        def keep(frame: bytes | str) -> None:
            is_short = len(frame) <= limits.OBSERVED_FRAME_CHARS_MAX
            if isinstance(frame, str) and is_short and len(sent) < limits.OBSERVED_FRAMES_MAX:
                sent.append(frame)

        socket.on("framesent", keep)

    def socket_that_sent(self, text: str) -> tuple[str, list[str]] | None:
        """Return the socket over which the page sent `text`."""
        return next((one for one in self.found if any(text in frame for frame in one[1])), None)


class _Watched:
    """Browser that observes the sockets of its new contexts; delegates everything else."""

    def __init__(self, browser: Browser, sockets: _Sockets) -> None:
        self._browser = browser
        self._sockets = sockets

    async def new_context(self, **options: Any) -> BrowserContext:
        context = await self._browser.new_context(**options)
        context.on("page", self._sockets.attend)
        return context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._browser, name)


async def answer_question(url: str, text: str) -> JsonObject:
    """Return `path` and `sent` of the page's socket, nothing if it opens none, or `why` if there is no browser."""
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        return {"why": NO_BROWSER}
    try:
        from planloop.controllers.task.checks.web.browser import BrowserGone, open_chromium  # noqa: PLC0415 - may be missing
    except ModuleNotFoundError as missing:
        if missing.name is None or not missing.name.startswith("playwright"):
            raise
        return {"why": NO_PACKAGE}
    sockets = _Sockets()
    try:
        async with open_chromium(program, urlsplit(url).hostname or "") as browser:
            # The time limit is for the page; the start of the browser does not count.
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.OBSERVING_S):
                    await _use_repeatedly(url, text, _Watched(browser, sockets), sockets)
    except BrowserGone as gone:
        return {"why": str(gone)}
    socket = sockets.socket_that_sent(text) or next(iter(sockets.found), None)
    return {} if socket is None else {"path": _path(socket[0]), "sent": socket[1]}


async def _use_repeatedly(url: str, text: str, browser: _Watched, sockets: _Sockets) -> None:
    for before in (_NAMED, []):
        await _use(url, text, before, browser)
        if sockets.socket_that_sent(text) is not None or not sockets.found:
            return


async def _use(url: str, text: str, before: list[Json], browser: Any) -> None:
    """Send `text` on the page after the steps `before`. Whether the page then shows it does not matter."""
    from planloop.controllers.task.checks.web.search import decide_check  # noqa: PLC0415 - needs the browser's package

    steps = [*before, {"fill": {"message-field": text}}, {"press": "send-button"}, {"see": text, "within": _SEE_S}]
    check, problems = parse_web_check({"url": url, "within": _SEE_S, "lexicon": _LEXICON, "can": steps})
    assert check is not None, problems
    await decide_check(lambda _: check, browser)


def _path(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(("", "", parts.path or "/", parts.query, ""))


def main() -> None:
    """Read the question from stdin and print the answer."""
    asked = decode(sys.stdin.buffer.read())
    found = asyncio.run(answer_question(asked["url"], asked["say"]))
    sys.stdout.buffer.write(b"\n" + MARK + encode(found) + b"\n")


if __name__ == "__main__":
    main()
