"""The names that a rule may mention: tools and their arguments, its own counters and marks, and words of closed sets.

`rule_faults.py` tells of those that there are not: a condition about them never holds, and a guard stands open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from planloop.schemas.call import FINAL, CallState, EffectClass
from planloop.schemas.encoding import Json
from planloop.schemas.frozen import frozen
from planloop.schemas.patterns import call_pattern, starred
from planloop.schemas.rule import BLANK, clauses_of
from planloop.schemas.tool_arguments import AGENT_ARGUMENTS, ARGUMENTS
from planloop.schemas.tools import AGENT_TOOL, TOLD_APART, TOOLS

WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "effect": tuple(str(effect) for effect in EffectClass),
    "outcome": tuple(sorted(str(state).lower() for state in {*FINAL, CallState.UNKNOWN})),
    "claim": ("done", "fail"),
}
"""Conditions that test one of a few words."""

BUDGET_UNITS: Final = ("tokens", "usd", "time_s", "calls", "turns", "retries")

ERRORS: Final = (
    *("BadArguments", "Cancelled", "Changed", "Denied", "Exists", "Exit", "Gone", "Interrupted", "Lost", "NoMatch"),
    *("NotFound", "NotHeld", "TimedOut", "TooLarge", "TooMany", "ToolError", "Unknown", "UnknownTool", "Unreachable"),
)
"""Words of failures that most calls may end with. It is no closed set, but all of them begin with a capital."""


@frozen
class Tools:
    """What calls there can be in a plan.

    `is_tool` says of a name whether there is such a tool; `others` are the names of tools that are not built in, for
    hints; `is_open`: there are tools of which nobody knows the arguments.
    """

    is_tool: Callable[[str], bool]
    others: tuple[str, ...] = ()
    is_open: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (*TOOLS, *self.others)

    def has(self, tool: str) -> bool:
        """Whether some call can be of `tool`, which may have stars."""
        if "*" not in tool or tool in TOOLS:
            return self.is_tool(tool)
        return self.is_open or tool.startswith(AGENT_TOOL) or any(starred(tool).fullmatch(name) for name in self.names)

    def arguments(self, tools: frozenset[str] | None) -> frozenset[str] | None:
        """The arguments that calls of one of `tools` (None: of any) can have; None where nobody knows."""
        found: set[str] = set()
        for tool in tools or ("*",):
            if tool in ARGUMENTS:
                found.update(ARGUMENTS[tool])
            elif tool.startswith(AGENT_TOOL):
                found.update(AGENT_ARGUMENTS)
            elif "*" not in tool or self.is_open:
                return None
            else:
                found.update(AGENT_ARGUMENTS, *(ARGUMENTS[name] for name in TOOLS if starred(tool).fullmatch(name)))
        return frozenset(found)


def is_not_told_apart(tool: str) -> bool:
    """Whether calls of the tool have nothing that a pattern such as `shell(git *)` could be about."""
    return tool in TOOLS and tool not in TOLD_APART


def tools_of(patterns: Json) -> frozenset[str] | None:
    """The tools that patterns of calls name, with their stars; None when that cannot be told."""
    found = [call_pattern(one) if isinstance(one, str) else None for one in clauses_of(patterns)]
    return frozenset(one.tool for one in found if one is not None) if all(found) else None


def narrowed(when: Json) -> frozenset[str] | None:
    """The tools of which a call must be for a condition to hold, None for any."""
    if not isinstance(when, dict):
        return None
    if "call" in when:
        return tools_of(when["call"])
    parts = when.get("all")
    for found in (narrowed(part) for part in parts) if isinstance(parts, list) else ():
        if found is not None:
            return found
    ways = [narrowed(way) for way in when["any"]] if isinstance(when.get("any"), list) else [None]
    known = [way for way in ways if way is not None]
    return frozenset().union(*known) if known and len(known) == len(ways) else None


@frozen
class Kept:
    """The counters and marks that a hook may have, as patterns: where a name has a blank, a star stands for it."""

    counters: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()

    def has(self, what: str, name: str) -> bool:
        """Whether `name` is set anywhere; `what` is `count` or `turns-since`, anything else for both."""
        return any(starred(one).fullmatch(name) for one in self.known(what))

    def known(self, what: str) -> frozenset[str]:
        """The names of that sort."""
        return {"count": self.counters, "turns-since": self.marks}.get(what, self.counters | self.marks)


def kept_by(*rules: Json) -> Kept:
    """What the clauses of all these rules set."""
    clauses = [clause for rule in rules for clause in clauses_of(rule) if isinstance(clause, dict)]
    counters = (name for clause in clauses for name in _names(clause.get("count")))
    return Kept(frozenset(counters), frozenset(name for clause in clauses for name in _names(clause.get("mark"))))


def _names(written: Json) -> Iterator[str]:
    several: Iterable[Json] = written if isinstance(written, list | dict) else [written]
    yield from (BLANK.sub("*", one) for one in several if isinstance(one, str))
