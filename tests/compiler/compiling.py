"""Compiles texts and files for tests, with the real library and the real folder sources."""

from __future__ import annotations

from pathlib import Path

from planloop.client.plan_sources import FolderSources
from planloop.compiler.graph import CompiledPlan, Graph
from planloop.compiler.plan_compiler import compile_source
from planloop.schemas.diagnostic import Diagnostic
from tests.product import JsonObject

GOLDEN = Path(__file__).parents[1] / "golden"
SOURCES = FolderSources(GOLDEN)


def compiled(text: str, file: str = "demo.plan.yaml") -> CompiledPlan:
    """`text` compiled under the name `file`, with what it refers to read from the golden folder and the library."""
    return compile_source(text.encode(), file=file, sources=SOURCES)


def document_of(text: str, file: str = "demo.plan.yaml") -> JsonObject:
    """The canonical document; fails when there are errors."""
    result = compiled(text, file)
    assert result.document is not None, told(result.diagnostics)
    return result.document


def graph_of(text: str, file: str = "demo.plan.yaml") -> Graph:
    """The graph; fails when there are errors."""
    result = compiled(text, file)
    assert result.graph is not None, told(result.diagnostics)
    return result.graph


def codes(text: str, file: str = "demo.plan.yaml") -> list[str]:
    """The codes of all diagnostics, in order."""
    return [diagnostic.code for diagnostic in compiled(text, file).diagnostics]


def told(diagnostics: tuple[Diagnostic, ...]) -> str:
    """Diagnostics as lines, for the message of a failed assertion."""
    return "\n".join(f"{one.span and one.span.line}: {one.code} {one.summary} ({one.hint})" for one in diagnostics)


def graph_json(graph: Graph) -> JsonObject:
    """A graph as JSON, objects in document order."""
    return {
        "name": graph.name,
        "objects": {
            address: {
                "spec": wanted.spec,
                "refs": list(wanted.refs),
                "owner": wanted.owner,
                "finalizers": list(wanted.finalizers),
            }
            for address, wanted in graph.objects.items()
        },
    }
