"""Where one model is asked, and as whom: what routing finds out and every adapter needs."""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from planloop.controllers.agent.models.chat_body import Dialect
from planloop.schemas import limits
from planloop.schemas.frozen import frozen


@frozen
class Endpoint:
    """`url` ends before `/chat/completions`; `model` is the provider's own name for it.

    `key` and `headers` are secrets and never shown. `cure` says what to do when the provider refuses the key, `start`
    what to do when no server answers at the URL. `dialect` is what the server is known to take before it is asked.
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    cure: str = "state a `key` for it under `models`"
    start: str = ""
    dialect: Dialect = Dialect()

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may hold."""
        return tuple(one for one in (self.key, *(value for _, value in self.headers)) if one)


@lru_cache(maxsize=limits.SPECS_KEPT_MAX)
def is_loopback(url: str) -> bool:
    """Whether `url` is on this machine. Only literal addresses count: a name may be looked up to anything."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
