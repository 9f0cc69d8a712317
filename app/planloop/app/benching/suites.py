"""Which suites there are, and reading one from disk with its faults told."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from planloop.app import wiring
from planloop.app.exits import Exit, Halt
from planloop.app.sources import FolderSources, read_bounded
from planloop.app.streams import styled
from planloop.benchmarks.reading.reading import read_suite
from planloop.benchmarks.reading.sources import FolderSuiteSources
from planloop.benchmarks.reading.suite import ReadSuite, Suite
from planloop.cli.rendering import diagnostics as rendering
from planloop.compiler.source import SizeLimits
from planloop.compiler.suggesting import nearest
from planloop.schemas.collecting import made_to_stay
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import SUITE_BYTES_MAX, SUITES_LOOKED_AT_MAX

NAMES: Final = ("suite.yaml", "suite.edn")
OWN: Final = Path("suites")
"""The folder of one's own suites, where no other is named."""
VARIABLE: Final = "PLANLOOP_SUITES"

_TOP: Final = re.compile(
    rb"\A(?:\s*(?:#|;)[^\n]*\n|\s*---[ \t]*\n|\s*\n)*[ \t]*(?:suite:|\{\s*:suite\s)[ \t]*([^\s#,}]*)"
)
_TOP_BYTES: Final = 4 << 10


@frozen
class SuiteFile:
    """A suite and where it is read from."""

    path: Path
    read: ReadSuite

    @property
    def asked(self) -> str:
        """A name that a command takes for it: where it comes with the product its own, else its file."""
        return self.suite.name if self.path in shipped().values() else near(self.path)

    @property
    def suite(self) -> Suite:
        """The suite. Call `required` first."""
        assert self.read.suite is not None, "there are errors"
        return self.read.suite


def shipped() -> dict[str, Path]:
    """The files of the suites that come with the product, by name."""
    folder = Path(str(files("planloop.benchmarks").joinpath("suites")))
    found = ((one.name, _in_folder(one)) for one in sorted(folder.iterdir()) if one.is_dir())
    return {name: path for name, path in found if path is not None}


@frozen
class Known:
    """The suites that commands know by name: those that come with the product, and those in the folders of `own`."""

    shipped: Mapping[str, Path]
    own: Mapping[str, Path]

    @property
    def all(self) -> Mapping[str, Path]:
        return {**self.shipped, **self.own}


def known(folders: Sequence[Path] = ()) -> Known:
    """The suites that come with the product, and those in `folders`.

    Without `folders`, those in the folders that the variable `PLANLOOP_SUITES` names, or else in `suites`, if that is a
    folder. Raises Halt: a folder is not there, two suites have one name.
    """
    own: dict[str, Path] = {}
    shipped_ = shipped()
    for folder in folders or _configured():
        if not folder.is_dir():
            hint = f"create it, or correct --suites or {VARIABLE}"
            raise Halt(Exit.NOT_FOUND, f"there is no folder {folder} for suites", hint)
        for path in in_folder(folder):
            name = _name_in(path)
            other = shipped_.get(name, own.get(name))
            if other is not None and other.resolve() != path.resolve():
                where = "comes with planloop" if name in shipped_ else f"is in {near(other)}"
                raise Halt(Exit.INVALID, f"{near(path)}: a suite `{name}` {where}, too", "rename one of them: `suite:`")
            own[name] = path
    return Known(shipped_, own)


def _configured() -> Sequence[Path]:
    named = [Path(each) for each in wiring.environment().get(VARIABLE, "").split(os.pathsep) if each]
    return named or ([OWN] if OWN.is_dir() else [])


def in_folder(folder: Path) -> Iterator[Path]:
    """The files of suites in a folder and one below it."""
    try:
        entries = sorted(folder.iterdir())[:SUITES_LOOKED_AT_MAX]
    except OSError:
        return
    for entry in entries:
        inside = [entry / name for name in NAMES] if entry.is_dir() and not entry.name.startswith(".") else []
        own = [entry] if entry.suffix in (".yaml", ".yml", ".edn") else []
        yield from (path for path in (*own, *inside) if path.is_file() and _name_in(path))


def _name_in(path: Path) -> str:
    """The name of the suite in a file, from its top; empty if it is no suite."""
    try:
        with path.open("rb") as file:
            found = _TOP.match(file.read(_TOP_BYTES))
    except OSError:
        return ""
    return "" if found is None else found[1].decode(errors="replace").strip("\"':") or path.stem


def find(name: str, cwd: Path, folders: Sequence[Path] = ()) -> Path:
    """The file of the suite that `name` means: one that is known by it, a folder or a file. Raises Halt."""
    suites = known(folders).all
    if name in suites:
        return suites[name]
    path = cwd / name
    found = _in_folder(path) if path.is_dir() else path if path.is_file() else None
    if found is None:
        meant = nearest(name, suites)
        there = f"did you mean `{meant}`?" if meant else f"there are {', '.join(suites)}"
        raise Halt(Exit.NOT_FOUND, f"no suite `{name}`", f"{there}; or name a file or folder: {NAMES[0]}")
    return found


def named(names: Sequence[str], *, is_all: bool, folders: Sequence[Path] = ()) -> list[Path]:
    """The files of the suites in `names`, or of all that are known. Raises Halt."""
    if is_all:
        return list(known(folders).all.values())
    return [find(name, Path.cwd(), folders) for name in names]


def required(path: Path) -> SuiteFile:
    """The suite in the file `path`, its faults printed. Raises Halt INVALID when one is an error."""
    try:
        content = read_bounded(path, SUITE_BYTES_MAX)
    except OSError as error:
        raise Halt(Exit.NOT_FOUND, f"{path} cannot be read: {error.strerror}", "plan bench list") from error
    with made_to_stay():
        sources, bounds = FolderSuiteSources(path.parent), SizeLimits(size_bytes=SUITE_BYTES_MAX)
        library = FolderSources(path.parent)
        read = read_suite(content, file=near(path), sources=sources, limits=bounds, library=library)
    tell(read.diagnostics, read.texts)
    if read.suite is None:
        raise Halt(Exit.INVALID, "")
    return SuiteFile(path, read)


def tell(diagnostics: Sequence[Diagnostic], texts: Mapping[str, str]) -> None:
    """Prints what is wrong, at its places in `texts`, which go by file name."""
    if diagnostics:
        styled(rendering.render(diagnostics, dict(texts), color=sys.stderr.isatty()), sys.stderr)


def near(path: Path) -> str:
    """How `path` is called where the command was given."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _in_folder(folder: Path) -> Path | None:
    return next((folder / name for name in NAMES if (folder / name).is_file()), None)
