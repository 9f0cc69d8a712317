"""The providers that are known without a word in the plan: where they answer, and where their key is kept.

All speak the OpenAI chat API. Every other provider's name goes to litellm.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from planloop.controllers.agent.models.chat_body import Dialect
from planloop.schemas.frozen import frozen


@frozen
class Provider:
    """`key` names the environment variable with the key; empty for a server of one's own, which costs nothing.

    `dialect` is what it is known to take.
    """

    url: str
    key: str = ""
    start: str = ""
    dialect: Dialect = Dialect()


PROVIDERS: Final[Mapping[str, Provider]] = MappingProxyType(
    {
        "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY", dialect=Dialect("max_completion_tokens")),
        "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        "groq": Provider("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
        "mistral": Provider("https://api.mistral.ai/v1", "MISTRAL_API_KEY", dialect=Dialect(is_strict=True)),
        "deepseek": Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
        "together": Provider("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
        "fireworks": Provider("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
        "cerebras": Provider("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"),
        "xai": Provider("https://api.x.ai/v1", "XAI_API_KEY"),
        "ollama": Provider("http://127.0.0.1:11434/v1", start="start it with `ollama serve`"),
        "vllm": Provider("http://127.0.0.1:8000/v1", start="start it with `vllm serve MODEL`"),
        "llamacpp": Provider("http://127.0.0.1:8080/v1", start="start it with `llama-server -m FILE`"),
        "lmstudio": Provider("http://127.0.0.1:1234/v1", start="start it with `lms server start`"),
    }
)
