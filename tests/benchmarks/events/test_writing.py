"""A new writer continues `events.jsonl` where it ended, whatever happened to the previous writer."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from planloop.benchmarks.events.projection import FILE, EventFile, EventsTaken, RunProjection
from planloop.benchmarks.events.reader import BadEvents, read_events
from tests.benchmarks.events.test_projecting import COMPILED, began, ended
from tests.golden_text import said
from tests.product import Record

RECORDS = [Record(rev, float(rev), 1, draft) for rev, draft in enumerate(began(), 1)]


def written(folder: Path, records: Sequence[Record] = RECORDS) -> list[str]:
    with EventFile(folder, RunProjection(COMPILED, "first")) as file:
        file.note(records)
    return [event.type for event in read_events((folder / FILE).read_bytes()).events]


@contextmanager
def files_no_larger_than(size_bytes: int) -> Iterator[None]:
    """What a disk does that fills up in the middle of a write."""
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_existing_events_are_not_written_again(tmp_path: Path) -> None:
    assert written(tmp_path) == written(tmp_path) == ["run/open", "case/start"]


@pytest.mark.parametrize(
    ("old", "new", "member"),
    [(b'"verdict":"pass"', b'"verdict":"fail"', "data"), (b'"trial":1', b'"trial":2', "trial")],
)
def test_edited_verdict_is_detected(tmp_path: Path, old: bytes, new: bytes, member: str) -> None:
    judged = [*RECORDS, Record(3, 3.0, 1, ended())]
    written(tmp_path, judged)
    path = tmp_path / FILE
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(edited := b"".join([*lines[:2], lines[2].replace(old, new, 1), *lines[3:]]))

    with pytest.raises(BadEvents) as caught:
        written(tmp_path, judged)
    said(str(caught.value), f"{member}")

    assert old not in edited.splitlines()[2]
    assert path.read_bytes() == edited


@pytest.mark.parametrize(
    ("old", "new"), [(b'"validated":null', b'"validated":true'), (b'"case_key":"ck"', b'"case_key":"other"')]
)
def test_verdicts_are_checked_against_plan_json_while_it_is_unchanged(tmp_path: Path, old: bytes, new: bytes) -> None:
    written(tmp_path)
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes().replace(old, new))

    with pytest.raises(BadEvents) as caught:
        written(tmp_path)
    said(str(caught.value), "data")


def test_run_with_a_changed_plan_json_keeps_its_earlier_verdicts(tmp_path: Path) -> None:
    written(tmp_path)
    before = (tmp_path / FILE).read_bytes()

    with EventFile(tmp_path, RunProjection(replace(COMPILED, about="edited", is_validated=True), "first")) as file:
        file.note(RECORDS)

    assert (tmp_path / FILE).read_bytes() == before


def test_partial_disk_write_is_an_error_and_nothing_is_lost_once_there_is_space(tmp_path: Path) -> None:
    with (
        EventFile(tmp_path, RunProjection(COMPILED, "first")) as file,
        files_no_larger_than(100),
        pytest.raises(OSError),
    ):
        file.note(RECORDS)

    assert written(tmp_path) == ["run/open", "case/start"]
    assert (tmp_path / f"{FILE}.torn-1").stat().st_size == 100


def test_only_one_writes(tmp_path: Path) -> None:
    with EventFile(tmp_path, RunProjection(COMPILED, "first")), pytest.raises(EventsTaken):
        EventFile(tmp_path, RunProjection(COMPILED, "first"))
