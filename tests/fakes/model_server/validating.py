"""What the vendor of the chat API refuses, as far as it is known: the shape of a request and the order of its messages.

Sources: the published OpenAPI description of the endpoint, and the texts of the errors that people report.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID_CHARS_MAX = 40
TOOLS_MAX = 128
ROLES = frozenset("system developer user assistant tool".split())
MESSAGE_KEYS = {
    "system": frozenset("role content name".split()),
    "developer": frozenset("role content name".split()),
    "user": frozenset("role content name".split()),
    "assistant": frozenset("role content name tool_calls refusal audio".split()),
    "tool": frozenset("role content tool_call_id".split()),
}
BODY_KEYS = frozenset(
    """model messages tools tool_choice parallel_tool_calls stream stream_options max_tokens max_completion_tokens
    temperature top_p n stop seed frequency_penalty presence_penalty response_format reasoning_effort user metadata
    logprobs top_logprobs logit_bias store service_tier prompt_cache_key safety_identifier verbosity""".split()
)
AT_THE_TOP = ("oneOf", "anyOf", "allOf", "enum", "not")


class Invalid(Exception):
    """The request would be answered with 400 and this text."""


def check(body: Any, takes: frozenset[str] = frozenset(), vendor: str = "") -> None:
    """Raises Invalid for a request that the vendor would refuse.

    `takes` are further fields of an assistant's message; `vendor` "mistral" has rules of its own.
    """
    if not isinstance(body, dict):
        raise Invalid("the body is not a JSON object")
    if unknown := sorted(set(body) - BODY_KEYS):
        raise Invalid(f"Unrecognized request argument supplied: {', '.join(unknown)}")
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Invalid("you must provide a model parameter")
    _check_amounts(body)
    if "stream_options" in body and not body.get("stream"):
        raise Invalid("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
    if "tools" in body:
        _check_tools(body["tools"])
    elif "tool_choice" in body or "parallel_tool_calls" in body:
        raise Invalid("'tool_choice' and 'parallel_tool_calls' are only allowed when 'tools' are specified.")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Invalid("'messages' must be a list of at least one message")
    for place, message in enumerate(messages):
        _check_message(f"messages.{place}", message, takes)
    _check_order(messages)
    if vendor == "mistral":
        _check_for_mistral(messages)


def _check_for_mistral(messages: list[dict[str, Any]]) -> None:
    for message in messages:
        for id_ in [message.get("tool_call_id"), *(call["id"] for call in message.get("tool_calls") or ())]:
            if id_ is not None and not re.fullmatch(r"[a-zA-Z0-9]{9}", id_):
                raise Invalid(f"Tool call id was {id_} but must be a-z, A-Z, 0-9, with a length of 9.")
    roles = [message["role"] for message in messages]
    for before, after in pairwise(roles):
        if (before, after) in (("tool", "user"), ("user", "user"), ("assistant", "assistant")):
            raise Invalid(f"Unexpected role '{after}' after role '{before}'")
    if roles[-1] == "assistant":
        raise Invalid("Expected last role User or Tool for serving but got assistant")


def _check_amounts(body: dict[str, Any]) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        if name in body and (not isinstance(body[name], int) or body[name] < 1):
            raise Invalid(f"Invalid '{name}': expected an integer of at least 1")
    if "max_tokens" in body and "max_completion_tokens" in body:
        raise Invalid("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
    heat = body.get("temperature", 1)
    if not isinstance(heat, int | float) or not 0 <= heat <= 2:
        raise Invalid("Invalid 'temperature': expected a number between 0 and 2")


def _check_message(where: str, message: Any, takes: frozenset[str]) -> None:
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise Invalid(f"Invalid value for '{where}.role': supported values are {sorted(ROLES)}")
    role = message["role"]
    if unknown := sorted(set(message) - MESSAGE_KEYS[role] - (takes if role == "assistant" else set())):
        raise Invalid(f"Additional properties are not allowed ({unknown} in '{where}')")
    if "name" in message and not NAME.fullmatch(str(message["name"])):
        raise Invalid(f"Invalid '{where}.name': string does not match pattern '^[a-zA-Z0-9_-]+$'")
    content = message.get("content")
    if role == "assistant" and content is None and not message.get("tool_calls"):
        raise Invalid(f"Invalid value for '{where}.content': expected a string, got null")
    if content is None and role != "assistant":
        raise Invalid(f"Invalid value for '{where}.content': expected a string, got null")
    if content is not None:
        _check_content(where, content)
    if "tool_calls" in message:
        _check_calls(where, message["tool_calls"])


def _check_content(where: str, content: Any) -> None:
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        raise Invalid(f"Invalid type for '{where}.content': expected a string or a list of parts")
    for part in content:
        if not isinstance(part, dict) or part.get("type") not in (
            "text",
            "image_url",
            "input_audio",
            "file",
            "refusal",
        ):
            raise Invalid(f"Invalid value in '{where}.content': every part needs a known 'type'")
        if part["type"] == "text" and not isinstance(part.get("text"), str):
            raise Invalid(f"Missing required parameter: '{where}.content.text'")


def _check_calls(where: str, calls: Any) -> None:
    if not isinstance(calls, list) or not calls:
        raise Invalid(f"Invalid '{where}.tool_calls': empty array. Expected an array with minimum length 1")
    ids = []
    for place, call in enumerate(calls):
        at = f"{where}.tool_calls.{place}"
        if not isinstance(call, dict) or call.get("type") != "function":
            raise Invalid(f"Missing required parameter: '{at}.type'")
        _check_id(f"{at}.id", call.get("id"))
        function = call.get("function")
        if not isinstance(function, dict) or not NAME.fullmatch(str(function.get("name", ""))):
            raise Invalid(f"Invalid '{at}.function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'")
        if not isinstance(function.get("arguments"), str):
            raise Invalid(f"Invalid type for '{at}.function.arguments': expected a string")
        if not _is_object(function["arguments"]):  # As vLLM, llama.cpp and Ollama have it; OpenAI lets it pass.
            raise Invalid(f"Failed to parse '{at}.function.arguments' as a JSON object")
        ids.append(call["id"])
    if len(set(ids)) < len(ids):
        raise Invalid(f"Duplicate ids in '{where}.tool_calls': {ids}")


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _check_id(at: str, id_: Any) -> None:
    if not isinstance(id_, str) or not id_:
        raise Invalid(f"Missing required parameter: '{at}'")
    if len(id_) > ID_CHARS_MAX:
        raise Invalid(f"Invalid '{at}': string too long. Expected a string with maximum length {ID_CHARS_MAX}")


def _check_order(messages: list[dict[str, Any]]) -> None:
    """Every call is answered once, directly after the message that made it."""
    asked: set[str] = set()
    open_: set[str] = set()
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            id_ = message.get("tool_call_id")
            if id_ not in asked:
                text = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
                raise Invalid(f"{text} (messages.{place})")
            if id_ not in open_:
                raise Invalid(f"messages.{place} answers the call '{id_}' a second time")
            open_.discard(id_)
            continue
        _check_answered(open_)
        asked = {call["id"] for call in message.get("tool_calls") or ()}
        open_ = set(asked)
    _check_answered(open_)


def _check_answered(open_: set[str]) -> None:
    if open_:
        text = "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
        raise Invalid(f"{text} 'tool_call_id'. The following did not have response messages: {sorted(open_)}")


def _check_tools(tools: Any) -> None:
    if not isinstance(tools, list) or not 1 <= len(tools) <= TOOLS_MAX:
        raise Invalid(f"Invalid 'tools': expected an array of 1 to {TOOLS_MAX} functions")
    names = []
    for place, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function":
            raise Invalid(f"Missing required parameter: 'tools.{place}.function'")
        name = function.get("name")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise Invalid(f"Invalid 'tools.{place}.function.name': string does not match '^[a-zA-Z0-9_-]+$'")
        if unknown := sorted(set(function) - {"name", "description", "parameters", "strict"}):
            raise Invalid(f"Unknown parameter: 'tools.{place}.function.{unknown[0]}'")
        if not isinstance(function.get("description", ""), str):
            raise Invalid(f"Invalid type for 'tools.{place}.function.description'")
        if "parameters" in function:
            _check_schema(name, function["parameters"])
        names.append(name)
    if len(set(names)) < len(names):
        raise Invalid(f"Tool names must be unique: {sorted(names)}")


def _check_schema(name: str, schema: Any) -> None:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind != "object":
        raise Invalid(f"Invalid schema for function '{name}': schema must be of 'type: \"object\"', got {kind!r}")
    if top := [word for word in AT_THE_TOP if word in schema]:
        raise Invalid(f"Invalid schema for function '{name}': {top[0]} is not permitted at the top level")
    required = schema.get("required", [])
    if not isinstance(schema.get("properties", {}), dict) or not isinstance(required, list):
        raise Invalid(f"Invalid schema for function '{name}': 'properties' is a map and 'required' a list")
    if missing := sorted(set(required) - set(schema.get("properties", {}))):
        raise Invalid(f"Invalid schema for function '{name}': required {missing} are no properties")
    _check_arrays(name, schema)


def _check_arrays(name: str, schema: Any) -> None:
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "array" and "items" not in schema and "prefixItems" not in schema:
        raise Invalid(f"Invalid schema for function '{name}': array schema missing items")
    inner = list((schema.get("properties") or {}).values())
    for word in ("items", "additionalProperties"):
        inner.append(schema.get(word))
    for word in ("anyOf", "oneOf", "allOf"):
        inner += schema.get(word) or []
    for one in (*inner, *(schema.get("$defs") or {}).values()):
        _check_arrays(name, one)
