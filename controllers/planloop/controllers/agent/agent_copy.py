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

# A dump file has an agent's memory and transcript, its fields in the plan, its children and its hooks, as JSON lines.
#
# The first line is the head, followed by a line for each blob of the transcripts, and an end with the count and digest
# of everything before it: a truncated file has no end, and a changed file has another digest. Restoring a file is like
# adding a child: it gets no more rights than any child, and messages with the role `system` are rejected.
#
# Version 1 had the agent without children and hooks, and can still be read.

DUMP_FORMAT: Final = "planloop-agent"
DUMP_VERSION: Final = 2
READABLE_VERSIONS: Final = (1, 2)
DUMP_ROLES: Final = frozenset({"user", "assistant", "tool"})

FIELDS_LEFT_BEHIND: Final = frozenset({"open", "protect", "approve", "granted", "moved", "case"})
"""Fields of a child that are not copied: what operators set or granted, and what depends on its place in the plan."""


NOT_A_DUMP: Final = "it is not a dump of an agent"
TRUNCATED: Final = "it is truncated: its end is missing"
INVALID_HEAD: Final = "its first line is malformed"


class InvalidDump(ValueError):
    """The file is not a complete dump of an agent. The message continues a sentence about the file."""


@frozen
class AgentDump:
    """`carried` is the experience (memory, transcript, summary), `agent` are the agent's fields in the plan.

    `hooks` and `tasks` are the hooks and child tasks of its task in the plan; `members` are the experiences of their
    agents, by path relative to it.
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
        """The experience of the agent itself, with the empty path, and those of its descendants."""
        yield "", self.carried
        yield from self.members.items()


def encode_dump(dump: AgentDump, get_blob: ReadBlob) -> bytes:
    """The dump file of an agent, with the blobs of its transcripts. Raises InvalidDump if it is too large."""
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
    _check_size(len(whole))
    return whole


def decode_dump(content: bytes) -> AgentDump:
    """The dump in a file. Raises InvalidDump."""
    _check_size(len(content))
    lines = content.split(b"\n")
    head = _line(lines[0])
    if head.get("format") != DUMP_FORMAT:
        raise InvalidDump(NOT_A_DUMP)
    if head.get("version") not in READABLE_VERSIONS:
        readable = " and ".join(map(str, READABLE_VERSIONS))
        raise InvalidDump(f"it has version {head.get('version')!r}; readable versions are {readable}")
    if len(lines) < 3 or lines[-1] != b"":
        raise InvalidDump(TRUNCATED)
    end, body = _line(lines[-2]), b"".join(line + b"\n" for line in lines[:-2])
    if end.get("end") != len(lines) - 2:
        raise InvalidDump(TRUNCATED)
    if end.get("digest") != sha256_hex(body):
        raise InvalidDump("it was changed after it was written: its digest does not match")
    return _checked(head, [_line(line) for line in lines[1:-2]])


def _check_size(size_bytes: int) -> None:
    if size_bytes > limits.DUMP_BYTES_MAX:
        raise InvalidDump(f"it has {size_bytes} bytes; the limit is {limits.DUMP_BYTES_MAX}")


def _checked(head: JsonObject, rows: list[JsonObject]) -> AgentDump:
    carried, agent = head.get("carried"), head.get("agent")
    if not isinstance(carried, dict) or not (agent is None or isinstance(agent, str | dict)):
        raise InvalidDump(INVALID_HEAD)
    blobs: dict[str, bytes] = {}
    for row in rows:
        text = str(row.get("text", "")).encode()
        if sha256_hex(text) != row.get("blob"):
            raise InvalidDump("a part of its transcript does not match its digest")
        _check_messages(text)
        blobs[sha256_hex(text)] = text
    parts = [head.get(name, {}) for name in ("hooks", "tasks", "members")]
    if not all(isinstance(each, dict) and all(isinstance(one, dict) for one in each.values()) for each in parts):
        raise InvalidDump(INVALID_HEAD)
    _check_tasks(parts[1])
    dump = AgentDump(str(head.get("name", "")), str(head.get("goal", "")), agent, carried, blobs, *parts)
    for _, one in dump.experiences:
        for key, chunk in _chunks(one):
            if not key.isdigit() or chunk.get("blob") not in blobs:
                raise InvalidDump(f"turn {key} of its transcript is missing")
    return dump


def _check_tasks(tasks: JsonObject) -> None:
    """Raises InvalidDump if a task at any depth is not a map."""
    waiting: list[Json] = [tasks]
    while waiting:
        below = waiting.pop()
        if not isinstance(below, dict) or not all(isinstance(each, dict) for each in below.values()):
            raise InvalidDump(INVALID_HEAD)
        for node in below.values():
            if not isinstance(node.get("hooks", {}), dict):
                raise InvalidDump(INVALID_HEAD)
            waiting.append(node.get("tasks", {}))


def _chunks(carried: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    chunks = carried.get("transcript", {})
    if not isinstance(chunks, dict) or not all(isinstance(each, dict) for each in chunks.values()):
        raise InvalidDump("its transcript is malformed")
    yield from chunks.items()


def _check_messages(text: bytes) -> None:
    for line in text.splitlines():
        if _line(line).get("role") not in DUMP_ROLES:
            raise InvalidDump(f"its transcript has a message with a role other than {', '.join(sorted(DUMP_ROLES))}")


def restore_arguments(
    dump: AgentDump, name: str, sources: Mapping[str, str], goal: str = "", agent: str = ""
) -> JsonObject:
    """The arguments of the `task` tool that add a restored agent as `name`; `sources` come from `store_carried`.

    `goal` and `agent` replace those in the file.
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
    """A task of the dump, with agents that start with their stored experience, at every depth."""
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
        raise InvalidDump(f"{NOT_A_DUMP}: a line is not JSON") from None
    if not isinstance(value, dict):
        raise InvalidDump(f"{NOT_A_DUMP}: a line is not a map")
    return value


def store_carried(dump: AgentDump, put_blob: Callable[[bytes], str]) -> dict[str, str]:
    """Store the experiences of the agents in a file. Returns their values of `from`, by path; the agent's own is "".

    Of each turn, only its messages and the name of a model other than the agent's own are stored. Sizes and originals
    in the file are ignored, because they may refer to blobs that the file does not contain.
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
    """Inverse of `store_carried`: the experience in the blob that a `from` names. Raises InvalidDump."""
    if content is None:
        raise InvalidDump("this plan has no restored agent with this digest")
    raw = _line(content)
    found = raw.get("carried")
    if raw.get("format") != DUMP_FORMAT or not isinstance(found, dict):
        raise InvalidDump("the stored content is not an agent")
    return found


# A copy of another agent starts with its transcript and memory, never with its rights, budget or messages.
#
# They are read when the first incarnation begins and kept in the status of the copy, so that later incarnations start
# with the same, even if the other agent has continued or was removed.


CARRIED_FIELDS: Final = ("memory", "transcript", "summary")
"""The members of an agent's status that are copied."""


@frozen
class AgentOrigin:
    """`merge` goes into the status of the new incarnation; `blobs` are the blobs that it refers to."""

    merge: JsonObject
    blobs: tuple[str, ...] = ()


NO_ORIGIN: Final = AgentOrigin({})


def read_origin(agent: ObservedAgent, view: View, get_blob: ReadBlob) -> AgentOrigin:
    """What the incarnation that begins now starts with; empty for agents that are not copies."""
    source = agent.spec.source
    if not source:
        return NO_ORIGIN
    kept = agent.resource.status.get("origin")
    try:
        carried = kept[0] if kept else _carried(source, view, get_blob)
        words = f"You begin as a copy of {_named(source)}: what it lived through is yours to remember, its task is not."
    except InvalidDump as error:
        carried, words = {}, f"You were to begin as a copy of {_named(source)}, but {error}."
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
        raise InvalidDump("it was removed from the plan before")
    if source.startswith(DUMP):
        return load_carried(get_blob(source.removeprefix(DUMP)))
    agent = view.get(source)
    if agent is None:
        raise InvalidDump("it no longer exists")
    return experience_of(agent.status)


def _named(source: str) -> str:
    if source == KEPT_ORIGIN:
        return "an agent that was removed from the plan"
    return "an agent restored from a file" if source.startswith(DUMP) else source


# The parts of a plan that go into the dump file of an agent: its fields, its children with theirs, its hooks. Pure.
#
# A child with an ended command is left out, because restoring it would run the command again. Fields that only
# operators set or grant (`open`, `protect`, `approve`, `granted`) are left out too.

DumpPath: TypeAlias = tuple[str, ...]
IsShown: TypeAlias = Callable[[DumpPath], bool]
"""Returns whether the hook at this path of the document may be in the file."""


class DumpableObjects(Protocol):
    """The current objects of a plan."""

    def get(self, address: str) -> Resource | None: ...


def dump_of_agent(
    objects: DumpableObjects, document: JsonObject, agent: Resource, is_shown: IsShown = lambda _: True
) -> AgentDump:
    """The dump of `agent`, without the blobs of its transcripts.

    `is_shown` filters hooks of tasks and of agents.
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
    """Collects the children of the agent at the path `top`; fills `members` with their experiences."""

    objects: DumpableObjects
    is_shown: IsShown
    top: DumpPath
    members: JsonObject

    def children(self, node: JsonObject, path: DumpPath, above: Json) -> JsonObject:
        """The children of the task `node` at `path`. Children without an `agent` get `above`, that of their parent."""
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
        """An agent without its hooks, if these may not be in the file."""
        at = (*tokens, "agent", "hooks")
        if isinstance(written, dict) and "hooks" in written and not self.is_shown(at):
            return {key: value for key, value in written.items() if key != "hooks"}
        return written


def own_hooks(dump: AgentDump, document: JsonObject, under: DumpPath) -> JsonObject:
    """The hooks of the file, without those that watch a child of the task at `under` anyway."""
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
    """What a file contains besides the agent itself, for display: `2 descendant agents`, `1 hook`."""
    commands, hooks = _counts(dump.tasks), len(dump.hooks)
    for count, one, many in (
        (len(dump.members), "descendant agent", "descendant agents"),
        (commands[0], "command", "commands"),
        (hooks + commands[1], "hook", "hooks"),
    ):
        if count:
            yield f"{count} {one if count == 1 else many}"


def _counts(tasks: JsonObject) -> tuple[int, int]:
    """The numbers of commands and of hooks in these tasks and their descendants."""
    commands = hooks = 0
    waiting = [*tasks.values()]
    while waiting:
        node = waiting.pop()
        commands += "run" in node
        hooks += len(node.get("hooks") or {})
        waiting += (node.get("tasks") or {}).values()
    return commands, hooks


def _without_source(written: Json) -> Json:
    """The agent of a task in the plan, without its own `from`."""
    return {key: value for key, value in written.items() if key != "from"} if isinstance(written, dict) else written
