"""Copies of agents: in a dump file, and as the start of a new agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Final, Protocol, TypeAlias

from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.status import AGENT_ACTOR, wrap_value
from planloop.controllers.agent.turn import transcript
from planloop.reconciler.store.store import ReadBlob, View
from planloop.schemas import address as addresses
from planloop.schemas import json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject, decode_foreign, encode, sha256_hex
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.objects.agent import DUMP, KEPT_ORIGIN
from planloop.schemas.objects.message import Message
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource

# An agent in a file: what it lived through, what the plan says of it, its children and its hooks, as JSON lines.
#
# The first line is the head, then a line for each blob of the transcripts, then an end with the count and a digest of
# all before it: a torn file has no end, a changed one another digest. A file is no more than a proposal: restoring
# makes a child with the rights of any child, and text that could pass for instructions of the system is refused.
#
# Version 1 had the agent alone and is still read.

DUMP_FORMAT: Final = "planloop-agent"
DUMP_VERSION: Final = 2
READABLE_VERSIONS: Final = (1, 2)
DUMP_ROLES: Final = frozenset({"user", "assistant", "tool"})

FIELDS_LEFT_BEHIND: Final = frozenset({"open", "protect", "approve", "granted", "moved", "case"})
"""Fields of a child that do not go along: what people set or gave, and what is said of its place in the plan."""


class InvalidDump(ValueError):
    """The file is no dump of an agent, or not a whole one. The message says why, after "it"."""


@frozen
class AgentDump:
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


def encode_dump(dump: AgentDump, get_blob: ReadBlob) -> bytes:
    """The file of an agent, with the blobs that its transcripts name. Raises InvalidDump: it is too big."""
    head: JsonObject = {
        "format": DUMP_FORMAT,
        "version": DUMP_VERSION,
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
    whole = body + encode({"end": len(lines), "digest": sha256_hex(body)}) + b"\n"
    if len(whole) > limits.DUMP_BYTES_MAX:
        raise InvalidDump(f"it has {len(whole)} bytes; the most is {limits.DUMP_BYTES_MAX}")
    return whole


def decode_dump(content: bytes) -> AgentDump:
    """The dump in a file. Raises InvalidDump."""
    if len(content) > limits.DUMP_BYTES_MAX:
        raise InvalidDump(f"it has {len(content)} bytes; the most is {limits.DUMP_BYTES_MAX}")
    lines = content.split(b"\n")
    head = _line(lines[0])
    if head.get("format") != DUMP_FORMAT:
        raise InvalidDump("it is no dump of an agent")
    if head.get("version") not in READABLE_VERSIONS:
        raise InvalidDump(
            f"it is of version {head.get('version')!r}, and this reads {' and '.join(map(str, READABLE_VERSIONS))}"
        )
    if len(lines) < 3 or lines[-1] != b"":
        raise InvalidDump("it is torn: its end is missing")
    end, body = _line(lines[-2]), b"".join(line + b"\n" for line in lines[:-2])
    if end.get("end") != len(lines) - 2:
        raise InvalidDump("it is torn: its end is missing")
    if end.get("digest") != sha256_hex(body):
        raise InvalidDump("it was changed after it was written: its digest is another")
    return _checked(head, [_line(line) for line in lines[1:-2]])


def _checked(head: JsonObject, rows: list[JsonObject]) -> AgentDump:
    carried, agent = head.get("carried"), head.get("agent")
    if not isinstance(carried, dict) or not (agent is None or isinstance(agent, str | dict)):
        raise InvalidDump("its head is not as it should be")
    blobs: dict[str, bytes] = {}
    for row in rows:
        text = str(row.get("text", "")).encode()
        if sha256_hex(text) != row.get("blob"):
            raise InvalidDump("a part of its transcript is not what it says it is")
        _check_messages(text)
        blobs[sha256_hex(text)] = text
    parts = [head.get(name, {}) for name in ("hooks", "tasks", "members")]
    if not all(isinstance(each, dict) and all(isinstance(one, dict) for one in each.values()) for each in parts):
        raise InvalidDump("its head is not as it should be")
    _check_tasks(parts[1])
    dump = AgentDump(str(head.get("name", "")), str(head.get("goal", "")), agent, carried, blobs, *parts)
    for _, one in dump.experiences:
        for key, chunk in _chunks(one):
            if not key.isdigit() or chunk.get("blob") not in blobs:
                raise InvalidDump(f"turn {key} of its transcript is missing")
    return dump


def _check_tasks(tasks: JsonObject) -> None:
    """Raises InvalidDump for children that are not maps all the way down."""
    waiting: list[Json] = [tasks]
    while waiting:
        below = waiting.pop()
        if not isinstance(below, dict) or not all(isinstance(each, dict) for each in below.values()):
            raise InvalidDump("its head is not as it should be")
        for node in below.values():
            if not isinstance(node.get("hooks", {}), dict):
                raise InvalidDump("its head is not as it should be")
            waiting.append(node.get("tasks", {}))


def _chunks(carried: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    chunks = carried.get("transcript", {})
    if not isinstance(chunks, dict) or not all(isinstance(each, dict) for each in chunks.values()):
        raise InvalidDump("its transcript is not as it should be")
    yield from chunks.items()


def _check_messages(text: bytes) -> None:
    for line in text.splitlines():
        if _line(line).get("role") not in DUMP_ROLES:
            raise InvalidDump("its transcript has messages that no agent ever had")


def restore_arguments(
    dump: AgentDump, name: str, sources: Mapping[str, str], goal: str = "", agent: str = ""
) -> JsonObject:
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
    found = {name: value for name, value in node.items() if name not in FIELDS_LEFT_BEHIND}
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
        raise InvalidDump("it is no dump of an agent: a line is no JSON") from None
    if not isinstance(value, dict):
        raise InvalidDump("it is no dump of an agent: a line is no map")
    return value


def store_carried(dump: AgentDump, put_blob: Callable[[bytes], str]) -> dict[str, str]:
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
            chunks[key] = {"blob": put_blob(content), "tokens": transcript.estimate_tokens(content), **whose}
        experience = {**one, "transcript": chunks} if chunks else one
        found[path] = DUMP + put_blob(encode({"format": DUMP_FORMAT, "carried": experience}))
    return found


def load_carried(content: bytes | None) -> JsonObject:
    """Inverse of `kept`: the experience in the blob that a `from` names. Raises InvalidDump when it is not there."""
    if content is None:
        raise InvalidDump("nothing was restored under this digest here")
    raw = _line(content)
    found = raw.get("carried")
    if raw.get("format") != DUMP_FORMAT or not isinstance(found, dict):
        raise InvalidDump("what is stored there is no agent")
    return found


# What an agent begins with that is a copy of another: transcript and memory, never rights, budget or mail.
#
# Read when its first incarnation begins, and kept in its own status, so that a later one begins with the same though
# the one it was copied from has gone on or is gone.


CARRIED_FIELDS: Final = ("memory", "transcript", "summary")
"""What of a status is an agent's experience. Replies to come, mail, claims and counts are its own."""


@frozen
class AgentOrigin:
    """`merge` goes into the status of the new incarnation; `blobs` are what it refers to."""

    merge: JsonObject
    blobs: tuple[str, ...] = ()


NO_ORIGIN: Final = AgentOrigin({})


def read_origin(agent: ObservedAgent, view: View, get_blob: ReadBlob) -> AgentOrigin:
    """What the incarnation that begins now takes over; nothing for agents that are no copies."""
    source = agent.spec.source
    if not source:
        return NO_ORIGIN
    kept = agent.resource.status.get("origin")
    try:
        carried = kept[0] if kept else _carried(source, view, get_blob)
        words = f"You begin as a copy of {_named(source)}: what it lived through is yours to remember, its task is not."
    except InvalidDump as fault:
        carried, words = {}, f"You were to begin as a copy of {_named(source)}, but {fault}."
    chunks: JsonObject = carried.get("transcript", {})
    message = Message(f"origin.{agent.resource.uid}", "state", AGENT_ACTOR, agent.resource.address, words, agent.now)
    merge: JsonObject = {
        **{name: value for name, value in carried.items() if name in CARRIED_FIELDS},
        "turn": max((int(key) for key in chunks), default=0),
        "origin": wrap_value(carried),
        "inbox": {message.id: message.to_json()},
    }
    return AgentOrigin(merge, tuple(str(chunk["blob"]) for chunk in chunks.values()))


def experience_of(status: JsonObject) -> JsonObject:
    """The experience in an agent's status."""
    return {name: status[name] for name in CARRIED_FIELDS if status.get(name) is not None}


def _carried(source: str, view: View, get_blob: ReadBlob) -> JsonObject:
    if source == KEPT_ORIGIN:
        raise InvalidDump("it had left the plan before")
    if source.startswith(DUMP):
        return load_carried(get_blob(source.removeprefix(DUMP)))
    agent = view.get(source)
    if agent is None:
        raise InvalidDump("it is gone")
    return experience_of(agent.status)


def _named(source: str) -> str:
    if source == KEPT_ORIGIN:
        return "an agent that has left the plan"
    return "what was restored from a file" if source.startswith(DUMP) else source


# The parts of a plan that go with an agent into a file: its fields, its children with theirs, its hooks. Pure.
#
# A child that is done by a command goes along while that has not ended: restored, it would be run again. What only
# people set or gave (`open`, `protect`, `approve`, `granted`) stays behind.

DumpPath: TypeAlias = tuple[str, ...]
IsShown: TypeAlias = Callable[[DumpPath], bool]
"""Whether the hook at this place of the document may be in the file."""


class DumpableObjects(Protocol):
    """The objects of a plan as of now."""

    def get(self, address: str) -> Resource | None: ...


def dump_of_agent(
    objects: DumpableObjects, document: JsonObject, agent: Resource, is_shown: IsShown = lambda _: True
) -> AgentDump:
    """The file of `agent`, still without the blobs of its transcripts.

    Where hooks are not all shown, neither are those that agents name.
    """
    path = addresses.parse_address(agent.address).path
    tokens = json_pointer.task_pointer(path)
    node = json_pointer.value_at(document, tokens) if json_pointer.has_value(document, tokens) else {}
    task = objects.get(str(agent.spec["task"]))
    found = _Gathering(objects, is_shown, path, {})
    written = found.without_hidden(_without_source(node.get("agent")), tokens)
    goal = "" if task is None else str(task.spec["goal"])
    tasks = found.children(node, path, written)
    return AgentDump(
        agent.address, goal, written, experience_of(agent.status), {}, found.hooks(node, tokens), tasks, found.members
    )


@mutable
class _Gathering:
    """`top` is the path of the agent that is written; `members` fills on the way."""

    objects: DumpableObjects
    is_shown: IsShown
    top: DumpPath
    members: JsonObject

    def children(self, node: JsonObject, path: DumpPath, above: Json) -> JsonObject:
        """The children of the task `node` at `path`; the agent `above` does those that name none."""
        found: JsonObject = {}
        for name, child in (node.get("tasks") or {}).items():
            made = self._child(child, (*path, name), above)
            if made is not None:
                found[name] = made
        for child in found.values():
            if "needs" in child:
                child["needs"] = [each for each in child["needs"] if each in found]
        return found

    def _child(self, node: JsonObject, path: DumpPath, above: Json) -> JsonObject | None:
        task, agent = (self.objects.get(str(make(*path))) for make in (addresses.task_address, addresses.agent_address))
        if "run" in node and task is not None and task.state in ENDED:
            return None
        tokens = json_pointer.task_pointer(path)
        made = {
            key: value for key, value in node.items() if key not in FIELDS_LEFT_BEHIND | {"tasks", "hooks", "agent"}
        }
        written = self.without_hidden(_without_source(node["agent"]), tokens) if "agent" in node else above
        if agent is not None and "run" not in node:
            self.members["/".join(path[len(self.top) :])] = experience_of(agent.status)
            made["agent"] = written
        elif "agent" in node:
            made["agent"] = written
        below = self.children(node, path, written)
        hooks = self.hooks(node, tokens)
        return made | ({"tasks": below} if below else {}) | ({"hooks": hooks} if hooks else {})

    def hooks(self, node: JsonObject, tokens: DumpPath) -> JsonObject:
        """The hooks of a task that may be in the file."""
        return {name: one for name, one in (node.get("hooks") or {}).items() if self.is_shown((*tokens, "hooks", name))}

    def without_hidden(self, written: Json, tokens: DumpPath) -> Json:
        """An agent without the hooks that it names, where these may not be in the file."""
        at = (*tokens, "agent", "hooks")
        if isinstance(written, dict) and "hooks" in written and not self.is_shown(at):
            return {key: value for key, value in written.items() if key != "hooks"}
        return written


def own_hooks(dump: AgentDump, document: JsonObject, under: DumpPath) -> JsonObject:
    """The hooks of the file, without those that a child of the task at `under` is watched by anyway."""
    above = [
        document,
        *(
            json_pointer.value_at(document, json_pointer.task_pointer(under[:depth]))
            for depth in range(1, len(under) + 1)
        ),
    ]
    known: list[JsonObject] = [task.get("hooks") or {} for task in above]
    return {name: one for name, one in dump.hooks.items() if not any(each.get(name) == one for each in known)}


def describe_dump(dump: AgentDump) -> Iterator[str]:
    """What there is in a file beside the agent itself, for people, as in `2 agents below it` and `1 hook`."""
    commands, hooks = _counts(dump.tasks), len(dump.hooks)
    for count, one, many in (
        (len(dump.members), "agent below it", "agents below it"),
        (commands[0], "command", "commands"),
        (hooks + commands[1], "hook", "hooks"),
    ):
        if count:
            yield f"{count} {one if count == 1 else many}"


def _counts(tasks: JsonObject) -> tuple[int, int]:
    """The commands and the hooks among these tasks and those below."""
    commands = hooks = 0
    waiting = [*tasks.values()]
    while waiting:
        node = waiting.pop()
        commands += "run" in node
        hooks += len(node.get("hooks") or {})
        waiting += (node.get("tasks") or {}).values()
    return commands, hooks


def _without_source(written: Json) -> Json:
    """The agent of a task as the plan has it, without where it was itself copied from."""
    return {key: value for key, value in written.items() if key != "from"} if isinstance(written, dict) else written
