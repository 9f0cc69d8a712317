"""The folder of a run: what lies in a workspace before its agent begins."""

from __future__ import annotations

from pathlib import Path

from benchmarks.compiling.compiling import Wish, compile_run
from benchmarks.compiling.contestants import contestant
from benchmarks.compiling.filling import nonce
from benchmarks.reading.suite import Case, Suite
from planloop.benching.folder import lay_out


def test_the_files_of_a_case_have_the_nonces_of_their_entry(tmp_path: Path) -> None:
    case = Case("lab", "lab", ("go",), (), files={"src/result.txt": "it is {{nonce.result}}\n"})
    compiled = compile_run(Suite("s", "", 7, 1, {}, {"lab": case}), [contestant("nop")], Wish())
    (name,) = compiled.entries

    lay_out(tmp_path, compiled, {name: 1})

    assert (tmp_path / "work" / name / "src/result.txt").read_text() == f"it is {nonce(7, 'lab', 1, 'result')}\n"
