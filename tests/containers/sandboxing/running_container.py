"""The container that tests run commands in, named by its id; what is mounted is where it is here."""

from __future__ import annotations

import os
import sys

from planloop.containers.engine.docker_engine import DockerEngine
from planloop.containers.engine.engine import engine_address
from planloop.containers.sandbox.container_sandbox import (
    EngineSandboxContainers,
    NoSandboxContainers,
    SandboxContainer,
    SandboxContainers,
)


def rooms_of(container: str) -> SandboxContainers:
    if not container:
        return NoSandboxContainers()
    env = os.environ  # noqa: TID251 - as in wiring
    return EngineSandboxContainers(
        lambda: DockerEngine(env), engine_address(env), sys.executable, lambda name: SandboxContainer(name, {"/": "/"})
    )
