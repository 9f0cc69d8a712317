"""The whole way: text → tree → document → checked → lowered, every fault gathered and placed on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from planloop.compiler.agents import AgentMaking
from planloop.compiler.budgets import check_budgets
from planloop.compiler.checking import check_tasks, resolved_needs, tree_of
from planloop.compiler.checking_models import check_models
from planloop.compiler.checking_parts import check_parts, tell_missing_worlds
from planloop.compiler.faults import Faults, Origins, placed
from planloop.compiler.graph import Checked, Compiled, Graph, Sources
from planloop.compiler.hooking import Hooks
from planloop.compiler.idle_hooks import tell_idle_hooks
from planloop.compiler.lowering import Lowering
from planloop.compiler.naming import plan_name
from planloop.compiler.normalising import Work, normalise
from planloop.compiler.not_run import tell_not_run
from planloop.compiler.reading import read_source
from planloop.compiler.resolving import Agents
from planloop.compiler.rights import RightsTree
from planloop.compiler.shelves import Shelves
from planloop.compiler.source import SizeLimits
from planloop.compiler.syntax import SourceTree
from planloop.compiler.toolsets import Toolsets
from planloop.compiler.watching import Watching
from planloop.schemas import limits
from planloop.schemas.diagnostic import Diagnostic, in_order
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.model import model_table

_OF_ABSENCE: Final = ("P0210", "P0221")
DEFAULT_LIMITS: Final = SizeLimits()


def compile_source(content: bytes, *, file: str, sources: Sources, limits: SizeLimits = DEFAULT_LIMITS) -> Compiled:
    """Compiles one text. The result has a document and a graph when nothing in it is an error."""
    tree = read_source(content, file=file, limits=limits)
    work = Work(Faults(), {})
    origins = Origins(tree, work.moved)
    if tree.value is None:
        return Compiled(tree, None, None, tuple(in_order(tree.diagnostics)), origins.find)
    document = normalise(tree.value, "plan", work)
    if "plan" not in document:
        work.moved["plan",] = None
        document = {"plan": plan_name(file), **document}
    graph, inner = _graph(document, sources, work.faults, is_read=not tree.diagnostics)
    own = placed(work.faults.found, origins)
    diagnostics = in_order([*tree.diagnostics, *inner, *_not_following(own, tree.diagnostics)])
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        return Compiled(tree, None, None, tuple(diagnostics), origins.find)
    return Compiled(tree, document, graph, tuple(diagnostics), origins.find)


def check_document(document: JsonObject, *, sources: Sources) -> Checked:
    """Checks a document, for instance after a patch; places are pointers, there are no spans.

    What the patch wrote in shorthand is in canonical form in the result's `document`.
    """
    too_large = _excess(document)
    if too_large is not None:
        return Checked(None, (too_large,))
    work = Work(Faults(), {})
    canonical = normalise(document, "plan", work)
    canonical = canonical if "plan" in canonical else {"plan": "plan", **canonical}
    graph, inner = _graph(canonical, sources, work.faults)
    diagnostics = (*inner, *(fault.diagnostic for fault in work.faults.found))
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        return Checked(None, diagnostics)
    return Checked(graph, diagnostics, canonical)


def _excess(document: JsonObject) -> Diagnostic | None:
    """The fault of a document that is nested too deeply or holds too much, as a text that does would have."""
    level: list[Json] = [document]
    count = 0
    for _ in range(limits.PLAN_DEPTH_MAX + 1):
        count += len(level)
        if count > limits.PLAN_NODES_MAX:
            return Diagnostic("P0112", f"the plan would hold more than {limits.PLAN_NODES_MAX:,} values", pointer=())
        level = [item for value in level if isinstance(value, dict | list) for item in _items(value)]
        if not level:
            return None
    return Diagnostic("P0111", f"the plan would be nested deeper than {limits.PLAN_DEPTH_MAX} levels", pointer=())


def _items(value: Json) -> Iterable[Json]:
    return value.values() if isinstance(value, dict) else value


def _not_following(own: list[Diagnostic], read: Sequence[Diagnostic]) -> list[Diagnostic]:
    """The faults that do not merely follow from what could not be read."""
    if not read:
        return own
    starts = {one.span.start for one in read if one.span is not None}
    return [one for one in own if one.code not in _OF_ABSENCE and (one.span is None or one.span.start not in starts)]


def _graph(
    document: JsonObject, sources: Sources, faults: Faults, *, is_read: bool = True
) -> tuple[Graph, list[Diagnostic]]:
    shelves = Shelves(sources, faults, read_library)
    shelves.take_plan(document)
    servers = {name: _tools_of(server) for name, server in document.get("mcp", {}).items()}
    toolsets = Toolsets(shelves, faults, servers)
    rights = RightsTree(toolsets, faults)
    rights.take_tiers(document)
    agents = Agents(shelves, toolsets, faults, servers=frozenset(servers))
    making = AgentMaking(agents, rights, faults, models=model_table(document))
    tree = tree_of(document)
    needs = resolved_needs(tree, faults)
    check_tasks(document, tree, faults)
    check_parts(document, tree, faults)
    tell_missing_worlds(document, sources, faults)
    check_models(document, tree, faults)
    check_budgets(document, faults)
    making.agents.check_declared(document)
    watching = Watching(Hooks(shelves, agents, faults), making)
    graph = Lowering(document, making, needs, watching).graph()
    is_sound = is_read and not faults.has_errors and not shelves.diagnostics
    if is_sound:  # What a version cannot run is no help to somebody who is mending a fault, and may follow from it.
        tell_not_run(document, tree, graph, faults)
        tell_idle_hooks(tree, graph.objects, watching.made, sources, faults)
    return graph, shelves.diagnostics


def _tools_of(server: JsonObject) -> tuple[str, ...] | None:
    return tuple(server["tools"]) if "tools" in server else None


def read_library(content: bytes, path: str) -> SourceTree:
    """A file of the library, or beside the plan, that a plan names: what `Shelves` reads with."""
    return read_source(content, file=path)
