"""`events.jsonl` is gone on with where it ended, whatever became of the writer before."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.events.projecting import Projection
from benchmarks.events.reading import read
from benchmarks.events.writing import FILE, EventFile, EventsTaken
from schemas.record import Record
from tests.benchmarks.events.test_projecting import COMPILED, began

RECORDS = [Record(rev, float(rev), 1, draft) for rev, draft in enumerate(began(), 1)]


def written(folder: Path) -> list[str]:
    with EventFile(folder, Projection(COMPILED, "first")) as file:
        file.note(RECORDS)
    return [event.type for event in read((folder / FILE).read_bytes()).events]


@contextmanager
def files_no_larger_than(size_bytes: int) -> Iterator[None]:
    """What a disk does that fills up in the middle of a write."""
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_is_there_already_is_not_written_again(tmp_path: Path) -> None:
    assert written(tmp_path) == written(tmp_path) == ["run/open", "case/start"]


def test_a_disk_that_takes_a_part_is_an_error_and_nothing_is_missing_once_there_is_room(tmp_path: Path) -> None:
    with EventFile(tmp_path, Projection(COMPILED, "first")) as file, files_no_larger_than(100), pytest.raises(OSError):
        file.note(RECORDS)

    assert written(tmp_path) == ["run/open", "case/start"]
    assert (tmp_path / f"{FILE}.torn-1").stat().st_size == 100


def test_only_one_writes(tmp_path: Path) -> None:
    with EventFile(tmp_path, Projection(COMPILED, "first")), pytest.raises(EventsTaken):
        EventFile(tmp_path, Projection(COMPILED, "first"))
