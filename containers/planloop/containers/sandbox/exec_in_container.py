"""A program that runs one command in a container and passes on its output, exit code and signals.

Standard library only. It runs under the shim, so the end of the command is recorded even if the owner crashes, and the
next owner adopts it. It talks to the engine's socket directly, because the `docker` package takes a second to load.
TERM is sent to every process with the mark; if this program is killed, the owner kills by the mark. Processes that the
command leaves running are killed here. If the command can have a cgroup (`planloop.containers.engine.exec_kill`), it
starts only after it was moved there, so that no child escapes. Secrets of the container are masked before its output is
stored (`planloop.containers.engine.secret_env`).

`python -I -S exec_in_container.py SOCKET CONTAINER MARK WORKDIR NAMES STDIN ARGV…`: NAMES are the variables to pass on,
separated by commas; STDIN is `in` if there is input.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A bare interpreter has no installed packages. In a checkout, the portions of the package are siblings.
sys.path.append(str(Path(__file__).resolve().parents[3]))
sys.path.extend(str(Path(__file__).resolve().parents[4] / portion) for portion in ("reconciler", "schemas"))

from planloop.containers.engine import exec_kill
from planloop.containers.engine.docker_frames import GONE, GONE_EXIT, FrameDecoder
from planloop.containers.engine.secret_env import masks_from_config
from planloop.containers.sandbox.entry import restore_variables
from planloop.reconciler.effects.secret_masks import MaskedStream

NOT_FOUND_EXIT = 127
BROKEN_EXIT = 126
PIECE_BYTES = 1 << 16
LOOK_S = 0.01
LOOK_LAST_S = 0.5
CALL_S = 30.0
GONE_S = 1.0  # An engine reports the end of a container at most this long after the end of its commands.
KILLED_EXIT = 137
GATE = 'IFS= read -r go && [ "$go" = go ] || exit 126; exec "$@"'
GO = b"go\n"
CLOSED_GATE = f"{GATE} </dev/null"
"""Shell code that becomes the command when it reads `go`; the command's input follows, if any."""

TERM_SCRIPT = r"""
for folder in /proc/[0-9]*; do
  pid=${folder##*/}
  [ "$pid" = $$ ] || [ "$pid" = 1 ] && continue
  while line=; IFS= read -r line || [ -n "$line" ]; do
    case $line in *"$1"*) kill -s TERM "$pid"; break;; esac
  done 2>/dev/null <"$folder/environ"
done
"""


class EngineRefusedExec(Exception):
    """The engine refused a request; `str()` is its message."""


class EngineConnection(http.client.HTTPConnection):
    """A connection to the engine's unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("engine", timeout=CALL_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class ExecContainer:
    """A container on the engine at `path`."""

    def __init__(self, path: str, name: str) -> None:
        self._path = path
        self._name = name

    def ask(self, method: str, where: str, body: object = None) -> Any:
        """Send a request and return the engine's response. Raises EngineRefusedExec, OSError."""
        line = EngineConnection(self._path)
        try:
            line.request(method, where, json.dumps(body) if body is not None else None, _JSON)
            answer = line.getresponse()
            read = answer.read()
        finally:
            line.close()
        said = json.loads(read) if read.strip() else {}
        if answer.status >= 400:
            raise EngineRefusedExec(str(said.get("message", read)))
        return said

    def make(self, argv: Sequence[str], **more: object) -> str:
        """Create an exec and return its id."""
        options = {"AttachStdout": True, "AttachStderr": True, "Tty": False, "Cmd": list(argv), **more}
        return str(self.ask("POST", f"/containers/{self._name}/exec", options)["Id"])

    def begin(self, command: str) -> tuple[socket.socket, bytes]:
        """Start it; return its input and output as one stream, and the output so far."""
        line = EngineConnection(self._path)
        upgrade = {**_JSON, "Connection": "Upgrade", "Upgrade": "tcp"}
        line.request("POST", f"/exec/{command}/start", json.dumps({"Detach": False, "Tty": False}), upgrade)
        stream, data = line.sock, b""
        while b"\r\n\r\n" not in data and (piece := stream.recv(PIECE_BYTES)):
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        status = head.split(b" ", 2)[1:2]
        if status not in ([b"101"], [b"200"]):
            raise EngineRefusedExec(rest.decode(errors="replace").strip() or "the command could not be started")
        stream.settimeout(None)
        return stream, rest

    def state(self, command: str) -> dict[str, Any]:
        """Wait for the end of the command and return its state."""
        pause_s = LOOK_S
        while (state := dict(self.ask("GET", f"/exec/{command}/json")))["Running"]:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LOOK_LAST_S)
        return state

    def pid(self, command: str) -> int:
        """The process id on the engine's machine; 0 if it did not start. Engines report it as running before."""
        deadline = time.monotonic() + CALL_S
        while time.monotonic() < deadline:
            state = self.ask("GET", f"/exec/{command}/json")
            if state.get("Pid") or _has_ended(state):
                return int(state.get("Pid") or 0)
            time.sleep(LOOK_S)
        raise TimeoutError("the engine does not report whether the command started")

    def is_over(self, command: str) -> bool:
        """Whether the command has ended. Processes that it left running may still have its output open."""
        return _has_ended(self.ask("GET", f"/exec/{command}/json"))

    def raw(self) -> dict[str, Any]:
        """The engine's description of the container."""
        return dict(self.ask("GET", f"/containers/{self._name}/json"))

    def main(self) -> tuple[str, int]:
        """The container's full id, and the id of its first process, or 0."""
        return _main(self.raw())

    def script(self, argv: Sequence[str]) -> None:
        """Run a helper command in the container to its end."""
        command = self.make(argv)
        stream, _ = self.begin(command)
        deadline = time.monotonic() + CALL_S
        with stream:
            while select.select([stream], [], [], max(0.0, deadline - time.monotonic()))[0]:
                if not stream.recv(PIECE_BYTES):
                    return
        raise TimeoutError("a helper command in the container does not end")

    def is_gone(self) -> bool:
        """Whether the container has ended. Engines report that a little after the end of its commands."""
        deadline, pause_s = time.monotonic() + GONE_S, LOOK_S
        while self.main()[1]:
            if time.monotonic() > deadline:
                return False
            time.sleep(pause_s)
            pause_s *= 2
        return True


_TROUBLES = (EngineRefusedExec, OSError, http.client.HTTPException, ValueError)
_JSON = {"Content-Type": "application/json", "Host": "engine"}


def _main(raw: dict[str, Any]) -> tuple[str, int]:
    return str(raw["Id"]), int(raw["State"].get("Pid") or 0)


def _has_ended(state: dict[str, Any]) -> bool:
    """Whether the exec has ended: only then it has an exit code. A started exec may not run yet."""
    return not state["Running"] and state["ExitCode"] is not None


def main(arguments: Sequence[str]) -> int:
    """Run the command. Returns its exit code, or 126 or 127 if it did not start."""
    path, container, mark, workdir, names, given, *argv = arguments
    client, has_input = ExecContainer(path, container), given == "in"
    # Ignored until there is a command to pass TERM on to.
    signal.signal(
        signal.SIGTERM, lambda *_: threading.Thread(target=_pass_on, args=(client, mark), daemon=True).start()
    )
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        raw = client.raw()
        (identity, first), secrets = _main(raw), masks_from_config(raw["Config"]).stream()
        place = exec_kill.exec_cgroup_root(identity, first) if first else None
        options = {"Env": _variables(names, mark), "WorkingDir": workdir}
        begun = _begun(client, argv, options, has_input=has_input, is_gated=place is not None)
    except _TROUBLES as error:
        print(f"the container {container[:12]} could not run the command: {error}", file=sys.stderr)  # noqa: T201
        return BROKEN_EXIT
    try:
        before = exec_kill.kernel_counts(first) if place is not None else exec_kill.KernelCounts()
        if place is not None:
            _enter(client, begun, place, mark)
        if begun.gated:
            begun.stream.sendall(GO)
        if has_input:
            threading.Thread(target=_feed, args=(begun.stream,), daemon=True).start()
        _show(begun.stream, begun.rest, secrets, lambda: _end_if_over(client, begun.command, mark))
        state = client.state(begun.command)
        code = int(state["ExitCode"] if state["ExitCode"] is not None else KILLED_EXIT)
        if code == KILLED_EXIT and client.is_gone():
            return _gone()
    except _TROUBLES as error:
        print(f"the container {container[:12]} does not report the end of the command: {error}", file=sys.stderr)  # noqa: T201
        return _gone()
    if place is not None:
        _tell(before, exec_kill.kernel_counts(first))
    with contextlib.suppress(*_TROUBLES):  # Then the owner kills it.
        _end(client, mark)
    return NOT_FOUND_EXIT if not state.get("Pid") and code in (BROKEN_EXIT, NOT_FOUND_EXIT) else code


@dataclass(frozen=True, slots=True)  # Loaded by a bare interpreter, which has no msgspec.
class StartedExec:
    """A started command: its input and output, and the output so far.

    `gated` is the id, on this machine, of the process that waits to become the command; 0 if none waits.
    """

    command: str
    stream: socket.socket
    rest: bytes
    gated: int = 0


def _begun(
    client: ExecContainer, argv: Sequence[str], options: Mapping[str, object], *, has_input: bool, is_gated: bool
) -> StartedExec:
    """Start the command; if `is_gated` and the image has a shell, it waits for `go`. Raises `_TROUBLES`."""
    if is_gated:
        gate = ("/bin/sh", "-c", GATE if has_input else CLOSED_GATE, "sh")
        command = client.make((*gate, *argv), **options, AttachStdin=True)
        stream, rest = client.begin(command)
        if pid := client.pid(command):
            return StartedExec(command, stream, rest, pid)
        stream.close()  # Nothing was started: the image may have no shell, and its command may not need one.
    command = client.make(argv, **options, AttachStdin=has_input)
    return StartedExec(command, *client.begin(command))


def _enter(client: ExecContainer, begun: StartedExec, place: Path, mark: str) -> None:
    """Move the command to its cgroup. If that fails, it is found only by its mark."""
    if pid := begun.gated or client.pid(begun.command):
        with contextlib.suppress(OSError):
            exec_kill.enter_exec_cgroup(place, mark, pid)


def _variables(names: str, mark: str) -> list[str]:
    """The environment of the command."""
    own = restore_variables(os.environ)  # noqa: TID251 - a program of its own
    return [
        *(f"{name}={own[name]}" for name in names.split(",") if name in own),
        f"{exec_kill.VARIABLE}={exec_kill.mark_value(mark)}",
    ]


def _gone() -> int:
    os.write(1, b"\n" + GONE)
    return GONE_EXIT


def _tell(before: exec_kill.KernelCounts, after: exec_kill.KernelCounts) -> None:
    """Append to the output how the kernel enforced limits of the container while the command ran."""
    lines = []
    if after.memory_kills > before.memory_kills:
        lines.append("the container ran out of memory, and the kernel killed processes in it")
    if after.refused_processes > before.refused_processes:
        lines.append("the container reached its limit of processes")
    for line in lines:
        os.write(1, f"\n[planloop] {line}\n".encode())


def _feed(stream: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := os.read(0, PIECE_BYTES):
            stream.sendall(piece)
        stream.shutdown(socket.SHUT_WR)


def _show(stream: socket.socket, rest: bytes, secrets: MaskedStream, look: Callable[[], object]) -> None:
    """Pass on output until no writer is left. While there is no output, call `look` from time to time."""
    frames, piece, pause_s = FrameDecoder(), rest, LOOK_S
    while True:
        _write(secrets.feed(frames.feed(piece)))
        while not select.select([stream], [], [], pause_s)[0]:
            pause_s = min(2 * pause_s, LOOK_LAST_S)
            look()
        piece = stream.recv(PIECE_BYTES)
        if not piece:
            _write(secrets.flush())
            return


def _write(out: bytes) -> None:
    while out:
        out = out[os.write(1, out) :]


def _pass_on(client: ExecContainer, mark: str) -> None:
    with contextlib.suppress(*_TROUBLES):
        container, first = client.main()
        if not first or _term_from_outside(container, first, mark):
            return
        client.script(("/bin/sh", "-c", TERM_SCRIPT, "sh", exec_kill.mark_pattern(mark)))


def _term_from_outside(container: str, first: int, mark: str) -> bool:
    """Send TERM to the processes with the mark; return False if this machine does not show them."""
    try:
        if container not in Path(f"/proc/{first}/cgroup").read_text():
            return False
        for process in exec_kill.container_processes(container, first, mark):
            if process.is_marked:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)
    except OSError:
        return False
    return True


def _end_if_over(client: ExecContainer, command: str, mark: str) -> None:
    if client.is_over(command):
        _end(client, mark)


def _end(client: ExecContainer, mark: str) -> None:
    """Kill all processes that the command left, so that its output ends."""
    container, first = client.main()
    if first and not exec_kill.kill_from_outside(container, first, mark):
        client.script(exec_kill.kill_argv(mark))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
