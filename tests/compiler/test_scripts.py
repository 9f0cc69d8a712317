"""Script files: an error is reported with its line, before anything runs."""

from __future__ import annotations

import pytest

from planloop.compiler.plan_compiler import read_scripts

GOOD = b'a:\n  - on it\n  - {call: {list: {}}}\n"*": {done: yes-sir}\n'
BAD = {
    "nothing at all": (b"", "the file is empty", 1),
    "a list": (b"- {done: a}\n", "contains no scripts", 1),
    "a step that there is not": (b"a:\n  - {done: x}\nb:\n  - {zap: 1}\n", "zap", 4),
    "two things in one step": (b"a:\n  - {done: x, fail: y}\n", "a step has one verb", 2),
    "a case without steps": (b"a:\n", "has no value", 1),
    "not YAML": (b"a: [\n", "unclosed", 1),
}


def test_steps_are_read_as_those_of_an_agent_are() -> None:
    read = read_scripts(GOOD, file="f.yaml")

    assert read.diagnostics == ()
    assert read.scripts == {"a": [{"say": "on it"}, {"call": {"list": {}}}], "*": [{"done": "yes-sir"}]}


@pytest.mark.parametrize(("content", "words", "line"), BAD.values(), ids=BAD)
def test_error_is_reported_at_its_line_with_a_fix(content: bytes, words: str, line: int) -> None:
    read = read_scripts(content, file="f.yaml")

    assert read.scripts is None
    first = read.diagnostics[0]
    assert words in first.summary
    assert first.hint
    assert first.span is not None
    assert first.span.line == line
