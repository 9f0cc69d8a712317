"""What a provider's refusal means, from its status, headers and body.

Only what another attempt can fix is transient. No message holds a key: providers like to quote it back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from planloop.controllers.agent.models import context_limits, waits
from planloop.controllers.agent.models.error_body import NUMBERS, lower_of, said_in
from planloop.controllers.agent.models.port import ModelFailed
from planloop.schemas import encoding
from planloop.schemas.encoding import Json

EXHAUSTED: Final = (
    "insufficient_quota",
    "billing_hard_limit_reached",
    "credit balance is too low",
    "insufficient balance",
    "insufficient credits",
    "exceeded_current_quota_error",  # Moonshot.
    "余额不足",  # Zhipu: too little on the account, and in arrears.
    "欠费",
)
"""Refusals for want of money, whatever their status: no waiting fixes them."""

FILTERED: Final = (
    "content_filter",
    "content management policy",
    "responsibleaipolicyviolation",
    "data_inspection_failed",
    "content policy",
    "content exists risk",  # DeepSeek.
    "prohibited_content",
    "input was flagged",
    "敏感内容",  # Zhipu: sensitive content.
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
    "quotaviolation": 429,
    "too_many_requests": 429,
    "content_filter": 400,
    "content_policy": 400,
    "data_inspection": 400,
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

SPOKEN: Final[Mapping[str, int]] = {"rate limit": 429, "authentication": 401, "unauthorized": 401}
"""The same in a message, where no name says which error it is."""

LOADING: Final = re.compile(r"model is (?:currently |still )?(?:being )?loading")
"""How a 400 or a 404 says that the model will be there soon."""

MOMENTARY: Final = frozenset((409, 424, 425, 499))
"""Statuses below 500 that another attempt may not get: conflict, failed dependency, too early, cancelled."""


def of_status(
    status: int, body: bytes, *, retry_after_s: float | None, cure: str, secrets: Sequence[str] = ()
) -> ModelFailed:
    """The failure that an error status stands for. `cure` is added where the key is the matter."""
    said = said_in(body, secrets)
    text = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    lower = lower_of(body)
    if retry_after_s is None:
        retry_after_s = waits.said_in(lower)
    is_exhausted = any(word in lower for word in EXHAUSTED)
    if status in (400, 403, 422) and any(word in lower for word in FILTERED):
        return ModelFailed("Filtered", text)
    match status:
        case 402:
            return ModelFailed("Refused", f"{text}; the account has to be paid for")
        case _ if is_exhausted:
            return ModelFailed("Refused", f"{text}; the account has nothing left")
        case 401 | 403:
            return ModelFailed("Refused", f"{text}; {cure}")
    if status in (400, 413, 422, 429, 500, 503) and context_limits.is_too_long(status, lower):
        return ModelFailed("ContextTooLong", text)
    reason = _reason(status, lower)
    is_transient = reason != "BadRequest"
    return ModelFailed(reason, text, is_transient=is_transient, retry_after_s=retry_after_s if is_transient else None)


def _reason(status: int, lower: str) -> str:
    """The reason for the other statuses."""
    if status in (400, 422) and (context_limits.is_rate(lower) or "throttling" in lower):
        return "RateLimited"
    if status >= 500 or status in MOMENTARY or (status in (400, 404) and LOADING.search(lower)):
        return "Overloaded"
    return {408: "TimedOut", 429: "RateLimited"}.get(status, "BadRequest")


def in_stream(error: Json, *, cure: str, secrets: Sequence[str] = ()) -> ModelFailed:
    """The failure that an error in a body with status 200 stands for: its code where that is a status, else a 500."""
    body = encoding.encode({"error": _storable(error)})
    return of_status(_status_of(error), body, retry_after_s=None, cure=cure, secrets=secrets)


def _status_of(error: Json) -> int:
    if not isinstance(error, dict):
        return 500
    words = [error[name] for name in NUMBERS if error.get(name)]
    for word in words:
        try:
            status = int(str(word))
        except ValueError:
            continue
        if 400 <= status < 600:
            return status
    names = " ".join(str(word).lower() for word in words)
    found = next((status for name, status in CODES.items() if name in names), None)
    message = str(error.get("message") or "").lower()
    return found or next((status for said, status in SPOKEN.items() if said in message), 500)


def _storable(error: Json) -> Json:
    """The error as JSON has it; as text where it has what no JSON can hold."""
    try:
        encoding.encode(error)
    except ValueError:
        return repr(error)
    return error
