"""Prompts of tool servers for a person: asked of the running server on behalf of the agent that is to be told."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from planloop.app.exits import Exit, Halt
from planloop.controllers.agent.ports import Servers
from planloop.schemas import limits
from planloop.schemas.encoding import JsonObject
from planloop.schemas.mcp import ServerFailed


async def text_of(servers: Callable[[], Servers], body: JsonObject) -> JsonObject:
    """The `text` of the prompt `name` of `server` with `arguments`. Raises Halt, also when it takes too long."""
    server, arguments = str(body["server"]), {str(key): str(value) for key, value in body.get("arguments", {}).items()}
    look = f"plan describe mcp/{server}; it runs while an agent that may use it is at work"
    try:
        with anyio.fail_after(limits.PROMPT_WAIT_S):
            text = await servers().prompt(server, str(body["name"]), arguments, by=str(body["agent"]))
    except TimeoutError:
        raise Halt(Exit.TIMEOUT, f"mcp/{server} did not answer in {limits.PROMPT_WAIT_S:.0f} s", look) from None
    except ServerFailed as fault:
        code = Exit.NOT_FOUND if fault.reason == "NoServer" else Exit.FAILED
        raise Halt(code, f"mcp/{server} gives no prompt ({fault.reason}): {fault}", look) from None
    return {"text": text}
