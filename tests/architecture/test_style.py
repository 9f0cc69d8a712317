"""Rules of the house that no linter has: what may not stand in the tree, and where words are banned."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.tree import PACKAGES, ROOT, parsed, python_files, source_files, text_files

# The first test of a process parses some 1,600 files.
pytestmark = [pytest.mark.usefixtures("parsed_once"), pytest.mark.timeout(300)]

SOURCE = source_files()

# One word per idea; these say that the idea is not clear yet (CONTRIBUTING.md, "Names").
VAGUE = re.compile(r"(^|_)(manager|helper|helpers|util|utils|common|misc|handler|processor)(_|$)", re.IGNORECASE)

# Absolute paths of one machine reveal where a text was written. Paths that every system has are allowed.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|work|Users)/[\w.-]+")


def test_every_module_has_a_docstring() -> None:
    silent = [str(file) for file in SOURCE if not (ast.get_docstring(parsed(file)) or "").strip(".\n ")]

    assert silent == [], "these have no module docstring"


def test_no_name_is_vague() -> None:
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    vague = [
        f"{file}: {name}"
        for file in SOURCE
        for name in (file.stem, *(node.name for node in ast.walk(parsed(file)) if isinstance(node, definitions)))
        if VAGUE.search(name)
    ]

    assert vague == []


def test_no_file_holds_a_path_of_one_machine() -> None:
    found = {str(file): MACHINE_PATH.findall((ROOT / file).read_text(errors="replace")) for file in text_files()}

    # A container's own `/work` in an example is a place inside the container.
    own = {"/work/", "/root/"}
    assert {file: paths for file, paths in found.items() if set(paths) - own} == {}


def test_no_todo_is_left_without_an_issue() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX)\b")
    here = Path(__file__).resolve().relative_to(ROOT)
    found = [str(file) for file in python_files() if file != here and marks.search((ROOT / file).read_text())]

    assert found == []


def test_broad_except_appears_only_where_a_loop_must_survive() -> None:
    places = {str(file) for file in SOURCE for handler in _handlers(file) if _caught(handler) == "Exception"}

    # One attempt of a worker or a job, and the command's last line of defence, which turns our bug into exit 70.
    assert places <= {"reconciler/planloop/reconciler/engine/reconcile.py", "cli/planloop/cli/main.py"}


def test_catch_all_except_reraises() -> None:
    handlers = [(str(file), handler) for file in SOURCE for handler in _handlers(file)]
    everything = [(file, handler) for file, handler in handlers if _caught(handler) in ("BaseException", "")]

    kept = [f"{file}:{handler.lineno}" for file, handler in everything if not isinstance(handler.body[-1], ast.Raise)]
    assert kept == []


def _handlers(file: Path) -> list[ast.ExceptHandler]:
    return [node for node in ast.walk(parsed(file)) if isinstance(node, ast.ExceptHandler)]


def _caught(handler: ast.ExceptHandler) -> str:
    return ast.unparse(handler.type) if handler.type is not None else ""


def test_every_package_ships_type_marks() -> None:
    assert [name for name in PACKAGES if not (ROOT / name / "planloop" / name / "py.typed").is_file()] == []
