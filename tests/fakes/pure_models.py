"""Models whose answer is a function of the prompt alone: asked again after a crash, they say the same again.

Each agent has a list of answers; the number of its replies in the prompt selects the next one. Every
request is looked at as a vendor would. Failures follow a separate plan, by the number of the request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import anyio

from planloop.schemas.objects.model import parse_model_name
from tests.fakes.model_server.validating import check
from tests.product import (
    ModelCall,
    ModelFailed,
    ModelReply,
    ModelRequest,
    NoModelClient,
    OnDelta,
    TokenPrice,
    TokenUsage,
)

Answer = str | Sequence[tuple[str, Mapping[str, Any]]]
"""A text, or calls as pairs of tool and arguments."""

PRICE = TokenPrice(Decimal(1), Decimal(2), Decimal(1))


@dataclass
class PureModels(NoModelClient):
    """`answers` by agent address. `fault` may raise for the n-th request, from 1; each takes `takes_s`."""

    answers: Mapping[str, Sequence[Answer]]
    fault: Callable[[int, ModelRequest], None] | None = None
    takes_s: float = 0.5
    asked: list[ModelRequest] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    async def complete(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        self.asked.append(request)
        number = len(self.asked)
        messages = [json.loads(each) for each in request.messages]
        body: dict[str, Any] = {"model": parse_model_name(request.model).name, "messages": messages}
        check(body | ({"tools": json.loads(request.tools)} if request.tools else {}))
        try:
            if on_delta is not None:
                on_delta("th")
            await anyio.sleep(self.takes_s)
        except anyio.get_cancelled_exc_class():
            self.cancelled.append(str(request.key))
            raise
        if self.fault is not None:
            self.fault(number, request)
        return self._reply(request, messages)

    def _reply(self, request: ModelRequest, messages: list[dict[str, Any]]) -> ModelReply:
        said = sum(message["role"] == "assistant" for message in messages)
        answers = self.answers[request.key.agent]
        if said >= len(answers):
            raise ModelFailed("BadRequest", f"{request.key.agent} has said all it had to say")
        answer = answers[said]
        usage = TokenUsage(sum(map(len, request.messages)) // 4, 10)
        if isinstance(answer, str):
            return ModelReply(answer, usage=usage)
        calls = tuple(ModelCall(f"id{index}", tool, json.dumps(given)) for index, (tool, given) in enumerate(answer))
        return ModelReply(calls=calls, usage=usage, finish="tool_calls")

    def price(self, model: str) -> TokenPrice | None:
        del model
        return PRICE


def failing(*numbers: int, reason: str = "Overloaded") -> Callable[[int, ModelRequest], None]:
    """A failure of the requests with these numbers."""

    def fault(number: int, request: ModelRequest) -> None:
        if number in numbers:
            raise ModelFailed(reason, f"{reason} for {request.model}", is_transient=True)

    return fault
