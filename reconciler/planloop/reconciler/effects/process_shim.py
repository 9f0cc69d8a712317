"""The few lines of shell between us and a command: they make its start unrepeatable and its end known without us.

The shim creates the operation's state file, which must not exist yet (that is the fence: whoever creates it first,
a late start or a new owner's `trace`, wins), runs the command, and appends its exit code. It outlives its owner, so
the next one reads how the command ended. A shell does this in 0.2 ms over a bare spawn; a Python shim would take 15.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from planloop.reconciler.effects.processes import Command
from planloop.schemas.frozen import frozen

FENCED_EXIT: Final = 125
NO_CWD_EXIT: Final = 126
FENCE_LINE: Final = "fenced"  # Written by `trace` in place of a process id: it never began and never will.
LOST_LINE: Final = "lost"  # Written by `trace` after a reboot: files of before it prove nothing.
NO_CWD_LINE: Final = "no-cwd"
LAST_SIGNAL: Final = 31  # The classic ones; real-time signals end nothing by habit, exit codes above 159 are common.

# A caught signal is back to its default in what the shell starts; an ignored one would stay ignored.
_BEGIN: Final = 'umask 077;set -C;echo $$ >"$1"||exit 125;set +C;'
_ENTER: Final = 'cd -- "$2"||{ echo no-cwd >>"$1";exit 126; };'
# `set --` hides the shim's own arguments from the command.
_INSIDE: Final = 'trap "exit 129" HUP;trap "exit 130" INT;trap "exit 143" TERM;exec 2>&1;eval "set --;$3"'
_BESIDE: Final = 'trap : HUP INT TERM;(eval "set --;$3") 2>&1;r=$?;echo $r >>"$1";exit $r'
_PROGRAM: Final = 'trap : HUP INT TERM;(shift 2;exec "$@") 2>&1;r=$?;echo $r >>"$1";exit $r'
_TAKES_OVER: Final = re.compile(r"\b(exec|trap)\b")


def arguments(command: Command, state_file: str, umask: int) -> list[str]:
    """The arguments for `/bin/sh` that run `command` under the shim; its stdout becomes the command's two outputs."""
    rest = (command.shell,) if command.shell else command.argv
    script = f"{_BEGIN}umask {umask:o};{_limits(command)}" + _ENTER + _body(command, state_file)
    return ["sh", "-c", script, "sh", state_file, command.cwd, *rest]


def _body(command: Command, state_file: str) -> str:
    if not command.shell:
        return _PROGRAM
    if _TAKES_OVER.search(command.shell):
        return _BESIDE  # It could replace the shell or its exit trap, so it gets a shell of its own.
    # In the shim's own shell, a quarter millisecond of processor cheaper; where the text above is fooled (a sourced
    # script that says `exec`), only the exit code after a crash of the owner is lost.
    note = f"echo $? >>{shlex.quote(state_file)}"
    return f"trap {shlex.quote(note)} EXIT;{_INSIDE}"


def _limits(command: Command) -> str:
    lines = f"ulimit -f {max(1, command.file_bytes_max // 512)};"
    if command.memory_bytes_max is not None:
        lines += f"ulimit -v {max(1, command.memory_bytes_max // 1024)};"
    if command.processes_max is not None:
        # bash counts processes with -u, dash with -p; the one that does not know an option says so and goes on.
        lines += f"ulimit -u {command.processes_max} 2>&-||ulimit -p {command.processes_max};"
    if command.cpu_s_max is not None:
        lines += f"ulimit -t {command.cpu_s_max};"
    return lines


@frozen
class ShimState:
    """What a state file says. `pid` is the shim's, also the id of its session and group; None until it is written.

    `code` is the command's exit code, negative for a signal; None while it runs or when nobody wrote it down.
    """

    pid: int | None = None
    code: int | None = None
    is_fenced: bool = False
    is_lost: bool = False
    is_without_cwd: bool = False

    @property
    def has_ended(self) -> bool:
        return self.code is not None or self.is_without_cwd


def parse_state(text: str) -> ShimState:
    """The state that `text` shows; a line without its line end was never finished and does not count."""
    lines = text.split("\n")[:-1]
    if not lines:
        return ShimState()
    if lines[0] in (FENCE_LINE, LOST_LINE):
        return ShimState(is_fenced=lines[0] == FENCE_LINE, is_lost=lines[0] == LOST_LINE)
    pid = int(lines[0]) if lines[0].isdigit() else None
    last = lines[1] if len(lines) > 1 else ""
    if last == NO_CWD_LINE:
        return ShimState(pid, is_without_cwd=True)
    return ShimState(pid, from_shell(int(last)) if last.isdigit() else None)


def from_shell(status: int) -> int:
    """The exit code behind a shell's `$?`: 128 + n means that signal n ended the command, here -n."""
    number = status - 128
    return -number if 0 < number <= LAST_SIGNAL else status
