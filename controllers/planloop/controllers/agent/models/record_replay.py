"""Record models to a file and answer from it: `record/<file>@<model>` and `replay/<file>`.

A line has the request's key, digests of the prompt and of each message, and the reply or the failure. The key names
the same asking in every run of one plan; a prompt that differs then is `Diverged`, an asking that is on no line
`NotRecorded`. Replaying reads the file and nothing else. Prompts are not written, only replies.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from planloop.controllers.agent.models.port import ModelCall, ModelFailed, ModelReply, ModelRequest, OnDelta, TokenUsage
from planloop.schemas import canonical_json, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.objects.model import parse_model_name

DIGEST_CHARS: Final = 16
"""Of a message's digest: enough to tell the messages of one prompt apart."""

LINE_PREFIX: Final = b'{"key":'
"""Of every line: a slip in a file's name must not spoil a file of another kind."""

CompleteRequest = Callable[[ModelRequest, OnDelta | None], Awaitable[ModelReply]]


async def record_attempt(
    path: Path, ask: CompleteRequest, request: ModelRequest, on_delta: OnDelta | None
) -> ModelReply:
    """What `ask` gives, after it stands in the file at `path`. A cancelled attempt leaves a line that says so."""
    outcome: JsonObject = {"cancelled": True}
    try:
        reply = await ask(request, on_delta)
        outcome = {"reply": _reply_json(reply)}
        return reply
    except ModelFailed as failure:
        outcome = {"failed": _failure_json(failure)}
        raise
    finally:
        _append(path, {**_head(request), **outcome})


class ReplayedModels:
    """Answers from files of recordings, each read when it is first asked for and again when it has changed."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[tuple[int, int], dict[str, list[JsonObject]]]] = {}

    async def complete(self, path: Path, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """The recorded reply, or the recorded failure raised. Raises ModelFailed with NotRecorded or ReplayDiverged."""
        lines = self._lines(path).get(str(request.key), [])
        if not lines:
            raise ModelFailed("NotRecorded", f"{path.name} has no {request.key}: that asking was not made then")
        # A file may hold several runs; of those with this very prompt the last one counts.
        line = next((one for one in reversed(lines) if one["prompt"] == request.prompt_digest), None)
        if line is None:
            raise ModelFailed("Diverged", f"{request.key}: {prompt_difference(lines[-1], request)}")
        if "cancelled" in line:
            raise ModelFailed("NotRecorded", f"{path.name} has no reply to {request.key}: it was cancelled then")
        if "failed" in line:
            raise _failure(line["failed"])
        reply = _reply(line["reply"])
        if on_delta is not None and reply.text:
            on_delta(reply.text)
        return reply

    def model(self, path: Path) -> str:
        """The model that was recorded, when there is one file line at least; empty otherwise."""
        lines = next(iter(self._lines(path).values()), []) if path.is_file() else []
        return str(lines[-1]["model"]) if lines else ""

    def _lines(self, path: Path) -> dict[str, list[JsonObject]]:
        try:
            stat = path.stat()
            seen = (stat.st_mtime_ns, stat.st_size)
            known = self._read.get(path)
            if known is None or known[0] != seen:
                known = self._read[path] = (seen, _by_key(path))
        except OSError as fault:
            raise ModelFailed("NotRecorded", f"the recording {path} cannot be read: {fault.strerror}") from None
        return known[1]


def prompt_difference(line: JsonObject, request: ModelRequest) -> str:
    """A sentence on where the prompt of `request` leaves the recorded one."""
    real = parse_model_name(request.model).real
    if real and line["model"] != real:
        return f"it was recorded with {line['model']}, and is asked of {real}"
    if line["tools"] != _short(request.tools):
        return "the tools that are offered are not those of the recording"
    then, now = line["messages"], [_short(one) for one in request.messages]
    at = next((place for place, pair in enumerate(zip(then, now, strict=False)) if pair[0] != pair[1]), None)
    if at is not None:
        return f"message {at + 1} of {len(now)} is another than in the recording: {_shown(request.messages[at])}"
    if len(now) > len(then):
        return f"{len(now)} messages, {len(then)} in the recording; new is {_shown(request.messages[len(then)])}"
    return f"{len(now)} messages, {len(then)} in the recording"


def _head(request: ModelRequest) -> JsonObject:
    return {
        "key": str(request.key),
        "model": parse_model_name(request.model).real,
        "prompt": request.prompt_digest,
        "tools": _short(request.tools),
        "messages": [_short(one) for one in request.messages],
    }


def _append(path: Path, line: JsonObject) -> None:
    """One write at the end of the file, so that lines of several requests never mix."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        to = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)  # Prompts and answers of agents.
        try:
            os.write(to, _gap(path) + canonical_json.encode(line) + b"\n")
        finally:
            os.close(to)
    except OSError as fault:
        raise ModelFailed("BadRequest", f"the recording {path} cannot be written: {fault.strerror}") from None


def _gap(path: Path) -> bytes:
    """A line break where a crash or a full disk left half a line. Raises ModelFailed for a file of another kind."""
    with path.open("rb") as file:
        begin = file.read(len(LINE_PREFIX))
        if not begin:
            return b""
        if begin != LINE_PREFIX:
            raise ModelFailed("BadRequest", f"{path} is no recording, so nothing is added to it")
        file.seek(-1, os.SEEK_END)
        return b"" if file.read(1) == b"\n" else b"\n"


def _by_key(path: Path) -> dict[str, list[JsonObject]]:
    """The whole lines of a file; what a crash left of one is passed over."""
    found: dict[str, list[JsonObject]] = {}
    with path.open("rb") as file:
        lines = (line for line in file if line.startswith(LINE_PREFIX))  # A file of another kind is passed over fast.
        values = [value for line in lines if (value := _decoded(line)) is not None]
    for value in values:
        if isinstance(value, dict) and {"key", "model", "prompt", "tools", "messages"} <= value.keys():
            found.setdefault(str(value["key"]), []).append(value)
    return found


def _decoded(line: bytes) -> Json:
    """The value of a line, None for half a one."""
    try:
        return canonical_json.decode(line)
    except ValueError:
        return None


def _short(content: bytes) -> str:
    return canonical_json.sha256_hex(content)[:DIGEST_CHARS]


def _shown(message: bytes) -> str:
    text = message.decode(errors="replace")
    return text if len(text) <= limits.VALUE_SHOWN_CHARS else text[: limits.VALUE_SHOWN_CHARS] + "…"


def _reply_json(reply: ModelReply) -> JsonObject:
    calls = [
        {"id": call.id, "name": call.name, "arguments": call.arguments} | _extra(call.extra) for call in reply.calls
    ]
    out: JsonObject = {"text": reply.text, "calls": calls, "finish": reply.finish, "usage": _usage_json(reply.usage)}
    return out | _extra(reply.extra)


def _extra(extra: JsonObject) -> JsonObject:
    return {"extra": extra} if extra else {}


def _usage_json(usage: TokenUsage) -> JsonObject:
    return {
        "in": usage.tokens_in,
        "out": usage.tokens_out,
        "cached": usage.tokens_cached,
        "reasoning": usage.tokens_reasoning,
        "raw": usage.raw,
        "estimated": usage.is_estimated,
    }


def _failure_json(failure: ModelFailed) -> JsonObject:
    return {
        "reason": failure.reason,
        "message": str(failure),
        "transient": failure.is_transient,
        "retry-after": failure.retry_after_s,
        "usage": None if failure.usage is None else _usage_json(failure.usage),
    }


def _reply(raw: Json) -> ModelReply:
    calls = tuple(
        ModelCall(call["id"], call["name"], call["arguments"], call.get("extra", {})) for call in raw["calls"]
    )
    return ModelReply(raw["text"], calls, _usage(raw["usage"]), raw["finish"], raw.get("extra", {}))


def _usage(raw: Json) -> TokenUsage:
    return TokenUsage(raw["in"], raw["out"], raw["cached"], raw["reasoning"], raw["raw"], raw["estimated"])


def _failure(raw: Json) -> ModelFailed:
    return ModelFailed(
        raw["reason"],
        raw["message"],
        is_transient=raw["transient"],
        retry_after_s=raw["retry-after"],
        usage=None if raw["usage"] is None else _usage(raw["usage"]),
    )
