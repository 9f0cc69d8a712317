"""A step's reply in pieces: the deltas of a stream, the whole message, the usage."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.model_server.script import Question, Step, text_of

BYTES_A_TOKEN = 4


def calls_of(step: Step, question: Question) -> list[dict[str, Any]]:
    """The step's tool calls as the API has them. Ids follow from the conversation: each run makes the same ones."""
    turn = len(question.messages)
    return [
        {
            "id": call.get("id", f"call_{step.number}_{turn}_{place}"),
            "type": "function",
            "function": {"name": call["name"], "arguments": _arguments(call)},
        }
        for place, call in enumerate(step.reply.get("calls") or ())
    ]


def _arguments(call: dict[str, Any]) -> str:
    return str(call["raw"]) if "raw" in call else json.dumps(call.get("arguments") or {}, ensure_ascii=False)


def message_of(step: Step, question: Question) -> dict[str, Any]:
    """The reply as one message."""
    calls = calls_of(step, question)
    message: dict[str, Any] = {"role": "assistant", "content": step.reply.get("text", "" if not calls else None)}
    return message | ({"tool_calls": calls} if calls else {})


def deltas_of(step: Step, question: Question) -> list[dict[str, Any]]:
    """The reply as the deltas of a stream, without the closing one."""
    stated = step.reply.get("chunks")
    if stated is not None and any(isinstance(one, dict) for one in stated):
        return [one if isinstance(one, dict) else {"content": one} for one in stated]
    size = step.reply.get("split")
    texts = stated if stated is not None else cut(step.reply.get("text", ""), size)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text} for text in texts]
    for index, call in enumerate(calls_of(step, question)):
        deltas += [{"tool_calls": [{"index": index} | piece]} for piece in call_pieces(call, size)]
    return deltas


def call_pieces(call: dict[str, Any], size: int | None) -> list[dict[str, Any]]:
    """A tool call in the pieces of a stream: the head at once and the arguments after it, or all of it cut up."""
    function = call["function"]
    if size is None:
        head = {"id": call["id"], "type": "function", "function": {"name": function["name"], "arguments": ""}}
        return [head, {"function": {"arguments": function["arguments"]}}]
    return [
        *({"id": piece} for piece in cut(call["id"], size)),
        *({"function": {"name": piece}} for piece in cut(function["name"], size)),
        *({"function": {"arguments": piece}} for piece in cut(function["arguments"], size)),
    ]


def cut(text: str, size: int | None) -> list[str]:
    """`text` in pieces of `size` characters; whole without a size, nothing when empty."""
    if not text:
        return []
    return [text] if size is None else [text[at : at + size] for at in range(0, len(text), size)]


def finish_of(step: Step) -> str:
    """Why the reply ended."""
    return str(step.reply.get("finish", "tool_calls" if step.reply.get("calls") else "stop"))


def usage_of(step: Step, question: Question) -> dict[str, Any] | None:
    """Usage as the vendor words it: what the step says, else a count of bytes. None: the step wants none."""
    if step.usage is None:
        return None
    said = step.usage
    if "prompt_tokens" in said:
        return said
    tokens_in = int(said.get("in", sum(_size(text_of(one)) for one in question.messages)))
    tokens_out = int(said.get("out", _size(json.dumps(message_of(step, question)))))
    return {
        "prompt_tokens": tokens_in,
        "completion_tokens": tokens_out,
        "total_tokens": tokens_in + tokens_out,
        "prompt_tokens_details": {"cached_tokens": int(said.get("cached", 0))},
        "completion_tokens_details": {"reasoning_tokens": int(said.get("reasoning", 0))},
    }


def _size(text: str) -> int:
    return -(-len(text.encode()) // BYTES_A_TOKEN)


def error_of(step: Step) -> dict[str, Any]:
    """The body of a step that answers with an error status."""
    if isinstance(step.error, dict):
        return {"error": step.error}
    kind = "rate_limit_exceeded" if step.status == 429 else "server_error"
    return {"error": {"message": str(step.error or f"scripted {step.status}"), "type": kind, "code": kind}}
