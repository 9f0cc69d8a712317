"""An image for tests, made of busybox and nothing else, and what a test creates on a container engine."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from planloop.containers.images.archive import (
    ImageSettings,
    ImageTree,
    data_entry,
    folder_entry,
    symlink_entry,
    text_entry,
    write_archive,
)
from tests import needs
from tests.product import ContainerEngine, ImageFacts

LABEL = "planloop.test"
IMAGE = "planloop-test/busybox"
BARE_IMAGE = "planloop-test/bare"
WORDS = """cat chmod cp echo env false find grep head id kill ln ls mkdir mkfifo mount mv nc ping ps readlink rm seq
setsid sh sha256sum sleep stat tail tee test touch true wc wget yes"""


def tree(*, is_bare: bool = False) -> ImageTree:
    """Busybox with the words that tests use; bare, it is there under a name that no shell has."""
    out = ImageTree()
    program = needs.busybox().read_bytes()
    out.add(folder_entry("tmp", mode=0o1777))
    out.add(text_entry("etc/passwd", "root:x:0:0:root:/:/bin/sh\nappuser:x:1000:1000::/:/bin/sh\n"))
    out.add(text_entry("etc/group", "root:x:0:\nappuser:x:1000:\n"))
    if is_bare:
        out.add(data_entry("sleep", program, mode=0o755))
    else:
        out.add(data_entry("bin/busybox", program, mode=0o755))
        for word in WORDS.split():
            out.add(symlink_entry(f"bin/{word}", "busybox"))
    return out


async def image(engine: ContainerEngine, folder: Path, *, is_bare: bool = False) -> ImageFacts:
    """The image on `engine`, loaded if it is not there yet."""
    name = BARE_IMAGE if is_bare else IMAGE
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    settings = ImageSettings(architecture, cmd=("sh",), env={"PATH": "/bin"})
    archive = folder / "image.tar"
    written = write_archive(archive, tree(is_bare=is_bare), settings, lambda _: [f"{name}:latest"])
    return await engine.image(written.id) or await engine.load(archive)


@dataclass
class Ground:
    """Objects that a test creates on an engine: with unique names, and with labels by which they are removed."""

    engine: ContainerEngine
    image: str
    label: str
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def labels(self) -> Mapping[str, str]:
        return {LABEL: self.label}

    def name(self) -> str:
        return f"planloop-test-{self.label}-{next(self.numbers)}"


@asynccontextmanager
async def ground(engine: ContainerEngine, image: str, label: str) -> AsyncIterator[Ground]:
    """A ground that leaves nothing on the engine but its image."""
    own = Ground(engine, image, label)
    try:
        yield own
    finally:
        for found in await engine.containers(own.labels):
            await engine.remove(found.id)
        for name in await engine.networks(own.labels):
            await engine.remove_network(name)
        for name in await engine.volumes(own.labels):
            await engine.remove_volume(name)
