"""The ways in which a conversation may be had: a path of the socket, and a shape of its frames. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from planloop.controllers.task.checking.ws.observed import Observed
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject, decode
from planloop.schemas.frozen import frozen
from planloop.schemas.ws_check import PATHS, SHAPES, Shape, shape_of

_PAGE: Final = "/"


@frozen
class Way:
    """One way to talk: where, and how what is said is written."""

    path: str
    shape: Shape

    @property
    def words(self) -> str:
        """The way in a sentence."""
        return f"at {self.path}, {self.shape.words}"


@frozen
class Wanted:
    """What is to be tried: `page` is the one to watch first, empty for none; `learns` its frames."""

    base: str
    page: str
    learns: bool
    paths: tuple[str, ...]
    shapes: tuple[Shape, ...]


def wanted(arguments: JsonObject) -> Wanted:
    """What a check says of where and how; what it leaves out is as usual."""
    parts = urlsplit(arguments["url"])
    scheme = parts.scheme.lower().replace("ws", "http", 1)
    path = urlunsplit(("", "", parts.path, parts.query, ""))
    base = urlunsplit((scheme, parts.netloc, "", "", ""))
    discover, frame = arguments.get("discover"), arguments.get("frame")
    shapes = tuple(map(shape_of, SHAPES if frame is None else frame.get("else", ())))
    learns = frame is None or "learn" in frame
    if discover is not None:
        prefix = path.rstrip("/")
        paths = tuple(f"{prefix}{one}" for one in discover.get("else", ()))
        page = f"{prefix}{discover['from-page']}" if "from-page" in discover else ""
        return Wanted(base, page, learns, paths, shapes)
    if path in ("", "/"):
        return Wanted(base, _PAGE, learns, PATHS, shapes)
    return Wanted(base, _PAGE if learns and frame is not None else "", learns, (path,), shapes)


def ways(wish: Wanted, seen: Observed | None, said: str) -> tuple[Way, ...]:
    """All ways to try, in order and bounded: first as the page was seen to do it when it said `said`."""
    learnt = tuple(_learnt(seen.sent, said)) if seen is not None and wish.learns else ()
    paths = ((seen.path,) if seen is not None and wish.page else ()) + wish.paths
    found = (Way(path, shape) for path in dict.fromkeys(paths) for shape in (*learnt, *wish.shapes))
    return tuple(dict.fromkeys(found))[: limits.SOCKET_WAYS_MAX]


def _learnt(sent: Sequence[str], said: str) -> Iterator[Shape]:
    """The page's shape, after what it sent before and without that."""
    place = next((index for index, frame in enumerate(sent) if said in frame), None)
    if place is None:
        return
    frame, first = sent[place], tuple(sent[:place])
    for greeting in (first, ()) if first else ((),):
        yield Shape(frame, said, _is_json(frame), greeting)


def _is_json(text: str) -> bool:
    try:
        return isinstance(decode(text), dict | list | str)
    except ValueError:
        return False
