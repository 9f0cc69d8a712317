"""Refusals for length, in the words of each provider: a prompt that does not fit, or a reply that may not be so long.

A prompt that does not fit is made shorter by the agent. A `max_tokens` that is too large is lowered by the adapter,
which asks again at once: nothing was generated, so nothing is billed.
"""

from __future__ import annotations

import re
from typing import Final

from schemas import limits
from schemas.frozen import frozen

TOO_LONG: Final = re.compile(
    "|".join(
        (
            r"context_length_exceeded|exceed_context_size|context_window_exceeded|tokens_limit_reached",
            r"string_above_max_length|context (?:length|size|window|limit)",  # Most say one of the latter.
            r"(?:prompt|input|request|conversation|messages?|text)\w*(?: is| are| was| were)? too (?:long|large)",
            r"exceeds? (?:the )?(?:context|max(?:imum)?) (?:limit|length|size)|request_too_large|body too large",
            r"maximum prompt length|longer than the maximum model length|exceeded model token limit",  # xAI, Moonshot.
            r"token count[^.]{0,60} exceeds?|input tokens? exceeds?|too many (?:input )?tokens",  # Gemini, Cohere.
            r"`?inputs`? (?:tokens \+ `?max_new_tokens`? must be|must have less than)",  # TGI and Together.
            r"reduce (?:the|your) (?:length of the )?(?:messages?|prompt|input|message size)",  # Groq, Cerebras.
            r"range of input length|(?:prompt|input) exceeds? max",  # DashScope, Zhipu.
        )
    )
)
NEVER_FITS: Final = re.compile(r"request too large|input or output tokens must be reduced|reduce your message size")
"""Of a rate of tokens: OpenAI and Groq say so of a request that is larger than a minute's allowance."""

_RATE: Final = re.compile(r"limit:? (\d+),? (?:used:? \d+,? )?requested:? (\d+)")
_THOUSANDS: Final = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NUMBER: Final = r"`?(\d+)`?"
_OF_REPLY: Final = re.compile(
    r"max_(?:completion_|new_|output_)?tokens|maxoutputtokens|maximum tokens|(?:completion|output) tokens"
)
_OF_MODEL: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"at most {_NUMBER} (?:completion|output) tokens",  # OpenAI.
        rf"less than or equal to {_NUMBER}",  # Groq, Fireworks.
        r"\[\d+,\s*(\d+)\]",  # DeepSeek, DashScope: a range.
        r"\d+ > (\d+), which is the maximum",  # Anthropic.
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
    r"exceed|maximum|too (?:large|high|big|many)|above|limit|up to|larger|greater|smaller|at most"
)
_UNKNOWN: Final = re.compile(r"unsupported|not supported|unrecognized|unknown|unexpected|instead")
_EXCLUSIVE: Final = re.compile(r"(\d+) \(exclusive\)")  # Gemini.
_LEFT: Final = (
    re.compile(r"> (\d+) - (\d+)"),  # vLLM: the window and the prompt.
    re.compile(r"context length is (\d+)[^(]*\((\d+) (?:in the messages|of text input|in your prompt)"),  # OpenAI.
    re.compile(r"context length is (\d+) tokens and your request has (\d+) input tokens"),  # vLLM.
    re.compile(r"must be <= (\d+)\. given: (\d+) `?inputs"),  # TGI and Together.
)
_SUM: Final = re.compile(r"(\d+) \+ \d+ > (\d+)")  # Anthropic.


@frozen
class Lowered:
    """The longest reply to ask for instead. `is_models`: for every request to the model, not for this prompt alone."""

    tokens: int
    is_models: bool


def is_too_long(status: int, said: str) -> bool:
    """Whether a refusal, in lower case, says that the prompt does not fit the model, now or at any time."""
    if status == 413:
        return True
    if status == 429:
        return NEVER_FITS.search(said) is not None or _rate_of(said) is not None
    return TOO_LONG.search(said) is not None


def lowered(status: int, said: str, asked: int | None) -> Lowered | None:
    """How long a reply may be instead of `asked` tokens, after a refusal in lower case; None if that is not the matter.

    A reply that would be shorter than is worth asking for is no way out: the prompt is too long then.
    """
    if asked is None or status not in (400, 413, 422, 429, 500):
        return None
    said = _THOUSANDS.sub("", said)
    found = _rate_left(said, asked) if status in (413, 429) else _left(said) or _models(said, asked)
    if found is None and status in (400, 422) and re.search(r"max\w*_tokens[^.]{0,20} too (?:large|high|big)", said):
        found = Lowered(asked // 2, is_models=True)
    is_way_out = found is not None and limits.OUTPUT_TOKENS_MIN <= found.tokens < asked
    return found if is_way_out else None


def _left(said: str) -> Lowered | None:
    """What the prompt leaves of the window."""
    for pattern in _LEFT:
        if found := pattern.search(said):
            return Lowered(int(found[1]) - int(found[2]), is_models=False)
    found = _SUM.search(said)
    return Lowered(int(found[2]) - int(found[1]), is_models=False) if found else None


def _models(said: str, asked: int) -> Lowered | None:
    """The longest reply of the model; in words that are not known, the only smaller number."""
    if not _OF_REPLY.search(said):
        return None
    plain = said.replace("`", "")
    if found := _EXCLUSIVE.search(plain):
        return Lowered(int(found[1]) - 1, is_models=True)
    found = next((one for pattern in _OF_MODEL if (one := pattern.search(plain))), None)
    if found is not None:
        return Lowered(int(found[1]), is_models=True)
    smaller = {int(one) for one in _ALONE.findall(plain) if limits.OUTPUT_TOKENS_MIN <= int(one) < asked}
    is_bound = len(smaller) == 1 and _BOUND.search(plain) and not _UNKNOWN.search(plain)
    return Lowered(smaller.pop(), is_models=True) if is_bound else None


def _rate_left(said: str, asked: int) -> Lowered | None:
    """What the prompt leaves of a minute's tokens, where the reply counts too."""
    rate = _rate_of(said)
    return None if rate is None else Lowered(rate[0] - (rate[1] - asked), is_models=False)


def _rate_of(said: str) -> tuple[int, int] | None:
    """A minute's tokens and those of the request, where the request is larger: it can never fit."""
    found = _RATE.search(_THOUSANDS.sub("", said))
    return (int(found[1]), int(found[2])) if found and int(found[2]) > int(found[1]) else None
