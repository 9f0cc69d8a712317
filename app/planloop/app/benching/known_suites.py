"""The suites that there are to be run, as the API says them: those that are shipped, and those in a folder.

A suite in the folder is a YAML or EDN file with `suite` at its top, there or as `suite.yaml` one folder below. Reading
one takes up to a second, so it is kept until one of its files is another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from planloop.app.benching import suites, validity
from planloop.app.benching.folder import PLAN_JSON, VALIDATION
from planloop.app.benching.shelf import RunName, Shelf
from planloop.app.exits import Exit, Halt
from planloop.app.sources import FolderSources, read_bounded
from planloop.benchmarks.checks.soft_figures import figures_of
from planloop.benchmarks.reading.reading import read_suite
from planloop.benchmarks.reading.sources import FolderSuiteSources
from planloop.benchmarks.reading.suite import Case, ReadSuite, Suite
from planloop.benchmarks.scoring.kinds import Kind
from planloop.compiler.naming import is_id
from planloop.compiler.source import SizeLimits
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import SUITE_BYTES_MAX

_Stamp = tuple[tuple[str, int, int], ...]


@frozen
class Found:
    """A suite's file. `key` names it: that of a shipped one, else its path in the folder."""

    key: str
    path: Path
    is_shipped: bool


@frozen
class _Kept:
    read: ReadSuite
    stamp: _Stamp


class KnownSuites:
    """The shipped suites and those in `folder`, with what `shelf` knows of their validations."""

    def __init__(self, folder: Path, shelf: Shelf) -> None:
        self._folder = folder
        self._shelf = shelf
        self._lock = threading.Lock()
        self._kept: dict[Path, _Kept] = {}

    def listed(self) -> JsonObject:
        """Each in a line."""
        return {"suites": [self._line(found) for found in self._found()]}

    def told(self, key: str) -> JsonObject:
        """One suite with its cases. Raises Halt."""
        found = next((one for one in self._found() if one.key == key), None)
        if found is None:
            raise Halt(Exit.NOT_FOUND, f"there is no suite `{key[:80]}`", "plan bench list; or a file in this folder")
        suite = self._read(found).suite
        cases = [] if suite is None else [self._case(suite, case) for case in suite.cases.values()]
        return {**self._line(found), "members": cases}

    def _found(self) -> list[Found]:
        own = [Found(str(path.relative_to(self._folder)), path, False) for path in suites.in_folder(self._folder)]
        return [*(Found(name, path, True) for name, path in suites.shipped().items()), *own]

    def _line(self, found: Found) -> JsonObject:
        read = self._read(found)
        faults = [f"{one.code}: {one.summary}" for one in read.diagnostics]
        about: JsonObject = {"key": found.key, "file": "" if found.is_shipped else found.key, "faults": faults}
        if read.suite is None:
            return about | {"suite": found.key, "about": "", "cases": 0, "valid": None, "validation": False}
        suite = read.suite
        seen = is_id(suite.name) and self._shelf.has(RunName(suite.name, VALIDATION), PLAN_JSON)
        known: JsonObject = {"valid": validity.known(suite, suite.cases, self._shelf.folder), "validation": seen}
        return about | {"suite": suite.name, "about": suite.about, "cases": len(suite.cases)} | known

    def _case(self, suite: Suite, case: Case) -> JsonObject:
        proofs = {
            Kind.ORACLE.value: list(case.oracles),
            Kind.MUTANT.value: list(case.mutants),
            Kind.CHEAT.value: "standard" if isinstance(case.cheats, str) else list(case.cheats),
        }
        return {
            "case": case.id,
            "about": " ".join((case.about or case.prompts[0]).split()),
            "prompts": list(case.prompts),
            "language": case.language,
            "tags": dict(case.tags),
            "image": case.image,
            "checks": [{"check": check.key, "kind": check.kind} for check in case.checks],
            "soft": [one.name for one in figures_of(case.soft)],
            "proofs": proofs,
            "valid": validity.known(suite, [case.id], self._shelf.folder),
        }

    def _read(self, found: Found) -> ReadSuite:
        with self._lock:
            kept = self._kept.get(found.path)
            if kept is not None and kept.stamp == _stamp([name for name, _, _ in kept.stamp]):
                return kept.read
            sources, bounds = _Noting(found.path.parent), SizeLimits(size_bytes=SUITE_BYTES_MAX)
            try:
                content = read_bounded(found.path, SUITE_BYTES_MAX)
            except OSError as error:
                raise Halt(Exit.NOT_FOUND, f"{found.key} cannot be read: {error.strerror}", "look again") from None
            library = FolderSources(found.path.parent)
            read = read_suite(content, file=found.path.name, sources=sources, limits=bounds, library=library)
            self._kept[found.path] = _Kept(read, _stamp([str(found.path), *sorted(sources.named)]))
            return read


class _Noting:
    """The files beside a suite, and in `named` those that were asked for: when one is another, so is the suite."""

    def __init__(self, folder: Path) -> None:
        self.named: set[str] = set()
        self._folder = folder
        self._sources = FolderSuiteSources(folder)

    def read(self, path: str) -> bytes:
        self.named.add(str(self._folder / path))
        return self._sources.read(path)

    def tree(self, path: str) -> Mapping[str, bytes]:
        found = self._sources.tree(path)
        self.named |= {str(self._folder / path), *(str(self._folder / path / name) for name in found)}
        return found


def _stamp(names: Iterable[str]) -> _Stamp:
    """By what files are told to be others."""
    return tuple((name, *_state(Path(name))) for name in names)


def _state(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
