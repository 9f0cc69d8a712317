"""The request of the OpenAI chat API as bytes, and how servers differ in what they take.

The history is joined from the bytes that each message was encoded to once: a request costs a copy, not a serialisation.
"""

from __future__ import annotations

from typing import Final, Literal

from controllers.agent.models.port import ModelRequest
from schemas import encoding
from schemas.encoding import JsonObject
from schemas.frozen import frozen

LimitField = Literal["max_tokens", "max_completion_tokens"]

OURS: Final = frozenset({"model", "messages", "tools", "stream", "stream_options", "n"})
"""What no option of a plan may change; `stream: false` is heard all the same."""

LIMIT_FIELDS: Final = ("max_tokens", "max_completion_tokens")


@frozen
class Dialect:
    """What a server takes: whether it counts usage at the end of a stream, and its word for the longest reply."""

    limit_field: LimitField = "max_tokens"
    takes_usage_option: bool = True
    is_limit_settled: bool = False

    def after(self, status: int, said: bytes) -> Dialect | None:
        """The dialect to try when the server refused this one with `said`; None when that was not the matter."""
        if status not in (400, 404, 422):
            return None
        if self.takes_usage_option and (b"stream_options" in said or b"include_usage" in said):
            return Dialect(self.limit_field, takes_usage_option=False, is_limit_settled=self.is_limit_settled)
        if not self.is_limit_settled and self.limit_field.encode() in said:
            other: LimitField = "max_tokens" if self.limit_field == "max_completion_tokens" else "max_completion_tokens"
            return Dialect(other, self.takes_usage_option, is_limit_settled=True)
        return None


def is_streamed(options: JsonObject) -> bool:
    """Whether the reply is asked for in pieces: yes, unless the plan says `stream: false`."""
    return options.get("stream") is not False


def body_of(model: str, request: ModelRequest, dialect: Dialect) -> bytes:
    """The body that asks `model`, the provider's own name, for what `request` wants."""
    parts = [b'{"model":', encoding.encode(model), b',"messages":[', b",".join(request.messages), b"]"]
    if request.tools:
        parts += [b',"tools":', request.tools]
    more: JsonObject = {"stream": is_streamed(request.options)}
    if more["stream"] and dialect.takes_usage_option:
        more["stream_options"] = {"include_usage": True}
    more |= stated_options(request, dialect.limit_field)
    return b"".join((*parts, b",", encoding.encode(more)[1:]))


def stated_options(request: ModelRequest, limit_field: str) -> JsonObject:
    """The plan's options as they stand, with the bound of this attempt: the smaller one where the plan has one too."""
    options = {name: value for name, value in request.options.items() if name not in OURS}
    stated = next((name for name in LIMIT_FIELDS if isinstance(options.get(name), int)), limit_field)
    bounds = [one for one in (options.pop(stated, None), request.output_tokens_max) if one is not None]
    return options | ({stated: min(bounds)} if bounds else {})
