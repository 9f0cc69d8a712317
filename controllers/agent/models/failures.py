"""What a provider's refusal means, from its status, headers and body.

Only what another attempt can fix is transient. No message holds a key: providers like to quote it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controllers.agent.models import context_limits, waits
from controllers.agent.models.port import ModelFailed
from schemas import encoding, limits
from schemas.encoding import Json, JsonObject

MASK: Final = "***"
EXHAUSTED: Final = (
    "insufficient_quota",
    "billing_hard_limit_reached",
    "credit balance is too low",
    "insufficient balance",
)
"""429s that no waiting fixes."""

FILTERED: Final = (
    "content_filter",
    "content management policy",
    "responsibleaipolicyviolation",
    "data_inspection_failed",
)
"""How a provider says that its content filter refused the prompt."""

CODES: Final[Mapping[str, int]] = {
    "authentication": 401,
    "invalid_api_key": 401,
    "unauthenticated": 401,
    "permission": 403,
    "billing": 402,
    "not_found": 404,
    "rate_limit": 429,
    "ratelimit": 429,
    "resource_exhausted": 429,
    "throttling": 429,
    "insufficient_quota": 429,
    "too_many_requests": 429,
    "request_too_large": 413,
    "invalid_request": 400,
    "invalid_argument": 400,
    "badrequest": 400,
    "bad_request": 400,
    "overloaded": 529,
    "unavailable": 503,
    "timeout": 504,
}
"""Parts of the names that errors have in a body, with the status that each stands for."""


def of_status(
    status: int, body: bytes, *, retry_after_s: float | None, cure: str, secrets: Sequence[str] = ()
) -> ModelFailed:
    """The failure that an error status stands for. `cure` is added where the key is the matter."""
    said = said_in(body, secrets)
    text = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    lower = lower_of(body)
    is_exhausted = any(word in lower for word in EXHAUSTED)
    if retry_after_s is None:
        retry_after_s = waits.said_in(body)
    match status:
        case 401 | 403:
            return ModelFailed("Refused", f"{text}; {cure}")
        case 402:
            return ModelFailed("Refused", f"{text}; the account has to be paid for")
        case 429 if is_exhausted:
            return ModelFailed("Refused", f"{text}; the account has nothing left")
    if status in (400, 413, 422, 429, 500, 503) and context_limits.is_too_long(status, lower):
        return ModelFailed("ContextTooLong", text)
    if status in (400, 422) and any(word in lower for word in FILTERED):
        return ModelFailed("Filtered", text)
    reason = {408: "TimedOut", 429: "RateLimited"}.get(status, "Overloaded" if status >= 500 else "BadRequest")
    is_transient = reason != "BadRequest"
    return ModelFailed(reason, text, is_transient=is_transient, retry_after_s=retry_after_s if is_transient else None)


def lower_of(body: bytes) -> str:
    """The body in lower case, to look for words in."""
    return body[: limits.OUTPUT_SHOWN_BYTES].decode(errors="replace").lower()


def in_stream(error: Json, *, cure: str, secrets: Sequence[str] = ()) -> ModelFailed:
    """The failure that an error in a body with status 200 stands for: its code where that is a status, else a 500."""
    body = encoding.encode({"error": _storable(error)})
    return of_status(_status_of(error), body, retry_after_s=None, cure=cure, secrets=secrets)


def error_in(payload: JsonObject) -> Json:
    """The error in a chunk or a whole reply, beside its choices, in the first of them, or in their place; else None."""
    if payload.get("error"):
        return payload["error"]
    choices = payload.get("choices")
    if choices:
        first = choices[0] if isinstance(choices, list) else None
        return first.get("error") or None if isinstance(first, dict) else None
    base = payload.get("base_resp")  # MiniMax has its errors there.
    if isinstance(base, dict) and base.get("status_code"):
        return {"code": base["status_code"], "message": base.get("status_msg")}
    is_error = payload.get("object") == "error" or payload.get("type") == "error"
    if is_error or any(isinstance(payload.get(name), str) and payload[name] for name in ("message", "detail", "msg")):
        return payload
    return None


def _status_of(error: Json) -> int:
    if not isinstance(error, dict):
        return 500
    words = [error[name] for name in ("code", "status", "statusCode", "status_code", "type") if error.get(name)]
    for word in words:
        try:
            status = int(str(word))
        except ValueError:
            continue
        if 400 <= status < 600:
            return status
    names = " ".join(str(word).lower() for word in words)
    return next((status for name, status in CODES.items() if name in names), 500)


def _storable(error: Json) -> Json:
    """The error as JSON has it; as text where it has what no JSON can hold."""
    try:
        encoding.encode(error)
    except ValueError:
        return repr(error)
    return error


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """See `waits.retry_after_s`."""
    return waits.retry_after_s(headers, now)


def said_in(body: bytes, secrets: Iterable[str] = ()) -> str:
    """The message of an error body without `secrets`, cut to what fits a status; the body itself if it is no JSON."""
    try:
        value = encoding.decode(body)
    except ValueError:
        value = body.decode(errors="replace")
    # Before the cut, which could leave the first half of a key.
    return masked(str(_message(value)), secrets).strip()[: limits.MODEL_ERROR_CHARS]


def _message(value: Json) -> Json:
    """OpenAI nests it under `error`, Ollama has `error: text`, FastAPI `detail`, Gemini puts it in a list."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return _message(value[0])
    for name in ("error", "message", "detail", "msg"):
        if isinstance(value, dict) and value.get(name):
            return _message(value[name])
    return value


def masked(text: str, secrets: Iterable[str]) -> str:
    """`text` without any of `secrets`."""
    for secret in secrets:
        text = text.replace(secret, MASK) if secret else text
    return text
