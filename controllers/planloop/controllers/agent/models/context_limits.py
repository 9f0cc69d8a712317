"""Refusals for length, in the words of each provider: a prompt that does not fit, or a reply that may not be so long.

A prompt that does not fit is made shorter by the agent. A `max_tokens` that is too large is lowered by the adapter,
which asks again at once: nothing was generated, so nothing is billed.
"""

from __future__ import annotations

import re
from typing import Final

from planloop.schemas import limits
from planloop.schemas.frozen import frozen

TOO_LONG: Final = re.compile(
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
NEVER_FITS: Final = re.compile(
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
    return TOO_LONG.search(said) is not None and not is_rate(said)


def is_rate(said: str) -> bool:
    """Whether a refusal, in lower case, is that of a rate: the same request is taken later."""
    return _PASSES.search(said) is not None


def lowered(status: int, said: str, asked: int | None) -> Lowered | None:
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
        found = Lowered(asked // 2, is_models=True)
    is_way_out = found is not None and limits.OUTPUT_TOKENS_MIN <= found.tokens < asked
    return found if is_way_out else None


def _left(said: str, asked: int) -> Lowered | None:
    """What the prompt leaves of the window; half of what was asked for where the prompt was not counted to its end."""
    for pattern in _LEFT:
        if found := pattern.search(said):
            numbers = {name: int(number) for name, number in found.groupdict().items()}
            prompt = numbers["prompt"] if "prompt" in numbers else numbers["total"] - asked
            return Lowered(numbers["window"] - prompt, is_models=False) if prompt >= 0 else None
    return Lowered(asked // 2, is_models=False) if _AT_LEAST.search(said) else None


def _afforded(said: str) -> Lowered | None:
    """What the account can pay for; the least of several answers."""
    found = [int(one) for one in _AFFORDED.findall(said)]
    return Lowered(min(found), is_models=False) if found else None


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
