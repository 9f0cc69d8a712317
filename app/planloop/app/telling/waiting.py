"""What waits for a person, as JSON: approvals, conflicts that somebody rules on, calls in doubt, and hooks to let go.

Each says what it is, why, what it would change, and how it may be answered. Pure: a function of objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from planloop.app.telling import revisions
from planloop.cli.rendering import hooks, questions
from planloop.cli.rendering.objects import call_words
from planloop.schemas.approval import WAITING, is_for_person, patch_from_json
from planloop.schemas.call import CallState
from planloop.schemas.conflict import PERSON, conflict_from_json, status_from_json
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.hook import OVER
from planloop.schemas.patch import author_in_words
from planloop.schemas.patching import PatchFailed
from planloop.schemas.resource import Resource

SHOWN_MAX: Final = 500  # Of each sort: the oldest wait longest.


class Objects(Protocol):
    """The plan's objects, by kind or by address."""

    @property
    def rev(self) -> int: ...

    def get(self, address: str) -> Resource | None: ...

    def list(self, kind: str) -> Sequence[Resource]: ...


def answer(plan: Objects, name: str, now: float) -> JsonObject:
    """Everything in the plan of that name that waits, the oldest first."""
    live = plan.get(f"plan/{name}")
    document: Json = {} if live is None else live.spec
    waiting = sorted((one for one in plan.list("approval") if one.state == WAITING), key=lambda one: one.created_rev)
    asked = [one for one in waiting if one.spec["kind"] != "conflict"][:SHOWN_MAX]
    open_conflicts = [one for one in plan.list("conflict") if status_from_json(one.status).is_open][:SHOWN_MAX]
    doubts = [one for one in plan.list("call") if one.state == CallState.UNKNOWN][:SHOWN_MAX]
    watching = [one for one in plan.list("hook") if _ends_by_yes(one)][:SHOWN_MAX]
    return {
        "rev": plan.rev,
        "approvals": [_approval(one, document, now) for one in asked],
        "conflicts": [conflict(one) for one in open_conflicts],
        "doubts": [_doubt(one) for one in doubts],
        "hooks": [_hook(one, now) for one in watching],
    }


def _approval(item: Resource, document: Json, now: float) -> JsonObject:
    spec = item.spec
    out: JsonObject = {
        "address": item.address,
        "rev": item.created_rev,
        "form": spec["kind"],
        "by": author_in_words(str(spec["by"])),
        "what": questions.asked(spec),
        "why": str(spec["why"]),
        "is_for_person": is_for_person(spec),
        "facts": [[label, said] for label, said in questions.facts(item) if label not in ("asked by", "why", "answer")],
        **revisions.recorded(spec, now),
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
    return {"reason": patch.reason, **revisions.fields_told(document, patch.ops)}


def conflict(item: Resource) -> JsonObject:
    """A conflict thread with both sides, and what each ruling would mean for either of them."""
    spec, status = conflict_from_json(item.spec), status_from_json(item.status)
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
        out["ruling"] = {"how": ruled.how, "by": author_in_words(ruled.by), "means": means, "plan": ruled.plan}
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
        "facts": [[label, said] for label, said in hooks.facts(item, now)],
    }
