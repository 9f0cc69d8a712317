"""Ask hooks: rules in place, programs and functions in jobs, agents by message; and record their verdicts.

What is to be asked is found again from the open turn at every look (`planloop.controllers.agent.hooks.questions`), so a
crash, a lost wake-up or a cancelled job changes nothing but that a question is put again, with the same id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio

from planloop.controllers.agent.batch import WriteBatch
from planloop.controllers.agent.hooks import (
    agent_hooks,
    collect_facts,
    comments,
    facts,
    programs,
    questions,
    rules,
    verdicts,
)
from planloop.controllers.agent.hooks.collect_facts import FollowedTools
from planloop.controllers.agent.hooks.questions import HookMoment, HookQuestion, HookWait, QuestionGroup
from planloop.controllers.agent.observe import ObservedAgent, without_jobs
from planloop.controllers.agent.services import TOOL_POOL, AgentServices
from planloop.controllers.agent.status import OpenTurn, TurnCall, wrap_value
from planloop.controllers.agent.turn import authorization
from planloop.controllers.agent.turn.permissions import ToolMap
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import mutable, remade
from planloop.schemas.log.record import Change, RecordDraft, SetStatus
from planloop.schemas.objects.hook import HookAgent, HookRule, HookVerdict
from planloop.schemas.resource import Resource

HOOK_JOB = "hook"
"""Before the key of a job that asks a hook."""


@dataclass(frozen=True, slots=True)
class HookDispatcher:
    """What all askings of one owner share. `go_on` takes the agent's next steps after a first one, in one record."""

    world: AgentServices
    tools: ToolMap
    look: Callable[[str], ObservedAgent | None]
    go_on: Callable[[str, WriteBatch, str], Awaitable[bool]]
    files: collect_facts.FileFacts = field(default_factory=collect_facts.FileFacts)
    looks: FollowedTools = field(default_factory=FollowedTools)

    def unasked(self, seen: ObservedAgent, moment: HookMoment) -> bool:
        """Whether the agent has to wait for verdicts before it goes on from `moment`."""
        return bool(questions.pending_questions(seen, moment, self._placed(seen)))

    def without_stale(self, seen: ObservedAgent) -> ObservedAgent:
        """Stops asking hooks that are over, gone or others by now: nobody waits for their verdicts (law 4)."""
        asking = [key for key in seen.objects.jobs if key.startswith(f"{HOOK_JOB}:")]
        if not asking:
            return seen
        known = {questions.hook_version(hook) for hook, _ in seen.hooks.watching.values()}
        stale = frozenset(key for key in asking if key.rpartition(":")[2] not in known)
        for key in stale:
            self.world.work.cancel(key)
        return without_jobs(seen, stale)

    def _placed(self, seen: ObservedAgent) -> ToolMap:
        return self.looks.of(seen, self.world, self.tools) if seen.hooks.watching else self.tools

    def consult(self, seen: ObservedAgent, moment: HookMoment, ahead: WriteBatch) -> HookWait | None:
        """Takes the asking of `moment` as far as it goes now; None: something was written, look again."""
        group = questions.pending_questions(seen, moment, self._placed(seen))
        given = [(question, verdict) for question in group if (verdict := self._at_once(seen, question, ahead))]
        if given:
            ahead.add(seen.resource.address, authorization.draft_verdicts(seen, given, _took(seen, given)))
            return None
        by_message = tuple(each for each in group if isinstance(each.spec.mind, HookAgent))
        if any([self._put(seen, question, ahead) for question in by_message]):
            return None
        left = tuple(each for each in group if each not in by_message)
        waits = HookWait(
            tuple(each.hook.address for each in group), is_thinking=bool(left), due_at=_due(seen, by_message)
        )
        if left:
            # A program may think for minutes: who waits says for whom.
            if seen.resource.status.get("why") != waits.why:
                ahead.add(seen.resource.address, authorization.draft_hook_wait(seen, waits.why))
            ahead.commit()  # What is asked is asked of what is written.
        for question in left:
            self._start(seen, question)
        return waits

    def objection(self, seen: ObservedAgent, call: TurnCall) -> str:
        """Why a call that has begun may not go on with the arguments of `call`, by the agent's hooks; empty: it may.

        Rules are asked in place and keep nothing of it. Whoever thinks first would have to be asked before.
        """
        for question in questions.questions_about_new_arguments(seen, call, self._placed(seen)):
            spec, view = question.spec, WriteBatch(self.world.store)
            if not isinstance(spec.mind, HookRule):
                return f"hook {spec.name} was not asked about these arguments; let a hook rewrite them"
            said = rules.evaluate_rule(spec, self._memory(seen, question, view), self._facts(seen, question, view))
            verdict = verdicts.effective_verdict(said, spec, question.point)
            if verdict.decision != "allow" or verdict.arguments is not None:
                return f"hook {spec.name}: {verdict.reason or 'not with these arguments'}"
        return ""

    def _at_once(self, seen: ObservedAgent, question: HookQuestion, ahead: WriteBatch) -> HookVerdict | None:
        """The verdict that is to be had without waiting."""
        spec, opened = question.spec, _opened(seen)
        if isinstance(spec.mind, HookAgent) and question.key in opened.hooks.consulted:
            return self._answered(seen, question, ahead)
        if isinstance(spec.mind, HookAgent):
            said = self._first(seen, question, ahead)
            return None if said.consults else self._counted(seen, question, said.verdict, ahead)
        if not isinstance(spec.mind, HookRule):
            return None
        if self.world.deciders.replayed_verdicts is not None:
            return self.world.deciders.replayed_verdicts.at_once(seen.resource.address, opened.turn, question.key)
        given, memory = self._facts(seen, question, ahead), self._memory(seen, question, ahead)
        return self.counted(seen, question, rules.evaluate_rule(spec, memory, given), ahead)

    def _first(self, seen: ObservedAgent, question: HookQuestion, ahead: WriteBatch) -> rules.FirstClauses:
        """What the rule before an agent says: its verdict, or that the agent is to be asked."""
        if not question.spec.first:
            return rules.FirstClauses(HookVerdict(), consults=True)
        if self.world.deciders.replayed_verdicts is not None:
            said = self.world.deciders.replayed_verdicts.first(seen.resource.address, _opened(seen).turn, question.key)
            return rules.FirstClauses(said[0], consults=said[1])
        return rules.evaluate_first(
            question.spec, self._memory(seen, question, ahead), self._facts(seen, question, ahead)
        )

    def _memory(self, seen: ObservedAgent, question: HookQuestion, view: WriteBatch) -> Json:
        return authorization.hook_memory(question.hook, question.spec, seen, self._original(question, view))

    def _facts(self, seen: ObservedAgent, question: HookQuestion, view: WriteBatch) -> facts.HookFacts:
        tool = None if question.call is None else self._placed(seen).get(question.call.tool)
        return collect_facts.collect_facts(self.world, seen, view, question, tool, self.files)

    def _original(self, question: HookQuestion, view: WriteBatch) -> dict[str, Resource]:
        found = view.get(question.spec.original) if question.spec.original else None
        return {} if found is None else {found.address: found}

    def asked(self, seen: ObservedAgent, question: HookQuestion, view: WriteBatch, noted: Json = None) -> JsonObject:
        """The question as JSON; `noted` is what the hook remembers since it was begun to be asked, None: as before."""
        memory = self._memory(seen, question, view) if noted is None else noted
        question_id = comments.hook_question_id(seen, _opened(seen), question.key)
        asked = facts.question_json(self._facts(seen, question, view), question_id, memory, question.spec.options)
        if question.spec.transcript is not None:
            wanted = agent_hooks.parse_excerpt(question.spec.transcript)
            asked["transcript"] = agent_hooks.excerpt_messages(seen.status, wanted, self.world.store.get_blob)
        return asked

    def _answered(self, seen: ObservedAgent, question: HookQuestion, ahead: WriteBatch) -> HookVerdict | None:
        """What the hook's agent has answered; None while it has not, or was not asked yet."""
        opened = _opened(seen)
        asked = comments.hook_question_id(seen, opened, question.key)
        verdict = agent_hooks.read_answer(ahead, seen, question.hook, asked)
        if verdict is None:
            return None
        gone = agent_hooks.withdraw_question_changes(ahead, question.hook, asked)
        if gone:
            ahead.add(
                seen.resource.address,
                RecordDraft("object.updated", authorization.HOOK_ACTOR, question.hook.address, gone),
            )
        return self._counted(seen, question, verdict, ahead)

    def _counted(
        self, seen: ObservedAgent, question: HookQuestion, verdict: HookVerdict, view: WriteBatch
    ) -> HookVerdict:
        """What `counted` says, of a hook that is an agent; in a replay what was recorded: there are no facts."""
        if self.world.deciders.replayed_verdicts is not None:
            return self.world.deciders.replayed_verdicts.at_once(
                seen.resource.address, _opened(seen).turn, question.key
            )
        return self.counted(seen, question, verdict, view)

    def counted(
        self, seen: ObservedAgent, question: HookQuestion, verdict: HookVerdict, view: WriteBatch
    ) -> HookVerdict:
        """The verdict as it counts: a fault by the hook's policy, and the last one where what ends the hook holds now.

        That is judged with what the hook remembers from this verdict on, so that no further one follows.
        """
        spec = question.spec
        counts = verdicts.effective_verdict(verdict, spec, question.point)
        if counts.is_last or not spec.expires.when:
            return counts
        memory = self._memory(seen, question, view) if counts.memory is None else counts.memory
        holds = rules.holds_outside_rule(spec.expires.when, spec, memory, self._facts(seen, question, view))
        return remade(counts, is_last=holds)

    def _put(self, seen: ObservedAgent, question: HookQuestion, ahead: WriteBatch) -> bool:
        """Puts the question to the hook's agent, once; whether anything was written."""
        opened = _opened(seen)
        if question.key in opened.hooks.consulted:
            return False
        noted = self._first(seen, question, ahead).verdict.memory
        due_at = seen.now + (question.spec.timeout_s or limits.HOOK_AGENT_S)
        put = agent_hooks.question_changes(ahead, seen, question.hook, self.asked(seen, question, ahead, noted), due_at)
        if isinstance(put, HookVerdict):
            counts = verdicts.effective_verdict(put, question.spec, question.point)
            ahead.add(seen.resource.address, authorization.draft_verdicts(seen, [(question, counts)]))
            return True
        merge: JsonObject = {"open": {"consulted": {question.key: question.spec.name}}}
        changes: tuple[Change, ...] = (SetStatus(seen.resource.address, seen.resource.uid, merge), *put)
        data: JsonObject = {"to": question.hook.address, "point": question.point, "key": question.key}
        if noted is not None:
            changes += (authorization.memory_change(seen, question, noted),)
            data["memory"] = wrap_value(noted)
        ahead.add(
            seen.resource.address,
            RecordDraft("message.sent", authorization.HOOK_ACTOR, seen.resource.address, changes, data),
        )
        return True

    def _start(self, seen: ObservedAgent, question: HookQuestion) -> None:
        key = _job_key(seen, question)
        if not self.world.work.is_live(key):
            self.world.start_job(seen, key, HookRun(self, seen, question, key), TOOL_POOL)


def _job_key(seen: ObservedAgent, question: HookQuestion) -> str:
    """The job of a question to a hook as that is now: a changed one is asked anew."""
    at = f"{seen.resource.uid}:{seen.status.incarnation}.{_opened(seen).turn}"
    return f"{HOOK_JOB}:{at}.{question.key}:{questions.hook_version(question.hook)}"


def _took(seen: ObservedAgent, given: Sequence[tuple[HookQuestion, HookVerdict]]) -> JsonObject:
    """How long the agents among the hooks took; what they used is billed by their own requests."""
    threads = (_thread_of(seen, question) for question, _ in given)
    since = [float(thread.status["asked_at"]) for thread in threads if thread is not None]
    return {"time_s": round(max(0.0, seen.now - min(since)), 3)} if since else {}


def _thread_of(seen: ObservedAgent, question: HookQuestion) -> Resource | None:
    """What the agent of a hook was asked in; None for other hooks, and before it is asked."""
    return seen.objects.threads.get(f"thread/{comments.hook_question_id(seen, _opened(seen), question.key)}")


def _due(seen: ObservedAgent, asked: QuestionGroup) -> float | None:
    dues = [
        float(due)
        for each in asked
        if (thread := _thread_of(seen, each)) is not None and (due := thread.status.get("due_at")) is not None
    ]
    return min(dues) if dues else None


@mutable
class HookRun:
    """The job of one question to a program or a function."""

    firing: HookDispatcher
    seen: ObservedAgent
    question: HookQuestion
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
            evidence = authorization.draft_late_evidence(question, self.seen.resource.address, turn, verdict)
            with anyio.CancelScope(shield=True):
                await world.store.append(evidence, {})
            return
        took: JsonObject = {"time_s": round(max(0.0, world.clock.now() - began_at), 3)}
        address = seen.resource.address
        ahead = WriteBatch(world.store, lambda: world.work.driving(address))
        now = seen.hooks.watching[question.spec.name]
        asked = HookQuestion(now[0], now[1], question.point, question.index, question.rewrites, question.call)
        ahead.add(address, authorization.draft_verdicts(seen, [(asked, verdict)], took))
        self.went_on = await self.firing.go_on(address, ahead, self.key)

    async def _verdict(self) -> HookVerdict:
        world, question, seen = self.firing.world, self.question, self.seen
        if world.deciders.replayed_verdicts is not None:
            return await world.deciders.replayed_verdicts.verdict(
                seen.resource.address, _opened(seen).turn, question.key
            )
        asked = self.firing.asked(seen, question, WriteBatch(world.store))
        verdict = await programs.run_hook_program(world, seen, question.spec, asked)
        return self.firing.counted(seen, question, verdict, WriteBatch(world.store))

    def _is_current(self, seen: ObservedAgent) -> bool:
        """Whether the open turn still waits for this very verdict."""
        opened, mine = seen.status.open, self.seen.status
        if opened is None or not seen.is_wanted or seen.resource.uid != self.seen.resource.uid:
            return False
        if (seen.status.incarnation, opened.turn) != (mine.incarnation, _opened(self.seen).turn):
            return False
        now = seen.hooks.watching.get(self.question.spec.name)
        if now is None or self.question.key in opened.hooks.fired:
            return False
        return questions.hook_version(now[0]) == questions.hook_version(self.question.hook)


def _opened(seen: ObservedAgent) -> OpenTurn:
    assert seen.status.open is not None, "hooks are asked inside a turn"
    return seen.status.open
