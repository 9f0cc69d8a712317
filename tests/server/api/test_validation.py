"""A request that does not fit the table is rejected with every error and the matching status."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from planloop.reconciler.store import state_files
from planloop.server.http_api import BODY_BYTES_MAX
from planloop.server.owner_listener import serve_owner
from tests import rows
from tests.product import Json, JsonObject, Record


class ShownDesk:
    """Answers with what came through."""

    async def get(self, path: str, query: Mapping[str, str]) -> Json:
        return {"path": path, "query": dict(query)}

    async def post(self, path: str, body: JsonObject) -> Json:
        return {"path": path, "body": body}

    async def watch(self, after: int) -> AsyncIterator[Record]:
        raise AssertionError
        yield

    async def hear(self) -> AsyncIterator[JsonObject]:
        raise AssertionError
        yield


@asynccontextmanager
async def door(folder: Path) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.UnixConnector(str(state_files.socket_file(folder)))
    async with (
        serve_owner(ShownDesk, folder),
        aiohttp.ClientSession("http://plan/v1/", connector=connector) as session,
    ):
        yield session


OP = {"op": "add", "path": "/goal", "value": 1}


@pytest.mark.anyio
@rows.each(
    ("method", "path", "body", "status", "words"),
    [
        ("GET", "nothing", None, 404, "the API has no `nothing`"),
        ("GET", "status/more", None, 404, "the API has no `status/more`"),
        ("GET", "objects/", None, 404, "the API has no `objects/`"),
        ("GET", "tail", None, 404, "the API has no `tail`"),  # The gateway's alone.
        ("GET", "patch", None, 405, "`patch` accepts POST, not GET"),
        ("DELETE", "objects/task/a", None, 405, "accepts GET, not DELETE"),
        ("GET", "status?verbose=1", None, 400, "unknown parameter `verbose` of status"),
        ("GET", "log?after=-1", None, 400, "`after` must be an integer from 0 to"),
        ("GET", "log?after=1e3", None, 400, "`after` must be an integer"),
        ("GET", "log?after=٣", None, 400, "`after` must be an integer"),
        ("GET", "log?after=1000000000000000", None, 400, "`after` must be an integer"),
        ("GET", "log?limit=0", None, 400, "`limit` must be an integer from 1"),
        ("GET", "log?after=1&after=2", None, 400, "given twice"),
        (
            "GET",
            "objects?kind=tasks",
            None,
            400,
            "`kind` cannot be `tasks`: only these kinds, separated by commas: agent,",
        ),
        ("GET", "why?at=tasks", None, 400, "`at` cannot be `tasks`: a JSON pointer into the plan document"),
        ("GET", "history/two", None, 404, "the API has no `history/two`"),
        ("GET", "objects/task/" + "x" * 1_025, None, 400, "too long for address"),
        ("GET", "watch?words=yes", None, 400, "`words` must be 0 or 1"),
        ("POST", "patch", b"", 400, "`ops`: field required"),
        ("POST", "patch", b"[]", 400, "not a JSON object"),
        ("POST", "patch", b"{", 400, "not JSON"),
        ("POST", "patch", b'{"ops": [], "base_rev": 1e999}', 400, "not JSON"),
        ("POST", "patch", b'{"ops": [], "reason": "\\ud800"}', 400, "not JSON"),
        ("POST", "patch", b"[" * 100_000, 400, "nested too deeply"),
        ("POST", "patch", {"ops": [OP], "base_rev": "1"}, 400, "`base_rev`: input should be a valid integer"),
        ("POST", "patch", {"ops": [OP], "base_rev": True}, 400, "`base_rev`: input should be a valid integer"),
        ("POST", "patch", {"ops": [OP], "why": "x", "by": "web"}, 400, "`why`: extra inputs are not permitted"),
        ("POST", "patch", {"ops": [OP], "by": "agent"}, 400, "`by` must be one of cli, chat, web"),
        ("POST", "patch", {"ops": [OP], "by": ["web"]}, 400, "`by` must be one of cli, chat, web"),
        ("POST", "send", {"to": [], "text": "x"}, 400, "`to.list"),
        ("POST", "send", b" " * (BODY_BYTES_MAX + 1), 413, "the body is larger than 48 MiB"),
    ],
)
async def test_invalid_request_is_rejected(
    tmp_path: Path, method: str, path: str, body: Json, status: int, words: str
) -> None:
    sent: dict[str, Any] = {"data": io.BytesIO(body)} if isinstance(body, bytes) else {"json": body}
    async with door(tmp_path) as session, session.request(method, path, **sent) as answer:
        told = (await answer.json())["error"]

    assert words in told["summary"]
    assert answer.status == status
    assert told["hint"]


@pytest.mark.anyio
async def test_valid_request_comes_through_unchanged(tmp_path: Path) -> None:
    body = {"ops": [OP], "reason": "", "base_rev": 3}
    async with door(tmp_path) as session:
        async with session.get("objects/lock/src/%C3%BC%20b?at=7") as answer:
            read = await answer.json()
        async with session.post("patch", json=body) as answer:
            said = await answer.json()
        async with session.post("rollback", json={"rev": 3.0}) as answer:
            whole = await answer.json()
        async with session.post("patch", json={**body, "by": "web"}) as answer:
            by_page = await answer.json()

    assert read == {"path": "objects/lock/src/ü b", "query": {"at": "7"}}
    assert said == {"path": "patch", "body": {**body, "by": "cli"}}
    assert whole == {"path": "rollback", "body": {"rev": 3, "by": "cli"}}
    assert type(whole["body"]["rev"]) is int
    assert by_page == {"path": "patch", "body": {**body, "by": "web"}}
