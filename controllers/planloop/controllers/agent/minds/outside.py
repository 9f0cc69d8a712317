"""Another command-line agent as a mind: it is given a prompt, works in the task's folder, and prints its answer.

What it prints is a claim that the task is done; the acceptance checks decide, and a claim they reject is a turn with
what failed in its prompt. It is bounded as any mind is: by time, turns and what its task has left. It has effects of
its own, so a request that outlives its owner is taken up again and not made twice (law 5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from planloop.controllers.agent.minds import outside_output
from planloop.controllers.agent.minds.outside_output import Printed
from planloop.controllers.agent.minds.port import MindFailed, Reply, TurnInput
from planloop.controllers.agent.minds.program import ProgramMind
from planloop.reconciler.effects.clamping import clamped
from planloop.reconciler.effects.masking import Masks
from planloop.reconciler.effects.processes import Command, Ending, Exit, Processes, Trace
from planloop.schemas import limits
from planloop.schemas.agent import Outside
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.frozen import frozen

TAIL_BYTES: Final = 1_200  # Of its output, in the reason of a failure.
ANSWER_BYTES: Final = limits.CLAIM_BYTES_MAX // 2  # Quotes and line ends take twice the room in JSON.
SESSION: Final = "{session}"
SHELL: Final = ("sh", "-c")

RULES: Final = (
    "You work alone in the current folder. Nobody reads along and nobody answers questions. Do the task, look "
    "yourself whether the checks above hold, then print your answer: what you did, in a few sentences."
)
WAS_STOPPED: Final = "You were stopped in the middle of this. Look at what is already there before you go on."


@frozen
class Briefing:
    """What it is told: `whole` from the beginning, `news` when it goes on with a session that knows the rest."""

    whole: str
    news: str


@frozen
class OutsideMind:
    """Runs the program once a turn. `keep` stores a blob; `secrets` are values that nothing may show.

    `stale` is the request of an owner that did not live to see its answer: it may be running still.
    """

    processes: Processes
    how: Outside
    setting: ProgramMind.Setting
    briefing: Briefing
    keep: Callable[[bytes], str]
    secrets: tuple[str, ...] = ()
    stale: str | None = None

    async def respond(self, turn: TurnInput) -> Reply:
        """Its answer as a final one. Raises MindFailed."""
        session = session_of(turn.memory) if self.how.resume else ""
        trace, ended = await self._taken_up()
        if ended is None:
            prompt = self.briefing.news if session else self.briefing.whole
            if trace is not Trace.NEVER_BEGAN:
                prompt = f"{prompt}\n\n{WAS_STOPPED}"
            ended = await self.processes.run(turn.op, self._command(prompt, session))
        return self._reply(turn, session, ended)

    async def _taken_up(self) -> tuple[Trace, Exit | None]:
        """What became of the request of an earlier owner: its end, if it came to one by itself."""
        if self.stale is None:
            return Trace.NEVER_BEGAN, None
        trace = await self.processes.trace(self.stale)
        ended: Exit | None = None
        if trace in (Trace.RUNNING, Trace.ENDED):
            ended = await self.processes.adopt(self.stale, self.setting.timeout_s)
        self.processes.forget([self.stale])
        was_killed = ended is not None and (ended.code is None or ended.code < 0)
        return trace, None if was_killed else ended

    def _command(self, prompt: str, session: str) -> Command:
        argv = self.how.argv
        if session:
            argv = tuple(word.replace(SESSION, session) for word in self.how.resume)
        stdin = prompt.encode()
        if self.how.prompt == "argument":
            if len(stdin) > limits.PROMPT_ARGUMENT_BYTES_MAX:
                raise MindFailed("the prompt is too long for an argument: use `prompt: stdin`")
            argv, stdin = _with_argument(argv, prompt), b""
        return Command(
            cwd=self.setting.cwd,
            argv=argv,
            env=self.setting.env,
            stdin=stdin,
            timeout_s=self.setting.timeout_s,
            output_bytes_max=limits.OUTPUT_KEPT_BYTES_MAX,
            sandbox=self.setting.sandbox,
        )

    def _reply(self, turn: TurnInput, session: str, ended: Exit) -> Reply:
        output = Masks(self.secrets).mask(ended.output)
        blob = self.keep(output) if output else ""
        printed = outside_output.read(output.decode(errors="replace"), self.how)
        if ended.ending is not Ending.EXITED or ended.code != 0 or printed.is_error or printed.answer is None:
            raise MindFailed(_complaint(self.how, ended, printed, output))
        memory: JsonObject = {"session": printed.session or session, "turns": turns_of(turn.memory) + 1}
        return Reply(
            text=clamped(printed.answer.encode(), ANSWER_BYTES),
            then="final",
            memory=memory,
            usage=printed.usage or {},
            data={"blob": blob} if blob else {},
        )


def _with_argument(argv: tuple[str, ...], prompt: str) -> tuple[str, ...]:
    if argv[:2] == SHELL and len(argv) == 3:
        # Quoted by the shell itself: the prompt is data, whatever is in it.
        return (*SHELL, f'{argv[2]} "$1"', "sh", prompt)
    return (*argv, prompt)


def _complaint(how: Outside, ended: Exit, printed: Printed, output: bytes) -> str:
    name = how.argv[2].split()[0] if how.argv[:2] == SHELL and how.argv[2].split() else how.argv[0]
    tail = (printed.answer or output.decode(errors="replace").strip())[-TAIL_BYTES:]
    if ended.ending is not Ending.EXITED:
        what = ended.ending.value
    elif ended.code != 0:
        what = f"exited with {ended.code}"
    elif printed.is_error:
        what = "says that it failed"
    else:
        what = "gave no answer"
    return f"{name} {what}" + (f": {tail}" if tail else "")


def session_of(memory: Json) -> str:
    """The session that an earlier turn left, empty when there is none."""
    return str(memory.get("session") or "") if isinstance(memory, dict) else ""


def turns_of(memory: Json) -> int:
    """How many turns it has answered."""
    return int(memory.get("turns", 0)) if isinstance(memory, dict) else 0
