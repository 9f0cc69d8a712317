"""Laws that the shape of the code can break: purity, one gate, writes that say what they were computed from, bounds."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.tree import parsed, python_files

# The first test of a process parses some 1,600 files.
pytestmark = [pytest.mark.usefixtures("parsed_once"), pytest.mark.timeout(300)]

ENGINE = [file for file in python_files() if file.parts[0] in ("reconciler", "controllers")]

# Fold, diff, admission and what each controller decides with; the compiler and the vocabulary have an import contract.
MUST_BE_PURE = {
    "planloop.controllers.agent": "budget decide observe",
    "planloop.controllers.agent.conflicts": "decide detection resolution",
    "planloop.controllers.agent.hooks": "agent_hooks facts questions rules verdicts",
    "planloop.controllers.agent.mail": "wake_reasons",
    "planloop.controllers.agent.tools": "tool",
    "planloop.controllers.agent.turn": "authorization permissions records",
    "planloop.controllers.container": "decide observe readiness",
    "planloop.controllers.fork": "decide",
    "planloop.controllers.hook": "decide",
    "planloop.controllers.lock": "decide lease_expiry wait_graph",
    "planloop.controllers.mcp": "decide records results server_offer",
    "planloop.controllers.plan": "decide",
    "planloop.controllers.shared.leases": "grants lock_paths",
    "planloop.controllers.task": "budgets decide finish halt lifecycle observe step",
    "planloop.reconciler.admission": (
        "admit agent_policy approvals canonical_patch command_policy field_ownership object_changes records scope"
    ),
    "planloop.reconciler.diff": "differences file_patch",
    "planloop.reconciler.effects": "secret_masks",
    "planloop.reconciler.engine": "change_tracker",
    "planloop.reconciler.store": "memory_view",
}
"""Modules of law 8, by package. The test also covers modules whose docstring claims that they are pure."""
IMPURE = {"anyio", "asyncio", "os", "pathlib", "random", "socket", "sqlite3", "subprocess", "threading", "time", "uuid"}


def nodes(file: Path) -> Iterator[ast.AST]:
    return ast.walk(parsed(file))


def test_law_8_core_waits_for_nothing_and_reads_nothing_but_its_arguments() -> None:
    pure = {file for file in ENGINE if "Pure." in (ast.get_docstring(parsed(file)) or "").partition("\n\n")[0]}
    named = {module_file(f"{package}.{name}") for package, names in MUST_BE_PURE.items() for name in names.split()}

    assert len(pure) > 60
    assert [fault for file in sorted(pure | named) for fault in impurities(file)] == []


def module_file(module: str) -> Path:
    """The file of `planloop.<portion>.…`, relative to the root."""
    words = module.split(".")
    return Path(words[1], *words).with_suffix(".py")


def impurities(file: Path) -> Iterator[str]:
    """The places where `file` waits, and what it imports of IMPURE."""
    for node in nodes(file):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await):
            yield f"{file}:{node.lineno} waits"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (f"{file}:{node.lineno} imports {name}" for name in imported(node) if name in IMPURE)


def imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    """The top packages that a statement imports, except the pure halves of paths."""
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    if all(alias.name.startswith("Pure") for alias in node.names):
        return set()
    return {(node.module or "").partition(".")[0]}


def test_law_2_only_the_gates_record_changes_the_document_of_a_plan() -> None:
    makers = {str(file) for file in ENGINE for call in calls_of(file, "PatchSpec") if call.args}

    assert makers == {"reconciler/planloop/reconciler/admission/records.py"}


def test_law_3_every_write_names_what_it_was_computed_from() -> None:
    silent = [f"{file}:{call.lineno}" for file in ENGINE for call in writes(file) if len(call.args) < 2]

    # `{}` says that nothing was read for it.
    assert silent == []


def test_law_11_bounds_of_the_engine_and_the_controllers_live_in_one_module() -> None:
    named = {f"{file}: {node.target.id}" for file in ENGINE for node in nodes(file) if isinstance(node, ast.AnnAssign)
             if isinstance(node.target, ast.Name) and re.search(r"^_?[A-Z_]+_MAX(_S)?$", node.target.id)}  # fmt: skip

    assert named == set(), "bounds belong into schemas/planloop/schemas/limits.py, with their unit and their reason"


def writes(file: Path) -> Iterator[ast.Call]:
    """Calls of `propose` and `append` of a store."""
    for name in ("propose", "append"):
        for call in calls_of(file, name):
            if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value).endswith("store"):
                yield call


def calls_of(file: Path, name: str) -> Iterator[ast.Call]:
    for node in nodes(file):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name:
            yield node
