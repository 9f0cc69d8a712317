"""Whether a condition of a rule holds, of facts and the hook's memory: pure. What each word means is
`planloop.schemas.rule`.

What is not known at a point makes its condition false, and so the `not` around it true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from planloop.controllers.agent.hooking.comparing import COMPARED, CannotTell, Number, fits, is_so, many, text_of
from planloop.controllers.agent.hooking.facts import CallFact, ChildFact, Facts
from planloop.schemas import address as addresses
from planloop.schemas import patterns
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.message import Message
from planloop.schemas.rule import CHILD_TESTS, MESSAGE_TESTS

_SOME: Final[JsonObject] = {">": 0}


@frozen
class Memory:
    """What one hook remembers. `since` is the turn in which it was first asked; `once` are digests by clause.

    `notes` are the newest texts that it kept, oldest first.
    """

    since: int
    counts: Mapping[str, Number] = field(default_factory=dict)
    marks: Mapping[str, int] = field(default_factory=dict)
    once: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def to_json(self) -> JsonObject:
        named = {"counts": self.counts, "marks": self.marks, "once": self.once}
        out: JsonObject = {"since": self.since} | {name: dict(kept) for name, kept in named.items() if kept}
        return out | ({"notes": list(self.notes)} if self.notes else {})


@frozen
class Known:
    """All that a condition is judged by.

    `lets_through`: what holds would permit something, so patterns of calls cover too little rather than too much.
    """

    facts: Facts
    options: JsonObject
    memory: Memory
    is_copy: bool = False
    lets_through: bool = False


def holds(when: Json, known: Known) -> bool:
    """Whether everything that `when` says holds. Raises CannotTell."""
    if not isinstance(when, dict):
        raise CannotTell(f"a condition is a map, not {when!r}")
    return all(_one(name, value, known) for name, value in when.items())


def _one(name: str, value: Json, known: Known) -> bool:
    if name in _JOINED:
        return _JOINED[name](value, known)
    facts = known.facts
    match name:
        case "on":
            return facts.point in many(value)
        case "call" | "effect" | "arguments" | "result" | "outcome" | "error":
            return facts.call is not None and _of_call(name, value, facts.call, known)
        case "message" | "messages" | "children":
            return _counted(name, value, facts)
        case "setting" | "budget" | "count" | "turns-since" | "calls":
            return all(_named(name, key, test, known) for key, test in value.items())
        case "is-copy":
            return known.is_copy is value
        case "reply" | "prompt" | "claim":
            text = getattr(facts, name)
            return bool(text) and fits(text, value)
        case _:
            return _is_number_so(name, value, facts)


_JOINED: Final[Mapping[str, Callable[[Json, Known], bool]]] = {
    "any": lambda ways, known: any(holds(one, known) for one in ways),
    "all": lambda parts, known: all(holds(one, known) for one in parts),
    "not": lambda one, known: not holds(one, remade(known, lets_through=not known.lets_through)),
}


def _of_call(name: str, test: Json, call: CallFact, known: Known) -> bool:
    match name:
        case "call":
            return _is_like(many(test), call, lets_through=known.lets_through)
        case "effect":
            return fits(call.effect, test)
        case "arguments":
            return all(_argument_fits(key, one, call, lets_through=known.lets_through) for key, one in test.items())
    if call.result is None:
        return False
    seen = {"result": call.result.text, "outcome": str(call.result.state).lower(), "error": call.result.error}
    return fits(seen[name], test)


def _argument_fits(key: str, test: Json, call: CallFact, *, lets_through: bool) -> bool:
    """Whether an argument passes: to hold back by any of its readings, to let through by all that it comes to."""
    found = members(call.arguments, key)
    if lets_through:
        return all(fits(one, test) for one in (call.places if key == "path" and call.places else found))
    return _fits_one_of((*found, *(call.places if key == "path" else ())), test)


def _is_like(written: Sequence[str], call: CallFact, *, lets_through: bool) -> bool:
    server, dot, _ = call.tool.partition(".")
    names = (call.tool, server) if dot else (call.tool,)
    if lets_through:
        return any(patterns.allowed_by(written, name, call.exact) for name in names)
    return any(patterns.denied_by(written, name, call.subjects) for name in names)


def _named(name: str, key: str, test: Json, known: Known) -> bool:
    memory, facts = known.memory, known.facts
    match name:
        case "setting":
            return fits(member(known.options, key), test)
        case "count":
            return is_so(memory.counts.get(key, 0), test)
        case "turns-since":
            return is_so(turns_since(known, key), test)
        case "calls":
            return is_so(facts.turn_calls.get(key, 0), test)
        case _:
            left = facts.budget_left.get(key)
            return left is not None and is_so(left, test)


def turns_since(known: Known, mark: str) -> int:
    """Turns of the agent since the mark was set; if never, since the hook was first asked."""
    return known.facts.turn - known.memory.marks.get(mark, known.memory.since)


def _is_number_so(name: str, test: Json, facts: Facts) -> bool:
    numbers: dict[str, int] = {
        "changed": len(facts.files_changed),
        "children-then": sum(child.is_live for child in facts.children) + facts.begins,
        "turn": facts.turn,
        "depth": facts.depth,
        "requests": len(facts.requests),
        "nudges": facts.nudges,
        "sent-back": facts.sent_back,
    }
    if name not in numbers:
        raise CannotTell(f"rules have no condition `{name}`")
    return is_so(numbers[name], test)


def _counted(name: str, wanted: Json, facts: Facts) -> bool:
    found = children_that_fit(wanted, facts) if name == "children" else messages_that_fit(wanted, facts)
    test = wanted.get("count", _SOME) if _has_members(wanted) else wanted
    return is_so(len(found), test)


def _has_members(wanted: Json) -> bool:
    return isinstance(wanted, dict) and not (wanted and wanted.keys() <= COMPARED.keys())


def children_that_fit(wanted: Json, facts: Facts) -> list[ChildFact]:
    """The children that a `children` condition is about, in order."""
    if not _has_members(wanted):
        return list(facts.children)
    return [child for child in facts.children if _is_child(child, wanted)]


def _is_child(child: ChildFact, wanted: JsonObject) -> bool:
    seen = {"state": (child.state,), "name": (name_of(child.task), child.task), "agent": (child.agent_state,)}
    return (
        all(_fits_one_of(seen[name], wanted[name]) for name in CHILD_TESTS if name in wanted)
        and wanted.get("live", child.is_live) is child.is_live
        and is_so(child.turns_silent, wanted.get("quiet", {">=": 0}))
    )


def messages_that_fit(wanted: Json, facts: Facts) -> list[Message]:
    """The messages that a `message` or `messages` condition is about, in order."""
    if not _has_members(wanted):
        return list(facts.messages)
    return [one for one in facts.messages if is_message(one, wanted, facts)]


def is_message(message: Message, wanted: JsonObject, facts: Facts) -> bool:
    """Whether one message passes all the tests."""
    body: JsonObject = message.body if isinstance(message.body, dict) else {}
    seen = {
        "text": (text_of(message.body),),
        "from": tuple(_who(message.sender, facts.agent)),
        "kind": (message.kind,),
        "about": (text_of(body.get("request") or _asked(body)),),
        "answer": (text_of(body.get("answer", "")),),
    }
    return all(_fits_one_of(seen[name], wanted[name]) for name in MESSAGE_TESTS if name in wanted)


def _asked(body: JsonObject) -> Json:
    """The kind of request that an answer answers."""
    what = body.get("what")
    return what.get("kind", "") if isinstance(what, dict) else ""


def _who(sender: str, agent: str) -> Iterable[str]:
    """What a sender can be called by the agent that reads it."""
    yield sender
    kind, _, rest = sender.partition("/")
    if sender.startswith("human:"):
        yield "person"
    if kind == "agent":
        mine, other = addresses.parse(agent), addresses.parse(sender)
        yield name_of(rest)
        yield "child" if other.is_within(mine) else "parent" if mine.is_within(other) else "other"


def name_of(address: str) -> str:
    """The last name in an address or path."""
    return address.rpartition("/")[2]


def member(value: JsonObject, path: str) -> Json:
    """What is at `path` in a map: a key as it stands, else keys with dots between; None if nothing is."""
    return members(value, path)[0]


def members(value: JsonObject, path: str) -> tuple[Json, ...]:
    """All that may be meant by `path`: who makes up a key with a dot in it does not hide what is within another."""
    found: Json = value
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    if path not in value or "." not in path:
        return (found,)
    return (value[path],) if found is None else (value[path], found)


def _fits_one_of(seen: Sequence[Json], test: Json) -> bool:
    """Whether one of several names of a thing passes; what it is not to be, none of them may be."""
    if not isinstance(test, dict) or "not" not in test:
        return any(fits(one, test) for one in seen)
    case = {"any-case": test["any-case"]} if "any-case" in test else {}
    if any(fits(one, {"is": test["not"], **case}) for one in seen):
        return False
    rest = {key: value for key, value in test.items() if key != "not"}
    return any(fits(one, rest) for one in seen)
