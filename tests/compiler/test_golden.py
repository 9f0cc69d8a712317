"""Golden folders: plans that compile to a stored graph, and plans whose errors are marked in their lines.

A new case is a new file. `make docs` rewrites the stored graphs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from planloop.client.plan_sources import FolderSources
from planloop.compiler.graph import CompiledPlan
from planloop.compiler.plan_compiler import compile_source
from tests import rows
from tests.compiler.compiling import GOLDEN, graph_json, told

_MARK = re.compile(r"\b(ERROR|WARNING)((?: P\d{4})+)")


def _plans(folder: str) -> list[Path]:
    return sorted(path for path in (GOLDEN / folder).iterdir() if path.suffix in (".yaml", ".edn"))


class _Sources(FolderSources):
    """Debian has `python3` and no `python`; the stored warnings do not depend on that."""

    def has_program(self, word: str, cwd: str) -> bool:
        return word == "python" or super().has_program(word, cwd)


def _compiled(path: Path) -> CompiledPlan:
    return compile_source(path.read_bytes(), file=path.name, sources=_Sources(path.parent))


@rows.each("path", [*_plans("valid"), *_plans("seeds")], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_plan_compiles_to_its_stored_graph(path: Path, is_updating: bool) -> None:
    result = _compiled(path)
    assert result.graph is not None, told(result.diagnostics)
    found = {
        "warnings": [f"{one.code} {one.summary}" for one in result.diagnostics],
        "document": result.document,
        **graph_json(result.graph),
    }
    stored = path.with_name(path.name + ".graph.json")
    if is_updating:
        stored.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found == json.loads(stored.read_text())


@rows.each("path", _plans("invalid"), ids=lambda path: path.name)
def test_every_error_is_reported_on_its_line_and_nothing_else(path: Path) -> None:
    expected = Counter(
        (number, mark[1].lower(), code)
        for number, line in enumerate(path.read_text().split("\n"), 1)
        for mark in _MARK.finditer(line)
        for code in mark[2].split()
    )
    result = _compiled(path)
    found = Counter((one.span.line if one.span else 0, one.severity, one.code) for one in result.diagnostics)
    assert found == expected, told(result.diagnostics)
    has_errors = any(severity == "error" for _, severity, _ in expected)
    assert (result.document is None) is has_errors
