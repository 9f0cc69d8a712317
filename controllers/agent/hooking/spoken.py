"""What an agent says when it is asked as a hook, read as a verdict. Pure; nothing that it says can break the reading.

A JSON object is a verdict in so many words; a text that begins with ALLOW, DENY, ASK or DEFER has its decision there
and the rest as its reason; any other text is a comment. Before a call such a text is no permission: whoever guards has
to say so, and a guard that does not has given no verdict.
"""

from __future__ import annotations

import json
import re
from typing import Final

from schemas import limits
from schemas.encoding import Json, JsonObject
from schemas.hook import STARTING, Decision, Point, Verdict
from schemas.thread import Answer

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
    said = answer.value if isinstance(answer.value, dict) else _object_in(answer.text)
    return _of_text(answer.text.strip(), point) if said is None else _of_object(said, point)


def _of_text(text: str, point: Point) -> Verdict:
    is_guarded = point in STARTING
    if text.lower().rstrip(".") in SILENT:
        return Verdict(fault="it gave no decision") if is_guarded else Verdict()
    first = _FIRST.match(text)
    decision = None if first is None else WORDS.get(first[1].lower())
    if first is None or decision is None or not _is_decision(first[1], text[first.end() :]):
        return Verdict(fault="it gave no decision" if is_guarded else "", comment=_short(text))
    rest = _short(text[first.end() :].lstrip(f" \t{_MARKS}"))
    return Verdict(comment=rest) if decision == "allow" else Verdict(decision, reason=rest)


def _is_decision(word: str, after: str) -> bool:
    """Whether a first word is meant as a decision: it stands alone, is written large, or something sets it off.

    `Ask the user for more` and `Block quotes are fine` are comments.
    """
    return word.isupper() or not after.strip() or after.lstrip(" \t")[0] in _MARKS


def _of_object(said: JsonObject, point: Point) -> Verdict:
    stated = said.get("decision", said.get("permissionDecision"))
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


def _object_in(text: str) -> JsonObject | None:
    """The JSON object that `text` is, or that stands in it and has something of a verdict; None without one."""
    text, decoder = text.strip(), json.JSONDecoder()
    at = text.find("{")
    for _ in range(limits.HOOK_OBJECTS_MAX):
        if at < 0:
            return None
        try:
            found: Json
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            found, end = None, at + 1
        if isinstance(found, dict) and (end - at == len(text) or not KNOWN.isdisjoint(found)):
            return found
        at = text.find("{", end)
    return None


def _text(said: JsonObject, *names: str) -> str:
    return _short(next((str(said[name]) for name in names if said.get(name)), ""))


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= limits.HOOK_WORDS_CHARS_MAX else text[: limits.HOOK_WORDS_CHARS_MAX - 1] + "…"
