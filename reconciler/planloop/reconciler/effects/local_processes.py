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

# The shim: a few lines of shell that prevent a second start of a command, and record its end without the owner.
#
# The shim creates the operation's state file, which must not exist yet. This is the fence: the first to create the
# file, a late start or a new owner's `trace`, wins. Then it runs the command and appends its exit code. It survives its
# owner, so the next owner reads how the command ended. The shell adds 0.2 ms to a bare spawn; a Python shim would add
# 15 ms.

FENCED_EXIT: Final = 125
NO_CWD_EXIT: Final = 126
FENCE_LINE: Final = "fenced"  # Written by `trace` instead of a process id: the operation never started and never will.
LOST_LINE: Final = "lost"  # Written by `trace` after a reboot: older files prove nothing.
NO_CWD_LINE: Final = "no-cwd"
LAST_SIGNAL: Final = (
    31  # The last standard signal. Real-time signals rarely end a process, and exit codes above 159 are common.
)

# Child processes get the default action for caught signals; ignored signals would stay ignored.
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
        return _BESIDE  # The command could replace the shell or its exit trap, so it runs in a separate shell.
    # Running it in the shim's shell saves 0.25 ms of processor time. If the test above is wrong (a sourced script with
    # `exec`), only the exit code after a crash of the owner is lost.
    note = f"echo $? >>{shlex.quote(state_file)}"
    return f"trap {shlex.quote(note)} EXIT;{_INSIDE}"


def _ulimits(command: ProcessCommand) -> str:
    lines = f"ulimit -f {max(1, command.file_bytes_max // 512)};"
    if command.memory_bytes_max is not None:
        lines += f"ulimit -v {max(1, command.memory_bytes_max // 1024)};"
    if command.processes_max is not None:
        # bash limits processes with -u, dash with -p. Each reports the unknown option and continues.
        lines += f"ulimit -u {command.processes_max} 2>&-||ulimit -p {command.processes_max};"
    if command.cpu_s_max is not None:
        lines += f"ulimit -t {command.cpu_s_max};"
    return lines


@frozen
class ShimState:
    """The content of a state file. `pid` is the shim's, also the id of its session and group; None until it is written.

    `code` is the command's exit code, negative for a signal; None while it runs, or if it was not recorded.
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
    """Parse a state file. A line without a newline is incomplete and does not count."""
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
    """Convert a shell's `$?`: 128 + n, for a command that signal n ended, becomes -n."""
    number = status - 128
    return -number if 0 < number <= LAST_SIGNAL else status


# Child processes: spawned under a shim, labelled, in separate sessions, and found again after a crash.
#
# The files of an operation are in one folder: `<op>.state` (the fence, the process id, the exit code), `<op>.out`
# (stdout and stderr, written by the process itself, so they survive the owner) and `<op>.in`. Spawning happens on the
# event loop: it takes 0.2 ms, less than switching to a thread and back. `planloop.reconciler.effects.process_table`
# reads from the kernel.

SHELL: Final = "/bin/sh"
OUTPUT_LOOK_FIRST_S: Final = 0.02  # The output size is checked soon after the start, then at growing intervals.
OUTPUT_LOOK_LAST_S: Final = 0.5
DESCRIPTORS: Final = "/dev/fd"
KILL_WAIT_S: Final = 5.0  # A process that survives KILL for so long hangs in the kernel.
NO_CWD_MESSAGE: Final = b"the folder to run it in is gone"
_OP = re.compile(r"[0-9A-Za-z_-]+")
_SUFFIXES: Final = (".state", ".out", ".in")


class LocalProcesses:
    """A `Processes` over `folder`, for the plan labelled `plan` (unique on this machine) and the owner `epoch`."""

    def __init__(self, folder: Path, plan: str, epoch: int, *, grace_s: float = limits.TERM_GRACE_S) -> None:
        self._folder = folder
        self._stem = f"{folder}{os.sep}"  # Paths are built for every task, and concatenating text is ten times faster.
        self._plan = plan
        self._epoch = epoch
        self._grace_s = grace_s
        state_files.make_folder(folder)
        _keep_descriptors()
        self._umask = table.read_umask()
        self._boot = table.boot_id()
        self._boot_file = folder / "boot"
        known = self._boot_file.read_text() if self._boot_file.exists() else None
        # Files are not flushed one by one, so after a reboot a missing file does not prove that nothing started.
        self._has_rebooted = known is not None and known != self._boot
        self._is_boot_noted = known == self._boot

    async def run(self, op: str, command: ProcessCommand) -> ProcessExit:
        """Implements `Processes.run`. An operation that was started or fenced before is NOT_STARTED."""
        obstacle = start_obstacle(command)
        if obstacle:
            return ProcessExit(ExitCause.NOT_STARTED, None, obstacle.encode())
        try:
            self._note_boot()
            pid = self._spawn(op, command)
        except (OSError, ValueError) as error:  # Too long, a null byte, no disk space, no process: nothing was started.
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
        _signal_group(
            pid, signal.SIGKILL
        )  # Kills the rest of the group. Before reaping, while the id cannot be reused.
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
        """Implements `Processes.trace`."""
        state = self._state(op)
        if state is None:
            line = LOST_LINE if self._has_rebooted else FENCE_LINE
            if _create(self._path(op, ".state"), f"{line}\n"):
                return OperationTrace.LOST if self._has_rebooted else OperationTrace.NEVER_BEGAN
            state = self._state(op) or ShimState()  # The shim created it first.
        if state.is_fenced:
            return OperationTrace.NEVER_BEGAN
        if state.has_ended:
            return OperationTrace.ENDED
        if self._leader(op, state) is not None:
            return OperationTrace.RUNNING
        # It may have ended between the two reads.
        return OperationTrace.ENDED if (self._state(op) or ShimState()).has_ended else OperationTrace.LOST

    async def adopt(self, op: str, timeout_s: float | None = None) -> ProcessExit:
        """Implements `Processes.adopt`. LOST if it has ended and its exit code was not recorded."""
        state = self._state(op) or ShimState()
        leader = None if state.has_ended else self._leader(op, state)
        ending = ExitCause.EXITED
        try:
            if leader is not None:
                ending = await self._watch(leader, op, timeout_s, None)
        finally:
            # Also after a normal end: processes that it left in the background were not stopped.
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
        """Implements `Processes.stop`. Raises TransientError if a process survives KILL."""
        await self.trace(op)  # Fences it, so that it cannot start after it was stopped.
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
        """Implements `Processes.sweep`. Raises TransientError if a process survives KILL."""
        found: set[str] = set()

        def strays() -> list[int]:
            alive = [one for one in self._labelled() if one.op not in keep]
            found.update(one.op for one in alive)
            return [one.pid for one in alive]

        await self._extinguish(strays)
        self._clear(keep)
        return sorted(found)

    def _clear(self, keep: frozenset[str]) -> None:
        """Remove the files of ended or fenced operations outside `keep`. Files of lost operations stay as evidence."""
        for path in self._folder.glob("*.state"):
            op = path.stem
            state = self._state(op) if op not in keep else None
            if state is not None and (state.has_ended or state.is_fenced):
                self.forget([op])

    def _path(self, op: str, suffix: str) -> str:
        assert _OP.fullmatch(op), f"invalid operation id `{op}`"
        return self._stem + op + suffix

    def _note_boot(self) -> None:
        """Store the boot id durably before the first process, so that files are trusted only within one boot."""
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
            setsid=True,  # No terminal, and a group that one signal reaches.
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # Python ignores them; commands expect their defaults.
        )

    async def _watch(self, pid: int, op: str, timeout_s: float | None, output_max: int | None) -> ExitCause:
        """Wait for the exit of `pid`, or for a reason to stop it."""
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
        """Why the shim `pid` ran nothing; empty if its command ran and returned one of the shim's exit codes."""
        state = self._state(op) or ShimState()
        if state.is_without_cwd:
            return NO_CWD_MESSAGE.decode()
        return "" if state.pid == pid else "the operation was started before, or its state cannot be written"

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
        """The running shim of `op`, found by its label if its state file is not written yet."""
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
        """Stop an operation: TERM to its group, grace period, KILL; then the same for processes that left the group."""
        if leader is not None and _signal_group(leader, signal.SIGTERM):
            with anyio.move_on_after(self._grace_s):
                await table.wait_for_exit(leader)
            _signal_group(leader, signal.SIGKILL)
            with anyio.move_on_after(KILL_WAIT_S):
                await table.wait_for_exit(leader)
                self._note_killed(op)
        await self._extinguish(self._members(op))

    def _note_killed(self, op: str) -> None:
        """Record for the next owner that this owner killed the operation, which the shim could not record."""
        state = self._state(op)
        if state is not None and state.pid is not None and not state.has_ended:
            with Path(self._path(op, ".state")).open("a") as file:
                file.write(f"{128 + signal.SIGKILL}\n")

    def _members(self, op: str) -> Callable[[], list[int]]:
        return lambda: [one.pid for one in self._labelled() if one.op == op]

    async def _extinguish(self, find: Callable[[], list[int]]) -> None:
        """Kill the processes that `find` returns until it returns none: processes may fork meanwhile."""
        grace_ends = anyio.current_time() + self._grace_s
        while pids := await anyio.to_thread.run_sync(find):
            now = anyio.current_time()
            if now > grace_ends + KILL_WAIT_S:
                raise TransientError("ProcessSurvives", f"processes {pids} still exist after KILL")
            is_last = now >= grace_ends
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL if is_last else signal.SIGTERM)
            with anyio.move_on_after(KILL_WAIT_S if is_last else grace_ends - now):
                for pid in pids:
                    await table.wait_for_exit(pid)


def _keep_descriptors() -> None:
    """Mark inherited files close-on-exec: a child's sandbox may hide a file that planloop's caller left open."""
    for name in os.listdir(DESCRIPTORS):  # noqa: PTH208 - names of no files
        with contextlib.suppress(OSError):  # The descriptor of the listing is closed already.
            if int(name) > 2:
                os.set_inheritable(int(name), False)


def start_obstacle(command: ProcessCommand) -> str:
    """Why `command` cannot be started, else empty. The shim reports problems that appear later."""
    assert bool(command.shell) != bool(command.argv), "exactly one of argv and shell"
    if not os.path.isdir(command.cwd):  # noqa: PTH112 - made for every task
        return f"the folder {command.cwd} does not exist"
    if command.argv:
        program = command.argv[0]
        if "/" in program:
            program = os.path.join(command.cwd, program)  # noqa: PTH118 - as above
        if shutil.which(program, path=command.env.get("PATH", os.defpath)) is None:
            return f"{command.argv[0]}: program not found"
    return ""


def _create(path: str, text: str) -> bool:
    """Create `path`; return False if it existed."""
    try:
        with open(path, "x", opener=state_files.private_opener) as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def _signal_group(leader: int, number: int) -> bool:
    """Send a signal to the group; return whether that was possible."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _reap(pid: int) -> int | None:
    """The exit code of a child, negative for a signal; None if it has not exited or is not a child."""
    try:
        reaped, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return exit_code_from_shell(os.waitstatus_to_exitcode(status)) if reaped else None
