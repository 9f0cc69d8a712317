"""What the API answers to a read: a function of the view, the log and the request, the same with and without an owner.

`answer` knows every GET path of /v1 but `log` and the stream. It is synchronous, so a
command with no owner alive needs no event loop for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from planloop import pointing
from planloop.exits import Exit, Halt
from schemas import address as addresses
from schemas.encoding import Json, JsonObject
from schemas.frozen import frozen
from schemas.limits import HISTORY_SHOWN_MAX
from schemas.record import Record, record_to_json
from schemas.resource import Resource


class Archive(Protocol):
    """What reads need: the objects, the blobs and the outputs of one plan."""

    @property
    def rev(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    def get(self, address: str) -> Resource | None: ...

    def list(self, kind: str) -> Sequence[Resource]: ...

    def get_blob(self, digest: str) -> bytes | None: ...

    def read_output(self, op: str, after: int) -> bytes: ...


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
        case "objects" if rest:
            return _object(archive, rest)
        case "objects":
            return _objects(archive, query.get("kind", ""))
        case "blobs":
            return _blob(archive, rest)
        case "dump":
            from planloop.server import carrying  # Nothing else that is read needs to know what an agent is.

            return carrying.dumped(archive, host.name, rest)
        case "output":
            after = int(query.get("after", 0))
            content = archive.read_output(rest, after)
            return {"text": content.decode(errors="replace"), "next": after + len(content)}
        case _:
            raise Halt(Exit.USAGE, f"the API has no `{path}`", "plan version on both sides tells if they differ")


def _status(archive: Archive, host: Host) -> JsonObject:
    return {
        "plan": host.name,
        "pid": host.pid,
        "version": host.version,
        "file": host.file,
        "rev": archive.rev,
        "epoch": archive.epoch,
    }


def _object(archive: Archive, address: str) -> JsonObject:
    found = archive.get(address)
    if found is None:
        raise Halt(Exit.NOT_FOUND, f"no {address} in this plan", near(archive, address))
    return found.to_json()


def near(archive: Archive, address: str) -> str:
    """Words that name the closest address there is."""
    import difflib  # Three of the milliseconds that `plan get` has, and only for a slip.

    kind, _, path = address.partition("/")
    others = (other for other in sorted(addresses.KINDS) if archive.get(f"{other}/{path}") is not None)
    if kind == "task" and (other := next(others, None)) is not None:
        return f"did you mean {other}/{path}?"
    if kind == "task" and (named := pointing.kind_of(path)) is not None:
        return f"plan get {path} lists them; one of them is {named}/NAME"
    known = [item.address.partition("/")[2] for item in archive.list(kind)]
    if kind not in addresses.KINDS:
        return f"kinds are {', '.join(sorted(addresses.KINDS))}"
    close = difflib.get_close_matches(path, known, n=1)
    return f"did you mean {kind}/{close[0]}?" if close else f"plan get {kind}s lists what there is"


def _objects(archive: Archive, kinds: str) -> JsonObject:
    wanted = kinds.split(",") if kinds else sorted(addresses.KINDS)
    return {"rev": archive.rev, "objects": [item.to_json() for kind in wanted for item in archive.list(kind)]}


def page_of(query: Mapping[str, str]) -> tuple[int, int]:
    """After which revision, and how many records, a read of `log` asks for."""
    return int(query.get("after", 0)), min(int(query.get("limit", HISTORY_SHOWN_MAX)), HISTORY_SHOWN_MAX)


def log_answer(records: Sequence[Record], rev: int) -> JsonObject:
    """The answer to GET /v1/log, which alone reads the log itself: an owner does that beside its event loop."""
    return {"records": [record_to_json(record) for record in records], "rev": rev}


def _blob(archive: Archive, digest: str) -> JsonObject:
    content = archive.get_blob(digest)
    if content is None:
        raise Halt(Exit.NOT_FOUND, f"no blob {digest[:12]}", "plan replay says whether any are missing")
    return {"text": content.decode(errors="replace"), "size": len(content)}
