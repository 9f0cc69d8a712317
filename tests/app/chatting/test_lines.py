"""What a line of a conversation means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.cli.chatting.lines import Command, Nothing, Say, Slip, parse

KNOWN = ("agents", "approve", "decompose")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("hello", Say("hello")),
        ("  hello  \n", Say("hello")),
        ("", Nothing()),
        ("   \n", Nothing()),
        ("/agents", Command("agents", (), "")),
        ("/approve 5b1e it is fine", Command("approve", ("5b1e", "it", "is", "fine"), "5b1e it is fine")),
        ("/decompose 'a page'", Command("decompose", ("a page",), "'a page'")),
        ("/decompose it's open", Command("decompose", ("it's", "open"), "it's open")),
        ("/agnets", Slip("agnets", "agents")),
        ("/xyzzy", Slip("xyzzy", "")),
        ("//usr/bin is a path", Say("/usr/bin is a path")),
        ("/", Slip("", "")),
    ],
)
def test_a_line_is_what_it_looks_like(text: str, line: object) -> None:
    assert parse(text, KNOWN) == line


@given(st.text())
def test_no_line_is_lost_or_raises(text: str) -> None:
    match parse(text, KNOWN):
        case Say(said):
            assert said and said in text
        case Nothing():
            assert not text.strip()
        case Command(name) | Slip(name):
            assert text.strip().startswith(f"/{name}")
