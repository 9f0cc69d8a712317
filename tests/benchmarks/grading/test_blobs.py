"""What checks saw is kept once by content, also by the next process."""

from __future__ import annotations

from pathlib import Path

from planloop.benchmarks.grading.context import BLOBS_FOLDER, BlobFolder
from tests.product import sha256_hex


def test_blob_is_written_once_and_known_afterwards(tmp_path: Path) -> None:
    blobs, seen = BlobFolder(tmp_path), {"output": b"said", "same": b"said"}
    assert blobs.kept(seen) is None

    found = blobs.keep(seen)

    assert found == {"output": sha256_hex(b"said"), "same": sha256_hex(b"said")} == blobs.kept(seen)
    assert [one.read_bytes() for one in (tmp_path / BLOBS_FOLDER).iterdir()] == [b"said"]
    assert blobs.kept(seen | {"page": b"other"}) is None


def test_next_process_keeps_existing_blobs_unchanged(tmp_path: Path) -> None:
    BlobFolder(tmp_path).keep({"output": b"said"})
    (kept,) = (tmp_path / BLOBS_FOLDER).iterdir()
    before = kept.stat()

    later = BlobFolder(tmp_path)
    assert later.kept({"output": b"said"}) is None
    assert later.keep({"output": b"said"}) == {"output": kept.name}

    after = kept.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
