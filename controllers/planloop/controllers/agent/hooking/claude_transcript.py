"""The file that Claude Code's hook scripts look into for what was said: one JSON line a message, oldest first.

Made anew from the agent's own transcript whenever such a script is asked, and replaced in one go. Nothing reads it but
those scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from planloop.controllers.agent.hooking import claude_names
from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.status import OpenTurn
from planloop.controllers.agent.thinking import prompting, transcript
from planloop.reconciler.storing import folders
from planloop.schemas import limits
from planloop.schemas.call import as_map
from planloop.schemas.encoding import Json, JsonObject, decode, encode

Blobs = Callable[[str], bytes | None]


def place(folder: Path, plan: str, agent: str) -> Path:
    """Where the transcript of `agent` is, for scripts: a file of its own, in folders like those of its address."""
    name = agent.removesuffix("/.")  # Of the top, `agent/.`, which no other agent is called.
    return folder / ".plan" / plan.partition("/")[2] / "transcripts" / f"{name}.jsonl"


def write(path: Path, seen: Observed, blobs: Blobs) -> None:
    """Writes what the agent has lived through, its newest end where it is long. Raises OSError."""
    lines: list[bytes] = []
    size = 0
    for message in reversed([*_messages(seen, blobs)]):
        line = encode(_line(message, seen.resource.address)) + b"\n"
        size += len(line)
        if size > limits.HOOK_TRANSCRIPT_BYTES_MAX:
            break
        lines.append(line)
    folders.make(path.parent)
    fresh = path.with_suffix(".new")
    folders.write(fresh, b"".join(reversed(lines)))
    fresh.replace(path)


def _messages(seen: Observed, blobs: Blobs) -> Iterator[JsonObject]:
    """Chat messages, those of the open turn too as far as it has come."""
    for chunk in seen.status.transcript.values():
        for line in (blobs(chunk.blob) or b"").splitlines():
            yield decode(line)
    opened = seen.status.open
    if opened is None:
        return
    if not seen.nature.is_model and seen.task_spec is not None:
        yield {"role": "user", "content": seen.task_spec.goal}
    for line in prompting.news_messages(opened):
        yield decode(line)
    yield from _reply(opened)


def _reply(opened: OpenTurn) -> Iterator[JsonObject]:
    """The reply of the open turn, and the results that its calls have so far."""
    if not opened.is_replied:
        return
    calls = [
        {"id": call.address, "function": {"name": call.tool, "arguments": as_map(call.arguments)}}
        for call in opened.calls
        if not call.is_implied
    ]
    yield {"role": "assistant", "content": opened.text or None, "tool_calls": calls}
    for call in opened.calls:
        if call.address in opened.results and not call.is_implied:
            text = transcript.result_text(opened.results[call.address])
            yield {"role": "tool", "tool_call_id": call.address, "content": text}


def _line(message: JsonObject, agent: str) -> JsonObject:
    """A chat message as a line of such a transcript."""
    match message["role"]:
        case "assistant":
            said = message.get("content") or []
            parts = said if isinstance(said, list) else [{"type": "text", "text": said}]
            text = [part for part in parts if part.get("type") == "text"]
            return _said("assistant", [*text, *map(_use, message.get("tool_calls") or ())], agent)
        case "tool":
            result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
            return _said("user", [result], agent)
        case _:
            return _said("user", message["content"], agent)


def _said(role: str, content: Json, agent: str) -> JsonObject:
    return {"type": role, "sessionId": agent, "message": {"role": role, "content": content}}


def _use(call: JsonObject) -> JsonObject:
    given = call["function"]["arguments"]
    arguments = decode(given) if isinstance(given, str) else given
    name = claude_names.name_of(str(call["function"]["name"]).replace(transcript.DOT, "."))
    return {"type": "tool_use", "id": call["id"], "name": name, "input": arguments}
