"""What waits for a person, as JSON: approvals, conflicts, unknown outcomes, failed hooks.

Each has its subject, reason, changes and possible answers. Pure: a function of objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from planloop.client.presenters import revisions
from planloop.client.render import approval_requests, hooks
from planloop.client.render.tables import call_words
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.json_patch import PatchFailed
from planloop.schemas.log.patch import describe_author
from planloop.schemas.objects.approval import WAITING, needs_person, patch_from_json
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.conflict import PERSON, conflict_from_json, conflict_status_from_json
from planloop.schemas.objects.hook import OVER
from planloop.schemas.resource import Resource

SHOWN_MAX: Final = 500  # Of each sort: the oldest wait longest.


class ObjectsView(Protocol):
    """The plan's objects, by kind or by address."""

    @property
    def rev(self) -> int: ...

    def get(self, address: str) -> Resource | None: ...

    def list(self, kind: str) -> Sequence[Resource]: ...


def waiting_answer(plan: ObjectsView, name: str, now: float) -> JsonObject:
    """Everything in the plan of that name that waits, the oldest first."""
    live = plan.get(f"plan/{name}")
    document: Json = {} if live is None else live.spec
    waiting = sorted((one for one in plan.list("approval") if one.state == WAITING), key=lambda one: one.created_rev)
    asked = [one for one in waiting if one.spec["kind"] != "conflict"][:SHOWN_MAX]
    open_conflicts = [one for one in plan.list("conflict") if conflict_status_from_json(one.status).is_open][:SHOWN_MAX]
    doubts = [one for one in plan.list("call") if one.state == CallState.UNKNOWN][:SHOWN_MAX]
    watching = [one for one in plan.list("hook") if _ends_by_yes(one)][:SHOWN_MAX]
    return {
        "rev": plan.rev,
        "approvals": [_approval(one, document, now) for one in asked],
        "conflicts": [conflict_json(one) for one in open_conflicts],
        "doubts": [_doubt(one) for one in doubts],
        "hooks": [_hook(one, now) for one in watching],
    }


def _approval(item: Resource, document: Json, now: float) -> JsonObject:
    spec = item.spec
    out: JsonObject = {
        "address": item.address,
        "rev": item.created_rev,
        "form": spec["kind"],
        "by": describe_author(str(spec["by"])),
        "what": approval_requests.approval_subject(spec),
        "why": str(spec["why"]),
        "is_for_person": needs_person(spec),
        "facts": [
            [label, said]
            for label, said in approval_requests.approval_facts(item)
            if label not in ("asked by", "why", "answer")
        ],
        **revisions.recorded_differences(spec, now),
    }
    match spec["kind"]:
        case "patch":
            out |= _edit(spec["what"], document)
        case "call":
            out |= {"tool": spec["what"]["tool"], "arguments": spec["what"]["arguments"]}
        case "input":
            out["questions"] = [{"id": name, **asked} for name, asked in spec["what"]["requests"].items()]
    return out


def _edit(what: JsonObject, document: Json) -> JsonObject:
    try:
        patch = patch_from_json(what)
    except PatchFailed:
        return {"fields": []}
    return {"reason": patch.reason, **revisions.fields_json(document, patch.ops)}


def conflict_json(item: Resource) -> JsonObject:
    """A conflict thread with both sides, and what each ruling would mean for either of them."""
    spec, status = conflict_from_json(item.spec), conflict_status_from_json(item.status)
    out: JsonObject = {
        "address": item.address,
        "state": status.state,
        "because": spec.because,
        "wants": spec.wants,
        "holds": spec.holds,
        "paths": list(status.paths),
        "since": status.since,
        "raised": status.raised,
        "before": "a person" if status.before == PERSON else status.before,
        "text": str(item.status.get("text") or ""),
        "why": status.why,
        "parties": [
            {"agent": one.agent, "intent": one.intent, "proposal": one.proposal} for one in status.parties.values()
        ],
        "ways": [
            {"how": how, "for": who, "usual": who == spec.usual(how), "means": spec.means(how, who)}
            for how in spec.ways()
            for who in spec.parties
        ],
    }
    if status.ruling is not None:
        ruled = status.ruling
        means = spec.means(ruled.how, ruled.for_agent)
        out["ruling"] = {"how": ruled.how, "by": describe_author(ruled.by), "means": means, "plan": ruled.plan}
    return out


def _doubt(item: Resource) -> JsonObject:
    spec, status = item.spec, item.status
    return {
        "address": item.address,
        "rev": item.rev,
        "what": call_words(spec),
        "tool": spec["tool"],
        "arguments": spec["arguments"],
        "owner": spec["owner"],
        "effect": spec["effect"],
        "started_at": status.get("started_at"),
        "why": str(status.get("why") or status.get("message") or ""),
    }


def _ends_by_yes(item: Resource) -> bool:
    spec = item.spec
    is_asked = bool(spec["expires"]["is_by_approval"]) and not spec["is_read_only"]
    return is_asked and item.state != OVER and not item.status.get("approved_by") and not item.deleting


def _hook(item: Resource, now: float) -> JsonObject:
    return {
        "address": item.address,
        "rev": item.rev,
        "facts": [[label, said] for label, said in hooks.hook_facts(item, now)],
    }
