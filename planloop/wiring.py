"""The only place that builds real objects, and the only one besides the clock that reads time and environment.

Imports stay inside the functions: `plan get` asks for the time here and must not pay for the engine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from planloop.places import Place
from schemas.encoding import Json, JsonObject


def now() -> float:
    """Seconds since 1970."""
    return time.time()


def environment() -> Mapping[str, str]:
    """The environment of this process."""
    return os.environ


def post_without_owner(place: Place, path: str, body: JsonObject) -> Json:
    raise NotImplementedError
