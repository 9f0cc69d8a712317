"""The plan at one revision, apart from the fold that goes on: what reads beside the event loop are answered from."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from planloop.app import outputs
from planloop.reconciler.storing.view import MemoryView
from planloop.schemas.resource import Resource
from planloop.server.gateway.log_file import LogFile


class Moment:
    """An `answering.Archive` whose objects stand still. Safe for threads; `log` tells the log from others."""

    def __init__(
        self, folder: Path, rev: int, epoch: int, log: str, objects: Mapping[str, Resource], file: LogFile
    ) -> None:
        self.rev = rev
        self.epoch = epoch
        self.log = log
        self._folder = folder
        self._objects = objects
        self._file = file
        self._making = threading.Lock()
        self._view: MemoryView | None = None

    @property
    def view(self) -> MemoryView:
        """The objects with their indexes, made for the first who needs them."""
        with self._making:
            if self._view is None:
                self._view = MemoryView(self._objects.values(), self.rev)
                # Sorted here, once: afterwards nothing in it changes any more, whoever reads.
                for kind in {one.kind for one in self._objects.values()}:
                    self._view.list(kind)
            return self._view

    def get(self, address: str) -> Resource | None:
        return self._objects.get(address)

    def list(self, kind: str) -> Sequence[Resource]:
        return self.view.list(kind)

    def get_blob(self, digest: str) -> bytes | None:
        return self._file.blob(digest)

    def open_output(self, op: str) -> BinaryIO | None:
        return outputs.opened(self._folder, op)
