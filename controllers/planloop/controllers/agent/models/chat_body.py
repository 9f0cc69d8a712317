"""The request of the OpenAI chat API as bytes, and how servers differ in what they take.

The history is joined from the bytes that each message was encoded to once: a request costs a copy, not a serialisation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, Literal

from planloop.controllers.agent.models import context_limits, history
from planloop.controllers.agent.models.error_body import lower_of
from planloop.controllers.agent.models.port import ModelRequest
from planloop.schemas import encoding
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen

LimitField = Literal["max_tokens", "max_completion_tokens"]

OURS: Final = frozenset({"model", "messages", "tools", "stream", "stream_options", "n"})
"""What no option of a plan may change; `stream: false` is heard all the same."""

LIMIT_FIELDS: Final[tuple[LimitField, ...]] = ("max_tokens", "max_completion_tokens")

_ORDER: Final = re.compile(
    r"(?:must|should) alternate|alternate (?:between|user)|alternating|conversation roles|unexpected role"
    r"|invalid_request_message_order|user message after tool|message order|consecutive (?:user|messages)"
    r"|after role|role (?:'user'|user) (?:is not allowed|cannot|must)"
)
"""How templates and Mistral say that the order of the messages is not theirs."""

_NO_STREAM: Final = re.compile(
    r"stream\w*[^.]{0,40}(?:not (?:supported|available|allowed|implemented)|unsupported|cannot|can't|must be false)"
    r"|(?:not support|n't support|unsupported|cannot|can't|verified to)[^.]{0,40}stream"
)
_NO_SYSTEM: Final = re.compile(
    r"system (?:role|message|prompt|instruction)s?(?: is| are)? not (?:supported|enabled|allowed)"
    r"|(?:not|n't) support (?:the )?(?:role )?[`'\"]?system|unexpected role \W*system"
    r"|developer instruction is not enabled"
)
_FOREIGN: Final = re.compile(
    r"extra|unsupported|not (?:permitted|allowed|supported)|un(?:known|expected|recognized)|remove|invalid `"
)
_NO_OPTION: Final = re.compile(
    r"unsupported|n[o']t support|not (?:permitted|allowed|available|enabled)|un(?:known|expected|recognized)|deprecated"
    r"|extra inputs|cannot both|only [^.]{0,40}(?:supported|allowed)|cannot be (?:used|set|specified)"
)
"""How a server says that a model does not have an option, or has one value of it only."""

_TOGETHER: Final = re.compile(r"both|together|use only one")
NEED_TOOLS: Final = frozenset(("tool_choice", "parallel_tool_calls"))

_NO_NULL: Final = re.compile(
    r"content type: <nil>|content\W{0,8}(?:field )?(?:is required|cannot be null|must be a (?:valid )?string)"
    r"|content.{0,60}(?:none is not an allowed|input should be a valid string|null value)"
)
"""How a server says that a message of the assistant has to have a text beside its calls."""

_NO_EMPTY: Final = re.compile(r"content.{0,60}(?:is empty|must be non-?empty|contain non-whitespace|cannot be empty)")
_TOOLS_TOO: Final = re.compile(
    r"must define tools|expects `?tools|toolconfig"
    r"|tools?\W{0,3} (?:field |param\w* )?must be (?:defined|provided|specified)"
)
"""How Anthropic and Bedrock say that a history with calls wants tools, though none may be called any more."""

CALLED: Final = "Calling tools."
NO_TOOLS: Final = encoding.encode(
    [
        {
            "type": "function",
            "function": {
                "name": "none",
                "description": "There are no tools any more. Answer with text.",
                "parameters": {"type": "object", "properties": {}},
            },
        }
    ]
)

_MISSING: Final = re.compile(r"missing|required|must be (?:passed|provided|included)|expected")


@frozen
class Dialect:
    """What a server takes: of options, of a reply's length, and of the history.

    `output_max` is the longest reply of the model. `is_strict` wants roles that alternate, and one that does not
    `takes_system` has that message in the first of the user. `is_plain` wants no fields that
    the server does not know, `needs_thoughts` those of every message with calls. `is_streamed` is False where the
    server cannot send the reply in pieces. `states_end` is True once the server has said why a reply ended. `without`
    names options of the plan that the model does not take. `blank` is the text beside calls where there is none, and
    `wants_tools` is True where a history with calls needs a declaration.
    """

    limit_field: LimitField = "max_tokens"
    takes_usage_option: bool = True
    is_limit_settled: bool = False
    output_max: int | None = None
    is_strict: bool = False
    takes_system: bool = True
    is_plain: bool = False
    needs_thoughts: bool = False
    is_streamed: bool = True
    states_end: bool = False
    without: frozenset[str] = frozenset()
    blank: str | None = None
    wants_tools: bool = False

    def limit_name(self, options: JsonObject) -> LimitField:
        """What the longest reply is called: as the plan has it, unless the server refused one of the names."""
        stated = None if self.is_limit_settled else next((one for one in LIMIT_FIELDS if one in options), None)
        return stated or self.limit_field

    def after(self, status: int, said: bytes, request: ModelRequest) -> Dialect | None:
        """The dialect to try when the server refused `request` with `said`; None when no other one would help."""
        lower = lower_of(said)
        if status in (400, 422, 500) and self.takes_system and _NO_SYSTEM.search(lower):
            return replace(self, takes_system=False)
        if status in (400, 422, 500) and not self.is_strict and _ORDER.search(lower):
            return replace(self, is_strict=True)
        if status not in (400, 404, 422, 501):
            return None
        if self.takes_usage_option and ("stream_options" in lower or "include_usage" in lower):
            return replace(self, takes_usage_option=False)
        is_too_long = context_limits.is_too_long(status, lower)
        sent = self.limit_name(request.options)
        if not self.is_limit_settled and sent in lower and not is_too_long:
            other: LimitField = "max_tokens" if sent == "max_completion_tokens" else "max_completion_tokens"
            return replace(self, limit_field=other, is_limit_settled=True)
        if self.is_streamed and is_streamed(request.options) and _NO_STREAM.search(lower):
            return replace(self, is_streamed=False)
        option = None if is_too_long else _refused_option(lower, request.options.keys() - self.without)
        if option is not None:
            return replace(self, without=self.without | {option})
        return self._after_fields(lower, request)

    def _after_fields(self, lower: str, request: ModelRequest) -> Dialect | None:
        """The dialect to try when fields of the history may be the matter: one that is missing, or one too many."""
        if self.blank is None and _NO_NULL.search(lower):
            return replace(self, blank="")
        if self.blank != CALLED and _NO_EMPTY.search(lower):
            return replace(self, blank=CALLED)
        if not (self.wants_tools or request.tools) and _TOOLS_TOO.search(lower):
            return replace(self, wants_tools=True)
        is_missing = _MISSING.search(lower) is not None and _FOREIGN.search(lower) is None
        if not self.needs_thoughts and history.THOUGHTS in lower and is_missing:
            return replace(self, needs_thoughts=True, is_plain=False)
        if not (self.is_plain or self.needs_thoughts or is_missing) and _names_one(lower, request):
            return replace(self, is_plain=True)
        return None


def lowered(status: int, said: bytes, request: ModelRequest, dialect: Dialect) -> context_limits.Lowered | None:
    """The longest reply to ask for instead, when the server refused `request` because it may not be as long."""
    asked = stated_options(request, dialect)
    stated = next((asked[name] for name in LIMIT_FIELDS if isinstance(asked.get(name), int)), None)
    return context_limits.lowered(status, lower_of(said), stated)


def is_streamed(options: JsonObject) -> bool:
    """Whether the reply is asked for in pieces: yes, unless the plan says `stream: false`."""
    return options.get("stream") is not False


def body_of(model: str, request: ModelRequest, dialect: Dialect) -> bytes:
    """The body that asks `model`, the provider's own name, for what `request` wants."""
    messages = history.plain(request.messages) if dialect.is_plain else request.messages
    messages = messages if dialect.takes_system else history.without_system(messages)
    messages = history.with_thoughts(messages) if dialect.needs_thoughts else messages
    messages = history.alternating(messages) if dialect.is_strict else messages
    messages = messages if dialect.blank is None else history.with_blank(messages, dialect.blank)
    parts = [b'{"model":', encoding.encode(model), b',"messages":[', b",".join(messages), b"]"]
    if request.tools:
        parts += [b',"tools":', request.tools]
    elif dialect.wants_tools:
        parts += [b',"tools":', NO_TOOLS]
    more: JsonObject = {"stream": dialect.is_streamed and is_streamed(request.options)}
    if more["stream"] and dialect.takes_usage_option:
        more["stream_options"] = {"include_usage": True}
    more |= stated_options(request, dialect)
    return b"".join((*parts, b",", encoding.encode(more)[1:]))


def stated_options(request: ModelRequest, dialect: Dialect) -> JsonObject:
    """The plan's options as they stand, with the smallest bound: the plan's, this attempt's or the model's.

    Those that the model does not take are left out, and without tools those that are about tools.
    """
    left_out = OURS | dialect.without | (frozenset() if request.tools else NEED_TOOLS)
    options = {name: value for name, value in request.options.items() if name not in left_out}
    stated = [options.pop(name) for name in LIMIT_FIELDS if isinstance(options.get(name), int)]
    bounds = [*stated, *([] if request.output_tokens_max is None else [request.output_tokens_max])]
    if bounds and dialect.output_max is not None:
        bounds.append(dialect.output_max)
    return options | ({dialect.limit_name(request.options): min(bounds)} if bounds else {})


def _refused_option(lower: str, options: Iterable[str]) -> str | None:
    """The plan's option that a refusal names as one the model lacks; the last of two that exclude each other."""
    if not _NO_OPTION.search(lower):
        return None
    places = {
        found.start(): name
        for name in options
        if name not in OURS and name not in LIMIT_FIELDS
        for found in [re.search(rf"(?<![a-z_]){re.escape(name)}(?![a-z_])|{name.replace('_', '')}\b", lower)]
        if found
    }
    if not places:
        return None
    return places[max(places) if _TOGETHER.search(lower) else min(places)]


def _names_one(lower: str, request: ModelRequest) -> bool:
    """Whether a refusal names a field that another server, or an earlier model, put into the history."""
    return any(name.lower() in lower for name in history.extra_names(request.messages))
