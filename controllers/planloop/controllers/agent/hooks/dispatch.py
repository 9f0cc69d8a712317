"""Ask hooks: collect the facts, evaluate rules, run programs and functions, message agents, record the verdicts.

Every pass computes the open questions from the open turn (`planloop.controllers.agent.hooks.questions`). After a crash,
a lost wake-up or a cancelled job, the same question is asked again, with the same id.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio

from planloop.controllers.agent.batch import WriteBatch
from planloop.controllers.agent.hooks import agent_hooks, facts, programs, questions, rules, verdicts
from planloop.controllers.agent.hooks.facts import CallFact, ChildFact, HookFacts
from planloop.controllers.agent.hooks.questions import HookMoment, HookQuestion, HookWait, QuestionGroup
from planloop.controllers.agent.mail.wake_reasons import is_own_news
from planloop.controllers.agent.observe import ObservedAgent, ObservedChild, without_jobs
from planloop.controllers.agent.run_environment import resolve_agent_workspace
from planloop.controllers.agent.services import TOOL_POOL, AgentServices
from planloop.controllers.agent.status import AGENT_ACTOR, OpenTurn, TurnCall, wrap_value
from planloop.controllers.agent.tools.delegation import count_sketches
from planloop.controllers.agent.tools.errors import ToolError
from planloop.controllers.agent.tools.tool import SubjectsFunction, Tool
from planloop.controllers.agent.tools.workspace import Workspace
from planloop.controllers.agent.turn import authorization
from planloop.controllers.agent.turn.permissions import ENDING_TOOLS, ToolMap
from planloop.reconciler.store.store import View
from planloop.schemas import address as addresses
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, encode_text, sha256_hex
from planloop.schemas.frozen import mutable, remade
from planloop.schemas.log.record import Change, RecordDraft, SetStatus
from planloop.schemas.objects.approval import WAITING
from planloop.schemas.objects.call import arguments_as_map
from planloop.schemas.objects.hook import HookAgent, HookRule, HookVerdict
from planloop.schemas.resource import Resource
from planloop.schemas.tools import AGENT_TOOL, PATH_TOOLS

# A hook on `write(src/**)` must also match `./src/a` and links. Rights are checked where a path is used, but hooks are
# asked before, so paths are resolved here too.


class FollowedTools:
    """`PathFollowing` tools for the last observation of an agent, because one step uses them several times."""

    def __init__(self) -> None:
        self._last: tuple[ObservedAgent, ToolMap] | None = None

    def of(self, agent: ObservedAgent, services: AgentServices, tools: ToolMap) -> ToolMap:
        """`tools` as `agent` has them; unchanged if its folder cannot be entered."""
        if self._last is None or self._last[0] is not agent:
            try:
                space = resolve_agent_workspace(services, agent)
            except ToolError:
                return tools
            self._last = agent, PathFollowing(tools, space.folder, space.root)
        return self._last[1]


class PathFollowing(Mapping[str, Tool]):
    """`tools` with more subjects for those that take a path: the path as given, and its real path below `folder`.

    A relative path is below `root`. Each path is resolved once, so this is valid for one observation of an agent.
    """

    def __init__(self, tools: ToolMap, folder: Path, root: Path) -> None:
        self._tools = tools
        self._folder = folder
        self._root = root
        self._followed: dict[str, tuple[str, ...]] = {}

    def __getitem__(self, name: str) -> Tool:
        tool = self._tools[name]
        if name not in PATH_TOOLS:
            return tool
        return remade(tool, subjects=partial(self._subjects, tool.subjects))

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def _subjects(self, given: SubjectsFunction, arguments: JsonObject) -> tuple[str, ...]:
        path = str(arguments.get("path", "."))
        if path not in self._followed:
            self._followed[path] = self._places(path)
        return tuple(dict.fromkeys((*given(arguments), *self._followed[path])))

    def _places(self, path: str) -> tuple[str, ...]:
        real = _real(self._root, path)
        return (os.path.normpath(path), *(os.path.relpath(real, base) for base in (self._folder, self._root)))


def followed_paths(root: Path, path: str) -> tuple[str, ...]:
    """`path` relative to `root`: normalised as written, and with links resolved."""
    return tuple(os.path.relpath(each, root) for each in (os.path.normpath(root / path), _real(root, path)))


def _real(root: Path, path: str) -> str:
    try:
        return os.path.realpath(root / path)
    except ValueError:  # The path has a null byte, so no such file exists.
        return path


_Stamp = tuple[int, int, int]


class FileFacts:
    """Digests of files on disk, for all agents; a file is read again only if its times or size have changed."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[_Stamp, str]] = {}
        self._last: tuple[ObservedAgent, dict[str, str]] | None = None

    def changed(self, folder: Path, agent: ObservedAgent) -> dict[str, str]:
        """The changed ones of the files that the agent has read, by path below `folder`, with their digests.

        The digest is empty for a file that is gone. All hooks get the same result for one observation of the agent.
        """
        if self._last is None or self._last[0] is not agent:
            self._last = agent, self._changed(folder, agent.status.memory.files)
        return self._last[1]

    def _changed(self, folder: Path, known: Mapping[str, str]) -> dict[str, str]:
        found = {path: self._digest(folder / path) for path in known}
        return {path: now for path, now in found.items() if now != known[path]}

    def _digest(self, path: Path) -> str:
        try:
            at = path.lstat()
            if not stat.S_ISREG(at.st_mode) or at.st_size > limits.FILE_BYTES_MAX:
                return ""
            stamp, name = (at.st_mtime_ns, at.st_size, at.st_ino), str(path)
            kept = self._kept.get(name)
            if kept is not None and kept[0] == stamp:
                return kept[1]
            found = sha256_hex(path.read_bytes())
        except OSError:
            return ""
        if len(self._kept) >= limits.HOOK_FILES_KEPT_MAX:
            self._kept.clear()
        self._kept[name] = (stamp, found)
        return found


def collect_facts(
    services: AgentServices,
    agent: ObservedAgent,
    view: View,
    question: HookQuestion,
    tool: Tool | None,
    files: FileFacts,
) -> HookFacts:
    """The facts for the hook of `question`."""
    opened, spec = agent.status.open, agent.spec
    assert opened is not None, "hooks are asked inside a turn"
    space = _space(services, agent)
    known = agent.status.memory.files
    path = addresses.parse_address(agent.resource.address).path
    return HookFacts(
        point=question.point,
        agent=agent.resource.address,
        task=spec.task,
        cwd=str(services.folder if space is None else space.root),
        turn=opened.turn,
        now=agent.now,
        incarnation=agent.status.incarnation,
        depth=len(path),
        goal="" if agent.task_spec is None else agent.task_spec.goal,
        call=None if question.call is None else _call_fact(agent, opened, question, question.call, tool, space),
        prompt=_prompt(agent, opened),
        reply=reply_text(opened),
        reasons=opened.news.reasons,
        messages=opened.news.messages,
        children=tuple(_child_fact(agent, view, opened, child) for child in agent.context.children),
        files_known=tuple(sorted(known)),
        files_changed=files.changed(services.folder, agent) if known else {},
        turn_calls=Counter(call.tool for call in opened.reply.calls),
        begins=sum(_children_begun(call) for call in opened.reply.calls),
        calls=agent.status.used.calls,
        budget_left=dict(agent.budget.left),
        approvals=tuple(sorted(name for name, one in agent.objects.approvals.items() if one.state == WAITING)),
        requests=tuple(
            sorted(name for name, one in agent.objects.approvals.items() if _is_request(one.spec, one.state))
        ),
        claim="" if opened.claim is None else str(opened.claim["kind"]),
        sent_back=agent.status.progress.sent_back,
        nudges=agent.status.progress.nudges,
    )


def _children_begun(call: TurnCall) -> int:
    """The number of children that a call would start."""
    if call.tool == "task":
        return count_sketches(arguments_as_map(call.arguments))
    return int(call.tool == "restore" or call.tool.startswith(AGENT_TOOL))


def _space(services: AgentServices, agent: ObservedAgent) -> Workspace | None:
    try:
        return resolve_agent_workspace(services, agent)
    except ToolError:
        return None


def _is_request(spec: Mapping[str, Json], state: str) -> bool:
    return state == WAITING and spec["kind"] == "request"


def _call_fact(
    agent: ObservedAgent,
    opened: OpenTurn,
    question: HookQuestion,
    call: TurnCall,
    tool: Tool | None,
    space: Workspace | None,
) -> CallFact:
    arguments, original = (
        arguments_as_map(call.arguments),
        arguments_as_map(opened.reply.calls[question.index].arguments),
    )
    if tool is not None:
        original = tool.plain(original)
    made = agent.objects.calls.get(call.address)
    return CallFact(
        id=call.address,
        tool=call.tool,
        arguments=arguments,
        effect="" if made is None else str(made.spec["effect"]),
        subjects=() if tool is None else tool.subjects(arguments),
        exact=None if tool is None else _exact(tool, arguments),
        places=_places(tool, arguments, space),
        original=None if original == arguments else original,
        result=opened.results.get(call.address),
    )


def _places(tool: Tool | None, arguments: JsonObject, space: Workspace | None) -> tuple[str, ...]:
    path = arguments.get("path")
    if tool is None or space is None or tool.name not in PATH_TOOLS or not isinstance(path, str):
        return ()
    return followed_paths(space.root, path)


def _exact(tool: Tool, arguments: JsonObject) -> tuple[str, ...] | None:
    return tool.subjects(arguments) if tool.name in PATH_TOOLS else tool.exact(arguments)


def _prompt(agent: ObservedAgent, opened: OpenTurn) -> str:
    """The text that the agent gets at this point: the goal in the first turn, and messages."""
    messages = [_text(message.body) for message in opened.news.messages if not is_own_news(message)]
    goal = [agent.task_spec.goal] if opened.turn == 1 and agent.task_spec is not None else []
    return "\n\n".join(text for text in (*goal, *messages) if text)


def reply_text(opened: OpenTurn) -> str:
    """The text of the agent's reply, and the result or reason of its claim."""
    ends = [arguments_as_map(call.arguments) for call in opened.reply.calls if call.tool in ENDING_TOOLS]
    texts = (opened.reply.text, *(_text(given.get("result", given.get("reason"))) for given in ends))
    return "\n\n".join(dict.fromkeys(text for text in texts if text))


def _text(body: Json) -> str:
    if body is None:
        return ""
    return body if isinstance(body, str) else encode_text(body)


def _child_fact(seen: ObservedAgent, view: View, opened: OpenTurn, child: ObservedChild) -> ChildFact:
    name = child.address.replace("task/", "agent/", 1)
    agent = view.get(name)
    since = seen.status.mail.spoken.get(name, opened.turn)
    return ChildFact(
        agent=name,
        task=child.address,
        state=child.state,
        goal=child.view.goal,
        is_live=child.is_live,
        agent_state="" if agent is None else agent.state,
        turns_silent=max(0, opened.turn - since),
    )


HOOK_JOB = "hook"
"""The prefix of the keys of jobs that ask a hook."""


@dataclass(frozen=True, slots=True)
class HookDispatcher:
    """Asks the hooks of all agents of one owner.

    `take_next_steps` writes a first step of an agent and those that follow from it, in one record.
    """

    services: AgentServices
    tools: ToolMap
    look: Callable[[str], ObservedAgent | None]
    take_next_steps: Callable[[str, WriteBatch, str], Awaitable[bool]]
    files: FileFacts = field(default_factory=FileFacts)
    looks: FollowedTools = field(default_factory=FollowedTools)

    def unasked(self, agent: ObservedAgent, moment: HookMoment) -> bool:
        """Whether the agent must wait for verdicts of `moment`."""
        return bool(questions.pending_questions(agent, moment, self._placed(agent)))

    def without_stale(self, agent: ObservedAgent) -> ObservedAgent:
        """Cancel questions to hooks that have ended or were removed or changed: their verdicts do not count (law 4)."""
        asking = [key for key in agent.objects.jobs if key.startswith(f"{HOOK_JOB}:")]
        if not asking:
            return agent
        known = {questions.hook_version(hook) for hook, _ in agent.hooks.watching.values()}
        stale = frozenset(key for key in asking if key.rpartition(":")[2] not in known)
        for key in stale:
            self.services.work.cancel(key)
        return without_jobs(agent, stale)

    def _placed(self, agent: ObservedAgent) -> ToolMap:
        return self.looks.of(agent, self.services, self.tools) if agent.hooks.watching else self.tools

    def consult(self, agent: ObservedAgent, moment: HookMoment, batch: WriteBatch) -> HookWait | None:
        """Ask the hooks of `moment` as far as possible now. Returns None if a record was added, so decide again."""
        group = questions.pending_questions(agent, moment, self._placed(agent))
        given = [(question, verdict) for question in group if (verdict := self._at_once(agent, question, batch))]
        if given:
            batch.add(agent.resource.address, authorization.draft_verdicts(agent, given, _took(agent, given)))
            return None
        by_message = tuple(each for each in group if isinstance(each.spec.mind, HookAgent))
        if any([self._put(agent, question, batch) for question in by_message]):
            return None
        left = tuple(each for each in group if each not in by_message)
        waits = HookWait(
            tuple(each.hook.address for each in group), is_thinking=bool(left), due_at=_due(agent, by_message)
        )
        if left:
            # A program may take minutes, so the agent's status names the hook.
            if agent.resource.status.get("why") != waits.why:
                batch.add(agent.resource.address, authorization.draft_hook_wait(agent, waits.why))
            batch.commit()  # A question is about a state that has been written.
        for question in left:
            self._start(agent, question)
        return waits

    def objection(self, agent: ObservedAgent, call: TurnCall) -> str:
        """Why hooks forbid a started call to continue with the arguments of `call`; empty if they allow it.

        Rules are evaluated in place, and their memory is not changed. Other hooks would take too long, so a call with a
        hook of another kind is refused.
        """
        for question in questions.questions_about_new_arguments(agent, call, self._placed(agent)):
            spec, view = question.spec, WriteBatch(self.services.store)
            if not isinstance(spec.mind, HookRule):
                return f"hook {spec.name} was not asked about these arguments; only a hook may change them here"
            judged = rules.evaluate_rule(spec, self._memory(agent, question, view), self._facts(agent, question, view))
            verdict = verdicts.effective_verdict(judged, spec, question.point)
            if verdict.decision != "allow" or verdict.arguments is not None:
                return f"hook {spec.name}: {verdict.reason or 'the arguments are not allowed'}"
        return ""

    def _at_once(self, agent: ObservedAgent, question: HookQuestion, batch: WriteBatch) -> HookVerdict | None:
        """The verdict if it is available without waiting."""
        spec, opened = question.spec, _opened(agent)
        if isinstance(spec.mind, HookAgent) and question.key in opened.hooks.consulted:
            return self._verdict_of_agent(agent, question, batch)
        if isinstance(spec.mind, HookAgent):
            first = self._first(agent, question, batch)
            return None if first.consults else self._counted(agent, question, first.verdict, batch)
        if not isinstance(spec.mind, HookRule):
            return None
        if self.services.deciders.replayed_verdicts is not None:
            return self.services.deciders.replayed_verdicts.at_once(agent.resource.address, opened.turn, question.key)
        given, memory = self._facts(agent, question, batch), self._memory(agent, question, batch)
        return self.counted(agent, question, rules.evaluate_rule(spec, memory, given), batch)

    def _first(self, agent: ObservedAgent, question: HookQuestion, batch: WriteBatch) -> rules.FirstClauses:
        """The verdict of the rule before an agent, or that the agent must be asked."""
        if not question.spec.first:
            return rules.FirstClauses(HookVerdict(), consults=True)
        if self.services.deciders.replayed_verdicts is not None:
            verdict, consults = self.services.deciders.replayed_verdicts.first(
                agent.resource.address, _opened(agent).turn, question.key
            )
            return rules.FirstClauses(verdict, consults=consults)
        return rules.evaluate_first(
            question.spec, self._memory(agent, question, batch), self._facts(agent, question, batch)
        )

    def _memory(self, agent: ObservedAgent, question: HookQuestion, view: WriteBatch) -> Json:
        return authorization.hook_memory(question.hook, question.spec, agent, self._original(question, view))

    def _facts(self, agent: ObservedAgent, question: HookQuestion, view: WriteBatch) -> facts.HookFacts:
        tool = None if question.call is None else self._placed(agent).get(question.call.tool)
        return collect_facts(self.services, agent, view, question, tool, self.files)

    def _original(self, question: HookQuestion, view: WriteBatch) -> dict[str, Resource]:
        found = view.get(question.spec.original) if question.spec.original else None
        return {} if found is None else {found.address: found}

    def asked(self, agent: ObservedAgent, question: HookQuestion, view: WriteBatch, noted: Json = None) -> JsonObject:
        """The question as JSON. `noted` is the memory of the clauses before an agent; None if they changed none."""
        memory = self._memory(agent, question, view) if noted is None else noted
        question_id = agent_hooks.hook_question_id(agent, _opened(agent), question.key)
        asked = facts.question_json(self._facts(agent, question, view), question_id, memory, question.spec.options)
        if question.spec.transcript is not None:
            wanted = agent_hooks.parse_excerpt(question.spec.transcript)
            asked["transcript"] = agent_hooks.excerpt_messages(agent.status, wanted, self.services.store.get_blob)
        return asked

    def _verdict_of_agent(self, agent: ObservedAgent, question: HookQuestion, batch: WriteBatch) -> HookVerdict | None:
        """The verdict in the answer of the hook's agent; None while it has not answered."""
        opened = _opened(agent)
        asked = agent_hooks.hook_question_id(agent, opened, question.key)
        verdict = agent_hooks.verdict_of_answer(batch, agent, question.hook, asked)
        if verdict is None:
            return None
        gone = agent_hooks.withdraw_question_changes(batch, question.hook, asked)
        if gone:
            batch.add(
                agent.resource.address,
                RecordDraft("object.updated", AGENT_ACTOR, question.hook.address, gone),
            )
        return self._counted(agent, question, verdict, batch)

    def _counted(
        self, agent: ObservedAgent, question: HookQuestion, verdict: HookVerdict, view: WriteBatch
    ) -> HookVerdict:
        """The result of `counted` for a hook that is an agent; in a replay, which has no facts, the recorded one."""
        if self.services.deciders.replayed_verdicts is not None:
            return self.services.deciders.replayed_verdicts.at_once(
                agent.resource.address, _opened(agent).turn, question.key
            )
        return self.counted(agent, question, verdict, view)

    def counted(
        self, agent: ObservedAgent, question: HookQuestion, verdict: HookVerdict, view: WriteBatch
    ) -> HookVerdict:
        """The verdict that counts: after the hook's policy for errors, and marked as the last if the hook expires.

        The condition of `expires` is evaluated with the memory of this verdict, so that no further question follows.
        """
        spec = question.spec
        counts = verdicts.effective_verdict(verdict, spec, question.point)
        if counts.is_last or not spec.expires.when:
            return counts
        memory = self._memory(agent, question, view) if counts.memory is None else counts.memory
        holds = rules.holds_outside_rule(spec.expires.when, spec, memory, self._facts(agent, question, view))
        return remade(counts, is_last=holds)

    def _put(self, agent: ObservedAgent, question: HookQuestion, batch: WriteBatch) -> bool:
        """Ask the hook's agent, once. Returns whether a record was added."""
        opened = _opened(agent)
        if question.key in opened.hooks.consulted:
            return False
        noted = self._first(agent, question, batch).verdict.memory
        due_at = agent.now + (question.spec.timeout_s or limits.HOOK_AGENT_S)
        put = agent_hooks.question_changes(
            batch, agent, question.hook, self.asked(agent, question, batch, noted), due_at
        )
        if isinstance(put, HookVerdict):
            counts = verdicts.effective_verdict(put, question.spec, question.point)
            batch.add(agent.resource.address, authorization.draft_verdicts(agent, [(question, counts)]))
            return True
        merge: JsonObject = {"open": {"consulted": {question.key: question.spec.name}}}
        changes: tuple[Change, ...] = (SetStatus(agent.resource.address, agent.resource.uid, merge), *put)
        data: JsonObject = {"to": question.hook.address, "point": question.point, "key": question.key}
        if noted is not None:
            changes += (authorization.memory_change(agent, question, noted),)
            data["memory"] = wrap_value(noted)
        batch.add(
            agent.resource.address,
            RecordDraft("message.sent", AGENT_ACTOR, agent.resource.address, changes, data),
        )
        return True

    def _start(self, agent: ObservedAgent, question: HookQuestion) -> None:
        key = _job_key(agent, question)
        if not self.services.work.is_live(key):
            self.services.start_job(agent, key, HookRun(self, agent, question, key), TOOL_POOL)


def _job_key(agent: ObservedAgent, question: HookQuestion) -> str:
    """The job key of a question to this version of a hook: a changed hook is asked again."""
    at = f"{agent.resource.uid}:{agent.status.incarnation}.{_opened(agent).turn}"
    return f"{HOOK_JOB}:{at}.{question.key}:{questions.hook_version(question.hook)}"


def _took(agent: ObservedAgent, given: Sequence[tuple[HookQuestion, HookVerdict]]) -> JsonObject:
    """The time that agents among the hooks took. Their own requests bill their tokens and money."""
    threads = (_thread_of(agent, question) for question, _ in given)
    since = [float(thread.status["asked_at"]) for thread in threads if thread is not None]
    return {"time_s": round(max(0.0, agent.now - min(since)), 3)} if since else {}


def _thread_of(agent: ObservedAgent, question: HookQuestion) -> Resource | None:
    """The thread with the question to the agent of a hook; None for other hooks, and before it is asked."""
    return agent.objects.threads.get(f"thread/{agent_hooks.hook_question_id(agent, _opened(agent), question.key)}")


def _due(agent: ObservedAgent, asked: QuestionGroup) -> float | None:
    dues = [
        float(due)
        for each in asked
        if (thread := _thread_of(agent, each)) is not None and (due := thread.status.get("due_at")) is not None
    ]
    return min(dues) if dues else None


@mutable
class HookRun:
    """The job of one question to a program or function. `took_next_steps`: as in `CallRun`."""

    dispatcher: HookDispatcher
    seen: ObservedAgent
    question: HookQuestion
    key: str
    took_next_steps: bool = False

    async def __call__(self) -> None:
        services, question = self.dispatcher.services, self.question
        await services.store.flush(services.store.view.rev)
        began_at = services.clock.now()
        verdict = await self._verdict()
        seen = self.dispatcher.look(self.seen.resource.address)
        if seen is None or not self._is_current(seen):
            turn = _opened(self.seen).turn
            evidence = authorization.draft_late_evidence(question, self.seen.resource.address, turn, verdict)
            with anyio.CancelScope(shield=True):
                await services.store.append(evidence, {})
            return
        took: JsonObject = {"time_s": round(max(0.0, services.clock.now() - began_at), 3)}
        address = seen.resource.address
        ahead = WriteBatch(services.store, lambda: services.work.without_waking(address))
        now = seen.hooks.watching[question.spec.name]
        asked = HookQuestion(now[0], now[1], question.point, question.index, question.rewrites, question.call)
        ahead.add(address, authorization.draft_verdicts(seen, [(asked, verdict)], took))
        self.took_next_steps = await self.dispatcher.take_next_steps(address, ahead, self.key)

    async def _verdict(self) -> HookVerdict:
        services, question, seen = self.dispatcher.services, self.question, self.seen
        if services.deciders.replayed_verdicts is not None:
            return await services.deciders.replayed_verdicts.verdict(
                seen.resource.address, _opened(seen).turn, question.key
            )
        asked = self.dispatcher.asked(seen, question, WriteBatch(services.store))
        verdict = await programs.run_hook_program(services, seen, question.spec, asked)
        return self.dispatcher.counted(seen, question, verdict, WriteBatch(services.store))

    def _is_current(self, agent: ObservedAgent) -> bool:
        """Whether the open turn still waits for this verdict."""
        opened, mine = agent.status.open, self.seen.status
        if opened is None or not agent.is_wanted or agent.resource.uid != self.seen.resource.uid:
            return False
        if (agent.status.incarnation, opened.turn) != (mine.incarnation, _opened(self.seen).turn):
            return False
        now = agent.hooks.watching.get(self.question.spec.name)
        if now is None or self.question.key in opened.hooks.fired:
            return False
        return questions.hook_version(now[0]) == questions.hook_version(self.question.hook)


def _opened(agent: ObservedAgent) -> OpenTurn:
    assert agent.status.open is not None, "hooks are asked inside a turn"
    return agent.status.open
