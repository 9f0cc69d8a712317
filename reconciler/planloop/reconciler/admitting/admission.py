"""The admission chain: everything a patch has to pass, as one pure function from a patch and the present to an answer.

Order: keyed paths → scope, ownership and conflict → schema → rights and budget on the result → protection → approvals
and holds. Every rule that can still speak does, so that the author gets all faults at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from planloop.reconciler.admitting import (
    attaching,
    budgeting,
    canonicalising,
    containing,
    copies,
    holding,
    materialising,
    restricting,
    scoping,
)
from planloop.reconciler.admitting.language import CheckedDocument, DesiredGraph, Language, Visit
from planloop.reconciler.admitting.present import Present, moves_of
from planloop.reconciler.editing import diffing
from planloop.reconciler.editing.diffing import Difference
from planloop.reconciler.storing.store import View
from planloop.schemas import encoding, limits, patching
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.patch import Fault, Patch
from planloop.schemas.patching import Op
from planloop.schemas.resource import Resource

BUDGET_WORD: Final = "budget"
RIGHTS_CODES: Final = "P03"
"""Codes of faults in rights and budgets begin so (`planloop.compiler.codes`)."""


@frozen
class Admission:
    """What would become of a patch. It is refused when there are `faults`, else held when there is a `hold`.

    `ops` are keyed and `document` is the result; `graph` is None when the result has errors. `notes` tell what a
    person's patch overrode; `warnings` are diagnostics that stop nothing.
    """

    ops: tuple[Op, ...]
    document: JsonObject
    graph: DesiredGraph | None = None
    faults: tuple[Fault, ...] = ()
    hold: str = ""
    notes: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


def admit(patch: Patch, present: Present, view: View, language: Language) -> Admission:
    """The answer of the whole chain to `patch`. Writes nothing, and does not know whether anybody will."""
    if patch.author.kind == "agent" and (hidden := tuple(attaching.op_faults(patch, present))):
        return Admission((), present.document, None, hidden)
    is_current = present.document_rev <= patch.base_rev <= present.rev
    keyed = canonicalising.canonicalise(present.document, patch.ops, is_current=is_current)
    faults = [*_stale_faults(patch, present), *keyed.faults]
    if keyed.faults:
        faults += _author_faults(patch, keyed.ops, present)
        return Admission(keyed.ops, keyed.document, None, tuple(faults))
    if patch.author.kind == "agent" and (named := tuple(attaching.naming_faults(patch.author, keyed.ops, present))):
        return Admission(keyed.ops, keyed.document, None, (*faults, *named))
    if patch.author.kind == "agent" and (excess := tuple(_size_faults(keyed.ops, present))):
        # Before the result is compiled, which takes seconds for a plan that large.
        faults += scoping.scope_faults(patch, keyed.ops, present)
        return Admission(keyed.ops, keyed.document, None, (*faults, *excess))
    settled = copies.without_lost(present, containing.without_orphans(present, keyed.document))
    checked = _checked(settled, Visit(patch.author, present, view), language)
    document = keyed.document if checked.document is None else checked.document
    # The canonical document is what goes into the log, so it, and not the spelling of the patch, is judged.
    ops = keyed.ops if document is keyed.document else tuple(patching.difference(present.document, document))
    faults += _author_faults(patch, tuple(op for op in ops if not copies.is_settling(op, present, document)), present)
    faults += _name_faults(present, document)
    faults += _diagnosed(patch, present, view, checked, document)
    warnings = tuple(one for one in checked.diagnostics if one.severity == "warning")
    so_far = Admission(ops, document, checked.graph, attaching.words_for(patch.author, faults), warnings=warnings)
    return so_far if checked.graph is None else _judged(patch, present, _Result(view, language, checked.graph, so_far))


def _checked(document: JsonObject, visit: Visit, language: Language) -> CheckedDocument:
    if visit.author.kind == "agent" and language.check_by is not None:
        return language.check_by(document, visit)
    return language.check(document)


def stops(answer: Admission, language: Language) -> tuple[Fault, ...]:
    """What a preview only warns of and an accepted patch may not have: parts of the plan that would never run."""
    return tuple(_of_diagnostic(one) for one in answer.warnings if one.code in language.stops)


@frozen
class _Result:
    """The outcome of a patch that compiles, on its way through the last rules."""

    view: View
    language: Language
    graph: DesiredGraph
    so_far: Admission


def _judged(patch: Patch, present: Present, result: _Result) -> Admission:
    so_far, wanted = result.so_far, result.graph.objects
    live = materialising.planned(result.view, present.address)
    moves = materialising.effective_moves(moves_of(so_far.document), live, wanted)
    differences = diffing.diff(live, wanted, moves, result.language.change_class)
    faults = [*so_far.faults]
    if patch.author.kind == "agent":
        attached = attaching.Attached(patch.author, present, so_far.document, live, wanted, moves)
        faults += [*restricting.rights_faults(attached), *attaching.faults_of(attached)]
    faults += budgeting.faults_of(budgeting.asked_of(live, wanted), result.view, is_agent=patch.author.kind == "agent")
    faults += holding.protect_faults(live, wanted, _gone(live, differences))
    hold = ""
    if not patch.is_approved:
        hold = holding.approval_reason(patch, so_far.ops, present.document) or holding.hold_reason(differences, live)
    notes = tuple(scoping.overrides(patch, so_far.ops, present)) if patch.author.is_human else ()
    return replace(so_far, faults=tuple(faults), hold=hold, notes=notes, differences=differences)


def _diagnosed(
    patch: Patch, present: Present, view: View, checked: CheckedDocument, document: JsonObject
) -> Iterator[Fault]:
    """The compiler's errors. Of a budget that is over the plan's sums it is told what there really is left, if any."""
    errors = [one for one in checked.diagnostics if one.severity == "error"]
    if not any(one.code == budgeting.STATIC for one in errors):
        yield from map(_of_diagnostic, errors)
        return
    asked = budgeting.asked_by(present.document, document)
    live = {fault.path: fault for fault in budgeting.faults_of(asked, view, is_agent=patch.author.kind == "agent")}
    for one in errors:
        yield live.get(one.pointer or (), _of_diagnostic(one)) if one.code == budgeting.STATIC else _of_diagnostic(one)


def _author_faults(patch: Patch, ops: tuple[Op, ...], present: Present) -> Iterator[Fault]:
    if patch.author.kind == "agent":
        yield from _size_faults(ops, present)
        yield from scoping.scope_faults(patch, ops, present)
        yield from scoping.conflict_faults(patch, ops, present)


def _size_faults(ops: tuple[Op, ...], present: Present) -> Iterator[Fault]:
    """Agents do not grow a plan past what a plan file may have: it could not be written back and read again."""
    added = sum(len(encoding.encode(op.value)) for op in ops if op.op != "remove")
    # A person who raised the bound for a large file leaves its agents as much room again.
    most = max(limits.PLAN_FILE_BYTES_MAX, 2 * len(encoding.encode(present.filed)))
    if added and added + len(encoding.encode(present.document)) > most:
        yield Fault(
            "schema",
            f"with these {added:,} bytes the plan could be over {most:,}",
            (),
            "put long text into files and name them, and remove tasks that are done with",
        )


def _gone(live: dict[str, Resource], differences: tuple[Difference, ...]) -> list[str]:
    return [one.address for one in differences if one.action == "cancel" and one.address in live]


def _stale_faults(patch: Patch, present: Present) -> Iterator[Fault]:
    if patch.base_rev > present.rev:
        yield Fault(
            "stale",
            f"the patch says it was made from revision {patch.base_rev}, and the newest is {present.rev}",
            (),
            "read the plan again",
        )


def _name_faults(present: Present, document: JsonObject) -> Iterator[Fault]:
    name = present.address.partition("/")[2]
    if document.get("plan", name) != name:
        yield Fault(
            "schema",
            f"the plan is called `{name}`, and its name cannot change while it lives",
            ("plan",),
            f"put `plan: {name}` back, or apply the file as a plan of its own",
        )


def _of_diagnostic(diagnostic: Diagnostic) -> Fault:
    rule = "schema"
    if diagnostic.code.startswith(RIGHTS_CODES):
        rule = BUDGET_WORD if BUDGET_WORD in (diagnostic.summary + diagnostic.hint) else "rights"
    return Fault(rule, diagnostic.summary, diagnostic.pointer or (), diagnostic.hint, diagnostic)
