"""What a provider's refusal means, from its status, headers and body.

Only what another attempt can heal is transient. No message holds a key: providers like to quote it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Final

from controllers.agent.models.port import ModelFailed
from schemas import encoding, limits
from schemas.encoding import Json

MASK: Final = "***"
TOO_LONG: Final = (
    "context_length_exceeded",
    "exceed_context_size",
    "maximum context length",
    "context window",
    "context length",
    "context size",
    "prompt is too long",
    "input is too long",
    "too many tokens",
)
"""How OpenAI, vLLM, llama.cpp, Anthropic's and Google's compatible APIs say that the prompt does not fit."""

EXHAUSTED: Final = ("insufficient_quota", "billing_hard_limit_reached", "credit balance is too low")
"""429s that no waiting heals."""


def of_status(
    status: int, body: bytes, *, retry_after_s: float | None, cure: str, secrets: Sequence[str] = ()
) -> ModelFailed:
    """The failure that an error status stands for. `cure` is added where the key is the matter."""
    said = masked(said_in(body), secrets)
    text = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    lower = body[: limits.OUTPUT_SHOWN_BYTES].decode(errors="replace").lower()
    match status:
        case 401 | 403:
            return ModelFailed("Refused", f"{text}; {cure}")
        case 402:
            return ModelFailed("Refused", f"{text}; the account has to be paid for")
        case 408:
            return ModelFailed("TimedOut", text, is_transient=True, retry_after_s=retry_after_s)
        case 429 if any(word in lower for word in EXHAUSTED):
            return ModelFailed("Refused", f"{text}; the account has nothing left")
        case 429:
            return ModelFailed("RateLimited", text, is_transient=True, retry_after_s=retry_after_s)
    if status in (400, 413, 422, 500) and any(word in lower for word in TOO_LONG):
        return ModelFailed("ContextTooLong", text)
    if status >= 500:
        return ModelFailed("Overloaded", text, is_transient=True, retry_after_s=retry_after_s)
    return ModelFailed("BadRequest", text)


def in_stream(error: Json, *, cure: str, secrets: Sequence[str] = ()) -> ModelFailed:
    """The failure that an error in the middle of a stream stands for: its code when it is a status, else a 500."""
    code = error.get("code") or error.get("status") if isinstance(error, dict) else None
    try:
        status = int(str(code))
    except ValueError:
        status = 429 if "rate_limit" in str(code) else 500
    status = status if 400 <= status < 600 else 500
    return of_status(status, encoding.encode({"error": error}), retry_after_s=None, cure=cure, secrets=secrets)


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that a provider asks to wait, from its headers by lower-case name: milliseconds, seconds or a date.

    RFC 9110, 10.2.3; `retry-after-ms` is what OpenAI and Azure send besides. None: it does not say.
    """
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        stated = headers.get("retry-after", "")
        return max(0.0, float(stated)) if stated else None
    except ValueError:
        return _until(headers.get("retry-after", ""), now)


def _until(stated: str, now: float) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(stated).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def said_in(body: bytes) -> str:
    """The message of an error body, cut to what fits a status; the body itself when it is no JSON."""
    try:
        value = encoding.decode(body)
    except ValueError:
        value = body.decode(errors="replace")
    return str(_message(value)).strip()[: limits.MODEL_ERROR_CHARS]


def _message(value: Json) -> Json:
    """OpenAI nests it under `error`, Ollama has `error: text`, FastAPI `detail`."""
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(name):
            return _message(value[name])
    return value


def masked(text: str, secrets: Iterable[str]) -> str:
    """`text` without any of `secrets`."""
    for secret in secrets:
        text = text.replace(secret, MASK) if secret else text
    return text
