"""How the health of a container is asked for over HTTP, from a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from planloop.controllers.container.run_jobs import probe_from_host, probe_http
from planloop.controllers.container.status import SeenContainer, SeenTag
from planloop.schemas.frozen import remade
from planloop.schemas.objects.container import Health
from tests import golden_text

pytestmark = pytest.mark.anyio


STATUS = {"/well": 200, "/ill": 503, "/moved": 302}


async def _said(request: web.Request) -> web.Response:
    return web.Response(status=STATUS[request.path], headers={"Location": "/ill"})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/{tail:.*}", _said)
    async with TestServer(app, host="127.0.0.1") as server:
        assert server.port is not None
        yield server.port


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        (":{port}/well", None),
        ("http://localhost:{port}/well?a=b", None),
        ("http://[::1]:{port}/well", None),
        (":{port}/ill", "status 503"),
        (":{port}/moved", None),
        ("http://localhost.invalid:{port}/well", "localhost.invalid"),
        ("http://127.0.0.1:99999/well", "99999"),
    ],
)
async def test_container_is_probed_at_its_own_address_without_redirects(port: int, url: str, fault: str | None) -> None:
    said = await probe_http(url.format(port=port), "127.0.0.1")
    assert said is None if fault is None else fault in (said or "")


@pytest.mark.parametrize("how", ["tcp", "http"])
async def test_container_without_an_address_is_not_probed_on_this_host(port: int, how: str) -> None:
    health = Health(tcp=port) if how == "tcp" else Health(http=f":{port}/well")
    seen = SeenContainer("id", "running", SeenTag("uid", 1, "of"), addresses=(("net", "127.0.0.1"),))

    assert await probe_from_host(health, seen) is None
    for nowhere in (remade(seen, addresses=()), remade(seen, addresses=(("net", ""),))):
        golden_text.said(str(await probe_from_host(health, nowhere)))
