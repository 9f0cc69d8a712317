"""Answers to what waits: an approved patch is put on the present plan and admitted again; one that is stale is not.

Pure parts; `Gate.approve` and `Gate.reject` write them. Requests and calls that wait only get their answer written: the
controller that asked reads it there and drops the object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planloop.reconciler.admitting import ownership
from planloop.reconciler.admitting.present import Present
from planloop.reconciler.errors import Terminal
from planloop.reconciler.storing.store import View
from planloop.schemas import pointer
from planloop.schemas.approval import WAITING, patch_from_json, wish
from planloop.schemas.condition import of_status
from planloop.schemas.conflict import WAYS
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.hook import OVER
from planloop.schemas.patch import Author, Fault, Patch
from planloop.schemas.record import Change, Draft, Drop, SetStatus
from planloop.schemas.resource import Resource


@frozen
class Answer:
    """Somebody's answer: `state` is approved or rejected, `content` what was asked for where something was."""

    state: str
    by: Author
    reason: str = ""
    content: JsonObject | None = None


def waiting(view: View, address: str) -> Resource:
    """The approval at `address` (the bare id will do). Raises Terminal when there is none or it was answered."""
    other = view.get(address)
    if other is not None and other.kind == "task":
        raise Terminal("NoApproval", f"{address} is a task and cannot be approved{_ways_on(other)}")
    found = view.get(address if address.startswith("approval/") else f"approval/{address}")
    if found is None:
        raise Terminal("NotFound", f"there is no {address}; `plan get approvals` lists what waits")
    if found.state != WAITING:
        raise Terminal("Answered", f"{found.address} was {found.state} already")
    if found.spec.get("kind") == "conflict":
        name = found.spec["what"]["conflict"]
        others = ", ".join(f"--{how}" for how in WAYS[1:])
        ways = f"plan approve {name} --{WAYS[0]}; or {others}"
        raise Terminal("NeedsRuling", f"{found.address} asks how {name} goes on: {ways}")
    return found


def _ways_on(task: Resource) -> str:
    """The commands that unblock the task, as the end of a sentence; empty if it is not blocked."""
    ready = of_status(task.status).get("Ready")
    ways = ready.unblocks if ready is not None and ready.status != "True" else ()
    return f"; to unblock it: {' · or: '.join(ways)}" if ways else ""


def ended(hook: Resource, by: Author, reason: str) -> Draft:
    """The record of a person's yes to the end of a hook. Raises Terminal when it does not end so, or has ended."""
    if hook.spec["is_read_only"]:
        raise Terminal("NoApproval", f"{hook.address} ends with {hook.spec['original']}, which it is a copy of")
    if not hook.spec["expires"]["is_by_approval"]:
        raise Terminal("NoApproval", f"{hook.address} does not end by approval; its lines in the plan can be taken out")
    if hook.state == OVER or hook.status.get("approved_by"):
        raise Terminal("Answered", f"{hook.address} is over already")
    changes = (SetStatus(hook.address, hook.uid, {"approved_by": str(by)}),)
    return Draft("plan.approved", str(by), hook.address, changes, {"hook": hook.address, "reason": reason})


def is_of_patch(approval: Resource) -> bool:
    """Whether a patch waits there, rather than a call or a request."""
    return approval.spec.get("kind") == "patch"


def is_of_request(approval: Resource) -> bool:
    """Whether an agent asks there for something it may not have."""
    return approval.spec.get("kind") == "request"


def rebased(approval: Resource, now: Present) -> Patch:
    """The patch that was held, as approved, on the present revision."""
    held = patch_from_json(approval.spec["what"])
    return replace(held, base_rev=now.rev, is_approved=True)


def stale_faults(approval: Resource, now: Present) -> Iterator[Fault]:
    """What somebody changed, at the places the patch is about, since it was held."""
    held = patch_from_json(approval.spec["what"])
    for op in held.ops:
        later = ownership.changes_since(now.stamps, op.path, held.base_rev)
        if later:
            yield Fault(
                "stale",
                f"`{pointer.render(op.path)}` was changed by {later[0].author} in revision {later[0].rev}, after this "
                f"patch was held in revision {approval.created_rev}",
                op.path,
                "make the change again on the present plan",
            )


def settling(approval: Resource, answer: Answer) -> tuple[Change, ...]:
    """Writes the answer where an agent waits to read it; what only people asked for just goes."""
    if (approval.owner or "").startswith("plan/"):
        return (Drop(approval.address, approval.uid),)
    told: JsonObject = {"state": answer.state, "by": str(answer.by), "reason": answer.reason}
    if answer.content is not None:
        told["content"] = answer.content
    return (SetStatus(approval.address, approval.uid, told),)


def answered(approval: Resource, answer: Answer, plan: str) -> Draft:
    """The record of an answer that changes no document."""
    data: JsonObject = {"approval": approval.address, "reason": answer.reason, "why": approval.spec.get("why", "")}
    if is_of_request(approval):
        data["asked"] = wish(approval.spec)
    if answer.content is not None:
        data["content"] = answer.content
    changes = settling(approval, answer)
    return Draft(f"plan.{answer.state}", str(answer.by), plan, changes, data, cause=approval.created_rev)
