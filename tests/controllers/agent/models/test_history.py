"""The history in the stricter forms that some servers require."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from planloop.controllers.agent.models import chat_request
from planloop.schemas import canonical_json


def message(role: str, content: Any, **more: Any) -> bytes:
    return canonical_json.encode({"role": role, "content": content, **more})


def read(messages: Any) -> list[Any]:
    return [json.loads(one) for one in messages]


USER, MODEL, TOOL = message("user", "a"), message("assistant", "b"), message("tool", "c", tool_call_id="x")


def test_two_messages_of_a_user_become_one_and_two_of_a_model_get_one_between() -> None:
    assert read(chat_request.append_message([USER], message("user", "d"))) == [{"role": "user", "content": "a\n\nd"}]
    assert chat_request.append_message([MODEL], MODEL) == (MODEL, chat_request.CONTINUE_MESSAGE, MODEL)
    assert chat_request.append_message([TOOL], USER) == (TOOL, USER)


def test_a_tail_goes_to_the_last_message_unless_that_is_the_models() -> None:
    assert read(chat_request.append_text([MODEL, TOOL], "t"))[-1]["content"] == "c\n\nt"
    assert read(chat_request.append_text([USER], "t")) == [{"role": "user", "content": "a\n\nt"}]
    assert read(chat_request.append_text([MODEL], "t"))[-1] == {"role": "user", "content": "t"}


@given(st.lists(st.sampled_from([USER, MODEL, TOOL]), max_size=8))
def test_news_never_follows_a_result_or_other_news_and_none_is_lost(messages: list[bytes]) -> None:
    found = read(chat_request.alternate_roles(messages))

    assert not any(after["role"] == "user" and before["role"] in ("user", "tool") for before, after in pairwise(found))
    assert "".join(one["content"] for one in found).replace("\n", "") == "".join(
        one["content"] for one in read(messages)
    )


def test_a_plain_history_has_only_what_every_server_knows() -> None:
    call = {"id": "x", "type": "function", "function": {"name": "read", "arguments": "{}", "signature": "s"}, "odd": 1}
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "b"}]
    odd = message("assistant", parts, tool_calls=[call], reasoning_content="hm")

    assert read(chat_request.strip_foreign_fields([USER, odd, TOOL])) == [
        json.loads(USER),
        {
            "role": "assistant",
            "content": "b",
            "tool_calls": [{"id": "x", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
        },
        json.loads(TOOL),
    ]
    assert chat_request.foreign_field_names([USER, odd, TOOL]) == {"odd", "signature", "reasoning_content", "thinking"}


def test_a_plain_history_has_call_ids_without_thought_signatures() -> None:
    sent = chat_request.signed_call_id(1, 0, "call_1__thought__c2ln")
    call = {"id": sent, "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages = [message("assistant", None, tool_calls=[call]), message("tool", "c", tool_call_id=sent)]

    assistant, tool = read(chat_request.strip_foreign_fields(messages))

    assert assistant["tool_calls"][0]["id"] == tool["tool_call_id"] == chat_request.tool_call_id(1, 0)
