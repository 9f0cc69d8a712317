"""Steps of mixins around calls and turns: retry, time limit, cache, guard, trace.

The first step of a list is the outermost; the tool or the decider is in the middle. The tool runs only under a durable
intent (a retry records its own, law 5), and a call has exactly one settlement. Notes of the steps go into the record
that settles the call. A decider that fails raises DeciderFailed through the steps. Each retry of a turn is a separate
request, recorded and billed. The router's own attempts to reach a model happen inside all steps.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import anyio

from planloop.controllers.agent import budget
from planloop.controllers.agent.deciders.port import DeciderFailed, DeciderReply
from planloop.controllers.agent.mixins import steps
from planloop.controllers.agent.mixins.steps import MixinStep, steps_for_call
from planloop.controllers.agent.observe import ObservedAgent
from planloop.controllers.agent.services import AgentServices
from planloop.controllers.agent.status import AGENT_ACTOR
from planloop.controllers.agent.tools.errors import ToolDenied
from planloop.controllers.agent.tools.tool import CallEnding, Settlement, Tool, ToolContext
from planloop.controllers.agent.tools.workspace import SKIPPED_FOLDERS
from planloop.controllers.agent.turn import records
from planloop.reconciler.store.store import View
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, sha256_of_value
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.log.record import Change, RecordDraft, SetStatus
from planloop.schemas.objects.budget import Cost
from planloop.schemas.objects.call import CallResult, CallState, EffectClass
from planloop.schemas.resource import Resource

RETRYABLE_ERRORS: Final = frozenset(
    {"TimedOut", "Disconnected", "NoServer", "ServerError", "Unreachable", "Overloaded", "RateLimited", "NotStarted"}
)
"""Reasons of transient failures."""

ERRORS_BEFORE_EFFECT: Final = frozenset({"NotStarted", "NoServer", "Unreachable"})
"""Reasons of failures before any effect, after which a call of any effect class may be repeated."""


def may_retry_call(step: MixinStep, result: CallResult, effect: EffectClass) -> bool:
    """Whether a call with this result may be retried under `step`, apart from the number of retries."""
    if result.state is not CallState.FAILED:
        return False  # Never after a denial, a success or an unknown outcome.
    named = step.table.get("errors")
    if result.error not in (RETRYABLE_ERRORS if not named else frozenset(named)):
        return False
    return effect.may_run_again or result.error in ERRORS_BEFORE_EFFECT


def retries_max(step: MixinStep) -> int:
    """Return the maximum number of retries."""
    return int(step.table.get("max", 2))


def retry_pause_s(step: MixinStep, tries: int) -> float:
    """Return the pause before the next try, in seconds: it doubles with each try, up to a limit."""
    base = float(step.table.get("backoff", limits.BACKOFF_BASE_S))
    return min(limits.BACKOFF_CAP_S, base * 2.0 ** min(max(0, tries - 1), 30))


def draft_retry(
    agent: ObservedAgent, view: View, call: Resource, failed: CallResult, tries: int, pause_s: float
) -> RecordDraft:
    """Return the record that authorizes the call again after its `tries`-th try. The next try records a new intent."""
    why = f"try {tries} failed ({failed.error}); the next one in {pause_s:g} s"
    merge: JsonObject = {"state": str(CallState.AUTHORIZED), "retries": tries, "why": why}
    changes = (SetStatus(call.address, call.uid, merge), *retry_cost_changes(agent, view))
    data: JsonObject = {"retry": tries, "tool": call.spec["tool"], "pause_s": pause_s, "failed": failed.to_json()}
    return RecordDraft("call.reconciled", AGENT_ACTOR, call.address, changes, data)


def retry_cost_changes(agent: ObservedAgent, view: View) -> tuple[Change, ...]:
    """Return the changes that count one retry of the agent."""
    return budget.settle_changes(view, agent.resource, "", Cost(retries=1))


# The cache holds results of read calls by agent and arguments. Any other call, of any agent, invalidates all entries; a
# change of a file below the path of an entry invalidates that entry.


@frozen
class _Kept:
    answer: Settlement
    at: float
    writes: int
    marks: str


@mutable
class ResultCache:
    """The cached results of one owner. `writes` counts the events at which something may have changed."""

    writes: int = 0
    _kept: dict[str, OrderedDict[str, _Kept]] = field(default_factory=dict)

    def changed(self) -> None:
        """Invalidate all entries, because something may have been written."""
        self.writes += 1
        self._kept.clear()

    async def answered(
        self, context: ToolContext, step: MixinStep, inner: Callable[[], Awaitable[CallEnding]]
    ) -> CallEnding:
        """Return the cached result if it is valid, else the result of `inner`, which is cached if possible."""
        if context.spec.effect is not EffectClass.READ or isinstance(context.space, ToolDenied):
            return await inner()
        agent = f"{context.seen.resource.uid}:{context.spec.incarnation}"
        key = sha256_of_value([context.spec.tool, context.spec.arguments])
        marks = await anyio.to_thread.run_sync(_marks, context) if _paths(context) else ""
        good_s = float(step.table.get("for", limits.CACHE_GOOD_S))
        kept = self._kept.get(agent, OrderedDict()).get(key)
        now = context.services.clock.now()
        if kept is not None and kept.marks == marks and now - kept.at <= good_s:
            self._kept[agent].move_to_end(key)
            return replace(kept.answer, data={**kept.answer.data, "cached": True})
        writes = self.writes
        ending = await inner()
        if _may_keep(ending) and writes == self.writes:
            assert isinstance(ending, Settlement), "only settlements are kept"
            self._keep(agent, key, _Kept(ending, now, writes, marks), int(step.table.get("entries", 64)))
        return ending

    def _keep(self, agent: str, key: str, kept: _Kept, entries: int) -> None:
        if len(self._kept) > limits.SPECS_KEPT_MAX:
            self._kept.clear()
        answers = self._kept.setdefault(agent, OrderedDict())
        answers[key] = kept
        while len(answers) > min(entries, limits.CACHE_ENTRIES_MAX):
            answers.popitem(last=False)


def _may_keep(ending: CallEnding) -> bool:
    if not isinstance(ending, Settlement) or ending.result.state is not CallState.SUCCEEDED:
        return False
    return not (ending.changes or ending.agent or ending.turn)


def _paths(context: ToolContext) -> list[Path]:
    """Return the paths that the call reads, from its arguments."""
    root = context.workspace.root
    named = [str(value) for name, value in context.spec.arguments.items() if name == "path"]
    if not named and context.spec.tool == "search":
        named = ["."]
    return [root / name for name in named]


def _marks(context: ToolContext) -> str:
    """Return a digest of names, sizes and times below the paths of the call. It detects nearly all changes."""
    marks: list[Json] = []
    for path in _paths(context):
        marks += _mark_below(path)
    return sha256_of_value(marks)


def _mark_below(path: Path) -> list[Json]:
    found: list[Json] = [_mark(path)]
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        for name in sorted(names):
            found.append(_mark(Path(folder) / name))
            if len(found) > limits.FILES_SEARCHED_MAX:
                return found
    return found


def _mark(path: Path) -> Json:
    try:
        about = path.lstat()
    except OSError:
        return [str(path), None]
    out: list[Json] = [str(path), about.st_size, about.st_mtime_ns, about.st_ino]
    return out


InnerCall: TypeAlias = Callable[[], Awaitable[CallEnding]]


class CallAttempts(Protocol):
    """A call as its layers see it."""

    context: ToolContext
    tool: Tool
    tries: int

    @property
    def cache(self) -> ResultCache: ...

    async def perform(self) -> CallEnding:
        """Run the tool under the current intent."""
        ...

    async def again(self, failed: CallResult, pause_s: float) -> Settlement | None:
        """Record the failure, pause, and record a new intent. Returns a settlement if the call may not be retried."""
        ...

    def narrowed(self, arguments: JsonObject) -> Settlement | None:
        """Replace the arguments. Returns a settlement if a denial matches the new ones."""
        ...


def steps_for_context(context: ToolContext, tool: Tool) -> tuple[MixinStep, ...]:
    """Return the steps that apply to the call in `context`."""
    subjects = tool.subjects(context.spec.arguments)
    return steps_for_call(context.seen.spec, tool.name, subjects, is_free=tool.is_free)


async def run_layers(call: CallAttempts, steps: Sequence[MixinStep]) -> CallEnding:
    """Run the call through all its layers and return its settlement."""
    inner: InnerCall = call.perform
    for step in reversed(steps):
        inner = _layer(call, step, inner)
    return await inner()


def _layer(call: CallAttempts, step: MixinStep, inner: InnerCall) -> InnerCall:
    async def layer() -> CallEnding:
        match step.verb:
            case "trace":
                return await _traced(call, inner)
            case "retry":
                return await _retried(call, step, inner)
            case "timeout":
                return await _timed(call, step, inner)
            case "cache":
                return await call.cache.answered(call.context, step, inner)
            case "python" | "run" if step.point == "before":
                return await _guarded(call, step, inner)
            case "python" | "run":
                return await _looked_at(call, step, inner)
            case _:
                return await inner()  # Permits were taken before the call started.

    return layer


def add_trace(ending: CallEnding, seconds: float, tries: int) -> CallEnding:
    """Return the settlement with the data of `trace`."""
    if not isinstance(ending, Settlement):
        return ending
    outcome = ending.result.error or str(ending.result.state)
    found: JsonObject = {"seconds": round(max(0.0, seconds), 6), "outcome": outcome}
    return add_call_note(ending, {"trace": found | ({"tries": tries} if tries > 1 else {})})


def add_call_note(ending: Settlement, note: JsonObject) -> Settlement:
    """Return the settlement with `note` added to the data of its record."""
    return replace(ending, data={**ending.data, **note})


async def _traced(call: CallAttempts, inner: InnerCall) -> CallEnding:
    clock = call.context.services.clock
    began = clock.now()
    ending = await inner()
    return add_trace(ending, clock.now() - began, call.tries)


async def _retried(call: CallAttempts, step: MixinStep, inner: InnerCall) -> CallEnding:
    while True:
        ending = await inner()
        if not isinstance(ending, Settlement) or call.tries > retries_max(step):
            return ending
        if not may_retry_call(step, ending.result, call.context.spec.effect):
            return ending
        refused = await call.again(ending.result, retry_pause_s(step, call.tries))
        if refused is not None:
            return refused


async def _timed(call: CallAttempts, step: MixinStep, inner: InnerCall) -> CallEnding:
    bound_s = float(step.given) if isinstance(step.given, int | float) else limits.CALL_TIMEOUT_S
    is_process = call.context.spec.is_process
    if is_process:
        # The process has its own limit, so that its output is kept; the scope below is for the rest.
        before = call.context.time_s
        call.context = replace(call.context, time_s=bound_s if before is None else min(before, bound_s))
    slack_s = 2 * limits.TERM_GRACE_S if is_process else 0.0
    with anyio.move_on_after(bound_s + slack_s):
        return await inner()
    text = f"the call took longer than {bound_s:g} s and was stopped ({step.words})"
    if is_process or call.context.spec.effect.may_run_again:
        return Settlement(CallResult(CallState.FAILED, text, "TimedOut"))
    return Settlement(CallResult(CallState.UNKNOWN, f"{text}: it may have taken effect", "Unknown"))


async def _guarded(call: CallAttempts, step: MixinStep, inner: InnerCall) -> CallEnding:
    answer = await steps.ask_about_call(call.context, step, steps.call_question(call.context, step))
    if answer.deny:
        return Settlement(CallResult(CallState.DENIED, f"denied by {step.words}: {answer.deny}", "Denied"))
    if answer.arguments is not None and answer.arguments != call.context.spec.arguments:
        refused = call.narrowed(answer.arguments)
        if refused is not None:
            return refused
    ending = await inner()
    return add_call_note(ending, {"notes": [answer.note]}) if answer.note and isinstance(ending, Settlement) else ending


async def _looked_at(call: CallAttempts, step: MixinStep, inner: InnerCall) -> CallEnding:
    ending = await inner()
    if not isinstance(ending, Settlement):
        return ending
    answer = await steps.ask_about_call(call.context, step, steps.call_question(call.context, step, ending.result))
    return steps.add_step_comment(ending, step, answer)


LookUpAgent: TypeAlias = Callable[[str], ObservedAgent | None]
AskFunction: TypeAlias = Callable[[ObservedAgent, str], Awaitable[DeciderReply]]
"""Asks the decider for the open turn under an operation id. Raises DeciderFailed."""
InnerAsk: TypeAlias = Callable[[], Awaitable[DeciderReply]]
RenewRequest: TypeAlias = Callable[[ObservedAgent, str], tuple[Change, ...] | None]
"""Returns the changes of another request under another operation id; None if the budget does not allow it."""


def renew_for_free(agent: ObservedAgent, op: str) -> tuple[Change, ...]:
    """Return no changes: another request needs no reservation."""
    del agent, op
    return ()


@mutable
class LayeredAsk:
    """The requests to the decider for one open turn. `op` is the id of the latest, `seen` the agent at that time."""

    world: AgentServices
    look: LookUpAgent
    seen: ObservedAgent
    op: str
    ask: AskFunction
    renew: RenewRequest = renew_for_free
    tries: int = 1

    async def answer(self, steps: Sequence[MixinStep]) -> DeciderReply:
        """Return the reply after all layers. Raises DeciderFailed."""
        inner: InnerAsk = self._ask
        for step in reversed(steps):
            inner = self._layer(step, inner)
        return await inner()

    async def _ask(self) -> DeciderReply:
        return await self.ask(self.seen, self.op)

    def _layer(self, step: MixinStep, inner: InnerAsk) -> InnerAsk:
        async def layer() -> DeciderReply:
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
                    return await inner()  # The permit was taken before the decider was asked.

        return layer

    async def _traced(self, inner: InnerAsk) -> DeciderReply:
        began = self.world.clock.now()
        reply = await inner()
        found: JsonObject = {"seconds": round(max(0.0, self.world.clock.now() - began), 6), "outcome": "replied"}
        return add_reply_note(reply, {"trace": found | ({"tries": self.tries} if self.tries > 1 else {})})

    async def _retried(self, step: MixinStep, inner: InnerAsk) -> DeciderReply:
        while True:
            try:
                return await inner()
            except DeciderFailed as error:
                if self.tries > retries_max(step) or not await self._again(step, error):
                    raise

    async def _again(self, step: MixinStep, error: DeciderFailed) -> bool:
        """Pause and record a new request. Returns whether the decider may be asked again."""
        await self.world.clock.sleep(retry_pause_s(step, self.tries))
        store, seen = self.world.store, self.look(self.seen.resource.address)
        opened = None if seen is None else seen.status.open
        if seen is None or opened is None or opened.request.op != self.op or opened.is_replied or not seen.is_wanted:
            return False
        if seen.budget.left.get("retries", 1) < 1:
            return False
        op = self.world.ids.mint()
        draft, more = records.draft_decider_request(seen, op), self.renew(seen, op)
        if more is None:
            return False
        note: JsonObject = {**draft.data, "retry": self.tries, "failed": str(error)}
        draft = replace(draft, changes=(*draft.changes, *more, *retry_cost_changes(seen, store.view)), data=note)
        await store.append(draft, {seen.resource.address: seen.resource.rev})
        now = self.look(self.seen.resource.address)
        if now is None:
            return False
        self.world.programs.processes.forget([self.op])
        self.seen, self.op, self.tries = now, op, self.tries + 1
        return True

    async def _timed(self, step: MixinStep, inner: InnerAsk) -> DeciderReply:
        bound_s = float(step.given) if isinstance(step.given, int | float) else limits.CALL_TIMEOUT_S
        with anyio.move_on_after(bound_s):
            return await inner()
        raise DeciderFailed(f"no answer within {bound_s:g} s ({step.words})")

    async def _guarded(self, step: MixinStep, inner: InnerAsk) -> DeciderReply:
        answer = await steps.ask_about_turn(self.world, self.seen, step, self._question(step))
        if answer.deny:
            raise DeciderFailed(f"the turn was denied by {step.words}: {answer.deny}")
        reply = await inner()
        return add_reply_note(reply, {"notes": [answer.note]}) if answer.note else reply

    async def _looked_at(self, step: MixinStep, inner: InnerAsk) -> DeciderReply:
        reply = await inner()
        answer = await steps.ask_about_turn(self.world, self.seen, step, self._question(step, reply))
        if answer.withhold:
            raise DeciderFailed(f"the answer was withheld by {step.words}: {answer.withhold}")
        found = {name: text for name, text in (("comment", answer.comment), ("note", answer.note)) if text}
        return (
            add_reply_note(reply, {"notes": [f"{step.mixin}: {text}" for text in found.values()]}) if found else reply
        )

    def _question(self, step: MixinStep, reply: DeciderReply | None = None) -> JsonObject:
        """The input of a step's program about a turn."""
        task, opened = self.seen.task_spec, self.seen.status.open
        question: JsonObject = {"version": steps.STEP_VERSION, "point": step.point, "on": step.on}
        question |= {"agent": self.seen.resource.address, "goal": "" if task is None else task.goal}
        question["turn"] = 0 if opened is None else opened.turn
        question["messages"] = [] if opened is None else [message.to_json() for message in opened.news.messages]
        if reply is not None:
            calls = [{"tool": call.tool, "arguments": call.arguments} for call in reply.calls]
            question["reply"] = {"text": reply.text, "calls": calls}
        return question


def add_reply_note(reply: DeciderReply, note: JsonObject) -> DeciderReply:
    """Return the reply with `note` added to the data of its record."""
    return replace(reply, data={**reply.data, **note})
