"""`port`: holds when something listens on the TCP port."""

from __future__ import annotations

import anyio

from planloop.controllers.task.checking.contract import Bench, Finding
from planloop.schemas.task import CheckSpec


async def check(spec: CheckSpec, bench: Bench) -> Finding:
    """Connects and hangs up."""
    del bench
    host, port = spec.arguments.get("host") or "127.0.0.1", spec.arguments["port"]
    try:
        stream = await anyio.connect_tcp(host, port)
    except OSError as error:
        return Finding("fail", f"nothing listens on {host}:{port} ({error.__cause__ or error})")
    await stream.aclose()
    return Finding("pass", f"{host}:{port} is open")
