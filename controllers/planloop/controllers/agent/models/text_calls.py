"""Tool calls that a model wrote as text, in its own notation, because its server did not parse them.

Only calls at the end of a reply and of declared tools count: a notation in the middle of an answer or in a code fence
is an example. The text before the first call stays the text of the reply.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache
from typing import Final, TypeAlias

from planloop.controllers.agent.models import reply_assembly
from planloop.controllers.agent.models.port import ModelCall, ModelReply
from planloop.schemas import canonical_json, limits
from planloop.schemas.canonical_json import Json, JsonObject

_BEGIN: Final = re.compile(
    r"<tool_call>|<(?:\w+:)?(?:function_calls|tool_calls?)>|<invoke\s|<function=|\[TOOL_CALLS\]|<\|python_tag\|>"
    r"|<\|tool_calls_section_begin\|>|<\|tool_call_begin\|>|<\|channel\|>commentary to="
    r"|<｜tool▁calls▁begin｜>|<｜tool▁call▁begin｜>"
)
"""The marks of Hermes and Qwen, MiniMax, Claude, Qwen Coder, Mistral, Llama, Kimi, gpt-oss and DeepSeek."""

_MARKS: Final = re.compile(
    r"</?(?:\w+:)?(?:tool_calls?|function_calls|tools)>|\[/?TOOL_CALLS\]|<\|python_tag\|>|<\|e\w+_id\|>|</?s>"
    r"|<\|tool_calls?(?:_section)?_(?:begin|end)\|>|<｜tool▁calls?▁(?:begin|end)｜>|<\|(?:call|end|return)\|>"
    r"|```|[,;]"
)
_TAGGED: Final = re.compile(
    r"<(?:invoke\s+name=\"(?P<invoke>[^\"]+)\"|function=(?P<function>[^>\s]+))\s*>(?P<body>.*?)</(?:invoke|function)>",
    re.DOTALL,
)
_PARAMETER: Final = re.compile(r"<parameter(?:\s+name=\"([^\"<>]+)\"[^<>]*|=([^<>\s]+))>\n?")
_GLM_NAME: Final = re.compile(r"([\w.:-]+)\s*(?=<arg_key>)")
_GLM_ARGUMENT: Final = re.compile(r"<arg_key>([^<]*)</arg_key>\s*<arg_value>(.*?)</arg_value>\s*", re.DOTALL)
_NAMED: Final = re.compile(
    r"(?:<\|channel\|>commentary to=)?(?:function<｜tool▁sep｜>)?(?:functions\.)?(?P<name>[\w.-]+?)(?::\d+)?\s*"
    r"(?:<\|tool_call_argument_begin\|>|\[(?:CALL_ID\]\w*\[)?ARGS\]|<\|constrain\|>json<\|message\|>|<\|message\|>"
    r"|```json|(?=\{))\s*"
)
_THOUGHTS: Final = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_DECODER: Final = json.JSONDecoder(strict=False)


class TextArguments(dict[str, str]):
    """Arguments in a notation without types, in which every value is text."""


TextOrJson: TypeAlias = JsonObject | str


def calls_from_text(reply: ModelReply, tools: bytes) -> ModelReply:
    """`reply` with the calls in its text as calls, if it has no other calls and was not cut off."""
    if (
        reply.calls
        or not tools
        or reply.finish == reply_assembly.LENGTH
        or len(reply.text) > limits.TEXT_CALLS_CHARS_MAX
    ):
        return reply
    thoughts = _THOUGHTS.match(reply.text)
    after = thoughts.end() if thoughts else 0
    begin = _BEGIN.search(reply.text, after)
    at = begin.start() if begin else _json_at(reply.text, after)
    if at is None or reply.text.count("```", after, at) % 2:
        return reply
    offered = _offered(tools)
    calls = _calls(reply.text[at:])
    if not calls or not all(name in offered for name, _ in calls):
        return reply
    made = tuple(ModelCall("", name, _arguments(given, offered[name])) for name, given in calls)
    return replace(reply, text=reply.text[:at].rstrip(), calls=made, finish=reply_assembly.CALLS)


def _json_at(text: str, after: int) -> int | None:
    """The position of a call in bare JSON, if the text has nothing else: Llama writes calls this way."""
    said = text[after:].strip()
    is_call = said.startswith("{") and said.endswith("}") and re.search(r'\A\{\s*"(?:name|type|function)"', said)
    return text.index("{", after) if is_call else None


@lru_cache(maxsize=limits.TOOLSETS_KEPT_MAX)
def _offered(tools: bytes) -> dict[str, JsonObject]:
    """The parameters of each declared tool, by its name."""
    functions = [tool["function"] for tool in canonical_json.decode(tools)]
    return {one["name"]: (one.get("parameters") or {}).get("properties") or {} for one in functions}


def _calls(text: str) -> list[tuple[str, TextOrJson]]:
    """The calls of `text` in order, as names and arguments; none if the text contains anything else."""
    found: list[tuple[str, TextOrJson]] = []
    while text := _stripped(text):
        calls, text = _next(text)
        found += calls
        if not calls or len(found) > limits.TEXT_CALLS_MAX:
            return []
    return found


def _stripped(text: str) -> str:
    """`text` without the marks around calls."""
    text = text.strip()
    while found := _MARKS.match(text):
        text = text[found.end() :].lstrip()
    return text


def _next(text: str) -> tuple[list[tuple[str, TextOrJson]], str]:
    """The calls at the beginning of `text`, and the rest of it; no calls if it begins with anything else."""
    if text.startswith(("{", "[")):
        value, end = _value(text)
        return [_in_json(one) for one in (value if isinstance(value, list) else [value])], text[end:]
    if tagged := _TAGGED.match(text):
        body = tagged["body"].strip()
        given = body if body.startswith("{") else _parameters(body)
        return [(tagged["invoke"] or tagged["function"], given)], text[tagged.end() :]
    if glm := _GLM_NAME.match(text):
        at, given = glm.end(), TextArguments()
        while argument := _GLM_ARGUMENT.match(text, at):
            given[argument[1].strip()] = argument[2]
            at = argument.end()
        return [(glm[1], given)], text[at:]
    if named := _NAMED.match(text):
        value, end = _value(text[named.end() :])
        return ([(named["name"], value)] if isinstance(value, dict) else []), text[named.end() + end :]
    return [], ""


def _in_json(value: Json) -> tuple[str, TextOrJson]:
    """Name and arguments of a call in JSON; an empty name for any other value."""
    if isinstance(value, dict) and isinstance(value.get("function"), dict):
        value = value["function"]
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return "", ""
    arguments = next((value[name] for name in ("arguments", "parameters", "input") if name in value), None)
    return (value["name"], arguments) if isinstance(arguments, dict | str) else ("", "")


def _value(text: str) -> tuple[Json, int]:
    try:
        return _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None, 0


def _parameters(body: str) -> TextArguments:
    """The parameters between their tags. One regular expression would be slow on tags that are not closed."""
    given, at = TextArguments(), 0
    while found := _PARAMETER.search(body, at):
        end = body.find("</parameter>", found.end())
        if end < 0:
            break
        given[found[1] or found[2]] = body[found.end() : end].removesuffix("\n")
        at = end
    return given


def _arguments(given: TextOrJson, properties: JsonObject) -> str:
    """Arguments as JSON; arguments without types are converted to the types of their parameters."""
    if isinstance(given, str):
        return given
    if isinstance(given, TextArguments):
        given = {name: _as_wanted(value, properties.get(name)) for name, value in given.items()}
    return canonical_json.encode_text(given)


def _as_wanted(value: str, wanted: Json) -> Json:
    if isinstance(wanted, dict) and wanted.get("type") not in (None, "string"):
        try:
            return canonical_json.decode(value)
        except ValueError:
            return value
    return value
