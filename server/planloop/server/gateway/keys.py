"""What the guards of a request find out, for whoever answers it: `request[RIGHT]`, `request[OPERATION]`."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from planloop.server.api.operations import Operation

RIGHT: Final = web.RequestKey("right", str)
OPERATION: Final = web.RequestKey("operation", Operation)
