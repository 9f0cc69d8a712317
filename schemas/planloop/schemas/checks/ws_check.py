"""The steps and frame shapes of a `ws` check as values, and the problems in one as written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from math import inf
from typing import Final, TypeAlias

from planloop.schemas import limits, quantities
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.checks.matchers import pattern_problems as pattern_faults
from planloop.schemas.diagnostic import ValuePath, ValueProblem
from planloop.schemas.frozen import frozen
from planloop.schemas.predicates import is_number

HOLE: Final = "$"
PATHS: Final = ("/ws", "/chat", "/socket", "/websocket", "/")
SHAPES: Final[tuple[Json, ...]] = (
    "text",
    {"json": {"message": HOLE}},
    {"json": {"text": HOLE}},
    {"json": {"type": "message", "text": HOLE}},
    {"json": {"type": "message", "message": HOLE}},
    {"json": {"type": "chat", "message": HOLE}},
)
"""What programs usually listen at, and how they usually have it, where a check says nothing."""

_URL: Final = re.compile(r"(ws|http)s?://[^\s/?#]+([/?#]\S*)?", re.IGNORECASE)
_VERBS: Final[Mapping[str, str]] = {"say": "", "hears": "within", "hears-not": "for", "not-closed": ""}
_OF_CHECK: Final = ("drop", "connect")
_AS_IN: Final = "as in `{ann: {say: hi}}`, `{bob: {hears: hi, within: 2s}}`, `{drop: ann}`"


@frozen
class WsSend:
    """A client says a text, in a frame of the shape at hand."""

    client: str
    text: str


@frozen
class WsExpect:
    """A client is sent what fits `pattern`, in time; a text fits when some text in a frame contains it."""

    client: str
    pattern: Json
    within_s: float


@frozen
class WsExpectNone:
    """A client receives no message that fits `pattern`: neither unread nor within this time."""

    client: str
    pattern: Json
    for_s: float


@frozen
class WsStayOpen:
    """The connection of a client stays open for this long."""

    client: str
    for_s: float


@frozen
class WsDrop:
    """A client is gone without a word."""

    client: str


@frozen
class WsConnect:
    """A client comes, or comes back."""

    client: str


WsAction: TypeAlias = WsSend | WsExpect | WsExpectNone | WsStayOpen | WsDrop | WsConnect


@frozen
class FrameShape:
    """How a text is written in a frame: `text` with `hole` in the place of it; in JSON when `is_json`.

    `first` is sent once connected, with its hole for the client's name.
    """

    text: str
    hole: str = HOLE
    is_json: bool = False
    first: tuple[str, ...] = ()

    def put(self, said: str) -> str:
        """Return the frame that sends `said`."""
        return self.text.replace(self.hole, encode_text(said)[1:-1] if self.is_json else said)

    @property
    def words(self) -> str:
        """The shape in a sentence."""
        if self.hole != HOLE:
            return "in frames like the page's"
        return f"in frames like {self.text}" if self.text != HOLE else "in frames of plain text"

    def greetings(self, client: str) -> tuple[str, ...]:
        """The frames that are sent once connected."""
        return tuple(one.replace(self.hole, encode_text(client)[1:-1]) for one in self.first)


def parse_frame_shape(written: Json) -> FrameShape:
    """A shape as it was written, in which nothing is wrong."""
    if isinstance(written, str):
        return FrameShape(HOLE)
    first = written.get("first", [])
    greetings = tuple(_frame_text(one) for one in (first if isinstance(first, list) else [first]))
    if "json" in written:
        return FrameShape(encode_text(written["json"]), is_json=True, first=greetings)
    return FrameShape(written.get("text", HOLE), first=greetings)


def _frame_text(written: Json) -> str:
    return written if isinstance(written, str) else encode_text(written["json"])


def parse_ws_action(written: JsonObject) -> WsAction:
    """A step as it was written, in which nothing is wrong."""
    ((who, what),) = written.items()
    if who in _OF_CHECK:
        return WsDrop(what) if who == "drop" else WsConnect(what)
    verb = next(name for name in _VERBS if name in what)
    match verb:
        case "say":
            return WsSend(who, what["say"])
        case "hears":
            return WsExpect(who, what["hears"], _seconds(what.get("within", limits.SOCKET_HEAR_S)) or 0.0)
        case "hears-not":
            return WsExpectNone(who, what["hears-not"], _seconds(what.get("for", 1)) or 0.0)
        case _:
            return WsStayOpen(who, _seconds(what["not-closed"]) or 0.0)


def _seconds(value: Json) -> float | None:
    if isinstance(value, str):
        return quantities.parse_duration(value)
    return float(value) if is_number(value) and value >= 0 else None


def ws_check_problems(
    arguments: JsonObject, *, has_url: bool = False, timeout_s: float = inf
) -> Iterator[ValueProblem]:
    """What is wrong with a `ws` check as it is written, which may take `timeout_s`.

    `has_url`: another field has the URL of the program.
    """
    url = arguments.get("url")
    if url is None and not has_url:
        yield ValueProblem(
            (), "P0210", "`ws` lacks `url`", "where the program is: `url: http://localhost:8080`", is_key=True
        )
    if url is not None and "{{" not in url and not _URL.fullmatch(url):
        yield ValueProblem(
            ("url",), "P0223", f"`{url}` is not a websocket URL", "for example `ws://localhost:8080/chat`"
        )
    for index, path in enumerate(arguments.get("discover", {}).get("else", ())):
        if not path.startswith("/"):
            at = ("discover", "else", str(index))
            yield ValueProblem(at, "P0223", f"`{path}` is not a path", f"start it with `/`: `/{path}`")
    shapes = arguments.get("frame", {}).get("else", ())
    for index, shape in enumerate(shapes):
        yield from _shape_faults(shape, ("frame", "else", str(index)))
    ways = max(1, len(shapes)) * max(1, len(arguments.get("discover", {}).get("else", ())))
    if ways > limits.SOCKET_WAYS_MAX:
        hint = f"at most {limits.SOCKET_WAYS_MAX}"
        yield ValueProblem(("frame",), "P0224", f"{ways} pairs of a path and a shape to try", hint, is_key=True)
    yield from _clients_faults(arguments)
    faults = [*_steps_faults(arguments)]
    yield from faults
    if not faults:
        yield from _waits_faults(arguments, timeout_s)


def _clients_faults(arguments: JsonObject) -> Iterator[ValueProblem]:
    clients = arguments.get("clients", ())
    if not clients:
        yield ValueProblem((), "P0210", "`ws` lacks `clients`", "as in `clients: [ann, bob]`", is_key=True)
    if len(clients) > limits.SOCKET_CLIENTS_MAX:
        hint = f"at most {limits.SOCKET_CLIENTS_MAX}"
        yield ValueProblem(("clients",), "P0224", f"{len(clients)} clients", hint, is_key=True)
    for index, name in enumerate(clients):
        at = ("clients", str(index))
        if name in _OF_CHECK:
            yield ValueProblem(at, "P0212", f"a client cannot be called `{name}`", "that is a step")
        if name in clients[:index]:
            yield ValueProblem(at, "P0208", f"the client `{name}` is given twice", "each has its own name")


def _shape_faults(shape: Json, at: ValuePath) -> Iterator[ValueProblem]:
    if shape == "text":
        return
    kinds = [name for name in ("text", "json") if name in shape] if isinstance(shape, dict) else []
    if len(kinds) != 1 or not shape.keys() <= {"text", "json", "first"}:
        hint = "give `text`, or JSON with `$` for the message: `{json: {message: $}}`"
        yield ValueProblem(at, "P0202", f"`{encode_text(shape)}` is not a frame format", hint)
        return
    if HOLE not in encode_text(shape[kinds[0]]):
        yield ValueProblem((*at, kinds[0]), "P0210", "the frame has no place for the message", "write `$` in its place")
    first = shape.get("first", [])
    for one in first if isinstance(first, list) else [first]:
        if not isinstance(one, str) and not (isinstance(one, dict) and one.keys() == {"json"}):
            hint = "a text, or `{json: {type: join, name: $}}`"
            yield ValueProblem((*at, "first"), "P0202", f"no frame: `{encode_text(one)}`", hint)


def _steps_faults(arguments: JsonObject) -> Iterator[ValueProblem]:
    steps = arguments.get("steps", ())
    clients = arguments.get("clients", ())
    if not steps:
        yield ValueProblem((), "P0210", "`ws` lacks `steps`", f"say what happens, {_AS_IN}", is_key=True)
    yield from _gone_faults(steps)
    faults = [fault for n, step in enumerate(steps) for fault in _step_faults(step, clients, ("steps", str(n)))]
    yield from faults
    verbs = {
        verb
        for step in steps
        if isinstance(step, dict)
        for what in step.values()
        if isinstance(what, dict)
        for verb in what
    }
    if not faults and "hears-not" in verbs and "hears" not in verbs:
        hint = "add a `hears`, that shows that there is something to hear"
        yield ValueProblem(("steps",), "P0211", "`hears-not` and no `hears`: who is deaf passes", hint, is_key=True)


def _waits_faults(arguments: JsonObject, timeout_s: float) -> Iterator[ValueProblem]:
    """Yield a problem if the waits of valid steps exceed the timeout of the check."""
    acts = [parse_ws_action(step) for step in arguments["steps"]]
    comings = 1 + sum(isinstance(act, WsConnect) for act in acts)
    waits_s = sum(act.for_s for act in acts if isinstance(act, WsStayOpen)) + comings * limits.SOCKET_SETTLE_S
    if waits_s >= timeout_s:
        words = f"the steps take {quantities.format_duration(waits_s)} at least, and the check may take"
        hint = "give it a longer `timeout`, or ask for less"
        yield ValueProblem(("steps",), "P0212", f"{words} {quantities.format_duration(timeout_s)}", hint, is_key=True)


def _gone_faults(steps: list[Json]) -> Iterator[ValueProblem]:
    """Yield a problem for each step of a client that was dropped and has not reconnected."""
    gone: set[str] = set()
    for index, step in enumerate(steps):
        who, what = next(iter(step.items())) if isinstance(step, dict) and step else ("", "")
        if who in _OF_CHECK and isinstance(what, str):
            gone = gone | {what} if who == "drop" else gone - {what}
        elif who in gone:
            hint = f"`{{connect: {who}}}` before it"
            yield ValueProblem(("steps", str(index), who), "P0211", f"`{who}` was dropped", hint, is_key=True)


def _step_faults(step: Json, clients: list[str], at: ValuePath) -> Iterator[ValueProblem]:
    if not isinstance(step, dict) or len(step) != 1:
        yield ValueProblem(at, "P0202", "a step is one client and what it does", _AS_IN)
        return
    ((who, what),) = step.items()
    if who in _OF_CHECK:
        if what not in clients:
            yield ValueProblem((*at, who), "P0213", f"unknown client `{what}`", _near(str(what), clients))
    elif who not in clients:
        yield ValueProblem((*at, who), "P0213", f"unknown client `{who}`", _near(who, clients), is_key=True)
    elif not isinstance(what, dict):
        yield ValueProblem((*at, who), "P0202", f"`{who}` does nothing known", _AS_IN)
    else:
        yield from _act_faults(what, (*at, who))


def _act_faults(what: JsonObject, at: ValuePath) -> Iterator[ValueProblem]:
    verbs = [name for name in _VERBS if name in what]
    if len(verbs) != 1:
        summary = "a step with " + (" and ".join(f"`{name}`" for name in verbs) or "nothing that a client does")
        yield ValueProblem(at, "P0211", summary, f"one of {', '.join(_VERBS)}")
        return
    verb = verbs[0]
    for name in what:
        if name not in (verb, _VERBS[verb]):
            known = [one for one in (verb, _VERBS[verb]) if one]
            yield ValueProblem((*at, name), "P0201", f"`{verb}` has no `{name}`", _near(name, known), is_key=True)
    for name in ("within", "for", "not-closed"):
        if name in what and _seconds(what[name]) is None:
            yield ValueProblem(
                (*at, name), "P0202", f"`{encode_text(what[name])}` is not a duration", "for example `2s` or 0.5"
            )
    if verb == "say" and not (isinstance(what["say"], str) and what["say"]):
        yield ValueProblem((*at, verb), "P0202", "`say` needs a text", "for example `{say: hi}`")
    if verb in ("hears", "hears-not"):
        if what[verb] == "":
            yield ValueProblem((*at, verb), "P0210", "nothing to hear", "a text, or `{any: true}` for anything")
        yield from pattern_faults(what[verb], (*at, verb))


def _near(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    if near:
        return f"did you mean `{near[0]}`?"
    return f"there are {', '.join(known)}" if known else "there are none"
