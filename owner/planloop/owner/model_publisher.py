"""Models that publish the text they write to a stream hub."""

from __future__ import annotations

from planloop.controllers.agent.models.port import ModelClient, ModelReply, ModelRequest, OnDelta, TokenPrice
from planloop.server.stream_hub import StreamHub


class PublishedModels:
    """`ModelClient` whose replies can be listened to while they are written."""

    def __init__(self, models: ModelClient, hearing: StreamHub) -> None:
        self._models = models
        self._hearing = hearing

    async def complete(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        reply = self._hearing.begin(request.key.agent, request.key.turn, str(request.key))

        def hear(text: str) -> None:
            if text:
                self._hearing.tell(reply, text)
            if on_delta is not None:
                on_delta(text)

        try:
            return await self._models.complete(request, hear)
        finally:
            self._hearing.end(reply)

    def price(self, model: str) -> TokenPrice | None:
        return self._models.price(model)

    def window(self, model: str) -> int:
        return self._models.window(model)

    def output_max(self, model: str) -> int:
        return self._models.output_max(model)
