"""One person in a browser: open pages, click, type, look. Playwright with the system's Chromium.

Looking uses the DevTools protocol and acting uses mouse and keyboard, so the scripts of a page are not involved. Every
request to the browser has a time limit, because a page may hang.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

from playwright.async_api import Browser, CDPSession, Dialog, Page, Request, async_playwright
from playwright.async_api import Error as PlaywrightError

from planloop.controllers.task.checks.web.boards import BoardCell
from planloop.controllers.task.checks.web.page_snapshot import STYLES, PageSnapshot, page_snapshot
from planloop.schemas import limits

T = TypeVar("T")

ARGUMENTS: Final = ("--no-sandbox", "--disable-dev-shm-usage")
LOOK_EVERY_S: Final = 0.05
REST_S: Final = 0.3  # A page without network activity for this time is at rest.
_STREAMS: Final = frozenset({"websocket", "eventsource", "media", "ping"})
_PENDING_S: Final = 2.0  # A request that takes longer is taken for long polling.
_LOADING_S: Final = 5.0
_ENDS: Final = re.compile("closed|crash|abort|detached", re.IGNORECASE)
_HEARD_S: Final = 0.5
_OPTIONS: Final = "function () { return [...this.options].map(option => option.label) }"
_CHOOSE: Final = """function (label) {
  this.value = [...this.options].find(option => option.label === label).value;
  for (const type of ['input', 'change']) this.dispatchEvent(new Event(type, {bubbles: true}));
}"""
_VIEW: Final = {"width": 1280, "height": 900}


class PageFailed(Exception):
    """The page cannot be opened or does not answer. The page caused it."""


class BrowserGone(Exception):
    """The browser does not start, or ended. The page did not cause it."""


class TabGone(Exception):
    """The process of the tab ended and the browser still runs. The page caused it, unless it was an accident."""


@asynccontextmanager
async def open_chromium(program: str, host: str = "") -> AsyncIterator[Browser]:
    """Yield the browser at `program` and close it at the end. If `host` is set, the browser can reach only that host.

    Raises:
        BrowserGone: the browser does not start.
    """
    # This rule applies to addresses and names, and to pages, frames, workers and sockets.
    alone = (f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {host}",) if host else ()
    async with async_playwright() as playwright:
        try:
            browser = await playwright.chromium.launch(executable_path=program, args=[*ARGUMENTS, *alone])
        except PlaywrightError as error:
            raise BrowserGone(f"the browser {program} does not start: {_first_line(error)}") from error
        try:
            yield browser
        finally:
            with suppress(PlaywrightError, TimeoutError):
                async with asyncio.timeout(limits.WEB_ANSWER_S_MAX):
                    await browser.close()


async def run_while_browser_lives(browser: Browser, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. A request to a browser that was killed might otherwise wait for ever.

    Raises:
        BrowserGone: the browser ended.
    """
    lost = asyncio.Event()
    browser.on("disconnected", lambda _: lost.set())
    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(lost.wait())
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise BrowserGone("the browser ended")
    finally:
        working.cancel()
        watching.cancel()


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


class BrowserPerson:
    """One browser context; `page` is the page that was opened last in it."""

    def __init__(self, browser: Browser, name: str) -> None:
        self.name = name
        self._browser = browser
        self._pages: list[Page] = []
        self._sessions: dict[Page, CDPSession] = {}
        self._pending: dict[Request, float] = {}
        self._news_s = 0.0
        self.typed: set[str] = set()
        self.spoken: list[str] = []

    async def enter(self) -> None:
        """Create a fresh context and open a page in it."""
        self._lost: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._browser.on("disconnected", lambda _: self._lose(BrowserGone("the browser ended")))
        self._context = await self._ask(
            self._browser.new_context(
                viewport=_VIEW,  # type: ignore[arg-type]
                locale="en-US",
                timezone_id="UTC",
                ignore_https_errors=True,
                accept_downloads=False,
            )
        )
        self._context.on("page", self._attend)
        await self._ask(self._context.new_page())

    async def leave(self) -> None:
        """Close the context, even if its page hangs."""
        with suppress(PlaywrightError, TimeoutError):
            async with asyncio.timeout(limits.WEB_ANSWER_S_MAX):
                await self._context.close()

    def _attend(self, page: Page) -> None:
        self._pages.append(page)
        page.on("dialog", self._answer)
        page.on("request", self._sent)
        page.on("requestfinished", self._received)
        page.on("requestfailed", self._received)
        page.on("framenavigated", lambda _: self._heard())
        page.on("close", lambda _: self._pages.remove(page))
        page.on("crash", lambda _: self._lose(TabGone("the browser's tab crashed")))

    def _lose(self, why: Exception) -> None:
        if not self._lost.done():
            self._lost.set_result(why)

    def _heard(self) -> None:
        self._news_s = asyncio.get_running_loop().time()

    async def _answer(self, dialog: Dialog) -> None:
        self.spoken.append(dialog.message)
        self._heard()
        with suppress(PlaywrightError):
            await dialog.accept(dialog.default_value or self.name or "guest")

    def _sent(self, request: Request) -> None:
        if request.resource_type not in _STREAMS:
            self._heard()
            self._pending[request] = self._news_s

    def _received(self, request: Request) -> None:
        if self._pending.pop(request, None) is not None:
            self._heard()

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is loading, and nothing has loaded for REST_S."""
        now = asyncio.get_running_loop().time()
        waiting = any(now - since < _PENDING_S for since in self._pending.values())
        return not waiting and now - self._news_s >= REST_S

    @property
    def page(self) -> Page:
        if not self._pages:
            raise BrowserGone("the browser has no open page")
        return self._pages[-1]

    async def _ask(self, question: Awaitable[T]) -> T:
        """Return the browser's answer. Raises PageFailed after a time limit, BrowserGone or TabGone if one ended."""
        asking = asyncio.ensure_future(question)
        try:
            waited: set[asyncio.Future[Any]] = {asking, self._lost}
            await asyncio.wait(waited, timeout=limits.WEB_ANSWER_S_MAX, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
        except PlaywrightError as error:
            if _ENDS.search(str(error)):  # The event that says what ended comes just after this error.
                await asyncio.wait({self._lost}, timeout=_HEARD_S)
            if not self._lost.done():
                raise
        finally:
            asking.cancel()
        if self._lost.done():
            raise self._lost.result()
        raise PageFailed(f"the page does not answer within {limits.WEB_ANSWER_S_MAX:g} s")

    async def _session(self) -> CDPSession:
        page = self.page
        if page not in self._sessions:
            self._sessions[page] = await self._context.new_cdp_session(page)
        return self._sessions[page]

    async def _send(self, method: str, **arguments: Any) -> Any:
        return await (await self._session()).send(method, arguments)

    async def look(self) -> PageSnapshot:
        """Return a snapshot of the page. Tries again while the page is being replaced."""
        for _ in range(int(limits.WEB_ANSWER_S_MAX / LOOK_EVERY_S)):
            try:
                return await self._ask(self._look())
            except PlaywrightError:
                await asyncio.sleep(LOOK_EVERY_S)
        raise PageFailed("no snapshot of the page can be taken")

    async def _look(self) -> PageSnapshot:
        snapshot = await self._send("DOMSnapshot.captureSnapshot", computedStyles=list(STYLES))
        frames = [document["frameId"] for document in snapshot["documents"]]
        trees = [await self._tree(snapshot["strings"][frame]) for frame in frames if frame >= 0]
        return page_snapshot(snapshot, trees, frozenset(self.typed), tuple(self.spoken))

    async def _tree(self, frame: str) -> Any:
        try:
            return await self._send("Accessibility.getFullAXTree", frameId=frame)
        except PlaywrightError:
            return {"nodes": []}  # The frame was removed meanwhile, or is in another process.

    async def open(self, url: str) -> None:
        """Open `url`. Raises PageFailed if nothing answers."""
        try:
            await self._ask(self.page.goto(url, wait_until="commit"))
        except PlaywrightError as error:
            reason = _first_line(error).partition("net::")[2].partition(" at ")[0] or _first_line(error)
            raise PageFailed(
                f"{url} cannot be opened: {reason.removeprefix('ERR_').replace('_', ' ').lower()}"
            ) from error
        await self._load()

    async def reload(self) -> None:
        """Reload the page."""
        await self._ask(self.page.reload(wait_until="commit"))
        await self._load()

    async def back(self) -> None:
        """Go back to the previous page."""
        await self._ask(self.page.go_back(wait_until="commit"))
        await self._load()

    async def _load(self) -> None:
        with suppress(PlaywrightError):  # A page may wait for an image for ever: use it as it is.
            await self._ask(self.page.wait_for_load_state("load", timeout=_LOADING_S * 1000))

    async def press(self, square: BoardCell) -> None:
        """Click the element, in the middle unless `square` names another point."""
        x, y = await self._ask(self._point(square))
        await self._ask(self.page.mouse.click(x, y))
        await self._acted()

    async def _acted(self) -> None:
        """Give the page time to react: its requests do not start immediately."""
        await asyncio.sleep(LOOK_EVERY_S)
        await self._load()

    async def _point(self, square: BoardCell) -> tuple[float, float]:
        with suppress(PlaywrightError):
            await self._send("DOM.scrollIntoViewIfNeeded", backendNodeId=square.node)
        quads = (await self._send("DOM.getContentQuads", backendNodeId=square.node))["quads"]
        if not quads:
            raise PlaywrightError("the element is no longer on the page")
        x0, y0, x1, y1, x2, y2, x3, y3 = quads[0]
        across, down = square.at
        left, top = min(x0, x1, x2, x3), min(y0, y1, y2, y3)
        return left + across * (max(x0, x1, x2, x3) - left), top + down * (max(y0, y1, y2, y3) - top)

    async def fill(self, node: int, text: str) -> None:
        """Replace the content of a field with the keyboard."""
        self.typed.add(text)
        await self._ask(self._focus(node))
        await self._ask(self.page.keyboard.press("Control+a"))
        await self._ask(self.page.keyboard.press("Delete"))
        await self._ask(
            self.page.keyboard.type(text)
            if len(text) <= limits.WEB_TYPED_CHARS_MAX
            else self.page.keyboard.insert_text(text)
        )

    async def _focus(self, node: int) -> None:
        x, y = await self._point(BoardCell(node))
        await self.page.mouse.click(x, y)
        with suppress(PlaywrightError):
            await self._send("DOM.focus", backendNodeId=node)

    async def type(self, text: str) -> None:
        """Type at the focus."""
        self.typed.add(text)
        await self._ask(self.page.keyboard.type(text))
        await self._acted()

    async def key(self, key: str, node: int = 0) -> None:
        """Press a key at the focus, or in the field `node`. Raises ValueError for an unknown key."""
        if node:
            await self._ask(self._send("DOM.focus", backendNodeId=node))
        try:
            await self._ask(self.page.keyboard.press(key))
        except PlaywrightError as error:
            if "Unknown key" in str(error):
                raise ValueError(f"unknown key `{key}`") from error
            raise
        await self._acted()

    async def options(self, node: int) -> list[str]:
        """Return the labels of the options of a native list."""
        return [str(one) for one in await self._ask(self._call(node, _OPTIONS))]

    async def choose(self, node: int, label: str) -> None:
        """Select the option with this label in a native list. The system draws the list, so no click can reach it."""
        await self._ask(self._call(node, _CHOOSE, label))
        await self._acted()

    async def _call(self, node: int, function: str, *arguments: str) -> Any:
        found = await self._send("DOM.resolveNode", backendNodeId=node)
        answer = await self._send(
            "Runtime.callFunctionOn",
            functionDeclaration=function,
            objectId=found["object"]["objectId"],
            arguments=[{"value": one} for one in arguments],
            returnByValue=True,
        )
        return answer["result"].get("value")

    async def drag(self, source: BoardCell, to: BoardCell) -> None:
        """Drag one element onto the other, in small steps like a hand."""
        begin, end = await self._ask(self._point(source)), await self._ask(self._point(to))
        mouse = self.page.mouse
        await self._ask(mouse.move(*begin))
        await self._ask(mouse.down())
        await self._ask(mouse.move(begin[0] + 5, begin[1] + 5))
        await self._ask(mouse.move(*end, steps=10))
        await self._ask(mouse.up())
        await self._acted()

    async def picture(self, node: int = 0) -> bytes:
        """Return a PNG screenshot of an element, or of the visible part of the page."""
        if not node:
            return await self._ask(self.page.screenshot())
        await self._ask(self._point(BoardCell(node)))
        box = (await self._ask(self._send("DOM.getBoxModel", backendNodeId=node)))["model"]["border"]
        clip = {"x": box[0], "y": box[1], "width": max(1, box[4] - box[0]), "height": max(1, box[5] - box[1])}
        return await self._ask(self.page.screenshot(clip=clip))  # type: ignore[arg-type]
