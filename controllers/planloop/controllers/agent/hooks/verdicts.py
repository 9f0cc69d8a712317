"""Verdicts of hooks: parsed from an agent's text, and merged by strictness: deny, defer, ask, allow. Pure.

The merge does not depend on the order in which hooks answered. The policy of a hook (`on-fault`) decides what a failed
verdict means: one with an error in `fault`, because the hook gave no valid verdict.
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
    """The verdict of one hook, after `effective_verdict`."""

    hook: str
    verdict: HookVerdict


@frozen
class MergedVerdict:
    """`reasons` are those of the hooks with the strictest verdict, `decision`; an `allow` has none."""

    decision: Decision = "allow"
    reasons: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The reasons as one text, for the agent."""
        return "; ".join(self.reasons)


def effective_verdict(verdict: HookVerdict, spec: HookSpec, point: HookPoint) -> HookVerdict:
    """The verdict that counts: the policy of the hook turns an error into a denial or an empty allow."""
    if not verdict.fault:
        return verdict
    # In the contract of Claude Code, a script that fails blocks nothing.
    is_foreign = isinstance(spec.mind, HookProgram) and spec.mind.contract == "claude-code"
    policy = spec.on_fault or ("note" if is_foreign else default_on_error(point))
    if policy == "note":
        return HookVerdict(fault=verdict.fault)
    return HookVerdict("deny", f"the hook failed: {verdict.fault}", fault=verdict.fault)


def counted_verdicts(fired: Iterable[TurnVerdict], order: Sequence[str]) -> list[CountedVerdict]:
    """The verdicts in the order of their hooks in `order`; those of hooks that have ended since come last."""
    found = {one.hook: one.verdict for one in fired}
    names = (*(name for name in order if name in found), *sorted(found.keys() - set(order)))
    return [CountedVerdict(name, found[name]) for name in names]


def merge_verdicts(counted: Iterable[CountedVerdict]) -> MergedVerdict:
    """The strictest of the verdicts, with its reasons in the order of the hooks' names."""
    strictest: Decision = "allow"
    found: list[CountedVerdict] = []
    for one in counted:
        rank = STRICTNESS.index(one.verdict.decision) - STRICTNESS.index(strictest)
        if rank > 0:
            strictest, found = one.verdict.decision, []
        if rank >= 0 and strictest != "allow":
            found.append(one)
    reasons = (f"hook {one.hook}: {one.verdict.reason or 'no reason given'}" for one in sorted(found, key=_name))
    return MergedVerdict(strictest, tuple(reasons))


def sent_back_text(verdict: MergedVerdict) -> str:
    """The text for an agent after hooks have rejected its answer."""
    return f"Your answer was sent back. Continue your work. {verdict.words}"


def _name(counted: CountedVerdict) -> str:
    return counted.hook


def first_rewrite(counted: Sequence[CountedVerdict], arguments: JsonObject) -> tuple[str, JsonObject] | None:
    """The first hook that wants other arguments, and these; None if no hook changes them."""
    for one in counted:
        wanted = one.verdict.arguments
        if wanted is not None and wanted != arguments:
            return one.hook, wanted
    return None


def describe_verdict(verdict: HookVerdict, point: HookPoint) -> str:
    """The comment of a verdict, for the agent; empty if it has none.

    At points where a hook can only comment, the reason of a denial counts as a comment.
    """
    parts = [verdict.comment]
    if verdict.decision != "allow" and point not in DECIDING:
        parts.insert(0, verdict.reason)
    return "\n".join(part for part in parts if part)


def strictness(decision: Json) -> int:
    """The rank of a stated decision; an invalid one has the lowest."""
    return STRICTNESS.index(decision) if decision in STRICTNESS else 0


def failed_verdict(why: str) -> HookVerdict:
    """The verdict for a hook that failed to give one."""
    return HookVerdict(fault=why)


def exit_verdict(code: int, words: str) -> HookVerdict:
    """The verdict for a program that ended with this exit code (negative: a signal) and this last line of output."""
    how = f"exit {code}" if code >= 0 else f"killed by {_NAMES.get(-code, f'signal {-code}')}"
    return failed_verdict(f"{how}: {words}" if words else how)


_NAMES: Final = {int(one): one.name for one in signal.Signals}


# A JSON object is a verdict. A text that begins with ALLOW, DENY, ASK or DEFER is that decision, and the rest is its
# reason; any other text is a comment. Before a call, a comment alone is an error, because the hook must decide. The
# parser never raises.

DECISION_WORDS: Final[dict[str, Decision]] = {
    **dict.fromkeys(("allow", "allowed", "approve", "approved", "ok", "okay"), "allow"),
    **dict.fromkeys(("deny", "denied", "block", "blocked", "reject", "rejected", "refuse"), "deny"),
    "ask": "ask",
    "defer": "defer",
}
"""Words for decisions, including those of other hook contracts."""

SILENT_ANSWERS: Final = frozenset({"", "none", "nothing", "no comment", "null"})
VERDICT_KEYS: Final = frozenset(
    "decision permissionDecision reason permissionDecisionReason comment additionalContext updated_input updatedInput "
    "quit".split()
)
_FIRST: Final = re.compile(r"[\s*_`\"'\[(]*([A-Za-z]+)[*_`\"')\]]*")
_MARKS: Final = ":.,;!\n—–-"


def parse_verdict(answer: ThreadAnswer, point: HookPoint) -> HookVerdict:
    """The verdict in `answer` at `point`. Without a decision, it is a failed verdict or, at some points, a comment."""
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
    """The decision at the beginning of a text; None if it begins with another word."""
    first = _FIRST.match(text)
    decision = None if first is None else DECISION_WORDS.get(first[1].lower())
    if first is None or decision is None or not _is_decision(first[1], text[first.end() :]):
        return None
    rest = _short(text[first.end() :].lstrip(f" \t{_MARKS}"))
    return HookVerdict(comment=rest) if decision == "allow" else HookVerdict(decision, reason=rest)


def _is_decision(word: str, after: str) -> bool:
    """Whether a first word is a decision: it is in capitals, the only word, or followed by punctuation.

    `Ask the user for more` and `Block quotes are fine` are comments.
    """
    return word.isupper() or not after.strip() or after.lstrip(" \t")[0] in _MARKS


def _of_object(said: JsonObject, point: HookPoint) -> HookVerdict:
    stated = _stated(said)
    decision = None if stated is None else DECISION_WORDS.get(str(stated).lower())
    if stated is not None and decision is None:
        return HookVerdict(fault=f"invalid decision `{_short(str(stated))}`: expected allow, ask, defer or deny")
    arguments = said.get("updated_input", said.get("updatedInput"))
    if arguments is not None and not isinstance(arguments, dict):
        return HookVerdict(fault="`updated_input` must be a map of arguments")
    comment = _text(said, "comment", "additionalContext")
    is_last = said.get("quit") is True
    if decision is None and arguments is None and point in STARTING and not is_last:
        return HookVerdict(fault="it gave no decision", comment=comment)
    reason = _text(said, "reason", "permissionDecisionReason")
    return HookVerdict(decision or "allow", reason, arguments, comment, is_last=is_last)


def _stated(said: JsonObject) -> Json:
    return said.get("decision", said.get("permissionDecision"))


def _objects_in(text: str) -> Iterator[JsonObject]:
    """The JSON object that `text` consists of, or the objects inside it that have fields of a verdict."""
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
