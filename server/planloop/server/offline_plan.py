"""Changes of a plan that no process owns: this one owns it for as long as the change takes."""

from __future__ import annotations

from planloop.client.plan_paths import PlanPaths
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.server.opened_plan import open_plan


def post_without_owner(place: PlanPaths, path: str, body: JsonObject) -> Json:
    """What an owner would answer to POST `path`, by owning the plan for a moment. Raises NotOwner, CommandError."""
    import anyio

    from planloop.server.owner_service import OwnerService

    async def post() -> Json:
        async with open_plan(place) as core:
            return await OwnerService(core).post(path, body)

    return anyio.run(post)
