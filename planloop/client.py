"""The client of a plan's owner: plain blocking HTTP over its unix socket, for every command but the owner itself.

No asyncio here: importing it would cost as much as the whole command. The API is `planloop/server`.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

from planloop import sockets
from planloop.exits import Exit, Halt
from schemas.encoding import Json, JsonObject, decode, encode

VERSION = "v1"
ANSWER_TIMEOUT_S = 60.0  # Longer than this is a hung owner: compiling 5,000 tasks takes one second.


class OwnerGone(Exception):
    """Nobody listens, or the owner ended while it answered a read."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, folder: Path, timeout_s: float | None) -> None:
        super().__init__("plan", timeout=timeout_s)
        self._folder = folder
        self._timeout_s = timeout_s

    def connect(self) -> None:
        self.sock: socket.socket = sockets.connect(self._folder, timeout_s=self._timeout_s)


class OwnerClient:
    """Speaks to the owner of the plan in `folder`. Connects anew for each request: a socket costs 0.1 ms."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, path: str, **query: str | int) -> Json:
        """The answer to GET `path`. Raises Halt as the owner says, OwnerGone when there is none."""
        return self._ask("GET", path, query, None)

    def post(self, path: str, body: JsonObject) -> Json:
        """The answer to POST `path`. Raises Halt as the owner says, OwnerGone when there is none."""
        return self._ask("POST", path, {}, body)

    def stream(self, path: str, *, until: float | None = None, **query: str | int) -> Iterator[Json]:
        """One value a line, as they come, until the owner ends the stream.

        Raises TimeoutError at the monotonic time `until`, OwnerGone when there is no owner to begin with.
        """
        connection = _UnixConnection(self._folder, None)
        _reach(connection)
        try:
            connection.request("GET", _target(path, query))
            response = connection.getresponse()
            if response.status != 200:
                raise _halt(response.read())
            while line := self._line(connection, response, until):
                if line.strip():  # Empty lines keep the connection known to be alive.
                    yield decode(line)
        except TimeoutError:
            raise
        except (OSError, http.client.HTTPException):
            return
        finally:
            connection.close()

    @staticmethod
    def _line(connection: _UnixConnection, response: http.client.HTTPResponse, until: float | None) -> bytes:
        if until is not None:
            connection.sock.settimeout(max(0.001, until - time.monotonic()))
        return response.readline()

    def _ask(self, method: str, path: str, query: dict[str, str | int], body: JsonObject | None) -> Json:
        connection = _UnixConnection(self._folder, ANSWER_TIMEOUT_S)
        content = None if body is None else encode(body)
        headers = {} if content is None else {"Content-Type": "application/json"}
        _reach(connection)
        try:
            connection.request(method, _target(path, query), content, headers)
            response = connection.getresponse()
            answer = response.read()
        except TimeoutError:
            hint = "plan doctor looks at it; plan down --force ends it"
            raise Halt(Exit.TIMEOUT, f"the owner did not answer within {ANSWER_TIMEOUT_S:.0f} s", hint) from None
        except (OSError, http.client.HTTPException) as error:
            if method == "GET":
                raise OwnerGone(str(error)) from error
            hint = "plan history shows whether it was taken; then give the command again"
            raise Halt(Exit.FAILED, "the owner ended before it answered", hint) from error
        finally:
            connection.close()
        if response.status != 200:
            raise _halt(answer)
        return decode(answer) if answer else None


def _reach(connection: http.client.HTTPConnection) -> None:
    """Apart from asking, because a change that was not sent may be made elsewhere, and one that was sent may not."""
    try:
        connection.connect()
    except OSError as error:
        raise OwnerGone(str(error)) from error


def _target(path: str, query: dict[str, str | int]) -> str:
    target = f"/{VERSION}/{quote(path)}"
    return f"{target}?{urlencode(query)}" if query else target


def _halt(answer: bytes) -> Halt:
    """The ending that the owner's error body states."""
    try:
        error = decode(answer)["error"]
        return Halt(Exit(error["exit"]), error["summary"], error["hint"])
    except (ValueError, KeyError, TypeError):
        return Halt(Exit.BUG, f"the owner answered with something else: {answer[:200]!r}", "plan version; plan doctor")
