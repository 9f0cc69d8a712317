"""Stands between a process and its container engine, and kills it -9 at a call that changes something.

Bytes are handed on as they are. Who calls waits for the answer before the next request on a line, so that a request
begins where a piece does.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Final, Literal

Point = Literal["before", "after"]
"""Before the engine gets the call, or after it has finished and before its caller gets the response."""

CHANGE: Final = re.compile(rb"(?:POST|PUT|DELETE) /v[0-9.]+/[^ ]+")
ID: Final = re.compile(r"/[0-9a-f]{64}")
LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)")
PIECE_BYTES: Final = 1 << 16


@dataclass
class KillingProxy:
    """The victim dies at the first call at which none has died at that point. `killed_at` are those calls, in order.

    Only calls that one of `kinds` matches count.

    A recreated object has another id, so calls are identified by their operation and not by the id.
    """

    engine: str
    listener: socket.socket
    victim: Popen[str] | None = None
    point: Point = "before"
    kinds: tuple[str, ...] = ("",)
    killed_at: list[tuple[Point, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def address(self) -> str:
        return f"unix://{self.listener.getsockname()}"

    def serve(self) -> None:
        """Until the listener is shut down."""
        with suppress(OSError):
            while True:
                line, _ = self.listener.accept()
                threading.Thread(target=self._carry, args=(line,), daemon=True).start()

    def _carry(self, line: socket.socket) -> None:
        with line, self._line() as engine, suppress(OSError):
            threading.Thread(target=_pump, args=(engine, line), daemon=True).start()
            while piece := line.recv(PIECE_BYTES):
                change = CHANGE.match(piece)
                if change is not None and self._is_due(line, piece, ID.sub("/ID", change[0].decode())):
                    return
                engine.sendall(piece)
            engine.shutdown(socket.SHUT_WR)
            while line.fileno() >= 0 and line.recv(1):
                pass

    def _is_due(self, line: socket.socket, head: bytes, change: str) -> bool:
        """Whether the victim died of this call. Meanwhile no other is made."""
        with self.lock:
            if self.victim is None or (self.point, change) in self.killed_at:
                return False
            if not any(re.search(kind, change) for kind in self.kinds):
                return False
            if self.point == "after":
                self._done(line, head)
            self.killed_at.append((self.point, change))
            victim, self.victim = self.victim, None  # Before it ends: who waits for that names the next one.
            victim.kill()
            victim.wait()
            return True

    def _done(self, line: socket.socket, request: bytes) -> None:
        """Makes the call; the engine answers when it is done."""
        length = LENGTH.search(request)
        whole = request.index(b"\r\n\r\n") + 4 + (int(length[1]) if length else 0)
        while len(request) < whole:
            request += line.recv(PIECE_BYTES)
        with self._line() as engine:
            engine.sendall(request)
            assert engine.recv(PIECE_BYTES)

    def _line(self) -> socket.socket:
        line = socket.socket(socket.AF_UNIX)
        line.connect(self.engine)
        return line


def _pump(engine: socket.socket, line: socket.socket) -> None:
    with suppress(OSError):
        while piece := engine.recv(PIECE_BYTES):
            line.sendall(piece)
        line.shutdown(socket.SHUT_RDWR)


@contextmanager
def killing_proxy(folder: Path, engine: str) -> Iterator[KillingProxy]:
    """Open inside the block, at a socket in `folder`, for the engine at the socket `engine`."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "proxy"))
        listener.listen()
        own = KillingProxy(engine, listener)
        thread = threading.Thread(target=own.serve)
        thread.start()
        try:
            yield own
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
