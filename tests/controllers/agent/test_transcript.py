"""Tool names in a conversation: every provider accepts them, and no two tools have the same name."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from planloop.controllers.agent.models.chat_request import wire_name
from planloop.controllers.agent.turn.transcript import describe_news
from planloop.schemas.objects.message import Message
from tests.golden_text import said

names = st.text(min_size=1, max_size=90) | st.from_regex(r"[a-z_]{1,4}([._:]{1,3}[a-z_]{1,4}){0,3}", fullmatch=True)


@given(st.sets(names, min_size=2, max_size=8))
def test_no_two_tools_have_the_same_name_for_models_and_providers_take_each(tools: set[str]) -> None:
    wired = {wire_name(tool) for tool in tools}

    assert all(re.fullmatch("[a-zA-Z_][a-zA-Z0-9_-]{0,63}", name) for name in wired)
    assert len(wired) == len({tool.replace(":", ".") if re.fullmatch("agent:[a-z]+", tool) else tool for tool in tools})


def test_plain_names_are_unchanged() -> None:
    assert [wire_name(name) for name in ("read", "files.read_file", "agent:critic")] == [
        "read",
        "files__read_file",
        "agent__critic",
    ]


def told(body: object) -> str:
    message = Message("m1", "state", "controller:agent", "agent/a", body, 0.0)
    return describe_news([message], (), {}).partition("\n")[2]


def test_facts_to_act_on_are_shown_in_words_and_the_rest_unchanged() -> None:
    refused = {"rejected": {"claim": 1, "accepted": False, "message": "require-file: a.txt is not there"}}
    ended = {"task": "task/b", "state": "done", "result": {"ok": True, "text": "it is written"}, "message": ""}
    more = ended | {"result": {"ok": True, "text": "x", "files": 3}}

    said(told(refused), "done")
    said(told({"goal": "another"}))
    said(told(ended), "task/b")
    assert told(more).startswith("{")
    assert told({"budget_left": {"turns": 1}}) == '{"budget_left":{"turns":1}}'
