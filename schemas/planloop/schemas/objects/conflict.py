"""A conflict: two agents want the same files, and a ruling by their nearest common ancestor.

The object `conflict/<n>` exists while the conflict is open. Numbers are not reused. Its status has the agent that must
resolve it, the deadline, and the resolution, which is a patch of the plan in the same record.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final, Literal, TypeAlias

from planloop.schemas import address as addresses
from planloop.schemas import codec
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Uid

CONFLICT_KIND: Final = "conflict"
PERSON: Final = "person"
"""The resolver of a conflict if no common ancestor of its parties could answer."""

OPEN: Final = "open"
RULED: Final = "ruled"
"""It is resolved, and the holder has not released its lock yet."""
OVER: Final = "over"

ConflictCause: TypeAlias = Literal["wait", "deadlock", "contest"]
"""Why it was opened: a wait exceeded its limit, a deadlock, or a party asked for it."""

RulingKind: TypeAlias = Literal["release", "sequence", "merge", "fork", "cancel"]

ConflictSide: TypeAlias = Literal["wants", "holds"]

_WAYS: Final[dict[RulingKind, tuple[ConflictSide, str]]] = {
    "release": ("wants", "{other} keeps it until its turn ends, then {who} gets it"),
    "sequence": ("holds", "{who} goes first, and {other} when the task of {who} has ended"),
    "merge": ("holds", "{who} does both parts, and {other} drops its own"),
    "fork": ("wants", "{who} works in a branch of its own, merged when it is done"),
    "cancel": ("wants", "the task of {who} is cancelled"),
}
"""Default party of each kind of resolution, and what the resolution means."""

WAYS: Final = tuple(_WAYS)
"""The rulings by name."""


@frozen
class ConflictParty:
    """One side. `call` is the address of its waiting call, or empty; `intent` is what it wants to do with the files.

    `proposal` is the resolution that it suggests. `uid` and `incarnation` name the run of the agent: the conflict ends
    with that run.
    """

    agent: str
    uid: str
    incarnation: int
    intent: str = ""
    proposal: str = ""
    call: str = ""

    def to_json(self) -> JsonObject:
        return codec.to_json(self)


@frozen
class Ruling:
    """A resolution: its kind (`how`), the favoured party (`for_agent`), its author, and the author's words."""

    how: RulingKind
    for_agent: str
    by: str
    plan: str = ""
    at: float = 0.0

    def to_json(self) -> JsonObject:
        return codec.to_json(self)


@frozen
class ConflictSpec:
    """`wants` is the agent that asks, `holds` the one in its way."""

    wants: str
    holds: str
    because: ConflictCause

    @property
    def parties(self) -> tuple[str, str]:
        return self.wants, self.holds

    def usual(self, how: RulingKind) -> str:
        """The party that a ruling is about when it does not say."""
        return self.wants if _WAYS[how][0] == "wants" else self.holds

    def ways(self) -> dict[RulingKind, str]:
        """Return what each resolution means for its default party, in words for the resolver."""
        return {how: self.means(how, self.usual(how)) for how in _WAYS}

    def means(self, how: RulingKind, who: str) -> str:
        """What a ruling about the party `who` means, in words."""
        other = next(each for each in self.parties if each != who)
        return ruling_meaning(how, party_name(who), party_name(other))

    def to_json(self) -> JsonObject:
        return codec.to_json(self)


def conflict_from_json(raw: JsonObject) -> ConflictSpec:
    """Inverse of `ConflictSpec.to_json`."""
    return codec.from_json(ConflictSpec, raw)


@frozen
class ConflictStatus:
    """`before` is the address of the resolver, PERSON, or empty; `told` is the run of it that was notified.

    `since` is when it was opened and `due_at` when it goes to the next ancestor, both in seconds since 1970 (None: it
    waits for a person). `raised` counts how often it went to the next one because no answer came.
    """

    state: str = OPEN
    paths: tuple[str, ...] = ()
    parties: dict[str, ConflictParty] = field(default_factory=dict)
    since: float = 0.0
    before: str = ""
    told: int = 0
    raised: int = 0
    due_at: float | None = None
    ruling: Ruling | None = None
    why: str = ""

    @property
    def is_open(self) -> bool:
        return self.state in (OPEN, RULED)


def conflict_status_from_json(raw: JsonObject) -> ConflictStatus:
    """The typed form of a conflict's `status`. Parties and the ruling are in one-item lists, which a merge replaces."""
    parties = {agent: one[0] for agent, one in raw.get("parties", {}).items()}
    ruling = (raw.get("ruling") or [None])[0]
    return codec.from_json(ConflictStatus, {**raw, "parties": parties, "ruling": ruling})


def ruling_meaning(how: RulingKind, who: str, other: str = "the other one") -> str:
    """Return the meaning of a ruling about `who` as text, with the display names of both."""
    return _WAYS[how][1].format(who=who, other=other)


def party_name(agent: str) -> str:
    """A party as people and models read it: its path."""
    path = agent.partition("/")[2]
    return "the root's agent" if path == addresses.ROOT else f"`{path}`"


def conflict_number(address: str) -> int:
    """The n of `conflict/<n>`."""
    return int(address.partition("/")[2])


def conflict_address(number: int) -> str:
    """`conflict/<n>`."""
    return f"{CONFLICT_KIND}/{number}"


def conflict_uid(address: str, since: float) -> Uid:
    """The uid of a conflict: its number is not used twice in a plan, and `since` tells forks of a plan apart."""
    return Uid(f"{address}@{since:.6f}")


def conflict_approval_address(address: str) -> str:
    """The address of the approval that stands for a conflict while it waits for a person."""
    return f"approval/{CONFLICT_KIND}-{conflict_number(address)}"
