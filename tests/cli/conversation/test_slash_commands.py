"""What a line of a conversation means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.cli.conversation.slash_commands import EmptyLine, InvalidLine, MessageLine, SlashCommand, parse_line

KNOWN = ("agents", "approve", "decompose")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("hello", MessageLine("hello")),
        ("  hello  \n", MessageLine("hello")),
        ("", EmptyLine()),
        ("   \n", EmptyLine()),
        ("/agents", SlashCommand("agents", (), "")),
        ("/approve 5b1e it is fine", SlashCommand("approve", ("5b1e", "it", "is", "fine"), "5b1e it is fine")),
        ("/decompose 'a page'", SlashCommand("decompose", ("a page",), "'a page'")),
        ("/decompose it's open", SlashCommand("decompose", ("it's", "open"), "it's open")),
        ("/agnets", InvalidLine("agnets", "agents")),
        ("/xyzzy", InvalidLine("xyzzy", "")),
        ("//usr/bin is a path", MessageLine("/usr/bin is a path")),
        ("/", InvalidLine("", "")),
    ],
)
def test_a_line_is_what_it_looks_like(text: str, line: object) -> None:
    assert parse_line(text, KNOWN) == line


@given(st.text())
def test_no_line_is_lost_or_raises(text: str) -> None:
    match parse_line(text, KNOWN):
        case MessageLine(said):
            assert said and said in text
        case EmptyLine():
            assert not text.strip()
        case SlashCommand(name) | InvalidLine(name):
            assert text.strip().startswith(f"/{name}")
