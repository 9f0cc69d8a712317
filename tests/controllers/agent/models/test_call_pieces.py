"""Calls from pieces with ids, indexes, heads and arguments in every order that providers send."""

from __future__ import annotations

from typing import Any

from planloop.controllers.agent.models.reply_assembly import ReplyAssembly
from planloop.controllers.agent.models.reply_pieces import PartialCalls, intended_arguments, parse_piece
from tests import rows

WHOLE = '{"path": "out.txt", "content": "hello"}'
PARTS = (WHOLE[:9], WHOLE[9:20], WHOLE[20:])
NONE = object()


def piece(name: Any = NONE, arguments: Any = NONE, id_: Any = NONE, index: Any = 0, **more: Any) -> dict[str, Any]:
    """One piece as the provider sends it, with only the given fields. `index=NONE` omits the index too."""
    function = {key: one for key, one in (("name", name), ("arguments", arguments)) if one is not NONE}
    head = {key: one for key, one in (("id", id_), ("index", index)) if one is not NONE}
    return head | {"function": function, "type": "function"} | more


def calls(*pieces: dict[str, Any]) -> list[tuple[str, str]]:
    made = PartialCalls()
    for one in pieces:
        made.take(parse_piece(one))
    return [(one.name, given) for one in made.all if one.has_begun for given in intended_arguments(one.whole_arguments)]


def streamed(**more: Any) -> list[dict[str, Any]]:
    return [piece(arguments=part, **more) for part in PARTS]


ONE_CALL = {
    "another id with each piece": [
        piece("write", "", "a"),
        *(piece(arguments=part, id_=f"b{n}") for n, part in enumerate(PARTS)),
    ],
    "another id and the name with each piece": [
        piece("write", "", "a"),
        *(piece("write", part, f"b{n}") for n, part in enumerate(PARTS)),
    ],
    "another id with each piece and no index": [
        piece("write", "", "a", NONE),
        *(piece(arguments=part, id_=f"b{n}", index=NONE) for n, part in enumerate(PARTS)),
    ],
    "the id and the name with each piece": [piece("write", part, "a") for part in PARTS],
    "an id that is null or empty afterwards": [
        piece("write", PARTS[0], "a"),
        piece(None, PARTS[1], None),
        piece("", PARTS[2], ""),
    ],
    "an index that moves, with the id": [
        piece("write", "", "a", 0),
        *(piece(arguments=part, id_="a", index=n + 1) for n, part in enumerate(PARTS)),
    ],
    "an index that moves, without an id": [
        piece("write", "", "a", 0),
        *(piece(arguments=part, index=n + 1) for n, part in enumerate(PARTS)),
    ],
    "an index from 1 in the head only": [piece("write", "", "a", 1), *streamed(index=0)],
    "a head without an index": [piece("write", "", "a", NONE), *streamed(index=0)],
    "an index that is a text": [piece("write", "", "a", "0"), *streamed(index="0")],
    "braces before the arguments": [piece("write", "{}", "a"), *streamed()],
    "braces before the arguments, with the head again": [piece("write", "{}", "a"), piece("write", WHOLE, "a")],
    "an empty object before the arguments": [piece("write", {}, "a"), *streamed()],
    "the text null before the arguments": [piece("write", "null", "a"), *streamed()],
    "null before the arguments": [piece("write", None, "a"), *streamed()],
    "braces after the arguments": [piece("write", "", "a"), *streamed(), piece(arguments="{}")],
    "the whole arguments again at the end": [piece("write", "", "a"), *streamed(), piece(arguments=WHOLE, id_="a")],
    "an empty piece under another id at the end": [piece("write", "", "a"), *streamed(), piece(None, "", "z")],
    "the name with each piece and no id": [piece("write", ""), *(piece("write", part) for part in PARTS)],
    "the name in two pieces": [piece("wr", "", "a"), piece("ite"), *streamed()],
    "the arguments begin before the name": [
        piece(None, PARTS[0], "a"),
        piece("write", PARTS[1]),
        piece(None, PARTS[2]),
    ],
    "the whole head again at the end": [piece("write", "", "a"), *streamed(), piece("write", WHOLE, "a")],
    "all so far with each piece": [piece("write", WHOLE[:end], "a") for end in (9, 20, len(WHOLE))],
    "all so far with each piece, the head once": [
        piece("write", WHOLE[:9], "a"),
        piece(None, WHOLE[:20]),
        piece(None, WHOLE),
    ],
    "braces and the arguments in one piece": [piece("write", "{}" + WHOLE, "a")],
    "the arguments twice in one piece": [piece("write", WHOLE + WHOLE, "a")],
    "a brace too many": [piece("write", WHOLE + "}", "a")],
    "the mark that ends a call": [piece("write", WHOLE + "\n</tool_call>", "a")],
    "a fence around the arguments": [piece("write", f"```json\n{WHOLE}\n```", "a")],
    "an index that is a float": [piece("write", "", "a", 0.0), *streamed(index=0)],
    "an index that is a text in the head only": [piece("write", "", "a", "0"), *streamed(index=0)],
    "an index below zero": [piece("write", "", "a", -1), *streamed(index=-1)],
    "no function in a later piece": [piece("write", WHOLE, "a"), {"index": 0, "function": None}],
    "parameters in place of arguments": [{"id": "a", "function": {"name": "write", "parameters": WHOLE}}],
    "arguments as an object": [piece("write", {"path": "out.txt", "content": "hello"}, "a")],
    "no function around name and arguments": [{"id": "a", "name": "write", "arguments": WHOLE}],
}


@rows.each("pieces", ONE_CALL.values(), ids=list(ONE_CALL))
def test_pieces_of_one_call_are_one_call_however_they_are_numbered(pieces: list[dict[str, Any]]) -> None:
    found = calls(*pieces)

    assert [name for name, _ in found] == ["write"]
    assert found[0][1].replace(" ", "") == WHOLE.replace(" ", "")


A, B = '{"path": "a"}', '{"path": "b"}'
TWO_CALLS = {
    "one index for both": [piece("read", A, "x"), piece("read", B, "y")],
    "one index for both, each in pieces": [
        piece("read", "", "x"),
        piece(arguments=A[:5]),
        piece(arguments=A[5:]),
        piece("read", "", "y"),
        piece(arguments=B[:5]),
        piece(arguments=B[5:]),
    ],
    "no index and no id": [piece("read", A, index=NONE), piece("read", B, index=NONE)],
    "heads without an index, pieces with one": [
        piece("read", "", "x", NONE),
        piece("read", "", "y", NONE),
        piece(arguments=A, index=0),
        piece(arguments=B, index=1),
    ],
    "braces before the arguments of both": [
        piece("read", "{}", "x", 0),
        piece("read", "{}", "y", 1),
        piece(arguments=A, index=0),
        piece(arguments=B, index=1),
    ],
    "interleaved": [
        piece("read", A[:4], "x", 0),
        piece("read", B[:6], "y", 1),
        piece(arguments=A[4:], index=0),
        piece(arguments=B[6:], index=1),
    ],
    "one index for both, pieces go by their ids": [
        piece("read", "", "x"),
        piece("read", "", "y"),
        piece(None, A[:5], "x"),
        piece(None, B[:5], "y"),
        piece(None, A[5:], "x"),
        piece(None, B[5:], "y"),
    ],
    "numbers for the heads only": [
        piece("read", "", "x", 0),
        piece(None, A, index=0),
        piece("read", "", "y", 1),
        piece(None, B[:4], index=0),
        piece(None, B[4:], index=0),
    ],
    "another index with each piece": [
        *(piece("read", "", "x", 0), piece(None, A[:5], index=1), piece(None, A[5:], index=2)),
        *(piece("read", "", "y", 3), piece(None, B[:5], index=4), piece(None, B[5:], index=5)),
    ],
    "both again at the end": [piece("read", A, "x", 0), piece("read", B, "y", 1)] * 2,
    "both again at the end, without an index": [piece("read", A, "x", NONE), piece("read", B, "y", NONE)] * 2,
    "glued in one piece": [piece("read", A + B, "x")],
    "glued in two pieces": [piece("read", A, "x"), piece(None, B)],
    "one id for both": [piece("read", A, "x", 0), piece("read", B, "x", 1)],
    "a cut one, then another under its own id": [piece("read", A, "x", 0), piece("read", B, "y", 0)],
}


@rows.each("pieces", TWO_CALLS.values(), ids=list(TWO_CALLS))
def test_pieces_of_two_calls_are_two_calls_however_they_are_numbered(pieces: list[dict[str, Any]]) -> None:
    assert calls(*pieces) == [("read", A), ("read", B)]


def test_two_calls_without_arguments_stay_two() -> None:
    assert calls(piece("list", "{}", "x"), piece("list", "{}", "y")) == [("list", "{}"), ("list", "{}")]
    assert calls(piece("list", "", "x", 0), piece("list", "", "y", 1)) == [("list", ""), ("list", "")]


def test_unknown_fields_of_a_call_are_kept_from_any_piece() -> None:
    signed = {"google": {"thought_signature": "c2ln"}}
    made = PartialCalls()
    made.take(parse_piece(piece("write", "", "a")))
    made.take(parse_piece({"index": 0, "function": {"arguments": WHOLE, "thought_signature": "x"}}))
    made.take(parse_piece({"index": 0, "extra_content": signed}))

    assert [one.extra for one in made.all] == [{"function": {"thought_signature": "x"}, "extra_content": signed}]


def of_reply(*chunks: dict[str, Any]) -> list[tuple[str, str]]:
    assembly = ReplyAssembly()
    for one in chunks:
        assembly.take(one)
    return [(call.name, call.arguments) for call in assembly.reply(()).calls]


def delta(*pieces: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": list(pieces)}}]}


def test_pieces_without_anything_to_go_by_go_by_their_place_in_the_list() -> None:
    heads = delta(piece("read", "", "x", NONE), piece("read", "", "y", NONE))
    rest = [delta(piece(None, a, index=NONE), piece(None, b, index=NONE)) for a, b in ((A[:5], B[:5]), (A[5:], B[5:]))]

    assert of_reply(heads, *rest) == [("read", A), ("read", B)]


ODD_REPLIES = {
    "an empty entry": delta(None, piece("read", A, "x")),
    "a call that is not in a list": {"choices": [{"delta": {"tool_calls": piece("read", A, "x")}}]},
    "calls in the second choice": {
        "choices": [
            {"message": {"content": "I look."}, "finish_reason": "tool_calls"},
            {"message": {"content": None, "tool_calls": [piece("read", A, "x")]}, "finish_reason": "tool_calls"},
        ]
    },
    "the older word beside the newer": {
        "choices": [{"message": {"function_call": {"name": "read", "arguments": A}, "tool_calls": [piece("read", A)]}}]
    },
}


@rows.each("chunk", ODD_REPLIES.values(), ids=list(ODD_REPLIES))
def test_a_call_is_found_wherever_a_reply_has_it(chunk: dict[str, Any]) -> None:
    assert of_reply(chunk) == [("read", A)]


def test_legacy_function_call_is_read_in_pieces() -> None:
    pieces = [{"name": "read", "arguments": ""}, {"arguments": A[:5]}, {"arguments": A[5:]}]

    assert of_reply(*({"choices": [{"delta": {"function_call": one}}]} for one in pieces)) == [("read", A)]


@rows.each("text", ["", A[:5], A + B[:5], "not JSON", A + " and so on", "[1][2]"])
def test_unparsable_arguments_are_kept_unchanged(text: str) -> None:
    assert intended_arguments(text) == [text]
