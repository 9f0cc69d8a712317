"""An agent that is stuck: the same rejected answer, the same failing call, or two of them in turn. Pure.

`status.tried` are its last failed attempts, newest last, since it last made progress: a call that changes something and
was not made before, or news from outside. Answers are compared without case, punctuation, blanks and numbers, and may
differ by small edits; calls may differ in blanks only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from planloop.schemas import limits
from planloop.schemas.call import CallState, EffectClass
from planloop.schemas.encoding import Json, JsonObject, digest_of, encode_text

if TYPE_CHECKING:
    from planloop.controllers.agent.observing import Observed
    from planloop.controllers.agent.status import OpenTurn

ANSWER: Final = "answer"
CALL: Final = "call"
DONE: Final = "done"
"""Kinds of attempts: an answer that is rejected, a call that failed, and one that succeeded and brought nothing new."""

_OWN: Final = frozenset({"verdict", "results", "again", "start", "watchdog"})
"""Reasons of a turn that are no news from outside."""
_PASSING: Final = frozenset(
    "Changed ChildrenOpen Deadlock Deferred Disconnected Locked NoAnswer NotUp TimedOut Unread".split()
)
"""Errors of calls that are meant to be made again."""
_WORD: Final = re.compile(r"[^\W_]+")
_NUMBER: Final = re.compile(r"[-+]?\d+(?:,\d{3})*(?:[.:]\d+)*%?")
_ALIKE: Final = 0.9
_LONG: Final = 40  # Characters: in a shorter answer a small edit may be all that counts.
_WORDS_MIN: Final = 3  # Besides numbers: an answer with fewer says nothing but its numbers.
_DIGEST_CHARS: Final = 12


def normalised(answer: Json) -> str:
    """An answer as it is compared: words in small letters, numbers left out where there are words enough."""
    text = answer if isinstance(answer, str) else encode_text(answer)
    words = _WORD.findall(_NUMBER.sub(" ", text).casefold())
    if len(words) < _WORDS_MIN:
        numbers = (each.replace(",", "").lstrip("+") for each in _NUMBER.findall(text))
        words += [each.rstrip("0").rstrip(".") if "." in each else each for each in numbers]
    whole = " ".join(words) or text.strip()
    half = limits.TRIED_CHARS_MAX // 2
    return whole if len(whole) <= 2 * half else f"{whole[:half]} {whole[-half:]}"


def is_alike(one: JsonObject, other: JsonObject) -> bool:
    """Whether two attempts are the same, or nearly so."""
    if one["kind"] != other["kind"]:
        return False
    a, b = str(one["what"]), str(other["what"])
    if a == b or one["kind"] != ANSWER:
        return a == b
    if min(len(a), len(b)) >= _LONG and _likeness(a, b) >= _ALIKE:
        return True
    return _likeness(a.split(), b.split()) >= _ALIKE


def _likeness(one: Sequence[str], other: Sequence[str]) -> float:
    found = SequenceMatcher(None, one, other, autojunk=False)
    return found.ratio() if found.real_quick_ratio() >= _ALIKE and found.quick_ratio() >= _ALIKE else 0.0


def after_turn(seen: Observed, turn: OpenTurn, effects: Sequence[EffectClass]) -> tuple[JsonObject, ...]:
    """The attempts after `turn`, whose calls have these effects. An answer counts as rejected until it is accepted."""
    tried = [] if set(turn.reasons) - _OWN else list(seen.status.tried)
    for call, effect in zip(turn.calls, effects, strict=True):
        result = turn.results.get(call.address)
        if result is None or call.is_implied:
            continue
        said = " ".join(encode_text(call.arguments).replace("\\n", " ").split())
        what = f"{call.tool} {digest_of(said)[:_DIGEST_CHARS]}"
        if result.state in (CallState.FAILED, CallState.DENIED):
            if result.error in _PASSING:
                continue
            tried.append({"kind": CALL, "what": what})
        elif result.state is CallState.SUCCEEDED and call.tool not in ("done", "fail"):
            # The same look with another result is news.
            seen_now = f"{what} {digest_of(result.text)[:_DIGEST_CHARS]}" if effect is EffectClass.READ else what
            tried = _after_success(tried, {"kind": DONE, "what": seen_now}, effect)
    if turn.claim is not None and turn.claim["kind"] == "done":
        tried.append({"kind": ANSWER, "what": normalised(turn.claim["result"])})
    return tuple(tried[-limits.TRIED_KEPT_MAX :])


def _after_success(tried: list[JsonObject], made: JsonObject, effect: EffectClass) -> list[JsonObject]:
    if effect is EffectClass.READ:
        # A look at something new ends the row of failing calls.
        return tried if made in tried else [*(each for each in tried if each["kind"] != CALL), made]
    if made not in tried:
        return [made]
    return [each for each in tried if each["kind"] != CALL]


def why(tried: Sequence[JsonObject]) -> str:
    """Why an agent with these attempts is stuck; empty while it is not."""
    failed = [each for each in tried if each["kind"] != DONE]
    if not failed:
        return ""
    newest = failed[-1]
    thing = "answer" if newest["kind"] == ANSWER else f"failing call of {str(newest['what']).partition(' ')[0]}"
    count = sum(is_alike(each, newest) for each in failed)
    if count >= limits.REPEATS_MAX:
        verb = "gave" if newest["kind"] == ANSWER else "made"
        return f"its agent {verb} the same {thing} {count} times"
    if len(failed) >= 4 and _is_pair(failed[-4:]):
        return "its agent went back and forth between the same two attempts, which failed before"
    return ""


def _is_pair(last: Sequence[JsonObject]) -> bool:
    one, two, three, four = last
    return is_alike(one, three) and is_alike(two, four)
