"""`events.jsonl` as it is written: appended to by one process, and gone on with exactly where it ended.

The run's log is durable before its events are, and they are made of it alone. So whoever opens the file folds the log
from its beginning, holds what the file has already against it (`holding.py`), and appends the rest: a crash loses no
event and doubles none, and a line that somebody has edited is found.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Self

from planloop.benchmarks.events.holding import Holding
from planloop.benchmarks.events.projecting import Projection
from planloop.benchmarks.events.reading import read
from planloop.schemas.encoding import JsonObject, canonical
from planloop.schemas.record import Record

FILE: Final = "events.jsonl"


class EventsTaken(Exception):
    """Another process writes the events of the run."""


class EventFile:
    """The file in `folder`, open for appending. `note` takes the records of the log, from the first one on.

    Raises EventsTaken, BadEvents (see `reading.py`), OSError.
    """

    def __init__(self, folder: Path, projection: Projection) -> None:
        self._path = folder / FILE
        self._file = self._path.open("ab+", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise EventsTaken(str(self._path)) from None
        self._holding = Holding(self._look(), projection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()

    def note(self, records: Iterable[Record]) -> list[JsonObject]:
        """Appends the events of `records` that are not there yet, and gives these back.

        Raises BadEvents when a line that is there is not what the log says; OSError, as for a full disk: what was
        written is gone on with by whoever opens the file next.
        """
        fresh = list(self._holding.note(records))
        if fresh:
            # As one: a reader sees whole lines but for the last, whatever happens.
            self._write(b"".join(canonical(event) + b"\n" for event in fresh))
        return fresh

    def close(self) -> None:
        """Makes durable what was written."""
        if not self._file.closed:
            os.fsync(self._file.fileno())
            self._file.close()

    def _write(self, content: bytes) -> None:
        while content:  # A disk that fills up takes a part, and says so only when it is asked again.
            content = content[self._file.write(content) :]

    def _look(self) -> Iterator[bytes]:
        """The lines that are there. What is torn after the last is moved to a file of its own."""
        self._file.seek(0)
        content = self._file.read()
        reading = read(content)
        if reading.torn is not None:
            self._set_aside(reading.torn.content)
            os.ftruncate(self._file.fileno(), reading.torn.offset)
            content = content[: reading.torn.offset]
        return iter(content.splitlines())

    def _set_aside(self, torn: bytes) -> None:
        number = 1
        while (path := self._path.with_name(f"{FILE}.torn-{number}")).exists():
            number += 1
        path.write_bytes(torn)
