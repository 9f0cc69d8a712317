"""What several verdicts come to: deny before defer before ask before allow, whatever order the hooks answered in. Pure.

A fault becomes what its hook's policy says of faults before it is written down.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from typing import Final

from planloop.controllers.agent.status import Fired
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.hook import (
    DECIDING,
    STRICTNESS,
    Decision,
    HookProgram,
    HookSpec,
    Point,
    Verdict,
    default_on_fault,
)


@frozen
class Said:
    """The verdict of one hook, as it counts (`effective`)."""

    hook: str
    verdict: Verdict


@frozen
class Merged:
    """`reasons` are those of the hooks that were as strict as `decision`; of an `allow` there are none."""

    decision: Decision = "allow"
    reasons: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Why, for whoever asked for it."""
        return "; ".join(self.reasons)


def effective(verdict: Verdict, spec: HookSpec, point: Point) -> Verdict:
    """The verdict that counts: a fault has become a denial, or an allow that says nothing, by the hook's policy."""
    if not verdict.fault:
        return verdict
    # Scripts written for that contract count on it that what breaks blocks nothing.
    is_foreign = isinstance(spec.mind, HookProgram) and spec.mind.contract == "claude-code"
    policy = spec.on_fault or ("note" if is_foreign else default_on_fault(point))
    if policy == "note":
        return Verdict(fault=verdict.fault)
    return Verdict("deny", f"it broke: {verdict.fault}", fault=verdict.fault)


def counted(fired: Iterable[Fired], order: Sequence[str]) -> list[Said]:
    """The verdicts in the order in which `order` has their hooks; those of hooks that have ended since come last."""
    found = {one.hook: one.verdict for one in fired}
    names = (*(name for name in order if name in found), *sorted(found.keys() - set(order)))
    return [Said(name, found[name]) for name in names]


def merged(said: Iterable[Said]) -> Merged:
    """The strictest of the verdicts; its reasons in the order of the hooks' names."""
    strictest: Decision = "allow"
    found: list[Said] = []
    for one in said:
        rank = STRICTNESS.index(one.verdict.decision) - STRICTNESS.index(strictest)
        if rank > 0:
            strictest, found = one.verdict.decision, []
        if rank >= 0 and strictest != "allow":
            found.append(one)
    reasons = (f"hook {one.hook}: {one.verdict.reason or 'no reason given'}" for one in sorted(found, key=_name))
    return Merged(strictest, tuple(reasons))


def _name(said: Said) -> str:
    return said.hook


def rewritten(said: Sequence[Said], arguments: JsonObject) -> tuple[str, JsonObject] | None:
    """The first hook that wants other arguments, with them; None when all take them as they are."""
    for one in said:
        wanted = one.verdict.arguments
        if wanted is not None and wanted != arguments:
            return one.hook, wanted
    return None


def words_of(verdict: Verdict, point: Point) -> str:
    """What the agent is told of a verdict beside the decision itself; empty for nothing.

    Where a hook can only comment, its reason against something is a comment too.
    """
    parts = [verdict.comment]
    if verdict.decision != "allow" and point not in DECIDING:
        parts.insert(0, verdict.reason)
    return "\n".join(part for part in parts if part)


def strictness(decision: Json) -> int:
    """How strict a decision is that somebody stated; what is none is as one that says nothing."""
    return STRICTNESS.index(decision) if decision in STRICTNESS else 0


def broken(why: str) -> Verdict:
    """The verdict of a hook that gave none."""
    return Verdict(fault=why)


def died(code: int, words: str) -> Verdict:
    """The same of a program that ended with this exit code, below 0 by a signal, and these last words."""
    how = f"exit {code}" if code >= 0 else f"killed by {_NAMES.get(-code, f'signal {-code}')}"
    return broken(f"{how}: {words}" if words else how)


_NAMES: Final = {int(one): one.name for one in signal.Signals}
