"""A real web server in the process of a test: pages by path, and a log of what was asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from aiohttp import web

Answer: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Pages:
    """Where the server listens, and the paths that were asked for, in order."""

    port: int
    asked: list[str] = field(default_factory=list)

    def url(self, path: str = "/", host: str = "localhost") -> str:
        return f"http://{host}:{self.port}{path}"


def page(text: str, kind: str = "text/html", status: int = 200) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text, content_type=kind, status=status)

    return answer


def moved(to: str, status: int = 302) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={"Location": to})

    return answer


@asynccontextmanager
async def serving(pages: Mapping[str, Answer]) -> AsyncIterator[Pages]:
    """Serves `pages` on a free port of this machine until the block ends; other paths are 404."""
    here = Pages(0)

    async def answer(request: web.Request) -> web.StreamResponse:
        here.asked.append(request.path_qs)
        found = pages.get(request.path)
        return await found(request) if found is not None else web.Response(status=404, text="nothing here")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        here.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        yield here
    finally:
        await runner.cleanup()
