"""Hooks that are rules, programs and functions, saying what they said: nothing is evaluated, read or started.

Hooks that are agents need nothing here: what they are asked and answer are messages like all others.
"""

from __future__ import annotations

from collections.abc import Callable

from planloop.app.replaying.directing import Director
from planloop.app.replaying.recorded import never
from planloop.controllers.agent.status import unboxed
from planloop.reconciler.errors import Conflict
from planloop.schemas.encoding import JsonObject
from planloop.schemas.hook import Verdict, verdict_from_json
from planloop.schemas.record import Draft


class RecordedHooks:
    """Who answers in place of such hooks, from the record of the verdict when that comes next."""

    def __init__(self, director: Director, is_alive: Callable[[], bool]) -> None:
        self._director = director
        self._is_alive = is_alive

    def at_once(self, agent: str, turn: int, key: str) -> Verdict:
        """See `ports.Hooks`."""
        wanted = self._director.expected
        found = None if wanted is None else _fired(wanted.draft, agent, turn, key)
        if found is None:
            raise Conflict(agent, None, None)
        return self._verdict(found)

    def first(self, agent: str, turn: int, key: str) -> tuple[Verdict, bool]:
        """See `ports.Hooks`."""
        wanted = self._director.expected
        asked = None if wanted is None else _consulted(wanted.draft, agent, key)
        if asked is None:
            return self.at_once(agent, turn, key), False
        memory = self._director.likeness.ours(unboxed(asked.get("memory")))
        return Verdict(memory=memory), True

    async def verdict(self, agent: str, turn: int, key: str) -> Verdict:
        """See `ports.Hooks`."""
        director = self._director
        index = director.story.next(director.cursor, lambda draft: _fired(draft, agent, turn, key) is not None)
        if not await director.due(index, self._is_alive) or index is None:
            await never()
        found = _fired(director.story.records[index].draft, agent, turn, key)
        assert found is not None, "looked for before"
        return self._verdict(found)

    def _verdict(self, told: JsonObject) -> Verdict:
        return verdict_from_json(self._director.likeness.ours(told["verdict"]))


def _fired(draft: Draft, agent: str, turn: int, key: str) -> JsonObject | None:
    """What the record says of that verdict; None when it says nothing of it."""
    said = (one for one in draft.entries if (one.type, one.subject) == ("hook.fired", agent))
    told = (each for one in said if one.data["turn"] == turn for each in one.data["fired"])
    return next((each for each in told if each["key"] == key), None)


def _consulted(draft: Draft, agent: str, key: str) -> JsonObject | None:
    """What the record says of asking the hook's agent; None when it does not say that it was asked."""
    said = (one for one in draft.entries if (one.type, one.subject) == ("message.sent", agent))
    return next((one.data for one in said if one.data.get("key") == key), None)
