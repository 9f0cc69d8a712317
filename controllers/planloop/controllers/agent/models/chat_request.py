"""Requests of the OpenAI chat API as bytes: tool-call ids (Mistral's too), tool names, dialects of servers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final, Literal

from planloop.controllers.agent.models import errors
from planloop.controllers.agent.models.errors import lower_case_body
from planloop.controllers.agent.models.port import ModelRequest
from planloop.schemas import canonical_json, limits
from planloop.schemas.canonical_json import Json, JsonObject, sha256_hex
from planloop.schemas.frozen import frozen

# The history of a conversation in the stricter forms that some servers require. Pure; messages are JSON bytes.
#
# Chat templates of Mistral, Devstral, Gemma and others require that user and assistant alternate, and accept no user
# message after the result of a call. Some servers refuse unknown fields in messages of the assistant.

SYSTEM_PREFIX: Final = b'{"role":"system"'
USER_PREFIX: Final = b'{"role":"user"'
TOOL_PREFIX: Final = b'{"role":"tool"'
ASSISTANT_PREFIX: Final = b'{"role":"assistant"'
CONTINUE_MESSAGE: Final = canonical_json.encode({"role": "user", "content": "Continue."})

THOUGHTS_FIELD: Final = "reasoning_content"
_PLAIN_TOOL: Final = re.compile(r"[a-zA-Z0-9_-]+([.:][a-zA-Z0-9_-]+)?")
_FIRST_CHAR: Final = re.compile(r"[a-zA-Z_]")
_OTHER_CHAR: Final = re.compile(r"[^a-zA-Z0-9_-]")
_BASE36_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
WIRE_DOT: Final = "__"  # Replaces the dot of `server.tool` and the colon of `agent:name` in names for models.
THOUGHT_MARK: Final = "__thought__"
_PLAIN: Final = frozenset(("role", "content", "tool_calls"))
_CALL: Final = frozenset(("id", "type", "function"))


@lru_cache(maxsize=limits.TOOLSETS_KEPT_MAX * 16)
def wire_name(tool: str) -> str:
    """The name of a tool in a chat request: letters, digits, `_` and `-`, which all providers accept.

    Two tools never get the same name: a changed name ends in a digest.
    """
    name = _OTHER_CHAR.sub("_", tool.replace(".", WIRE_DOT).replace(":", WIRE_DOT))
    is_plain = (
        len(name) <= limits.WIRE_NAME_CHARS_MAX and _PLAIN_TOOL.fullmatch(tool) is not None and WIRE_DOT not in tool
    )
    if not _FIRST_CHAR.match(name):  # Gemini and Bedrock refuse a digit or dash there.
        name, is_plain = f"t_{name}", False
    return name if is_plain else f"{name[: limits.WIRE_NAME_CHARS_MAX - 9]}_{sha256_hex(tool.encode())[:8]}"


def tool_call_id(turn: int, index: int) -> str:
    """The id of a tool call in a chat request: `c`, the turn and the index of the call in base 36, four digits each.

    Mistral accepts only ids of exactly nine letters and digits; all other providers accept these too. They depend only
    on the turn and the index, so that a replay sends the same bytes.
    """
    return f"c{_base36(turn)}{_base36(index)}"


def signed_call_id(turn: int, index: int, received: str) -> str:
    """The id of a tool call, with the thought signature that LiteLLM's proxy put into the `received` id for Gemini."""
    _, mark, signature = received.partition(THOUGHT_MARK)
    return f"{tool_call_id(turn, index)}{mark}{signature}"


def _base36(number: int) -> str:
    """The last four digits of a number."""
    return "".join(_BASE36_DIGITS[number // 36**place % 36] for place in (3, 2, 1, 0))


def append_message(before: Sequence[bytes], message: bytes) -> tuple[bytes, ...]:
    """The last of `before` followed by `message`: two user messages are joined, two of a model are separated."""
    last = before[-1]
    if last.startswith(USER_PREFIX) and message.startswith(USER_PREFIX):
        return (_with_text(last, _text(message)),)
    if last.startswith(ASSISTANT_PREFIX) and message.startswith(ASSISTANT_PREFIX):
        return (last, CONTINUE_MESSAGE, message)
    return (last, message)


def append_text(messages: Sequence[bytes], text: str) -> tuple[bytes, ...]:
    """The messages with `text` at the end of the last one; in a new user message if the last one is the model's."""
    last = messages[-1]
    if last.startswith((USER_PREFIX, TOOL_PREFIX)):
        return (*messages[:-1], _with_text(last, text))
    return (*messages, canonical_json.encode({"role": "user", "content": text}))


def alternate_roles(messages: Sequence[bytes]) -> list[bytes]:
    """The messages, with each user message after a result or another user message joined to it."""
    out: list[bytes] = []
    for message in messages:
        if out and message.startswith(USER_PREFIX) and out[-1].startswith((TOOL_PREFIX, USER_PREFIX)):
            out[-1] = _with_text(out[-1], _text(message))
        else:
            out.append(message)
    return out


def merge_system_into_user(messages: Sequence[bytes]) -> list[bytes]:
    """The messages, with the text of the system message moved to the beginning of the first user message."""
    if not messages[0].startswith(SYSTEM_PREFIX):
        return list(messages)
    first = USER_PREFIX + messages[0].removeprefix(SYSTEM_PREFIX)
    rest = list(messages[1:])
    if rest and rest[0].startswith(USER_PREFIX):
        return [_with_text(first, _text(rest[0])), *rest[1:]]
    return [first, *rest]


def strip_foreign_fields(messages: Sequence[bytes]) -> list[bytes]:
    """The messages without the fields, and the signatures in call ids, that only the provider which sent them knows."""
    return [_plain(one) if one.startswith(ASSISTANT_PREFIX) else _plain_result(one) for one in messages]


def add_blank_thoughts(messages: Sequence[bytes]) -> list[bytes]:
    """The messages with a blank `reasoning_content` in those of the assistant that have calls and no such field.

    DeepSeek and Moonshot require it in every message with calls, including those from another model.
    """
    return [_with_thoughts(one) if one.startswith(ASSISTANT_PREFIX) else one for one in messages]


def add_blank_content(messages: Sequence[bytes], text: str) -> list[bytes]:
    """The messages with `text` as the content of those of the assistant that have none."""
    return [_with_blank(one, text) if one.startswith(ASSISTANT_PREFIX) else one for one in messages]


def foreign_field_names(messages: Sequence[bytes]) -> frozenset[str]:
    """The names of the fields that `strip_foreign_fields` removes, at every depth."""
    found: set[str] = set()
    for message in messages:
        if message.startswith(ASSISTANT_PREFIX):
            found |= _names(message)
    return frozenset(found)


@lru_cache(maxsize=limits.TOOLSETS_KEPT_MAX * 16)
def _plain(message: bytes) -> bytes:
    said = canonical_json.decode(message)
    kept: JsonObject = {name: value for name, value in said.items() if name in _PLAIN}
    if isinstance(kept.get("content"), list):
        parts = (part for part in kept["content"] if isinstance(part, dict) and part.get("type") == "text")
        kept["content"] = "".join(str(part.get("text", "")) for part in parts) or None
    if kept.get("tool_calls"):
        kept["tool_calls"] = [_plain_call(call) for call in kept["tool_calls"]]
    return canonical_json.encode(kept)


@lru_cache(maxsize=limits.TOOLSETS_KEPT_MAX * 16)
def _with_thoughts(message: bytes) -> bytes:
    said = canonical_json.decode(message)
    is_lacking = said.get("tool_calls") and not said.get(THOUGHTS_FIELD)
    return canonical_json.encode(said | {THOUGHTS_FIELD: " "}) if is_lacking else message


@lru_cache(maxsize=limits.TOOLSETS_KEPT_MAX * 16)
def _with_blank(message: bytes, text: str) -> bytes:
    said = canonical_json.decode(message)
    return message if said.get("content") else canonical_json.encode(said | {"content": text})


def _plain_call(call: JsonObject) -> JsonObject:
    function = {name: call["function"][name] for name in ("name", "arguments")}
    plain = {name: value for name, value in call.items() if name in _CALL} | {"function": function}
    return plain | {"id": _plain_id(call["id"])}


def _plain_result(message: bytes) -> bytes:
    if not message.startswith(TOOL_PREFIX) or THOUGHT_MARK.encode() not in message:
        return message
    said = canonical_json.decode(message)
    return canonical_json.encode(said | {"tool_call_id": _plain_id(said["tool_call_id"])})


def _plain_id(sent: str) -> str:
    """The id without a thought signature, which would make it too long for Mistral."""
    return sent.partition(THOUGHT_MARK)[0]


def _names(message: bytes) -> set[str]:
    said = canonical_json.decode(message)
    found = {name for name in said if name not in _PLAIN}
    for call in said.get("tool_calls") or ():
        found |= {name for name in call if name not in _CALL}
        found |= call["function"].keys() - {"name", "arguments"}
    parts = said["content"] if isinstance(said["content"], list) else []
    blocks: list[Json] = [value for name, value in said.items() if name not in _PLAIN] + parts
    for one in (one for value in blocks for one in (value if isinstance(value, list) else [value])):
        if isinstance(one, dict):
            found |= {str(one.get("type") or "text")} - {"text"}
            found |= {"signature"} & one.keys()
    return found


@lru_cache(maxsize=limits.TOOLSETS_KEPT_MAX)
def _with_text(message: bytes, text: str) -> bytes:
    said = canonical_json.decode(message)
    return canonical_json.encode(said | {"content": f"{said['content']}\n\n{text}" if said["content"] else text})


def _text(message: bytes) -> str:
    return str(canonical_json.decode(message)["content"])


# The request of the OpenAI chat API as bytes, and the differences between servers.
#
# Each message of the history was encoded once. A request joins these bytes, so it is not serialised again.

LimitField = Literal["max_tokens", "max_completion_tokens"]

OWN_OPTIONS: Final = frozenset({"model", "messages", "tools", "stream", "stream_options", "n"})
"""Fields that options of a plan cannot set, except `stream: false`."""

LIMIT_FIELDS: Final[tuple[LimitField, ...]] = ("max_tokens", "max_completion_tokens")

_WRONG_ORDER: Final = re.compile(
    r"(?:must|should) alternate|alternate (?:between|user)|alternating|conversation roles|unexpected role"
    r"|invalid_request_message_order|user message after tool|message order|consecutive (?:user|messages)"
    r"|after role|role (?:'user'|user) (?:is not allowed|cannot|must)"
)
"""Phrases of chat templates and Mistral for messages in an order that they do not accept."""

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
"""Phrases for an option that a model does not support, or supports with one value only."""

_TOGETHER: Final = re.compile(r"both|together|use only one")
TOOL_OPTIONS: Final = frozenset(("tool_choice", "parallel_tool_calls"))

_NO_NULL: Final = re.compile(
    r"content type: <nil>|content\W{0,8}(?:field )?(?:is required|cannot be null|must be a (?:valid )?string)"
    r"|content.{0,60}(?:none is not an allowed|input should be a valid string|null value)"
)
"""Phrases of servers that require text in messages of the assistant with calls."""

_NO_EMPTY: Final = re.compile(r"content.{0,60}(?:is empty|must be non-?empty|contain non-whitespace|cannot be empty)")
_TOOLS_TOO: Final = re.compile(
    r"must define tools|expects `?tools|toolconfig"
    r"|tools?\W{0,3} (?:field |param\w* )?must be (?:defined|provided|specified)"
)
"""Phrases of Anthropic and Bedrock: a history with calls requires `tools`, even if no tool may be called any more."""

CALL_PLACEHOLDER: Final = "Calling tools."
PLACEHOLDER_TOOLS: Final = canonical_json.encode(
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
class ChatDialect:
    """What a server accepts, learned from its errors.

    `limit_field` is its name for the longest reply; `is_limit_settled`: an error has shown which one it accepts.
    `output_max` is the longest reply of the model. `is_strict`: roles must alternate. Without `takes_system`, the
    system message moves into the first user message. `is_plain`: it refuses unknown fields. `needs_thoughts`: every
    message with calls needs a `reasoning_content`. `is_streamed` is False if it cannot stream replies. `states_end` is
    True once it has stated why a reply ended. `without` are options of the plan that the model does not support.
    `blank` is the text for messages with calls and no text. `wants_tools`: a history with calls needs a declaration of
    tools.
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
        """The name of the field for the longest reply: that of the plan, unless the server refused it."""
        stated = None if self.is_limit_settled else next((one for one in LIMIT_FIELDS if one in options), None)
        return stated or self.limit_field

    def after(self, status: int, body: bytes, request: ModelRequest) -> ChatDialect | None:
        """The dialect to try after the server refused `request` with `body`; None if no other dialect would help."""
        lower = lower_case_body(body)
        if status in (400, 422, 500) and self.takes_system and _NO_SYSTEM.search(lower):
            return replace(self, takes_system=False)
        if status in (400, 422, 500) and not self.is_strict and _WRONG_ORDER.search(lower):
            return replace(self, is_strict=True)
        if status not in (400, 404, 422, 501):
            return None
        if self.takes_usage_option and ("stream_options" in lower or "include_usage" in lower):
            return replace(self, takes_usage_option=False)
        is_too_long = errors.is_too_long(status, lower)
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

    def _after_fields(self, lower: str, request: ModelRequest) -> ChatDialect | None:
        """The dialect to try if the server may have refused a field of the history, or the lack of one."""
        if self.blank is None and _NO_NULL.search(lower):
            return replace(self, blank="")
        if self.blank != CALL_PLACEHOLDER and _NO_EMPTY.search(lower):
            return replace(self, blank=CALL_PLACEHOLDER)
        if not (self.wants_tools or request.tools) and _TOOLS_TOO.search(lower):
            return replace(self, wants_tools=True)
        is_missing = _MISSING.search(lower) is not None and _FOREIGN.search(lower) is None
        if not self.needs_thoughts and THOUGHTS_FIELD in lower and is_missing:
            return replace(self, needs_thoughts=True, is_plain=False)
        if not (self.is_plain or self.needs_thoughts or is_missing) and _names_one(lower, request):
            return replace(self, is_plain=True)
        return None


def lowered_for_request(
    status: int, body: bytes, request: ModelRequest, dialect: ChatDialect
) -> errors.LoweredLimit | None:
    """The longest reply to ask for instead, after the server refused `request` because its reply could be too long."""
    asked = stated_options(request, dialect)
    stated = next((asked[name] for name in LIMIT_FIELDS if isinstance(asked.get(name), int)), None)
    return errors.lowered_limit(status, lower_case_body(body), stated)


def is_streamed(options: JsonObject) -> bool:
    """Whether the reply is streamed: yes, unless the plan says `stream: false`."""
    return options.get("stream") is not False


def encode_body(model: str, request: ModelRequest, dialect: ChatDialect) -> bytes:
    """The body of `request` in `dialect`; `model` is the provider's own name."""
    messages = strip_foreign_fields(request.messages) if dialect.is_plain else request.messages
    messages = messages if dialect.takes_system else merge_system_into_user(messages)
    messages = add_blank_thoughts(messages) if dialect.needs_thoughts else messages
    messages = alternate_roles(messages) if dialect.is_strict else messages
    messages = messages if dialect.blank is None else add_blank_content(messages, dialect.blank)
    parts = [b'{"model":', canonical_json.encode(model), b',"messages":[', b",".join(messages), b"]"]
    if request.tools:
        parts += [b',"tools":', request.tools]
    elif dialect.wants_tools:
        parts += [b',"tools":', PLACEHOLDER_TOOLS]
    more: JsonObject = {"stream": dialect.is_streamed and is_streamed(request.options)}
    if more["stream"] and dialect.takes_usage_option:
        more["stream_options"] = {"include_usage": True}
    more |= stated_options(request, dialect)
    return b"".join((*parts, b",", canonical_json.encode(more)[1:]))


def stated_options(request: ModelRequest, dialect: ChatDialect) -> JsonObject:
    """The plan's options, with the smallest limit of the reply: that of the plan, of this attempt or of the model.

    Options that the model does not support are left out; without tools, also those about tools.
    """
    left_out = OWN_OPTIONS | dialect.without | (frozenset() if request.tools else TOOL_OPTIONS)
    options = {name: value for name, value in request.options.items() if name not in left_out}
    stated = [options.pop(name) for name in LIMIT_FIELDS if isinstance(options.get(name), int)]
    bounds = [*stated, *([] if request.output_tokens_max is None else [request.output_tokens_max])]
    if bounds and dialect.output_max is not None:
        bounds.append(dialect.output_max)
    return options | ({dialect.limit_name(request.options): min(bounds)} if bounds else {})


def _refused_option(lower: str, options: Iterable[str]) -> str | None:
    """The plan's option that an error text names as unsupported; the last one if two exclude each other."""
    if not _NO_OPTION.search(lower):
        return None
    places = {
        found.start(): name
        for name in options
        if name not in OWN_OPTIONS and name not in LIMIT_FIELDS
        for found in [re.search(rf"(?<![a-z_]){re.escape(name)}(?![a-z_])|{name.replace('_', '')}\b", lower)]
        if found
    }
    if not places:
        return None
    return places[max(places) if _TOGETHER.search(lower) else min(places)]


def _names_one(lower: str, request: ModelRequest) -> bool:
    """Whether an error text names a field that another server or model put into the history."""
    return any(name.lower() in lower for name in foreign_field_names(request.messages))
