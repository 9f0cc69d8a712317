"""Asks hooks: rules in place, programs and functions in jobs, agents by messages; and writes what they say.

What is to be asked is found again from the open turn at every look (`moments.py`), so a crash, a lost wake-up or a
cancelled job changes nothing but that a question is put again, with the same id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio

from planloop.controllers.agent.ahead import Ahead
from planloop.controllers.agent.calling.calls import Tools
from planloop.controllers.agent.hooking import (
    closing,
    facts,
    gathering,
    lattice,
    moments,
    programs,
    recording,
    rules,
    shown_transcript,
    smart,
)
from planloop.controllers.agent.hooking.moments import Group, Moment, Question, Waits
from planloop.controllers.agent.hooking.placing import Looks
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.ports import World
from planloop.controllers.agent.status import OpenTurn, TurnCall, boxed
from planloop.schemas import limits
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import mutable, remade
from planloop.schemas.hook import HookAgent, Rule, Verdict
from planloop.schemas.record import Change, Draft, SetStatus
from planloop.schemas.resource import Resource

KEY = "hook"
"""Before the key of a job that asks a hook."""


@dataclass(frozen=True, slots=True)
class Firing:
    """What all askings of one owner share. `go_on` takes the agent's next steps after a first one, in one record."""

    world: World
    tools: Tools
    look: Callable[[str], Observed | None]
    go_on: Callable[[str, Ahead, str], Awaitable[bool]]
    files: gathering.Files = field(default_factory=gathering.Files)
    looks: Looks = field(default_factory=Looks)

    def unasked(self, seen: Observed, moment: Moment) -> bool:
        """Whether the agent has to wait for verdicts before it goes on from `moment`."""
        return bool(moments.pending(seen, moment, self._placed(seen)))

    def without_stale(self, seen: Observed) -> Observed:
        """Stops asking hooks that are over, gone or others by now: nobody waits for their verdicts (law 4)."""
        asking = [key for key in seen.live if key.startswith(f"{KEY}:")]
        if not asking:
            return seen
        known = {moments.version_of(hook) for hook, _ in seen.hooks.values()}
        stale = frozenset(key for key in asking if key.rpartition(":")[2] not in known)
        for key in stale:
            self.world.work.cancel(key)
        return remade(seen, live=seen.live - stale) if stale else seen

    def _placed(self, seen: Observed) -> Tools:
        return self.looks.of(seen, self.world, self.tools) if seen.hooks else self.tools

    def consult(self, seen: Observed, moment: Moment, ahead: Ahead) -> Waits | None:
        """Takes the asking of `moment` as far as it goes now; None: something was written, look again."""
        group = moments.pending(seen, moment, self._placed(seen))
        given = [(question, verdict) for question in group if (verdict := self._at_once(seen, question, ahead))]
        if given:
            ahead.add(seen.resource.address, recording.fired(seen, given, _took(seen, given)))
            return None
        by_message = tuple(each for each in group if isinstance(each.spec.mind, HookAgent))
        if any([self._put(seen, question, ahead) for question in by_message]):
            return None
        left = tuple(each for each in group if each not in by_message)
        waits = Waits(tuple(each.hook.address for each in group), is_thinking=bool(left), due_at=_due(seen, by_message))
        if left:
            # A program may think for minutes: who waits says for whom.
            if seen.resource.status.get("why") != waits.why:
                ahead.add(seen.resource.address, recording.asking(seen, waits.why))
            ahead.commit()  # What is asked is asked of what is written.
        for question in left:
            self._start(seen, question)
        return waits

    def objection(self, seen: Observed, call: TurnCall) -> str:
        """Why a call that has begun may not go on with the arguments of `call`, by the agent's hooks; empty: it may.

        Rules are asked in place and keep nothing of it. Whoever thinks first would have to be asked before.
        """
        for question in moments.anew(seen, call, self._placed(seen)):
            spec, view = question.spec, Ahead(self.world.store)
            if not isinstance(spec.mind, Rule):
                return f"hook {spec.name} was not asked about these arguments; let a hook rewrite them"
            said = rules.evaluate(spec, self._memory(seen, question, view), self._facts(seen, question, view))
            verdict = lattice.effective(said, spec, question.point)
            if verdict.decision != "allow" or verdict.arguments is not None:
                return f"hook {spec.name}: {verdict.reason or 'not with these arguments'}"
        return ""

    def _at_once(self, seen: Observed, question: Question, ahead: Ahead) -> Verdict | None:
        """The verdict that is to be had without waiting."""
        spec, opened = question.spec, _opened(seen)
        if isinstance(spec.mind, HookAgent) and question.key in opened.consulted:
            return self._answered(seen, question, ahead)
        if isinstance(spec.mind, HookAgent):
            said = self._first(seen, question, ahead)
            return None if said.consults else self._counted(seen, question, said.verdict, ahead)
        if not isinstance(spec.mind, Rule):
            return None
        if self.world.hooks is not None:
            return self.world.hooks.at_once(seen.resource.address, opened.turn, question.key)
        given, memory = self._facts(seen, question, ahead), self._memory(seen, question, ahead)
        return self.counted(seen, question, rules.evaluate(spec, memory, given), ahead)

    def _first(self, seen: Observed, question: Question, ahead: Ahead) -> rules.First:
        """What the rule before an agent says: its verdict, or that the agent is to be asked."""
        if not question.spec.first:
            return rules.First(Verdict(), consults=True)
        if self.world.hooks is not None:
            said = self.world.hooks.first(seen.resource.address, _opened(seen).turn, question.key)
            return rules.First(said[0], consults=said[1])
        return rules.first(question.spec, self._memory(seen, question, ahead), self._facts(seen, question, ahead))

    def _memory(self, seen: Observed, question: Question, view: Ahead) -> Json:
        return recording.memory_of(question.hook, question.spec, seen, self._original(question, view))

    def _facts(self, seen: Observed, question: Question, view: Ahead) -> facts.Facts:
        tool = None if question.call is None else self._placed(seen).get(question.call.tool)
        return gathering.facts_of(self.world, seen, view, question, tool, self.files)

    def _original(self, question: Question, view: Ahead) -> dict[str, Resource]:
        found = view.get(question.spec.original) if question.spec.original else None
        return {} if found is None else {found.address: found}

    def asked(self, seen: Observed, question: Question, view: Ahead, noted: Json = None) -> JsonObject:
        """The question as JSON; `noted` is what the hook remembers since it was begun to be asked, None: as before."""
        memory = self._memory(seen, question, view) if noted is None else noted
        question_id = closing.question_id(seen, _opened(seen), question.key)
        asked = facts.question(self._facts(seen, question, view), question_id, memory, question.spec.options)
        if question.spec.transcript is not None:
            wanted = shown_transcript.excerpt_of(question.spec.transcript)
            asked["transcript"] = shown_transcript.shown(seen.status, wanted, self.world.store.get_blob)
        return asked

    def _answered(self, seen: Observed, question: Question, ahead: Ahead) -> Verdict | None:
        """What the hook's agent has answered; None while it has not, or was not asked yet."""
        opened = _opened(seen)
        asked = closing.question_id(seen, opened, question.key)
        verdict = smart.answer(ahead, seen, question.hook, asked)
        if verdict is None:
            return None
        gone = smart.withdrawn(ahead, question.hook, asked)
        if gone:
            ahead.add(seen.resource.address, Draft("object.updated", recording.ACTOR, question.hook.address, gone))
        return self._counted(seen, question, verdict, ahead)

    def _counted(self, seen: Observed, question: Question, verdict: Verdict, view: Ahead) -> Verdict:
        """What `counted` says, of a hook that is an agent; in a replay what was recorded: there are no facts."""
        if self.world.hooks is not None:
            return self.world.hooks.at_once(seen.resource.address, _opened(seen).turn, question.key)
        return self.counted(seen, question, verdict, view)

    def counted(self, seen: Observed, question: Question, verdict: Verdict, view: Ahead) -> Verdict:
        """The verdict as it counts: a fault by the hook's policy, and the last one where what ends the hook holds now.

        That is judged with what the hook remembers from this verdict on, so that no further one follows.
        """
        spec = question.spec
        counts = lattice.effective(verdict, spec, question.point)
        if counts.is_last or not spec.expires.when:
            return counts
        memory = self._memory(seen, question, view) if counts.memory is None else counts.memory
        holds = rules.condition_holds(spec.expires.when, spec, memory, self._facts(seen, question, view))
        return remade(counts, is_last=holds)

    def _put(self, seen: Observed, question: Question, ahead: Ahead) -> bool:
        """Puts the question to the hook's agent, once; whether anything was written."""
        opened = _opened(seen)
        if question.key in opened.consulted:
            return False
        noted = self._first(seen, question, ahead).verdict.memory
        due_at = seen.now + (question.spec.timeout_s or limits.HOOK_AGENT_S)
        put = smart.question(ahead, seen, question.hook, self.asked(seen, question, ahead, noted), due_at)
        if isinstance(put, Verdict):
            counts = lattice.effective(put, question.spec, question.point)
            ahead.add(seen.resource.address, recording.fired(seen, [(question, counts)]))
            return True
        merge: JsonObject = {"open": {"consulted": {question.key: question.spec.name}}}
        changes: tuple[Change, ...] = (SetStatus(seen.resource.address, seen.resource.uid, merge), *put)
        data: JsonObject = {"to": question.hook.address, "point": question.point, "key": question.key}
        if noted is not None:
            changes += (recording.noted(seen, question, noted),)
            data["memory"] = boxed(noted)
        ahead.add(seen.resource.address, Draft("message.sent", recording.ACTOR, seen.resource.address, changes, data))
        return True

    def _start(self, seen: Observed, question: Question) -> None:
        key = _job_key(seen, question)
        priority = 0 if seen.task_spec is None else seen.task_spec.priority
        if not self.world.work.is_live(key):
            job = Asking(self, seen, question, key)
            self.world.work.start(key, seen.resource.address, job, pool=self.world.pool, priority=priority)


def _job_key(seen: Observed, question: Question) -> str:
    """The job of a question to a hook as that is now: a changed one is asked anew."""
    at = f"{seen.resource.uid}:{seen.status.incarnation}.{_opened(seen).turn}"
    return f"{KEY}:{at}.{question.key}:{moments.version_of(question.hook)}"


def _took(seen: Observed, given: Sequence[tuple[Question, Verdict]]) -> JsonObject:
    """How long the agents among the hooks took; what they used is billed by their own requests."""
    threads = (_thread_of(seen, question) for question, _ in given)
    since = [float(thread.status["asked_at"]) for thread in threads if thread is not None]
    return {"time_s": round(max(0.0, seen.now - min(since)), 3)} if since else {}


def _thread_of(seen: Observed, question: Question) -> Resource | None:
    """What the agent of a hook was asked in; None for other hooks, and before it is asked."""
    return seen.threads.get(f"thread/{closing.question_id(seen, _opened(seen), question.key)}")


def _due(seen: Observed, asked: Group) -> float | None:
    dues = [
        float(due)
        for each in asked
        if (thread := _thread_of(seen, each)) is not None and (due := thread.status.get("due_at")) is not None
    ]
    return min(dues) if dues else None


@mutable
class Asking:
    """The job of one question to a program or a function."""

    firing: Firing
    seen: Observed
    question: Question
    key: str
    went_on: bool = False

    async def __call__(self) -> None:
        world, question = self.firing.world, self.question
        await world.store.flush(world.store.view.rev)
        began_at = world.clock.now()
        verdict = await self._verdict()
        seen = self.firing.look(self.seen.resource.address)
        if seen is None or not self._is_current(seen):
            turn = _opened(self.seen).turn
            evidence = recording.late(question, self.seen.resource.address, turn, verdict)
            with anyio.CancelScope(shield=True):
                await world.store.append(evidence, {})
            return
        took: JsonObject = {"time_s": round(max(0.0, world.clock.now() - began_at), 3)}
        address = seen.resource.address
        ahead = Ahead(world.store, lambda: world.work.driving(address))
        now = seen.hooks[question.spec.name]
        asked = Question(now[0], now[1], question.point, question.index, question.rewrites, question.call)
        ahead.add(address, recording.fired(seen, [(asked, verdict)], took))
        self.went_on = await self.firing.go_on(address, ahead, self.key)

    async def _verdict(self) -> Verdict:
        world, question, seen = self.firing.world, self.question, self.seen
        if world.hooks is not None:
            return await world.hooks.verdict(seen.resource.address, _opened(seen).turn, question.key)
        asked = self.firing.asked(seen, question, Ahead(world.store))
        verdict = await programs.verdict_of(world, seen, question.spec, asked)
        return self.firing.counted(seen, question, verdict, Ahead(world.store))

    def _is_current(self, seen: Observed) -> bool:
        """Whether the open turn still waits for this very verdict."""
        opened, mine = seen.status.open, self.seen.status
        if opened is None or not seen.is_wanted or seen.resource.uid != self.seen.resource.uid:
            return False
        if (seen.status.incarnation, opened.turn) != (mine.incarnation, _opened(self.seen).turn):
            return False
        now = seen.hooks.get(self.question.spec.name)
        if now is None or self.question.key in opened.fired:
            return False
        return moments.version_of(now[0]) == moments.version_of(self.question.hook)


def _opened(seen: Observed) -> OpenTurn:
    assert seen.status.open is not None, "hooks are asked inside a turn"
    return seen.status.open
