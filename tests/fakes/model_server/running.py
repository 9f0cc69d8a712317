"""Runs the scripted server: in the loop of an async test, or as a process beside a test that runs whole commands.

`async with running(script) as server:` serves in this loop. `with started(script, folder)` starts
`python -m tests.fakes.model_server`, waits for the line that names its port, and stops it at the end.
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

from tests.fakes.model_server import script as scripts
from tests.fakes.model_server.serving import Entry, ScriptedServer, listening

ROOT = Path(__file__).resolve().parents[3]
Script = str | dict[str, Any] | list[Any]


class RunningServer:
    """A server in this loop. `log` grows as it is asked."""

    def __init__(self, script: Script) -> None:
        self.url = ""
        self.log: list[Entry] = []
        self.server = ScriptedServer(scripts.play(script), self._take)
        self._news = anyio.Event()

    @property
    def left(self) -> list[str]:
        """The steps that no request took."""
        return self.server.player.unused

    @property
    def faults(self) -> int:
        """The number of requests that a vendor would refuse, or that no step answered."""
        return self.server.faults

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

    def _take(self, entry: Entry) -> None:
        self.log.append(entry)
        self._news.set()
        self._news = anyio.Event()


@asynccontextmanager
async def running(script: Script) -> AsyncIterator[RunningServer]:
    """A server with `script` in this loop, which is asyncio's. Open requests are closed at the end."""
    made = RunningServer(script)
    async with listening(made.server) as port:
        made.url = f"http://127.0.0.1:{port}/v1"
        yield made


class StartedServer:
    """A server in the background of a test that is not async."""

    def __init__(self, port: int, log: Path, process: subprocess.Popen[bytes]) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.left: list[str] = []
        self._log = log
        self._process = process

    @property
    def log(self) -> list[Entry]:
        """The complete lines so far."""
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
