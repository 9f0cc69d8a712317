"""Which suites there are, and reading one from disk with its faults told."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from benchmarks.reading.reading import read_suite
from benchmarks.reading.sources import FolderSuiteSources
from benchmarks.reading.suite import ReadSuite, Suite
from compiler.source import SizeLimits
from planloop.exits import Exit, Halt
from planloop.rendering import diagnostics as rendering
from planloop.sources import FolderSources, read_bounded
from planloop.streams import styled
from schemas.collecting import made_to_stay
from schemas.diagnostic import Diagnostic
from schemas.frozen import frozen
from schemas.limits import SUITE_BYTES_MAX

NAMES: Final = ("suite.yaml", "suite.edn")


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
    folder = Path(str(files("benchmarks").joinpath("suites")))
    found = ((one.name, _in_folder(one)) for one in sorted(folder.iterdir()) if one.is_dir())
    return {name: path for name, path in found if path is not None}


def find(name: str, cwd: Path) -> Path:
    """The file of the suite that `name` means: one that is shipped, a folder or a file. Raises Halt."""
    known = shipped()
    if name in known:
        return known[name]
    path = cwd / name
    found = _in_folder(path) if path.is_dir() else path if path.is_file() else None
    if found is None:
        hint = f"there are {', '.join(known)}; or name a file or folder: {NAMES[0]}"
        raise Halt(Exit.NOT_FOUND, f"no suite `{name}`", hint)
    return found


def named(names: Sequence[str], *, is_all: bool) -> list[Path]:
    """The files of the suites in `names`, or of all that are shipped. Raises Halt."""
    return list(shipped().values()) if is_all else [find(name, Path.cwd()) for name in names]


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
