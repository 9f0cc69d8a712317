"""Calls that a model wrote as text, in the notations of the models that do so."""

from __future__ import annotations

import json
import time

from planloop.controllers.agent.models.port import ModelCall, ModelReply
from planloop.controllers.agent.models.text_calls import calls_from_text
from planloop.schemas import canonical_json, limits
from tests import rows

PROPERTIES = {"path": {"type": "string"}, "lines": {"type": "integer"}}
READ = {"name": "read", "parameters": {"type": "object", "properties": PROPERTIES}}
TOOLS = canonical_json.encode([{"type": "function", "function": one} for one in (READ, {"name": "list"})])
JSON = '{"name": "read", "arguments": {"path": "a"}}'
INVOKE = '<invoke name="read">\n<parameter name="path">a</parameter>\n</invoke>'
CODER = "<function=read>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>"
NOTATIONS = {
    "Hermes": f"<tool_call>\n{JSON}\n</tool_call>",
    "Hermes, after a sentence": f"I will look.\n\n<tool_call>\n{JSON}\n</tool_call>",
    "Hermes, without its end": f"<tool_call>\n{JSON}",
    "Hermes, after thoughts": f"<think>a <tool_call>?</think>\n<tool_call>{JSON}</tool_call>",
    "arguments as text": r'<tool_call>{"name": "read", "arguments": "{\"path\": \"a\"}"}</tool_call>',
    "Qwen Coder": f"<tool_call>\n{CODER}",
    "Qwen Coder, without its beginning": CODER,
    "Llama, older": '<function=read>{"path": "a"}</function>',
    "Llama": '{"name": "read", "parameters": {"path": "a"}}',
    "Llama, marked": '<|python_tag|>{"name": "read", "parameters": {"path": "a"}}<|eom_id|>',
    "OpenAI's form": '{"type": "function", "function": {"name": "read", "arguments": {"path": "a"}}}',
    "MiniMax": f"<minimax:tool_call>\n{INVOKE}\n</minimax:tool_call>",
    "Claude": f"<function_calls>\n{INVOKE}\n</function_calls>",
    "Mistral": f"[TOOL_CALLS][{JSON}]",
    "Mistral, newer": '[TOOL_CALLS]read[ARGS]{"path": "a"}',
    "Mistral, with an id": '[TOOL_CALLS]read[CALL_ID]abcdefghi[ARGS]{"path": "a"}',
    "Kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
    '{"path": "a"}<|tool_call_end|><|tool_calls_section_end|>',
    "DeepSeek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n```json\n"
    '{"path": "a"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "GLM": "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
    "gpt-oss": '<|channel|>commentary to=functions.read <|constrain|>json<|message|>{"path": "a"}<|call|>',
}


@rows.each("text", NOTATIONS.values(), ids=list(NOTATIONS))
def test_a_call_in_the_text_is_a_call_in_every_notation(text: str) -> None:
    reply = calls_from_text(ModelReply(text), TOOLS)

    assert [(call.name, json.loads(call.arguments)) for call in reply.calls] == [("read", {"path": "a"})]
    assert reply.finish == "tool_calls"


def test_text_before_a_call_stays_and_several_calls_are_several() -> None:
    reply = calls_from_text(ModelReply(f"I look.\n<tool_call>{JSON}</tool_call>\n<tool_call>{JSON}</tool_call>"), TOOLS)

    assert (reply.text, len(reply.calls)) == ("I look.", 2)
    assert (
        len(calls_from_text(ModelReply(f'[TOOL_CALLS][{JSON}, {{"name": "list", "arguments": {{}}}}]'), TOOLS).calls)
        == 2
    )


def test_a_parameter_has_the_type_that_its_tool_wants() -> None:
    text = "<function=read><parameter=path>3</parameter><parameter=lines>3</parameter></function>"

    assert json.loads(calls_from_text(ModelReply(text), TOOLS).calls[0].arguments) == {"path": "3", "lines": 3}


NO_CALLS = {
    "an example in a fence": f"Write it so:\n```xml\n<tool_call>{JSON}</tool_call>\n```",
    "an example in a line": f"Use `<tool_call>{JSON}</tool_call>`",
    "an example with more text": f"<tool_call>{JSON}</tool_call>\nThat is a call.",
    "a tool that was not offered": '<tool_call>{"name": "push", "arguments": {}}</tool_call>',
    "a call that is cut": '<tool_call>{"name": "read", "argum',
    "JSON that is an answer": '{"name": "read", "age": 3}',
    "marks without a call": "<tool_call></tool_call>",
    "more than any reply has": f"<tool_call>{JSON}</tool_call>" * (limits.TEXT_CALLS_MAX + 1),
}


@rows.each("text", NO_CALLS.values(), ids=list(NO_CALLS))
def test_other_text_stays_text(text: str) -> None:
    assert calls_from_text(ModelReply(text), TOOLS) == ModelReply(text)


def test_text_is_kept_beside_real_calls_in_a_cut_reply_and_without_tools() -> None:
    text = NOTATIONS["Hermes"]
    for reply, tools in (
        (ModelReply(text, (ModelCall("x", "list", "{}"),)), TOOLS),
        (ModelReply(text, finish="length"), TOOLS),
        (ModelReply(text), b""),
    ):
        assert calls_from_text(reply, tools) == reply


HOSTILE = (
    '<invoke name="read">',
    "<function=read></function>",
    "<parameter=x",
    '<parameter name="x" ',
    "<arg_key>a</arg_key><arg_value>",
    "<tool_call>",
    "[",
    "functions.",
    " ",
    "1",
)


@rows.each("piece", HOSTILE)
def test_a_text_made_to_be_slow_takes_no_time(piece: str) -> None:
    begin = time.process_time()
    for head in ("<tool_call>", "<function=read>", "[TOOL_CALLS]read"):
        calls_from_text(ModelReply(head + piece * (50_000 // len(piece)) + "</function>"), TOOLS)

    assert time.process_time() - begin < 0.5
