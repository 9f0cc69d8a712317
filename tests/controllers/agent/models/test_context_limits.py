"""Errors of providers for prompts and replies that are too long, and the requests that follow."""

from __future__ import annotations

import json

from planloop.controllers.agent.models import errors
from planloop.controllers.agent.models.errors import LoweredLimit, lowered_limit
from tests import rows

PROMPT_TOO_LONG = {
    "openai": (400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000."),
    "openai, newer": (400, "Input tokens exceed the configured limit of 272000 tokens."),
    "azure": (400, "context_length_exceeded"),
    "anthropic": (400, "prompt is too long: 210000 tokens > 200000 maximum"),
    "anthropic, with the reply": (400, "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000"),
    "anthropic, in bytes": (413, "Request exceeds the maximum size"),
    "gemini": (400, "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."),
    "bedrock": (400, "Input is too long for requested model."),
    "mistral": (400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
    "moonshot": (400, "Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)"),
    "xai": (400, "This model's maximum prompt length is 131072 but the request contains 201532 tokens."),
    "together": (
        422,
        "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 10000 `inputs` tokens and 1000 `max_",
    ),
    "tgi": (422, "Input validation error: `inputs` must have less than 1024 tokens. Given: 1500"),
    "groq": (400, "Please reduce the length of the messages or completion."),
    "groq, a minute's tokens": (
        413,
        "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce",
    ),
    "openai, a minute's tokens": (
        429,
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30,000, Requested 40,000. The input or output "
        "tokens must be reduced in order to run successfully.",
    ),
    "fireworks": (400, "The prompt is too long: 140000, model maximum context length: 131071"),
    "openrouter": (400, "This endpoint's maximum context length is 131072 tokens. However, you requested about 200000"),
    "vllm": (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    "llama.cpp": (500, "the request exceeds the available context size, try increasing it"),
    "ollama": (400, "the input length exceeds the context length"),
    "cohere": (400, "too many tokens: total number of tokens in the prompt cannot exceed 4081"),
    "github": (413, "Request body too large for gpt-4o model. Max size: 8000 tokens."),
    "copilot": (400, "prompt token count of 150000 exceeds the limit of 128000"),
    "dashscope": (400, "InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]"),
    "zhipu": (400, "Prompt exceeds max length"),
    "openai, newest": (400, "Your input exceeds the context window of this model."),
    "openai, one message": (400, "Invalid 'messages[1].content': string too long. Expected a string with maximum"),
    "openai, many messages": (400, "Invalid 'messages': array too long. Expected an array with maximum length 2048"),
    "anthropic, long context": (429, "Extra usage is required for long context requests."),
    "gemini, payload": (400, "Request payload size exceeds the limit: 20971520 bytes."),
    "vertex": (400, "the input token count is 1048999 but model only supports up to 1048576. Reduce the input token"),
    "bedrock, nova": (400, "Input Tokens Exceeded: Number of input tokens exceeds maximum length."),
    "databricks": (400, '{"message": "{\\"external_model_error\\": {\\"message\\": \\"prompt is too long\\"}}"}'),
    "litellm": (400, "litellm.ContextWindowExceededError: litellm.BadRequestError"),
    "copilot, code": (400, "model_max_prompt_tokens_exceeded"),
    "cerebras": (400, "Current length is 9000 while limit is 8192"),
    "siliconflow": (400, "length of prompt_tokens (40000) must be less than max_seq_len (32768)."),
    "deepinfra": (400, "Requested input length 200000 exceeds maximum input length 131072"),
    "watsonx": (400, "the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model"),
    "nim": (400, "Input text is longer than the model's maximum input"),
    "perplexity": (400, "The total length of the messages exceeds the maximum allowed"),
    "minimax": (400, "invalid params, context window exceeds limit (2013)"),
    "stepfun": (400, "request tokens exceed max tokens"),
    "iflytek": (400, "tokens count exceeds limit: 9000 > 8192"),
    "doubao": (400, "Total tokens of image and text exceed max message tokens"),
    "baidu": (400, "the max length of current question is 5000"),
    "qianfan": (400, "prompt tokens too long"),
    "replicate": (400, "E002 PromptTooLong: Prompt length exceeds maximum input length"),
    "lm studio": (400, "The number of tokens to keep from the initial prompt is greater than the context length."),
    "ollama, newer": (400, "prompt too long; exceeded max context length by 20 tokens"),
    "llama.cpp, newer": (400, "request (66202 tokens) exceeds the available context size (65536 tokens)"),
    "vllm, newer": (
        400,
        "at least 262145 input tokens. Please reduce the length of the input prompt",
    ),
    "sglang": (400, "The input (9000 tokens) is longer than the model's context length (8192 tokens)."),
    "sglang, newer": (400, "Input length (9000 tokens) exceeds the maximum allowed length (8186 tokens)."),
    "tensorrt": (400, "Prompt length (9000) exceeds maximum input length (8192)."),
    "tensorrt, sum": (400, "The sum of prompt length (9000) should not exceed max_num_tokens (8192)"),
    "mlx": (400, "Request exceeds max_kv_size"),
    "chinese, input": (400, "输入内容长度超过限制"),
    "chinese, prompt": (400, "Prompt 超长"),
    "chinese, message": (400, "请求消息过长，超过模型最大长度"),
    "chinese, window": (400, "上下文长度超出模型最大限制 131072"),
    "french": (400, "Le prompt est trop long : 140000 jetons"),
    "french, window": (400, "La longueur du contexte dépasse la limite du modèle"),
    "german": (400, "Die Eingabe ist zu lang für das Modell"),
    "spanish": (400, "El mensaje excede la longitud máxima del contexto"),
    "a proxy's page": (413, "<html><h1>413 Request Entity Too Large</h1></html>"),
}


@rows.each(("status", "said"), PROMPT_TOO_LONG.values(), ids=list(PROMPT_TOO_LONG))
def test_too_long_prompt_is_recognised_in_every_providers_message(status: int, said: str) -> None:
    body = json.dumps({"error": {"message": said}}).encode()

    failed = errors.failure_of_status(status, body, retry_after_s=None, key_hint="")

    assert (failed.reason, failed.is_transient) == ("ContextTooLong", False)


OTHERWISE = {
    "a rate that passes": (
        (429, "Rate limit reached on tokens per min (TPM): Limit 30000, Used 28000, Requested 5000. Please try again."),
        "RateLimited",
    ),
    "a rate of requests": ((429, "You exceeded 60 requests per minute"), "RateLimited"),
    "a rate of Bedrock": ((400, "Too many tokens, please wait before trying again."), "RateLimited"),
    "a rate of Bedrock, by name": ((400, '{"__type": "ThrottlingException", "message": "slow down"}'), "RateLimited"),
    "a rate of Azure": ((429, "Rate limit of 50000 per 60s exceeded. Please wait 26 seconds"), "RateLimited"),
    "a rate of input tokens": (
        (429, "a rate limit of 30,000 input tokens per minute"),
        "RateLimited",
    ),
    "a tool's name": ((400, "Invalid 'tools[0].function.name': string too long."), "BadRequest"),
    "too many tools": ((400, "Invalid 'tools': array too long."), "BadRequest"),
    "another field": ((400, "temperature must be at most 2"), "BadRequest"),
    "a server that is down": ((500, "internal error"), "Overloaded"),
    "a filter": ((400, "The response was filtered: content management policy"), "Filtered"),
}


@rows.each(("answer", "reason"), OTHERWISE.values(), ids=list(OTHERWISE))
def test_other_refusals_are_not_taken_for_a_long_prompt(answer: tuple[int, str], reason: str) -> None:
    status, said = answer

    assert errors.failure_of_status(status, said.encode(), retry_after_s=None, key_hint="").reason == reason


ASKED = 16_000
REPLY_TOO_LONG = {
    "openai": (400, "max_tokens is too large: 16000. This model supports at most 4096 completion tokens", 4096, True),
    "anthropic": (400, "max_tokens: 16000 > 8192, which is the maximum allowed number of output tokens", 8192, True),
    "groq": (
        400,
        "`max_tokens` must be less than or equal to `8192`, the maximum value for the `context_w",
        8192,
        True,
    ),
    "deepseek": (400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192, True),
    "bedrock": (400, "The maximum tokens you requested exceeds the model limit of 4096. Try again", 4096, True),
    "gemini": (
        400,
        "maxOutputTokens value of 16000 but the supported range is from 1 to 8193 (exclusive).",
        8192,
        True,
    ),
    "openai, newer": (
        400,
        "Invalid 'max_tokens': integer above maximum value. Expected <= 4096, but got 16000",
        4096,
        True,
    ),
    "a range in words": (422, "max_tokens must be between 1 and 4096", 4096, True),
    "unknown words": (400, "max_tokens (16000) exceeds what this deployment allows, 4096", 4096, True),
    "no number": (400, "max_tokens is too large", 8000, True),
    "vllm": (400, "'max_tokens' is too large: 16000. (16000 > 16384 - 6384)", 10000, False),
    "openai, window": (
        400,
        "maximum context length is 16385 tokens. However, you requested 18000 tokens (2000 in the messages, 16000 in "
        "the completion).",
        14385,
        False,
    ),
    "anthropic, window": (
        400,
        "input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000",
        10000,
        False,
    ),
    "tgi": (422, "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 1000 `inputs` tokens", 7193, False),
    "openrouter, credits": (
        402,
        "requested up to 16000 tokens, but can only afford 5365. To",
        5365,
        False,
    ),
    "openrouter": (
        400,
        "maximum context length is 32768 tokens. However, you requested about 46000 tokens (20000 of text input, 10000 "
        "of tool input, 16000 in the output).",
        2768,
        False,
    ),
    "openai, functions": (
        400,
        "maximum context length is 16385 tokens. However, you requested 18000 tokens (1500 in the messages, 500 in the "
        "functions, and 16000 in the completion).",
        14385,
        False,
    ),
    "vllm, newer": (
        400,
        "You passed 9000 input tokens and requested 16000 output tokens. However, the model's context length is only "
        "16384 tokens",
        7384,
        False,
    ),
    "vllm, not counted to the end": (400, "your prompt contains at least 115073 input tokens", 8000, False),
    "sglang": (
        400,
        "the maximum context length of 18000 tokens. You requested a total of 24000 tokens: 8000 tokens",
        10000,
        False,
    ),
    "siliconflow": (413, "max_total_tokens (40000) must be less than or equal to max_seq_len (32768).", 8768, False),
    "moonshot": (400, "Your request exceeded model token limit: 131072 (requested: 140000)", 7072, False),
    "cohere": (400, "max tokens must be less than or equal to 4096 for this model, received 16000.", 4096, True),
    "bedrock, nova": (400, "#/inferenceConfig/maxTokens: 16000 is not less or equal to 5000", 5000, True),
    "chinese": (400, "参数 max_tokens 超过最大值 4096", 4096, True),
    "a minute's tokens": (429, "Request too large: Limit 10,000, Requested 17,000.", 9000, False),
}


@rows.each(("status", "said", "tokens", "is_models"), REPLY_TOO_LONG.values(), ids=list(REPLY_TOO_LONG))
def test_a_longest_reply_that_is_refused_is_lowered_to_what_is_allowed(
    status: int, said: str, tokens: int, is_models: bool
) -> None:
    assert lowered_limit(status, said.lower(), ASKED) == LoweredLimit(tokens, is_models)


NOT_LOWERED = {
    "nothing is left": (400, "input length and `max_tokens` exceed context limit: 199990 + 16000 > 200000", ASKED),
    "the prompt alone is too long": (
        422,
        "`inputs` tokens + `max_new_tokens` must be <= 8193. given: 10000 `inputs`",
        ASKED,
    ),
    "none was asked for": (400, "max_tokens is too large", None),
    "the field is not known": (
        400,
        "Unsupported parameter: 'max_tokens' with model 2024. Use 'max_completion_tokens'",
        ASKED,
    ),
    "it is allowed": (400, "max_tokens must be at most 32000", ASKED),
    "a rate that passes": (429, "limit 30000, used 28000, requested 5000", ASKED),
    "a key": (401, "max_tokens is too large", ASKED),
}


@rows.each(("status", "said", "asked"), NOT_LOWERED.values(), ids=list(NOT_LOWERED))
def test_a_longest_reply_is_not_lowered_where_that_would_not_help(status: int, said: str, asked: int | None) -> None:
    assert lowered_limit(status, said, asked) is None
