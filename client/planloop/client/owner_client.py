"""HTTP client of a plan's owner over its unix socket, and where that socket is."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.reconciler.store import state_files
from planloop.schemas.canonical_json import Json, JsonObject, decode, encode

# The owner's unix socket: where it is, and how both sides get to it when its path is too long for the kernel.
#
# The socket stands in the plan's state folder with mode 0600: who may read the log may talk to the owner. The kernel
# takes about a hundred bytes of path, so a longer one is reached through a short-lived symlink in a private folder.

PATH_BYTES_MAX: Final = 100  # Linux takes 107, macOS 103.


def connect_socket(folder: Path, *, timeout_s: float | None = None) -> socket.socket:
    """Connect to the owner of the plan in `folder`. Raises OSError if no owner is listening."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(timeout_s)
    try:
        with _short(folder) as short:
            connection.connect(short)
    except BaseException:
        connection.close()
        raise
    return connection


def listen_on_socket(folder: Path) -> socket.socket:
    """A listening socket in `folder`, in place of what a killed owner left there. The caller holds the owner's lock."""
    with suppress(FileNotFoundError):
        state_files.socket_file(folder).unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(folder) as short:
            old_mask = os.umask(0o177)  # The socket is never open to others, not even for a moment.
            try:
                listener.bind(short)
            finally:
                os.umask(old_mask)
    except BaseException:
        listener.close()
        raise
    listener.listen(64)
    listener.setblocking(False)
    return listener


def socket_identity(folder: Path) -> tuple[int, ...]:
    """Return an identity of the socket file; empty if it does not exist."""
    try:
        found = state_files.socket_file(folder).lstat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_mtime_ns)


def remove_socket(folder: Path, own: tuple[int, ...]) -> None:
    """Takes the socket's file away if it is still `own`; called by its owner when it leaves.

    If the state folder was removed, another owner may have created its own socket there.
    """
    if socket_identity(folder) == own:
        with suppress(OSError):
            state_files.socket_file(folder).unlink()


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    path = str(state_files.socket_file(folder))
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield path
        return
    private = Path("/tmp") / f"planloop-{os.urandom(6).hex()}"
    private.mkdir(mode=0o700)
    link = private / "s"
    try:
        link.symlink_to(folder.absolute(), target_is_directory=True)
        yield str(state_files.socket_file(link))
    finally:
        link.unlink(missing_ok=True)
        private.rmdir()


# The client of a plan's owner: blocking HTTP/1.0 over its unix socket, for every command but the owner itself.
#
# Written out rather than taken from `http.client`, whose import of the mail parser and TLS costs 20 of the 90 ms that
# `plan get` may take. Under HTTP/1.0 a body is what comes until the end of the connection, which is all that is needed.

VERSION: Final = "v1"
ANSWER_TIMEOUT_S: Final = 60.0  # Longer than this is a hung owner: compiling 5,000 tasks takes one second.
READ_TIMEOUT_S: Final = 2.0  # For a read. The log has the same data, so a reader need not wait for a busy owner.
PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/")


class OwnerGone(Exception):
    """No owner is listening, or it exited during a read."""


class OwnerHung(CommandError):
    """The owner exists but did not answer in time: it is suspended or busy."""


class OwnerUnanswered(CommandError):
    """The owner exited before it answered a change request. The outcome is unknown."""


class OwnerClient:
    """Client of the owner of the plan in `folder`. Each request has its own connection, which costs 0.1 ms."""

    def __init__(self, folder: Path, *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._folder = folder
        self._timeout_s = timeout_s

    def get(self, path: str, **query: str | int) -> Json:
        """Return the answer to GET `path`. Raises CommandError for an error answer, OwnerGone if no owner runs."""
        try:
            return self._exchange("GET", _target(path, query), b"")
        except OSError as error:
            raise OwnerGone(str(error)) from error

    def ask(self, path: str, body: JsonObject) -> Json:
        """Return the answer to a POST that changes nothing, for example a preview.

        Raises CommandError for an error answer, OwnerGone if no owner runs or it exited before it answered.
        """
        try:
            return self._exchange("POST", _target(path, {}), encode(body))
        except OSError as error:
            raise OwnerGone(str(error)) from error

    def post(self, path: str, body: JsonObject) -> Json:
        """The answer to a POST that may change the plan. Raises CommandError as the owner says, OwnerUnanswered,
        OwnerGone.
        """
        try:
            return self._exchange("POST", _target(path, {}), encode(body))
        except OSError as error:
            hint = "plan history shows whether the change was made; if not, run the command again"
            raise OwnerUnanswered(ExitCode.FAILED, "the owner ended before it answered", hint) from error

    def stream(self, path: str, *, until: float | None = None, **query: str | int) -> Iterator[Json]:
        """Yield one value per line of the stream, until the owner ends it.

        Raises TimeoutError at the monotonic time `until`, OwnerGone if no owner runs.
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
            hint = "plan doctor inspects it; plan down --force kills it"
            raise OwnerHung(
                ExitCode.TIMEOUT, f"the owner did not answer within {self._timeout_s:.0f} s", hint
            ) from None
        finally:
            connection.close()
        return decode(content) if content else None

    def _reach(self, timeout_s: float | None) -> socket.socket:
        """Apart from asking: a change that was not sent may be made elsewhere, one that was sent may not."""
        try:
            return connect_socket(self._folder, timeout_s=timeout_s)
        except OSError as error:
            raise OwnerGone(str(error)) from error


def _sent(connection: socket.socket, method: str, target: str, body: bytes) -> BinaryIO:
    """Sends the request; returns the body of the answer, to be read.

    Raises CommandError as the owner says, OwnerGone when it is leaving, OSError.
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
            raise OwnerGone("the owner is stopping and did nothing")
        if words[1] != b"200":
            raise _halt(answer.read())
    except BaseException:
        answer.close()  # It keeps the socket open, even if that is closed.
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


def _halt(answer: bytes) -> CommandError:
    """The ending that the owner's error body states."""
    try:
        error = decode(answer)["error"]
        return CommandError(ExitCode(error["exit"]), error["summary"], error["hint"])
    except (ValueError, KeyError, TypeError):
        return CommandError(
            ExitCode.BUG, f"unexpected answer from the owner: {answer[:200]!r}", "plan version; plan doctor"
        )
