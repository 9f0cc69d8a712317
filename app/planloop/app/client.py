"""The client of a plan's owner: blocking HTTP/1.0 over its unix socket, for every command but the owner itself.

Written out rather than taken from `http.client`, whose import of the mail parser and TLS costs 20 of the 90 ms that
`plan get` may take. Under HTTP/1.0 a body is what comes until the end of the connection, which is all that is needed.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from planloop.app import sockets
from planloop.app.exits import Exit, Halt
from planloop.schemas.encoding import Json, JsonObject, decode, encode

VERSION: Final = "v1"
ANSWER_TIMEOUT_S: Final = 60.0  # Longer than this is a hung owner: compiling 5,000 tasks takes one second.
READ_TIMEOUT_S: Final = 2.0  # For a read. The log has the same data, so a reader need not wait for a busy owner.
PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/")


class OwnerGone(Exception):
    """Nobody listens, or the owner ended while it answered a read."""


class Hung(Halt):
    """An owner exists but did not answer in time: it is stopped or busy."""


class Unanswered(Halt):
    """The owner ended before it answered to a change: it may have made it, or not."""


class OwnerClient:
    """Speaks to the owner of the plan in `folder`. Connects anew for each request: a socket costs 0.1 ms."""

    def __init__(self, folder: Path, *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._folder = folder
        self._timeout_s = timeout_s

    def get(self, path: str, **query: str | int) -> Json:
        """The answer to GET `path`. Raises Halt as the owner says, OwnerGone when there is none."""
        try:
            return self._exchange("GET", _target(path, query), b"")
        except OSError as error:
            raise OwnerGone(str(error)) from error

    def ask(self, path: str, body: JsonObject) -> Json:
        """The answer to a POST that changes nothing, such as a preview.

        Raises Halt as the owner says. Raises OwnerGone when there is no owner, or it ended before it answered.
        """
        try:
            return self._exchange("POST", _target(path, {}), encode(body))
        except OSError as error:
            raise OwnerGone(str(error)) from error

    def post(self, path: str, body: JsonObject) -> Json:
        """The answer to a POST that may change the plan. Raises Halt as the owner says, Unanswered, OwnerGone."""
        try:
            return self._exchange("POST", _target(path, {}), encode(body))
        except OSError as error:
            hint = "plan history shows whether it was taken; then give the command again"
            raise Unanswered(Exit.FAILED, "the owner ended before it answered", hint) from error

    def stream(self, path: str, *, until: float | None = None, **query: str | int) -> Iterator[Json]:
        """One value a line, as they come, until the owner ends the stream.

        Raises TimeoutError at the monotonic time `until`, OwnerGone when there is no owner to begin with.
        """
        connection = self._reach(None)
        if until is not None:
            connection.settimeout(max(0.001, until - time.monotonic()))
        try:
            with _sent(connection, "GET", _target(path, query), b"") as answer:
                while line := _line(connection, answer, until):
                    if line.strip():  # Empty lines keep the connection known to be alive.
                        yield decode(line)
        except TimeoutError:
            raise
        except OSError:
            return
        finally:
            connection.close()

    def _exchange(self, method: str, target: str, body: bytes) -> Json:
        connection = self._reach(self._timeout_s)
        try:
            with _sent(connection, method, target, body) as answer:
                content = answer.read()
        except TimeoutError:
            hint = "plan doctor looks at it; plan down --force ends it"
            raise Hung(Exit.TIMEOUT, f"the owner did not answer within {self._timeout_s:.0f} s", hint) from None
        finally:
            connection.close()
        return decode(content) if content else None

    def _reach(self, timeout_s: float | None) -> socket.socket:
        """Apart from asking: a change that was not sent may be made elsewhere, one that was sent may not."""
        try:
            return sockets.connect(self._folder, timeout_s=timeout_s)
        except OSError as error:
            raise OwnerGone(str(error)) from error


def _sent(connection: socket.socket, method: str, target: str, body: bytes) -> BinaryIO:
    """Sends the request; returns the body of the answer, to be read.

    Raises Halt as the owner says, OwnerGone when it is leaving, OSError.
    """
    head = f"{method} {target} HTTP/1.0\r\nHost: plan\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    answer: BinaryIO = connection.makefile("rb")
    try:
        words = answer.readline().split(None, 2)
        if len(words) < 2 or not words[1].isdigit():
            raise ConnectionError("the connection ended before the answer began")
        while answer.readline().strip():
            pass  # Nothing that the headers say is needed.
        if words[1] == b"503":
            raise OwnerGone("the owner is leaving and did nothing")
        if words[1] != b"200":
            raise _halt(answer.read())
    except BaseException:
        answer.close()  # It keeps the socket open, whoever closes that.
        raise
    return answer


def _line(connection: socket.socket, answer: BinaryIO, until: float | None) -> bytes:
    if until is not None:
        connection.settimeout(max(0.001, until - time.monotonic()))
    return answer.readline()


def _target(path: str, query: dict[str, str | int]) -> str:
    pairs = "&".join(f"{name}={_quoted(str(value)).replace('/', '%2F')}" for name, value in query.items())
    return f"/{VERSION}/{_quoted(path)}" + (f"?{pairs}" if pairs else "")


def _quoted(text: str) -> str:
    return "".join(chr(byte) if byte in PLAIN else f"%{byte:02X}" for byte in text.encode())


def _halt(answer: bytes) -> Halt:
    """The ending that the owner's error body states."""
    try:
        error = decode(answer)["error"]
        return Halt(Exit(error["exit"]), error["summary"], error["hint"])
    except (ValueError, KeyError, TypeError):
        return Halt(Exit.BUG, f"the owner answered with something else: {answer[:200]!r}", "plan version; plan doctor")
