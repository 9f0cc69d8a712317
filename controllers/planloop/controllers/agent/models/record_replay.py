"""Record models to a file and answer from it: `record/<file>@<model>` and `replay/<file>`.

Each line has the key of the request, digests of the prompt and of each message, and the reply or the failure. The key
is the same for the same request in every run of a plan. If the prompt differs, the replay fails with `Diverged`; if no
line has the key, with `NotRecorded`. A replay reads only the file. Replies are recorded, prompts are not.
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
"""Enough of a digest to distinguish the messages of one prompt."""

LINE_PREFIX: Final = b'{"key":'
"""The beginning of every line. It is checked, so that a wrong file name does not damage a file of another kind."""

CompleteRequest = Callable[[ModelRequest, OnDelta | None], Awaitable[ModelReply]]


async def record_attempt(
    path: Path, ask: CompleteRequest, request: ModelRequest, on_delta: OnDelta | None
) -> ModelReply:
    """Return the reply of `ask` after appending it to the file at `path`; failures and cancellations are kept too."""
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
    """Answers from recordings. Each file is read when it is first needed, and again after it has changed."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[tuple[int, int], dict[str, list[JsonObject]]]] = {}

    async def complete(self, path: Path, request: ModelRequest, on_delta: OnDelta | None = None) -> ModelReply:
        """Return the recorded reply, or raise the recorded failure. Raises ModelFailed: NotRecorded, Diverged."""
        lines = self._lines(path).get(str(request.key), [])
        if not lines:
            text = f"{path.name} has no request {request.key}: the recorded run did not make it"
            raise ModelFailed("NotRecorded", text)
        # A file may have several runs. The last one with the same prompt counts.
        line = next((one for one in reversed(lines) if one["prompt"] == request.prompt_digest), None)
        if line is None:
            raise ModelFailed("Diverged", f"{request.key}: {prompt_difference(lines[-1], request)}")
        if "cancelled" in line:
            text = f"{path.name} has no reply to {request.key}: the request was cancelled in the recorded run"
            raise ModelFailed("NotRecorded", text)
        if "failed" in line:
            raise _failure(line["failed"])
        reply = _reply(line["reply"])
        if on_delta is not None and reply.text:
            on_delta(reply.text)
        return reply

    def model(self, path: Path) -> str:
        """The recorded model; empty if the file has no line."""
        lines = next(iter(self._lines(path).values()), []) if path.is_file() else []
        return str(lines[-1]["model"]) if lines else ""

    def _lines(self, path: Path) -> dict[str, list[JsonObject]]:
        try:
            stat = path.stat()
            seen = (stat.st_mtime_ns, stat.st_size)
            known = self._read.get(path)
            if known is None or known[0] != seen:
                known = self._read[path] = (seen, _by_key(path))
        except OSError as error:
            raise ModelFailed("NotRecorded", f"the recording {path} cannot be read: {error.strerror}") from None
        return known[1]


def prompt_difference(line: JsonObject, request: ModelRequest) -> str:
    """The first difference between the prompt of `request` and the recorded one, as text."""
    real = parse_model_name(request.model).real
    if real and line["model"] != real:
        return f"the recording is of {line['model']}, not of {real}"
    if line["tools"] != _short(request.tools):
        return "the declared tools differ from those in the recording"
    then, now = line["messages"], [_short(one) for one in request.messages]
    at = next((place for place, pair in enumerate(zip(then, now, strict=False)) if pair[0] != pair[1]), None)
    if at is not None:
        return f"message {at + 1} of {len(now)} differs from the recording: {_shown(request.messages[at])}"
    if len(now) > len(then):
        new = _shown(request.messages[len(then)])
        return f"{len(now)} messages, {len(then)} in the recording; the first new one is {new}"
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
    """Append a line in one write, so that lines of several requests never mix."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        to = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)  # Prompts and answers of agents.
        try:
            os.write(to, _gap(path) + canonical_json.encode(line) + b"\n")
        finally:
            os.close(to)
    except OSError as error:
        raise ModelFailed("BadRequest", f"the recording {path} cannot be written: {error.strerror}") from None


def _gap(path: Path) -> bytes:
    """A line break if a crash or full disk left half a line. Raises ModelFailed for a file of another kind."""
    with path.open("rb") as file:
        begin = file.read(len(LINE_PREFIX))
        if not begin:
            return b""
        if begin != LINE_PREFIX:
            raise ModelFailed("BadRequest", f"{path} is not a recording, so nothing was added to it")
        file.seek(-1, os.SEEK_END)
        return b"" if file.read(1) == b"\n" else b"\n"


def _by_key(path: Path) -> dict[str, list[JsonObject]]:
    """The complete lines of a file, by key; half lines from a crash are ignored."""
    found: dict[str, list[JsonObject]] = {}
    with path.open("rb") as file:
        lines = (line for line in file if line.startswith(LINE_PREFIX))  # Skips files of another kind without parsing.
        values = [value for line in lines if (value := _decoded(line)) is not None]
    for value in values:
        if isinstance(value, dict) and {"key", "model", "prompt", "tools", "messages"} <= value.keys():
            found.setdefault(str(value["key"]), []).append(value)
    return found


def _decoded(line: bytes) -> Json:
    """The value of a line; None for half a line."""
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
