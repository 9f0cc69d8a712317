"""Listening to models while they write: from wherever in a reply one begins to."""

from __future__ import annotations

import pytest

from planloop.schemas import limits
from planloop.server.stream_hub import StreamHub

pytestmark = pytest.mark.anyio


async def test_listener_that_joins_during_a_reply_gets_its_beginning() -> None:
    hearing = StreamHub()
    silent, reply = hearing.begin("agent/b", 1, "b"), hearing.begin("agent/a", 7, "a.1")
    hearing.tell(reply, "once ")
    hearing.tell(reply, "upon ")
    heard = hearing.listen()
    assert await anext(heard) == {"agent": "agent/a", "turn": 7, "reply": "a.1", "text": "once upon "}
    hearing.tell(reply, "a time")
    assert (await anext(heard))["text"] == "a time"
    hearing.end(silent)
    hearing.end(reply)
    late = hearing.listen()
    again = hearing.begin("agent/a", 7, "a.2")
    hearing.end(reply)  # An attempt that was given up ends when another has begun.
    hearing.tell(again, "anew")
    said = await anext(late)
    assert (said["reply"], said["text"]) == ("a.2", "anew"), "it does not continue the abandoned text"
    for each in (heard, late):
        await each.aclose()


async def test_newest_end_of_a_long_reply_is_kept() -> None:
    hearing = StreamHub()
    reply = hearing.begin("agent/a", 1, "a.1")
    for number in range(limits.STREAM_CHARS_MAX // 4):
        hearing.tell(reply, f"{number:06}")
    heard = hearing.listen()
    said = (await anext(heard))["text"]
    assert limits.STREAM_CHARS_MAX - 6 < len(said) <= limits.STREAM_CHARS_MAX
    assert said.endswith(f"{limits.STREAM_CHARS_MAX // 4 - 1:06}")
    await heard.aclose()
