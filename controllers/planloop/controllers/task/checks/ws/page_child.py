"""A program that watches a page's own socket in a browser: URL and text on stdin as JSON, the socket on stdout.

The page is used as a person would: the message is typed and sent. What its socket sends meanwhile is heard by the
browser itself, so that the scripts of the page know nothing of it.
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
"""What the line of the answer begins with: others may be from libraries."""
_SEE_S: Final = 1
_LEXICON: Final[JsonObject] = {
    # Not as wide as the usual ones: what asks for a name is there or is not, and the only field is for messages.
    "called-field": {"role": ["textbox"], "name": r"/\b(name|nick|handle|user|alias)/"},
    "enter-button": {"role": ["button"], "name": "/join|enter|connect|start|continue/", "or": {"key": "Enter"}},
}
_NAMED: Final[list[Json]] = [{"maybe": [{"fill": {"called-field": "ann"}}, {"press": "enter-button"}]}]


@dataclass  # No slots: Playwright leaves a mark on whom it calls.
class _Sockets:
    """The sockets of all pages, in the order in which they were opened, with the frames that the pages sent."""

    found: list[tuple[str, list[str]]] = field(default_factory=list)

    def attend(self, page: Page) -> None:
        page.on("websocket", self._opened)

    def _opened(self, socket: WebSocket) -> None:
        sent: list[str] = []
        if len(self.found) == limits.OBSERVED_SOCKETS_MAX:
            return
        self.found.append((socket.url, sent))

        def hear(frame: bytes | str) -> None:
            is_short = len(frame) <= limits.OBSERVED_FRAME_CHARS_MAX
            if isinstance(frame, str) and is_short and len(sent) < limits.OBSERVED_FRAMES_MAX:
                sent.append(frame)

        socket.on("framesent", hear)

    def saying(self, said: str) -> tuple[str, list[str]] | None:
        """The one over which it was said."""
        return next((one for one in self.found if any(said in frame for frame in one[1])), None)


class _Watched:
    """A browser whose new contexts are attended to; in all else the browser itself."""

    def __init__(self, browser: Browser, sockets: _Sockets) -> None:
        self._browser = browser
        self._sockets = sockets

    async def new_context(self, **options: Any) -> BrowserContext:
        context = await self._browser.new_context(**options)
        context.on("page", self._sockets.attend)
        return context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._browser, name)


async def answer_question(url: str, said: str) -> JsonObject:
    """`path` and `sent` of the page's socket; nothing when there is none; `why` when nobody could look."""
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
            # How long the browser takes to start is nobody's fault; how long the page takes is its own.
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.OBSERVING_S):
                    await _use_often(url, said, _Watched(browser, sockets), sockets)
    except BrowserGone as gone:
        return {"why": str(gone)}
    spoken = sockets.saying(said) or next(iter(sockets.found), None)
    return {} if spoken is None else {"path": _path(spoken[0]), "sent": spoken[1]}


async def _use_often(url: str, said: str, browser: _Watched, sockets: _Sockets) -> None:
    for before in (_NAMED, []):
        await _use(url, said, before, browser)
        if sockets.saying(said) is not None or not sockets.found:
            return


async def _use(url: str, said: str, before: list[Json], browser: Any) -> None:
    """Says it on the page, after what else is to be done; whether that shows on the page does not matter."""
    from planloop.controllers.task.checks.web.search import decide_check  # noqa: PLC0415 - needs the browser's package

    steps = [*before, {"fill": {"message-field": said}}, {"press": "send-button"}, {"see": said, "within": _SEE_S}]
    check, faults = parse_web_check({"url": url, "within": _SEE_S, "lexicon": _LEXICON, "can": steps})
    assert check is not None, faults
    await decide_check(lambda _: check, browser)


def _path(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(("", "", parts.path or "/", parts.query, ""))


def main() -> None:
    """Reads what to do and prints what was seen."""
    asked = decode(sys.stdin.buffer.read())
    found = asyncio.run(answer_question(asked["url"], asked["say"]))
    sys.stdout.buffer.write(b"\n" + MARK + encode(found) + b"\n")


if __name__ == "__main__":
    main()
