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
PURE = [
    *("reconciler/planloop/reconciler/" + name for name in (
        "admitting/admission.py", "admitting/approving.py", "admitting/canonicalising.py",
        "admitting/commanding.py", "admitting/holding.py", "admitting/materialising.py", "admitting/ownership.py",
        "admitting/recording.py", "admitting/restricting.py", "admitting/scoping.py", "driving/fighting.py",
        "driving/watching.py", "editing/diffing.py", "editing/filing.py", "editing/keeping.py",
        "editing/selecting.py", "effects/masking.py", "storing/view.py",
    )),
    *(f"controllers/planloop/controllers/{kind}/deciding.py" for kind in (
        "agent", "fork", "lock", "mcp", "plan", "task",
    )),
    *(f"controllers/planloop/controllers/{kind}/observing.py" for kind in (
        "agent", "fork", "lock", "mcp", "plan", "task",
    )),
    *("controllers/planloop/controllers/mcp/" + name for name in (
        "offering.py", "results.py", "status.py", "writing.py",
    )),
    "controllers/planloop/controllers/agent/tools/subjects.py",
    *("controllers/planloop/controllers/leases/" + name for name in (
        "breaking.py", "granting.py", "owners.py", "places.py", "words.py", "writing.py",
    )),
    *("controllers/planloop/controllers/lock/" + name for name in (
        "holding.py", "lapsing.py", "serving.py", "telling.py", "waiting.py",
    )),
    *("controllers/planloop/controllers/agent/hooking/" + name for name in (
        "blanks.py", "closing.py", "comparing.py", "conditions.py", "facts.py", "lattice.py", "moments.py",
        "recording.py", "rules.py", "showing.py", "smart.py", "spoken.py",
    )),
    *("controllers/planloop/controllers/agent/conflicts/" + name for name in (
        "deciding.py", "opening.py", "resolving.py", "routing.py", "standing.py", "telling.py", "terms.py", "waits.py",
    )),
    *("controllers/planloop/controllers/agent/" + name for name in (
        "budget.py", "calling/calls.py", "calling/ruling.py", "mail/telling.py", "turn.py",
    )),
    *("controllers/planloop/controllers/task/" + name for name in (
        "basis.py", "budgets.py", "claiming.py", "conditions.py", "family.py", "finishing.py", "flight.py",
        "halting.py", "jobs.py", "outcome.py", "reopening.py", "settling.py", "starting.py", "verifying.py",
        "working.py",
    )),
]  # fmt: skip
IMPURE = {"anyio", "asyncio", "os", "pathlib", "random", "socket", "sqlite3", "subprocess", "threading", "time", "uuid"}


def nodes(file: str | Path) -> Iterator[ast.AST]:
    return ast.walk(parsed(Path(file)))


def test_law_8_the_core_waits_for_nothing_and_reaches_for_nothing_outside_its_arguments() -> None:
    assert [fault for file in PURE for fault in impurities(file)] == []


def impurities(file: str) -> Iterator[str]:
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

    assert makers == {"reconciler/planloop/reconciler/admitting/recording.py"}


def test_law_3_every_write_says_what_it_was_computed_from() -> None:
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
