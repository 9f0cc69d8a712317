"""The folder of a run: what lies in a workspace before its agent begins."""

from __future__ import annotations

from pathlib import Path

from planloop.benchmarks.runs.contestants import contestant_from_name
from planloop.benchmarks.runs.run_compiler import RunRequest, compile_run, make_nonce
from planloop.benchmarks.suite import Case, CaseSetting, Suite
from planloop.server.bench.run_folder import write_attempt_files


def test_the_files_of_a_case_have_the_nonces_of_their_entry(tmp_path: Path) -> None:
    case = Case("lab", "lab", ("go",), (), setting=CaseSetting(files={"src/result.txt": "it is {{nonce.result}}\n"}))
    compiled = compile_run(Suite("s", "", 7, 1, {}, {"lab": case}), [contestant_from_name("nop")], RunRequest())
    (name,) = compiled.entries

    write_attempt_files(tmp_path, compiled, {name: 1})

    assert (tmp_path / "work" / name / "src/result.txt").read_text() == f"it is {make_nonce(7, 'lab', 1, 'result')}\n"
