"""A language model as a mind: its reply as text and calls, whatever it wrote.

The prompt is `prompting.py`'s, retries are the turn's. Ids of the provider are kept only to tell duplicates apart;
calls get our own. Nothing a model writes raises: arguments that are no JSON become a call with a fault, which gets its
result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from planloop.controllers.agent.minds.port import ProposedCall, Reply
from planloop.controllers.agent.models.port import ModelCall, ModelReply, Usage
from planloop.controllers.agent.thinking import transcript
from planloop.schemas.call import given_of
from planloop.schemas.encoding import Json, JsonObject, decode_foreign

_AROUND: Final = re.compile(r"^(?:functions|default_api|tools?)[.:]|:\d+$|<\|.*$")
"""What gpt-oss, Gemini and Kimi put around names: `functions.`, `default_api.`, a number, `<|channel|>…`."""

CUT_OFF: Final = "length"
WAS_CUT: Final = "[Your answer was cut off: it reached the longest output that is allowed. Go on in smaller pieces.]"


def reply_of(answer: ModelReply, names: Mapping[str, str]) -> Reply:
    """What the model wants. `names` are the tools by their wire names; others are taken as they stand."""
    is_cut = answer.finish == CUT_OFF
    # Only what came last can have been cut.
    last = len(answer.calls) - 1
    proposed = tuple(_proposed(call, names, is_cut=is_cut and at == last) for at, call in enumerate(answer.calls))
    if is_cut and not proposed:
        return Reply(answer.text, then="again", usage=usage_json(answer.usage), note=WAS_CUT, extra=answer.extra)
    note = WAS_CUT if is_cut else ""
    usage = usage_json(answer.usage)
    return Reply(answer.text, proposed, then="final", usage=usage, note=note, extra=answer.extra)


def usage_json(used: Usage) -> JsonObject:
    """Tokens for the log, zeros left out, with what the provider itself said."""
    out: JsonObject = {"in": used.tokens_in, "out": used.tokens_out}
    if used.tokens_cached:
        out["cached"] = used.tokens_cached
    if used.tokens_reasoning:
        out["reasoning"] = used.tokens_reasoning
    if used.is_estimated:
        out["estimated"] = True
    if used.raw:
        out["raw"] = used.raw
    return out


def _proposed(call: ModelCall, names: Mapping[str, str], *, is_cut: bool) -> ProposedCall:
    tool = _tool(call.name, names)
    try:
        if is_cut and not call.arguments.strip():
            raise ValueError
        return ProposedCall(tool, _arguments(call.arguments), call.id, extra=call.extra)
    except ValueError as error:
        why = "the answer was cut off inside of it" if is_cut else f"its arguments are no JSON: {error}"
        return ProposedCall(tool, call.arguments, call.id, fault=why, extra=call.extra)


def _tool(called: str, names: Mapping[str, str]) -> str:
    """The tool that is called as `called`, also by its own name, or with what templates of models put around it."""
    for name in (called, _AROUND.sub("", called.strip())):
        if name in names or name in names.values():
            return names.get(name, name)
    return called.replace(transcript.DOT, ".") or "?"


def _arguments(text: str) -> Json:
    """The value of arguments as text; of those that were encoded twice too. Raises ValueError for no JSON."""
    given = given_of(text)
    value = given_of(decode_foreign(given)) if isinstance(given, str) else given
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(ValueError):
            return decode_foreign(value)
    return value
