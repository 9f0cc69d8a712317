"""Minds that are processes of their own (programs, functions, outside agents), replying as they did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from planloop.app.replaying.directing import Director
from planloop.app.replaying.recorded import never
from planloop.app.replaying.story import entry, status_in
from planloop.controllers.agent.minds.port import ProposedCall, Reply
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.status import unboxed
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Draft

OF_THE_TURN: Final = frozenset({"turn", "text", "usage", "note", "calls"})
"""What the record of a reply says that is no data of the mind's own."""


class RecordedMinds:
    """Who answers in place of such a mind, from the record of its reply when that comes next; nothing is started."""

    def __init__(self, director: Director, is_alive: Callable[[], bool]) -> None:
        self._director = director
        self._is_alive = is_alive

    async def reply(self, seen: Observed) -> Reply:
        """What the agent's mind answered in this turn."""
        director, agent = self._director, seen.resource.address
        index = director.story.next(director.cursor, lambda draft: entry(draft, "model.replied", agent) is not None)
        if index is not None and self._is_asked_between(agent, index):
            director.give_up(f"{agent} was asked several times for one reply, and the log has only the last")
        if not await director.due(index, self._is_alive) or index is None:
            await never()
        return _reply_of(director, director.story.records[index].draft, agent)

    def _is_asked_between(self, agent: str, index: int) -> bool:
        """Whether the reply at `index` is not the answer to this request: a mixin asked again."""
        records = self._director.story.records[self._director.cursor : index]
        return any(entry(one.draft, "model.requested", agent) is not None for one in records)


def _reply_of(director: Director, draft: Draft, agent: str) -> Reply:
    said = entry(draft, "model.replied", agent)
    assert said is not None, "looked for before"
    merge, ours = status_in(draft, agent), director.likeness.ours
    # Not the whole: the ids of the calls in it are still to be minted here.
    data: JsonObject = ours({name: value for name, value in said.data.items() if name not in OF_THE_TURN})
    answer: JsonObject = unboxed(merge["open"]["reply"])
    made = [call for call in answer["calls"] if not call.get("is_implied")]
    calls = tuple(
        ProposedCall(
            call["tool"],
            ours(call["arguments"]),
            call.get("key", ""),
            call.get("fault", ""),
            bool(call.get("is_parallel")),
        )
        for call in made
    )
    return Reply(
        text=ours(answer["text"]),
        calls=calls,
        then=answer["then"],
        sleep_s=answer.get("sleep_s"),
        memory=ours(unboxed(merge.get("memory"))),
        usage=said.data.get("usage") or {},
        note=ours(str(said.data.get("note", ""))),
        data=data,
    )
