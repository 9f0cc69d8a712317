"""Find the container engine: DOCKER_HOST, or the first usual socket that this user may open.

A person's own engine, rootless, may stand beside the machine's, which is closed to them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

HOST: Final = "DOCKER_HOST"
DEFAULT: Final = "/var/run/docker.sock"


def engine_address(
    env: Mapping[str, str],
    is_there: Callable[[str], bool] = lambda path: Path(path).exists(),
    is_open: Callable[[str], bool] = lambda path: os.access(path, os.R_OK | os.W_OK),
) -> str:
    """The engine's URL: `unix:///…`, `tcp://…` or `ssh://…`. The default socket where there is none.

    Where none of those that are there may be used, the first one: whoever asks it is told that.
    """
    if env.get(HOST):
        return env[HOST]
    there = [path for path in _sockets(env) if is_there(path)]
    return f"unix://{next(filter(is_open, there), next(iter(there), DEFAULT))}"


def _sockets(env: Mapping[str, str]) -> Iterable[str]:
    """The system's Docker, a person's own one (rootless, then Docker Desktop's), and Podman in the same order."""
    yield DEFAULT
    if "XDG_RUNTIME_DIR" in env:
        yield f"{env['XDG_RUNTIME_DIR']}/docker.sock"
    if "HOME" in env:
        yield f"{env['HOME']}/.docker/run/docker.sock"
    if "XDG_RUNTIME_DIR" in env:
        yield f"{env['XDG_RUNTIME_DIR']}/podman/podman.sock"
    yield "/run/podman/podman.sock"
