"""A program as a mind: each turn it is started with one JSON line and answers with JSON lines of actions.

A line that is not a JSON map is a remark for the log. Exit codes other than 0, and answers that are none, are
failures; a program that prints nothing says nothing and sleeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from planloop.controllers.agent.minds import actions
from planloop.controllers.agent.minds.port import MindFailed, Reply, TurnInput
from planloop.reconciler.effects.processes import Command, Ending, Exit, Processes, Sandbox
from planloop.schemas import limits
from planloop.schemas.encoding import Json, decode_foreign, encode

TAIL_CHARS: Final = 600  # Of its output, in the reason of a failure.


class ProgramMind:
    """Runs `argv` once a turn."""

    @dataclass(frozen=True, slots=True)
    class Setting:
        """Absolute working folder, the whole environment, seconds for one turn, and what it is enclosed in."""

        cwd: str
        env: Mapping[str, str]
        timeout_s: float
        sandbox: Sandbox | None = None

    def __init__(self, processes: Processes, argv: Sequence[str], setting: Setting) -> None:
        self._processes = processes
        self._argv = tuple(argv)
        self._setting = setting

    async def respond(self, turn: TurnInput) -> Reply:
        command = Command(
            cwd=self._setting.cwd,
            argv=self._argv,
            env=self._setting.env,
            stdin=encode(turn.to_json()) + b"\n",
            timeout_s=self._setting.timeout_s,
            output_bytes_max=limits.MIND_OUTPUT_BYTES_MAX,
            sandbox=self._setting.sandbox,
        )
        ended = await self._processes.run(turn.op, command)
        if ended.ending is not Ending.EXITED or ended.code != 0:
            raise MindFailed(_complaint(self._argv[0], ended))
        return reply_from(ended.output.decode(errors="replace"), turn.memory)


def reply_from(output: str, memory: Json) -> Reply:
    """The reply in a program's output: its actions in order; `memory` is kept unless an action sets it."""
    parsed = [_action(line) for line in output.splitlines() if line.strip()]
    found = [action for action in parsed if action is not None]
    reply = actions.reply_of(found, memory)
    # Several things at once are its wish: calls of one answer may run side by side only if it says `parallel`.
    return replace(reply, calls=reply.calls[: limits.TURN_ACTIONS_MAX + 1])


def _action(line: str) -> Json:
    """The action on a line; None for a remark."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        return decode_foreign(line)
    except ValueError as error:
        return {"malformed": f"{error}: {line[:200]}"}


def _complaint(program: str, ended: Exit) -> str:
    tail = ended.output.decode(errors="replace").strip()[-TAIL_CHARS:]
    how = f"exited with {ended.code}" if ended.ending is Ending.EXITED else ended.ending.value
    return f"{program} {how}" + (f": {tail}" if tail else "")
