"""Ports to a plan's objects, blobs and outputs, and the lookup of an object by its address."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import BinaryIO, Protocol

from planloop.client import references
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.schemas import address as addresses
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.resource import Resource


class ObjectReader(Protocol):
    """The objects of one plan at one revision."""

    @property
    def rev(self) -> int: ...

    def get(self, address: str) -> Resource | None: ...

    def list(self, kind: str) -> Sequence[Resource]: ...


class PlanReader(ObjectReader, Protocol):
    """The objects, blobs and outputs of one plan.

    `open_output` opens the output file of a running command, for the caller to close; None if the command has none.
    """

    @property
    def epoch(self) -> int: ...

    def get_blob(self, digest: str) -> bytes | None: ...

    def open_output(self, op: str) -> BinaryIO | None: ...


def parse_query_address(path: str) -> str:
    """Return the address in a URL path. `task/~` is `task/.`, because browsers remove a `.` from paths."""
    return f"{path[:-1]}{addresses.ROOT}" if path.endswith("/~") and path.count("/") == 1 else path


def object_answer(objects: ObjectReader, path: str) -> JsonObject:
    """Return the object at the address in `path`, as JSON. Raises CommandError: NOT_FOUND."""
    return found_object(objects, path).to_json()


def found_object(objects: ObjectReader, path: str) -> Resource:
    """Return the object at the address in `path`. Raises CommandError: NOT_FOUND, with a similar address as hint."""
    wanted = parse_query_address(path)
    found = objects.get(wanted)
    if found is None:
        raise CommandError(ExitCode.NOT_FOUND, f"no {wanted[:200]} in this plan", near_addresses(objects, wanted))
    return found


def near_addresses(archive: ObjectReader, address: str) -> str:
    """Return a hint with the most similar address."""
    import difflib  # Takes 3 ms of `plan get`, and is needed only after a mistyped address.

    kind, _, path = address.partition("/")
    others = (other for other in sorted(addresses.KINDS) if archive.get(f"{other}/{path}") is not None)
    if kind == "task" and (other := next(others, None)) is not None:
        return f"did you mean {other}/{path}?"
    if kind == "task" and (named := references.parse_kind(path)) is not None:
        return f"plan get {path} lists them; the address of one is {named}/NAME"
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
    return f"plan get {kind}s lists them"


def decode_page(content: bytes, *, is_end: bool) -> tuple[str, int]:
    """Return `content` as text, and the number of bytes used: a character cut at the end belongs to the next page."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(content, final=is_end)
    return text, len(content) - len(decoder.getstate()[0])
