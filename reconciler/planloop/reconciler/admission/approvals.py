"""Answer a pending approval: a held patch, a request for more (budget, tool, model), or the end of a hook. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Final

from planloop.reconciler.admission import field_ownership
from planloop.reconciler.admission.admit import Admission
from planloop.reconciler.current_plan import CurrentPlan
from planloop.reconciler.errors import TerminalError
from planloop.reconciler.store.store import View
from planloop.schemas import address as addresses
from planloop.schemas import json_pointer, patterns
from planloop.schemas.canonical_json import Json, JsonObject, decode_foreign
from planloop.schemas.frozen import frozen
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.log.patch import Author, Patch, PatchProblem
from planloop.schemas.log.record import Change, Drop, RecordDraft, SetStatus
from planloop.schemas.objects.approval import WAITING, describe_request, patch_from_json
from planloop.schemas.objects.budget import exact_amount, format_amount, round_up, unit_from_name, unit_to_name
from planloop.schemas.objects.conflict import WAYS
from planloop.schemas.objects.hook import OVER
from planloop.schemas.quantities import parse_duration
from planloop.schemas.resource import Resource, conditions_of_status

# Answers to pending approvals. An approved patch is admitted again on the current plan, unless it is stale.
#
# These are the pure parts; `PlanGate.approve` and `PlanGate.reject` write the records. For waiting requests and calls,
# only the answer is written: the controller that waits reads it and drops the object.


@frozen
class ApprovalAnswer:
    """An answer: `state` is approved or rejected; `content` is the answer to a question, if one was asked."""

    state: str
    by: Author
    reason: str = ""
    content: JsonObject | None = None


def pending_approval(view: View, address: str) -> Resource:
    """Return the approval at `address`, or with that id. Raises TerminalError if none exists or it was answered."""
    other = view.get(address)
    if other is not None and other.kind == "task":
        raise TerminalError("NoApproval", f"{address} is a task and cannot be approved{_ways_on(other)}")
    found = view.get(address if address.startswith("approval/") else f"approval/{address}")
    if found is None:
        raise TerminalError("NotFound", f"no approval {address}; run `plan get approvals` for a list")
    if found.state != WAITING:
        raise TerminalError("Answered", f"{found.address} was already {found.state}")
    if found.spec.get("kind") == "conflict":
        name = found.spec["what"]["conflict"]
        others = ", ".join(f"--{how}" for how in WAYS[1:])
        ways = f"plan approve {name} --{WAYS[0]}; or {others}"
        raise TerminalError("NeedsRuling", f"{found.address} asks how to resolve {name}: {ways}")
    return found


def _ways_on(task: Resource) -> str:
    """The commands that unblock the task, as the end of a sentence; empty if it is not blocked."""
    ready = conditions_of_status(task.status).get("Ready")
    ways = ready.unblocks if ready is not None and ready.status != "True" else ()
    return f"; to unblock it: {' · or: '.join(ways)}" if ways else ""


def hook_end_draft(hook: Resource, by: Author, reason: str) -> RecordDraft:
    """Return the record of a person's approval to end a hook. Raises TerminalError if it cannot end so or has ended."""
    if hook.spec["is_read_only"]:
        raise TerminalError(
            "NoApproval", f"{hook.address} is a copy of {hook.spec['original']} and ends with it; approve the original"
        )
    if not hook.spec["expires"]["is_by_approval"]:
        raise TerminalError(
            "NoApproval", f"{hook.address} does not end by approval; to end it, remove it from the plan"
        )
    if hook.state == OVER or hook.status.get("approved_by"):
        raise TerminalError("Answered", f"{hook.address} has already ended")
    changes = (SetStatus(hook.address, hook.uid, {"approved_by": str(by)}),)
    return RecordDraft("plan.approved", str(by), hook.address, changes, {"hook": hook.address, "reason": reason})


def is_for_patch(approval: Resource) -> bool:
    """Whether the approval is for a patch, not for a call or a request."""
    return approval.spec.get("kind") == "patch"


def is_for_request(approval: Resource) -> bool:
    """Whether the approval is a request of an agent for more rights or budget."""
    return approval.spec.get("kind") == "request"


def rebase_held_patch(approval: Resource, now: CurrentPlan) -> Patch:
    """Return the held patch as approved, based on the current revision."""
    held = patch_from_json(approval.spec["what"])
    return replace(held, base_rev=now.rev, is_approved=True)


def held_patch_faults(approval: Resource, now: CurrentPlan) -> Iterator[PatchProblem]:
    """Yield changes by others, since the patch was held, of paths that it changes."""
    held = patch_from_json(approval.spec["what"])
    for op in held.ops:
        later = field_ownership.changes_since(now.stamps, op.path, held.base_rev)
        if later:
            yield PatchProblem(
                "stale",
                f"`{json_pointer.render_pointer(op.path)}` was changed by {later[0].author} "
                f"in revision {later[0].rev}, after the "
                f"patch was held in revision {approval.created_rev}",
                op.path,
                "submit the change again for the current plan",
            )


def answer_changes(approval: Resource, answer: ApprovalAnswer) -> tuple[Change, ...]:
    """Return the changes of an answer: written if an agent waits for it, else the approval is dropped."""
    if (approval.owner or "").startswith("plan/"):
        return (Drop(approval.address, approval.uid),)
    told: JsonObject = {"state": answer.state, "by": str(answer.by), "reason": answer.reason}
    if answer.content is not None:
        told["content"] = answer.content
    return (SetStatus(approval.address, approval.uid, told),)


def answer_draft(approval: Resource, answer: ApprovalAnswer, plan: str) -> RecordDraft:
    """Return the record of an answer that does not change the document."""
    data: JsonObject = {"approval": approval.address, "reason": answer.reason, "why": approval.spec.get("why", "")}
    if is_for_request(approval):
        data["asked"] = describe_request(approval.spec)
    if answer.content is not None:
        data["content"] = answer.content
    changes = answer_changes(approval, answer)
    return RecordDraft(f"plan.{answer.state}", str(answer.by), plan, changes, data, cause=approval.created_rev)


# A request for more (budget, a tool, a model), converted to the patch that grants it.
#
# Pure. The author of the patch is the granter, and the gate checks it, so agents can grant only what they may grant. A
# message or an approval alone grants nothing. Requests of other kinds do not change the plan: the approval is the
# answer.

_SAID: Final = re.compile(
    r"(?<![\d.,])(\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)\s*(tokens?|usd|dollars?|seconds?|calls?|turns?|retr(?:ies|y))\b"
)
_UNITS: Final = {"dollar": "usd", "second": "time", "retry": "retries", "usd": "usd"}


def grant_patch(approval: Resource, by: Author, now: CurrentPlan, view: View) -> Patch | None:
    """Return the patch by `by` that grants a request; None if the request does not change the plan.

    Raises TerminalError if the request is invalid or its task no longer exists.
    """
    what = approval.spec["what"]
    if what.get("kind") == "budget" and not (more := _amounts(what.get("what"))):
        return None  # A request as free text: the granter patches the budget directly.
    path = addresses.parse_address(str(approval.owner)).path
    task, agent = view.get(str(addresses.task_address(*path))), view.get(str(addresses.agent_address(*path)))
    if task is None or agent is None:
        raise TerminalError("NotFound", f"{approval.owner} no longer exists")
    tokens = json_pointer.task_pointer(path)
    node = json_pointer.value_at(now.document, tokens) if tokens else now.document
    match str(what.get("kind")):
        case "budget":
            ops = _more_budget(path, now.document, view, more)
        case "tool" | "tools":
            known = agent.spec["tools"]
            added = [name for name in _names(what.get("what")) if name not in known]
            ops = _granting(tokens, node, {"tools": [*_granted(node).get("tools", ()), *added]})
        case "model":
            ops = _granting(tokens, node, {"model": str(what.get("what"))})
        case _:
            return None
    reason = f"requested by {approval.spec['by']}: {approval.spec['why']}"
    return Patch(by, tuple(ops), now.rev, reason, is_approved=by.is_human)


def useless_grant_faults(approval: Resource, answer: Admission) -> Iterator[PatchProblem]:
    """Yield problems if the grant would have no effect, because of a denial, the rights of an ancestor or a limit."""
    what = approval.spec["what"]
    graph = answer.graph
    agent = graph.objects.get(str(approval.owner)) if graph is not None else None
    if agent is None or graph is None:
        return
    match str(what.get("kind")):
        case "tool" | "tools":
            named = [name for name in _names(what.get("what")) if ":" not in name or name.startswith("agent:")]
            missing = [name for name in named if not patterns.name_matches(agent.spec["tools"], name)]
        case "model":
            given = (agent.spec.get("granted") or {}).get("stated")
            missing = [name for name in (str(what.get("what")),) if given != name]
        case "budget":
            yield from _capped(agent.spec, graph.objects[agent.spec["task"]].spec, _amounts(what.get("what")))
            return
        case _:
            return
    denied = agent.spec["rights"].get("deny") or ()
    for name in missing:
        denial = next((one for one in denied if patterns.name_matches((str(one),), name)), "")
        why = (
            f"`deny: [{denial}]` of an ancestor forbids it, and a grant does not override a denial"
            if denial
            else "the rights of an ancestor do not allow it"
        )
        yield PatchProblem("rights", f"{approval.owner} could still not use `{name}`: {why}")


def _capped(agent: JsonObject, task: JsonObject, more: JsonObject) -> Iterator[PatchProblem]:
    """Yield a problem for each unit in which the new budget exceeds the limit of the agent's tier."""
    cap = agent.get("cap") or {"budget": {}, "at": ""}
    for word in more:
        unit = unit_from_name(str(word))
        most, bound = cap["budget"].get(unit), task["budget"].get(unit)
        if most is not None and bound is not None and exact_amount(unit, bound) > exact_amount(unit, most):
            enough, line = round_up(unit, exact_amount(unit, bound)), f"{cap['at']}.{unit_to_name(unit)}"
            cap = format_amount(unit, exact_amount(unit, most))
            words = f"the new budget would be over the limit of its tier, {cap} ({line})"
            yield PatchProblem("budget", words, (), f"raise the limit first: plan patch . {line}={enough}")


def _more_budget(path: tuple[str, ...], document: JsonObject, view: View, more: JsonObject) -> list[PatchOp]:
    """Return operations that raise by `more` each limit of the task, or of its nearest ancestor with a limit."""
    ops: list[PatchOp] = []
    for word, amount in more.items():
        unit = unit_from_name(str(word))
        at = path
        while (
            (task := view.get(str(addresses.task_address(*at)))) is not None and unit not in task.spec["budget"] and at
        ):
            at = at[:-1]
        now = None if task is None else task.spec["budget"].get(unit)
        if task is None or now is None:
            raise TerminalError("BadRequest", f"the plan sets no limit for {word} here, so there is nothing to raise")
        raised = _sum(now, amount)
        tokens = json_pointer.task_pointer(at)
        node = json_pointer.value_at(document, tokens) if tokens else document
        said: JsonObject = (task.spec.get("agent_bounds") or {}).get(unit, {})
        own = said.get("task") if said else now
        if own is not None and exact_amount(unit, own) < exact_amount(unit, raised):
            ops.append(_setting(ops, (*tokens, "budget"), node.get("budget"), {str(word): raised}))
        if said:
            budget = {**_granted(node).get("budget", {}), str(word): raised}
            ops.append(_setting(ops, (*tokens, "granted"), node.get("granted"), {"budget": budget}))
    return ops


def _setting(before: list[PatchOp], at: tuple[str, ...], old: Json, new: JsonObject) -> PatchOp:
    """Return an operation that sets the members `new` of the map at `at`, after the operations `before`."""
    put = next((op for op in reversed(before) if op.path == at), None)
    known = put.value if put is not None else old
    if isinstance(known, dict) and isinstance(known.get("budget"), dict) and "budget" in new:
        new = {"budget": {**known["budget"], **new["budget"]}}
    return PatchOp("add" if known is None else "replace", at, {**known, **new} if isinstance(known, dict) else new)


def _amounts(what: Json) -> JsonObject:
    """Parse the requested amounts by unit from a map, its text, or text such as `5 turns`. May be empty."""
    if isinstance(what, str):
        try:
            what = decode_foreign(what)
        except ValueError:
            found = _SAID.findall(str(what))
            what = {_unit(unit): amount.replace(",", "") for amount, unit in found}
    return {unit: amount for unit, amount in what.items() if amount} if isinstance(what, dict) else {}


def _unit(word: str) -> str:
    """The unit as in a plan file, from its singular or plural in a request."""
    one = word.removesuffix("s")
    return _UNITS.get(one) or (word if word == "retries" else f"{one}s")


def _sum(now: Json, more: Json) -> Json:
    said = parse_duration(more) if isinstance(more, str) else None
    try:
        amount = Decimal(str(more if said is None else said))
    except ArithmeticError:
        amount = Decimal("NaN")
    if not (amount.is_finite() and amount > 0):
        raise TerminalError("BadRequest", f"invalid amount {more!r}; use a positive number")
    total = Decimal(str(now)) + amount
    if isinstance(now, str):
        return str(total)
    return int(total) if total == total.to_integral_value() else float(total)


def _granted(node: Json) -> JsonObject:
    found = node.get("granted") if isinstance(node, dict) else None
    return found if isinstance(found, dict) else {}


def _granting(tokens: tuple[str, ...], node: Json, given: JsonObject) -> list[PatchOp]:
    """Return operations that add a grant to the agent of a task, without changing shared or written-out lines."""
    known = _granted(node)
    return [PatchOp("replace" if known else "add", (*tokens, "granted"), {**known, **given})]


def _names(what: Json) -> list[str]:
    names = [str(each) for each in what] if isinstance(what, list) else [str(what)]
    if not all(names):
        raise TerminalError("BadRequest", "the request names no tools; list them")
    return names
