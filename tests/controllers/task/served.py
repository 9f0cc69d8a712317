"""Programs under test in this process: an aiohttp server on a free port for as long as a test needs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(*routes: tuple[str, str, Handler]) -> AsyncIterator[str]:
    """The URL of a server with these routes: method (`*` for any), path, handler."""
    app = web.Application(client_max_size=16 << 20)
    for method, path, handler in routes:
        app.router.add_route(method, path, handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def answering(content: bytes, *, hangs: bool = False) -> AsyncIterator[str]:
    """The URL of a server that answers these bytes to everybody, HTTP or not, and hangs up or does not."""
    import anyio

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(content)
            if hangs:
                await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        group.cancel_scope.cancel()
    await listener.aclose()
