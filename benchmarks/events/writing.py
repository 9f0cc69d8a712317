"""`events.jsonl` as it is written: appended to by one process, and gone on with exactly where it ended.

The run's log is durable before its events are, and they are made of it alone. So whoever opens the file folds the log
from its beginning and leaves out what the file has already: a crash loses no event and doubles none.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

from benchmarks.events.projecting import Projection
from benchmarks.events.reading import read
from schemas.encoding import JsonObject, canonical, decode
from schemas.record import Record

FILE: Final = "events.jsonl"


class EventsTaken(Exception):
    """Another process writes the events of the run."""


class EventFile:
    """The file in `folder`, open for appending. `note` takes the records of the log, from the first one on.

    Raises EventsTaken, BadEvents (see `reading.py`), OSError.
    """

    def __init__(self, folder: Path, projection: Projection) -> None:
        self._projection = projection
        self._path = folder / FILE
        self._file = self._path.open("ab+", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise EventsTaken(str(self._path)) from None
        self._seq, self._after = self._look()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()

    def note(self, records: Iterable[Record]) -> list[JsonObject]:
        """Appends the events of `records` that are not there yet, and gives these back.

        Raises OSError, as for a full disk: what was written is gone on with by whoever opens the file next.
        """
        fresh: list[JsonObject] = []
        for record in records:
            for number, event in enumerate(self._projection.note(record)):
                if (record.rev, number) > self._after:
                    self._seq += 1
                    fresh.append({"seq": self._seq, "n": number, **event})
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

    def _look(self) -> tuple[int, tuple[int, int]]:
        """The `seq` and the place in the log of the last event. What is torn after it is moved to a file of its own."""
        self._file.seek(0)
        content = self._file.read()
        reading = read(content)
        if reading.torn is not None:
            self._set_aside(reading.torn.content)
            os.ftruncate(self._file.fileno(), reading.torn.offset)
            content = content[: reading.torn.offset]
        if not content:
            return 0, (0, 0)
        last = decode(content.rstrip(b"\n").rpartition(b"\n")[2])
        return last["seq"], (last["rev"], last["n"])

    def _set_aside(self, torn: bytes) -> None:
        number = 1
        while (path := self._path.with_name(f"{FILE}.torn-{number}")).exists():
            number += 1
        path.write_bytes(torn)
