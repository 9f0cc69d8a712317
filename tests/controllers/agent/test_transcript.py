"""What stands in a conversation: names that every provider takes and that tell every tool from every other."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from controllers.agent.transcript import wire_name

names = st.text(min_size=1, max_size=90) | st.from_regex(r"[a-z_]{1,4}([._:]{1,3}[a-z_]{1,4}){0,3}", fullmatch=True)


@given(st.sets(names, min_size=2, max_size=8))
def test_no_two_tools_have_the_same_name_for_models_and_providers_take_each(tools: set[str]) -> None:
    wired = {wire_name(tool) for tool in tools}

    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in wired)
    assert len(wired) == len({tool.replace(":", ".") if re.fullmatch("agent:[a-z]+", tool) else tool for tool in tools})


def test_plain_names_are_as_they_were() -> None:
    assert [wire_name(name) for name in ("read", "files.read_file", "agent:critic")] == [
        "read",
        "files__read_file",
        "agent__critic",
    ]
