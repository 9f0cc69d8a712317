"""The error in a body: where each vendor puts it, its message, and its text to look for words in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from planloop.schemas import encoding, limits
from planloop.schemas.encoding import Json, JsonObject

MASK: Final = "***"
NUMBERS: Final = ("code", "status", "statusCode", "status_code", "type")
"""The names under which a body states which error it is."""

MINIMAX: Final[Mapping[int, int]] = {1002: 429, 1004: 401, 1008: 402, 1039: 429, 2013: 400, 2049: 401, 2056: 429}
"""MiniMax's own numbers in `base_resp`, and the status that each stands for."""

_ESCAPE: Final = re.compile(r"\\+u([0-9a-fA-F]{4})")


def lower_of(body: bytes) -> str:
    """The body in lower case, to look for words in; letters that JSON escapes, at any depth, as themselves."""
    text = body[: limits.OUTPUT_SHOWN_BYTES].decode(errors="replace")
    if "\\u" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    return text.lower()


def error_in(payload: JsonObject) -> Json:
    """The error in a chunk or a whole reply, beside its choices, in one of them, or in their place; else None."""
    if payload.get("error") and (found := _stated(payload)):
        return found
    base = payload.get("base_resp")
    if isinstance(base, dict) and base.get("status_code"):
        code = base["status_code"]
        return {"code": MINIMAX.get(code, code) if isinstance(code, int) else code, "message": base.get("status_msg")}
    choices = payload.get("choices")
    return _in_choices(choices) if choices else _in_place(payload)


def said_in(body: bytes, secrets: Iterable[str] = ()) -> str:
    """The message of an error body without `secrets`, cut to what fits a status; the body itself if it is no JSON."""
    try:
        value = encoding.decode(body)
    except ValueError:
        value = body.decode(errors="replace")
    # Before the cut, which could leave the first half of a key.
    return masked(str(_message(value)), secrets).strip()[: limits.MODEL_ERROR_CHARS]


def masked(text: str, secrets: Iterable[str]) -> str:
    """`text` without any of `secrets`."""
    for secret in secrets:
        text = text.replace(secret, MASK) if secret else text
    return text


def _stated(payload: JsonObject) -> Json:
    """What `error` holds, with the numbers beside it where it is no object; None for an object with nothing in it."""
    error = payload["error"]
    if isinstance(error, dict):
        return error if any(error.values()) else None
    beside = {name: payload[name] for name in (*NUMBERS, "message", "detail", "msg") if payload.get(name)}
    if isinstance(error, str):
        return {"message": error} | beside if beside else error
    return beside or error


def _in_choices(choices: Json) -> Json:
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            inner = choice.get("delta") or choice.get("message")
            found = choice.get("error") or (inner.get("error") if isinstance(inner, dict) else None)
            if found:
                return found
    return None


def _in_place(payload: JsonObject) -> Json:
    """The error of a body without choices."""
    errors, fault = payload.get("errors"), payload.get("fault")
    if isinstance(errors, list) and errors:  # Cloudflare.
        return errors[0]
    if isinstance(fault, dict):  # Apigee.
        detail = fault.get("detail")
        code = detail.get("errorcode") if isinstance(detail, dict) else None
        return {"message": fault.get("faultstring"), "code": code}
    is_error = "error" in (payload.get("object"), payload.get("type"), payload.get("status"))
    is_error = is_error or payload.get("success") is False
    if is_error or any(isinstance(payload.get(name), str) and payload[name] for name in ("message", "detail", "msg")):
        return payload
    return None


def _message(value: Json, depth: int = limits.ERRORS_NESTED_MAX) -> Json:
    """OpenAI nests it under `error`, Ollama has `error: text`, FastAPI `detail`, Gemini puts it in a list.

    OpenRouter keeps what the provider said beside its own message, in `metadata.raw`.
    """
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return _message(value[0], depth)
    if isinstance(value, str) and value.lstrip().startswith("{") and depth:
        try:
            return _message(encoding.decode(value), depth - 1)
        except ValueError:
            return value
    if not isinstance(value, dict):
        return value
    metadata = value.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    for name in ("error", "message", "detail", "msg", "errors", "faultstring"):
        if value.get(name):
            found = _message(value[name], depth)
            return f"{found}: {_message(raw, depth)}" if raw else found
    return value
