"""Resolve names in a plan (its own, those of `use`, the library), and expand toolsets to tool names and patterns.

A reference is a name of the plan or of a used bundle, `lib:name`, or `file:path`. Everything is read at most once,
through `Sources`; a file that cannot be read is a problem at the place that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final, Literal, TypeAlias

from planloop.compiler.graph import OutOfReach, Sources
from planloop.compiler.names import did_you_mean, leaves_folder, nearest_name
from planloop.compiler.normalise import Normalisation, normalise_document
from planloop.compiler.problems import DeclaredAt, Origins, Pointer, Problems, place_problems
from planloop.compiler.source import SourceTree
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.patterns import parse_call_pattern
from planloop.schemas.rights import Patterns
from planloop.schemas.tools import AGENT_TOOL, BY_NAME, TOLD_APART, TOOLS

SymbolKind: TypeAlias = Literal["agents", "mixins", "toolsets", "prompts", "hooks"]

FOLDERS: Final[dict[str, str]] = {
    "agents": "prototypes",
    "mixins": "mixins",
    "toolsets": "toolsets",
    "prompts": "prompts",
    "hooks": "hooks",
    "bundles": "bundles",
}
"""Where the library keeps what: `lib:child` as an agent is read as `lib:prototypes/child.yaml`."""

_TABLES: Final = {"agents": "agent", "mixins": "mixin", "toolsets": "toolset", "hooks": "hook", "bundles": "library"}
_ONE: Final = {"agents": "agent", "mixins": "mixin", "toolsets": "toolset", "prompts": "prompt", "hooks": "hook"}
_PREFIXES: Final = {"agents": "agent-", "mixins": "mixin-", "toolsets": "toolset-"}


def out_of_reach_error(reference: str) -> tuple[str, str, str]:
    """Code, summary and hint of a file that an agent named and may not read itself."""
    hint = "name a file in the workspace that the agent may read, or write the text into the plan"
    return "P0218", f"the author of the patch may not read `{reference}`", hint


@frozen
class Declaration:
    """Something with a name: its value, the words that say where it is from, and its place if that is the plan."""

    name: str
    value: Json
    words: DeclaredAt
    pointer: Pointer | None = None


TreeReader: TypeAlias = Callable[[bytes, str], SourceTree]


@mutable
class SymbolTable:
    """All names that a plan can use. `diagnostics` has the problems inside the files that were read, with positions."""

    sources: Sources
    faults: Problems
    read_tree: TreeReader
    own: dict[str, dict[str, Declaration]] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    _loaded: dict[tuple[str, str], Declaration | None] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def take_plan(self, document: JsonObject) -> None:
        """Puts the plan's own declarations on the shelves, over those of the bundles it uses."""
        for index, reference in enumerate(document.get("use", ())):
            self._take_bundle(reference, ("use", str(index)), ())
        self._put_all(document, "", ())

    def _take_bundle(self, reference: str, to: Pointer, users: tuple[str, ...]) -> None:
        """Puts a bundle on the shelves, over those that it uses itself. Each is taken once, where it is first used."""
        if reference in users:
            way = " → ".join([*users[users.index(reference) :], reference])
            self.faults.add("P0215", f"files use each other in a cycle: {way}", "remove one of these `use`", to=to)
            return
        if len(users) >= limits.PROTOTYPE_DEPTH_MAX:
            summary = f"files use each other more than {limits.PROTOTYPE_DEPTH_MAX} levels deep"
            self.faults.add("P0224", summary, "merge some of them", to=to)
            return
        if reference in self.used:
            return
        bundle = self._load("bundles", reference, to)
        if bundle is not None:
            for below in bundle.value.get("use", ()):
                self._take_bundle(below, to, (*users, reference))
            self._put_all(bundle.value, f"{reference}, ", None)
        self.used.add(reference)

    def _put_all(self, document: JsonObject, words: str, at: Pointer | None) -> None:
        for shelf in _ONE:
            rows = self.own.setdefault(shelf, {})
            for name, value in document.get(shelf, {}).items():
                pointer = None if at is None else (*at, shelf, name)
                rows[name] = Declaration(name, value, DeclaredAt(f"{words}{shelf}/{name}"), pointer)

    @property
    def files(self) -> tuple[str, ...]:
        """The files beside the plan that were named so far, relative to it: saving one of them edits the plan."""
        named = (reference for _, reference in self._loaded if not reference.startswith("lib:"))
        return tuple(dict.fromkeys(reference.removeprefix("file:") for reference in named))

    def find(self, shelf: SymbolKind, reference: str, to: Pointer) -> Declaration | None:
        """Return the declaration that `reference` names, or None with a problem at `to`."""
        if reference.startswith(("lib:", "file:")):
            return self._load(shelf, reference, to)
        found = self.peek(shelf, reference)
        if found is None:
            self._unknown(shelf, reference, to)
        return found

    def known(self, shelf: SymbolKind, reference: str) -> Declaration | None:
        """What `reference` names, where `find` has told already of what names nothing."""
        if reference.startswith(("lib:", "file:")):
            return self._load(shelf, reference, ())
        return self.peek(shelf, reference)

    def peek(self, shelf: SymbolKind, name: str) -> Declaration | None:
        """Return the declaration of a plain name, None if it is unknown. Report nothing."""
        found = self.own.get(shelf, {}).get(name)
        if found is not None:
            return found
        prefix = _PREFIXES.get(shelf, "")
        short = name.removeprefix(prefix) if prefix else name
        # Toolsets and mixins of the library need no `lib:`; an agent does, so that a misspelled name is reported.
        if short in self._library(shelf) and (short != name or shelf in ("toolsets", "mixins")):
            return self._load(shelf, f"lib:{short}", ())
        return None

    def names(self, shelf: SymbolKind) -> list[str]:
        """Every name that could have been meant, the plan's own first."""
        return [*self.own.get(shelf, {}), *(f"lib:{name}" for name in self._library(shelf))]

    def _library(self, shelf: str) -> tuple[str, ...]:
        return self.sources.names(FOLDERS[shelf]) if shelf in FOLDERS else ()

    def _unknown(self, shelf: SymbolKind, reference: str, to: Pointer) -> None:
        what = _ONE[shelf]
        # What names nothing was not meant to name what it stands in.
        own = {
            name: one
            for name, one in self.own.get(shelf, {}).items()
            if one.pointer is None or to[: len(one.pointer)] != one.pointer
        }
        code = "P0203" if shelf == "agents" else "P0213"
        if self.faults.are_many:
            self.faults.add(code, f"unknown {what} `{reference}`", to=to)
            return
        near = nearest_name(reference, own)
        declared = own[near].pointer if near is not None else None
        if near is not None and declared is not None:
            others = [(f"`{near}` is declared here", declared)]
            self.faults.related(code, f"unknown {what} `{reference}`", f"did you mean `{near}`?", to, others)
            return
        candidates = [*own, *self._library(shelf)]
        library = (f"lib:{name}" for name in self._library(shelf))
        hint = did_you_mean(reference, [*own, *library])
        close = nearest_name(reference, candidates)
        if close is not None and close not in own:
            hint = f"did you mean `lib:{close}`?"
        self.faults.add(code, f"unknown {what} `{reference}`", hint, to=to)

    def _load(self, shelf: str, reference: str, to: Pointer) -> Declaration | None:
        key = (shelf, reference)
        if key not in self._loaded:
            self._loaded[key] = None  # A file that names itself finds nothing rather than no end.
            self._loaded[key] = self._read(shelf, reference, to)
        return self._loaded[key]

    def _read(self, shelf: str, reference: str, to: Pointer) -> Declaration | None:
        kind, colon, name = reference.partition(":")
        if not colon:
            kind, name = "file", reference
        is_text = shelf == "prompts"
        if kind == "lib" and shelf in FOLDERS:
            path = f"lib:{FOLDERS[shelf]}/{name}" + (".md" if is_text else ".yaml")
        else:
            path = name
        if leaves_folder(name):
            # An agent may write references too: they must not show it files that are not the plan's.
            hint = "use a path below the plan file's folder"
            self.faults.add("P0218", f"`{reference}` is outside the plan's folder", hint, to=to)
            return None
        try:
            content = self.sources.read(path)
        except (OSError, ValueError) as error:
            self._unreadable(shelf, reference, error, to)
            return None
        if is_text:
            return Declaration(name, content.decode(errors="replace").strip(), DeclaredAt(reference))
        parsed = self._parse(content, path, _TABLES[shelf])
        return None if parsed is None else Declaration(name, parsed[0], DeclaredAt.of_file(reference, path, parsed[1]))

    def _unreadable(self, shelf: str, reference: str, error: Exception, to: Pointer) -> None:
        if reference.startswith("lib:"):
            name = reference.removeprefix("lib:")
            hint = did_you_mean(name, self._library(shelf))
            self.faults.add("P0214", f"the library has no {_ONE.get(shelf, 'bundle')} `{name}`", hint, to=to)
            return
        if isinstance(error, OutOfReach):
            self.faults.add(*out_of_reach_error(reference), to=to)
            return
        why = getattr(error, "strerror", None) or str(error)
        hint = "check the path: it is relative to the plan file; for the library, write `lib:name`"
        self.faults.add("P0214", f"`{reference}` cannot be read: {why.lower()}", hint, to=to)

    def _parse(self, content: bytes, path: str, table: str) -> tuple[JsonObject, Origins] | None:
        tree = self.read_tree(content, path)
        self.diagnostics.extend(tree.diagnostics)
        if tree.value is None:
            return None
        work = Normalisation(Problems(), {})
        document = normalise_document(tree.value, table, work)
        origins = Origins(tree, work.moved)
        self.diagnostics.extend(place_problems(work.faults.found, origins))
        return document, origins


# Expand toolsets: `[lib:code, shell(git *)]` becomes tool names and patterns.

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
        """Expand the list at `to`. Unknown names are reported and left out."""
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
                if patterns[-1] == name:  # A server alone is a set of tools: those that the rights allow.
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

        With `to`, report denials of unknown tools, since a misspelled denial denies nothing.
        """
        names = tuple(written)
        for index, name in enumerate(names if to is not None else ()):
            here = (*(to or ()), str(index))
            if name not in ALL and self._is_whole(name, here) and not self.is_tool(name):
                self._unknown(name, here)
        return tuple("*" if name in ALL else self._whole(name) for name in names)

    def _is_whole(self, name: str, to: Pointer) -> bool:
        """Return whether a call pattern is valid; report it if not."""
        if "(" not in name:
            return True
        found = parse_call_pattern(name)
        if found is None:
            hint = "write it as `shell(git *)` or `write(src/**)`"
            self.faults.add("P0223", f"invalid call pattern `{name}`", hint, to=to)
            return False
        if found.subject is not None and found.tool in TOOLS and found.tool not in TOLD_APART:
            summary = f"`{found.tool}` does not support patterns on its arguments"
            self.faults.add("P0223", summary, f"write only `{found.tool}`", to=to)
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
            self.faults.add(
                "P0215", f"toolsets refer to each other in a cycle, at `{name}`", "remove one reference", to=to
            )
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
            hint = f"did you mean `{near}`?" if near else "run `plan explain tools` for a list"
            self.faults.add("P0213", f"unknown tool or toolset `{name}`", hint, to=to)
            return
        if name.startswith(AGENT_TOOL):
            hint = did_you_mean(name.removeprefix(AGENT_TOOL), self.shelves.names("agents"))
            self.faults.add("P0203", f"unknown agent `{name.removeprefix(AGENT_TOOL)}`", hint, to=to)
            return
        # A name of another product rather than a typo. The plan works in any case, so this is a warning.
        hint = "planloop ignores it; run `plan explain tools` for a list"
        self.faults.warn("P0410", f"unknown tool `{name}`", hint, to=to)

    def _served(self) -> Iterator[str]:
        for server, tools in self.servers.items():
            yield server
            yield from (f"{server}.{tool}" for tool in tools or ())


def list_patterns(allowed: Patterns) -> str:
    """Patterns in a sentence."""
    if allowed is None:
        return "everything"
    return ", ".join(f"`{pattern}`" for pattern in allowed[:12]) + (" …" if len(allowed) > 12 else "") or "nothing"
