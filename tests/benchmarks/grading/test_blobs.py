"""What checks saw is kept once by content, also by the next process."""

from __future__ import annotations

from pathlib import Path

from planloop.benchmarks.grading.blobs import FOLDER, Blobs
from tests.product import digest


def test_it_is_written_once_and_known_from_then_on(tmp_path: Path) -> None:
    blobs, seen = Blobs(tmp_path), {"output": b"said", "same": b"said"}
    assert blobs.kept(seen) is None

    found = blobs.keep(seen)

    assert found == {"output": digest(b"said"), "same": digest(b"said")} == blobs.kept(seen)
    assert [one.read_bytes() for one in (tmp_path / FOLDER).iterdir()] == [b"said"]
    assert blobs.kept(seen | {"page": b"other"}) is None


def test_the_next_process_keeps_what_is_there_as_it_is(tmp_path: Path) -> None:
    Blobs(tmp_path).keep({"output": b"said"})
    (kept,) = (tmp_path / FOLDER).iterdir()
    before = kept.stat()

    later = Blobs(tmp_path)
    assert later.kept({"output": b"said"}) is None
    assert later.keep({"output": b"said"}) == {"output": kept.name}

    after = kept.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
