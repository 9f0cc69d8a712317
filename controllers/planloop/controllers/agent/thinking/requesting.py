"""The job of asking a mind outside this process: from a durable request to the record of what came of it.

The agent is read again before anything is written: a reply that nobody waits for any more is kept as evidence, billed,
and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

import anyio

from planloop.controllers.agent import budget, turn
from planloop.controllers.agent.ahead import Ahead
from planloop.controllers.agent.behaviours.thinking import Asking
from planloop.controllers.agent.calling import calls
from planloop.controllers.agent.calling.calls import Tools
from planloop.controllers.agent.minds import outside_output
from planloop.controllers.agent.minds.model import reply_of, usage_json
from planloop.controllers.agent.minds.port import Reply
from planloop.controllers.agent.models.port import ModelFailed, ModelReply, ModelRequest, Usage
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.ports import World
from planloop.controllers.agent.thinking import asking, attempts, compacting, pricing, prompting, transcript
from planloop.controllers.agent.thinking.attempts import Prepared
from planloop.controllers.agent.thinking.compacting import ToSum
from planloop.schemas.budget import Cost
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import mutable, remade
from planloop.schemas.record import Change, Draft

CANCELLED = "Cancelled"
LATE = "Late"
ANNOUNCED = "tool_calls"
QUEUED_S = 0.05  # A request that got its slot sooner did not wait for it.


@dataclass(frozen=True, slots=True)
class Desk:
    """What all requests of one owner share. `go_on` takes the agent's next steps after a first one, in one record.

    `lost` are requests whose job ended by a fault of ours: they count as failures, else they would be made for ever.
    """

    world: World
    tools: Tools
    look: Callable[[str], Observed | None]
    go_on: Callable[[str, Ahead, str], Awaitable[bool]]
    life: str
    lost: set[str] = field(default_factory=set)


@mutable
class Request:
    """One asking. `ready` is what a language model is asked with, None for other minds; `stale` as for `asking.ask`.

    `wanted` is what a summary is asked for, None when the model is asked for a reply.
    `said_chars` counts what has come of the reply.
    """

    desk: Desk
    address: str
    key: str
    op: str
    stale: str | None
    ready: Prepared | None
    asked_at: float
    wanted: ToSum | None = None
    went_on: bool = False
    used: list[Usage] = field(default_factory=list)
    said_chars: int = 0

    async def __call__(self) -> None:
        """The job."""
        is_told = False
        try:
            await self._perform()
            is_told = True
        except anyio.get_cancelled_exc_class():
            is_told = True
            raise
        finally:
            if not is_told:
                self.desk.lost.add(self.op)

    async def _perform(self) -> None:
        world = self.desk.world
        await world.store.flush(world.store.view.rev)
        seen = await self._after_the_stale()
        if seen is None or not attempts.is_current(seen, self.op):
            return
        began_at = world.clock.now()
        asked = Asking(world, self.desk.look, seen, self.op, self._ask, self._renewed)
        try:
            if self.wanted is not None:
                await self._sum(self.wanted)
                return
            reply = await asking.answered(asked)
        except ModelFailed as fault:
            await self._failed(fault)
        except anyio.get_cancelled_exc_class():
            self._came_to_nothing(CANCELLED)
            raise
        else:
            await self._replied(reply, began_at - self.asked_at)
            if self.ready is None:  # What was called off leaves its traces: the next request looks at them.
                world.processes.forget([self.op])

    async def _after_the_stale(self) -> Observed | None:
        """The agent, when nothing is left of the request that an earlier owner made."""
        world = self.desk.world
        seen = self.desk.look(self.address)
        if self.ready is not None or self.stale is None:
            return seen
        if seen is not None and seen.nature.outlives_owner and attempts.is_current(seen, self.op):
            return seen
        await world.processes.stop(self.stale)
        world.processes.forget([self.stale])
        return self.desk.look(self.address)

    async def _ask(self, seen: Observed, op: str) -> Reply:
        if self.ready is None:
            return await asking.ask(self.desk.world, self.desk.tools, self.stale, seen, op)
        opened = seen.status.open
        assert opened is not None, "a model is asked inside a turn"
        request = self.ready.request
        if request.key.attempt != opened.asked:  # A mixin asks once more, in the same job.
            request = replace(request, key=replace(request.key, attempt=opened.asked))
        answer = await self._complete(request)
        if not answer.calls and (not answer.text.strip() or answer.finish == ANNOUNCED):
            raise attempts.empty(self.used.pop(), opened.tries + 1, has_text=bool(answer.text.strip()))
        return reply_of(answer, names_of(seen, self.desk.tools, answer))

    async def _complete(self, request: ModelRequest) -> ModelReply:
        """The answer, its cost counted; of a request that is closed before, what it had cost by then is estimated."""
        assert self.ready is not None, "only models are asked like this"
        self.said_chars = 0
        try:
            answer = await self.desk.world.models.complete(request, self._heard)
        except anyio.get_cancelled_exc_class():
            said = transcript.tokens_of(self.said_chars)
            self.used.append(Usage(self.ready.tokens, said, is_estimated=True))
            raise
        self.used.append(answer.usage)
        return answer

    def _renewed(self, seen: Observed, op: str) -> tuple[Change, ...] | None:
        """See `thinking.Renew`: the request before is billed, and what the next one may cost is set aside."""
        if self.ready is None:
            self.op = op
            return ()
        ahead = Ahead(self.desk.world.store)
        billed = self._billed(seen, ahead)
        ahead.add(self.address, Draft("model.failed", turn.ACTOR, self.address, billed))
        reserved = attempts.reserved(seen, ahead, op, self.ready)
        if isinstance(reserved, attempts.Spent):
            return None
        self.used.clear()
        self.op = op
        return (*billed, *reserved)

    def _heard(self, text: str) -> None:
        self.said_chars += len(text)

    async def _replied(self, reply: Reply, queued_s: float) -> None:
        world, ahead = self.desk.world, self._ahead()
        seen = self.desk.look(self.address)
        if seen is None:
            return
        if not attempts.is_current(seen, self.op):
            self._late(seen, reply)
            return
        ids = [world.ids.mint() for _ in range(max(1, len(reply.calls)))]
        late_s = queued_s if queued_s > QUEUED_S else 0.0
        draft = turn.replied(seen, reply, ids, self.desk.tools, queued_s=late_s)
        more = self._billed(seen, ahead, reply)
        ahead.add(self.address, remade(draft, changes=(*draft.changes, *more), data=draft.data | self._doubts()))
        await self._go_on(ahead)
        if self.ready is None:
            await world.store.flush(world.store.view.rev)

    async def _sum(self, wanted: ToSum) -> None:
        """The summary takes the place of the turns that it stands for, and the agent goes on."""
        assert self.ready is not None, "a model writes summaries"
        answer = await self._complete(self.ready.request)
        if not answer.text.strip():
            raise ModelFailed(attempts.EMPTY, "its summary is empty", is_transient=True, usage=self.used.pop())
        world, ahead = self.desk.world, self._ahead()
        seen = self.desk.look(self.address)
        if seen is None or not attempts.is_current(seen, self.op):
            self._came_to_nothing(LATE)
            return
        chunks, data = compacting.summarised(seen, answer.text, wanted, world.store.put_blob)
        data |= {"op": self.op, "model": self.ready.request.model, "usage": usage_json(answer.usage)}
        billed = (*self._billed(seen, ahead), turn.change(seen, {"open": {"tries": 0}}))
        ahead.add(self.address, attempts.compacted(seen, chunks, data, billed))
        await self._go_on(ahead)

    def _ahead(self) -> Ahead:
        world = self.desk.world
        return Ahead(world.store, lambda: world.work.driving(self.address))

    async def _go_on(self, ahead: Ahead) -> None:
        is_alone = await self.desk.go_on(self.address, ahead, self.key)
        # Nothing is awaited any more: no other job sees this one in its way.
        self.went_on = is_alone and self.ready is not None

    def _doubts(self) -> JsonObject:
        """Told when the provider counts the prompt quite differently from us; what it says is what is billed."""
        if self.ready is None or not self.used or not pricing.is_off(self.ready.tokens, self.used[-1]):
            return {}
        return {"tokens_counted": self.ready.tokens}

    async def _failed(self, fault: ModelFailed) -> None:
        ahead = self._ahead()
        seen = self.desk.look(self.address)
        assert self.ready is not None, "only models fail like this"
        if seen is None or not attempts.is_current(seen, self.op):
            self.used += [] if fault.usage is None else [fault.usage]
            self._came_to_nothing(fault.reason)
            return
        ahead.add(self.address, attempts.failed(seen, ahead, fault, self.ready, self.desk.life))
        await self._go_on(ahead)

    def _came_to_nothing(self, reason: str) -> None:
        """A request that was closed, or that nobody waits for any more, is billed for what it had cost by then."""
        seen = self.desk.look(self.address)
        if self.ready is None or seen is None or not (self.used or attempts.is_current(seen, self.op)):
            return
        data: JsonObject = {"op": self.op, "reason": reason}
        if self.used:
            data["usage"] = usage_json(self.used[-1])
        ahead = Ahead(self.desk.world.store)
        draft = Draft("model.failed", turn.ACTOR, self.address, self._billed(seen, ahead), data)
        ahead.add(self.address, draft)
        ahead.commit()

    def _late(self, seen: Observed, reply: Reply) -> None:
        """Evidence: it changes nothing but what was used."""
        ahead = Ahead(self.desk.world.store)
        data = {"op": self.op, "text": reply.text, "usage": reply.usage, "late": True}
        billed = self._billed(seen, ahead, reply)
        ahead.add(self.address, Draft("model.replied", turn.ACTOR, self.address, billed, data))
        ahead.commit()

    def _billed(self, seen: Observed, view: Ahead, reply: Reply | None = None) -> tuple[Change, ...]:
        if self.ready is None:
            reported = None if reply is None else outside_output.cost_of(reply.usage)
            return () if reported is None else budget.settle(view, seen.resource, self.op, reported)
        cost = Cost()
        for used in self.used:
            cost = cost + pricing.cost_of(self.ready.price, used)
        return budget.settle(view, seen.resource, self.op, cost)


def names_of(seen: Observed, tools: Tools, answer: ModelReply) -> Mapping[str, str]:
    """The tools of the agent by their wire names; none when the reply calls none."""
    return prompting.names_of(calls.granted(seen.spec, tools)) if answer.calls else {}
