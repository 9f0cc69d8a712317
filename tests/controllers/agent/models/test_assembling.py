"""Replies are assembled the same from any pieces of a stream, and no two calls are joined."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.controllers.agent.models.reply_assembly import ReplyAssembly, ReplyTooLong
from planloop.controllers.agent.models.response_stream import EventStreamReader, NotAnEventStream
from planloop.schemas import canonical_json, limits
from tests.golden_text import said
from tests.product import ModelCall, ModelReply

PROMPT = (b'{"role":"user","content":"hello"}',)


def piece(index: int | None = None, id_: str | None = None, name: str | None = None, arguments: Any = None) -> Any:
    function = {key: one for key, one in (("name", name), ("arguments", arguments)) if one is not None}
    head = {key: one for key, one in (("index", index), ("id", id_)) if one is not None}
    return head | ({"function": function} if function else {})


def chunk(*pieces: Any, text: str | None = None, finish: str | None = None) -> dict[str, Any]:
    delta: dict[str, Any] = {} if text is None else {"content": text}
    if pieces:
        delta["tool_calls"] = list(pieces)
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def assembled(*chunks: dict[str, Any]) -> ModelReply:
    assembly = ReplyAssembly()
    for one in chunks:
        assembly.take(one)
    return assembly.reply(PROMPT)


def calls(*chunks: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(call.id, call.name, call.arguments) for call in assembled(*chunks).calls]


A, B = '{"path":"a"}', '{"path":"b"}'


def test_calls_that_all_have_index_0_are_distinguished_by_their_ids() -> None:
    assert calls(chunk(piece(0, "x", "read", A)), chunk(piece(0, "y", "read", B))) == [
        ("x", "read", A),
        ("y", "read", B),
    ]


def test_parallel_calls_numbered_from_zero_in_each_piece_are_not_joined() -> None:
    # What litellm makes of Ollama's own API: three calls became two, with `{"path":"a"}{"path":"b"}` for arguments.
    glued = calls(chunk(piece(0, "x", "read", A), piece(1, "y", "read", B)), chunk(piece(0, "z", "write", A)))

    assert glued == [("x", "read", A), ("y", "read", B), ("z", "write", A)]


def test_calls_without_ids_and_with_index_0_are_distinguished_by_whole_arguments() -> None:
    assert calls(chunk(piece(0, None, "read", A)), chunk(piece(0, None, "read", B))) == [
        ("", "read", A),
        ("", "read", B),
    ]


def test_an_id_that_only_the_first_piece_has_is_for_the_whole_call() -> None:
    pieces = [chunk(piece(1, "y", "write", "")), chunk(piece(0, "x", "read", "")), chunk(piece(1, None, None, B))]

    assert calls(*pieces, chunk(piece(0, None, None, A))) == [("y", "write", B), ("x", "read", A)]


def test_head_repeated_in_every_piece_is_one_head() -> None:
    assert calls(chunk(piece(0, "x", "read", A[:4])), chunk(piece(0, "x", "read", A[4:]))) == [("x", "read", A)]


def test_a_head_that_closes_the_call_adds_nothing() -> None:
    assert calls(chunk(piece(0, "x", "read", A)), chunk(piece(0, "x", "read", ""))) == [("x", "read", A)]


def test_pieces_without_an_index_go_by_id_or_else_to_the_last_call() -> None:
    heads = [chunk(piece(None, "x", "read", "")), chunk(piece(None, "y", "write", ""))]

    assert calls(*heads, chunk(piece(None, "x", None, A))) == [("x", "read", A), ("y", "write", "")]
    assert calls(chunk(piece(None, "x", "read", A[:3])), chunk(piece(None, None, None, A[3:]))) == [("x", "read", A)]


def test_two_calls_with_one_id_stay_two() -> None:
    assert calls(chunk(piece(0, "x", "read", A), piece(1, "x", "read", B))) == [("x", "read", A), ("x", "read", B)]
    assert calls(chunk(piece(0, "x", "read", A)), chunk(piece(0, "x", "read", B))) == [
        ("x", "read", A),
        ("x", "read", B),
    ]


def test_late_id_is_accepted() -> None:
    assert calls(chunk(piece(0, None, "read", "")), chunk(piece(0, "x", None, A))) == [("x", "read", A)]


def test_arguments_sent_as_a_value_become_text() -> None:
    assert calls(chunk(piece(0, "x", "read", {"path": "a"}))) == [("x", "read", A)]


def test_a_whole_message_is_taken_like_a_stream() -> None:
    call = {"id": "x", "type": "function", "function": {"name": "read", "arguments": A}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}

    reply = assembled({"choices": [{"message": message, "finish_reason": "tool_calls"}]})

    assert (reply.calls, reply.finish) == ((ModelCall("x", "read", A),), "tool_calls")


def test_thoughts_are_no_text_and_parts_of_text_are() -> None:
    thinking = {"choices": [{"delta": {"reasoning_content": "hm"}}]}
    parts = {"choices": [{"delta": {"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "a"}]}}]}

    assert assembled(thinking, parts).text == "a"


def test_usage_in_the_last_chunk_counts_and_the_last_value_wins() -> None:
    early, late = {"prompt_tokens": 3, "completion_tokens": 0}, {"prompt_tokens": 3, "completion_tokens": 5}
    cached = late | {"prompt_tokens_details": {"cached_tokens": 2}}

    usage = assembled(chunk(text="a") | {"usage": early}, {"choices": [], "usage": cached}, {"choices": []}).usage

    assert (usage.tokens_in, usage.tokens_out, usage.tokens_cached, usage.is_estimated) == (3, 5, 2, False)
    assert usage.raw == cached


def test_unstated_usage_is_estimated_and_marked() -> None:
    usage = assembled(chunk(text="four words of text")).usage

    assert usage.is_estimated
    assert (usage.tokens_in, usage.tokens_out) == (9, 5)


@pytest.mark.parametrize(
    ("raw", "cached"),
    [
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}, 4),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}, 4),
        ({"prompt_tokens": 9, "cache_read_input_tokens": 4}, 4),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, 0),
    ],
)
def test_cached_tokens_are_found_in_every_vendors_format(raw: dict[str, Any], cached: int) -> None:
    usage = assembled({"choices": [], "usage": raw}).usage

    assert (usage.tokens_in, usage.tokens_cached) == (9, cached)


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": {"0": {}}},
        {"choices": [1]},
        {"choices": [{"delta": 7}]},
        chunk(7),
        chunk({"function": 1}),
        {"choices": [{"delta": {"tool_calls": {"0": {}}}}]},
    ],
)
def test_chunks_of_another_shape_are_refused(odd: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as caught:
        assembled(odd)
    said(str(caught.value))


# Any cut.

NAMES = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=12)
IDS = st.text("abc123_-", min_size=1, max_size=10)
ARGUMENTS = st.dictionaries(
    NAMES, st.text(max_size=8) | st.integers() | st.lists(st.booleans(), max_size=3), max_size=3
)


@st.composite
def replies(draw: st.DrawFn) -> tuple[str, list[tuple[str, str, str]]]:
    ids = draw(st.lists(IDS, unique=True, max_size=4))
    return draw(st.text(max_size=30)), [
        (id_, draw(NAMES), json.dumps(draw(ARGUMENTS), ensure_ascii=draw(st.booleans()))) for id_ in ids
    ]


def cut(draw: st.DrawFn, whole: Any) -> list[Any]:
    """`whole` in pieces of any size, some empty."""
    places = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    return [whole[start:end] for start, end in zip([0, *places], [*places, len(whole)], strict=True)]


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, list[tuple[str, str, str]], list[bytes]]:
    """A reply, and the bytes of a stream of it: deltas cut anywhere, calls interleaved, bytes cut anywhere."""
    text, made = draw(replies())
    lanes = [[chunk(text=one) for one in cut(draw, text)]]
    for index, (id_, name, arguments) in enumerate(made):
        head = [piece(index, id_=one) for one in cut(draw, id_)] + [piece(index, name=one) for one in cut(draw, name)]
        lanes.append([chunk(one) for one in (*head, *(piece(index, arguments=each) for each in cut(draw, arguments)))])
    events = []
    while any(lanes):
        lane = draw(st.sampled_from([number for number, left in enumerate(lanes) if left]))
        events.append(lanes[lane].pop(0))
    events.append(chunk(finish="tool_calls" if made else "stop"))
    ending = draw(st.sampled_from([b"\n\n", b"\r\n\r\n", b"\n"]))
    lines = b"".join(b"data: " + json.dumps(one, ensure_ascii=False).encode() + ending for one in events)
    return text, made, cut(draw, lines + b"data: [DONE]" + ending)


@given(streams())
def test_any_cut_of_a_stream_gives_the_same_reply(stream: tuple[str, list[tuple[str, str, str]], list[bytes]]) -> None:
    text, made, pieces = stream
    lines, assembly = EventStreamReader(), ReplyAssembly()
    for one in pieces:
        for payload in lines.feed(one):
            assembly.take(payload)
    lines.end()
    reply = assembly.reply(PROMPT)

    assert lines.is_done
    assert reply.text == text
    assert sorted((call.id, call.name, call.arguments) for call in reply.calls) == sorted(made)


def test_a_piece_may_end_inside_a_character() -> None:
    line = b'data: {"choices":[{"delta":{"content":"\xe4\xbd\xa0\xe5\xa5\xbd"}}]}\n\n'
    lines, assembly = EventStreamReader(), ReplyAssembly()
    for at in range(len(line)):
        for payload in lines.feed(line[at : at + 1]):
            assembly.take(payload)

    assert assembly.text == "你好"


def test_comments_and_named_events_are_signs_of_life() -> None:
    lines = EventStreamReader()

    assert lines.feed(b": waiting\n\nevent: message\ndata: {}\n\n") == [{}]
    assert lines.end() == []


def test_an_event_over_several_lines_is_one() -> None:
    assert EventStreamReader().feed(b'data: {"a":\ndata: 1}\n\n') == [{"a": 1}]


@pytest.mark.parametrize("body", [b"<html></html>", b"data: {not json\n\n", b"{", b"data: [1\n\ndata: 2\n\n"])
def test_invalid_event_stream_is_refused(body: bytes) -> None:
    lines = EventStreamReader()
    with pytest.raises(NotAnEventStream):
        lines.feed(body)
        lines.end()


def test_endless_event_and_endless_stream_are_abandoned() -> None:
    with pytest.raises(NotAnEventStream):
        EventStreamReader().feed(b"data: [\n" * (limits.MODEL_EVENT_LINES_MAX + 1))
    with pytest.raises(NotAnEventStream):
        EventStreamReader().feed(b"x" * (limits.MODEL_STREAM_BYTES_MAX + 1))


@given(st.binary(max_size=200))
def test_random_bytes_are_at_most_refused(body: bytes) -> None:
    lines = EventStreamReader()
    try:
        payloads = lines.feed(body) + lines.end()
    except NotAnEventStream:
        return
    assert all(canonical_json.encode(one) for one in payloads)


def test_surrogate_halves_in_two_pieces_are_joined_and_a_single_half_is_replaced() -> None:
    assembly = ReplyAssembly()
    for half in ("a\\ud83d", "\\ude00", "b\\ud800"):
        assembly.take(json.loads(f'{{"choices": [{{"delta": {{"content": "{half}"}}}}]}}'))

    assert assembly.reply(()).text == "a\N{GRINNING FACE}b\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("odd", ['{"prompt_tokens": NaN}', '{"prompt_tokens": 1e999}', '{"x": "\\ud800"}'])
def test_unstorable_usage_is_ignored(odd: str) -> None:
    assembly = ReplyAssembly()
    assembly.take({"choices": [{"delta": {"content": "four"}}], "usage": {"prompt_tokens": 5, "completion_tokens": 1}})
    assembly.take(json.loads(f'{{"choices": [], "usage": {odd}}}'))

    assert assembly.reply(()).usage.tokens_in == 5


def test_unrealistically_large_reply_is_abandoned_early() -> None:
    assembly = ReplyAssembly()
    piece = {"choices": [{"delta": {"content": "x" * (limits.MODEL_REPLY_CHARS_MAX // 4)}}]}
    with pytest.raises(ReplyTooLong, match="longer than"):
        for _ in range(5):
            assembly.take(piece)
