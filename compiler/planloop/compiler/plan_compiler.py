"""Compile a plan: text → tree → document → checked → lowered. Collects every diagnostic on the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from planloop.compiler.check.agents import check_models, check_parts, check_steps, warn_missing_worlds
from planloop.compiler.check.tasks import check_tasks, resolve_needs, task_tree
from planloop.compiler.graph import CheckedPlan, CompiledPlan, Graph, Sources
from planloop.compiler.lower.agents import AgentSpecBuilder
from planloop.compiler.lower.document import Lowering
from planloop.compiler.names import plan_name
from planloop.compiler.normalise import Normalisation, normalise_document, reader_for_type
from planloop.compiler.plan_warnings import warn_idle_hooks, warn_unsupported
from planloop.compiler.problems import Origins, Problems, place_problems
from planloop.compiler.read import read_source
from planloop.compiler.resolve.agents import AgentResolver
from planloop.compiler.resolve.budgets import check_budgets
from planloop.compiler.resolve.rights import RightsTree
from planloop.compiler.resolve.symbols import SymbolTable, Toolsets
from planloop.compiler.source import SizeLimits, SourceTree
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.diagnostic import Diagnostic, sort_diagnostics
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.model import model_table
from planloop.schemas.spec.agent import STEPS
from planloop.schemas.spec.field import MapType

# The whole compilation: text → tree → document → checked → lowered. Each step adds its problems, with positions.

_OF_ABSENCE: Final = ("P0210", "P0221")
DEFAULT_LIMITS: Final = SizeLimits()


def compile_source(content: bytes, *, file: str, sources: Sources, limits: SizeLimits = DEFAULT_LIMITS) -> CompiledPlan:
    """Compiles one text. The result has a document and a graph when nothing in it is an error."""
    tree = read_source(content, file=file, limits=limits)
    work = Normalisation(Problems(), {})
    origins = Origins(tree, work.moved)
    if tree.value is None:
        return CompiledPlan(tree, None, None, tuple(sort_diagnostics(tree.diagnostics)), origins.find)
    document = normalise_document(tree.value, "plan", work)
    if "plan" not in document:
        work.moved["plan",] = None
        document = {"plan": plan_name(file), **document}
    graph, inner = _graph(document, sources, work.faults, is_read=not tree.diagnostics)
    own = place_problems(work.faults.found, origins)
    diagnostics = sort_diagnostics([*tree.diagnostics, *inner, *_not_following(own, tree.diagnostics)])
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        return CompiledPlan(tree, None, None, tuple(diagnostics), origins.find)
    return CompiledPlan(tree, document, graph, tuple(diagnostics), origins.find)


def check_document(document: JsonObject, *, sources: Sources) -> CheckedPlan:
    """Checks a document, for instance after a patch; places are pointers, there are no spans.

    What the patch wrote in shorthand is in canonical form in the result's `document`.
    """
    too_large = _excess(document)
    if too_large is not None:
        return CheckedPlan(None, (too_large,))
    work = Normalisation(Problems(), {})
    canonical = normalise_document(document, "plan", work)
    canonical = canonical if "plan" in canonical else {"plan": "plan", **canonical}
    graph, inner = _graph(canonical, sources, work.faults)
    diagnostics = (*inner, *(fault.diagnostic for fault in work.faults.found))
    if any(diagnostic.severity == "error" for diagnostic in diagnostics):
        return CheckedPlan(None, diagnostics)
    return CheckedPlan(graph, diagnostics, canonical)


def _excess(document: JsonObject) -> Diagnostic | None:
    """Return the problem of a document that is too deep or too large, as for a text."""
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
    """Return the problems that are not consequences of unreadable parts."""
    if not read:
        return own
    starts = {one.span.start for one in read if one.span is not None}
    return [one for one in own if one.code not in _OF_ABSENCE and (one.span is None or one.span.start not in starts)]


def _graph(
    document: JsonObject, sources: Sources, faults: Problems, *, is_read: bool = True
) -> tuple[Graph, list[Diagnostic]]:
    shelves = SymbolTable(sources, faults, read_library)
    shelves.take_plan(document)
    servers = {name: _tools_of(server) for name, server in document.get("mcp", {}).items()}
    toolsets = Toolsets(shelves, faults, servers)
    rights = RightsTree(toolsets, faults)
    rights.take_tiers(document)
    agents = AgentResolver(shelves, toolsets, faults, servers=frozenset(servers))
    making = AgentSpecBuilder(agents, rights, faults, models=model_table(document))
    tree = task_tree(document)
    needs = resolve_needs(tree, faults)
    check_tasks(document, tree, faults)
    check_parts(document, tree, faults)
    warn_missing_worlds(document, sources, faults)
    check_models(document, tree, faults)
    check_budgets(document, faults)
    making.agents.check_declared(document)
    lowering = Lowering(document, making, needs)
    graph = lowering.graph()
    is_sound = is_read and not faults.has_errors and not shelves.diagnostics
    if is_sound:  # Warnings about unsupported parts distract from problems, and may follow from them.
        warn_unsupported(document, tree, graph, faults)
        warn_idle_hooks(tree, graph.objects, lowering.hooks, sources, faults)
    return graph, shelves.diagnostics


def _tools_of(server: JsonObject) -> tuple[str, ...] | None:
    return tuple(server["tools"]) if "tools" in server else None


def read_library(content: bytes, path: str) -> SourceTree:
    """A file of the library, or beside the plan, that a plan names: what `SymbolTable` reads with."""
    return read_source(content, file=path)


# A file of scripts: the steps of an agent's script, by the case that they are for. Pure.

_SCRIPTS: Final = MapType(STEPS, is_id=False)
_FORM: Final = "write `case: [steps]`, or `*: [steps]` for all cases"


@frozen
class ReadScripts:
    """The `scripts` by case, None when something is wrong with one; `text` is what the diagnostics point into."""

    scripts: JsonObject | None
    diagnostics: tuple[Diagnostic, ...]
    text: str


def read_scripts(content: bytes, *, file: str) -> ReadScripts:
    """The scripts in `content`, each a list of steps as an agent's `script` has them."""
    tree = read_source(content, file=file)
    work = Normalisation(Problems(), {})
    scripts: JsonObject = {}
    if isinstance(tree.value, dict):
        scripts = reader_for_type(_SCRIPTS)(tree.value, (), (), work)
        for name, steps in scripts.items():
            check_steps(steps, (name,), work.faults)
    elif not tree.diagnostics:
        work.faults.add("P0202", f"{file} contains no scripts", _FORM, to=())
    told = tuple(sort_diagnostics([*tree.diagnostics, *place_problems(work.faults.found, Origins(tree, work.moved))]))
    is_sound = not any(one.severity == "error" for one in told)
    return ReadScripts(scripts if is_sound else None, told, tree.text)
