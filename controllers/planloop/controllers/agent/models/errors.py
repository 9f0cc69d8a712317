"""Classify a provider's error by its status, headers and body: retry, wait, shorten the prompt or fail."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Final

from planloop.controllers.agent.models.port import ModelFailed
from planloop.schemas import canonical_json, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen

# How long a provider asks to wait, from the headers or the body of an error, in each form that is in use.

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_UNIT: Final = r"(?:ms|millis\w*|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])"
_SPAN: Final = re.compile(rf"(?<![\d.])(\d+(?:\.\d+)?)\s?({_UNIT})")
_SPANS: Final = rf"(?:\d+(?:\.\d+)?\s?{_UNIT}\s?)+"
_WAIT_IN_TEXT: Final = re.compile(
    rf"(?:try|retry|wait)(?: again)?(?: in| after)?(?: for)?(?: about)?\W{{1,3}}({_SPANS})"
    rf'|retry_?delay[\\"]*\s*:\s*[\\"]*({_SPANS})'
)
_WAIT_FIELD: Final = re.compile(
    r'(?:retry_?after(_?ms)?(?:_?s(?:ec(?:ond)?s?)?)?|estimated_time)[\\"]*\s*:\s*[\\"]*(-?\d+(?:\.\d+)?)(?![\w.])'
)
_CHINESE: Final = re.compile(r"(?<!\d)(\d{1,9}(?:\.\d{1,9})?)\s?(秒|分钟|小时)\s?(?:后|再)")  # "After 30 seconds."
_CHINESE_UNITS: Final = {"秒": 1.0, "分钟": 60.0, "小时": 3_600.0}
_SEVERAL: Final = re.compile(r"([-+.\deE]{1,20})\s*,[\s,.\d]*")  # A header that came more than once.
EPOCH_FROM: Final = 1e9
"""From this many seconds on, a number is a Unix time: no provider asks for a wait of thirty years."""


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that a provider asks to wait, from its headers by lower-case name; None if they state no time.

    OpenAI and Azure also send `retry-after-ms`. `retry-after` has seconds or a date (RFC 9110, 10.2.3); some gateways
    send an ISO date or a time since 1970. OpenRouter sends only the time at which its limit is reset.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    for name in ("retry-after", "x-ratelimit-reset-after", "x-ratelimit-reset"):
        found = _read(headers.get(name, "")[: limits.VALUE_SHOWN_CHARS].strip().strip('"'), now)
        if found is not None:
            return found
    return None


def wait_in_text(text: str) -> float | None:
    """The seconds that an error text, in lower case, asks to wait: `try again in 6.2s`, `"retrydelay": "34s"`."""
    text = text[: limits.OUTPUT_SHOWN_BYTES]
    if found := _WAIT_IN_TEXT.search(text):
        return _sum_of(found[1] or found[2])
    if found := _WAIT_FIELD.search(text):
        return max(0.0, float(found[2]) / (1000 if found[1] else 1))
    found = _CHINESE.search(text)
    return float(found[1]) * _CHINESE_UNITS[found[2]] if found else None


def _read(stated: str, now: float) -> float | None:
    several = _SEVERAL.fullmatch(stated)
    stated = several[1] if several else stated
    seconds = _number(stated)
    if seconds is not None:
        return _since_1970(seconds, now)
    return _until(stated, now)


def _sum_of(spans: str) -> float:
    found = _SPAN.findall(spans.lower())
    return sum(float(count) * _UNITS["ms" if unit.startswith(("ms", "mil")) else unit[0]] for count, unit in found)


def _number(stated: str) -> float | None:
    try:
        number = float(stated)
    except ValueError:
        return None
    is_plain = "_" not in stated and (isfinite(number) or number > 0)
    return number if is_plain else None


def _since_1970(stated: float, now: float) -> float:
    if not isfinite(stated) or stated < EPOCH_FROM:
        return max(0.0, stated)
    return max(0.0, (stated / 1000 if stated > EPOCH_FROM * 1000 else stated) - now)


def _until(stated: str, now: float) -> float | None:
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            at = read(stated)
            return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now)
        except (ValueError, OverflowError, IndexError, TypeError):
            continue
    return None


# The error in a body: where each vendor puts it, its message, and the text that is searched for known phrases.

SECRET_MASK: Final = "***"
ERROR_NUMBERS: Final = ("code", "status", "statusCode", "status_code", "type")
"""The names of fields that identify the error in a body."""

MINIMAX_STATUSES: Final[Mapping[int, int]] = {
    1002: 429,
    1004: 401,
    1008: 402,
    1039: 429,
    2013: 400,
    2049: 401,
    2056: 429,
}
"""MiniMax's own numbers in `base_resp`, and the HTTP status that each means."""

_ESCAPE: Final = re.compile(r"\\+u([0-9a-fA-F]{4})")


def lower_case_body(body: bytes) -> str:
    """The body in lower case, to search for phrases; letters that JSON escapes, at any depth, are unescaped."""
    text = body[: limits.OUTPUT_SHOWN_BYTES].decode(errors="replace")
    if "\\u" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    return text.lower()


def find_error(payload: JsonObject) -> Json:
    """The error in a chunk or a whole reply: next to its choices, inside one, or instead of them; else None."""
    if payload.get("error") and (found := _stated(payload)):
        return found
    base = payload.get("base_resp")
    if isinstance(base, dict) and base.get("status_code"):
        code = base["status_code"]
        return {
            "code": MINIMAX_STATUSES.get(code, code) if isinstance(code, int) else code,
            "message": base.get("status_msg"),
        }
    choices = payload.get("choices")
    return _in_choices(choices) if choices else _in_place(payload)


def error_message(body: bytes, secrets: Iterable[str] = ()) -> str:
    """The message of an error body without `secrets`, shortened for a status; the body itself if it is not JSON."""
    try:
        value = canonical_json.decode(body)
    except ValueError:
        value = body.decode(errors="replace")
    # Masked before it is shortened: otherwise the first half of a key could remain.
    return mask_secrets(str(_message(value)), secrets).strip()[: limits.MODEL_ERROR_CHARS]


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """`text` without any of `secrets`."""
    for secret in secrets:
        text = text.replace(secret, SECRET_MASK) if secret else text
    return text


def _stated(payload: JsonObject) -> Json:
    """The value of `error`. If it is not an object, fields next to it are added; None if it is an empty object."""
    error = payload["error"]
    if isinstance(error, dict):
        return error if any(error.values()) else None
    neighbours = {name: payload[name] for name in (*ERROR_NUMBERS, "message", "detail", "msg") if payload.get(name)}
    if isinstance(error, str):
        return {"message": error} | neighbours if neighbours else error
    return neighbours or error


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
    """The message in an error: OpenAI nests it in `error`, Ollama has `error: text`, FastAPI `detail`, Gemini a list.

    OpenRouter adds the provider's own error to its message, in `metadata.raw`.
    """
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return _message(value[0], depth)
    if isinstance(value, str) and value.lstrip().startswith("{") and depth:
        try:
            return _message(canonical_json.decode(value), depth - 1)
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


# Errors about length, in the phrases of each provider: the prompt does not fit, or the requested reply is too long.
#
# If a prompt does not fit, the agent compacts its transcript. If `max_tokens` is too large, the adapter lowers it and
# sends the request again: nothing was generated, so nothing is billed.

TOO_LONG_WORDS: Final = re.compile(
    "|".join(
        (
            r"context_length_exceeded|exceed_context_size|context_?window_?exceeded|tokens_limit_reached",
            r"string_above_max_length|prompt_tokens_exceeded|prompttoolong|token limit exceeded",
            r"context (?:length|size|window|limit)|long context",  # Most say one of these.
            r"(?:prompt|input|request|conversation|message|text)\w*(?: tokens?)?(?: is| are| was)? too (?:long|large)",
            r"messages?[\w.\[\]]{0,40}\W{0,8}: (?:string|array) too long",  # OpenAI, of one message, or of too many.
            r"exceed(?:s|ed)? (?:the |its )?(?:context|max(?:imum)?(?: allowed| input| message| prompt)?)"
            r" ?(?:limit|length|size|tokens)|request_too_large|body too large|payload (?:size )?exceeds",
            r"maximum prompt length|longer than the (?:model'?s )?(?:maximum|context)|exceeded model token limit",
            r"token[_s]? ?count[^.]{0,60} exceeds?|input tokens?[^.]{0,30} exceed|too many (?:input )?tokens",
            r"(?:input|prompt|messages?)(?: sequence| text)? length[^.]{0,60} exceed",
            r"number of input tokens[^.]{0,30} cannot",  # Watsonx.
            r"max_(?:num_tokens|seq_len|kv_size|input_(?:tokens|length)|model_len)\b",  # TensorRT, MLX, SiliconFlow.
            r"`?inputs`? (?:tokens \+ `?max_new_tokens`? must be|must have less than)",  # TGI and Together.
            r"reduce (?:the|your) (?:length of the )?(?:messages?|prompt|input|message size)",  # Groq, Cerebras.
            r"range of input length|(?:prompt|input) exceeds? max|input or output tokens must be reduced",
            r"current length is \d+ while limit|max(?:imum)? length of (?:current )?question",  # Cerebras, Baidu.
            r"total length of the messages",
            r"trop long|zu lang|demasiado larg|muito long[oa]|長すぎ",  # French, German, Spanish, Portuguese, Japanese.
            r"(?:longueur|contexte|longitud|contexto)[^.]{0,60}(?:dépass|exced|supera)",
            r"(?:dépass|exced|supera)[^.]{0,60}(?:longueur|contexte|longitud|contexto)",
            r"超长|过长|(?:长度|token|上下文)[^。]{0,20}超[过出限]",  # Chinese.
            r"超[过出][^。]{0,20}(?:长度|token|上下文)",
        )
    )
)
NEVER_FITS_WORDS: Final = re.compile(
    r"request too large|input or output tokens must be reduced|reduce your message size|for long context requests"
)
"""Phrases of rate limits that mean the request is larger than the allowance of a minute (OpenAI, Groq)."""

_RATE_WORDS: Final = re.compile(r"please wait|throttl|per (?:minute|day|hour)|rate[ _]?limit")
"""Phrases of a rate limit, after which the same request can succeed: Bedrock says `Too many tokens, please wait`."""

_RATE: Final = re.compile(r"limit:? (\d+),? (?:used:? \d+,? )?requested:? (\d+)")
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NUMBER: Final = r"`?(\d+)`?"
_OF_REPLY: Final = re.compile(
    r"max_?(?:completion_?|new_?|output_?)?tokens|max(?:imum)? tokens|(?:completion|output) tokens"
)
_OF_MODEL: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"at most {_NUMBER} (?:completion|output) tokens",  # OpenAI.
        rf"less (?:than )?or equal to {_NUMBER}",  # Groq, Fireworks.
        r"\[\d+,\s*(\d+)\]",  # DeepSeek, DashScope: a range.
        r"(?<!\d)\d{1,12} > (\d{1,12}), which is the maximum",  # Anthropic.
        rf"(?:model limit|maximum|limit) (?:of|is) {_NUMBER}",  # Bedrock.
        rf"(?:must|can|should)(?:not| not)? be (?:at most|<=|no more than|greater than|less than|lower than) {_NUMBER}",
        rf"<= {_NUMBER}",  # OpenAI: an integer above the largest value.
        rf"between \d+ and {_NUMBER}",
        rf"(?:cannot|can't|must not|may not) exceed {_NUMBER}",
        rf"supports? (?:only )?(?:up to|at most|a maximum of) {_NUMBER}",
    )
)
_ALONE: Final = re.compile(r"(?<![\w.-])\d{1,9}(?![\w-])")
_BOUND: Final = re.compile(
    r"exceed|maximum|too (?:large|high|big|many)|above|limit|up to|larger|greater|smaller|at most|超|最大"
)
_UNKNOWN: Final = re.compile(r"unsupported|not supported|unrecognized|unknown|unexpected|instead")
_EXCLUSIVE: Final = re.compile(r"(?<!\d)(\d{1,12}) \(exclusive\)")  # Gemini.
_LEFT: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"> (?P<window>\d+) - (?P<prompt>\d+)",  # vLLM.
        r"context length is (?P<window>\d+)[^(]*requested (?:about )?(?P<total>\d+) tokens",  # OpenAI, OpenRouter.
        r"context length of (?P<window>\d+) tokens\. you requested a total of (?P<total>\d+) tokens",  # SGLang.
        r"context length is (?P<window>\d+) tokens and your request has (?P<prompt>\d+) input tokens",  # vLLM.
        r"passed (?P<prompt>\d+) input tokens[^.]*\.[^.]*context length is only (?P<window>\d+)",  # vLLM.
        r"must be <= (?P<window>\d+)\. given: (?P<prompt>\d+) `?inputs",  # TGI and Together.
        r"max_total_tokens \((?P<total>\d+)\) must be .{0,30}max_seq_len \((?P<window>\d+)",  # SiliconFlow.
        r"model token limit: (?P<window>\d+) \(requested: (?P<total>\d+)\)",  # Moonshot.
        r"(?<!\d)(?P<prompt>\d{1,12}) \+ \d{1,12} > (?P<window>\d{1,12})",  # Anthropic.
    )
)
"""The window, with the tokens of the prompt or those of prompt and reply together."""

_AT_LEAST: Final = re.compile(r"at least \d+ input tokens")  # vLLM stops counting at the end of the window.
_AFFORDED: Final = re.compile(r"can only afford (\d+)")  # OpenRouter, if little is left on the account.


@frozen
class LoweredLimit:
    """The longest reply to ask for instead. `is_models`: it is the limit of the model, not of this prompt only."""

    tokens: int
    is_models: bool


def is_too_long(status: int, text: str) -> bool:
    """Whether an error text, in lower case, means that the prompt is too long for the model or its rate limit."""
    if status == 413:
        return True
    if status == 429:
        return NEVER_FITS_WORDS.search(text) is not None or _rate_of(text) is not None
    return TOO_LONG_WORDS.search(text) is not None and not is_rate_limit(text)


def is_rate_limit(text: str) -> bool:
    """Whether an error text, in lower case, is that of a rate limit, after which the same request can succeed."""
    return _RATE_WORDS.search(text) is not None


def lowered_limit(status: int, text: str, asked: int | None) -> LoweredLimit | None:
    """The reply length to ask for instead of `asked` tokens, from an error text in lower case.

    None if the error is not about the length of the reply, or if the reply would be too short to be useful: then the
    prompt is too long.
    """
    if asked is None or status not in (400, 402, 413, 422, 429, 500):
        return None
    text = _THOUSANDS.sub("", text)
    match status:
        case 402:
            found = _afforded(text)
        case 413 | 429:
            found = _rate_left(text, asked) or _left(text, asked)
        case _:
            found = _left(text, asked) or _models(text, asked)
    if found is None and status in (400, 422) and re.search(r"max\w*_tokens[^.]{0,20} too (?:large|high|big)", text):
        found = LoweredLimit(asked // 2, is_models=True)
    is_useful = found is not None and limits.OUTPUT_TOKENS_MIN <= found.tokens < asked
    return found if is_useful else None


def _left(text: str, asked: int) -> LoweredLimit | None:
    """What the prompt leaves of the window; half of `asked` if the server did not count the whole prompt."""
    for pattern in _LEFT:
        if found := pattern.search(text):
            numbers = {name: int(number) for name, number in found.groupdict().items()}
            prompt = numbers["prompt"] if "prompt" in numbers else numbers["total"] - asked
            return LoweredLimit(numbers["window"] - prompt, is_models=False) if prompt >= 0 else None
    return LoweredLimit(asked // 2, is_models=False) if _AT_LEAST.search(text) else None


def _afforded(text: str) -> LoweredLimit | None:
    """What the account can pay for; the least if the text has several numbers."""
    found = [int(one) for one in _AFFORDED.findall(text)]
    return LoweredLimit(min(found), is_models=False) if found else None


def _models(text: str, asked: int) -> LoweredLimit | None:
    """The longest reply of the model; in unknown phrases, the only number smaller than `asked`."""
    if not _OF_REPLY.search(text):
        return None
    plain = text.replace("`", "")
    if found := _EXCLUSIVE.search(plain):
        return LoweredLimit(int(found[1]) - 1, is_models=True)
    found = next((one for pattern in _OF_MODEL if (one := pattern.search(plain))), None)
    if found is not None:
        return LoweredLimit(int(found[1]), is_models=True)
    smaller = {int(one) for one in _ALONE.findall(plain) if limits.OUTPUT_TOKENS_MIN <= int(one) < asked}
    is_bound = len(smaller) == 1 and _BOUND.search(plain) and not _UNKNOWN.search(plain)
    return LoweredLimit(smaller.pop(), is_models=True) if is_bound else None


def _rate_left(text: str, asked: int) -> LoweredLimit | None:
    """What the prompt leaves of the tokens of a minute, if the reply counts too."""
    rate = _rate_of(text)
    return None if rate is None else LoweredLimit(rate[0] - (rate[1] - asked), is_models=False)


def _rate_of(text: str) -> tuple[int, int] | None:
    """The tokens of a minute and those of the request, if the request is larger and so can never succeed."""
    found = _RATE.search(_THOUSANDS.sub("", text))
    return (int(found[1]), int(found[2])) if found and int(found[2]) > int(found[1]) else None


# What an error response means, by its status, headers and body.
#
# A failure is transient only if another attempt can succeed. Messages are masked, because providers quote keys in them.

QUOTA_ERRORS: Final = (
    "insufficient_quota",
    "billing_hard_limit_reached",
    "credit balance is too low",
    "insufficient balance",
    "insufficient credits",
    "exceeded_current_quota_error",  # Moonshot.
    "余额不足",  # Zhipu: insufficient balance.
    "欠费",  # Zhipu: in arrears.
)
"""Phrases that mean the account has no money left, with any status. Waiting does not help."""

FILTER_ERRORS: Final = (
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
"""Phrases that mean the content filter of the provider refused the prompt."""

STATUS_BY_CODE: Final[Mapping[str, int]] = {
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
"""Parts of error names in a body, with the HTTP status that each means."""

STATUS_BY_WORDS: Final[Mapping[str, int]] = {"rate limit": 429, "authentication": 401, "unauthorized": 401}
"""The same for the message of an error without a name."""

MODEL_LOADING: Final = re.compile(r"model is (?:currently |still )?(?:being )?loading")
"""The phrase by which a 400 or 404 says that the model is still loading."""

MOMENTARY_STATUSES: Final = frozenset((409, 424, 425, 499))
"""Statuses below 500 after which another attempt may succeed: conflict, failed dependency, too early, cancelled."""


def failure_of_status(
    status: int, body: bytes, *, retry_after_s: float | None, key_hint: str, secrets: Sequence[str] = ()
) -> ModelFailed:
    """The failure that an error status means. `key_hint` is added to the message if the key was refused."""
    message = error_message(body, secrets)
    text = f"HTTP {status}: {message}" if message else f"HTTP {status}"
    lower = lower_case_body(body)
    if retry_after_s is None:
        retry_after_s = wait_in_text(lower)
    is_exhausted = any(word in lower for word in QUOTA_ERRORS)
    if status in (400, 403, 422) and any(word in lower for word in FILTER_ERRORS):
        return ModelFailed("Filtered", text)
    match status:
        case 402:
            return ModelFailed("Refused", f"{text}; add credit to the account")
        case _ if is_exhausted:
            return ModelFailed("Refused", f"{text}; the account has no credit left")
        case 401 | 403:
            return ModelFailed("Refused", f"{text}; {key_hint}")
    if status in (400, 413, 422, 429, 500, 503) and is_too_long(status, lower):
        return ModelFailed("ContextTooLong", text)
    reason = _reason(status, lower)
    is_transient = reason != "BadRequest"
    return ModelFailed(reason, text, is_transient=is_transient, retry_after_s=retry_after_s if is_transient else None)


def _reason(status: int, lower: str) -> str:
    """The reason for the other statuses."""
    if status in (400, 422) and (is_rate_limit(lower) or "throttling" in lower):
        return "RateLimited"
    if status >= 500 or status in MOMENTARY_STATUSES or (status in (400, 404) and MODEL_LOADING.search(lower)):
        return "Overloaded"
    return {408: "TimedOut", 429: "RateLimited"}.get(status, "BadRequest")


def failure_in_stream(error: Json, *, key_hint: str, secrets: Sequence[str] = ()) -> ModelFailed:
    """The failure that an error in a body with status 200 means. Its status is the error's code, or else 500."""
    body = canonical_json.encode({"error": _storable(error)})
    return failure_of_status(_status_of(error), body, retry_after_s=None, key_hint=key_hint, secrets=secrets)


def _status_of(error: Json) -> int:
    if not isinstance(error, dict):
        return 500
    words = [error[name] for name in ERROR_NUMBERS if error.get(name)]
    for word in words:
        try:
            status = int(str(word))
        except ValueError:
            continue
        if 400 <= status < 600:
            return status
    names = " ".join(str(word).lower() for word in words)
    found = next((status for name, status in STATUS_BY_CODE.items() if name in names), None)
    message = str(error.get("message") or "").lower()
    return found or next((status for phrase, status in STATUS_BY_WORDS.items() if phrase in message), 500)


def _storable(error: Json) -> Json:
    """The error as JSON; as text if JSON cannot represent it."""
    try:
        canonical_json.encode(error)
    except ValueError:
        return repr(error)
    return error
