"""The `resource` tool: what tool servers have to read, listed from their status and read through them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from planloop.controllers.agent.tools.faults import ToolDenied, ToolFailed
from planloop.controllers.agent.tools.tool import Context, Settlement, ok
from planloop.reconciler.effects.clamping import clamped
from planloop.schemas import limits
from planloop.schemas.mcp import ServerFailed
from planloop.schemas.resource import Resource


async def resource(
    context: Context,
    server: Annotated[str, Field(min_length=1, description="The name of a tool server.")],
    uri: Annotated[str, Field(description="Which resource; left out, those that the server lists.")] = "",
) -> Settlement:
    """Reads a resource of a tool server, or lists what there is to read."""
    found = next((each for each in context.seen.servers if each.address == f"mcp/{server}"), None)
    if found is None:
        names = ", ".join(each.address.partition("/")[2] for each in context.seen.servers) or "none"
        raise ToolDenied(f"you may not read from `{server}`; your servers are {names}")
    if not uri:
        return Settlement(ok(_listed(found) or f"`{server}` lists no resources"))
    try:
        text = await context.world.servers.resource(server, uri, by=context.agent)
    except ServerFailed as fault:
        raise ToolFailed(fault.reason, f"{server}: {fault}") from fault
    whole = text.encode()
    shown = clamped(whole, limits.FILE_SHOWN_BYTES)
    if len(whole) > limits.FILE_SHOWN_BYTES:
        shown += f"\n[the whole of it is blob {context.world.store.put_blob(whole)}]"
    return Settlement(ok(shown))


def _listed(server: Resource) -> str:
    return "\n".join(f"{each['uri']}  {each['name']}  {each['type']}" for each in server.status.get("resources", ()))
