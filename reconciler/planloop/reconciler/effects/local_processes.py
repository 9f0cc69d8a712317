"""Child processes on this machine: started under a shell shim in their own session, and found again after a crash."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import anyio

from planloop.reconciler.effects import process_table as table
from planloop.reconciler.effects.processes import ExitCause, OperationTrace, ProcessCommand, ProcessExit
from planloop.reconciler.errors import TransientError
from planloop.reconciler.store import state_files
from planloop.schemas import limits
from planloop.schemas.frozen import frozen

# The few lines of shell between us and a command: they make its start unrepeatable and its end known without us.
#
# The shim creates the operation's state file, which must not exist yet (that is the fence: whoever creates it first,
# a late start or a new owner's `trace`, wins), runs the command, and appends its exit code. It outlives its owner, so
# the next one reads how the command ended. A shell does this in 0.2 ms over a bare spawn; a Python shim would take 15.

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


def shim_arguments(command: ProcessCommand, state_file: str, umask: int) -> list[str]:
    """The arguments for `/bin/sh` that run `command` under the shim; its stdout becomes the command's two outputs."""
    rest = (command.shell,) if command.shell else command.argv
    script = f"{_BEGIN}umask {umask:o};{_ulimits(command)}" + _ENTER + _body(command, state_file)
    return ["sh", "-c", script, "sh", state_file, command.cwd, *rest]


def _body(command: ProcessCommand, state_file: str) -> str:
    if not command.shell:
        return _PROGRAM
    if _TAKES_OVER.search(command.shell):
        return _BESIDE  # It could replace the shell or its exit trap, so it gets a shell of its own.
    # In the shim's own shell, a quarter millisecond of processor cheaper; where the text above is fooled (a sourced
    # script that says `exec`), only the exit code after a crash of the owner is lost.
    note = f"echo $? >>{shlex.quote(state_file)}"
    return f"trap {shlex.quote(note)} EXIT;{_INSIDE}"


def _ulimits(command: ProcessCommand) -> str:
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


def parse_shim_state(text: str) -> ShimState:
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
    return ShimState(pid, exit_code_from_shell(int(last)) if last.isdigit() else None)


def exit_code_from_shell(status: int) -> int:
    """The exit code behind a shell's `$?`: 128 + n means that signal n ended the command, here -n."""
    number = status - 128
    return -number if 0 < number <= LAST_SIGNAL else status


# Child processes for real: spawned under a shim, labelled, in sessions of their own, found again after a crash.
#
# An operation's files stand in one folder: `<op>.state` (the fence, the process id, the exit code), `<op>.out` (stdout
# and stderr, written by the process itself, so they survive us) and `<op>.in`. Spawning happens on the event loop: it
# takes 0.2 ms, less than a hop to a thread and back. What is asked of the
# kernel is in `planloop.reconciler.effects.process_table`.

SHELL: Final = "/bin/sh"
OUTPUT_LOOK_FIRST_S: Final = 0.02  # A process is looked at soon for runaway output, then ever more rarely.
OUTPUT_LOOK_LAST_S: Final = 0.5
DESCRIPTORS: Final = "/dev/fd"
KILL_WAIT_S: Final = 5.0  # What has not died of KILL by then hangs in the kernel, and nobody can help it.
NO_CWD_MESSAGE: Final = b"the folder to run it in is gone"
_OP = re.compile(r"[0-9A-Za-z_-]+")
_SUFFIXES: Final = (".state", ".out", ".in")


class LocalProcesses:
    """A `Processes` over `folder`, for the plan labelled `plan` (unique on this machine) and the owner `epoch`."""

    def __init__(self, folder: Path, plan: str, epoch: int, *, grace_s: float = limits.TERM_GRACE_S) -> None:
        self._folder = folder
        self._stem = (
            f"{folder}{os.sep}"  # Paths of files are made for every task, and joining text is ten times faster.
        )
        self._plan = plan
        self._epoch = epoch
        self._grace_s = grace_s
        state_files.make_folder(folder)
        _keep_descriptors()
        self._umask = table.read_umask()
        self._boot = table.boot_id()
        self._boot_file = folder / "boot"
        known = self._boot_file.read_text() if self._boot_file.exists() else None
        # Files are not flushed one by one, so after a reboot a missing one does not prove that nothing began.
        self._has_rebooted = known is not None and known != self._boot
        self._is_boot_noted = known == self._boot

    async def run(self, op: str, command: ProcessCommand) -> ProcessExit:
        """See `Processes.run`. An operation that was begun or fenced before is NOT_STARTED again."""
        obstacle = start_obstacle(command)
        if obstacle:
            return ProcessExit(ExitCause.NOT_STARTED, None, obstacle.encode())
        try:
            self._note_boot()
            pid = self._spawn(op, command)
        except (OSError, ValueError) as error:  # Too long, a null byte in it, no room, no process: nothing began.
            return ProcessExit(ExitCause.NOT_STARTED, None, f"it could not be started: {error}".encode())
        try:
            ending = await self._watch(pid, op, command.timeout_s, command.output_bytes_max)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._stop(op, pid)
            _reap(pid)
            raise
        if ending is not ExitCause.EXITED:
            with anyio.CancelScope(shield=True):
                await self._stop(op, pid)
        _signal_group(pid, signal.SIGKILL)  # What the command left behind in its group. Before reaping: the id is ours.
        code = _reap(pid)
        if _signal_group(pid, 0):
            with anyio.CancelScope(shield=True):
                await self._extinguish(self._members(op))
        if code in (FENCED_EXIT, NO_CWD_EXIT):
            refusal = self._refusal(op, pid)
            if refusal:
                return ProcessExit(ExitCause.NOT_STARTED, None, refusal.encode())
        bound = limits.OUTPUT_KEPT_BYTES_MAX if command.output_bytes_max is None else command.output_bytes_max
        return ProcessExit(ending, code if ending is ExitCause.EXITED else None, self._output(op, bound))

    async def trace(self, op: str) -> OperationTrace:
        """See `Processes.trace`."""
        state = self._state(op)
        if state is None:
            line = LOST_LINE if self._has_rebooted else FENCE_LINE
            if _create(self._path(op, ".state"), f"{line}\n"):
                return OperationTrace.LOST if self._has_rebooted else OperationTrace.NEVER_BEGAN
            state = self._state(op) or ShimState()  # Its shim was faster.
        if state.is_fenced:
            return OperationTrace.NEVER_BEGAN
        if state.has_ended:
            return OperationTrace.ENDED
        if self._leader(op, state) is not None:
            return OperationTrace.RUNNING
        # It may have ended between the two looks.
        return OperationTrace.ENDED if (self._state(op) or ShimState()).has_ended else OperationTrace.LOST

    async def adopt(self, op: str, timeout_s: float | None = None) -> ProcessExit:
        """See `Processes.adopt`. LOST when it is gone and nobody wrote down how."""
        state = self._state(op) or ShimState()
        leader = None if state.has_ended else self._leader(op, state)
        ending = ExitCause.EXITED
        try:
            if leader is not None:
                ending = await self._watch(leader, op, timeout_s, None)
        finally:
            # Also of one that ended alone: what it left in the background had nobody to stop it.
            with anyio.CancelScope(shield=True):
                await self._stop(op, leader)
        state = self._state(op) or ShimState()
        output = self._output(op, limits.OUTPUT_KEPT_BYTES_MAX)
        if ending is not ExitCause.EXITED:
            return ProcessExit(ending, None, output)
        if state.is_without_cwd:
            return ProcessExit(ExitCause.NOT_STARTED, None, NO_CWD_MESSAGE)
        return ProcessExit(ExitCause.LOST if state.code is None else ending, state.code, output)

    async def stop(self, op: str) -> None:
        """See `Processes.stop`. Raises TransientError when something survives KILL."""
        await self.trace(op)  # Fences it: nothing may start after it was stopped.
        state = self._state(op) or ShimState()
        await self._stop(op, None if state.has_ended else self._leader(op, state))

    async def read_output(self, op: str, after: int = 0) -> bytes:
        return self._output(op, limits.OUTPUT_KEPT_BYTES_MAX, after)

    def forget(self, ops: Sequence[str]) -> None:
        for op in ops:
            for suffix in _SUFFIXES:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._path(op, suffix))  # noqa: PTH108 - one of the few calls made for every task

    async def sweep(self, keep: frozenset[str]) -> list[str]:
        """See `Processes.sweep`. Raises TransientError when something survives KILL."""
        found: set[str] = set()

        def strays() -> list[int]:
            alive = [one for one in self._labelled() if one.op not in keep]
            found.update(one.op for one in alive)
            return [one.pid for one in alive]

        await self._extinguish(strays)
        self._clear(keep)
        return sorted(found)

    def _clear(self, keep: frozenset[str]) -> None:
        """Removes the files of operations that ended or were fenced, outside `keep`; evidence of lost ones stays."""
        for path in self._folder.glob("*.state"):
            op = path.stem
            state = self._state(op) if op not in keep else None
            if state is not None and (state.has_ended or state.is_fenced):
                self.forget([op])

    def _path(self, op: str, suffix: str) -> str:
        assert _OP.fullmatch(op), f"`{op}` is no operation id"
        return self._stem + op + suffix

    def _note_boot(self) -> None:
        """Makes the boot id durable before the first process, so that files are trusted only within one boot."""
        if self._is_boot_noted:
            return
        draft = self._boot_file.with_suffix(".new")
        with open(draft, "w", opener=state_files.private_opener) as file:
            file.write(self._boot)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(self._boot_file)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._is_boot_noted, self._has_rebooted = True, False

    def _spawn(self, op: str, command: ProcessCommand) -> int:
        stdin = "/dev/null"
        if command.stdin:
            stdin = self._path(op, ".in")
            state_files.write_private_file(Path(stdin), command.stdin)
        labels = {table.PLAN_LABEL: self._plan, table.OP_LABEL: op, table.EPOCH_LABEL: str(self._epoch)}
        return os.posix_spawn(
            SHELL,
            shim_arguments(command, self._path(op, ".state"), self._umask),
            {**command.env, **labels},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, stdin, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, self._path(op, ".out"), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
            ],
            setsid=True,  # No terminal to ask at, and a group that one signal reaches.
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them; commands expect their defaults.
        )

    async def _watch(self, pid: int, op: str, timeout_s: float | None, output_max: int | None) -> ExitCause:
        """Waits for the exit of `pid`, or for what makes us stop it."""
        bound = limits.OUTPUT_KEPT_BYTES_MAX if output_max is None else output_max
        look_s = OUTPUT_LOOK_FIRST_S
        left_s = float("inf") if timeout_s is None else timeout_s
        while left_s > 0:
            step_s = min(look_s, left_s)
            with anyio.move_on_after(step_s):
                await table.wait_for_exit(pid)
                return ExitCause.TOO_MUCH_OUTPUT if self._size(op) > bound else ExitCause.EXITED
            if self._size(op) > bound:
                return ExitCause.TOO_MUCH_OUTPUT
            left_s -= step_s
            look_s = min(look_s * 2, OUTPUT_LOOK_LAST_S)
        return ExitCause.TIMED_OUT

    def _refusal(self, op: str, pid: int) -> str:
        """Why the shim `pid` ran nothing; the empty text when it did, and its command ended with one of our codes."""
        state = self._state(op) or ShimState()
        if state.is_without_cwd:
            return NO_CWD_MESSAGE.decode()
        return "" if state.pid == pid else "the operation was begun before, or its state cannot be written"

    def _size(self, op: str) -> int:
        try:
            return os.stat(self._path(op, ".out")).st_size  # noqa: PTH116 - made for every task
        except FileNotFoundError:
            return 0

    def _output(self, op: str, bound: int, after: int = 0) -> bytes:
        if self._size(op) <= after:
            return b""
        with Path(self._path(op, ".out")).open("rb") as file:
            file.seek(after)
            return file.read(bound)

    def _state(self, op: str) -> ShimState | None:
        try:
            return parse_shim_state(Path(self._path(op, ".state")).read_text())
        except FileNotFoundError:
            return None

    def _leader(self, op: str, state: ShimState) -> int | None:
        """The living shim of `op`, found by its label while its state file is not written yet."""
        if state.pid is not None:
            return state.pid if table.has_labels(state.pid, self._plan, op) else None
        for one in table.labelled_processes(self._plan):
            with contextlib.suppress(ProcessLookupError):
                if one.op == op and os.getsid(one.pid) == one.pid:
                    return one.pid
        return None

    def _labelled(self) -> list[table.LabelledProcess]:
        if table.HAS_LABELS:
            return table.labelled_processes(self._plan)
        states = ((path.stem, self._state(path.stem)) for path in self._folder.glob("*.state"))
        alive = ((op, state.pid) for op, state in states if state and state.pid and not state.has_ended)
        return [table.LabelledProcess(pid, op) for op, pid in alive if table.has_labels(pid, self._plan, op)]

    async def _stop(self, op: str, leader: int | None) -> None:
        """The ladder for one operation: TERM to its group, grace, KILL; then the same for what left the group."""
        if leader is not None and _signal_group(leader, signal.SIGTERM):
            with anyio.move_on_after(self._grace_s):
                await table.wait_for_exit(leader)
            _signal_group(leader, signal.SIGKILL)
            with anyio.move_on_after(KILL_WAIT_S):
                await table.wait_for_exit(leader)
                self._note_killed(op)
        await self._extinguish(self._members(op))

    def _note_killed(self, op: str) -> None:
        """Writes down for the next owner what the shim could not: that it was killed by us and not lost."""
        state = self._state(op)
        if state is not None and state.pid is not None and not state.has_ended:
            with Path(self._path(op, ".state")).open("a") as file:
                file.write(f"{128 + signal.SIGKILL}\n")

    def _members(self, op: str) -> Callable[[], list[int]]:
        return lambda: [one.pid for one in self._labelled() if one.op == op]

    async def _extinguish(self, find: Callable[[], list[int]]) -> None:
        """Stops whatever `find` finds until it finds nothing: a process may fork while we look."""
        grace_ends = anyio.current_time() + self._grace_s
        while pids := await anyio.to_thread.run_sync(find):
            now = anyio.current_time()
            if now > grace_ends + KILL_WAIT_S:
                raise TransientError("ProcessSurvives", f"processes {pids} do not go away even when killed")
            is_last = now >= grace_ends
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL if is_last else signal.SIGTERM)
            with anyio.move_on_after(KILL_WAIT_S if is_last else grace_ends - now):
                for pid in pids:
                    await table.wait_for_exit(pid)


def _keep_descriptors() -> None:
    """Give no child a file that our own caller left open: it may be one that the child's sandbox hides."""
    for name in os.listdir(DESCRIPTORS):  # noqa: PTH208 - names of no files
        with contextlib.suppress(OSError):  # The listing's own descriptor is closed by now.
            if int(name) > 2:
                os.set_inheritable(int(name), False)


def start_obstacle(command: ProcessCommand) -> str:
    """Why `command` cannot be started, or the empty text; what changes after this look is the shim's to report."""
    assert bool(command.shell) != bool(command.argv), "exactly one of argv and shell"
    if not os.path.isdir(command.cwd):  # noqa: PTH112 - made for every task
        return f"there is no such folder as {command.cwd} to run it in"
    if command.argv:
        program = command.argv[0]
        if "/" in program:
            program = os.path.join(command.cwd, program)  # noqa: PTH118 - as above
        if shutil.which(program, path=command.env.get("PATH", os.defpath)) is None:
            return f"{command.argv[0]}: there is no such program"
    return ""


def _create(path: str, text: str) -> bool:
    """Whether this call created `path`; False when it was there."""
    try:
        with open(path, "x", opener=state_files.private_opener) as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def _signal_group(leader: int, number: int) -> bool:
    """Whether the group could be signalled."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _reap(pid: int) -> int | None:
    """The exit code of our child, negative for a signal; None when it has not exited or is not our child."""
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return exit_code_from_shell(os.waitstatus_to_exitcode(status)) if reaped else None
