"""The admission chain: decide whether a patch to the current plan is accepted, held or rejected. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from planloop.reconciler.admission import (
    agent_policy,
    budget_policy,
    canonical_patch,
    container_policy,
    hook_policy,
    object_changes,
    scope,
)
from planloop.reconciler.admission.scope import declared_lists, pattern_covers
from planloop.reconciler.current_plan import CurrentPlan, declared_moves
from planloop.reconciler.diff import differences as diff_differences
from planloop.reconciler.diff.differences import ObjectDifference, task_stake
from planloop.reconciler.plan_language_port import CheckedDocument, DesiredGraph, PatchingAgent, PlanLanguage
from planloop.reconciler.store.store import View
from planloop.schemas import canonical_json, json_patch, json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.log.patch import Patch, PatchProblem
from planloop.schemas.resource import Resource, WantedObject

# Edits that wait for approval by a person: those that stop much work, those that change protected tasks, and those that
# the plan lists.


def hold_reason(differences: Sequence[ObjectDifference], live: Mapping[str, Resource]) -> str:
    """Why an edit with these differences needs approval: it stops too much running work, or protected work. Else
    empty."""
    stopped = frozenset(one.address for one in differences if one.action in ("cancel", "replace"))
    begun = [one for one in live.values() if one.kind == "task" and task_stake(one, None).is_running]
    hit = [one for one in begun if _is_hit(one.address, stopped)]
    protected = [one.address for one in hit if one.spec.get("protect")]
    if protected:
        return f"it would stop protected tasks: {_listed(protected)}"
    running = [one for one in begun if _works_itself(one)]
    lost = [one for one in hit if _works_itself(one)]
    # If only one task runs, stopping it is what the person asked for, not an accident.
    if len(lost) > limits.CANCELS_HELD_OVER or (len(lost) > 1 and 2 * len(lost) > len(running)):
        return f"it would stop {len(lost)} of {len(running)} running tasks: {_listed([one.address for one in lost])}"
    return ""


def _is_hit(task: str, stopped: frozenset[str]) -> bool:
    """Whether `task` is stopped, itself or by an ancestor. Only the ancestor has a difference then."""
    parts = task.split("/")
    return "task/." in stopped or any("/".join(parts[:length]) in stopped for length in range(2, len(parts) + 1))


def _works_itself(task: Resource) -> bool:
    return bool(task.spec["work"]["kind"] != "group")


def approval_reason(patch: Patch, ops: Sequence[PatchOp], document: JsonObject) -> str:
    """Why the patch needs approval by `approve:` of the plan; empty if not. Patches of people never do."""
    if patch.author.is_human:
        return ""
    for task, patterns in declared_lists(document, "approve"):
        for pattern in patterns:
            tokens = _path_pattern(pattern)
            if tokens is not None and any(_meets((*task, *tokens), op, document) for op in ops):
                return f"the plan requires approval by a person for changes to `{pattern}`"
    return ""


def protection_faults(
    live: Mapping[str, Resource], wanted: Mapping[str, WantedObject], gone: Sequence[str]
) -> Iterator[PatchProblem]:
    """Problems for protected tasks that the patch would remove. A separate patch must remove the protection first."""
    for address in gone:
        if live[address].spec.get("protect") and address not in wanted:
            task = address.partition("/")[2]
            yield PatchProblem(
                "protect",
                f"{address} is protected and cannot be removed",
                json_pointer.task_pointer(task.split("/")),
                f"remove the protection first: plan patch {address} protect=false",
            )


def _meets(pattern: Sequence[str], op: PatchOp, document: JsonObject) -> bool:
    """Whether `op` changes a path that matches `pattern`: exactly, as part of a larger value, or below it."""
    values = [
        op.value,
        *([json_pointer.value_at(document, op.path)] if json_pointer.has_value(document, op.path) else []),
    ]
    return any(pattern_covers(pattern, (*op.path, *below)) for value in values for below in _paths(value))


def _paths(value: Json) -> Iterator[tuple[str, ...]]:
    yield ()
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from ((key, *below) for below in _paths(inner))


def _path_pattern(pattern: str) -> tuple[str, ...] | None:
    """The tokens of a pattern for paths of the plan; None for a pattern of tool calls."""
    if pattern.startswith("/"):
        return json_pointer.parse_pointer(pattern)
    if pattern.startswith("task/"):
        names = pattern.split("/")[1:]
        return tuple(token for name in names for token in (("**",) if name == "**" else ("tasks", name)))
    return None


def _listed(addresses: Sequence[str]) -> str:
    shown = ", ".join(addresses[: limits.DIAGNOSTICS_SHOWN_MAX])
    rest = len(addresses) - limits.DIAGNOSTICS_SHOWN_MAX
    return f"{shown} and {rest} more" if rest > 0 else shown


# The admission chain: all checks of a patch, as one pure function of the patch and the current plan.
#
# Order: keyed paths → scope, ownership and conflict → schema → rights and budget on the result → protection → approvals
# and holds. All rules that can still be applied are, so that the author gets all problems together.

BUDGET_WORD: Final = "budget"
RIGHTS_CODES: Final = "P03"
"""Prefixes of the codes of problems with rights and budgets (`planloop.compiler.error_codes`)."""


@frozen
class Admission:
    """The result of admission. The patch is rejected if there are `faults`, else held if there is a `hold`.

    `ops` are keyed, and `document` is the result; `graph` is None if the result has errors. `notes` list what a
    person's patch overrode; `warnings` are diagnostics that do not reject the patch.
    """

    ops: tuple[PatchOp, ...]
    document: JsonObject
    graph: DesiredGraph | None = None
    faults: tuple[PatchProblem, ...] = ()
    hold: str = ""
    notes: tuple[str, ...] = ()
    differences: tuple[ObjectDifference, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()


def admit_patch(patch: Patch, present: CurrentPlan, view: View, language: PlanLanguage) -> Admission:
    """Apply the whole chain to `patch`. Writes nothing."""
    if patch.author.kind == "agent" and (hidden := tuple(hook_policy.hook_op_faults(patch, present))):
        return Admission((), present.document, None, hidden)
    is_current = present.document_rev <= patch.base_rev <= present.rev
    keyed = canonical_patch.canonical_patch(present.document, patch.ops, is_current=is_current)
    faults = [*_stale_faults(patch, present), *keyed.faults]
    if keyed.faults:
        faults += _author_faults(patch, keyed.ops, present)
        return Admission(keyed.ops, keyed.document, None, tuple(faults))
    if patch.author.kind == "agent" and (
        named := tuple(hook_policy.hook_name_faults(patch.author, keyed.ops, present))
    ):
        return Admission(keyed.ops, keyed.document, None, (*faults, *named))
    if patch.author.kind == "agent" and (excess := tuple(_size_faults(keyed.ops, present))):
        # Before the result is compiled, which takes seconds for such a large plan.
        faults += scope.scope_faults(patch, keyed.ops, present)
        return Admission(keyed.ops, keyed.document, None, (*faults, *excess))
    settled = agent_policy.with_lost_sources_kept(
        present, container_policy.without_orphan_containers(present, keyed.document)
    )
    checked = _checked(settled, PatchingAgent(patch.author, present, view), language)
    document = keyed.document if checked.document is None else checked.document
    # The canonical document goes into the log, so it is checked, not the form of the patch.
    ops = keyed.ops if document is keyed.document else tuple(json_patch.diff_values(present.document, document))
    faults += _author_faults(
        patch, tuple(op for op in ops if not agent_policy.is_source_bookkeeping(op, present, document)), present
    )
    faults += _name_faults(present, document)
    faults += _diagnosed(patch, present, view, checked, document)
    warnings = tuple(one for one in checked.diagnostics if one.severity == "warning")
    so_far = Admission(
        ops, document, checked.graph, hook_policy.explain_hook_fault(patch.author, faults), warnings=warnings
    )
    return so_far if checked.graph is None else _judged(patch, present, _Result(view, language, checked.graph, so_far))


def _checked(document: JsonObject, visit: PatchingAgent, language: PlanLanguage) -> CheckedDocument:
    if visit.author.kind == "agent" and language.check_by is not None:
        return language.check_by(document, visit)
    return language.check(document)


def blocking_warnings(answer: Admission, language: PlanLanguage) -> tuple[PatchProblem, ...]:
    """Warnings of a preview that reject the patch when it is submitted: parts of the plan that would never run."""
    return tuple(_of_diagnostic(one) for one in answer.warnings if one.code in language.stops)


@frozen
class _Result:
    """The result of a patch that compiles, before the last rules."""

    view: View
    language: PlanLanguage
    graph: DesiredGraph
    so_far: Admission


def _judged(patch: Patch, present: CurrentPlan, result: _Result) -> Admission:
    so_far, wanted = result.so_far, result.graph.objects
    live = object_changes.planned_objects(result.view, present.address)
    moves = object_changes.effective_moves(declared_moves(so_far.document), live, wanted)
    differences = diff_differences.diff_objects(live, wanted, moves, result.language.change_class)
    faults = [*so_far.faults]
    if patch.author.kind == "agent":
        attached = hook_policy.AgentPatch(patch.author, present, so_far.document, live, wanted, moves)
        faults += [*agent_policy.agent_patch_faults(attached), *hook_policy.hook_faults_of(attached)]
    faults += budget_policy.budget_faults(
        budget_policy.requested_budgets(live, wanted), result.view, is_agent=patch.author.kind == "agent"
    )
    faults += protection_faults(live, wanted, _gone(live, differences))
    hold = ""
    if not patch.is_approved:
        hold = approval_reason(patch, so_far.ops, present.document) or hold_reason(differences, live)
    notes = tuple(scope.override_notes(patch, so_far.ops, present)) if patch.author.is_human else ()
    return replace(so_far, faults=tuple(faults), hold=hold, notes=notes, differences=differences)


def _diagnosed(
    patch: Patch, present: CurrentPlan, view: View, checked: CheckedDocument, document: JsonObject
) -> Iterator[PatchProblem]:
    """The compiler's errors. A budget over the plan's sums is reported with the amount that is left, if known."""
    errors = [one for one in checked.diagnostics if one.severity == "error"]
    if not any(one.code == budget_policy.STATIC for one in errors):
        yield from map(_of_diagnostic, errors)
        return
    asked = budget_policy.requested_budgets_of_documents(present.document, document)
    live = {
        fault.path: fault for fault in budget_policy.budget_faults(asked, view, is_agent=patch.author.kind == "agent")
    }
    for one in errors:
        yield (
            live.get(one.pointer or (), _of_diagnostic(one))
            if one.code == budget_policy.STATIC
            else _of_diagnostic(one)
        )


def _author_faults(patch: Patch, ops: tuple[PatchOp, ...], present: CurrentPlan) -> Iterator[PatchProblem]:
    if patch.author.kind == "agent":
        yield from _size_faults(ops, present)
        yield from scope.scope_faults(patch, ops, present)
        yield from scope.conflict_faults(patch, ops, present)


def _size_faults(ops: tuple[PatchOp, ...], present: CurrentPlan) -> Iterator[PatchProblem]:
    """Reject patches of agents that make the plan larger than a plan file may be: it could not be read again."""
    added = sum(len(canonical_json.encode(op.value)) for op in ops if op.op != "remove")
    # If a person applied a larger file, agents may double its size.
    most = max(limits.PLAN_FILE_BYTES_MAX, 2 * len(canonical_json.encode(present.filed)))
    if added and added + len(canonical_json.encode(present.document)) > most:
        yield PatchProblem(
            "schema",
            f"the patch adds {added:,} bytes; the plan could become larger than the limit of {most:,} bytes",
            (),
            "move long texts to files and refer to them, and remove finished tasks",
        )


def _gone(live: dict[str, Resource], differences: tuple[ObjectDifference, ...]) -> list[str]:
    return [one.address for one in differences if one.action == "cancel" and one.address in live]


def _stale_faults(patch: Patch, present: CurrentPlan) -> Iterator[PatchProblem]:
    if patch.base_rev > present.rev:
        yield PatchProblem(
            "stale",
            f"the patch is based on revision {patch.base_rev}, but the newest revision is {present.rev}",
            (),
            "read the plan again",
        )


def _name_faults(present: CurrentPlan, document: JsonObject) -> Iterator[PatchProblem]:
    name = present.address.partition("/")[2]
    if document.get("plan", name) != name:
        yield PatchProblem(
            "schema",
            f"cannot rename the plan `{name}` while it exists",
            ("plan",),
            f"restore `plan: {name}`, or apply the file as another plan",
        )


def _of_diagnostic(diagnostic: Diagnostic) -> PatchProblem:
    rule = "schema"
    if diagnostic.code.startswith(RIGHTS_CODES):
        rule = BUDGET_WORD if BUDGET_WORD in (diagnostic.summary + diagnostic.hint) else "rights"
    return PatchProblem(rule, diagnostic.summary, diagnostic.pointer or (), diagnostic.hint, diagnostic)
