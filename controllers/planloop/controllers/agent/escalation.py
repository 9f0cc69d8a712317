"""The model that an agent uses: its own, or a stronger one once it is stuck. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from planloop.controllers.agent.mail import wake_reasons
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, encode_text, sha256_of_value
from planloop.schemas.objects.agent import AgentSpec, ModelDeciderSpec
from planloop.schemas.objects.call import CallState, EffectClass

# An agent is stuck if it repeats the same rejected answer or failing call, or alternates between two of them.
#
# `status.progress.tried` has its last failed attempts, newest last, since it last made progress, which is a new call
# that changed something, or news from outside. Answers are compared without case, punctuation, blanks and numbers, and
# may differ by small edits; calls may differ in blanks only.

if TYPE_CHECKING:
    from planloop.controllers.agent.observe import ObservedAgent
    from planloop.controllers.agent.status import AgentStatus, OpenTurn

ANSWER_TRIED: Final = "answer"
CALL_TRIED: Final = "call"
DONE_TRIED: Final = "done"
"""Kinds of attempts: a rejected answer, a failed call, and a successful call whose result was known already."""

_OWN: Final = frozenset({"verdict", "results", "again", "start", "watchdog"})
"""Reasons of a turn that come from the agent itself."""
_PASSING: Final = frozenset(
    "Changed ChildrenOpen Deadlock Deferred Disconnected Locked NoAnswer NotUp TimedOut Unread".split()
)
"""Errors after which an agent is expected to repeat the call."""
_WORD: Final = re.compile(r"[^\W_]+")
_NUMBER: Final = re.compile(r"[-+]?\d+(?:,\d{3})*(?:[.:]\d+)*%?")
_ALIKE: Final = 0.9
_LONG: Final = 40  # Characters. In a shorter answer, a small edit may change the meaning.
_WORDS_MIN: Final = 3  # Besides numbers. In an answer with fewer words, the numbers are compared too.
_DIGEST_CHARS: Final = 12


def normalize_answer(answer: Json) -> str:
    """An answer in the form that is compared: lower-case words, without numbers if there are enough words."""
    text = answer if isinstance(answer, str) else encode_text(answer)
    words = _WORD.findall(_NUMBER.sub(" ", text).casefold())
    if len(words) < _WORDS_MIN:
        numbers = (each.replace(",", "").lstrip("+") for each in _NUMBER.findall(text))
        words += [each.rstrip("0").rstrip(".") if "." in each else each for each in numbers]
    whole = " ".join(words) or text.strip()
    half = limits.TRIED_CHARS_MAX // 2
    return whole if len(whole) <= 2 * half else f"{whole[:half]} {whole[-half:]}"


def is_same_attempt(one: JsonObject, other: JsonObject) -> bool:
    """Whether two attempts are the same, or nearly so."""
    if one["kind"] != other["kind"]:
        return False
    a, b = str(one["what"]), str(other["what"])
    if a == b or one["kind"] != ANSWER_TRIED:
        return a == b
    if min(len(a), len(b)) >= _LONG and _likeness(a, b) >= _ALIKE:
        return True
    return _likeness(a.split(), b.split()) >= _ALIKE


def _likeness(one: Sequence[str], other: Sequence[str]) -> float:
    found = SequenceMatcher(None, one, other, autojunk=False)
    return found.ratio() if found.real_quick_ratio() >= _ALIKE and found.quick_ratio() >= _ALIKE else 0.0


def attempts_after_turn(agent: ObservedAgent, turn: OpenTurn, effects: Sequence[EffectClass]) -> tuple[JsonObject, ...]:
    """The attempts after `turn`, whose calls have these effects. An answer counts as rejected until it is accepted."""
    tried = [] if set(turn.news.reasons) - _OWN else list(agent.status.progress.tried)
    for call, effect in zip(turn.reply.calls, effects, strict=True):
        result = turn.results.get(call.address)
        if result is None or call.is_implied:
            continue
        arguments = " ".join(encode_text(call.arguments).replace("\\n", " ").split())
        what = f"{call.tool} {sha256_of_value(arguments)[:_DIGEST_CHARS]}"
        if result.state in (CallState.FAILED, CallState.DENIED):
            if result.error in _PASSING:
                continue
            tried.append({"kind": CALL_TRIED, "what": what})
        elif result.state is CallState.SUCCEEDED and call.tool not in ("done", "fail"):
            # The same read with another result is progress.
            done = f"{what} {sha256_of_value(result.text)[:_DIGEST_CHARS]}" if effect is EffectClass.READ else what
            tried = _after_success(tried, {"kind": DONE_TRIED, "what": done}, effect)
    if turn.claim is not None and turn.claim["kind"] == "done":
        tried.append({"kind": ANSWER_TRIED, "what": normalize_answer(turn.claim["result"])})
    return tuple(tried[-limits.TRIED_KEPT_MAX :])


def _after_success(tried: list[JsonObject], made: JsonObject, effect: EffectClass) -> list[JsonObject]:
    if effect is EffectClass.READ:
        # A read with a new result ends a series of failing calls.
        return tried if made in tried else [*(each for each in tried if each["kind"] != CALL_TRIED), made]
    if made not in tried:
        return [made]
    return [each for each in tried if each["kind"] != CALL_TRIED]


def why_stuck(tried: Sequence[JsonObject]) -> str:
    """Why an agent with these attempts is stuck; empty while it is not."""
    failed = [each for each in tried if each["kind"] != DONE_TRIED]
    if not failed:
        return ""
    newest = failed[-1]
    thing = "answer" if newest["kind"] == ANSWER_TRIED else f"failing call of {str(newest['what']).partition(' ')[0]}"
    count = sum(is_same_attempt(each, newest) for each in failed)
    if count >= limits.REPEATS_MAX:
        verb = "gave" if newest["kind"] == ANSWER_TRIED else "made"
        return f"its agent {verb} the same {thing} {count} times"
    if len(failed) >= 4 and _is_pair(failed[-4:]):
        return "its agent alternated between the same two failed attempts"
    return ""


def _is_pair(last: Sequence[JsonObject]) -> bool:
    one, two, three, four = last
    return is_same_attempt(one, three) and is_same_attempt(two, four)


# An escalation is one record. An agent escalates once in an incarnation: if the owner crashes before that record, the
# next owner escalates again. The transcript stays; only the model changes.


def current_model(spec: AgentSpec, status: AgentStatus) -> ModelDeciderSpec:
    """The model that decides for the agent now."""
    assert isinstance(spec.mind, ModelDeciderSpec), "only agents with a model have a current model"
    granted = "" if spec.granted is None else spec.granted.stated
    if (
        spec.escalate is not None
        and status.progress.escalated is not None
        and status.progress.escalated.get("over", "") == granted
    ):
        return spec.escalate.to
    return spec.granted or spec.mind


def escalated_model_name(spec: AgentSpec, status: AgentStatus) -> str:
    """The name of the model that has replaced the agent's own; empty if none has."""
    found = current_model(spec, status)
    return "" if found is spec.mind else found.model


def can_escalate(agent: ObservedAgent) -> bool:
    """Whether the agent has an escalation that it has not used."""
    return agent.spec.escalate is not None and agent.status.progress.escalated is None and not agent.is_watcher


def why_escalate(agent: ObservedAgent) -> str:
    """Why a stronger model is to continue; empty if it is not. Called between two turns."""
    escalate = agent.spec.escalate
    if escalate is None or not can_escalate(agent):
        return ""
    verdict = wake_reasons.rejected_verdict(agent)
    if agent.status.claim is not None and verdict is None:
        return ""  # Its answer is being checked.
    if words := why_stuck(agent.status.progress.tried):
        return words
    count = 0 if verdict is None else int(verdict.get("rejections", 0))
    return f"{count} of its answers were rejected" if count >= escalate.after else ""


def escalation_merge(agent: ObservedAgent, why: str) -> JsonObject:
    """The merge into the agent's status after which the stronger model continues."""
    assert agent.spec.escalate is not None, "an escalation is due"
    before: JsonObject = {
        **agent.status.used.to_json(),
        "tokens": agent.status.used.tokens,
        "usd": agent.status.used.usd,
    }
    over = "" if agent.spec.granted is None else agent.spec.granted.stated
    to: JsonObject = {"to": agent.spec.escalate.to.model, "turn": agent.status.turn, "at": agent.now, "why": why}
    return {"escalated": to | {"before": before, "over": over}, "tried": None, "same": ["", 0]}
