"""Expand toolsets: `[lib:code, shell(git *)]` becomes tool names and patterns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final

from planloop.compiler.problems import Pointer, Problems
from planloop.compiler.resolve.symbols import SymbolTable
from planloop.compiler.suggest import did_you_mean, nearest_name
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.patterns import parse_call_pattern
from planloop.schemas.rights import Patterns
from planloop.schemas.tools import AGENT_TOOL, BY_NAME, TOLD_APART, TOOLS

ALL: Final = frozenset(("all", "*", "lib:all"))
_DEPTH_MAX: Final = limits.PROTOTYPE_DEPTH_MAX


@frozen
class ExpandedTools:
    """`patterns` are all tools; `named` those that were written out singly, with their index in the list.

    With None for `patterns`, which is everything, `beside` are those that the word `all` does not stand for.
    """

    patterns: Patterns
    named: tuple[tuple[str, int], ...] = ()
    beside: tuple[str, ...] = ()


@frozen
class _Set:
    """What a toolset stands for: `patterns`, and with `is_all` everything else as well."""

    patterns: tuple[str, ...] = ()
    is_all: bool = False


@mutable
class Toolsets:
    """Opens lists of tools and toolsets; each named toolset once.

    `servers` are the tool servers of the plan with the tools that may be used of each, None for all that it has.
    """

    shelves: SymbolTable
    faults: Problems
    servers: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    _known: dict[str, _Set] = field(default_factory=dict)
    _open_now: set[str] = field(default_factory=set)

    def opened(self, written: Iterable[str], to: Pointer) -> ExpandedTools:
        """What the list at `to` stands for. Names that nobody knows are told and left out."""
        patterns: list[str] = []
        named: list[tuple[str, int]] = []
        is_all = False
        for index, name in enumerate(written):
            if name in ALL:
                is_all = True
                continue
            if not self._is_whole(name, (*to, str(index))):
                continue
            if self.is_tool(name):
                patterns.append(self._whole(name))
                if patterns[-1] == name:  # A server alone is a set of tools, of which as many are had as rights allow.
                    named.append((name, index))
                continue
            found = self._open(name, (*to, str(index)), 0)
            is_all = is_all or found.is_all
            patterns += found.patterns
        every = tuple(dict.fromkeys(patterns))
        if not is_all:
            return ExpandedTools(every, tuple(named))
        return ExpandedTools(None, tuple(named), tuple(one for one in every if one.partition("(")[0] in BY_NAME))

    def is_tool(self, name: str) -> bool:
        """Whether `name` is a built-in tool, a tool of a declared server, or a pattern of such calls."""
        plain = name.partition("(")[0]
        if plain in TOOLS or ("*" in plain and not plain.startswith("lib:")):
            return True
        if plain.startswith(AGENT_TOOL):
            return self.shelves.peek("agents", plain.removeprefix(AGENT_TOOL)) is not None
        server, dot, tool = plain.partition(".")
        known = self.servers.get(server)
        return server in self.servers and (not dot or known is None or tool in known)

    @property
    def every(self) -> tuple[str, ...]:
        """What `all` stands for: the built-in tools but those in `BY_NAME`, and what the servers of the plan have."""
        return (*(name for name in TOOLS if name not in BY_NAME), *(f"{server}.*" for server in self.servers))

    def _whole(self, name: str) -> str:
        """A server alone stands for all of its tools."""
        plain, bracket, rest = name.partition("(")
        return f"{plain}.*{bracket}{rest}" if plain in self.servers and plain not in TOOLS else name

    def denials(self, written: Iterable[str], to: Pointer | None = None) -> tuple[str, ...]:
        """The patterns that a list of denials stands for.

        With `to`, its place, denials of tools that there are not are told of: a misspelled denial denies nothing.
        """
        names = tuple(written)
        for index, name in enumerate(names if to is not None else ()):
            here = (*(to or ()), str(index))
            if name not in ALL and self._is_whole(name, here) and not self.is_tool(name):
                self._unknown(name, here)
        return tuple("*" if name in ALL else self._whole(name) for name in names)

    def _is_whole(self, name: str, to: Pointer) -> bool:
        """Whether a pattern of calls is one that can be told; says so when it is not."""
        if "(" not in name:
            return True
        found = parse_call_pattern(name)
        if found is None:
            hint = "as in `shell(git *)` or `write(src/**)`"
            self.faults.add("P0223", f"`{name}` is no pattern of calls", hint, to=to)
            return False
        if found.subject is not None and found.tool in TOOLS and found.tool not in TOLD_APART:
            summary = f"calls of `{found.tool}` are not told apart by what they are about"
            self.faults.add("P0223", summary, f"name the tool alone: `{found.tool}`", to=to)
            return False
        return True

    def _open(self, name: str, to: Pointer, depth: int) -> _Set:
        if name in self._known:
            return self._known[name]
        is_reference = name.startswith(("lib:", "file:"))
        declared = self.shelves.find("toolsets", name, to) if is_reference else self.shelves.peek("toolsets", name)
        if declared is None:
            if not is_reference:
                self._unknown(name, to)
            return _Set()
        if name in self._open_now or depth > _DEPTH_MAX:
            self.faults.add("P0215", f"toolsets name each other in a ring, at `{name}`", "one must not", to=to)
            return _Set()
        self._open_now.add(name)
        found = self._known[name] = self._of(declared.value, declared.pointer or to, depth)
        self._open_now.discard(name)
        return found

    def _of(self, value: JsonObject, to: Pointer, depth: int) -> _Set:
        parts = [value["extends"]] if "extends" in value else []
        parts += value.get("tools", ())
        patterns: list[str] = []
        is_all = False
        for part in parts:
            if part in ALL:
                is_all = True
            elif self.is_tool(part):
                patterns.append(self._whole(part))
            else:
                below = self._open(part, to, depth + 1)
                patterns += below.patterns
                is_all = is_all or below.is_all
        return _Set(tuple(dict.fromkeys(patterns)), is_all)

    def _unknown(self, name: str, to: Pointer) -> None:
        others = (each for each in self.shelves.names("toolsets") if each not in self._open_now)
        known = [*TOOLS, *self._served(), *others]
        near = None if self.faults.are_many else nearest_name(name.partition("(")[0], known)
        if near is not None or name.startswith("lib:"):
            hint = f"did you mean `{near}`?" if near else "`plan explain tools` lists what there is"
            self.faults.add("P0213", f"unknown tool or toolset `{name}`", hint, to=to)
            return
        if name.startswith(AGENT_TOOL):
            hint = did_you_mean(name.removeprefix(AGENT_TOOL), self.shelves.names("agents"))
            self.faults.add("P0203", f"unknown agent `{name.removeprefix(AGENT_TOOL)}`", hint, to=to)
            return
        # A name from elsewhere, not a slip of the pen: the plan can do without it, and says so.
        hint = "it is left out; `plan explain tools` lists what there is"
        self.faults.warn("P0410", f"there is no tool `{name}`", hint, to=to)

    def _served(self) -> Iterator[str]:
        for server, tools in self.servers.items():
            yield server
            yield from (f"{server}.{tool}" for tool in tools or ())


def list_patterns(allowed: Patterns) -> str:
    """Patterns in a sentence."""
    if allowed is None:
        return "everything"
    return ", ".join(f"`{pattern}`" for pattern in allowed[:12]) + (" …" if len(allowed) > 12 else "") or "nothing"
