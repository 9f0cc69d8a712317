"""The routes of containers: what one writes, and the conversation with the agent that works with one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from aiohttp import web

from planloop.app.telling import containers
from planloop.server.gateway import chatting, container_logs, sending
from planloop.server.gateway.benches import Held
from planloop.server.gateway.chatting import Doors
from planloop.server.gateway.keys import RIGHT
from planloop.server.http_api import answered


class Rooms:
    """The containers of the plan behind `doors`; `held` makes a websocket of a request."""

    def __init__(self, doors: Doors, held: Held, refuse_other: Callable[[web.Request], None]) -> None:
        self._doors = doors
        self._held = held
        self._refuse_other = refuse_other

    def add_routes(self, router: web.UrlDispatcher, plan: str) -> None:
        """Adds them below `plan`."""
        router.add_get(f"{plan}/containers/{{name}}/logs", self._older)
        router.add_get(f"{plan}/containers/{{name}}/logs/tail", self._logs)
        router.add_get(f"{plan}/containers/{{name}}/chat", self._chat)

    async def _older(self, request: web.Request) -> web.Response:
        self._refuse_other(request)
        name, log, before = _name(request), request.query.get("log", ""), int(request.query.get("before", 0))
        replica = self._doors.replica
        return await answered(lambda: replica.read(partial(container_logs.older, replica, name, log, before)))

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        self._refuse_other(request)
        item = containers.required(self._doors.replica.moment(), _name(request))
        tell = partial(container_logs.follow, self._doors.replica, item)
        return await self._held(request, lambda socket: sending.steps(socket, tell, None))

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self._refuse_other(request)
        room = chatting.room(self._doors, _name(request), request[RIGHT])
        return await self._held(request, partial(chatting.steps, room))


def _name(request: web.Request) -> str:
    return request.match_info["name"]
