"""Each problem of a suite is reported once, with its line and a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.benchmarks.suite_parser import FolderSuiteSources, read_suite
from tests.golden_text import said

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


def test_invalid_check_and_unfilled_blank_are_reported_once_for_all_languages(
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


PATHS = """\
suite: demo
lexicon: 3
cases:
  echo:
    prompts: [go]
    files: {a: x, ./a/b: y, .: z, c/: z, %s: z}
    checks: {one: {web: {can: [see: x]}}}
"""


def test_unstorable_files_and_a_lexicon_without_names_are_reported(tmp_path: Path) -> None:
    text = PATHS % ("d" * 256)

    read = read_suite(text.encode(), file="suite.yaml", sources=FolderSuiteSources(tmp_path))

    told = [(one.span.line if one.span else 0, one.code, one.summary[:40]) for one in read.diagnostics]
    assert (2, "P0202", "`lexicon` must be a map, not 3") in told
    said([words for line, code, words in told if (line, code) == (6, "P0218")])


CHATS = """\
suite: demo
cases:
  chat:
    image: planloop/typescript
    serve: {run: auto}
    prompts: [make a chat]
    checks:
      short: {ws: {clients: [ann], steps: [{ann: {not-closed: 1m}}]}}
      long: {timeout: 2m, ws: {clients: [ann], steps: [{ann: {not-closed: 1m}}]}}
    proof: {oracles: {plain: {says: ok}}}
"""


def test_chat_as_long_as_its_checks_timeout_is_reported(tmp_path: Path) -> None:
    read = read_suite(CHATS.encode(), file="suite.yaml", sources=FolderSuiteSources(tmp_path))

    told = [(one.span.line if one.span else 0, one.code, one.summary) for one in read.diagnostics]
    assert told == [(8, "P0212", "the steps take 1m00s at least, and the check may take 1m00s")]


PROOFS = """\
suite: s
cases:
  c:
    prompts: [hi]
    checks: [{name: said, contains: hi}]
    proof:
      oracles: {plain: {files: {a.py: "yes"}}}
      mutants: {mute: {base: plain, kills: [said], %s}}
"""
WRONG = {
    "calls: 5": "a call must be a map of one tool",
    "calls: [{a: {}, b: {}}]": "a call must be a map of one tool",
    "calls: [{a: 5}]": "a call must be a map of one tool",
    "script: [{zap: 1}]": "zap",
    "script: [{done: a, fail: b}]": "a step has one verb",
    "replace: 5": "`replace` must be a map",
    "replace: {a.py: 5}": "the replacements in `a.py` must be a list of pairs",
    "replace: {a.py: [[true, x]]}": "the replacements in `a.py` must be a list of pairs of texts",
    'replace: {a.py: [["", x]]}': "the replacements in `a.py` must be a list of pairs of texts",
    "replace: {a.py: [[a]]}": "the replacements in `a.py` must be a list of pairs",
}


@pytest.mark.parametrize(("written", "words"), WRONG.items(), ids=WRONG)
def test_error_in_a_proof_is_reported_at_its_line(tmp_path: Path, written: str, words: str) -> None:
    read = read_suite((PROOFS % written).encode(), file="suite.yaml", sources=FolderSuiteSources(tmp_path))

    errors = [one for one in read.diagnostics if one.severity == "error"]
    assert read.suite is None
    assert any(words in one.summary and one.hint and one.span and one.span.line == 8 for one in errors), errors
