"""Recorded hooks and external deciders that answer as they did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from planloop.controllers.agent.deciders.port import DeciderReply, ProposedCall
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.status import unwrap_value
from planloop.owner.replay.history import entry, status_in
from planloop.owner.replay.recorded_effects import wait_until_replay_ends
from planloop.owner.replay.scheduler import ReplayScheduler
from planloop.reconciler.errors import WriteConflict
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.log.record import RecordDraft
from planloop.schemas.objects.hook import HookVerdict, hook_verdict_from_json

# Hooks that are rules, programs and functions, saying what they said: nothing is evaluated, read or started.
#
# Hooks that are agents need nothing here: what they are asked and answer are messages like all others.


class RecordedHooks:
    """Who answers in place of such hooks, from the record of the verdict when that comes next."""

    def __init__(self, director: ReplayScheduler, is_alive: Callable[[], bool]) -> None:
        self._director = director
        self._is_alive = is_alive

    def at_once(self, agent: str, turn: int, key: str) -> HookVerdict:
        """See `services.HookReplay`."""
        wanted = self._director.expected
        found = None if wanted is None else _fired(wanted.draft, agent, turn, key)
        if found is None:
            raise WriteConflict(agent, None, None)
        return self._verdict(found)

    def first(self, agent: str, turn: int, key: str) -> tuple[HookVerdict, bool]:
        """See `services.HookReplay`."""
        wanted = self._director.expected
        asked = None if wanted is None else _consulted(wanted.draft, agent, key)
        if asked is None:
            return self.at_once(agent, turn, key), False
        memory = self._director.likeness.ours(unwrap_value(asked.get("memory")))
        return HookVerdict(memory=memory), True

    async def verdict(self, agent: str, turn: int, key: str) -> HookVerdict:
        """See `services.HookReplay`."""
        director = self._director
        index = director.story.next(director.cursor, lambda draft: _fired(draft, agent, turn, key) is not None)
        if not await director.due(index, self._is_alive) or index is None:
            await wait_until_replay_ends()
        found = _fired(director.story.records[index].draft, agent, turn, key)
        assert found is not None, "looked for before"
        return self._verdict(found)

    def _verdict(self, told: JsonObject) -> HookVerdict:
        return hook_verdict_from_json(self._director.likeness.ours(told["verdict"]))


def _fired(draft: RecordDraft, agent: str, turn: int, key: str) -> JsonObject | None:
    """What the record says of that verdict; None when it says nothing of it."""
    said = (one for one in draft.entries if (one.type, one.subject) == ("hook.fired", agent))
    told = (each for one in said if one.data["turn"] == turn for each in one.data["fired"])
    return next((each for each in told if each["key"] == key), None)


def _consulted(draft: RecordDraft, agent: str, key: str) -> JsonObject | None:
    """What the record says of asking the hook's agent; None when it does not say that it was asked."""
    said = (one for one in draft.entries if (one.type, one.subject) == ("message.sent", agent))
    return next((one.data for one in said if one.data.get("key") == key), None)


# Minds that are processes of their own (programs, functions, outside agents), replying as they did.

OF_THE_TURN: Final = frozenset({"turn", "text", "usage", "note", "calls"})
"""What the record of a reply says that is no data of the mind's own."""


class RecordedDeciders:
    """Who answers in place of such a mind, from the record of its reply when that comes next; nothing is started."""

    def __init__(self, director: ReplayScheduler, is_alive: Callable[[], bool]) -> None:
        self._director = director
        self._is_alive = is_alive

    async def reply(self, seen: ObservedAgent) -> DeciderReply:
        """What the agent's mind answered in this turn."""
        director, agent = self._director, seen.resource.address
        index = director.story.next(director.cursor, lambda draft: entry(draft, "model.replied", agent) is not None)
        if index is not None and self._is_asked_between(agent, index):
            director.give_up(f"{agent} was asked several times for one reply, and the log has only the last")
        if not await director.due(index, self._is_alive) or index is None:
            await wait_until_replay_ends()
        return _reply_of(director, director.story.records[index].draft, agent)

    def _is_asked_between(self, agent: str, index: int) -> bool:
        """Whether the reply at `index` is not the answer to this request: a mixin asked again."""
        records = self._director.story.records[self._director.cursor : index]
        return any(entry(one.draft, "model.requested", agent) is not None for one in records)


def _reply_of(director: ReplayScheduler, draft: RecordDraft, agent: str) -> DeciderReply:
    said = entry(draft, "model.replied", agent)
    assert said is not None, "looked for before"
    merge, ours = status_in(draft, agent), director.likeness.ours
    # Not the whole: the ids of the calls in it are still to be minted here.
    data: JsonObject = ours({name: value for name, value in said.data.items() if name not in OF_THE_TURN})
    answer: JsonObject = unwrap_value(merge["open"]["reply"])
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
    return DeciderReply(
        text=ours(answer["text"]),
        calls=calls,
        then=answer["then"],
        sleep_s=answer.get("sleep_s"),
        memory=ours(unwrap_value(merge.get("memory"))),
        usage=said.data.get("usage") or {},
        note=ours(str(said.data.get("note", ""))),
        data=data,
    )
