"""What a provider's error means, from its status, headers and body: retry, wait, shorten or give up."""

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

# How long a provider asks to wait, from the headers or the body of a refusal, in each form that is in use.

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_UNIT: Final = r"(?:ms|millis\w*|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])"
_SPAN: Final = re.compile(rf"(?<![\d.])(\d+(?:\.\d+)?)\s?({_UNIT})")
_SPANS: Final = rf"(?:\d+(?:\.\d+)?\s?{_UNIT}\s?)+"
_SAID: Final = re.compile(
    rf"(?:try|retry|wait)(?: again)?(?: in| after)?(?: for)?(?: about)?\W{{1,3}}({_SPANS})"
    rf'|retry_?delay[\\"]*\s*:\s*[\\"]*({_SPANS})'
)
_FIELD: Final = re.compile(
    r'(?:retry_?after(_?ms)?(?:_?s(?:ec(?:ond)?s?)?)?|estimated_time)[\\"]*\s*:\s*[\\"]*(-?\d+(?:\.\d+)?)(?![\w.])'
)
_CHINESE: Final = re.compile(r"(?<!\d)(\d{1,9}(?:\.\d{1,9})?)\s?(秒|分钟|小时)\s?(?:后|再)")  # "After 30 seconds."
_CHINESE_UNITS: Final = {"秒": 1.0, "分钟": 60.0, "小时": 3_600.0}
_SEVERAL: Final = re.compile(r"([-+.\deE]{1,20})\s*,[\s,.\d]*")  # A header that came more than once.
EPOCH_FROM: Final = 1e9
"""From this many seconds on, a number is a Unix time: no provider asks to wait for thirty years."""


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that a provider asks to wait, from its headers by lower-case name; None: it does not say.

    `retry-after-ms` is what OpenAI and Azure send besides. `retry-after` holds seconds or a date (RFC 9110, 10.2.3),
    at some gateways an ISO date or a time since 1970. OpenRouter has only a time at which its limit is reset. Anything
    else says nothing.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    for name in ("retry-after", "x-ratelimit-reset-after", "x-ratelimit-reset"):
        found = _read(headers.get(name, "")[: limits.VALUE_SHOWN_CHARS].strip().strip('"'), now)
        if found is not None:
            return found
    return None


def wait_in_text(said: str) -> float | None:
    """The seconds that a refusal, in lower case, asks to wait: `Please try again in 6.2s`, `"retryDelay": "34s"`."""
    said = said[: limits.OUTPUT_SHOWN_BYTES]
    if found := _SAID.search(said):
        return _sum_of(found[1] or found[2])
    if found := _FIELD.search(said):
        return max(0.0, float(found[2]) / (1000 if found[1] else 1))
    found = _CHINESE.search(said)
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


# The error in a body: where each vendor puts it, its message, and its text to look for words in.

SECRET_MASK: Final = "***"
ERROR_NUMBERS: Final = ("code", "status", "statusCode", "status_code", "type")
"""The names under which a body states which error it is."""

MINIMAX_STATUSES: Final[Mapping[int, int]] = {
    1002: 429,
    1004: 401,
    1008: 402,
    1039: 429,
    2013: 400,
    2049: 401,
    2056: 429,
}
"""MiniMax's own numbers in `base_resp`, and the status that each stands for."""

_ESCAPE: Final = re.compile(r"\\+u([0-9a-fA-F]{4})")


def lower_case_body(body: bytes) -> str:
    """The body in lower case, to look for words in; letters that JSON escapes, at any depth, as themselves."""
    text = body[: limits.OUTPUT_SHOWN_BYTES].decode(errors="replace")
    if "\\u" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    return text.lower()


def find_error(payload: JsonObject) -> Json:
    """The error in a chunk or a whole reply, beside its choices, in one of them, or in their place; else None."""
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
    """The message of an error body without `secrets`, cut to what fits a status; the body itself if it is no JSON."""
    try:
        value = canonical_json.decode(body)
    except ValueError:
        value = body.decode(errors="replace")
    # Before the cut, which could leave the first half of a key.
    return mask_secrets(str(_message(value)), secrets).strip()[: limits.MODEL_ERROR_CHARS]


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """`text` without any of `secrets`."""
    for secret in secrets:
        text = text.replace(secret, SECRET_MASK) if secret else text
    return text


def _stated(payload: JsonObject) -> Json:
    """What `error` holds, with the numbers beside it where it is no object; None for an object with nothing in it."""
    error = payload["error"]
    if isinstance(error, dict):
        return error if any(error.values()) else None
    beside = {name: payload[name] for name in (*ERROR_NUMBERS, "message", "detail", "msg") if payload.get(name)}
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

    OpenRouter keeps what the provider said beside its own message, in `snapshot.raw`.
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


# Refusals for length, in the words of each provider: a prompt that does not fit, or a reply that may not be so long.
#
# A prompt that does not fit is made shorter by the agent. A `max_tokens` that is too large is lowered by the adapter,
# which asks again at once: nothing was generated, so nothing is billed.

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
"""Of a rate of tokens: OpenAI and Groq say so of a request that is larger than a minute's allowance."""

_PASSES: Final = re.compile(r"please wait|throttl|per (?:minute|day|hour)|rate[ _]?limit")
"""How a refusal says that it is a rate's, which passes: `Too many tokens, please wait` is Bedrock's."""

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
"""The window, with the prompt or with what prompt and reply are together."""

_AT_LEAST: Final = re.compile(r"at least \d+ input tokens")  # vLLM stops to count where the window ends.
_AFFORDED: Final = re.compile(r"can only afford (\d+)")  # OpenRouter, of what is left on the account.


@frozen
class LoweredLimit:
    """The longest reply to ask for instead. `is_models`: for every request to the model, not for this prompt alone."""

    tokens: int
    is_models: bool


def is_too_long(status: int, said: str) -> bool:
    """Whether a refusal, in lower case, says that the prompt does not fit the model, now or at any time."""
    if status == 413:
        return True
    if status == 429:
        return NEVER_FITS_WORDS.search(said) is not None or _rate_of(said) is not None
    return TOO_LONG_WORDS.search(said) is not None and not is_rate_limit(said)


def is_rate_limit(said: str) -> bool:
    """Whether a refusal, in lower case, is that of a rate: the same request is taken later."""
    return _PASSES.search(said) is not None


def lowered_limit(status: int, said: str, asked: int | None) -> LoweredLimit | None:
    """How long a reply may be instead of `asked` tokens, after a refusal in lower case; None if that is not the matter.

    A reply that would be shorter than is worth asking for is no way out: the prompt is too long then.
    """
    if asked is None or status not in (400, 402, 413, 422, 429, 500):
        return None
    said = _THOUSANDS.sub("", said)
    match status:
        case 402:
            found = _afforded(said)
        case 413 | 429:
            found = _rate_left(said, asked) or _left(said, asked)
        case _:
            found = _left(said, asked) or _models(said, asked)
    if found is None and status in (400, 422) and re.search(r"max\w*_tokens[^.]{0,20} too (?:large|high|big)", said):
        found = LoweredLimit(asked // 2, is_models=True)
    is_way_out = found is not None and limits.OUTPUT_TOKENS_MIN <= found.tokens < asked
    return found if is_way_out else None


def _left(said: str, asked: int) -> LoweredLimit | None:
    """What the prompt leaves of the window; half of what was asked for where the prompt was not counted to its end."""
    for pattern in _LEFT:
        if found := pattern.search(said):
            numbers = {name: int(number) for name, number in found.groupdict().items()}
            prompt = numbers["prompt"] if "prompt" in numbers else numbers["total"] - asked
            return LoweredLimit(numbers["window"] - prompt, is_models=False) if prompt >= 0 else None
    return LoweredLimit(asked // 2, is_models=False) if _AT_LEAST.search(said) else None


def _afforded(said: str) -> LoweredLimit | None:
    """What the account can pay for; the least of several answers."""
    found = [int(one) for one in _AFFORDED.findall(said)]
    return LoweredLimit(min(found), is_models=False) if found else None


def _models(said: str, asked: int) -> LoweredLimit | None:
    """The longest reply of the model; in words that are not known, the only smaller number."""
    if not _OF_REPLY.search(said):
        return None
    plain = said.replace("`", "")
    if found := _EXCLUSIVE.search(plain):
        return LoweredLimit(int(found[1]) - 1, is_models=True)
    found = next((one for pattern in _OF_MODEL if (one := pattern.search(plain))), None)
    if found is not None:
        return LoweredLimit(int(found[1]), is_models=True)
    smaller = {int(one) for one in _ALONE.findall(plain) if limits.OUTPUT_TOKENS_MIN <= int(one) < asked}
    is_bound = len(smaller) == 1 and _BOUND.search(plain) and not _UNKNOWN.search(plain)
    return LoweredLimit(smaller.pop(), is_models=True) if is_bound else None


def _rate_left(said: str, asked: int) -> LoweredLimit | None:
    """What the prompt leaves of a minute's tokens, where the reply counts too."""
    rate = _rate_of(said)
    return None if rate is None else LoweredLimit(rate[0] - (rate[1] - asked), is_models=False)


def _rate_of(said: str) -> tuple[int, int] | None:
    """A minute's tokens and those of the request, where the request is larger: it can never fit."""
    found = _RATE.search(_THOUSANDS.sub("", said))
    return (int(found[1]), int(found[2])) if found and int(found[2]) > int(found[1]) else None


# What a provider's refusal means, from its status, headers and body.
#
# Only what another attempt can fix is transient. No message holds a key: providers like to quote it back.

QUOTA_ERRORS: Final = (
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
"""How a provider says that its content filter refused the prompt."""

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
"""Parts of the names that errors have in a body, with the status that each stands for."""

STATUS_BY_WORDS: Final[Mapping[str, int]] = {"rate limit": 429, "authentication": 401, "unauthorized": 401}
"""The same in a message, where no name says which error it is."""

MODEL_LOADING: Final = re.compile(r"model is (?:currently |still )?(?:being )?loading")
"""How a 400 or a 404 says that the model will be there soon."""

MOMENTARY_STATUSES: Final = frozenset((409, 424, 425, 499))
"""Statuses below 500 that another attempt may not get: conflict, failed dependency, too early, cancelled."""


def failure_of_status(
    status: int, body: bytes, *, retry_after_s: float | None, cure: str, secrets: Sequence[str] = ()
) -> ModelFailed:
    """The failure that an error status stands for. `cure` is added where the key is the matter."""
    said = error_message(body, secrets)
    text = f"HTTP {status}: {said}" if said else f"HTTP {status}"
    lower = lower_case_body(body)
    if retry_after_s is None:
        retry_after_s = wait_in_text(lower)
    is_exhausted = any(word in lower for word in QUOTA_ERRORS)
    if status in (400, 403, 422) and any(word in lower for word in FILTER_ERRORS):
        return ModelFailed("Filtered", text)
    match status:
        case 402:
            return ModelFailed("Refused", f"{text}; the account has to be paid for")
        case _ if is_exhausted:
            return ModelFailed("Refused", f"{text}; the account has nothing left")
        case 401 | 403:
            return ModelFailed("Refused", f"{text}; {cure}")
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


def failure_in_stream(error: Json, *, cure: str, secrets: Sequence[str] = ()) -> ModelFailed:
    """The failure that an error in a body with status 200 stands for: its code where that is a status, else a 500."""
    body = canonical_json.encode({"error": _storable(error)})
    return failure_of_status(_status_of(error), body, retry_after_s=None, cure=cure, secrets=secrets)


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
    return found or next((status for said, status in STATUS_BY_WORDS.items() if said in message), 500)


def _storable(error: Json) -> Json:
    """The error as JSON has it; as text where it has what no JSON can hold."""
    try:
        canonical_json.encode(error)
    except ValueError:
        return repr(error)
    return error
