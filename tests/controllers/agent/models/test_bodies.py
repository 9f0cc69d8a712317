"""Bodies with status 200 from providers and gateways: which are replies, and what the others mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planloop.controllers.agent.models import reply_assembly
from planloop.controllers.agent.models.reply_assembly import ReplyAssembly
from planloop.controllers.agent.models.response_stream import BodyReader, EventStreamReader, NotAnEventStream
from tests import rows
from tests.controllers.agent.models.test_openai_chat import asked
from tests.golden_text import said
from tests.product import ModelFailed

pytestmark = pytest.mark.anyio

WHOLE = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}]}


def event(value: Any, end: str = "\n\n") -> str:
    return f"data: {json.dumps(value)}{end}"


def delta(content: str | None = None, finish: Any = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": finish}], **more}


HALF, END, DONE = event(delta("yes")), event(delta(finish="stop")), "data: [DONE]\n\n"
REFUSAL = {"type": "refusal", "refusal": "yes"}
REPLIES = {
    "a stream": HALF + END + DONE,
    "no [DONE]": HALF + END,
    "no empty line at the end": HALF + END.rstrip(),
    "a byte order mark": "\ufeff" + HALF + END + DONE,
    "CRLF": (HALF + END + DONE).replace("\n", "\r\n"),
    "CR alone": (HALF + END + DONE).replace("\n", "\r"),
    "no space after the colon": (HALF + END + DONE).replace("data: ", "data:"),
    "comments": f": OPENROUTER PROCESSING\n\n:\n{HALF}: more\n\n{END}{DONE}",
    "empty data": f"data:\n\n{HALF}data\n\ndata: \n\n{END}{DONE}",
    "names, ids and times": f"id: 1\nevent: message\nretry: 3\n{HALF}id: 2\n{END}{DONE}",
    "pings": f"event: ping\ndata: ping\n\n{HALF}event: keepalive\ndata: {{}}\n\n{END}{DONE}",
    "data in several lines": 'data: {"choices": [{"delta":\ndata: {"content": "yes"},\n'
    'data: "finish_reason": "stop"}]}\n\n',
    "blanks before the first event": "\n\n\n" + HALF + END + DONE,
    "a whole reply": json.dumps(WHOLE),
    "a whole reply after blanks": "\n \n" + json.dumps(WHOLE, indent=1) + "\n",
    "a whole reply with a byte order mark": "\ufeff" + json.dumps(WHOLE),
    "errors that are none": event(delta("yes", error=None)) + event(delta(finish="stop", error={})) + DONE,
    "a message beside the deltas": HALF
    + event({"choices": [{"delta": {}, "message": {"content": "yes"}, "finish_reason": "stop"}]}),
    "a message in a stream": event(WHOLE) + DONE,
    "keep-alives as data": f"data: : keepalive\n\ndata: ping\n\n{HALF}data: [HEARTBEAT]\n\n{END}{DONE}",
    "a keep-alive with a message": f'{HALF}event: ping\ndata: {{"message": "alive"}}\n\n{END}{DONE}',
    "[DONE] in small letters": HALF + END + "data: [done]\n\n",
    "[DONE] without brackets": HALF + END + "data: DONE\n\n",
    "[DONE] as a text": HALF + END + 'data: "[DONE]"\n\n',
    "[DONE] without data": HALF + END + "[DONE]\n\n",
    "data twice": (HALF + END + DONE).replace("data: ", "data: data: "),
    "blanks before data": (HALF + END + DONE).replace("data: ", "  data: "),
    "data in capitals": (HALF + END + DONE).replace("data: ", "DATA: "),
    "a byte order mark at each event": "\ufeff" + HALF + "\ufeff" + END + DONE,
    "two events in a line": HALF.strip() + " " + END + DONE,
    "line ends that are escaped": HALF.strip() + "\\n\\n" + END + DONE,
    "lines of JSON": (HALF + END).replace("data: ", "").replace("\n\n", "\n"),
    "lines of JSON and [DONE]": (HALF + END + DONE).replace("data: ", ""),
    "a first event without data": HALF.removeprefix("data: ") + END + DONE,
    "JSON values without a line between": (HALF + END).replace("data: ", "").replace("\n\n", ""),
    "a list of chunks": json.dumps([delta("yes"), delta(finish="stop")]),
    "a whole reply and [DONE]": json.dumps(WHOLE) + "\n\n" + DONE,
    "a tab in a text": HALF + 'data: {"x": "a\tb", "choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n',
    "numbers that are none": HALF.replace('"index": 0', '"logprob": [NaN, -Infinity]') + END + DONE,
    "the end as an object": HALF + event(delta(finish={"type": "stop", "matched": 2})) + DONE,
    "the end in the delta": HALF + event({"choices": [{"delta": {"finish_reason": "stop"}}]}),
    "the end in another spelling": HALF + event({"choices": [{"delta": {}, "finishReason": "STOP"}]}),
    "the text null for no end": event(delta("yes", "null")) + END + DONE,
    "the text of the older API": event({"choices": [{"text": "yes", "finish_reason": "stop"}]}) + DONE,
    "a refusal as a part": event({"choices": [{"message": {"content": [REFUSAL]}}]}) + END + DONE,
    "the end in capitals": HALF + event(delta(finish="STOP")) + DONE,
}


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json", "text/plain"])
async def test_reply_is_read_for_any_content_type(kind: str) -> None:
    steps = [{"garbage": body, "headers": {"Content-Type": kind}} for body in REPLIES.values()]
    async with asked(steps) as on:
        found = {name: (await on.complete()).text for name in REPLIES}

    assert found == dict.fromkeys(REPLIES, "yes")


@pytest.mark.parametrize("digits", [19, 300, 400, 5_000])
async def test_a_count_of_any_length_bills_the_estimate(digits: int) -> None:
    usage = f'"usage": {{"prompt_tokens": {"9" * digits}, "completion_tokens": {"9" * digits}}}'
    bodies = [event(delta("yes", "stop"))[:-3] + f", {usage}}}\n\n" + DONE, json.dumps(WHOLE)[:-1] + f", {usage}}}"]
    async with asked([{"garbage": body, "headers": {"Content-Type": "text/event-stream"}} for body in bodies]) as on:
        for _ in bodies:
            reply = await on.complete()
            assert (reply.text, reply.usage.is_estimated, reply.usage.tokens_out) == ("yes", True, 1)


async def test_a_bare_done_is_a_cut_where_the_server_has_stated_an_end_before() -> None:
    counted = event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}})
    bodies = [HALF + DONE, HALF + END + DONE, HALF + counted + DONE, HALF + DONE, DONE]
    async with asked([{"garbage": body, "headers": {"Content-Type": "text/event-stream"}} for body in bodies]) as on:
        assert [(await on.complete()).text for _ in range(3)] == ["yes"] * 3
        for _ in range(2):
            with pytest.raises(ModelFailed) as caught:
                await on.complete()
            assert (caught.value.reason, caught.value.is_transient) == ("CutOff", True)


@rows.each("body", REPLIES.values(), ids=list(REPLIES))
def test_a_body_gives_the_same_payloads_in_pieces_of_one_byte(body: str) -> None:
    content = body.encode()
    whole, cut = BodyReader(), BodyReader()
    found = [one for at in range(len(content)) for one in cut.feed(content[at : at + 1])] + cut.end()

    assert found == whole.feed(content) + whole.end()
    assert found


ERROR = {"code": 502, "message": "upstream"}
BROKEN: dict[str, tuple[str, str, bool]] = {
    "an error beside choices": (HALF + event(delta("", "error", error=ERROR)), "Overloaded", True),
    "an error in the choice": (
        event({"choices": [{"delta": {}, "finish_reason": "error", "error": ERROR}]}),
        "Overloaded",
        True,
    ),
    "an error in the choice of a whole reply": (
        json.dumps({"choices": [{"message": {"content": "I will n"}, "finish_reason": "error", "error": ERROR}]}),
        "Overloaded",
        True,
    ),
    "an error after calls": (
        event({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "read"}}]}}]})
        + event({"error": ERROR}),
        "Overloaded",
        True,
    ),
    "an error in place of choices": (json.dumps({"error": ERROR}), "Overloaded", True),
    "an error in a list": (json.dumps([{"error": {"code": 429, "message": "slow down"}}]), "RateLimited", True),
    "an error as text": (json.dumps({"error": "model is loading"}), "Overloaded", True),
    "an error with a name": (HALF + event({"error": {"type": "overloaded_error", "message": "x"}}), "Overloaded", True),
    "an error event": (
        HALF + 'event: error\ndata: {"type": "rate_limit_error", "message": "x"}\n\n',
        "RateLimited",
        True,
    ),
    "an error event of text": (HALF + "event: error\ndata: upstream gone\n\n" + DONE, "Overloaded", True),
    "an error event without data": (HALF + "event: error\n\n" + DONE, "Overloaded", True),
    "an error event with null": (HALF + "event: error\ndata: null\n\n" + DONE, "Overloaded", True),
    "an error in the delta": (event({"choices": [{"delta": {"error": ERROR}}]}), "Overloaded", True),
    "an error in the second choice": (event({"choices": [{"delta": {}}, {"error": ERROR}]}), "Overloaded", True),
    "an error that is true": (json.dumps({"error": True, "message": "slow down", "code": 429}), "RateLimited", True),
    "an error as text with its code beside": (json.dumps({"error": "no", "status": 401}), "Refused", False),
    "Cloudflare's errors": (json.dumps({"success": False, "errors": [{"code": 429}]}), "RateLimited", True),
    "Apigee's fault": (
        json.dumps({"fault": {"faultstring": "x", "detail": {"errorcode": "policies.ratelimit.QuotaViolation"}}}),
        "RateLimited",
        True,
    ),
    "MiniMax's rate beside choices": (
        json.dumps({"choices": [{"message": {"content": ""}}], "base_resp": {"status_code": 1002}}),
        "RateLimited",
        True,
    ),
    "MiniMax's balance": (json.dumps({"base_resp": {"status_code": 1008, "status_msg": "x"}}), "Refused", False),
    "a filter": (json.dumps({"error": {"code": "content_filter", "message": "x"}}), "Filtered", False),
    "what OpenRouter's provider said": (
        json.dumps({"error": {"code": 400, "message": "x", "metadata": {"raw": '{"error": "prompt is too long"}'}}}),
        "ContextTooLong",
        False,
    ),
    "an error field": ('error: {"code": 500, "message": "failed to decode"}\n\n', "Overloaded", True),
    "vLLM's error": (event({"object": "error", "message": "bad", "code": 400}) + DONE, "BadRequest", False),
    "a gateway's message": (json.dumps({"statusCode": 429, "message": "try again in 26 s"}), "RateLimited", True),
    "FastAPI's detail": (json.dumps({"detail": "nothing here"}), "Overloaded", True),
    "a key that is refused": (json.dumps({"error": {"code": "invalid_api_key", "message": "no"}}), "Refused", False),
    "a prompt too long": (HALF + event({"error": {"code": "context_length_exceeded"}}), "ContextTooLong", False),
    "no choices": (json.dumps({"id": "x", "choices": None}), "Garbage", True),
    "half a whole reply": (json.dumps(WHOLE)[:40], "Garbage", True),
    "a page": ("<html>hello</html>", "Garbage", True),
    "text": ("upstream connect error", "Garbage", True),
}


async def test_an_error_with_status_200_is_a_failed_attempt_in_each_of_its_forms() -> None:
    async with asked([{"garbage": body} for body, _, _ in BROKEN.values()]) as on:
        found = {name: await on.failure() for name in BROKEN}

    assert {name: (failed.reason, failed.is_transient) for name, failed in found.items()} == {
        name: (reason, is_transient) for name, (_, reason, is_transient) in BROKEN.items()
    }


async def test_a_wait_that_only_the_body_states_is_kept() -> None:
    async with asked([{"garbage": BROKEN["a gateway's message"][0]}]) as on:
        assert (await on.failure()).retry_after_s == 26.0


ENDS = {
    "error": "CutOff",
    "abort": "CutOff",
    "insufficient_system_resource": "CutOff",
    "malformed_function_call": "CutOff",
    "MALFORMED_FUNCTION_CALL": "CutOff",
    "unknown": "CutOff",
    "other": "CutOff",
    "content_filter": "Filtered",
    "SAFETY": "Filtered",
    "refusal": "Filtered",
    "PROHIBITED_CONTENT": "Filtered",
}


async def test_a_reply_that_did_not_end_well_is_a_failed_attempt_and_billed() -> None:
    stream = [{"reply": {"text": "I will now ", "finish": word}} for word in ENDS]
    calls = [{"reply": {"calls": [{"name": "read", "id": "c"}], "finish": word}} for word in ENDS]
    async with asked([*stream, *calls]) as on:
        found = [(await on.failure()) for _ in (*ENDS, *ENDS)]

    assert [(failed.reason, failed.is_transient) for failed in found] == [
        (reason, True) for reason in ENDS.values()
    ] * 2
    assert all(failed.usage is not None and failed.usage.tokens_out for failed in found)
    said([str(failed).replace(on.server.url, "URL") for failed in (found[0], found[7])])


SPELLINGS = {
    "stop": "stopped endTurn EndTurn eosFound end_of_turn STOP_SEQUENCE normal",
    "tool_calls": "toolUse ToolCalls tool-calls function_call",
    "length": "maxTokens MaxTokens length_limit context_length_exceeded",
    "content_filter": "guardrailIntervened content-filter ERROR_TOXIC SPII",
    "broken": "cancelled UNEXPECTED_TOOL_CALL repetition network_error",
    "": "null None unspecified FINISH_REASON_UNSPECIFIED",
}


@rows.each(("kind", "words"), SPELLINGS.items(), ids=list(SPELLINGS))
def test_finish_reason_is_known_in_each_spelling(kind: str, words: str) -> None:
    assert {word: reply_assembly.finish_kind(word) for word in words.split()} == dict.fromkeys(words.split(), kind)


async def test_a_malformed_call_that_a_gateway_reports_as_stop_is_a_failed_attempt() -> None:
    choice = {"delta": {}, "finish_reason": "stop", "native_finish_reason": "MALFORMED_FUNCTION_CALL"}
    async with asked([{"garbage": HALF + event({"choices": [choice]}) + DONE}]) as on:
        assert (await on.failure()).reason == "CutOff"


def test_whole_reply_repeated_with_its_end_is_taken_once() -> None:
    long, short = "This is the whole answer.", "ha"
    for text, found in ((long, long), (short, short * 2)):
        assembly = ReplyAssembly()
        for one in (delta(text), delta(text, "stop")):
            assembly.take(one)
        assert assembly.text == found


def test_thoughts_in_a_message_beside_the_deltas_are_returned_once() -> None:
    assembly = ReplyAssembly()
    assembly.take({"choices": [{"delta": {"reasoning_content": "hm"}}]})
    assembly.take({"choices": [{"delta": {}, "message": {"content": "yes", "reasoning_content": "hm"}}]})

    assert (assembly.text, assembly.reply(()).extra) == ("yes", {"reasoning_content": "hm"})


def test_invalid_utf_8_byte_costs_one_character() -> None:
    assert EventStreamReader().feed(b'data: {"a": "x\xff"}\n\n') == [{"a": "x\N{REPLACEMENT CHARACTER}"}]


GOOD_ENDS = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "COMPLETE": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "MAX_TOKENS": "length",
    "": "stop",
}


async def test_ending_of_a_reply_is_reported_in_one_vocabulary() -> None:
    async with asked([{"reply": {"text": "a", "finish": word}} for word in GOOD_ENDS]) as on:
        found = {word: (await on.complete()).finish for word in GOOD_ENDS}

    assert found == GOOD_ENDS


def test_unnamed_event_with_invalid_json_is_refused() -> None:
    with pytest.raises(NotAnEventStream):
        EventStreamReader().feed(b"data: hello\n\n")
