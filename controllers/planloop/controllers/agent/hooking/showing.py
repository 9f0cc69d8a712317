"""What a hook that is an agent is shown of the one it watches: a compact, labelled part of its turn.

Texts and the maps of programs are cut to what a message has room for, the longest things first. Values of secrets are
in none of it: the log, which all of this is from, has none.
"""

from __future__ import annotations

from typing import Final

from planloop.controllers.agent.hooking import shown_transcript
from planloop.reconciler.effects.clamping import clamped
from planloop.schemas import limits
from planloop.schemas.encoding import Json, JsonObject, encode, encode_text
from planloop.schemas.hook import HookSpec

HOW: Final = (
    'You are asked as a hook. Say ALLOW, with a comment if it is to hear one, or DENY and why, or {"decision": …, '
    '"reason": …, "comment": …}.'
)
"""Said with each question to an agent that has other work too."""

READERS: Final = frozenset({"model", "outside"})
"""Kinds of minds that read text; the others compute with the question as it is."""

ABOUT: Final = ("tool_name", "tool_input", "tool_input_original", "tool_response", "prompt", "notes", "reply", "claim")
LEVELS: Final = ("children", "reasons")
"""What a reader may want to know beside what it is asked about. Ids, times and what is left of time are not in it: the
same run is to give the same words."""

WHAT: Final = {
    "on-input": "this is what it is told now; you may comment on it",
    "before-call": "it is about to make this call; allow it, deny it, or give other arguments",
    "on-patch": "it is about to change the plan by this call; allow it, deny it, or give other arguments",
    "after-call": "this call has ended; you may comment on the result",
    "before-reply": "it is about to give this answer; allow it, or deny it and say what is missing",
    "on-wake": "it begins a turn; you may comment",
    "on-sleep": "its turn is over and it would sleep; a comment wakes it",
    "on-child": "a child of it has ended; you may comment",
    "on-conflict": "it is in a conflict; you may comment",
    "on-budget": "little of its budget is left; you may comment",
    "on-end": "it says that its work is over; you may comment",
}


def shown(hook: HookSpec, question: JsonObject, *, is_text: bool, is_made: bool = True) -> Json:
    """The body of the message that asks `hook`.

    `is_made`: its agent was made for it, and so knows already how to answer.
    """
    if is_text and not is_made:
        question = {**question, "answer": HOW}
    for longest in limits.HOOK_SHOWN_BYTES:
        # Of a transcript the newest end counts, of other lists the beginning.
        newest = {name: question[name][-limits.HOOK_ITEMS_SHOWN_MAX :] for name in ("transcript",) if name in question}
        cut = {name: _cut(value, longest) for name, value in (question | newest).items()}
        body = _body(hook, cut, is_text=is_text)
        if len(encode(body)) <= limits.MESSAGE_BYTES_MAX:
            return body
    brief: JsonObject = {
        name: question[name] for name in ("version", "id", "hook_event_name", "agent") if name in question
    }
    return _body(hook, brief, is_text=is_text)


def _body(hook: HookSpec, question: JsonObject, *, is_text: bool) -> Json:
    return text_of(hook, question) if is_text else {"hook": hook.name, "question": question}


def text_of(hook: HookSpec, question: JsonObject) -> str:
    """The question in words: who is at which point, what it is about, and how things stand."""
    point = str(question.get("hook_event_name", ""))
    turn = f", turn {question['turn']}" if "turn" in question else ""
    lines = [f"{point}: {question.get('agent', hook.watches)}{turn}: {WHAT.get(point, 'you may comment')}."]
    lines += [f"{name}:\n{_plain(question[name])}" for name in ABOUT if question.get(name)]
    if transcript := question.get("transcript"):
        lines.append(f"what it has lived through, the newest last:\n{shown_transcript.text_of(transcript)}")
    if goal := question.get("goal"):
        lines.append(f"its goal: {goal}")
    levels: JsonObject = {name: question[name] for name in LEVELS if question.get(name)}
    if changed := question.get("files_changed"):
        levels["files that others have changed"] = sorted(changed)
    if levels:
        lines.append(f"how it stands: {encode_text(levels)}")
    if how := question.get("answer"):
        lines.append(str(how))
    return "\n".join(lines)


def _plain(value: Json) -> str:
    return value if isinstance(value, str) else encode_text(value)


def _cut(value: Json, longest: int) -> Json:
    """`value` with every text in it cut to `longest` bytes and every list to the items that a reader would look at."""
    if isinstance(value, str):
        return clamped(value.encode(), longest)
    if isinstance(value, list):
        kept = [_cut(item, longest) for item in value[: limits.HOOK_ITEMS_SHOWN_MAX]]
        over = len(value) - len(kept)
        return [*kept, f"… {over} more"] if over else kept
    if isinstance(value, dict):
        return {name: _cut(item, longest) for name, item in value.items()}
    return value
