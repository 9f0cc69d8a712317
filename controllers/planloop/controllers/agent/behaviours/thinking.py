"""The asking of a mind inside the layers of its agent's mixins, as `calling.py` does it for calls.

A mind that fails raises MindFailed through the layers; asked again, it is asked under a request of its own, recorded
and billed. A language model's own attempts are the turn's business and lie inside of all this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import anyio

from planloop.controllers.agent import turn
from planloop.controllers.agent.behaviours import healing, programs
from planloop.controllers.agent.behaviours.retrying import billed
from planloop.controllers.agent.behaviours.steps import Step
from planloop.controllers.agent.minds.port import MindFailed, Reply
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.ports import World
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import mutable
from planloop.schemas.record import Change

Look: TypeAlias = Callable[[str], Observed | None]
Ask: TypeAlias = Callable[[Observed, str], Awaitable[Reply]]
"""Asks the mind for the open turn under an operation id. Raises MindFailed."""
Inner: TypeAlias = Callable[[], Awaitable[Reply]]
Renew: TypeAlias = Callable[[Observed, str], tuple[Change, ...] | None]
"""The changes that go with asking once more, under another operation id; None: it cannot be paid for."""


def for_nothing(seen: Observed, op: str) -> tuple[Change, ...]:
    """Asking once more costs nothing that is set aside before."""
    del seen, op
    return ()


@mutable
class Asking:
    """One asking for one open turn. `op` is the id of its latest request, `seen` the agent as of then."""

    world: World
    look: Look
    seen: Observed
    op: str
    ask: Ask
    renew: Renew = for_nothing
    tries: int = 1

    async def answer(self, steps: Sequence[Step]) -> Reply:
        """The reply after all layers. Raises MindFailed."""
        inner: Inner = self._ask
        for step in reversed(steps):
            inner = self._layer(step, inner)
        return await inner()

    async def _ask(self) -> Reply:
        return await self.ask(self.seen, self.op)

    def _layer(self, step: Step, inner: Inner) -> Inner:
        async def layer() -> Reply:
            match step.verb:
                case "trace":
                    return await self._traced(inner)
                case "retry":
                    return await self._retried(step, inner)
                case "timeout":
                    return await self._timed(step, inner)
                case "python" | "run" if step.point == "before":
                    return await self._guarded(step, inner)
                case "python" | "run":
                    return await self._looked_at(step, inner)
                case _:
                    return await inner()  # The permit was taken before the mind was asked.

        return layer

    async def _traced(self, inner: Inner) -> Reply:
        began = self.world.clock.now()
        reply = await inner()
        found: JsonObject = {"seconds": round(max(0.0, self.world.clock.now() - began), 6), "outcome": "replied"}
        return noted(reply, {"trace": found | ({"tries": self.tries} if self.tries > 1 else {})})

    async def _retried(self, step: Step, inner: Inner) -> Reply:
        while True:
            try:
                return await inner()
            except MindFailed as fault:
                if self.tries > healing.tries_max(step) or not await self._again(step, fault):
                    raise

    async def _again(self, step: Step, fault: MindFailed) -> bool:
        """Whether the mind may be asked again, after a pause; then under a new request."""
        await self.world.clock.sleep(healing.pause_s(step, self.tries))
        store, seen = self.world.store, self.look(self.seen.resource.address)
        opened = None if seen is None else seen.status.open
        if seen is None or opened is None or opened.op != self.op or opened.is_replied or not seen.is_wanted:
            return False
        if seen.left.get("retries", 1) < 1:
            return False
        op = self.world.ids.mint()
        draft, more = turn.requested(seen, op), self.renew(seen, op)
        if more is None:
            return False
        note: JsonObject = {**draft.data, "retry": self.tries, "failed": str(fault)}
        draft = replace(draft, changes=(*draft.changes, *more, *billed(seen, store.view)), data=note)
        await store.append(draft, {seen.resource.address: seen.resource.rev})
        now = self.look(self.seen.resource.address)
        if now is None:
            return False
        self.world.processes.forget([self.op])
        self.seen, self.op, self.tries = now, op, self.tries + 1
        return True

    async def _timed(self, step: Step, inner: Inner) -> Reply:
        bound_s = float(step.given) if isinstance(step.given, int | float) else limits.CALL_TIMEOUT_S
        with anyio.move_on_after(bound_s):
            return await inner()
        raise MindFailed(f"no answer within {bound_s:g} s ({step.words})")

    async def _guarded(self, step: Step, inner: Inner) -> Reply:
        said = await programs.asked_by(self.world, self.seen, step, self._told(step))
        if said.deny:
            raise MindFailed(f"the turn was denied by {step.words}: {said.deny}")
        reply = await inner()
        return noted(reply, {"notes": [said.note]}) if said.note else reply

    async def _looked_at(self, step: Step, inner: Inner) -> Reply:
        reply = await inner()
        said = await programs.asked_by(self.world, self.seen, step, self._told(step, reply))
        if said.withhold:
            raise MindFailed(f"the answer was withheld by {step.words}: {said.withhold}")
        found = {name: text for name, text in (("comment", said.comment), ("note", said.note)) if text}
        return noted(reply, {"notes": [f"{step.mixin}: {text}" for text in found.values()]}) if found else reply

    def _told(self, step: Step, reply: Reply | None = None) -> JsonObject:
        """What a step is told about a turn."""
        task, opened = self.seen.task_spec, self.seen.status.open
        told: JsonObject = {"version": programs.VERSION, "point": step.point, "on": step.on}
        told |= {"agent": self.seen.resource.address, "goal": "" if task is None else task.goal}
        told["turn"] = 0 if opened is None else opened.turn
        told["messages"] = [] if opened is None else [message.to_json() for message in opened.messages]
        if reply is not None:
            calls = [{"tool": call.tool, "arguments": call.arguments} for call in reply.calls]
            told["reply"] = {"text": reply.text, "calls": calls}
        return told


def noted(reply: Reply, note: JsonObject) -> Reply:
    """The reply with more in the data of its record."""
    return replace(reply, data={**reply.data, **note})
