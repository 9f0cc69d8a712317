"""Commands inside a running container, through the engine's exec; what is past a bound is killed with all it started.

The engine has no call that ends an exec. So each carries a mark in its environment, which its children inherit, and is
ended by another exec that looks for the mark in /proc.
"""

from __future__ import annotations

from typing import Any, Final

import anyio

from containers.docker_client import Client
from containers.engine import Ended, Ending, Inside
from containers.framing import Frames

MARK: Final = "PLANLOOP_MARK"


async def run(client: Client, ref: str, inside: Inside) -> Ended:
    """See `Engine.run`."""
    made = await client.call(
        lambda api: api.exec_create(
            ref,
            list(inside.argv),
            stdin=bool(inside.stdin),
            environment={**inside.env, MARK: inside.mark},
            workdir=inside.workdir or None,
            user=inside.user,
        )
    )

    def start(api: Any) -> Any:
        return api._post_json(
            api._url("/exec/{0}/start", made["Id"]),
            headers={"Connection": "Upgrade", "Upgrade": "tcp"},
            data={"Tty": False, "Detach": False},
            stream=True,
            timeout=(30, None),
        )

    output, frames = bytearray(), Frames()
    async with client.stream(start) as stream, anyio.create_task_group() as group:
        if inside.stdin:
            group.start_soon(stream.write, inside.stdin)
        while piece := await stream.read():
            output += frames.feed(piece)
    state = await client.call(lambda api: api.exec_inspect(made["Id"]))
    return Ended(Ending.EXITED, state["ExitCode"], bytes(output))
