"""Where the container engine is: what DOCKER_HOST says, else the first of the usual sockets that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

HOST: Final = "DOCKER_HOST"
DEFAULT: Final = "/var/run/docker.sock"


def engine_address(env: Mapping[str, str], is_there: Callable[[str], bool] = lambda path: Path(path).exists()) -> str:
    """The engine's URL: `unix:///…`, `tcp://…` or `ssh://…`. The default socket where there is none."""
    if env.get(HOST):
        return env[HOST]
    return f"unix://{next((path for path in _sockets(env) if is_there(path)), DEFAULT)}"


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
