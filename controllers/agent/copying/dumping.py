"""An agent in a file: what it lived through and a reference to what it was, as versioned JSON lines.

The first line is the head, then a line for each blob of the transcript, then an end with the count and a digest of all
before it: a torn file has no end, a changed one another digest. A file is no more than a proposal: restoring makes a
child with the rights of any child, and text that could pass for instructions of the system is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from controllers.agent.thinking import transcript
from schemas import address as addresses
from schemas import limits, pointer
from schemas.agent import DUMP
from schemas.encoding import Json, JsonObject, decode_foreign, digest, encode
from schemas.frozen import frozen
from schemas.resource import Resource

FORMAT: Final = "planloop-agent"
VERSION: Final = 1
ROLES: Final = frozenset({"user", "assistant", "tool"})

Blobs: TypeAlias = Callable[[str], bytes | None]


class BadDump(ValueError):
    """The file is no dump of an agent, or not a whole one. The message says why, after "it"."""


@frozen
class Dump:
    """`carried` is the experience (memory, transcript, summary), `agent` its fields as the plan had them."""

    name: str
    goal: str
    agent: Json
    carried: JsonObject
    blobs: dict[str, bytes]


def dumped(agent: Resource, task: Resource | None, written: Json, carried: JsonObject, get_blob: Blobs) -> bytes:
    """The file of `agent`. `written` is what the plan says of it, a name or a map. Raises BadDump: it is too big."""
    chunks: JsonObject = carried.get("transcript", {})
    head: JsonObject = {
        "format": FORMAT,
        "version": VERSION,
        "name": agent.address,
        "goal": "" if task is None else task.spec["goal"],
        "agent": written,
        "carried": carried,
    }
    lines = [encode(head)]
    for chunk in chunks.values():
        content = get_blob(str(chunk["blob"]))
        if content is not None:
            lines.append(encode({"blob": chunk["blob"], "text": content.decode()}))
    body = b"".join(line + b"\n" for line in lines)
    whole = body + encode({"end": len(lines), "digest": digest(body)}) + b"\n"
    if len(whole) > limits.DUMP_BYTES_MAX:
        raise BadDump(f"it has {len(whole)} bytes; the most is {limits.DUMP_BYTES_MAX}")
    return whole


def read(content: bytes) -> Dump:
    """The dump in a file. Raises BadDump."""
    if len(content) > limits.DUMP_BYTES_MAX:
        raise BadDump(f"it has {len(content)} bytes; the most is {limits.DUMP_BYTES_MAX}")
    lines = content.split(b"\n")
    head = _line(lines[0])
    if head.get("format") != FORMAT:
        raise BadDump("it is no dump of an agent")
    if head.get("version") != VERSION:
        raise BadDump(f"it is of version {head.get('version')!r}, and this reads version {VERSION}")
    if len(lines) < 3 or lines[-1] != b"":
        raise BadDump("it is torn: its end is missing")
    end, body = _line(lines[-2]), b"".join(line + b"\n" for line in lines[:-2])
    if end.get("end") != len(lines) - 2:
        raise BadDump("it is torn: its end is missing")
    if end.get("digest") != digest(body):
        raise BadDump("it was changed after it was written: its digest is another")
    return _checked(head, [_line(line) for line in lines[1:-2]])


def _checked(head: JsonObject, rows: list[JsonObject]) -> Dump:
    carried, agent = head.get("carried"), head.get("agent")
    if not isinstance(carried, dict) or not (agent is None or isinstance(agent, str | dict)):
        raise BadDump("its head is not as it should be")
    blobs: dict[str, bytes] = {}
    for row in rows:
        text = str(row.get("text", "")).encode()
        if digest(text) != row.get("blob"):
            raise BadDump("a part of its transcript is not what it says it is")
        _check_messages(text)
        blobs[digest(text)] = text
    for key, chunk in _chunks(carried):
        if not key.isdigit() or chunk.get("blob") not in blobs:
            raise BadDump(f"turn {key} of its transcript is missing")
    return Dump(str(head.get("name", "")), str(head.get("goal", "")), agent, carried, blobs)


def _chunks(carried: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    chunks = carried.get("transcript", {})
    if not isinstance(chunks, dict) or not all(isinstance(each, dict) for each in chunks.values()):
        raise BadDump("its transcript is not as it should be")
    yield from chunks.items()


def _check_messages(text: bytes) -> None:
    for line in text.splitlines():
        if _line(line).get("role") not in ROLES:
            raise BadDump("its transcript has messages that no agent ever had")


def written_of(plan: JsonObject, agent: str) -> Json:
    """What the plan document says of the agent at the address `agent`, without where it was itself copied from."""
    tokens = (*pointer.of_task(addresses.parse(agent).path), "agent")
    written = pointer.get(plan, tokens) if pointer.has(plan, tokens) else None
    return {key: value for key, value in written.items() if key != "from"} if isinstance(written, dict) else written


def as_child(dump: Dump, name: str, source: str, goal: str = "", agent: str = "") -> JsonObject:
    """What the `task` tool is told to add a restored agent under `name`; `source` is its `from` (see `kept`).

    `goal` and `agent` replace what the file says.
    """
    return {
        "id": name,
        "goal": goal or dump.goal or name,
        "agent": agent or dump.agent or "lib:child",
        "from": source,
    }


def _line(line: bytes) -> JsonObject:
    try:
        value = decode_foreign(line)
    except ValueError:
        raise BadDump("it is no dump of an agent: a line is no JSON") from None
    if not isinstance(value, dict):
        raise BadDump("it is no dump of an agent: a line is no map")
    return value


def kept(dump: Dump, put_blob: Callable[[bytes], str]) -> str:
    """Stores what a restored agent begins with; returns what its `from` is to say.

    Of a turn only its messages are taken: whatever else a file says of it (sizes, what it was before it was made
    shorter) would be believed of blobs that are not in the file.
    """
    chunks: JsonObject = {}
    for key, chunk in _chunks(dump.carried):
        content = dump.blobs[str(chunk["blob"])]
        chunks[key] = {"blob": put_blob(content), "tokens": transcript.tokens_of(content)}
    carried = {**dump.carried, "transcript": chunks} if chunks else dump.carried
    return DUMP + put_blob(encode({"format": FORMAT, "carried": carried}))


def carried(content: bytes | None) -> JsonObject:
    """Inverse of `kept`: the experience in the blob that a `from` names. Raises BadDump when it is not there."""
    if content is None:
        raise BadDump("nothing was restored under this digest here")
    raw = _line(content)
    found = raw.get("carried")
    if raw.get("format") != FORMAT or not isinstance(found, dict):
        raise BadDump("what is stored there is no agent")
    return found
