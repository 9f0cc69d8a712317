"""Engines that do not exist, hang or deny access: each is reported as such, and blocks no other caller."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import anyio
import docker
import pytest

from planloop.containers.engine.docker_client import DockerClient, DockerStream, _Opening
from planloop.containers.engine.docker_engine import DockerEngine
from planloop.schemas import limits
from tests import golden_text
from tests.architecture.tree import ROOT
from tests.product import EngineErrorReason, EngineFailed
from tests.rights import without_rights

pytestmark = pytest.mark.anyio

HANGS = """
import anyio, sys
from planloop.containers.engine.docker_engine import DockerEngine
assert "docker" not in sys.modules
async def main():
    with anyio.move_on_after(0.5):
        await DockerEngine({"DOCKER_HOST": sys.argv[1]}).facts()
    print("given up")
anyio.run(main)
"""


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[str]:
    """The address of an engine that takes calls and never answers."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "sock"))
        listener.listen()
        yield f"unix://{tmp_path}/sock"


class _Half(BaseHTTPRequestHandler):
    """An engine that dies while it tells an event."""

    def do_GET(self) -> None:
        event = b'{"Action": "start", "Actor": {"Attributes": {"a": "b"}}}\n{"Action": "di'
        body = b'{"ApiVersion": "1.41"}' if "version" in self.path else event
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name is given
        pass


class _Stuck(BaseHTTPRequestHandler):
    """An engine that lists two containers and answers about one of them."""

    never = threading.Event()

    def do_GET(self) -> None:
        listed = [{"Id": name, "Names": [f"/{name}"], "State": "running", "Labels": {"a": "b"}} for name in "xy"]
        whole = {"Id": "y", "Name": "/y", "Image": "i", "State": {"Status": "exited"}, "Config": {}}
        if "/containers/x/" in self.path:
            self.never.wait()
            return
        said = {"ApiVersion": "1.41"} if "version" in self.path else listed if "all=1" in self.path else whole
        body = json.dumps(said).encode()
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name is given
        pass


@pytest.fixture
def stuck() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Stuck) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.server_port}"
        _Stuck.never.set()
        server.shutdown()


async def test_container_stuck_in_the_engine_is_listed_as_it_is(stuck: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ENGINE_LOOK_S", 2.0)  # The other one has answered by then.

    found = await DockerEngine({"DOCKER_HOST": stuck}).containers({"a": "b"})

    assert [(one.name, one.state, one.is_whole) for one in found] == [("x", "running", False), ("y", "exited", True)]
    assert found[0].labels == {"a": "b"}


@pytest.fixture
def dying() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Half) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.server_port}"
        server.shutdown()


async def test_engine_that_dies_during_a_reply_is_down(dying: str) -> None:
    told = []

    with pytest.raises(EngineFailed) as caught:
        async for event in DockerEngine({"DOCKER_HOST": dying}).events({"a": "b"}):
            told.append(event.action)

    assert caught.value.reason is EngineErrorReason.ENGINE_DOWN
    assert told == ["listening", "start"]


async def test_stream_closed_during_a_read_is_at_its_end() -> None:
    opening, body = _Opening("unix:///s"), io.BufferedReader(io.BytesIO(b"2\r\nab\r\n"))
    opening.fill(SimpleNamespace(raw=SimpleNamespace(_fp=SimpleNamespace(fp=body, chunked=True)), close=body.close))

    async def here(read: Callable[[], bytes]) -> bytes:
        return read()

    told = []
    async for piece in DockerStream(opening, here).pieces():
        told.append(piece)
        opening.close()

    assert told == [b"ab"]


async def reason(env: dict[str, str]) -> EngineFailed:
    with pytest.raises(EngineFailed) as caught:
        await DockerEngine(env).facts()
    assert env["DOCKER_HOST"] in str(caught.value)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"DOCKER_HOST": "unix:///tmp/no-such-folder/sock"}, EngineErrorReason.ENGINE_DOWN),
        ({"DOCKER_HOST": "tcp://127.0.0.1:1"}, EngineErrorReason.ENGINE_DOWN),
        ({"DOCKER_HOST": "nonsense"}, EngineErrorReason.REFUSED),
        ({"DOCKER_HOST": "tcp://127.0.0.1:1", "DOCKER_CERT_PATH": "/no-such-folder"}, EngineErrorReason.REFUSED),
    ],
)
async def test_reasons_why_no_engine_answers_are_distinguished(
    env: dict[str, str], expected: EngineErrorReason
) -> None:
    assert (await reason(env)).reason is expected


async def test_user_without_permission_for_the_engine_gets_a_fix(hanging: str) -> None:
    assert docker.__version__  # Imported while that is still allowed.
    Path(hanging.removeprefix("unix://")).chmod(0)
    with without_rights():
        failed = await reason({"DOCKER_HOST": hanging})

    assert failed.reason is EngineErrorReason.NO_ACCESS
    golden_text.said(failed.hint)


async def test_law_11_hanging_engine_is_abandoned(hanging: str) -> None:
    client = DockerClient({"DOCKER_HOST": hanging})

    with pytest.raises(EngineFailed) as caught:
        await client.call(lambda api: api.info(), timeout_s=0.1)

    assert caught.value.reason is EngineErrorReason.TIMED_OUT


async def test_hanging_engine_does_not_delay_the_end_of_the_process(hanging: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}  # noqa: TID251 - the same Python, with what it needs

    result = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            [sys.executable, "-c", HANGS, hanging], check=False, env=env, capture_output=True, text=True, timeout=50
        )
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, "given up\n", "")
