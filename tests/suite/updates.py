"""The pytest plugin behind `make docs`: `--update` runs the tests that have something to rewrite, and they rewrite it.

Such a test takes the fixture `is_updating`, or calls `said` or `said_in` of `tests/golden_text.py`, itself or in a
function that it calls. The files that changed are printed at the end.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Final

import pytest
from _pytest.terminal import TerminalReporter

from tests import golden_text, sets
from tests.golden_text import Entries
from tests.suite.selection import marks

FIXTURE: Final = "is_updating"
REAL: Final = frozenset({"process", "engine", "browser", "network"})
"""Marks of tests whose texts contain real times and process ids."""

TREES: Final = ("docs", "schemas", "client", "server", "owner", "cli", "tests", "web/src", "web/tests", "README.md")
"""Where the tests write."""


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="run the tests that have golden files, and rewrite these")


@dataclass(slots=True, eq=False)
class Updates:
    """The state of one run: whether it rewrites, and what the files held before."""

    config: pytest.Config
    before: dict[Path, str] = field(default_factory=dict)

    @property
    def is_updating(self) -> bool:
        return bool(self.config.getoption("--update"))

    @property
    def is_worker(self) -> bool:
        return hasattr(self.config, "workerinput")

    def pytest_sessionstart(self) -> None:
        if self.is_updating and not self.is_worker:
            self.before = digests(self.config.rootpath)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if not self.is_updating:
            return
        kept = [item for item in items if has_golden(item)]
        chosen = {*kept}
        self.config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        self._remove_stale_entries(items)
        items[:] = kept

    def _remove_stale_entries(self, items: list[pytest.Item]) -> None:
        """Remove the entries of tests and parameters that are no longer in their file, or that no longer ask for texts.

        Nothing is removed if only some tests of a file were collected.
        """
        is_first = not self.is_worker or self.config.workerinput["workerid"] == "gw0"  # type: ignore[attr-defined]
        is_part = any(
            self.config.getoption(one, None) for one in ("keyword", "markexpr", "suite_set", "deselect", "lf")
        )
        if not is_first or is_part or any("::" in one for one in self.config.args):
            return
        names: dict[Path, set[str]] = {}
        for item in items:
            names.setdefault(item.path, set()).update({name_of(item)} if has_golden(item) else ())
        for path, known in names.items():
            file = golden_text.golden_file(path)
            stored = golden_text.read(file)
            if stored.keys() - known:
                golden_text.write(file, {name: texts for name, texts in stored.items() if name in known})
        for file in golden_text.files_without_tests():
            golden_text.write(file, {})

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        if not item.path.is_relative_to(golden_text.TESTS):
            return (yield)
        file = golden_text.golden_file(item.path)
        stored = golden_text.read(file).get(name_of(item), [])
        is_real = not REAL.isdisjoint(marks(item))
        entries = Entries(file, name_of(item), is_real, self.is_updating, has_golden(item), stored)
        with golden_text.entries_of(entries):
            return (yield)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if not self.is_updating or self.is_worker:
            return
        after = digests(self.config.rootpath)
        changed = sorted(path for path in {*self.before, *after} if self.before.get(path) != after.get(path))
        terminalreporter.section(f"rewritten: {len(changed) or 'nothing'}")
        for path in changed:
            terminalreporter.write_line(str(path))


def configure(config: pytest.Config) -> None:
    """Register the plugin. A run that updates visits every point of every loop, as nightly does."""
    if config.getoption("--update"):
        os.environ[sets.SET] = "nightly"  # noqa: TID251 - workers inherit it
    if base := config.getoption("basetemp"):
        golden_text.use_base(str(base))
    config.pluginmanager.register(Updates(config), "planloop-updates")


def name_of(item: pytest.Item) -> str:
    """The name of a test within its file, with its class and parameters: `test_a[1]`."""
    return item.nodeid.partition("::")[2]


def has_golden(item: pytest.Item) -> bool:
    """Whether a test has something that `--update` rewrites."""
    function = getattr(item, "function", None)
    return FIXTURE in getattr(item, "fixturenames", ()) or (function is not None and compares_texts(function))


def compares_texts(function: object) -> bool:
    """Whether a function calls `said` or `said_in`, itself or through functions of the tests."""
    known: set[CodeType] = set()
    return _compares(inspect.unwrap(function), known) if callable(function) else False


def _compares(function: object, known: set[CodeType]) -> bool:
    if not isinstance(function, FunctionType) or function.__code__ in known:
        return False
    known.add(function.__code__)
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    found = [function.__globals__.get(name) for name in names]
    modules = [one for one in found if isinstance(one, ModuleType) and one.__name__.startswith("tests.")]
    found += [vars(module).get(name) for module in modules for name in names]
    if golden_text.said in found or golden_text.said_in in found:
        return True
    return any(_compares(one, known) for one in found if getattr(one, "__module__", "").startswith("tests."))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions that it defines."""
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes(one)


def digests(root: Path) -> dict[Path, str]:
    """The content of each file that a test may rewrite, as a digest, by its path relative to `root`."""
    found: dict[Path, str] = {}
    for top in TREES:
        files = [root / top] if (root / top).is_file() else (root / top).rglob("*")
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                found[file.relative_to(root)] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found
