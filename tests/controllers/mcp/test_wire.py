"""Lines of tool servers as they really come: what is a message in them, and which request a broken one answers."""

from __future__ import annotations

import json
from typing import Any

from planloop.controllers.mcp import json_rpc
from planloop.controllers.mcp.json_rpc import UnreadableMessage
from planloop.controllers.mcp.stdio_transport import LineSplitter
from planloop.schemas import limits
from planloop.schemas.canonical_json import encode
from tests import rows

ANSWER = '{"jsonrpc":"2.0","id":3,"result":{"x":1}}'
READ = {"jsonrpc": "2.0", "id": 3, "result": {"x": 1}}


def messages(line: str | bytes) -> list[Any]:
    return json_rpc.read_messages(line if isinstance(line, bytes) else line.encode())[0]


def broken(line: str | bytes, dropped: int = 0) -> UnreadableMessage:
    """The one answer in `line`, which cannot be read."""
    (found,) = json_rpc.read_messages(line if isinstance(line, bytes) else line.encode(), dropped)[0]
    assert isinstance(found, UnreadableMessage)
    return found


@rows.each(
    ("line", "noise"),
    [
        (ANSWER, ""),
        (f"\ufeff{ANSWER}\r", ""),
        (f"ready> {ANSWER}", "ready>"),
        (f"[INFO] up {{not json {ANSWER}", "[INFO] up {not json"),
        (f"{ANSWER} // sent", "// sent"),
        (f'{{"level":"info","id":3,"msg":"x"}}{ANSWER}', '{"level":"info","id":3,"msg":"x"}'),
        (f"[{ANSWER}]", ""),
        ('{"jsonrpc":"2.0","id":3,"result":{"x":1},"error":null}', ""),
        ('{"id":3,"result":{"x":1}}', ""),
        ('{"jsonrpc":"2.0","id":3.0,"result":{"x":1}}', ""),
    ],
)
def test_message_is_read_with_anything_around_it(line: str, noise: str) -> None:
    assert json_rpc.read_messages(line.encode()) == ([READ], noise)


def test_an_answer_that_breaks_off_in_quoted_text_is_read_in_one_pass() -> None:
    # Each quote of a JSON text in a result looks like the beginning of a text: the processor budget bounds the looks.
    for end in ('\\"', "\\"):
        head = '{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"'
        assert broken(head + '\\"' * 32_000 + end).id is None


def test_two_messages_on_one_line_are_two() -> None:
    assert messages(ANSWER + ANSWER.replace("3", "4")) == [READ, {**READ, "id": 4}]


@rows.each(
    "line", ["Listening on port 3000", "[INFO] started", '{"level":"info","id":3,"error":"x"}', "[1, 2]", "null", ""]
)
def test_a_line_of_a_log_answers_nothing(line: str) -> None:
    assert messages(line) == []


@rows.each(
    ("error", "code", "message"),
    [
        ({"code": -32601, "message": "no"}, -32601, "no"),
        ({"code": "-32601", "message": "no"}, -32601, "no"),
        ("out of paper", json_rpc.UNKNOWN_ERROR, "out of paper"),
        ({"code": None, "message": None}, json_rpc.UNKNOWN_ERROR, '{"code": null, "message": null}'),
        ({"code": float("inf"), "message": "no"}, json_rpc.UNKNOWN_ERROR, "no"),
        # By these the SDK would know a broken connection and a timeout of its own.
        ({"code": -32000, "message": "quota used up"}, json_rpc.UNKNOWN_ERROR, "quota used up"),
        ({"code": -32001, "message": "slow"}, json_rpc.UNKNOWN_ERROR, "slow"),
    ],
)
def test_error_has_a_code_and_a_message_for_any_reply_of_the_server(error: Any, code: int, message: str) -> None:
    (found,) = messages(json.dumps({"jsonrpc": "2.0", "id": 3, "error": error}))

    assert (found["error"]["code"], found["error"]["message"]) == (code, message)


@rows.each(
    ("text", "value"),
    [
        (r'{"a":"cut \ud83d here"}', {"a": "cut \ufffd here"}),
        (r'{"a":"\ud83d\ude00"}', {"a": "\U0001f600"}),
        (r'{"\udc00":1}', {"\ufffd": 1}),
        ('{"a":"raw\ttab"}', {"a": "raw\ttab"}),
        ('{"a":[NaN,1e999,-Infinity]}', {"a": ["NaN", "Infinity", "-Infinity"]}),
        (f'{{"a":{"7" * 5000}}}', {"a": "7" * 5000}),
        ("[1]", {"content": [1]}),
        ('"seventeen"', {"content": "seventeen"}),
        ("null", {}),
    ],
)
def test_a_result_holds_what_a_log_can_hold(text: str, value: Any) -> None:
    (found,) = messages(f'{{"jsonrpc":"2.0","id":3,"result":{text}}}')
    result = json_rpc.without_nan(found["result"])

    assert result == value
    encode(result)


def test_deep_nesting_fails_with_a_message() -> None:
    (found,) = messages('{"jsonrpc":"2.0","id":3,"result":' + '{"d":' * 300 + "1" + "}" * 301)

    encode(found)
    assert "nested too deeply" in json.dumps(found)


def test_a_tower_that_no_parser_climbs_is_an_answer_that_cannot_be_read() -> None:
    assert broken('{"jsonrpc":"2.0","id":3,"result":' + "[" * 200_000).id == 3


@rows.each(
    ("line", "id_"),
    [
        ('{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"order pla', 3),
        ('{"jsonrpc":"2.0","id":"s-1","result":{"x":undefined}}', "s-1"),
        ('{"result":{"id":9,"x":nope},"id":3,"jsonrpc":"2.0"}', 3),
        ('{"jsonrpc":"2.0","result":{"id":9,"x":nope', None),
        ('{"jsonrpc":"2.0","id":3}', 3),
    ],
)
def test_broken_answer_names_its_request(line: str, id_: Any) -> None:
    assert broken(line).id == id_


def test_invalid_utf8_does_not_lose_an_answer() -> None:
    assert messages(ANSWER.replace("1}", '"\\u00fc"}').encode().replace(b"\\u00fc", b"\xfc"))[0]["result"] == {
        "x": "\ufffd"
    }


def test_middle_of_a_too_long_line_is_left_out() -> None:
    lines = LineSplitter(1_000_000)
    begin, piece, end = b'{"jsonrpc":"2.0","id":7,"result":{"t":"', b"z" * 65_536, b'"}}'
    found = [
        each
        for content in (begin, *[piece] * 100, end + b"\n" + ANSWER.encode() + b"\n")
        for each in lines.feed(content)
    ]

    (long, dropped), (short, none) = found
    assert len(long) + dropped == len(begin) + 100 * len(piece) + len(end)
    assert len(long) <= 1_000_000 and none == 0
    assert broken(long, dropped).id == 7 and messages(short) == [READ]


def test_noise_that_is_too_long_is_not_an_answer() -> None:
    assert json_rpc.read_messages(b"z" * 1000, 10)[0] == []


def test_the_beginning_of_a_broken_answer_is_shown_and_no_more() -> None:
    shown = broken('{"jsonrpc":"2.0","id":3,"result":{"t":"' + "z" * 1_000_000).text

    assert shown.startswith('{"jsonrpc"') and len(shown) < 2 * limits.FILE_SHOWN_BYTES
