"""The history of a conversation in the stricter forms that some servers want. Pure; messages are JSON bytes.

Templates of Mistral, Devstral, Gemma and others let user and assistant alternate and take no user message after the
result of a call; some servers refuse fields that they do not know in the messages of the assistant.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from planloop.schemas import encoding, limits
from planloop.schemas.encoding import Json, JsonObject

SYSTEM: Final = b'{"role":"system"'
USER: Final = b'{"role":"user"'
TOOL: Final = b'{"role":"tool"'
ASSISTANT: Final = b'{"role":"assistant"'
GO_ON: Final = encoding.encode({"role": "user", "content": "Go on."})

THOUGHTS: Final = "reasoning_content"
_PLAIN: Final = frozenset(("role", "content", "tool_calls"))
_CALL: Final = frozenset(("id", "type", "function"))


def followed(before: Sequence[bytes], message: bytes) -> tuple[bytes, ...]:
    """What the last of `before` and `message` become together: one message for two of a user, never two of a model."""
    last = before[-1]
    if last.startswith(USER) and message.startswith(USER):
        return (_with_text(last, _text(message)),)
    if last.startswith(ASSISTANT) and message.startswith(ASSISTANT):
        return (last, GO_ON, message)
    return (last, message)


def with_tail(messages: Sequence[bytes], text: str) -> tuple[bytes, ...]:
    """The messages with `text` at the end of the last one, if that is no model's; else with a message of its own."""
    last = messages[-1]
    if last.startswith((USER, TOOL)):
        return (*messages[:-1], _with_text(last, text))
    return (*messages, encoding.encode({"role": "user", "content": text}))


def alternating(messages: Sequence[bytes]) -> list[bytes]:
    """The messages with those of a user that follow results put at the end of the last result."""
    out: list[bytes] = []
    for message in messages:
        if out and message.startswith(USER) and out[-1].startswith((TOOL, USER)):
            out[-1] = _with_text(out[-1], _text(message))
        else:
            out.append(message)
    return out


def without_system(messages: Sequence[bytes]) -> list[bytes]:
    """The messages with the text of the system's at the beginning of the first one of the user."""
    if not messages[0].startswith(SYSTEM):
        return list(messages)
    first = USER + messages[0].removeprefix(SYSTEM)
    rest = list(messages[1:])
    if rest and rest[0].startswith(USER):
        return [_with_text(first, _text(rest[0])), *rest[1:]]
    return [first, *rest]


def plain(messages: Sequence[bytes]) -> list[bytes]:
    """The messages without the fields that only the provider which sent them knows."""
    return [_plain(one) if one.startswith(ASSISTANT) else one for one in messages]


def with_thoughts(messages: Sequence[bytes]) -> list[bytes]:
    """The messages with a blank `reasoning_content` where one of the assistant has calls and none.

    DeepSeek and Moonshot want it of every such message, also of those that another model wrote.
    """
    return [_with_thoughts(one) if one.startswith(ASSISTANT) else one for one in messages]


def with_blank(messages: Sequence[bytes], text: str) -> list[bytes]:
    """The messages with `text` where one of the assistant has calls and no content."""
    return [_with_blank(one, text) if one.startswith(ASSISTANT) else one for one in messages]


def extra_names(messages: Sequence[bytes]) -> frozenset[str]:
    """The names of those fields, at every depth."""
    found: set[str] = set()
    for message in messages:
        if message.startswith(ASSISTANT):
            found |= _names(message)
    return frozenset(found)


@lru_cache(maxsize=limits.TOOLSETS_KEPT_MAX * 16)
def _plain(message: bytes) -> bytes:
    said = encoding.decode(message)
    kept: JsonObject = {name: value for name, value in said.items() if name in _PLAIN}
    if isinstance(kept.get("content"), list):
        parts = (part for part in kept["content"] if isinstance(part, dict) and part.get("type") == "text")
        kept["content"] = "".join(str(part.get("text", "")) for part in parts) or None
    if kept.get("tool_calls"):
        kept["tool_calls"] = [_plain_call(call) for call in kept["tool_calls"]]
    return encoding.encode(kept)


@lru_cache(maxsize=limits.TOOLSETS_KEPT_MAX * 16)
def _with_thoughts(message: bytes) -> bytes:
    said = encoding.decode(message)
    is_lacking = said.get("tool_calls") and not said.get(THOUGHTS)
    return encoding.encode(said | {THOUGHTS: " "}) if is_lacking else message


@lru_cache(maxsize=limits.TOOLSETS_KEPT_MAX * 16)
def _with_blank(message: bytes, text: str) -> bytes:
    said = encoding.decode(message)
    return message if said.get("content") else encoding.encode(said | {"content": text})


def _plain_call(call: JsonObject) -> JsonObject:
    function = {name: call["function"][name] for name in ("name", "arguments")}
    return {name: value for name, value in call.items() if name in _CALL} | {"function": function}


def _names(message: bytes) -> set[str]:
    said = encoding.decode(message)
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
    said = encoding.decode(message)
    return encoding.encode(said | {"content": f"{said['content']}\n\n{text}" if said["content"] else text})


def _text(message: bytes) -> str:
    return str(encoding.decode(message)["content"])
