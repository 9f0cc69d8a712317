"""Starts the scripted server as a process of its own, for async tests and for those that run whole commands.

`async with running(script, folder) as server:` follows its log as it happens; `with started(script, folder)` reads it
from the file. Both wait for the line that names the port, and stop the process at the end.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import yaml
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.fakes.model_server.serving import Entry

ROOT = Path(__file__).resolve().parents[3]
LINE_BYTES_MAX = 64 << 20
Script = str | dict[str, Any] | list[Any]


class RunningServer:
    """A server that runs. `log` grows as it is asked; after the end `left` has the steps that nobody took."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.log: list[Entry] = []
        self.left: list[str] = []
        self.exit_code: int | None = None
        self._news = anyio.Event()

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The bodies of all requests so far."""
        return [entry["body"] for entry in self.log if entry["event"] == "asked"]

    @property
    def endings(self) -> list[str]:
        """How the requests ended that have: answered, refused, failed, cut, closed."""
        return [entry["how"] for entry in self.log if entry["event"] == "ended"]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Returns when the log makes `holds` true; the test's timeout is the bound."""
        while not holds():
            await self._news.wait()

    def take(self, entry: Entry) -> None:
        """One line of the program."""
        if "event" in entry:
            self.log.append(entry)
        self.left = entry.get("left", self.left)
        self._news.set()
        self._news = anyio.Event()


@asynccontextmanager
async def running(script: Script, folder: Path) -> AsyncIterator[RunningServer]:
    """A server with `script`, whose files go to `folder`."""
    async with await anyio.open_process(_command(script, folder, "--events"), cwd=ROOT, stderr=None) as process:
        assert process.stdout is not None
        lines = BufferedByteReceiveStream(process.stdout)
        first = json.loads(await lines.receive_until(b"\n", LINE_BYTES_MAX))
        server = RunningServer(first["port"])
        async with anyio.create_task_group() as group:
            group.start_soon(_follow, server, lines)
            try:
                yield server
            finally:
                with anyio.CancelScope(shield=True):
                    server.exit_code = await _stop(process)
        # Leaving the group means that the program's last line has been read.


async def _follow(server: RunningServer, lines: BufferedByteReceiveStream) -> None:
    try:
        while True:
            server.take(json.loads(await lines.receive_until(b"\n", LINE_BYTES_MAX)))
    except (anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError):
        return


async def _stop(process: Process) -> int:
    if process.returncode is None:
        process.terminate()
    return await process.wait()


class StartedServer:
    """A server in the background of a test that is not async."""

    def __init__(self, port: int, log: Path, process: subprocess.Popen[bytes]) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.left: list[str] = []
        self._log = log
        self._process = process

    @property
    def log(self) -> list[Entry]:
        """What happened so far; a line that is still being written is none."""
        lines = self._log.read_text().split("\n")[:-1] if self._log.exists() else []
        return [json.loads(line) for line in lines]

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The bodies of all requests so far."""
        return [entry["body"] for entry in self.log if entry["event"] == "asked"]

    def stop(self) -> int:
        """Ends it; the exit code: 0 when every step was taken and every request was valid."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        assert self._process.stdout is not None
        rest = self._process.stdout.read().splitlines()
        self.left = json.loads(rest[-1])["left"] if rest else self.left
        self._process.stdout.close()
        return self._process.wait()


@contextmanager
def started(script: Script, folder: Path) -> Iterator[StartedServer]:
    """A server with `script`, whose files go to `folder`."""
    process = subprocess.Popen(_command(script, folder), cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    server = StartedServer(first["port"], folder / "models.log", process)
    try:
        yield server
    finally:
        if process.returncode is None:
            server.stop()


def _command(script: Script, folder: Path, *more: str) -> list[str]:
    path = folder / "models.script.yaml"
    path.write_text(script if isinstance(script, str) else yaml.safe_dump(script, allow_unicode=True))
    files = ["--script", str(path), "--log", str(folder / "models.log")]
    return [sys.executable, "-m", "tests.fakes.model_server", *files, *more]
