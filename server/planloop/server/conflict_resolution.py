"""A person resolves a conflict, or breaks a lock."""

from __future__ import annotations

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.controllers.agent.conflicts import resolution
from planloop.controllers.agent.conflicts.resolution import InvalidResolution, ResolutionRequest
from planloop.controllers.agent.mail import message_policy
from planloop.controllers.shared.leases.grants import break_lock
from planloop.reconciler.store.store import View
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.patch import Patch, PatchAccepted
from planloop.schemas.log.record import Change, RecordDraft
from planloop.schemas.objects.message import Message
from planloop.server.opened_plan import OpenedPlan
from planloop.server.payloads import author_of, verdict_to_json

# A person rules on a conflict: a patch in their name, with what takes effect with it. Loaded only for that.

CODES = {"NotFound": ExitCode.NOT_FOUND, "Resolved": ExitCode.CONFLICT, "BadArguments": ExitCode.USAGE}


async def resolve_conflict(core: OpenedPlan, body: JsonObject) -> JsonObject:
    """Makes the ruling that `body` asks for: `conflict`, `how`, and where given `for` and `plan`. Raises
    CommandError.
    """
    view, plan = core.store.view, core.plan
    wish = ResolutionRequest(
        str(body["conflict"]), str(body["how"]), str(body.get("for") or ""), str(body.get("plan") or "")
    )
    try:
        made = resolution.plan_resolution(
            view, {} if plan is None else plan.spec, wish, author_of(body), core.clock.now()
        )
    except InvalidResolution as fault:
        raise CommandError(
            CODES.get(fault.reason, ExitCode.REFUSED), str(fault), "plan get conflicts lists what there is"
        ) from None
    said = f"ruled `{made.ruling.how}` for {made.ruling.for_agent.partition('/')[2]}"
    if made.is_again:
        return verdict_to_json(PatchAccepted(view.rev, (f"{said} already",)), (), is_changed=False)
    patch = Patch(author_of(body), made.ops, view.rev, f"{wish.conflict}: {said}", is_approved=True)
    verdict = await core.gate.rule(patch, made.changes, made.also)
    return verdict_to_json(verdict, ()) | {"said": said}


# A person breaks a lock: recorded in their name, and told to who held it. Loaded only for that.


async def unlock_for_person(core: OpenedPlan, body: JsonObject) -> JsonObject:
    """Takes the lock at `lock` from all who hold it, for `reason`. Raises CommandError: NOT_FOUND when nobody does."""
    view, address, by = core.store.view, str(body["lock"]), str(author_of(body))
    reason, now = str(body.get("reason", "")), core.clock.now()
    made = break_lock(view, address.partition("/")[2], by, reason, now)
    if not made.owners:
        what = "nobody holds" if view.get(address) is not None else "there is no lock"
        raise CommandError(ExitCode.NOT_FOUND, f"{what} {address}", "plan get locks lists who holds what")
    told = [change for owner in made.owners for change in _lock_notices(core, owner, by, (address, reason, now))]
    data: JsonObject = {"owners": list(made.owners), "why": "broken", "reason": reason}
    rev = await core.store.append(RecordDraft("lock.fenced", by, address, (*made.changes, *told), data))
    return {
        "rev": rev,
        "owners": list(made.owners),
        "commands": [each for each in made.owners if _is_command(view, each)],
    }


def _is_command(view: View, owner: str) -> bool:
    """Whether a task holds it whose command writes what it likes: nothing of it passes a fence."""
    found = view.get(owner)
    return found is not None and found.kind == "task" and found.spec["work"]["kind"] == "run"


def _lock_notices(core: OpenedPlan, owner: str, by: str, broken_lock: tuple[str, str, float]) -> tuple[Change, ...]:
    """The message to the agent that held it, or works for the task that did. It wakes nobody: it matters at a write."""
    lock, reason, now = broken_lock
    agent = f"agent/{owner.partition('/')[2]}"
    why = f": {reason}" if reason else ""
    text = f"A person took {lock} from you{why}. What you write under it is refused until you have locked it again."
    message = Message(core.ids.mint(), "control", by, agent, text, now, delivery="steer", wakes=False)
    found = message_policy.delivery_changes(core.store.view, message)
    return () if isinstance(found, message_policy.DeliveryRefused) else found
