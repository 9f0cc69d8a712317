"""A program that runs a command in a container, as a process here stands for one in there: output, exit code, signals.

Run under the shim, so what its owner does not live to see is written down and the next one adopts it. It speaks to the
engine's socket by itself: a second of start-up is too much for a shell line. TERM is passed on to all that carries the
mark inside; KILL is not, and then the owner ends the mark. What the command leaves running is ended here.

`python -I -S inside.py SOCKET CONTAINER MARK WORKDIR NAMES STDIN ARGV…`: NAMES are the variables to take along, with
commas between; STDIN is `in` when there is any.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# Found by its place: a bare interpreter knows nothing that is installed.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from containers import killing
from containers.framing import Frames

NOT_FOUND_EXIT = 127
BROKEN_EXIT = 126
PIECE_BYTES = 1 << 16
LOOK_S = 0.01
LOOK_LAST_S = 0.5
CALL_S = 30.0
TERM_SCRIPT = r"""
for folder in /proc/[0-9]*; do
  pid=${folder##*/}
  [ "$pid" = $$ ] || [ "$pid" = 1 ] && continue
  while line=; IFS= read -r line || [ -n "$line" ]; do
    case $line in *"$1"*) kill -s TERM "$pid"; break;; esac
  done 2>/dev/null <"$folder/environ"
done
"""


class Refused(Exception):
    """The engine said no; `str()` is what it said."""


class Line(http.client.HTTPConnection):
    """A connection to the engine, by its unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("engine", timeout=CALL_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Room:
    """A container on the engine at `path`."""

    def __init__(self, path: str, name: str) -> None:
        self._path = path
        self._name = name

    def ask(self, method: str, where: str, body: object = None) -> Any:
        """The engine's answer. Raises Refused, OSError."""
        line = Line(self._path)
        try:
            line.request(method, where, json.dumps(body) if body is not None else None, _JSON)
            answer = line.getresponse()
            read = answer.read()
        finally:
            line.close()
        said = json.loads(read) if read.strip() else {}
        if answer.status >= 400:
            raise Refused(str(said.get("message", read)))
        return said

    def make(self, argv: Sequence[str], **more: object) -> str:
        """A command that can be begun; its id."""
        wish = {"AttachStdout": True, "AttachStderr": True, "Tty": False, "Cmd": list(argv), **more}
        return str(self.ask("POST", f"/containers/{self._name}/exec", wish)["Id"])

    def begin(self, command: str) -> tuple[socket.socket, bytes]:
        """Begins it; its input and output as one stream, and what came of that already."""
        line = Line(self._path)
        upgrade = {**_JSON, "Connection": "Upgrade", "Upgrade": "tcp"}
        line.request("POST", f"/exec/{command}/start", json.dumps({"Detach": False, "Tty": False}), upgrade)
        stream, data = line.sock, b""
        while b"\r\n\r\n" not in data and (piece := stream.recv(PIECE_BYTES)):
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        status = head.split(b" ", 2)[1:2]
        if status not in ([b"101"], [b"200"]):
            raise Refused(rest.decode(errors="replace").strip() or "the command could not be begun")
        stream.settimeout(None)
        return stream, rest

    def state(self, command: str) -> dict[str, Any]:
        """How far it is, once it has ended."""
        while (state := dict(self.ask("GET", f"/exec/{command}/json")))["Running"]:
            time.sleep(LOOK_S)
        return state

    def is_over(self, command: str) -> bool:
        """Whether it has ended; what it left running may still hold its output."""
        return not self.ask("GET", f"/exec/{command}/json")["Running"]

    def main(self) -> tuple[str, int]:
        """The container's whole id, and its first process; 0 when it has none."""
        raw = self.ask("GET", f"/containers/{self._name}/json")
        return str(raw["Id"]), int(raw["State"].get("Pid") or 0)

    def script(self, argv: Sequence[str]) -> None:
        """Runs something of ours to its end."""
        command = self.make(argv)
        stream, _ = self.begin(command)
        with stream:
            while stream.recv(PIECE_BYTES):
                pass


_JSON = {"Content-Type": "application/json", "Host": "engine"}


def main(arguments: Sequence[str]) -> int:
    """Runs the command; its exit code, or ours for what never began."""
    path, container, mark, workdir, names, given, *argv = arguments
    room = Room(path, container)
    own = os.environ  # noqa: TID251 - a program of its own
    env = [f"{name}={own[name]}" for name in names.split(",") if name in own]
    env.append(f"{killing.VARIABLE}={killing.marked(mark)}")
    # Deaf from the first moment: TERM means nothing before there is somebody to pass it on to.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=_pass_on, args=(room, mark), daemon=True).start())
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        has_input = given == "in"
        command = room.make(argv, Env=env, WorkingDir=workdir, AttachStdin=has_input)
        stream, rest = room.begin(command)
        if has_input:
            threading.Thread(target=_feed, args=(stream,), daemon=True).start()
        _show(stream, rest, lambda: _end_if_over(room, command, mark))
        state = room.state(command)
        _end(room, mark)
    except (Refused, OSError, http.client.HTTPException, ValueError) as error:
        print(f"the container {container[:12]} could not run it: {error}", file=sys.stderr)  # noqa: T201
        return BROKEN_EXIT
    code = int(state["ExitCode"] if state["ExitCode"] is not None else BROKEN_EXIT)
    return NOT_FOUND_EXIT if not state.get("Pid") and code in (BROKEN_EXIT, NOT_FOUND_EXIT) else code


def _feed(stream: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := os.read(0, PIECE_BYTES):
            stream.sendall(piece)
        stream.shutdown(socket.SHUT_WR)


def _show(stream: socket.socket, rest: bytes, look: Callable[[], object]) -> None:
    """Passes on what is written until nobody can write any more; while it is quiet, `look` is called now and then."""
    frames, piece, pause_s = Frames(), rest, LOOK_S
    while True:
        out = frames.feed(piece)
        while out:
            out = out[os.write(1, out) :]
        while not select.select([stream], [], [], pause_s)[0]:
            pause_s = min(2 * pause_s, LOOK_LAST_S)
            look()
        piece = stream.recv(PIECE_BYTES)
        if not piece:
            return


def _pass_on(room: Room, mark: str) -> None:
    with contextlib.suppress(Refused, OSError, http.client.HTTPException, ValueError):
        container, first = room.main()
        if not first or _term_from_outside(container, first, killing.sought(mark).encode()):
            return
        room.script(("/bin/sh", "-c", TERM_SCRIPT, "sh", killing.sought(mark)))


def _term_from_outside(container: str, first: int, sought: bytes) -> bool:
    """Whether this machine shows us the container's processes; then those with the mark have heard TERM."""
    try:
        if container not in Path(f"/proc/{first}/cgroup").read_text():
            return False
        for folder in Path("/proc").iterdir():
            is_there = folder.name.isdigit() and container in _text(folder / "cgroup")
            if is_there and b"\0" + sought in b"\0" + (folder / "environ").read_bytes():
                os.kill(int(folder.name), signal.SIGTERM)
    except PermissionError:
        return False
    except (FileNotFoundError, ProcessLookupError):
        return True
    return True


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _end_if_over(room: Room, command: str, mark: str) -> None:
    if room.is_over(command):
        _end(room, mark)


def _end(room: Room, mark: str) -> None:
    """Nothing of the command outlives it, and so its output ends too."""
    container, first = room.main()
    if first and not killing.kill_from_outside(container, first, mark):
        room.script(killing.argv(mark))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
