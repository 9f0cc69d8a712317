"""The folder of a run: what lies in a workspace before its agent begins."""

from __future__ import annotations

from pathlib import Path

from planloop.app.benching.folder import lay_out
from planloop.benchmarks.compiling.compiling import Wish, compile_run
from planloop.benchmarks.compiling.contestants import contestant
from planloop.benchmarks.compiling.filling import nonce
from planloop.benchmarks.reading.suite import Case, Suite


def test_the_files_of_a_case_have_the_nonces_of_their_entry(tmp_path: Path) -> None:
    case = Case("lab", "lab", ("go",), (), files={"src/result.txt": "it is {{nonce.result}}\n"})
    compiled = compile_run(Suite("s", "", 7, 1, {}, {"lab": case}), [contestant("nop")], Wish())
    (name,) = compiled.entries

    lay_out(tmp_path, compiled, {name: 1})

    assert (tmp_path / "work" / name / "src/result.txt").read_text() == f"it is {nonce(7, 'lab', 1, 'result')}\n"
