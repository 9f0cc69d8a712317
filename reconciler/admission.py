"""The admission chain: everything a patch has to pass, as one pure function from a patch and the present to an answer.

Order: keyed paths → scope, ownership and conflict → schema → rights and budget on the result → protection → approvals
and holds. Every rule that can still speak does, so that the author gets all faults at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from reconciler import canonicalising, diffing, holding, materialising, restricting, scoping
from reconciler.diffing import Difference
from reconciler.language import DesiredGraph, Language
from reconciler.present import Present, moves_of
from reconciler.store import View
from schemas.diagnostic import Diagnostic
from schemas.encoding import JsonObject
from schemas.patch import Fault, Patch
from schemas.patching import Op
from schemas.resource import Resource

BUDGET_WORD: Final = "budget"
RIGHTS_CODES: Final = "P03"
"""Codes of faults in rights and budgets begin so (`compiler/codes.py`)."""


@dataclass(frozen=True, slots=True)
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
    keyed = canonicalising.canonicalise(
        present.document, patch.ops, is_current=present.document_rev <= patch.base_rev <= present.rev
    )
    faults = [*_stale_faults(patch, present), *keyed.faults]
    if patch.author.kind == "agent":
        faults += scoping.scope_faults(patch, keyed.ops, present)
        faults += scoping.conflict_faults(patch, keyed.ops, present)
    if keyed.faults:
        return Admission(keyed.ops, keyed.document, None, tuple(faults))
    return _admit_result(patch, keyed.ops, keyed.document, (present, view, language), faults)


def _admit_result(
    patch: Patch,
    ops: tuple[Op, ...],
    document: JsonObject,
    frame: tuple[Present, View, Language],
    faults: list[Fault],
) -> Admission:
    present, view, language = frame
    checked = language.check(document)
    faults += _name_faults(present, document)
    faults += [_of_diagnostic(one) for one in checked.diagnostics if one.severity == "error"]
    warnings = tuple(one for one in checked.diagnostics if one.severity == "warning")
    if checked.graph is None:
        return Admission(ops, document, None, tuple(faults), warnings=warnings)
    live = materialising.planned(view, present.address)
    wanted = checked.graph.objects
    moves = materialising.effective_moves(moves_of(document), live, wanted)
    differences = diffing.diff(live, wanted, moves, language.change_class)
    if patch.author.kind == "agent":
        faults += restricting.rights_faults(patch.author, live, wanted)
    faults += holding.protect_faults(live, wanted, _gone(live, differences))
    notes = tuple(scoping.overrides(patch, ops, present)) if patch.author.is_human else ()
    hold = ""
    if not patch.is_approved:
        hold = holding.approval_reason(patch, ops, present.document) or holding.hold_reason(differences, live)
    return Admission(ops, document, checked.graph, tuple(faults), hold, notes, differences, warnings)


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
