"""Run the check `ws`: try paths and frame formats of a WebSocket conversation until all steps pass with one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never
from urllib.parse import urlsplit, urlunsplit

import anyio

from planloop.controllers.task.checks.http_exchange import ExchangeTranscript
from planloop.controllers.task.checks.nonces import CheckNonces, fill_nonces
from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding, late_message
from planloop.controllers.task.checks.web import check
from planloop.controllers.task.checks.ws.client import SocketClient, SocketRefused
from planloop.controllers.task.checks.ws.page_child import MARK
from planloop.reconciler.effects.processes import ExitCause
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject, decode, encode_text
from planloop.schemas.checks.matchers import BadPattern
from planloop.schemas.checks.ws_check import (
    PATHS,
    SHAPES,
    FrameShape,
    WsAction,
    WsConnect,
    WsDrop,
    WsExpect,
    WsExpectNone,
    WsSend,
    WsStayOpen,
    parse_frame_shape,
    parse_ws_action,
)
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.objects.task import CheckSpec


@frozen
class PageSocket:
    """WebSocket that a page opens. `path` includes the query; `sent` are all frames that the page sent, in order.

    One of them contains the typed text, unless the page sends it another way or encodes it.
    """

    path: str
    sent: tuple[str, ...] = ()


ObservePageSocket: TypeAlias = Callable[[str, str, CheckEnvironment, float], Awaitable[PageSocket | str | None]]
"""Opens the page at a URL, types a text, sends it, and returns the page's socket, all within a number of seconds.

Returns None if the page opens no socket, and a text if there is no browser: why.
"""


_PAGE: Final = "/"


@frozen
class ConversationWay:
    """One way to hold the conversation: the path of the socket and the shape of its frames."""

    path: str
    shape: FrameShape

    @property
    def words(self) -> str:
        """The way as part of a message."""
        return f"at {self.path}, {self.shape.words}"


@frozen
class ConversationPlan:
    """What to try. `page` is the page to observe first, empty for none; `learns`: use the shape of its frames."""

    base: str
    page: str
    learns: bool
    paths: tuple[str, ...]
    shapes: tuple[FrameShape, ...]


def plan_conversation(arguments: JsonObject) -> ConversationPlan:
    """Return the paths and shapes to try by the arguments of a check; the usual ones for what it leaves out."""
    parts = urlsplit(arguments["url"])
    scheme = parts.scheme.lower().replace("ws", "http", 1)
    path = urlunsplit(("", "", parts.path, parts.query, ""))
    base = urlunsplit((scheme, parts.netloc, "", "", ""))
    discover, frame = arguments.get("discover"), arguments.get("frame")
    shapes = tuple(map(parse_frame_shape, SHAPES if frame is None else frame.get("else", ())))
    learns = frame is None or "learn" in frame
    if discover is not None:
        prefix = path.rstrip("/")
        paths = tuple(f"{prefix}{one}" for one in discover.get("else", ()))
        page = f"{prefix}{discover['from-page']}" if "from-page" in discover else ""
        return ConversationPlan(base, page, learns, paths, shapes)
    if path in ("", "/"):
        return ConversationPlan(base, _PAGE, learns, PATHS, shapes)
    return ConversationPlan(base, _PAGE if learns and frame is not None else "", learns, (path,), shapes)


def conversation_ways(plan: ConversationPlan, seen: PageSocket | None, text: str) -> tuple[ConversationWay, ...]:
    """Return the ways to try, in order and limited. First is the page's own, seen when it sent `text`."""
    learnt = tuple(_learn_shapes(seen.sent, text)) if seen is not None and plan.learns else ()
    paths = ((seen.path,) if seen is not None and plan.page else ()) + plan.paths
    found = (ConversationWay(path, shape) for path in dict.fromkeys(paths) for shape in (*learnt, *plan.shapes))
    return tuple(dict.fromkeys(found))[: limits.SOCKET_WAYS_MAX]


def _learn_shapes(sent: Sequence[str], text: str) -> Iterator[FrameShape]:
    """Yield the shape of the page's frame, first with the frames that the page sent before it, then without."""
    place = next((index for index, frame in enumerate(sent) if text in frame), None)
    if place is None:
        return
    frame, first = sent[place], tuple(sent[:place])
    for greeting in (first, ()) if first else ((),):
        yield FrameShape(frame, text, _is_json(frame), greeting)


def _is_json(text: str) -> bool:
    try:
        return isinstance(decode(text), dict | list | str)
    except ValueError:
        return False


PAGE_PROGRAM: Final = "planloop.controllers.task.checks.ws.page_child"


async def observe_page_socket(
    url: str, text: str, environment: CheckEnvironment, within_s: float
) -> PageSocket | str | None:
    """Observe in a browser process which socket the page at `url` opens, and what it sends when `text` is typed.

    Returns as `ObservePageSocket` says.
    """
    exit_ = await check.run_browser_process(PAGE_PROGRAM, {"url": url, "say": text}, environment, within_s)
    if exit_.ending is ExitCause.TIMED_OUT:
        return f"the browser is {late_message(within_s)}"
    answer = check.browser_answer(exit_, MARK)
    if isinstance(answer, str):
        return answer
    if "why" in answer:
        return str(answer["why"])
    return PageSocket(answer["path"], tuple(answer["sent"])) if "path" in answer else None


if TYPE_CHECKING:
    from anyio.abc import TaskGroup

_LATE: Final = "before the time limit of the check"


@mutable
class ConversationTry:
    """Result of one way: the number of steps that passed, and the message of the first that failed; empty if none did.

    A conversation that was interrupted has a message for the step it was at. `is_open`: the clients could connect.
    `is_unreachable`: nothing listens on the port. `is_bad`: a pattern is invalid.
    """

    way: ConversationWay
    passed: int = 0
    words: str = "not tried"
    probes: int = 0
    is_open: bool = False
    is_unreachable: bool = False
    is_bad: bool = False


async def hold_conversation(
    base: str, found: ConversationTry, clients: Sequence[str], acts: Sequence[WsAction], notes: ExchangeTranscript
) -> None:
    """Hold the conversation with the program at `base` in the way of `found`, and write the result into `found`."""
    talk = _Talk(base, found.way, found, notes)
    notes.add(f"-- {found.way.words}")
    async with anyio.create_task_group() as group:
        try:
            await talk.have(clients, acts, group)
        finally:
            with anyio.CancelScope(shield=True):
                await talk.end()
            group.cancel_scope.cancel()


@mutable
class _Talk:
    """A conversation in progress."""

    base: str
    way: ConversationWay
    found: ConversationTry
    notes: ExchangeTranscript
    present: dict[str, SocketClient] = field(default_factory=dict)

    async def have(self, clients: Sequence[str], acts: Sequence[WsAction], group: TaskGroup) -> None:
        self.found.words = f"{self.way.path} does not open a WebSocket {_LATE}"
        try:
            for name in clients:
                await self._join(name, group)
        except SocketRefused as refused:
            self.found.is_unreachable = refused.is_unreachable
            self.found.words = f"{self.way.path} {refused.words}"
            return
        self.found.is_open = True
        self.found.words = f"no step is done {_LATE}"
        # Some servers register a client only after they have answered its handshake.
        await anyio.sleep(limits.SOCKET_SETTLE_S)
        for number, act in enumerate(acts, start=1):
            self.found.words = f"step {number}: {_describe_step(act)}: not done {_LATE}"
            try:
                words = await self._do(act, group)
            except BadPattern as error:
                words, self.found.is_bad = str(error), True
            if words:
                self.found.words = f"step {number}: {words}"
                return
            self.found.passed = number
        self.found.words = ""

    async def _join(self, name: str, group: TaskGroup) -> None:
        client = self.present[name] = SocketClient(name, self.notes)
        url = f"{self.base.replace('http', 'ws', 1)}{self.way.path}"
        self.found.probes += 1  # Counted before the answer: a server that never answers was probed too.
        try:
            await client.connect(url, self.base)
        except SocketRefused as refused:
            self.found.probes -= refused.is_unreachable
            raise
        group.start_soon(client.listen)
        for frame in self.way.shape.greetings(name):
            await client.send(frame)

    async def _do(self, act: WsAction, group: TaskGroup) -> str:
        """Do a step; return why it fails, empty if it passes."""
        client = self.present[act.client]
        match act:
            case WsSend():
                return await client.send(self.way.shape.put(act.text))
            case WsExpect():
                self.found.probes += 1
                is_received = await client.receives(act.pattern, act.within_s)
                return "" if is_received else _describe_missing_frame(client, act)
            case WsExpectNone():
                self.found.probes += 1
                is_received = await client.receives(act.pattern, act.for_s)
                return f"{act.client} receives {encode_text(act.pattern)}" if is_received else ""
            case WsStayOpen():
                self.found.probes += 1
                return "" if await client.stays(act.for_s) else client.why_closed
            case WsDrop():
                await client.drop()
                return ""
            case WsConnect():
                return await self._reconnect(act.client, group)
            case _:
                assert_never(act)

    async def _reconnect(self, name: str, group: TaskGroup) -> str:
        await self.present[name].leave()
        try:
            await self._join(name, group)
        except SocketRefused as refused:
            return f"{name} cannot connect again: {self.way.path} {refused.words}"
        await anyio.sleep(limits.SOCKET_SETTLE_S)
        return ""

    async def end(self) -> None:
        async with anyio.create_task_group() as leaving:
            for client in self.present.values():
                leaving.start_soon(client.leave)


def _describe_step(act: WsAction) -> str:
    """Return what a step does or waits for, for messages."""
    match act:
        case WsSend():
            return f"{act.client} sends {encode_text(act.text[: limits.VALUE_SHOWN_CHARS])}"
        case WsExpect():
            return f"{act.client} receives {encode_text(act.pattern)}"
        case WsExpectNone():
            return f"{act.client} does not receive {encode_text(act.pattern)} for {act.for_s:g} s"
        case WsStayOpen():
            return f"{act.client} stays connected for {act.for_s:g} s"
        case WsDrop():
            return f"{act.client} is dropped"
        case WsConnect():
            return f"{act.client} connects again"
        case _:
            assert_never(act)


def _describe_missing_frame(client: SocketClient, act: WsExpect) -> str:
    """Return why a client did not receive a frame. Names the time limit only if all of it has passed."""
    words = f"{act.client} does not receive {encode_text(act.pattern)}"
    if client.why_closed:
        return f"{words}: {client.why_closed}"
    words = f"{words} within {act.within_s:g} s"
    if not client.received:
        return f"{words}, nor anything else"
    last = f"its last frame is {encode_text(client.received[-1][: limits.VALUE_SHOWN_CHARS])}"
    is_used = len(client.received) - 1 in client.used
    return f"{words}; {last}, used by an earlier step" if is_used else f"{words}; {last}"


EVIDENCE: Final = "frames.txt"


async def check_ws(
    spec: CheckSpec, environment: CheckEnvironment, observe: ObservePageSocket = observe_page_socket
) -> CheckFinding:
    """Check `ws`: passes if all steps pass in one of the ways.

    A program that uses up all the time fails at the step it was at; otherwise slow programs would be left out of
    benchmark results. If the page should be observed, there is no browser, and no other way works, it is an error.
    """
    plan = plan_conversation(spec.arguments)
    search = _WaySearch(spec.arguments, plan, fill_nonces(spec.arguments, environment.ids))
    text = search.nonces.another("said on the page", environment.ids)
    seen = await _observe_page(plan, text, environment, observe, search.notes)
    if isinstance(seen, str) and not (plan.paths and plan.shapes):
        return CheckFinding("error", f"the page cannot be observed: {seen}", probes=0)
    with anyio.move_on_after(spec.timeout_s) as scope:  # The start of the browser does not count.
        await search.try_ways(conversation_ways(plan, seen if isinstance(seen, PageSocket) else None, text))
    found = search.finding(is_cut=scope.cancelled_caught)
    if found.result == "fail" and found.probes and isinstance(seen, str):
        # The page's own way might have been the right one.
        words = f"{found.message}; and the page cannot be observed: {seen}"
        return CheckFinding("error", words, found.output, found.probes, found.evidence)
    return found


async def _observe_page(
    plan: ConversationPlan,
    text: str,
    environment: CheckEnvironment,
    observe: ObservePageSocket,
    notes: ExchangeTranscript,
) -> PageSocket | str | None:
    if not plan.page:
        return None
    seen = await observe(f"{plan.base}{plan.page}", text, environment, limits.OBSERVING_S + limits.WEB_START_S_MAX)
    notes.add(f"-- the page {plan.page}: {_describe_socket(seen)}")
    return seen


def _describe_socket(seen: PageSocket | str | None) -> str:
    if isinstance(seen, PageSocket):
        return f"opens {seen.path} and sends {list(seen.sent)}"
    return seen or "opens no socket"


@mutable
class _WaySearch:
    """The ways that were tried and their results; `left` are the ways not tried."""

    arguments: JsonObject
    plan: ConversationPlan
    nonces: CheckNonces
    tries: list[ConversationTry] = field(default_factory=list)
    left: tuple[ConversationWay, ...] = ()
    notes: ExchangeTranscript = field(default_factory=ExchangeTranscript)

    @property
    def probes(self) -> int:
        return sum(one.probes for one in self.tries)

    async def try_ways(self, found: tuple[ConversationWay, ...]) -> None:
        """Try one way after the other until one passes, a pattern is invalid, or nothing listens."""
        closed: set[str] = set()
        for number, way in enumerate(found):
            self.left = found[number + 1 :]
            if way.path in closed:
                continue
            # Each way has its own nonces: a program may send earlier messages to new clients.
            acts = [parse_ws_action(step) for step in self.nonces.put(self.arguments["steps"], number)]
            one = ConversationTry(way)
            self.tries.append(one)
            await hold_conversation(self.plan.base, one, self.arguments["clients"], acts, self.notes)
            if one.is_unreachable or one.is_bad or not one.words:
                return
            if not one.is_open:
                closed.add(way.path)

    def finding(self, *, is_cut: bool) -> CheckFinding:
        """Return the finding of the check."""
        content = self.notes.content()
        evidence = {EVIDENCE: content}
        good = next((one for one in self.tries if not one.words), None)
        if good is not None:
            words = f"{good.passed} steps pass {good.way.words}"
            return CheckFinding("pass", words, content, self.probes, evidence)
        bad = next((one for one in self.tries if one.is_bad), None)
        if bad is not None:
            return CheckFinding("error", bad.words, content, self.probes, evidence)
        return CheckFinding("fail", self._why(is_cut=is_cut), content, self.probes, evidence)

    def _why(self, *, is_cut: bool) -> str:
        if not self.tries:
            return "the page opens no socket, and the check names no other way"
        opened = [one for one in self.tries if one.is_open]
        others = [f"the best of {len(opened)} ways"] if len(opened) > 1 else []
        others += ["more were not tried for lack of time"] if is_cut and self._is_more_left() else []
        note = f" ({', '.join(others)})" if others else ""
        if not opened:
            return "; ".join(dict.fromkeys(self._closed())) + note
        best = max(opened, key=lambda one: one.passed)
        return f"{best.way.words}, {best.words}{note}"

    def _is_more_left(self) -> bool:
        """Whether some ways were not tried, apart from those at paths that do not open a socket."""
        closed = {one.way.path for one in self.tries if not one.is_open}
        return any(way.path not in closed for way in self.left)

    def _closed(self) -> Iterator[str]:
        for one in self.tries:
            yield f"{self.plan.base} {one.words.partition(' ')[2]}" if one.is_unreachable else one.words
