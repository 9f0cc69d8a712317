"""What the API answers to a read: a function of the view, the log and the request, the same with and without an owner.

`answer` knows every GET path of /v1 but those that read the log itself (`past.py`) and the stream. It is
synchronous, so a command with no owner alive needs no event loop for it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Final, Protocol

from planloop.app import pointing
from planloop.app.exits import Exit, Halt
from planloop.schemas import address as addresses
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import OBJECTS_ANSWER_MAX, TEXT_ANSWER_BYTES_MAX
from planloop.schemas.resource import Resource

OF_LOG: Final = frozenset({"conversation", "history", "log", "messages", "prompt"})  # Heads of paths of `past.py`.
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class Shelf(Protocol):
    """The objects of one plan, as of one revision."""

    @property
    def rev(self) -> int: ...

    def get(self, address: str) -> Resource | None: ...

    def list(self, kind: str) -> Sequence[Resource]: ...


class Archive(Shelf, Protocol):
    """What reads need: the objects, the blobs and the outputs of one plan.

    `open_output` gives what a command that has not ended writes to, to be closed; None when there is no such output.
    """

    @property
    def epoch(self) -> int: ...

    def get_blob(self, digest: str) -> bytes | None: ...

    def open_output(self, op: str) -> BinaryIO | None: ...


@frozen
class Host:
    """Who answers: the plan's name and, with an owner alive, its process and what it does with the file."""

    name: str
    pid: int | None = None
    version: str = ""
    file: str | None = None


def answer(archive: Archive, host: Host, path: str, query: Mapping[str, str]) -> Json:
    """The answer to GET /v1/`path`. Raises Halt: NOT_FOUND for an object, USAGE for a path that there is not."""
    head, _, rest = path.partition("/")
    match head:
        case "status":
            return _status(archive, host)
        case "objects":
            return shown(archive, rest) if rest else listed(archive, query)
        case "describe" if rest:
            return described(archive, rest)
        case "blobs":
            return _blob(archive, rest, int(query.get("after", 0)))
        case "dump":
            from planloop.server import carrying  # Nothing else that is read needs to know what an agent is.

            return carrying.dumped(archive, host.name, address(f"agent/{rest.removeprefix('agent/')}"))
        case "waiting" | "waits" if not rest:
            from planloop.app import wiring

            return worded(archive, host.name, head, wiring.now())
        case "printed" if rest:
            from planloop.server import printed

            return printed.answer(archive, address(f"task/{rest.removeprefix('task/')}"), query)
        case "output":
            return _output(archive, rest, int(query.get("after", 0)))
        case _:
            raise Halt(Exit.USAGE, f"the API has no `{path}`", "plan version on both sides tells if they differ")


def is_of_log(path: str, query: Mapping[str, str]) -> bool:
    """Whether GET `path` is a read of the log's file: `past.answer` has it, and takes its time."""
    head = path.partition("/")[0]
    return head in OF_LOG or (head in ("objects", "describe", "waiting", "waits") and "at" in query)


def worded(shelf: Shelf, plan: str, head: str, now: float) -> JsonObject:
    """What waits for a person in the plan of that name, or, for `waits`, who waits for whom over files."""
    from planloop.app.telling import waiting, waits

    return waits.answer(shelf, now) if head == "waits" else waiting.answer(shelf, plan, now)


def _status(archive: Archive, host: Host) -> JsonObject:
    return {
        "plan": host.name,
        "pid": host.pid,
        "version": host.version,
        "file": host.file,
        "rev": archive.rev,
        "epoch": archive.epoch,
    }


def address(path: str) -> str:
    """The address that a path names: `task/~` is `task/.`, for browsers, which take a `.` out of a path."""
    return f"{path[:-1]}{addresses.ROOT}" if path.endswith("/~") and path.count("/") == 1 else path


def shown(shelf: Shelf, path: str) -> JsonObject:
    """The object at the address that `path` names. Raises Halt: NOT_FOUND."""
    return _found(shelf, path).to_json()


def described(shelf: Shelf, path: str) -> JsonObject:
    """What `plan describe` says of the object at the address that `path` names. Raises Halt: NOT_FOUND."""
    from planloop.app import wiring
    from planloop.app.telling import description

    return description.answer(shelf, _found(shelf, path), wiring.now())


def _found(shelf: Shelf, path: str) -> Resource:
    wanted = address(path)
    found = shelf.get(wanted)
    if found is None:
        raise Halt(Exit.NOT_FOUND, f"no {wanted[:200]} in this plan", near(shelf, wanted))
    return found


def listed(shelf: Shelf, query: Mapping[str, str]) -> JsonObject:
    """A page of the objects of `kind`, from behind the address `from` on. Raises Halt: USAGE for an unknown kind."""
    kinds = sorted(addresses.KINDS) if not query.get("kind") else sorted(set(query["kind"].split(",")))
    if unknown := [kind for kind in kinds if kind not in addresses.KINDS]:
        hint = f"kinds are {', '.join(sorted(addresses.KINDS))}"
        raise Halt(Exit.USAGE, f"there are no objects of the kind `{unknown[0][:100]}`", hint)
    limit = min(int(query.get("limit", OBJECTS_ANSWER_MAX)), OBJECTS_ANSWER_MAX)
    after = query.get("from", "")
    first = after.partition("/")[0]
    found: list[Resource] = []
    for kind in kinds:
        if kind >= first and len(found) <= limit:
            found += [one for one in shelf.list(kind) if kind > first or one.address > after]
    page = found[:limit]
    return {
        "rev": shelf.rev,
        "objects": [item.to_json() for item in page],
        "next": page[-1].address if len(found) > limit else None,
    }


def near(archive: Shelf, address: str) -> str:
    """Words that name the closest address there is."""
    import difflib  # Three of the milliseconds that `plan get` has, and only for a slip.

    kind, _, path = address.partition("/")
    others = (other for other in sorted(addresses.KINDS) if archive.get(f"{other}/{path}") is not None)
    if kind == "task" and (other := next(others, None)) is not None:
        return f"did you mean {other}/{path}?"
    if kind == "task" and (named := pointing.kind_of(path)) is not None:
        return f"plan get {path} lists them; one of them is {named}/NAME"
    known = [item.address.partition("/")[2] for item in archive.list(kind)]
    if len(same := [one for one in known if one.endswith(f"/{path}")]) == 1:
        return f"did you mean {kind}/{same[0]}?"
    if kind not in addresses.KINDS:
        return f"kinds are {', '.join(sorted(addresses.KINDS))}"
    close = difflib.get_close_matches(path, known, n=1)
    if close:
        return f"did you mean {kind}/{close[0]}?"
    if kind == "task" and (kinds := difflib.get_close_matches(path, [f"{one}s" for one in addresses.KINDS], n=1)):
        return f"did you mean plan get {kinds[0]}?"
    return f"plan get {kind}s lists what there is"


def _output(archive: Archive, op: str, after: int) -> JsonObject:
    file = archive.open_output(op)
    if file is None:
        return {"text": "", "next": after}
    with file:
        file.seek(after)
        content = file.read(TEXT_ANSWER_BYTES_MAX)
    text, length = whole(content, is_end=False)  # It goes on, for all that one knows.
    return {"text": text, "next": after + length}


def _blob(archive: Archive, digest: str, after: int) -> JsonObject:
    content = archive.get_blob(digest) if _DIGEST.fullmatch(digest) else None
    if content is None:
        raise Halt(Exit.NOT_FOUND, f"no blob {digest[:12]}", "plan replay says whether any are missing")
    page = content[after : after + TEXT_ANSWER_BYTES_MAX]
    is_end = after + len(page) >= len(content)
    text, length = whole(page, is_end=is_end)
    return {"text": text, "size": len(content), "next": None if is_end else after + length}


def whole(content: bytes, *, is_end: bool) -> tuple[str, int]:
    """`content` as text, and how many bytes that took: a character that is cut at the end is of the next page."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(content, final=is_end)
    return text, len(content) - len(decoder.getstate()[0])
