"""Programs as deciders, one run a turn: programs and Python functions that answer in actions, and CLI agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Final

from planloop.controllers.agent.deciders import port
from planloop.controllers.agent.deciders.port import DeciderFailed, DeciderReply, TurnInput
from planloop.controllers.agent.services import AgentServices
from planloop.reconciler.effects.processes import (
    CommandSandbox,
    ExitCause,
    OperationTrace,
    ProcessCommand,
    Processes,
    ProcessExit,
)
from planloop.reconciler.effects.secret_masks import SecretMasks
from planloop.reconciler.effects.truncate import truncate_output
from planloop.schemas import json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject, decode_foreign, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.agent import CliAgentSpec
from planloop.schemas.objects.budget import Cost
from planloop.schemas.predicates import is_number

# A program gets one JSON line per turn and answers with JSON lines of actions. Other lines are ignored. An exit code
# other than 0 and an invalid answer are failures; an agent whose program prints nothing sleeps.

OUTPUT_TAIL_CHARS: Final = 600  # The end of the output that the reason of a failure shows.


class ProgramRunner:
    """Runs `argv` once per turn."""

    @dataclass(frozen=True, slots=True)
    class Setting:
        """Absolute working folder, the whole environment, seconds for one turn, and the sandbox."""

        cwd: str
        env: Mapping[str, str]
        timeout_s: float
        sandbox: CommandSandbox | None = None

    def __init__(self, processes: Processes, argv: Sequence[str], setting: Setting) -> None:
        self._processes = processes
        self._argv = tuple(argv)
        self._setting = setting

    async def respond(self, turn: TurnInput) -> DeciderReply:
        command = ProcessCommand(
            cwd=self._setting.cwd,
            argv=self._argv,
            env=self._setting.env,
            stdin=encode(turn.to_json()) + b"\n",
            timeout_s=self._setting.timeout_s,
            output_bytes_max=limits.MIND_OUTPUT_BYTES_MAX,
            sandbox=self._setting.sandbox,
        )
        ended = await self._processes.run(turn.op, command)
        if ended.ending is not ExitCause.EXITED or ended.code != 0:
            raise DeciderFailed(_complaint(self._argv[0], ended))
        return reply_from_output(ended.output.decode(errors="replace"), turn.memory)


def reply_from_output(output: str, memory: Json) -> DeciderReply:
    """The reply in a program's output: its actions in order; `memory` is kept unless an action sets it."""
    parsed = [_action(line) for line in output.splitlines() if line.strip()]
    found = [action for action in parsed if action is not None]
    reply = port.reply_from_actions(found, memory)
    # One call above the limit is kept, so that it is refused with an error.
    return replace(reply, calls=reply.calls[: limits.TURN_ACTIONS_MAX + 1])


def _action(line: str) -> Json:
    """The action in a line; None for a line that is not JSON."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        return decode_foreign(line)
    except ValueError as error:
        return {"malformed": f"{error}: {line[:200]}"}


def _complaint(program: str, ended: ProcessExit) -> str:
    tail = ended.output.decode(errors="replace").strip()[-OUTPUT_TAIL_CHARS:]
    how = f"exited with {ended.code}" if ended.ending is ExitCause.EXITED else ended.ending.value
    return f"{program} {how}" + (f": {tail}" if tail else "")


# A Python function `file.py:name` runs as a program in a process
# (`planloop.controllers.agent.deciders.python_child`), so that a function that hangs or crashes does not affect the
# owner. It gets the turn as a map and returns an action, a list of actions, a text, or None. The path is relative to
# the plan's folder; `lib:name` is in `../library/`.

PYTHON_CHILD: Final = Path(__file__).with_name("python_child.py")
LIBRARY_FOLDER: Final = Path(__file__).parents[1] / "library"
LIBRARY_FUNCTION: Final = "step"  # The name of the function of a library agent.


def python_runner(services: AgentServices, target: str, setting: ProgramRunner.Setting) -> ProgramRunner:
    """The decider for `target`. Raises DeciderFailed if it does not name a function in a file."""
    return ProgramRunner(services.programs.processes, python_command(services, target), setting)


def python_command(services: AgentServices, target: str) -> tuple[str, ...]:
    """The command that calls the function `target` once, with a JSON line. Raises DeciderFailed."""
    file, colon, name = target.rpartition(":")
    if file == "lib" and name.isidentifier() and (path := LIBRARY_FOLDER / f"{name}.py").is_file():
        return services.programs.python, str(PYTHON_CHILD), str(path), LIBRARY_FUNCTION
    if not colon or not name.isidentifier():
        raise DeciderFailed(f"`{target}` does not name a function: write `file.py:name`")
    path = services.folder / file
    if not path.is_file():
        raise DeciderFailed(f"the plan's folder has no file `{file}`")
    return services.programs.python, str(PYTHON_CHILD), str(path), name


# CLI agents print different forms of JSON, with other lines between. The answer may be a last `result`, a `text`, or
# the text parts of a `message.content`; results of the agent's tools are not its answer.

FINAL_KEYS: Final = ("result", "response", "answer", "output", "final")
"""Keys of the answer of a whole run, which has precedence over texts of messages."""

TEXT_KEYS: Final = ("text", "content", "message", "item")
SESSION_KEYS: Final = ("session_id", "sessionId", "session", "thread_id", "conversation_id")
NOT_ANSWERS: Final = frozenset({"user", "tool", "system", "tool_result", "tool_use", "reasoning", "thinking"})
"""Roles and types of messages that are not answers of the agent."""

COST_KEYS: Final = ("total_cost_usd", "cost_usd", "cost")
_IN: Final = ("input_tokens", "prompt_tokens", "inputTokens")
_OUT: Final = ("output_tokens", "completion_tokens", "outputTokens")
_CACHED_IN: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Tokens of the prompt that some programs do not count in `input_tokens`."""


@frozen
class CliAgentOutput:
    """`answer` is None without an answer; `usage` has tokens `in`, `out`, `cached`, and `usd` as reported."""

    answer: str | None
    session: str = ""
    usage: JsonObject | None = None
    is_error: bool = False


def read_output(output: str, how: CliAgentSpec) -> CliAgentOutput:
    """The answer, session, usage and error flag in the whole output of one turn."""
    if how.output == "text":
        return CliAgentOutput(output.strip() or None)
    events = list(_events(output))
    return CliAgentOutput(
        _answer(events, how.pointer),
        _session(events, how.session),
        _usage(events),
        any(event.get("is_error") is True for event in events[-1:]),
    )


def _events(output: str) -> Iterator[JsonObject]:
    """The JSON maps in the output: the whole output, or each line."""
    whole = _decoded(output)
    found = [whole] if whole is not None else [_decoded(line) for line in output.splitlines()]
    for each in found:
        if isinstance(each, list):
            yield from (item for item in each if isinstance(item, dict))
        elif isinstance(each, dict):
            yield each


def _decoded(text: str) -> Json:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return decode_foreign(text)
    except ValueError:
        return None


def _answer(events: Sequence[JsonObject], where: str) -> str | None:
    if where:
        found = [text for event in events if (text := _text_at(event, where))]
        return found[-1] if found else None
    finals = [text for event in events for key in FINAL_KEYS if (text := _text_in(event.get(key)))]
    if finals:
        return finals[-1]
    texts = [text for event in events if (text := _text_in(event))]
    return texts[-1] if texts else None


def _text_at(event: JsonObject, where: str) -> str:
    try:
        return _text_in(json_pointer.value_at(event, json_pointer.parse_pointer(where)))
    except (KeyError, IndexError, ValueError, TypeError):
        return ""


def _text_in(value: Json) -> str:
    """The text in a value: a string, the first known key of a map, or the parts of a list."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return "\n".join(text for each in value if (text := _text_in(each)))
    if not isinstance(value, dict) or not NOT_ANSWERS.isdisjoint((str(value.get("role")), str(value.get("type")))):
        return ""
    return next((text for key in TEXT_KEYS if (text := _text_in(value.get(key)))), "")


def _session(events: Sequence[JsonObject], where: str) -> str:
    if where:
        found = [text for event in events if (text := _text_at(event, where))]
    else:
        found = [
            event[key] for event in events for key in SESSION_KEYS if isinstance(event.get(key), str) and event[key]
        ]
    return found[-1] if found else ""


def _usage(events: Sequence[JsonObject]) -> JsonObject | None:
    """The last reported usage; programs that report several report the sum last."""
    out: JsonObject = {}
    for event in events:
        for holder in (event, event.get("message"), event.get("item")):
            if isinstance(holder, dict):
                out |= _tokens(holder.get("usage")) | _cost(holder)
    return out or None


def _tokens(usage: Json) -> JsonObject:
    if not isinstance(usage, dict):
        return {}
    cached = _first(usage, ("cached_input_tokens", "cache_read_input_tokens"))
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict):
        cached = cached or _first(details, ("cached_tokens",))
    found: JsonObject = {"in": _first(usage, _IN) + sum(_first(usage, (key,)) for key in _CACHED_IN)}
    return found | {"out": _first(usage, _OUT), "cached": cached, "raw": usage}


def _first(usage: JsonObject, keys: Sequence[str]) -> int:
    return next((int(usage[key]) for key in keys if _is_usage(usage.get(key))), 0)


def _cost(holder: JsonObject) -> JsonObject:
    return next(({"usd": str(holder[key])} for key in COST_KEYS if _is_usage(holder.get(key))), {})


def _is_usage(value: Json) -> bool:
    return is_number(value) and 0 <= value < limits.USAGE_MAX


def reported_cost(usage: JsonObject) -> Cost | None:
    """The cost that a program reported; None if it reported none. Without `usd`, the money is unknown."""
    if not usage:
        return None
    usd = Decimal(usage["usd"]) if "usd" in usage else None
    return Cost(tokens=int(usage.get("in", 0)) + int(usage.get("out", 0)), usd=usd)


# A CLI agent gets a prompt, works in the task's folder and prints its answer, which claims that the task is done. If
# the checks reject the claim, the next prompt says what failed. Time, turns and the task's budget limit it. It has
# effects, so a request that outlives its owner is adopted and never repeated (law 5).

OUTPUT_TAIL_BYTES: Final = 1_200  # The end of the output that the reason of a failure shows.
ANSWER_BYTES: Final = limits.CLAIM_BYTES_MAX // 2  # Quotes and line ends take two bytes in JSON.
SESSION_PLACEHOLDER: Final = "{session}"
SHELL_COMMAND: Final = ("sh", "-c")

CLI_AGENT_RULES: Final = (
    "You work alone in the current folder, and there is no user to ask. Do the task, run the checks above yourself, "
    "then print your answer: what you did, in a few sentences."
)
STOPPED_NOTE: Final = "You were interrupted in the middle of this. Check what is already there before you continue."


@frozen
class CliAgentBriefing:
    """The prompt: `whole` for a new session, `news` for a session that already has the rest."""

    whole: str
    news: str


@frozen
class CliAgentRunner:
    """Runs the program once per turn. `keep` stores a blob; `secrets` are values to mask in the output.

    `stale` is the operation id of a request that an earlier owner made; its process may still run.
    """

    processes: Processes
    how: CliAgentSpec
    setting: ProgramRunner.Setting
    briefing: CliAgentBriefing
    keep: Callable[[bytes], str]
    secrets: tuple[str, ...] = ()
    stale: str | None = None

    async def respond(self, turn: TurnInput) -> DeciderReply:
        """The program's answer, as a final reply. Raises DeciderFailed."""
        session = session_from_memory(turn.memory) if self.how.resume else ""
        trace, ended = await self._adopt_stale()
        if ended is None:
            prompt = self.briefing.news if session else self.briefing.whole
            if trace is not OperationTrace.NEVER_BEGAN:
                prompt = f"{prompt}\n\n{STOPPED_NOTE}"
            ended = await self.processes.run(turn.op, self._command(prompt, session))
        return self._reply(turn, session, ended)

    async def _adopt_stale(self) -> tuple[OperationTrace, ProcessExit | None]:
        """The trace of an earlier owner's request, and how its process ended, unless it was killed."""
        if self.stale is None:
            return OperationTrace.NEVER_BEGAN, None
        trace = await self.processes.trace(self.stale)
        ended: ProcessExit | None = None
        if trace in (OperationTrace.RUNNING, OperationTrace.ENDED):
            ended = await self.processes.adopt(self.stale, self.setting.timeout_s)
        self.processes.forget([self.stale])
        was_killed = ended is not None and (ended.code is None or ended.code < 0)
        return trace, None if was_killed else ended

    def _command(self, prompt: str, session: str) -> ProcessCommand:
        argv = self.how.argv
        if session:
            argv = tuple(word.replace(SESSION_PLACEHOLDER, session) for word in self.how.resume)
        stdin = prompt.encode()
        if self.how.prompt == "argument":
            if len(stdin) > limits.PROMPT_ARGUMENT_BYTES_MAX:
                raise DeciderFailed("the prompt is too long for an argument: use `prompt: stdin`")
            argv, stdin = _with_argument(argv, prompt), b""
        return ProcessCommand(
            cwd=self.setting.cwd,
            argv=argv,
            env=self.setting.env,
            stdin=stdin,
            timeout_s=self.setting.timeout_s,
            output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
            sandbox=self.setting.sandbox,
        )

    def _reply(self, turn: TurnInput, session: str, ended: ProcessExit) -> DeciderReply:
        output = SecretMasks(self.secrets).mask(ended.output)
        blob = self.keep(output) if output else ""
        printed = read_output(output.decode(errors="replace"), self.how)
        if ended.ending is not ExitCause.EXITED or ended.code != 0 or printed.is_error or printed.answer is None:
            raise DeciderFailed(_cli_agent_complaint(self.how, ended, printed, output))
        memory: JsonObject = {"session": printed.session or session, "turns": turns_from_memory(turn.memory) + 1}
        return DeciderReply(
            text=truncate_output(printed.answer.encode(), ANSWER_BYTES),
            then="final",
            memory=memory,
            usage=printed.usage or {},
            data={"blob": blob} if blob else {},
        )


def _with_argument(argv: tuple[str, ...], prompt: str) -> tuple[str, ...]:
    if argv[:2] == SHELL_COMMAND and len(argv) == 3:
        # The shell gets the prompt as an argument, so nothing in it is run as a command.
        return (*SHELL_COMMAND, f'{argv[2]} "$1"', "sh", prompt)
    return (*argv, prompt)


def _cli_agent_complaint(how: CliAgentSpec, ended: ProcessExit, printed: CliAgentOutput, output: bytes) -> str:
    name = how.argv[2].split()[0] if how.argv[:2] == SHELL_COMMAND and how.argv[2].split() else how.argv[0]
    tail = (printed.answer or output.decode(errors="replace").strip())[-OUTPUT_TAIL_BYTES:]
    if ended.ending is not ExitCause.EXITED:
        what = ended.ending.value
    elif ended.code != 0:
        what = f"exited with {ended.code}"
    elif printed.is_error:
        what = "reported an error"
    else:
        what = "gave no answer"
    return f"{name} {what}" + (f": {tail}" if tail else "")


def session_from_memory(memory: Json) -> str:
    """The session of an earlier turn; empty in the first one."""
    return str(memory.get("session") or "") if isinstance(memory, dict) else ""


def turns_from_memory(memory: Json) -> int:
    """The number of turns that the program has answered."""
    return int(memory.get("turns", 0)) if isinstance(memory, dict) else 0
