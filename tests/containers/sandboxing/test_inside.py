"""The program that stands for a command in a container, when its engine is slow or says nothing."""

from __future__ import annotations

import select
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from planloop.containers.engine import attach
from planloop.containers.engine.attach import AttachEnd
from planloop.containers.sandbox import exec_in_container
from tests import golden_text
from tests.product import ExecCommand


class Slow(exec_in_container.ExecContainer):
    """An engine on which a command runs for a while."""

    def __init__(self, asks: int) -> None:
        super().__init__("", "sut")
        self._left = asks

    def ask(self, method: str, where: str, body: object = None) -> Any:
        self._left -= 1
        return {"Running": self._left > 0, "ExitCode": None if self._left > 0 else 7, "Pid": 1, "State": {}, "Id": "x"}


class Watched(attach._Attached):
    """The same, for a person's command."""

    def __init__(self, asks: int) -> None:
        super().__init__({}, "sut", ExecCommand(("true",), "m"), None)  # type: ignore[arg-type]  # nobody writes
        self._left = asks

    def _ask(self, ask: Any) -> Any:
        self._left -= 1
        return {"Running": self._left > 0, "ExitCode": 7}


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr("time.sleep", found.append)
    return found


def test_long_command_is_polled_less_and_less_often(pauses: list[float]) -> None:
    assert Slow(asks=12).state("c")["ExitCode"] == 7
    assert Watched(asks=12)._ended("c") == AttachEnd(7)

    for each in (pauses[:11], pauses[11:]):
        assert each == sorted(each) and each[-1] == 0.5 and len(each) == 11


def test_a_signal_that_came_before_a_wait_ends_it() -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with attach._woken() as woken:
            signal.raise_signal(signal.SIGUSR1)
            assert select.select([woken], [], [], 0)[0] == [woken]
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.fixture
def mute(tmp_path: Path) -> Any:
    """An engine that begins a command of which nothing is heard."""
    place = tmp_path / "s"
    open_lines = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()

        def serve() -> None:
            for answer in (
                b"HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n" + b'{"Id":"c"}',
                b"HTTP/1.1 101 UP\r\n\r\n",
            ):
                line, _ = listening.accept()
                line.recv(1 << 16)
                line.sendall(answer)
                open_lines.append(line)

        thread = threading.Thread(target=serve)
        thread.start()
        yield str(place)
        thread.join()
    for line in open_lines:
        line.close()


def test_own_script_that_does_not_end_is_abandoned(mute: str, monkeypatch: pytest.MonkeyPatch) -> None:
    room = exec_in_container.ExecContainer(mute, "sut")
    begin = room.begin

    def begun(command: str) -> Any:
        stream = begin(command)
        monkeypatch.setattr(exec_in_container, "CALL_S", 0.0)  # From here on all its time is over.
        return stream

    monkeypatch.setattr(room, "begin", begun)
    with pytest.raises(TimeoutError) as caught:
        room.script(("true",))
    golden_text.said(str(caught.value))


class Heard:
    """A console that shows nothing."""

    input = resized = None

    def write(self, piece: bytes, *, is_error: bool) -> None:
        raise AssertionError(piece)

    def size(self) -> tuple[int, int]:
        return 24, 80


@pytest.mark.parametrize("said", ["OCI runtime exec failed: exec failed: no such file", "OCI permission denied: no"])
def test_error_of_an_engine_is_not_taken_for_output_of_the_command(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = attach._Attached({}, "sut", ExecCommand(("no",), "m"), Heard())
    monkeypatch.setattr(command, "_ask", lambda ask: {"Running": False, "ExitCode": 126})
    command._take(b"\2\0\0\0" + len(said).to_bytes(4, "big") + said.encode())

    assert command._ended("c") == AttachEnd(None, said)
