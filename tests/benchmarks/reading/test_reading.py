"""What is wrong in a suite is told at its line, once, with a cure."""

from __future__ import annotations

from pathlib import Path

from benchmarks.reading.reading import read_suite
from benchmarks.reading.sources import FolderSuiteSources

SUITE = """\
suite: demo
cases:
  echo:
    language: [clojure, typescript]
    image: planloop/{{language}}
    serve: {run: auto}
    prompts: ["say {{nonse.word}} in {{language}}"]
    checks:
      one: {http: [{send: /x, expect: {body: {contians: y}}}]}
      two: {http: {url: "{{url}}/x", contains: "{{nonce.word}} {{ulr}}"}}
      three: {ws: {clients: [ann], steps: [{bob: {say: "{{nonce.word}}"}}]}}
    files: {page.html: "{{whatever}} the page fills"}
    proof: {oracles: {plain: {says: "{{whatever}}"}}}
"""


def test_a_check_that_cannot_be_run_and_a_blank_that_nothing_fills_are_told_once_for_all_languages(
    tmp_path: Path,
) -> None:
    read = read_suite(SUITE.encode(), file="suite.yaml", sources=FolderSuiteSources(tmp_path))

    assert [(one.span.line if one.span else 0, one.code, one.hint) for one in read.diagnostics] == [
        (7, "P0213", "did you mean `{{nonce.word}}`?"),
        (9, "P0201", "did you mean `contains`? For a member of that name write `{subset: {contians: …}}`"),
        (10, "P0213", "did you mean `{{url}}`?"),
        (11, "P0213", "there are ann"),
    ]
    assert read.suite is None
