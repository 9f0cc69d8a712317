"""What an agent says when it is asked as a hook, read as a verdict. Pure; nothing that it says can break the reading.

A JSON object is a verdict in so many words; a text that begins with ALLOW, DENY, ASK or DEFER has its decision there
and the rest as its reason; any other text is a comment. Before a call such a text is no permission: whoever guards has
to say so, and a guard that does not has given no verdict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from planloop.controllers.agent.hooking.lattice import strictness
from planloop.schemas import limits
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.hook import STARTING, Decision, Point, Verdict
from planloop.schemas.thread import Answer

SAID_NOTHING: Final = "(it said nothing)"

WORDS: Final[dict[str, Decision]] = {
    **dict.fromkeys(("allow", "allowed", "approve", "approved", "ok", "okay"), "allow"),
    **dict.fromkeys(("deny", "denied", "block", "blocked", "reject", "rejected", "refuse"), "deny"),
    "ask": "ask",
    "defer": "defer",
}
"""What a decision may be called. Names of other hook contracts are understood too."""

SILENT: Final = frozenset({"", SAID_NOTHING, "none", "nothing", "no comment", "null"})
KNOWN: Final = frozenset(
    "decision permissionDecision reason permissionDecisionReason comment additionalContext updated_input updatedInput "
    "quit".split()
)
_FIRST: Final = re.compile(r"[\s*_`\"'\[(]*([A-Za-z]+)[*_`\"')\]]*")
_MARKS: Final = ":.,;!\n—–-"


def verdict_of(answer: Answer, point: Point) -> Verdict:
    """The verdict that `answer` is at `point`; a fault when it is none, with what was said as its comment."""
    if answer.error:
        return Verdict(fault=f"{answer.error}: {_short(answer.text)}")
    text = answer.text.strip()
    objects = [answer.value] if isinstance(answer.value, dict) else list(_objects_in(text))
    stated = [_of_object(one, point) for one in objects if _stated(one) is not None]
    begun = None if isinstance(answer.value, dict) else _of_first_word(text)
    # Who denies something quotes it, a verdict that stands in it too: the strictest is meant.
    found: tuple[Verdict, ...] = (*stated, *(() if begun is None else (begun,)))
    if found:
        return max(found, key=lambda one: strictness(one.decision))
    return _of_object(objects[0], point) if objects else _of_text(text, point)


def _of_text(text: str, point: Point) -> Verdict:
    is_guarded = point in STARTING
    if text.lower().rstrip(".") in SILENT:
        return Verdict(fault="it gave no decision") if is_guarded else Verdict()
    return Verdict(fault="it gave no decision" if is_guarded else "", comment=_short(text))


def _of_first_word(text: str) -> Verdict | None:
    """The decision that a text begins with; None when it does not."""
    first = _FIRST.match(text)
    decision = None if first is None else WORDS.get(first[1].lower())
    if first is None or decision is None or not _is_decision(first[1], text[first.end() :]):
        return None
    rest = _short(text[first.end() :].lstrip(f" \t{_MARKS}"))
    return Verdict(comment=rest) if decision == "allow" else Verdict(decision, reason=rest)


def _is_decision(word: str, after: str) -> bool:
    """Whether a first word is meant as a decision: it stands alone, is written large, or something sets it off.

    `Ask the user for more` and `Block quotes are fine` are comments.
    """
    return word.isupper() or not after.strip() or after.lstrip(" \t")[0] in _MARKS


def _of_object(said: JsonObject, point: Point) -> Verdict:
    stated = _stated(said)
    decision = None if stated is None else WORDS.get(str(stated).lower())
    if stated is not None and decision is None:
        return Verdict(fault=f"`{_short(str(stated))}` is no decision: allow, ask, defer or deny")
    arguments = said.get("updated_input", said.get("updatedInput"))
    if arguments is not None and not isinstance(arguments, dict):
        return Verdict(fault="`updated_input` is to be a map of arguments")
    comment = _text(said, "comment", "additionalContext")
    is_last = said.get("quit") is True
    if decision is None and arguments is None and point in STARTING and not is_last:
        return Verdict(fault="it gave no decision", comment=comment)
    reason = _text(said, "reason", "permissionDecisionReason")
    return Verdict(decision or "allow", reason, arguments, comment, is_last=is_last)


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
        if isinstance(found, dict) and (end - at == len(text) or not KNOWN.isdisjoint(found)):
            yield found
        at = text.find("{", end)


def _text(said: JsonObject, *names: str) -> str:
    return _short(next((str(said[name]) for name in names if said.get(name)), ""))


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= limits.HOOK_WORDS_CHARS_MAX else text[: limits.HOOK_WORDS_CHARS_MAX - 1] + "…"
