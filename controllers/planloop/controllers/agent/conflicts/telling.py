"""What a conflict says to whom, as the changes that deliver it: before whom it is, the parties, and at its end all.

Pure. Ids come from the conflict's number, so that nothing that is done twice arrives twice. Whoever is gone or has no
room hears nothing: a party's word is also the result of its call, and a conflict that cannot be told goes on upward.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from planloop.controllers.agent.conflicts.opening import paths_of
from planloop.controllers.agent.mail import inbox
from planloop.reconciler.storing.store import View
from planloop.schemas.conflict import PERSON, ConflictSpec, ConflictStatus, name
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.message import Delivery, Message
from planloop.schemas.record import Change

SENDER = "controller:conflict"

READERS = ("model", "outside")
"""The minds that a message may take out of what they wait for."""

HEADS: Mapping[str, str] = {
    "wait": "{wants} has waited for {paths} for a while, and {holds} has it.",
    "deadlock": "{wants} and {holds} waited for each other in a ring over {paths}.",
    "contest": "{wants} wants {paths}, which {holds} holds.",
}


@frozen
class Case:
    """A conflict as it is told: `changes` are what each party has changed since it took or asked for the files."""

    address: str
    spec: ConflictSpec
    status: ConflictStatus
    changes: Mapping[str, str]
    why: str = ""


@frozen
class Said:
    """A ruling of the conflict at `address`, the `count`-th."""

    address: str
    count: int


def text_of(case: Case) -> str:
    """The conflict with both sides in words, for whoever is to rule."""
    spec = case.spec
    parts = [f"{case.address}: {head_of(case)}", *((f"It comes to you because {case.why}.",) if case.why else ())]
    for agent, does in ((spec.wants, "wants"), (spec.holds, "holds")):
        parts.append(_side(case, agent, does))
    return "\n".join(parts)


def head_of(case: Case) -> str:
    """What it is about, in one sentence."""
    wants, holds = name(case.spec.wants), name(case.spec.holds)
    return HEADS[case.spec.because].format(wants=wants, holds=holds, paths=paths_of(case.status))


def _side(case: Case, agent: str, does: str) -> str:
    party = case.status.parties[agent]
    lines = [f"- {name(agent)} ({does}): {party.intent or 'says nothing about why'}"]
    if party.proposal:
        lines.append(f"  proposes: {party.proposal}")
    changed = case.changes.get(agent, "")
    lines.append("  changed so far:" if changed else "  has changed nothing so far")
    return "\n".join((*lines, *(f"  {line}" for line in changed.splitlines())))


def instruction(address: str, spec: ConflictSpec) -> str:
    """What whoever rules may do."""
    ways = ((how, spec.usual(how).partition("/")[2], words) for how, words in spec.ways().items())
    said = "\n".join(f"- {how} (for_agent='{who}'): {words}" for how, who, words in ways)
    return (
        f"You are above both: say how it goes on with `resolve(conflict='{address}', how=…, for_agent=…, plan=…)`.\n"
        f"{said}\nThe other one as `for_agent` has each the other way round. `plan` is what they are told of it. "
        "If you do not answer soon it goes to the one above you."
    )


def brought(view: View, case: Case, to: str, what: str, now: float) -> tuple[Change, ...] | None:
    """The changes that bring the conflict before the agent `to`; None when it cannot be told.

    It steers those who read: whoever waits for its children has to hear why they do not get on.
    """
    text = f"{text_of(case)}\n{instruction(case.address, case.spec)}"
    body: JsonObject = {"conflict": case.address, "text": text, "paths": list(case.status.paths)}
    body |= {"wants": case.spec.wants, "holds": case.spec.holds}
    message = _message(case.address, to, f"before.{what}", body, now)
    delivered = inbox.delivery(view, replace(message, delivery=_mode(view, to)))
    return None if isinstance(delivered, inbox.Refusal) else delivered


def opened(view: View, case: Case, to: str, now: float) -> tuple[Change, ...]:
    """The changes that tell both parties that it stands, before whom, and that they may write to each other."""
    where = "a person" if to == PERSON else to
    changes: tuple[Change, ...] = ()
    for agent in case.spec.parties:
        other = next(each for each in case.spec.parties if each != agent)
        party = case.status.parties[other]
        says = "; ".join(part for part in (party.intent, party.proposal and f"it proposes: {party.proposal}") if part)
        text = (
            f"{case.address} stands between you and {name(other)} over {paths_of(case.status)}; it is before {where}."
        )
        text += f" {name(other)}: {says}." if says else ""
        if other.startswith("agent/"):
            text += f" You may write to each other with `send(to='{other.partition('/')[2]}')` until it is over."
        message = _message(case.address, agent, "open", {"conflict": case.address, "text": text}, now)
        wakes = agent == case.spec.holds and case.spec.because == "contest"
        changes += _delivered(view, replace(message, wakes=wakes))
    return changes


def ruled(view: View, ruling: Said, agent: str, text: str, now: float) -> tuple[Change, ...]:
    """The changes that tell a party what was ruled and what it is to do; it is woken for it, in whatever it waits."""
    body: JsonObject = {"conflict": ruling.address, "text": f"{ruling.address}: {text}"}
    message = _message(ruling.address, agent, f"ruled.{ruling.count}", body, now)
    return _delivered(view, replace(message, delivery=_mode(view, agent)))


def closed(view: View, case: Case, why: str, now: float) -> tuple[Change, ...]:
    """The changes that leave one state record of a conflict that is over with everybody who was in it."""
    ruling = case.status.ruling
    facts: JsonObject = {"key": case.address, "conflict": "over", "why": why, "paths": list(case.status.paths)}
    if ruling is not None:
        facts |= {"how": ruling.how, "for": ruling.for_agent, "by": ruling.by, "plan": ruling.plan}
    changes: tuple[Change, ...] = ()
    for agent in dict.fromkeys((*case.spec.parties, case.status.before)):
        message = _message(case.address, agent, "over", facts, now)
        changes += _delivered(view, replace(message, kind="state", wakes=False))
    return changes


def _mode(view: View, agent: str) -> Delivery:
    """How it is to hear what cannot wait. A script or program looks at messages itself: its calls are not given up."""
    found = view.get(agent)
    mind = {} if found is None else found.spec.get("mind") or {}
    return "steer" if mind.get("kind") in READERS else "queue"


def _delivered(view: View, message: Message) -> tuple[Change, ...]:
    if not message.receiver.startswith("agent/"):
        return ()  # A command that holds a declared lock, or a person: nobody who reads messages.
    delivered = inbox.delivery(view, message)
    return () if isinstance(delivered, inbox.Refusal) else delivered


def _message(address: str, agent: str, what: str, body: JsonObject, now: float) -> Message:
    return Message(f"{address}.{what}.{agent.partition('/')[2]}", "conflict", SENDER, agent, body, now, address)
