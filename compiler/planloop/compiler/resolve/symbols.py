"""Resolve names in a plan: its own agents, mixins, toolsets, prompts and hooks, those of `use`, and the library.

A reference is a name of the plan or of a used bundle, `lib:name`, or `file:path`. Everything is read at most once,
through `Sources`; what cannot be read is a fault where it was named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Final, Literal, TypeAlias

from planloop.compiler.graph import OutOfReach, Sources
from planloop.compiler.names import leaves_folder
from planloop.compiler.normalise import Normalisation, normalise_document
from planloop.compiler.problems import DeclaredAt, Origins, Pointer, Problems, place_problems
from planloop.compiler.source import SourceTree
from planloop.compiler.suggest import did_you_mean, nearest_name
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import frozen, mutable

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
    hint = "agents name files of their workspace that they may read; write what it should say into the plan instead"
    return "P0218", f"`{reference}` is nothing that its author may read", hint


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
    """All that can be named. `diagnostics` holds the faults inside files that were read, already placed."""

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
            self.faults.add("P0215", f"files use each other: {way}", "one of them must not", to=to)
            return
        if len(users) >= limits.PROTOTYPE_DEPTH_MAX:
            summary = f"files use each other more than {limits.PROTOTYPE_DEPTH_MAX} deep"
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
        """What `reference` names, or None with a fault at `to`."""
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
        """What a plain name means, None when it means nothing. No fault is made."""
        found = self.own.get(shelf, {}).get(name)
        if found is not None:
            return found
        prefix = _PREFIXES.get(shelf, "")
        short = name.removeprefix(prefix) if prefix else name
        # Toolsets and mixins of the library need no `lib:`; an agent does, so that a misspelled one is a fault.
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
            hint = "references stay below the plan file's folder"
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
        hint = "paths are relative to the plan file; the library is `lib:name`"
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
