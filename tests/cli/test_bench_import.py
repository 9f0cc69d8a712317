"""`plan bench import`: a folder becomes a folder with a suite that can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.cli import bench_suites
from planloop.server.bench import suites
from tests.benchmarks.importing.test_exercism import track
from tests.golden_text import said_in
from tests.product import CommandError


def _lay(folder: Path, files: dict[str, bytes]) -> Path:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def test_a_track_on_disk_becomes_a_suite_that_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = _lay(tmp_path / "track", track("clojurescript") | {".git/config": b"x", "node_modules/a/b.js": b"x"})

    bench_suites.import_exercism(folder, "clojurescript", tmp_path / "out")

    assert list(suites.require_suite(tmp_path / "out" / "suite.yaml").suite.cases) == ["adder"]
    said_in(capsys.readouterr().out, f"{tmp_path}")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda at: bench_suites.import_exercism(at / "none", "clojure", None), "none is not a folder"),
        (
            lambda at: bench_suites.import_exercism(_lay(at / "x", {"a": b""}), "clojure", None),
            "no practice exercises of clojure",
        ),
        (lambda at: bench_suites.import_bfcl(_lay(at / "x", {"a": b""}), None), "has no BFCL cases"),
        (
            lambda at: bench_suites.import_exercism(_lay(at / "t", track("clojure")), "clojure", at / "t"),
            "already exists",
        ),
    ],
)
def test_unknown_set_is_reported(make: object, words: str, tmp_path: Path) -> None:
    assert callable(make)
    with pytest.raises(CommandError, match=words):
        make(tmp_path)
