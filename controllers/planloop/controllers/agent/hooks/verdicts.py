"""Verdicts of hooks: parsed from an agent's text, and merged by strictness: deny, defer, ask, allow. Pure.

The merge does not depend on the order in which hooks answered. Before a fault is recorded, the policy of its hook for
faults is applied.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from planloop.controllers.agent.status import TurnVerdict
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.hook import (
    DECIDING,
    STARTING,
    STRICTNESS,
    Decision,
    HookPoint,
    HookProgram,
    HookSpec,
    HookVerdict,
    default_on_error,
)
from planloop.schemas.objects.message import ThreadAnswer


@frozen
class CountedVerdict:
    """The verdict of one hook, as it counts (`effective`)."""

    hook: str
    verdict: HookVerdict


@frozen
class MergedVerdict:
    """`reasons` are those of the hooks that were as strict as `decision`; of an `allow` there are none."""

    decision: Decision = "allow"
    reasons: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The reason, for the asking agent."""
        return "; ".join(self.reasons)


def effective_verdict(verdict: HookVerdict, spec: HookSpec, point: HookPoint) -> HookVerdict:
    """The effective verdict: by the hook's policy a fault becomes a denial or an empty allow."""
    if not verdict.fault:
        return verdict
    # Scripts written for that contract count on it that what breaks blocks nothing.
    is_foreign = isinstance(spec.mind, HookProgram) and spec.mind.contract == "claude-code"
    policy = spec.on_fault or ("note" if is_foreign else default_on_error(point))
    if policy == "note":
        return HookVerdict(fault=verdict.fault)
    return HookVerdict("deny", f"it broke: {verdict.fault}", fault=verdict.fault)


def counted_verdicts(fired: Iterable[TurnVerdict], order: Sequence[str]) -> list[CountedVerdict]:
    """The verdicts in the order in which `order` has their hooks; those of hooks that have ended since come last."""
    found = {one.hook: one.verdict for one in fired}
    names = (*(name for name in order if name in found), *sorted(found.keys() - set(order)))
    return [CountedVerdict(name, found[name]) for name in names]


def merge_verdicts(said: Iterable[CountedVerdict]) -> MergedVerdict:
    """The strictest of the verdicts; its reasons in the order of the hooks' names."""
    strictest: Decision = "allow"
    found: list[CountedVerdict] = []
    for one in said:
        rank = STRICTNESS.index(one.verdict.decision) - STRICTNESS.index(strictest)
        if rank > 0:
            strictest, found = one.verdict.decision, []
        if rank >= 0 and strictest != "allow":
            found.append(one)
    reasons = (f"hook {one.hook}: {one.verdict.reason or 'no reason given'}" for one in sorted(found, key=_name))
    return MergedVerdict(strictest, tuple(reasons))


def _name(said: CountedVerdict) -> str:
    return said.hook


def first_rewrite(said: Sequence[CountedVerdict], arguments: JsonObject) -> tuple[str, JsonObject] | None:
    """The first hook that wants other arguments, with them; None when all take them as they are."""
    for one in said:
        wanted = one.verdict.arguments
        if wanted is not None and wanted != arguments:
            return one.hook, wanted
    return None


def describe_verdict(verdict: HookVerdict, point: HookPoint) -> str:
    """What the agent is told of a verdict beside the decision itself; empty for nothing.

    Where a hook can only comment, its reason against something is a comment too.
    """
    parts = [verdict.comment]
    if verdict.decision != "allow" and point not in DECIDING:
        parts.insert(0, verdict.reason)
    return "\n".join(part for part in parts if part)


def strictness(decision: Json) -> int:
    """How strict a stated decision is; an invalid one counts as none."""
    return STRICTNESS.index(decision) if decision in STRICTNESS else 0


def failed_verdict(why: str) -> HookVerdict:
    """The verdict of a hook that gave none."""
    return HookVerdict(fault=why)


def exit_verdict(code: int, words: str) -> HookVerdict:
    """The same of a program that ended with this exit code, below 0 by a signal, and these last words."""
    how = f"exit {code}" if code >= 0 else f"killed by {_NAMES.get(-code, f'signal {-code}')}"
    return failed_verdict(f"{how}: {words}" if words else how)


_NAMES: Final = {int(one): one.name for one in signal.Signals}


# A JSON object is a verdict. A text that begins with ALLOW, DENY, ASK or DEFER is that decision, and the rest is its
# reason; any other text is a comment. Before a call a comment is not a permission: the hook has given no verdict. No
# text makes the parser fail.

SAID_NOTHING_ERROR: Final = "(it said nothing)"

DECISION_WORDS: Final[dict[str, Decision]] = {
    **dict.fromkeys(("allow", "allowed", "approve", "approved", "ok", "okay"), "allow"),
    **dict.fromkeys(("deny", "denied", "block", "blocked", "reject", "rejected", "refuse"), "deny"),
    "ask": "ask",
    "defer": "defer",
}
"""What a decision may be called. Names of other hook contracts are understood too."""

SILENT_ANSWERS: Final = frozenset({"", SAID_NOTHING_ERROR, "none", "nothing", "no comment", "null"})
VERDICT_KEYS: Final = frozenset(
    "decision permissionDecision reason permissionDecisionReason comment additionalContext updated_input updatedInput "
    "quit".split()
)
_FIRST: Final = re.compile(r"[\s*_`\"'\[(]*([A-Za-z]+)[*_`\"')\]]*")
_MARKS: Final = ":.,;!\n—–-"


def parse_verdict(answer: ThreadAnswer, point: HookPoint) -> HookVerdict:
    """The verdict in `answer` at `point`; if there is none, a fault with the text as comment."""
    if answer.error:
        return HookVerdict(fault=f"{answer.error}: {_short(answer.text)}")
    text = answer.text.strip()
    objects = [answer.value] if isinstance(answer.value, dict) else list(_objects_in(text))
    stated = [_of_object(one, point) for one in objects if _stated(one) is not None]
    begun = None if isinstance(answer.value, dict) else _of_first_word(text)
    # A denial may quote another verdict: the strictest counts.
    found: tuple[HookVerdict, ...] = (*stated, *(() if begun is None else (begun,)))
    if found:
        return max(found, key=lambda one: strictness(one.decision))
    return _of_object(objects[0], point) if objects else _of_text(text, point)


def _of_text(text: str, point: HookPoint) -> HookVerdict:
    is_guarded = point in STARTING
    if text.lower().rstrip(".") in SILENT_ANSWERS:
        return HookVerdict(fault="it gave no decision") if is_guarded else HookVerdict()
    return HookVerdict(fault="it gave no decision" if is_guarded else "", comment=_short(text))


def _of_first_word(text: str) -> HookVerdict | None:
    """The decision that a text begins with; None when it does not."""
    first = _FIRST.match(text)
    decision = None if first is None else DECISION_WORDS.get(first[1].lower())
    if first is None or decision is None or not _is_decision(first[1], text[first.end() :]):
        return None
    rest = _short(text[first.end() :].lstrip(f" \t{_MARKS}"))
    return HookVerdict(comment=rest) if decision == "allow" else HookVerdict(decision, reason=rest)


def _is_decision(word: str, after: str) -> bool:
    """Whether a first word is meant as a decision: it stands alone, is written large, or something sets it off.

    `Ask the user for more` and `Block quotes are fine` are comments.
    """
    return word.isupper() or not after.strip() or after.lstrip(" \t")[0] in _MARKS


def _of_object(said: JsonObject, point: HookPoint) -> HookVerdict:
    stated = _stated(said)
    decision = None if stated is None else DECISION_WORDS.get(str(stated).lower())
    if stated is not None and decision is None:
        return HookVerdict(fault=f"`{_short(str(stated))}` is no decision: allow, ask, defer or deny")
    arguments = said.get("updated_input", said.get("updatedInput"))
    if arguments is not None and not isinstance(arguments, dict):
        return HookVerdict(fault="`updated_input` is to be a map of arguments")
    comment = _text(said, "comment", "additionalContext")
    is_last = said.get("quit") is True
    if decision is None and arguments is None and point in STARTING and not is_last:
        return HookVerdict(fault="it gave no decision", comment=comment)
    reason = _text(said, "reason", "permissionDecisionReason")
    return HookVerdict(decision or "allow", reason, arguments, comment, is_last=is_last)


def _stated(said: JsonObject) -> Json:
    return said.get("decision", said.get("permissionDecision"))


def _objects_in(text: str) -> Iterator[JsonObject]:
    """The JSON object that `text` is, or those that stand in it and have something of a verdict."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    for _ in range(limits.HOOK_OBJECTS_MAX):
        if at < 0:
            return
        try:
            found: Json
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            found, end = None, at + 1
        if isinstance(found, dict) and (end - at == len(text) or not VERDICT_KEYS.isdisjoint(found)):
            yield found
        at = text.find("{", end)


def _text(said: JsonObject, *names: str) -> str:
    return _short(next((str(said[name]) for name in names if said.get(name)), ""))


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= limits.HOOK_WORDS_CHARS_MAX else text[: limits.HOOK_WORDS_CHARS_MAX - 1] + "…"
