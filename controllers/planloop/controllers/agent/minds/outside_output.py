"""What another command-line agent printed, read as its answer, its session and what it used.

Tolerant: such programs differ, and print remarks between their JSON. Known shapes are a last `result`, a `text`, or
the text parts of a `message.content`; what the agent's tools returned is not its answer. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from planloop.schemas import limits, pointer
from planloop.schemas.agent import Outside
from planloop.schemas.budget import Cost
from planloop.schemas.encoding import Json, JsonObject, decode_foreign
from planloop.schemas.frozen import frozen

FINAL_KEYS: Final = ("result", "response", "answer", "output", "final")
"""Where a whole run's answer stands; it outranks what was said on the way."""

SAID_KEYS: Final = ("text", "content", "message", "item")
SESSION_KEYS: Final = ("session_id", "sessionId", "session", "thread_id", "conversation_id")
NOT_SAID: Final = frozenset({"user", "tool", "system", "tool_result", "tool_use", "reasoning", "thinking"})
"""Roles and types of messages that are not the agent's own words."""

COST_KEYS: Final = ("total_cost_usd", "cost_usd", "cost")
_IN: Final = ("input_tokens", "prompt_tokens", "inputTokens")
_OUT: Final = ("output_tokens", "completion_tokens", "outputTokens")
_BESIDE: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Tokens of the prompt that some programs do not count among those of `input_tokens`."""


@frozen
class Printed:
    """`answer` is None when there is none; `usage` has tokens `in`, `out`, `cached`, and `usd` as it was reported."""

    answer: str | None
    session: str = ""
    usage: JsonObject | None = None
    is_error: bool = False


def read(output: str, how: Outside) -> Printed:
    """What there is in the whole output of one turn."""
    if how.output == "text":
        return Printed(output.strip() or None)
    events = list(_events(output))
    return Printed(
        _answer(events, how.pointer),
        _session(events, how.session),
        _usage(events),
        any(event.get("is_error") is True for event in events[-1:]),
    )


def _events(output: str) -> Iterator[JsonObject]:
    """The JSON maps in the output: of the whole of it, or of each line."""
    whole = _decoded(output)
    found = [whole] if whole is not None else [_decoded(line) for line in output.splitlines()]
    for each in found:
        if isinstance(each, list):
            yield from (item for item in each if isinstance(item, dict))
        elif isinstance(each, dict):
            yield each


def _decoded(text: str) -> Json:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return decode_foreign(text)
    except ValueError:
        return None


def _answer(events: Sequence[JsonObject], where: str) -> str | None:
    if where:
        found = [text for event in events if (text := _text_at(event, where))]
        return found[-1] if found else None
    finals = [text for event in events for key in FINAL_KEYS if (text := _said(event.get(key)))]
    if finals:
        return finals[-1]
    said = [text for event in events if (text := _said(event))]
    return said[-1] if said else None


def _text_at(event: JsonObject, where: str) -> str:
    try:
        return _said(pointer.get(event, pointer.parse(where)))
    except (KeyError, IndexError, ValueError, TypeError):
        return ""


def _said(value: Json) -> str:
    """The words in a value: a text, the first of the known members of a map, the parts of a list."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return "\n".join(text for each in value if (text := _said(each)))
    if not isinstance(value, dict) or not NOT_SAID.isdisjoint((str(value.get("role")), str(value.get("type")))):
        return ""
    return next((text for key in SAID_KEYS if (text := _said(value.get(key)))), "")


def _session(events: Sequence[JsonObject], where: str) -> str:
    if where:
        found = [text for event in events if (text := _text_at(event, where))]
    else:
        found = [
            event[key] for event in events for key in SESSION_KEYS if isinstance(event.get(key), str) and event[key]
        ]
    return found[-1] if found else ""


def _usage(events: Sequence[JsonObject]) -> JsonObject | None:
    """The last usage that was reported: where several are, the last is the sum."""
    out: JsonObject = {}
    for event in events:
        for holder in (event, event.get("message"), event.get("item")):
            if isinstance(holder, dict):
                out |= _tokens(holder.get("usage")) | _cost(holder)
    return out or None


def _tokens(usage: Json) -> JsonObject:
    if not isinstance(usage, dict):
        return {}
    cached = _first(usage, ("cached_input_tokens", "cache_read_input_tokens"))
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict):
        cached = cached or _first(details, ("cached_tokens",))
    found: JsonObject = {"in": _first(usage, _IN) + sum(_first(usage, (key,)) for key in _BESIDE)}
    return found | {"out": _first(usage, _OUT), "cached": cached, "raw": usage}


def _first(usage: JsonObject, keys: Sequence[str]) -> int:
    return next((int(usage[key]) for key in keys if _is_number(usage.get(key))), 0)


def _cost(holder: JsonObject) -> JsonObject:
    return next(({"usd": str(holder[key])} for key in COST_KEYS if _is_number(holder.get(key))), {})


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < limits.USAGE_MAX


def cost_of(usage: JsonObject) -> Cost | None:
    """What a program says that it used; None when it says nothing. Money that it does not speak of is unknown."""
    if not usage:
        return None
    usd = Decimal(usage["usd"]) if "usd" in usage else None
    return Cost(tokens=int(usage.get("in", 0)) + int(usage.get("out", 0)), usd=usd)
