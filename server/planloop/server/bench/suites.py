"""Find benchmark suites, read one, and list them for the API."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from planloop.benchmarks.checks.soft_figures import parse_soft_figures
from planloop.benchmarks.scoring.fold import ModelKind
from planloop.benchmarks.suite import Case, ReadSuite, Suite
from planloop.benchmarks.suite_parser import FolderSuiteSources, read_suite
from planloop.client import process
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.plan_sources import FolderSources, read_bounded
from planloop.client.process import write_styled
from planloop.client.render import diagnostics as rendering
from planloop.compiler.names import is_valid_id, nearest_name
from planloop.compiler.source import SizeLimits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import frozen
from planloop.schemas.gc_control import gc_paused_then_frozen
from planloop.schemas.limits import SUITE_BYTES_MAX, SUITES_LOOKED_AT_MAX
from planloop.server.bench import run_folder
from planloop.server.bench.run_folder import PLAN_JSON, VALIDATION, ReportsFolder, RunName

SUITE_FILE_NAMES: Final = ("suite.yaml", "suite.edn")
OWN_FOLDER: Final = Path("suites")
"""The default folder of the user's suites."""
SUITES_VARIABLE: Final = "PLANLOOP_SUITES"

_TOP: Final = re.compile(
    rb"\A(?:\s*(?:#|;)[^\n]*\n|\s*---[ \t]*\n|\s*\n)*[ \t]*(?:suite:|\{\s*:suite\s)[ \t]*([^\s#,}]*)"
)
_TOP_BYTES: Final = 4 << 10


@frozen
class SuiteFile:
    """A suite and its file."""

    path: Path
    read: ReadSuite

    @property
    def asked(self) -> str:
        """The name of the suite for commands: of a built-in suite its name, else its file."""
        return self.suite.name if self.path in shipped_suites().values() else path_shown(self.path)

    @property
    def suite(self) -> Suite:
        """The suite. Only for files from `require_suite`, which have no errors."""
        assert self.read.suite is not None, "there are errors"
        return self.read.suite


def shipped_suites() -> dict[str, Path]:
    """Return the files of the built-in suites, by name."""
    folder = Path(str(files("planloop.benchmarks").joinpath("suites")))
    found = ((one.name, _in_folder(one)) for one in sorted(folder.iterdir()) if one.is_dir())
    return {name: path for name, path in found if path is not None}


@frozen
class SuiteIndex:
    """The suites that commands know by name: the built-in ones, and the user's own."""

    shipped: Mapping[str, Path]
    own: Mapping[str, Path]

    @property
    def all(self) -> Mapping[str, Path]:
        return {**self.shipped, **self.own}


def known_suites(folders: Sequence[Path] = ()) -> SuiteIndex:
    """Return the built-in suites and those in `folders`.

    The default folders are those in the environment variable `PLANLOOP_SUITES`, else `suites` if it exists. Raises
    CommandError if a folder is missing or two suites have the same name.
    """
    own: dict[str, Path] = {}
    shipped_ = shipped_suites()
    for folder in folders or _configured():
        if not folder.is_dir():
            hint = f"create it, or correct --suites or {SUITES_VARIABLE}"
            raise CommandError(ExitCode.NOT_FOUND, f"the suites folder {folder} does not exist", hint)
        for path in suites_in_folder(folder):
            name = _name_in(path)
            other = shipped_.get(name, own.get(name))
            if other is not None and other.resolve() != path.resolve():
                where = "a built-in suite" if name in shipped_ else f"the suite in {path_shown(other)}"
                raise CommandError(
                    ExitCode.INVALID,
                    f"{path_shown(path)}: the name `{name}` is also that of {where}",
                    "rename one of them: edit `suite:`",
                )
            own[name] = path
    return SuiteIndex(shipped_, own)


def _configured() -> Sequence[Path]:
    named = [Path(each) for each in process.environment().get(SUITES_VARIABLE, "").split(os.pathsep) if each]
    return named or ([OWN_FOLDER] if OWN_FOLDER.is_dir() else [])


def suites_in_folder(folder: Path) -> Iterator[Path]:
    """Yield the files of suites in a folder and in its direct subfolders."""
    try:
        entries = sorted(folder.iterdir())[:SUITES_LOOKED_AT_MAX]
    except OSError:
        return
    for entry in entries:
        inside = (
            [entry / name for name in SUITE_FILE_NAMES] if entry.is_dir() and not entry.name.startswith(".") else []
        )
        own = [entry] if entry.suffix in (".yaml", ".yml", ".edn") else []
        yield from (path for path in (*own, *inside) if path.is_file() and _name_in(path))


def _name_in(path: Path) -> str:
    """Return the name of the suite in a file, from its first lines; empty if the file has no suite."""
    try:
        with path.open("rb") as file:
            found = _TOP.match(file.read(_TOP_BYTES))
    except OSError:
        return ""
    return "" if found is None else found[1].decode(errors="replace").strip("\"':") or path.stem


def find_suites(name: str, cwd: Path, folders: Sequence[Path] = ()) -> Path:
    """Return the file of the suite `name`: the name of a known suite, a folder or a file. Raises CommandError."""
    suites = known_suites(folders).all
    if name in suites:
        return suites[name]
    path = cwd / name
    found = _in_folder(path) if path.is_dir() else path if path.is_file() else None
    if found is None:
        meant = nearest_name(name, suites)
        there = f"did you mean `{meant}`?" if meant else f"known suites: {', '.join(suites)}"
        hint = f"{there}; or give a file or folder, such as {SUITE_FILE_NAMES[0]}"
        raise CommandError(ExitCode.NOT_FOUND, f"no suite `{name}`", hint)
    return found


def select_suites(names: Sequence[str], *, is_all: bool, folders: Sequence[Path] = ()) -> list[Path]:
    """Return the files of the suites in `names`, or of all known suites. Raises CommandError."""
    if is_all:
        return list(known_suites(folders).all.values())
    return [find_suites(name, Path.cwd(), folders) for name in names]


def require_suite(path: Path) -> SuiteFile:
    """Read the suite in the file `path` and print its errors and warnings. Raises CommandError: INVALID on errors."""
    try:
        content = read_bounded(path, SUITE_BYTES_MAX)
    except OSError as error:
        raise CommandError(ExitCode.NOT_FOUND, f"cannot read {path}: {error.strerror}", "plan bench list") from error
    with gc_paused_then_frozen():
        sources, bounds = FolderSuiteSources(path.parent), SizeLimits(size_bytes=SUITE_BYTES_MAX)
        library = FolderSources(path.parent)
        read = read_suite(content, file=path_shown(path), sources=sources, limits=bounds, library=library)
    print_suite_errors(read.diagnostics, read.texts)
    if read.suite is None:
        raise CommandError(ExitCode.INVALID, "")
    return SuiteFile(path, read)


def print_suite_errors(diagnostics: Sequence[Diagnostic], texts: Mapping[str, str]) -> None:
    """Print diagnostics with their places. `texts` are the contents of files, by name."""
    if diagnostics:
        write_styled(rendering.diagnostic_text(diagnostics, dict(texts), color=sys.stderr.isatty()), sys.stderr)


def path_shown(path: Path) -> str:
    """Return `path` relative to the current folder, if it is below it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _in_folder(folder: Path) -> Path | None:
    return next((folder / name for name in SUITE_FILE_NAMES if (folder / name).is_file()), None)


# The suites for the API: the built-in ones, and those in a folder.
#
# A suite in the folder is a YAML or EDN file that starts with `suite`, or the `suite.yaml` of a subfolder. Reading a
# suite takes up to a second, so it is cached until one of its files changes.

_Stamp = tuple[tuple[str, int, int], ...]


@frozen
class FoundSuite:
    """A suite's file. `key` is the name of a built-in suite, else the path in the folder."""

    key: str
    path: Path
    is_shipped: bool


@frozen
class _CachedSuite:
    read: ReadSuite
    stamp: _Stamp


class SuiteLibrary:
    """The built-in suites and those in `folder`, with their validations in `reports`."""

    def __init__(self, folder: Path, reports: ReportsFolder) -> None:
        self._folder = folder
        self._reports = reports
        self._lock = threading.Lock()
        self._kept: dict[Path, _CachedSuite] = {}

    def listed(self) -> JsonObject:
        """Return the list of all suites."""
        return {"suites": [self._line(found) for found in self._found()]}

    def told(self, key: str) -> JsonObject:
        """Return one suite with its cases. Raises CommandError."""
        found = next((one for one in self._found() if one.key == key), None)
        if found is None:
            raise CommandError(ExitCode.NOT_FOUND, f"no suite `{key[:80]}`", "plan bench list lists the suites")
        suite = self._read(found).suite
        cases = [] if suite is None else [self._case(suite, case) for case in suite.cases.values()]
        return {**self._line(found), "members": cases}

    def _found(self) -> list[FoundSuite]:
        own = [FoundSuite(str(path.relative_to(self._folder)), path, False) for path in suites_in_folder(self._folder)]
        return [*(FoundSuite(name, path, True) for name, path in shipped_suites().items()), *own]

    def _line(self, found: FoundSuite) -> JsonObject:
        read = self._read(found)
        faults = [f"{one.code}: {one.summary}" for one in read.diagnostics]
        about: JsonObject = {"key": found.key, "file": "" if found.is_shipped else found.key, "faults": faults}
        if read.suite is None:
            return about | {"suite": found.key, "about": "", "cases": 0, "valid": None, "validation": False}
        suite = read.suite
        seen = is_valid_id(suite.name) and self._reports.has(RunName(suite.name, VALIDATION), PLAN_JSON)
        known: JsonObject = {
            "valid": run_folder.known_validation(suite, suite.cases, self._reports.folder),
            "validation": seen,
        }
        return about | {"suite": suite.name, "about": suite.about, "cases": len(suite.cases)} | known

    def _case(self, suite: Suite, case: Case) -> JsonObject:
        proofs = {
            ModelKind.ORACLE.value: list(case.proofs.oracles),
            ModelKind.MUTANT.value: list(case.proofs.mutants),
            ModelKind.CHEAT.value: "standard" if isinstance(case.proofs.cheats, str) else list(case.proofs.cheats),
        }
        return {
            "case": case.id,
            "about": " ".join((case.about or case.prompts[0]).split()),
            "prompts": list(case.prompts),
            "language": case.language,
            "tags": dict(case.tags),
            "image": case.setting.image,
            "checks": [{"check": check.key, "kind": check.kind} for check in case.checks],
            "soft": [one.name for one in parse_soft_figures(case.soft)],
            "proofs": proofs,
            "valid": run_folder.known_validation(suite, [case.id], self._reports.folder),
        }

    def _read(self, found: FoundSuite) -> ReadSuite:
        with self._lock:
            kept = self._kept.get(found.path)
            if kept is not None and kept.stamp == _stamp([name for name, _, _ in kept.stamp]):
                return kept.read
            sources, bounds = _Noting(found.path.parent), SizeLimits(size_bytes=SUITE_BYTES_MAX)
            try:
                content = read_bounded(found.path, SUITE_BYTES_MAX)
            except OSError as error:
                raise CommandError(
                    ExitCode.NOT_FOUND, f"cannot read {found.key}: {error.strerror}", "reload the list of suites"
                ) from None
            library = FolderSources(found.path.parent)
            read = read_suite(content, file=found.path.name, sources=sources, limits=bounds, library=library)
            self._kept[found.path] = _CachedSuite(read, _stamp([str(found.path), *sorted(sources.named)]))
            return read


class _Noting:
    """Reads the files that belong to a suite, and records their names in `named`, to detect changes of the suite."""

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
    """Return what changes when one of the files does."""
    return tuple((name, *_state(Path(name))) for name in names)


def _state(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size
