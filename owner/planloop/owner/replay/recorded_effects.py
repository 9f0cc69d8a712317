"""Effects of a replay, played back from the log, and how a prompt differs from the recorded one.

Each effect waits until its result is next in the log, and then returns it. It starts no process and opens no file.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Never, TypeAlias

import anyio

from planloop.controllers.agent.models.port import (
    ModelCall,
    ModelClient,
    ModelFailed,
    ModelReply,
    ModelRequest,
    OnDelta,
    TokenPrice,
    TokenUsage,
)
from planloop.controllers.agent.tools import shell
from planloop.controllers.agent.tools.tool import CallEnding, Settlement, Tool, ToolContext
from planloop.controllers.shared.workspace import FOLDER_LEADS_OUT, WorkspaceFault
from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding
from planloop.owner.replay import external_inputs
from planloop.owner.replay.history import entry, status_after, status_in
from planloop.owner.replay.scheduler import ReplayScheduler
from planloop.reconciler.effects import processes
from planloop.reconciler.effects.processes import OperationTrace, ProcessCommand, ProcessExit
from planloop.reconciler.errors import WriteConflict
from planloop.reconciler.store.store import View
from planloop.schemas.canonical_json import JsonObject, decode, encode_text, sha256_hex
from planloop.schemas.log.record import RecordDraft, SubRecord
from planloop.schemas.objects.call import CallResult, CallState, result_from_json
from planloop.schemas.objects.task import CheckSpec
from planloop.schemas.tools import OUTSIDE_TOOLS, PATCHING_TOOLS

LINES_MAX: Final = 12  # Of a difference.
WIDTH_MAX: Final = 160  # Characters of one of its lines.


def prompt_difference(director: ReplayScheduler, at: int, request: ModelRequest) -> tuple[str, ...]:
    """Return lines that say which part of the prompt of the request at `at` differs."""
    agent = request.key.agent
    head = f"{agent} turn {request.key.turn}, attempt {request.key.attempt}, {request.model}"
    found = list(_system(director, _system_then(director, at, agent), request)) or list(_transcript(director, agent))
    rest = "its instructions and transcript are the same: the news of the turn, the tools or the budget differ"
    return (head, *(found or [rest]))


def _system_then(director: ReplayScheduler, at: int, agent: str) -> str:
    """Return the digest of the agent's system message at `at`; empty if the log has none.

    The log has the digest in the records where the message changed.
    """
    for index in range(at, -1, -1):
        asked = entry(director.story.records[index].draft, "model.requested", agent)
        if asked is not None and "system" in asked.data:
            return str(asked.data["system"])
    return ""


def _system(director: ReplayScheduler, before: str, request: ModelRequest) -> Iterator[str]:
    """The difference of the system message."""
    if not before or not request.messages or sha256_hex(request.messages[0]) == before:
        return
    yield "its instructions differ:"
    text = director.story.blob(before)
    if text is not None:
        yield from _difference(text, request.messages[0])


def _transcript(director: ReplayScheduler, agent: str) -> Iterator[str]:
    """Yield the first difference of the agent's transcript."""
    for note in director.notes:
        for one in note.differences:
            if note.subject == agent and "/transcript/" in one.path and one.path.endswith("/blob"):
                yield f"its transcript differs from revision {note.rev} on:"
                before, after = (director.blob(text.strip('"')) for text in (one.before, one.after))
                if before is not None and after is not None:
                    yield from _difference(before, after)
                return


def _difference(before: bytes, after: bytes) -> Iterator[str]:
    lines = difflib.unified_diff(_text(before), _text(after), "then", "now", lineterm="", n=1)
    for index, line in enumerate(lines):
        if index >= LINES_MAX:
            yield "  …"
            return
        yield f"  {line[:WIDTH_MAX]}"


def _text(content: bytes) -> list[str]:
    """Return messages as lines of text, without their encoding."""
    out: list[str] = []
    for line in content.splitlines():
        try:
            message = decode(line)
        except ValueError:
            message = None
        said = message.get("content") if isinstance(message, dict) else None
        out += said.splitlines() if isinstance(said, str) else [line.decode(errors="replace")]
    return out


OF_TOOLS: Final = frozenset({"files"})
"""Fields of the agent's status that tools with external effects write. The agent writes all others."""

ENDINGS: Final[Mapping[str, processes.ExitCause]] = {
    "TimedOut": processes.ExitCause.TIMED_OUT,
    "TooMuchOutput": processes.ExitCause.TOO_MUCH_OUTPUT,
    "CannotStart": processes.ExitCause.NOT_STARTED,
    "NotStarted": processes.ExitCause.NOT_STARTED,
    "Lost": processes.ExitCause.LOST,
    "Unknown": processes.ExitCause.LOST,
}


Matches: TypeAlias = Callable[[RecordDraft], "SubRecord | None"]


def _any_end(draft: RecordDraft) -> SubRecord | None:
    return next((one for one in draft.entries if one.type == "call.settled"), None)


async def wait_until_replay_ends() -> Never:
    """Wait for the end of the replay, for a result that the original never got."""
    await anyio.sleep_forever()
    raise AssertionError("unreachable: the replay's end cancels")


async def _result_at(
    director: ReplayScheduler, index: int | None, fits: Matches, is_alive: Callable[[], bool]
) -> JsonObject:
    """Wait until the record at `index` is next, and return the result in the entry that `fits` finds.

    An operation that was cancelled in the original has no result before it is cancelled here. The record of its
    cancellation also waits for its place in the log.
    """
    end = None if index is None else fits(director.story.records[index].draft)
    found = None if end is None else end.data["result"]
    is_called_off = found is not None and found["state"] == CallState.CANCELLED
    try:
        if is_called_off or not await director.due(index, is_alive) or found is None:
            await wait_until_replay_ends()
    except anyio.get_cancelled_exc_class():
        if index is not None:
            with anyio.CancelScope(shield=True):
                await director.due(index, is_alive)
        raise
    assert found is not None
    return dict(found)


class RecordedProcesses:
    """A `Processes` in which every operation ends as recorded, when its end is next in the log."""

    def __init__(self, director: ReplayScheduler, is_alive: Callable[[], bool]) -> None:
        self._director = director
        self._is_alive = is_alive

    async def run(self, op: str, command: ProcessCommand) -> ProcessExit:
        index = self._index(op)
        if index is None and not self._is_known(op):
            what = command.shell or " ".join(command.argv)
            self._director.give_up(f"the log does not have the result of `{what[:80]}`")
        return await self._end_of(index)

    async def adopt(self, op: str, timeout_s: float | None = None) -> ProcessExit:
        del timeout_s
        return await self._end_of(self._index(op))

    async def trace(self, op: str) -> OperationTrace:
        return OperationTrace.LOST if self._index(op) is None else OperationTrace.RUNNING

    async def stop(self, op: str) -> None:
        del op

    async def read_output(self, op: str, after: int = 0) -> bytes:
        del op, after
        return b""

    def forget(self, ops: Sequence[str]) -> None:
        del ops

    async def sweep(self, keep: frozenset[str]) -> list[str]:
        del keep
        return []

    def _index(self, op: str) -> int | None:
        found = self._director.story.settled.get(self._director.likeness.theirs(op))
        return found if found is not None and found >= self._director.cursor else None

    def _is_known(self, op: str) -> bool:
        theirs = self._director.likeness.theirs(op)
        return self._director.story.next(0, lambda draft: draft.data.get("op") == theirs) is not None

    async def _end_of(self, index: int | None) -> ProcessExit:
        result = await _result_at(self._director, index, _any_end, self._is_alive)
        return recorded_exit(result_from_json(result), self._output(result))

    def _output(self, result: JsonObject) -> bytes:
        blob = result.get("blob")
        content = self._director.story.blob(blob) if blob else None
        return content if content is not None else str(result.get("text", "")).encode()


def recorded_exit(result: CallResult, output: bytes) -> ProcessExit:
    """Return the process exit from which a controller computes this result."""
    ending = ENDINGS.get(result.error)
    if ending is not None and result.exit_code is None:
        return ProcessExit(ending, None, output)
    return ProcessExit(processes.ExitCause.EXITED, 0 if result.exit_code is None else result.exit_code, output)


def recorded_tools(
    director: ReplayScheduler, real: Mapping[str, Tool], is_alive: Callable[[], bool]
) -> dict[str, Tool]:
    """Return the tools of a replay: those with external effects are played back, the others run again."""
    return {name: _played(director, tool, is_alive) for name, tool in real.items()}


def _played(director: ReplayScheduler, tool: Tool, is_alive: Callable[[], bool]) -> Tool:
    if tool.name in OUTSIDE_TOOLS & PATCHING_TOOLS:
        return replace(tool, function=_patching(director, tool, is_alive))
    if tool.name in OUTSIDE_TOOLS:
        how = _instant(director, tool) if tool.is_instant else _recorded(director, tool, is_alive)
        return replace(tool, function=how, ended=None if tool.ended is None else _adopted(director))
    return tool if tool.is_instant else replace(tool, function=_placed(director, tool))


def _instant(director: ReplayScheduler, tool: Tool) -> Callable[..., CallEnding]:
    @functools.wraps(tool.function)
    def play(context: ToolContext, **arguments: object) -> CallEnding:
        del arguments
        wanted = director.expected
        if wanted is None or _end_of(director, context, wanted.draft) is None:
            raise WriteConflict(context.call.address, None, None)
        return _settlement(director, context, wanted.draft)

    return play


def _recorded(
    director: ReplayScheduler, tool: Tool, is_alive: Callable[[], bool]
) -> Callable[..., Awaitable[CallEnding]]:
    @functools.wraps(tool.function)
    async def play(context: ToolContext, **arguments: object) -> CallEnding:
        del arguments
        fits = functools.partial(_end_of, director, context)
        index = director.story.next(director.cursor, lambda draft: fits(draft) is not None)
        await _result_at(director, index, fits, is_alive)
        assert index is not None, "it came next"
        return _settlement(director, context, director.story.records[index].draft)

    return play


def _adopted(director: ReplayScheduler) -> Callable[[ToolContext, ProcessExit], Awaitable[Settlement]]:
    """Return the recorded result of a process that an earlier owner started and that has ended."""

    async def play(context: ToolContext, found: ProcessExit) -> Settlement:
        del found
        wanted = director.expected
        if wanted is None or _end_of(director, context, wanted.draft) is None:
            raise WriteConflict(context.call.address, None, None)
        return _settlement(director, context, wanted.draft)

    return play


def _patching(
    director: ReplayScheduler, tool: Tool, is_alive: Callable[[], bool]
) -> Callable[..., Awaitable[CallEnding]]:
    """Submit the tool's recorded patch to the gate again, then return its recorded result."""
    recorded = _recorded(director, tool, is_alive)

    @functools.wraps(tool.function)
    async def play(context: ToolContext, **arguments: object) -> CallEnding:
        author = str(context.author)

        def is_patch(draft: RecordDraft) -> bool:
            return draft.actor == author and draft.type in external_inputs.PATCHES

        if not await director.due_when(lambda draft: is_patch(draft) or _end_of(director, context, draft) is not None):
            await wait_until_replay_ends()
        wanted = director.expected
        if wanted is not None and is_patch(wanted.draft):
            await context.services.gate.submit(external_inputs.recorded_patch(director, wanted.draft))
        return await recorded(context, **arguments)

    return play


def _placed(director: ReplayScheduler, tool: Tool) -> Callable[..., Awaitable[CallEnding]]:
    """Run the tool when the record that it writes is next: a patch of its agent, or its own end."""

    @functools.wraps(tool.function)
    async def play(context: ToolContext, **arguments: object) -> CallEnding:
        author = str(context.author)

        def is_told(draft: RecordDraft) -> bool:
            return _end_of(director, context, draft) is not None or _begins_wait(director, context, draft)

        def is_its(draft: RecordDraft) -> bool:
            return is_told(draft) or (draft.actor == author and draft.type.startswith("plan."))

        if not await director.due_when(is_its):
            await wait_until_replay_ends()
        found = tool.function(context, **arguments)
        ending: CallEnding = await found if inspect.isawaitable(found) else found
        # The log may have other records between its patch and its end.
        if not await director.due_when(is_told):
            await wait_until_replay_ends()
        return ending

    return play


def _end_of(director: ReplayScheduler, context: ToolContext, draft: RecordDraft) -> SubRecord | None:
    """Return the entry for the end of this call; None if the record has none."""
    found = entry(draft, "call.settled", director.call_of(context.spec, context.call.address))
    return None if found is None or found.data.get("late") else found


def _begins_wait(director: ReplayScheduler, context: ToolContext, draft: RecordDraft) -> bool:
    return entry(draft, "call.waiting", director.call_of(context.spec, context.call.address)) is not None


def _settlement(director: ReplayScheduler, context: ToolContext, draft: RecordDraft) -> Settlement:
    """Return the tool's recorded result, with its changes of the agent's status."""
    end = _end_of(director, context, draft)
    assert end is not None, "the record of its end"
    agent = {name: value for name, value in status_in(draft, context.agent).items() if name in OF_TOOLS}
    opened: JsonObject = {}
    kept = {"tool", "result"}
    data = {name: value for name, value in end.data.items() if name not in kept}
    result = result_from_json(director.likeness.ours(end.data["result"]))
    settled = Settlement(result, agent=director.likeness.ours(agent), turn=director.likeness.ours(opened), data=data)
    is_command = context.spec.is_process
    return shell.violation_consequences(context, settled, data.get("violated", {})) if is_command else settled


class RecordedChecks:
    """Runs no check. Returns the recorded finding when it is next in the log."""

    def __init__(self, director: ReplayScheduler) -> None:
        self._director = director

    async def __call__(self, spec: CheckSpec, bench: CheckEnvironment) -> CheckFinding:
        director, task = self._director, bench.env["PLANLOOP_TASK"]

        def is_its(draft: RecordDraft) -> bool:
            return draft.type == "check.ran" and draft.subject == task and draft.data.get("check") == spec.key

        index = director.story.next(director.cursor, is_its)
        if not await director.due(index) or index is None:
            await wait_until_replay_ends()
        draft = director.story.records[index].draft
        output = b"".join(content for name in draft.blobs if (content := director.story.blob(name)) is not None)
        return CheckFinding(draft.data["result"], str(draft.data["message"]), output)


class RecordedStrays:
    """Checks no folder. A task has an invalid workspace if its next recorded result says so."""

    def __init__(self, director: ReplayScheduler) -> None:
        self._director = director

    def __call__(self, view: View, task: str) -> WorkspaceFault | None:
        wanted, me = self._director.expected, view.get(task)
        # A record has only changed fields: an incarnation with the same result as the previous one does not repeat it.
        if wanted is None or me is None or not status_in(wanted.draft, task).keys() & {"incarnation", "result"}:
            return None
        status = status_after(wanted.draft, me)
        result = status.get("result") or {}
        if result.get("ok") or result.get("reason") != FOLDER_LEADS_OUT:
            return None
        ready = (status.get("conditions") or {}).get("Ready") or {}
        fix, *_ = (ready.get("unblocks") or ("",)) if ready.get("reason") == FOLDER_LEADS_OUT else ("",)
        return WorkspaceFault(str(result["text"]), str(fix))


def _said_of(draft: RecordDraft, call: str) -> SubRecord | None:
    return entry(draft, "call.settled", call) or entry(draft, "call.waiting", call)


class RecordedServers:
    """A `Servers` with the recorded answers of tool servers."""

    def __init__(self, director: ReplayScheduler) -> None:
        self._director = director

    async def call(
        self, server: str, tool: str, arguments: JsonObject, *, by: str, op: str, on_progress: Callable[[str], None]
    ) -> CallResult:
        del server, tool, arguments, by, on_progress
        return await self._answer(op)

    async def answer(
        self, asked: JsonObject, content: JsonObject | None, *, op: str, on_progress: Callable[[str], None]
    ) -> CallResult:
        del asked, content, on_progress
        return await self._answer(op)

    async def _answer(self, op: str) -> CallResult:
        """Return the server's answer to `op`: the result of the call, or a request for input."""
        director = self._director
        began, address = director.story.started(director.likeness.theirs(op))
        index = director.story.next(began + 1, lambda draft: _said_of(draft, address) is not None)
        if not await director.due(index) or index is None:
            await wait_until_replay_ends()
        draft = director.story.records[index].draft
        end = entry(draft, "call.settled", address)
        if end is not None:
            return result_from_json(end.data["result"])
        (asked,) = status_in(draft, address)["asked"]
        words = " ".join(str(each["message"]) for each in asked["requests"].values())
        return CallResult(CallState.AWAITING_INPUT, words, value=director.likeness.ours(asked))

    async def prompt(self, server: str, name: str, arguments: JsonObject, *, by: str) -> str:
        del arguments, by
        return await self._unknown(f"the prompt {name} of server {server}")

    async def resource(self, server: str, uri: str, *, by: str) -> str:
        del by
        return await self._unknown(f"the resource {uri} of server {server}")

    async def _unknown(self, what: str) -> Never:
        self._director.give_up(f"{what} is not in the log")
        await wait_until_replay_ends()


class RecordedModels:
    """A `ModelClient` with the recorded replies of models. A prompt that differs from the recorded one ends the replay.

    `real` provides prices and sizes, and gets no requests.
    """

    def __init__(self, director: ReplayScheduler, real: ModelClient, is_alive: Callable[[], bool]) -> None:
        self._director = director
        self._real = real
        self._is_alive = is_alive

    async def complete(self, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        del on_delta
        director, agent = self._director, request.key.agent
        self._check_prompt(request)
        index = director.story.next(director.cursor, lambda draft: _answer(draft, agent) is not None)
        answer = None if index is None else _answer(director.story.records[index].draft, agent)
        is_called_off = answer is not None and answer.data.get("reason") == "Cancelled"
        try:
            if is_called_off or not await director.due(index, self._is_alive) or answer is None:
                await wait_until_replay_ends()
        except anyio.get_cancelled_exc_class():
            if is_called_off:
                with anyio.CancelScope(shield=True):
                    await director.due(index, self._is_alive)
            raise
        assert answer is not None
        return recorded_reply(answer)

    def price(self, model: str) -> TokenPrice | None:
        return self._real.price(model)

    def window(self, model: str) -> int:
        return self._real.window(model)

    def output_max(self, model: str) -> int:
        return self._real.output_max(model)

    def _check_prompt(self, request: ModelRequest) -> None:
        parted_at = self._director.parted_at
        if parted_at is not None:
            self._director.prompt_differs(parted_at, prompt_difference(self._director, parted_at, request))


def _answer(draft: RecordDraft, agent: str) -> SubRecord | None:
    return entry(draft, "model.replied", agent) or entry(draft, "model.failed", agent)


def recorded_reply(answer: SubRecord) -> ModelReply:
    """Return the recorded reply of a model. Raises ModelFailed if it failed."""
    data = answer.data
    if answer.type == "model.failed":
        raise ModelFailed(
            str(data.get("reason", "Failed")),
            str(data.get("message", "")),
            is_transient=bool(data.get("is_transient", True)),
            retry_after_s=data.get("retry_after_s"),
            usage=recorded_usage(data["usage"]) if "usage" in data else None,
        )
    made = [call for call in data.get("calls", ()) if not call.get("implied")]
    calls = tuple(
        ModelCall(call.get("key", ""), call["tool"], _raw(call["arguments"]), call.get("extra", {})) for call in made
    )
    finish = "length" if data.get("note") else "tool_calls" if calls else "stop"
    return ModelReply(
        str(data.get("text", "")), calls, recorded_usage(data.get("usage") or {}), finish, data.get("extra", {})
    )


def recorded_usage(said: JsonObject) -> TokenUsage:
    """Return the recorded use of tokens."""
    return TokenUsage(
        said.get("in", 0),
        said.get("out", 0),
        said.get("cached", 0),
        said.get("reasoning", 0),
        said.get("raw", {}),
        bool(said.get("estimated")),
    )


def _raw(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else encode_text(arguments)
