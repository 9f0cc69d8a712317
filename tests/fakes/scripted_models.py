"""`Models` inside the process, playing the scripts of the model server: for simulations, on any event loop's time.

Requests are validated as the server does, replies go through the product's own assembly, faults arrive as the
`ModelFailed` that the HTTP adapter makes of them; no sockets and no threads.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import anyio
import anyio.lowlevel

from planloop.controllers.agent.models import errors
from planloop.controllers.agent.models.reply_assembly import ReplyAssembly
from planloop.schemas import limits
from planloop.schemas.objects.model import parse_model_name
from tests.fakes.model_server import chunking, script
from tests.fakes.model_server.script import Player, Question, Step, text_of
from tests.fakes.model_server.validating import Invalid, check
from tests.product import ModelFailed, ModelReply, ModelRequest, OnDelta, TokenPrice

FREE = TokenPrice(Decimal(0), Decimal(0), Decimal(0), source="scripted")


class ScriptedModels:
    """Answers from a script. `asked` has every request, `endings` how each ended, as the server's log words it."""

    def __init__(
        self,
        steps: str | dict[str, Any] | list[Any] | Player,
        *,
        price: TokenPrice | None = FREE,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.player = steps if isinstance(steps, Player) else script.play(steps)
        self.asked: list[ModelRequest] = []
        self.endings: list[str] = []
        self._price = price
        self._now = now

    @property
    def left(self) -> list[str]:
        """The names of unused steps."""
        return self.player.unused

    async def complete(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        self.asked.append(request)
        assembly = ReplyAssembly()
        try:
            with anyio.fail_after(request.timeout_s):
                reply = await self._play(request, assembly, on_delta or _deaf)
        except TimeoutError:
            self.endings.append("closed")
            text = f"no answer within {request.timeout_s:g} s"
            raise ModelFailed("TimedOut", text, is_transient=True, usage=assembly.usage(request.messages)) from None
        except anyio.get_cancelled_exc_class():
            self.endings.append("closed")
            raise
        except ModelFailed as failure:
            refused = failure.reason == "BadRequest"
            self.endings.append("refused" if refused else "cut" if failure.reason == "CutOff" else "failed")
            raise
        self.endings.append("answered")
        return reply

    def price(self, model: str) -> TokenPrice | None:
        del model
        return self._price

    def window(self, model: str) -> int:
        del model
        return limits.MODEL_WINDOW_TOKENS

    def output_max(self, model: str) -> int:
        del model
        return limits.MODEL_OUTPUT_TOKENS

    async def _play(self, request: ModelRequest, assembly: ReplyAssembly, on_delta: OnDelta) -> ModelReply:
        question = _question(request)
        step = self.player.take(question)
        if step is None:
            last = text_of(question.messages[-1])
            raise ModelFailed("BadRequest", f"no step is left for {request.model} and a last message of {last[:200]!r}")
        await anyio.sleep(step.delay_s)
        self._fail_at_once(step)
        for sent, delta in enumerate(chunking.deltas_of(step, question)):
            await _interrupt(step, sent, assembly, request)
            await anyio.lowlevel.checkpoint()
            on_delta(assembly.take({"choices": [{"delta": delta}]}))
        await _interrupt(step, None, assembly, request)
        usage = chunking.usage_of(step, question)
        assembly.take({"choices": [{"delta": {}, "finish_reason": chunking.finish_of(step)}], "usage": usage})
        if (failure := assembly.failure(request.model, request.messages)) is not None:
            raise failure
        return assembly.reply(request.messages)

    def _fail_at_once(self, step: Step) -> None:
        if step.status != 200:
            body = json.dumps(chunking.error_of(step)).encode()
            wait_s = errors.retry_after_s(step.headers, self._now())
            raise errors.failure_of_status(step.status, body, retry_after_s=wait_s, key_hint="state a key")
        if step.garbage is not None:
            raise ModelFailed("Garbage", f"no event stream: {step.garbage[:80]}", is_transient=True)


async def _interrupt(step: Step, sent: int | None, assembly: ReplyAssembly, request: ModelRequest) -> None:
    """Hangs or cuts the stream at the position in the step; `sent` None is the end, the latest place for either."""
    if step.hang_after is not None and sent in (None, step.hang_after):
        await anyio.sleep_forever()
    if step.cut_after is not None and sent in (None, step.cut_after):
        usage = assembly.usage(request.messages)
        raise ModelFailed("CutOff", "the connection ended before the reply did", is_transient=True, usage=usage)


def _question(request: ModelRequest) -> Question:
    body: dict[str, Any] = {
        "model": parse_model_name(request.model).name,
        "messages": [json.loads(one) for one in request.messages],
        **request.options,
    }
    if request.tools:
        body["tools"] = json.loads(request.tools)
    try:
        check(body)
    except Invalid as fault:
        raise ModelFailed("BadRequest", f"HTTP 400: {fault}") from None
    tools = [tool["function"]["name"] for tool in body.get("tools", ())]
    return Question(body["model"], body["messages"], tools, alias=request.model)


def _deaf(text: str) -> None:
    del text
