"""Try ways to hold a websocket conversation until one passes: which path and which frames are right is not stated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never
from urllib.parse import urlsplit, urlunsplit

import anyio

from planloop.controllers.task.checks.http_exchange import ExchangeTranscript
from planloop.controllers.task.checks.nonces import CheckNonces, fill_nonces
from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding
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

# What a page's own socket was seen to do, and who can see it.


@frozen
class PageSocket:
    """The socket that a page opens. `path` is with its query, `sent` all that the page sent, in order.

    What was typed stands in one of them, unless the page sends it in another way or hides it.
    """

    path: str
    sent: tuple[str, ...] = ()


ObservePageSocket: TypeAlias = Callable[[str, str, CheckEnvironment, float], Awaitable[PageSocket | str | None]]
"""Opens the page at a URL, types a text, sends it, and tells of the page's socket, all within seconds.

None: the page has no socket that could be seen. A text: there is no browser, and why.
"""


# The ways in which a conversation may be had: a path of the socket, and a shape of its frames. Pure.

_PAGE: Final = "/"


@frozen
class ConversationWay:
    """One way to talk: where, and how what is said is written."""

    path: str
    shape: FrameShape

    @property
    def words(self) -> str:
        """The way in a sentence."""
        return f"at {self.path}, {self.shape.words}"


@frozen
class ConversationWish:
    """What is to be tried: `page` is the one to watch first, empty for none; `learns` its frames."""

    base: str
    page: str
    learns: bool
    paths: tuple[str, ...]
    shapes: tuple[FrameShape, ...]


def conversation_wish(arguments: JsonObject) -> ConversationWish:
    """What a check says of where and how; what it leaves out is as usual."""
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
        return ConversationWish(base, page, learns, paths, shapes)
    if path in ("", "/"):
        return ConversationWish(base, _PAGE, learns, PATHS, shapes)
    return ConversationWish(base, _PAGE if learns and frame is not None else "", learns, (path,), shapes)


def conversation_ways(wish: ConversationWish, seen: PageSocket | None, said: str) -> tuple[ConversationWay, ...]:
    """All ways to try, in order and bounded: first as the page was seen to do it when it said `said`."""
    learnt = tuple(_learnt(seen.sent, said)) if seen is not None and wish.learns else ()
    paths = ((seen.path,) if seen is not None and wish.page else ()) + wish.paths
    found = (ConversationWay(path, shape) for path in dict.fromkeys(paths) for shape in (*learnt, *wish.shapes))
    return tuple(dict.fromkeys(found))[: limits.SOCKET_WAYS_MAX]


def _learnt(sent: Sequence[str], said: str) -> Iterator[FrameShape]:
    """The page's shape, after what it sent before and without that."""
    place = next((index for index, frame in enumerate(sent) if said in frame), None)
    if place is None:
        return
    frame, first = sent[place], tuple(sent[:place])
    for greeting in (first, ()) if first else ((),):
        yield FrameShape(frame, said, _is_json(frame), greeting)


def _is_json(text: str) -> bool:
    try:
        return isinstance(decode(text), dict | list | str)
    except ValueError:
        return False


# Has a browser look at a page's own socket, in a process of its own.

PAGE_PROGRAM: Final = "planloop.controllers.task.checks.ws.page_child"


async def observe_page_socket(
    url: str, said: str, environment: CheckEnvironment, within_s: float
) -> PageSocket | str | None:
    """The socket that the page at `url` opens, and what it sends when somebody says `said` there."""
    exit_ = await check.run_browser_process(PAGE_PROGRAM, {"url": url, "say": said}, environment, within_s)
    if exit_.ending is ExitCause.TIMED_OUT:
        return f"the browser is not done after {within_s:g} s"
    answer = check.browser_answer(exit_, MARK)
    if isinstance(answer, str):
        return answer
    if "why" in answer:
        return str(answer["why"])
    return PageSocket(answer["path"], tuple(answer["sent"])) if "path" in answer else None


# One try of a conversation: fresh clients, every step in turn, in one way.

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

_LATE: Final = "in the time of the check"


@mutable
class ConversationTry:
    """What came of one way: `held` steps in a row, and `words` for the first that did not; empty: all did.

    A conversation that is cut short has words for where it was. `is_open`: the clients could connect. `is_unreachable`:
    nothing listens at all. `is_bad`: a pattern cannot be asked.
    """

    way: ConversationWay
    held: int = 0
    words: str = "not tried"
    probes: int = 0
    is_open: bool = False
    is_unreachable: bool = False
    is_bad: bool = False


async def hold_conversation(
    base: str, found: ConversationTry, clients: Sequence[str], acts: Sequence[WsAction], notes: ExchangeTranscript
) -> None:
    """Has the conversation at the program `base`, in the way of `found`, which is told what comes of it."""
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
    """One conversation that goes on."""

    base: str
    way: ConversationWay
    found: ConversationTry
    notes: ExchangeTranscript
    present: dict[str, SocketClient] = field(default_factory=dict)

    async def have(self, clients: Sequence[str], acts: Sequence[WsAction], group: TaskGroup) -> None:
        self.found.words = f"{self.way.path} opens no websocket {_LATE}"
        try:
            for name in clients:
                await self._join(name, group)
        except SocketRefused as refused:
            self.found.is_unreachable = refused.is_unreachable
            self.found.words = f"{self.way.path} {refused.words}"
            return
        self.found.is_open = True
        self.found.words = f"no step is done {_LATE}"
        # Some servers take a client in only after they have answered it.
        await anyio.sleep(limits.SOCKET_SETTLE_S)
        for number, act in enumerate(acts, start=1):
            self.found.words = f"step {number}: {_wish(act)}, which is not done {_LATE}"
            try:
                words = await self._do(act, group)
            except BadPattern as error:
                words, self.found.is_bad = str(error), True
            if words:
                self.found.words = f"step {number}: {words}"
                return
            self.found.held = number
        self.found.words = ""

    async def _join(self, name: str, group: TaskGroup) -> None:
        client = self.present[name] = SocketClient(name, self.notes)
        url = f"{self.base.replace('http', 'ws', 1)}{self.way.path}"
        self.found.probes += 1  # Before it is answered: who is kept waiting has looked.
        try:
            await client.connect(url, self.base)
        except SocketRefused as refused:
            self.found.probes -= refused.is_unreachable
            raise
        group.start_soon(client.listen)
        for frame in self.way.shape.greetings(name):
            await client.say(frame)

    async def _do(self, act: WsAction, group: TaskGroup) -> str:
        """Does a step; why it does not hold, empty when it does."""
        client = self.present[act.client]
        match act:
            case WsSend():
                return await client.say(self.way.shape.put(act.text))
            case WsExpect():
                self.found.probes += 1
                is_heard = await client.hears(act.pattern, act.within_s)
                return "" if is_heard else _deaf(client, act)
            case WsExpectNone():
                self.found.probes += 1
                is_heard = await client.hears(act.pattern, act.for_s)
                return f"{act.client} hears {encode_text(act.pattern)}" if is_heard else ""
            case WsStayOpen():
                self.found.probes += 1
                return "" if await client.stays(act.for_s) else client.why_closed
            case WsDrop():
                await client.drop()
                return ""
            case WsConnect():
                return await self._again(act.client, group)
            case _:
                assert_never(act)

    async def _again(self, name: str, group: TaskGroup) -> str:
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


def _wish(act: WsAction) -> str:
    """What a step waits for."""
    match act:
        case WsSend():
            return f"{act.client} says {encode_text(act.text[: limits.VALUE_SHOWN_CHARS])}"
        case WsExpect():
            return f"{act.client} hears {encode_text(act.pattern)}"
        case WsExpectNone():
            return f"{act.client} does not hear {encode_text(act.pattern)} for {act.for_s:g} s"
        case WsStayOpen():
            return f"{act.client} stays connected for {act.for_s:g} s"
        case WsDrop():
            return f"{act.client} is dropped"
        case WsConnect():
            return f"{act.client} connects again"
        case _:
            assert_never(act)


def _deaf(client: SocketClient, act: WsExpect) -> str:
    """The reason why a client did not hear a frame. It names the time only if all of it has passed."""
    words = f"{act.client} does not hear {encode_text(act.pattern)}"
    if client.why_closed:
        return f"{words}: {client.why_closed}"
    words = f"{words} within {act.within_s:g} s"
    if not client.heard:
        return f"{words}, nor anything else"
    last = f"the last that it heard is {encode_text(client.heard[-1][: limits.VALUE_SHOWN_CHARS])}"
    return f"{words}; {last}, for an earlier step" if len(client.heard) - 1 in client.told else f"{words}; {last}"


# Tries ways to have the conversation until one holds: which path and which frames are right, nobody has said.

EVIDENCE: Final = "frames.txt"


async def check_ws(
    spec: CheckSpec, environment: CheckEnvironment, observe: ObservePageSocket = observe_page_socket
) -> CheckFinding:
    """Holds when there is a way in which all steps do. One that fails in all ways that there was time for, fails.

    Who lets all time go by fails where it was then: else a program could choose to be in no rate, by being slow.
    Where the page should be watched and nobody can, it is an error that no other way works.
    """
    wish = conversation_wish(spec.arguments)
    trying = _Trying(spec.arguments, wish, fill_nonces(spec.arguments, environment.ids))
    said = trying.nonces.another("said on the page", environment.ids)
    seen = await _seen(wish, said, environment, observe, trying.notes)
    if isinstance(seen, str) and not (wish.paths and wish.shapes):
        return CheckFinding("error", f"the page cannot be watched: {seen}", probes=0)
    with anyio.move_on_after(spec.timeout_s) as scope:  # A browser takes its own time to start, on a busy machine.
        await trying.all(conversation_ways(wish, seen if isinstance(seen, PageSocket) else None, said))
    found = trying.finding(is_cut=scope.cancelled_caught)
    if found.result == "fail" and found.probes and isinstance(seen, str):
        # The page's own way might have been the right one.
        words = f"{found.message}; and the page cannot be watched: {seen}"
        return CheckFinding("error", words, found.output, found.probes, found.evidence)
    return found


async def _seen(
    wish: ConversationWish,
    said: str,
    environment: CheckEnvironment,
    observe: ObservePageSocket,
    notes: ExchangeTranscript,
) -> PageSocket | str | None:
    if not wish.page:
        return None
    seen = await observe(f"{wish.base}{wish.page}", said, environment, limits.OBSERVING_S + limits.WEB_START_S_MAX)
    notes.add(f"-- the page {wish.page}: {_told(seen)}")
    return seen


def _told(seen: PageSocket | str | None) -> str:
    if isinstance(seen, PageSocket):
        return f"opens {seen.path} and sends {list(seen.sent)}"
    return seen or "no socket was seen"


@mutable
class _Trying:
    """The ways that were tried, and what came of them; `left` were not."""

    arguments: JsonObject
    wish: ConversationWish
    nonces: CheckNonces
    tries: list[ConversationTry] = field(default_factory=list)
    left: tuple[ConversationWay, ...] = ()
    notes: ExchangeTranscript = field(default_factory=ExchangeTranscript)

    @property
    def probes(self) -> int:
        return sum(one.probes for one in self.tries)

    async def all(self, found: tuple[ConversationWay, ...]) -> None:
        """Tries one way after the other until one holds, or nothing is there that could answer."""
        shut: set[str] = set()
        for number, way in enumerate(found):
            self.left = found[number + 1 :]
            if way.path in shut:
                continue
            # Each with nonces of its own: a program may tell who comes later what was said before.
            acts = [parse_ws_action(step) for step in self.nonces.put(self.arguments["steps"], number)]
            one = ConversationTry(way)
            self.tries.append(one)
            await hold_conversation(self.wish.base, one, self.arguments["clients"], acts, self.notes)
            if one.is_unreachable or one.is_bad or not one.words:
                return
            if not one.is_open:
                shut.add(way.path)

    def finding(self, *, is_cut: bool) -> CheckFinding:
        """What there is to say in the end."""
        content = self.notes.content()
        evidence = {EVIDENCE: content}
        good = next((one for one in self.tries if not one.words), None)
        if good is not None:
            words = f"{good.held} steps hold {good.way.words}"
            return CheckFinding("pass", words, content, self.probes, evidence)
        bad = next((one for one in self.tries if one.is_bad), None)
        if bad is not None:
            return CheckFinding("error", bad.words, content, self.probes, evidence)
        return CheckFinding("fail", self._why(is_cut=is_cut), content, self.probes, evidence)

    def _why(self, *, is_cut: bool) -> str:
        if not self.tries:
            return "the page opens no socket, and there is no other way to try"
        opened = [one for one in self.tries if one.is_open]
        others = [f"the best of {len(opened)} ways"] if len(opened) > 1 else []
        others += ["more were not tried for lack of time"] if is_cut and self._is_more_left() else []
        note = f" ({', '.join(others)})" if others else ""
        if not opened:
            return "; ".join(dict.fromkeys(self._closed())) + note
        best = max(opened, key=lambda one: one.held)
        return f"{best.way.words}, {best.words}{note}"

    def _is_more_left(self) -> bool:
        """Whether there are ways that were not tried and are at no path that opens no socket."""
        shut = {one.way.path for one in self.tries if not one.is_open}
        return any(way.path not in shut for way in self.left)

    def _closed(self) -> Iterator[str]:
        for one in self.tries:
            yield f"{self.wish.base} {one.words.partition(' ')[2]}" if one.is_unreachable else one.words
