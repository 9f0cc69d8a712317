"""An agent in a file: what it lived through, what the plan says of it, its children and its hooks, as JSON lines.

The first line is the head, then a line for each blob of the transcripts, then an end with the count and a digest of all
before it: a torn file has no end, a changed one another digest. A file is no more than a proposal: restoring makes a
child with the rights of any child, and text that could pass for instructions of the system is refused.

Version 1 had the agent alone and is still read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Final, TypeAlias

from planloop.controllers.agent.thinking import transcript
from planloop.schemas import limits
from planloop.schemas.agent import DUMP
from planloop.schemas.encoding import Json, JsonObject, decode_foreign, digest, encode
from planloop.schemas.frozen import frozen

FORMAT: Final = "planloop-agent"
VERSION: Final = 2
READ: Final = (1, 2)
ROLES: Final = frozenset({"user", "assistant", "tool"})

LEFT_BEHIND: Final = frozenset({"open", "protect", "approve", "granted", "moved", "case"})
"""Fields of a child that do not go along: what people set or gave, and what is said of its place in the plan."""

Blobs: TypeAlias = Callable[[str], bytes | None]


class BadDump(ValueError):
    """The file is no dump of an agent, or not a whole one. The message says why, after "it"."""


@frozen
class Dump:
    """`carried` is the experience (memory, transcript, summary), `agent` its fields as the plan had them.

    `hooks` are those of its task and `tasks` the tasks below it, as the plan had them; `members` are the experiences of
    the agents of these, by their paths below it.
    """

    name: str
    goal: str
    agent: Json
    carried: JsonObject
    blobs: dict[str, bytes] = field(default_factory=dict)
    hooks: JsonObject = field(default_factory=dict)
    tasks: JsonObject = field(default_factory=dict)
    members: JsonObject = field(default_factory=dict)

    @property
    def experiences(self) -> Iterator[tuple[str, JsonObject]]:
        """Of the agent itself, under the empty path, and of those below it."""
        yield "", self.carried
        yield from self.members.items()


def dumped(dump: Dump, get_blob: Blobs) -> bytes:
    """The file of an agent, with the blobs that its transcripts name. Raises BadDump: it is too big."""
    head: JsonObject = {
        "format": FORMAT,
        "version": VERSION,
        "name": dump.name,
        "goal": dump.goal,
        "agent": dump.agent,
        "carried": dump.carried,
        "hooks": dump.hooks,
        "tasks": dump.tasks,
        "members": dump.members,
    }
    lines = [encode(head)]
    chunks = (chunk for _, one in dump.experiences for chunk in one.get("transcript", {}).values())
    for blob in dict.fromkeys(str(chunk["blob"]) for chunk in chunks):
        content = get_blob(blob)
        if content is not None:
            lines.append(encode({"blob": blob, "text": content.decode()}))
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
    if head.get("version") not in READ:
        raise BadDump(f"it is of version {head.get('version')!r}, and this reads {' and '.join(map(str, READ))}")
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
    parts = [head.get(name, {}) for name in ("hooks", "tasks", "members")]
    if not all(isinstance(each, dict) and all(isinstance(one, dict) for one in each.values()) for each in parts):
        raise BadDump("its head is not as it should be")
    _check_tasks(parts[1])
    dump = Dump(str(head.get("name", "")), str(head.get("goal", "")), agent, carried, blobs, *parts)
    for _, one in dump.experiences:
        for key, chunk in _chunks(one):
            if not key.isdigit() or chunk.get("blob") not in blobs:
                raise BadDump(f"turn {key} of its transcript is missing")
    return dump


def _check_tasks(tasks: JsonObject) -> None:
    """Raises BadDump for children that are not maps all the way down."""
    waiting: list[Json] = [tasks]
    while waiting:
        below = waiting.pop()
        if not isinstance(below, dict) or not all(isinstance(each, dict) for each in below.values()):
            raise BadDump("its head is not as it should be")
        for node in below.values():
            if not isinstance(node.get("hooks", {}), dict):
                raise BadDump("its head is not as it should be")
            waiting.append(node.get("tasks", {}))


def _chunks(carried: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    chunks = carried.get("transcript", {})
    if not isinstance(chunks, dict) or not all(isinstance(each, dict) for each in chunks.values()):
        raise BadDump("its transcript is not as it should be")
    yield from chunks.items()


def _check_messages(text: bytes) -> None:
    for line in text.splitlines():
        if _line(line).get("role") not in ROLES:
            raise BadDump("its transcript has messages that no agent ever had")


def as_child(dump: Dump, name: str, sources: Mapping[str, str], goal: str = "", agent: str = "") -> JsonObject:
    """What the `task` tool is told to add a restored agent under `name`; `sources` are from `kept`.

    `goal` and `agent` replace what the file says.
    """
    fields: JsonObject = {
        "id": name,
        "goal": goal or dump.goal or name,
        "agent": agent or dump.agent or "lib:child",
        "from": sources[""],
    }
    tasks = {id_: _sourced(node, id_, sources) for id_, node in dump.tasks.items()}
    return fields | ({"hooks": dump.hooks} if dump.hooks else {}) | ({"tasks": tasks} if tasks else {})


def _sourced(node: JsonObject, path: str, sources: Mapping[str, str]) -> JsonObject:
    """A task of the dump: its agent, and those below, start with the memory that is kept for them."""
    found = {name: value for name, value in node.items() if name not in LEFT_BEHIND}
    if isinstance(written := node.get("agent"), dict):
        found["agent"] = {key: value for key, value in written.items() if key != "from"}
    if path in sources:
        own = found.get("agent", {})
        found["agent"] = {**({"extends": own} if isinstance(own, str) else own), "from": sources[path]}
    if isinstance(below := node.get("tasks"), dict):
        nodes = {id_: each for id_, each in below.items() if isinstance(each, dict)}
        found["tasks"] = {id_: _sourced(each, f"{path}/{id_}", sources) for id_, each in nodes.items()}
    return found


def _line(line: bytes) -> JsonObject:
    try:
        value = decode_foreign(line)
    except ValueError:
        raise BadDump("it is no dump of an agent: a line is no JSON") from None
    if not isinstance(value, dict):
        raise BadDump("it is no dump of an agent: a line is no map")
    return value


def kept(dump: Dump, put_blob: Callable[[bytes], str]) -> dict[str, str]:
    """Stores what the agents of a file begin with; returns what `from` is to say, by path, the first's under "".

    Of a turn only its messages are taken, and the name of a model that had it in place of the agent's own: whatever
    else a file says of it (sizes, what it was before it was made shorter) would be believed of blobs that are not in
    the file.
    """
    found: dict[str, str] = {}
    for path, one in dump.experiences:
        chunks: JsonObject = {}
        for key, chunk in _chunks(one):
            content = dump.blobs[str(chunk["blob"])]
            by = chunk.get("by")
            whose: JsonObject = {"by": by} if isinstance(by, str) and by else {}
            chunks[key] = {"blob": put_blob(content), "tokens": transcript.tokens_of(content), **whose}
        experience = {**one, "transcript": chunks} if chunks else one
        found[path] = DUMP + put_blob(encode({"format": FORMAT, "carried": experience}))
    return found


def carried(content: bytes | None) -> JsonObject:
    """Inverse of `kept`: the experience in the blob that a `from` names. Raises BadDump when it is not there."""
    if content is None:
        raise BadDump("nothing was restored under this digest here")
    raw = _line(content)
    found = raw.get("carried")
    if raw.get("format") != FORMAT or not isinstance(found, dict):
        raise BadDump("what is stored there is no agent")
    return found
