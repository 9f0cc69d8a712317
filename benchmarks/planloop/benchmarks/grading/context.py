"""Dependencies of grading: engine, processes, clock and blob folder, passed in by the composition root."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

from planloop.benchmarks.checks.evidence import Evidence
from planloop.benchmarks.runs.run_compiler import CompiledRun
from planloop.containers.engine.engine import ContainerEngine
from planloop.controllers.task.checks.run import CheckFunction
from planloop.reconciler.clock import Clock, Ids
from planloop.reconciler.effects.processes import Processes
from planloop.schemas.canonical_json import sha256_hex
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.case import CaseSpec
from planloop.schemas.resource import Resource

BLOBS_FOLDER: Final = "blobs"


class BlobFolder:
    """The folder with the blobs of the run.

    Nothing removes blobs, so a blob that was found once is not looked up again.
    """

    def __init__(self, run: Path) -> None:
        self._folder = run / BLOBS_FOLDER
        self._known: set[str] = set()

    def kept(self, contents: Mapping[str, bytes]) -> dict[str, str] | None:
        """Return the digests by name if all contents are known to be stored; None if one may have to be written."""
        found = {name: sha256_hex(content) for name, content in sorted(contents.items())}
        return found if self._known.issuperset(found.values()) else None

    def keep(self, contents: Mapping[str, bytes]) -> dict[str, str]:
        """Write each content once and durably, and return the digests by name. Raises OSError.

        Blocks: call in a thread.
        """
        self._folder.mkdir(exist_ok=True)
        found = {name: _keep(self._folder, content) for name, content in sorted(contents.items())}
        self._known.update(found.values())
        return found


def _keep(folder: Path, content: bytes) -> str:
    name = sha256_hex(content)
    path = folder / name
    if not path.exists():
        # Several attempts may write the same content at the same time.
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".", delete=False) as half:
            half.write(content)
            half.flush()
            os.fsync(half.fileno())
        Path(half.name).rename(path)
    return name


@frozen
class GradingContext:
    """Dependencies of grading. `folder` is the absolute path of the run. `engine` is called when it is needed.

    `witness` returns the evidence of an attempt, `containers` the plan's containers that a case used.
    """

    folder: Path
    blobs: BlobFolder
    compiled: CompiledRun
    run_check: CheckFunction
    processes: Processes
    ids: Ids
    clock: Clock
    witness: Callable[[CaseSpec], Awaitable[Evidence]]
    engine: Callable[[], ContainerEngine]
    containers: Callable[[Resource], Sequence[Resource]]
    label: str
    env: Mapping[str, str] = field(default_factory=dict)
