"""What a server answered, as a call's result: text for the model, the rest as blobs that the text names.

The values are the SDK's, read by attribute, so that nothing here imports it. Long text is kept whole and shown clamped.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from reconciler.effects.clamping import clamped
from schemas import limits
from schemas.call import CallResult, CallState
from schemas.encoding import Json, encode_text

Keep = Callable[[bytes], str]
"""Keeps bytes as a blob; returns the digest."""


def result_of(answer: Any, keep: Keep) -> CallResult:
    """The result of a tool call. An answer that says that it is an error is Failed, with the server's words."""
    parts = list(_parts(answer.content, keep))
    structured: Json = answer.structured_content
    if structured is not None and not parts:
        parts = [encode_text(structured)]
    whole = "\n".join(part for part in parts if part).encode()
    shown = clamped(whole, limits.FILE_SHOWN_BYTES)
    is_cut = len(whole) > limits.FILE_SHOWN_BYTES
    blob = keep(whole) if is_cut else None
    if is_cut:
        shown += f"\n[the whole of it is blob {blob}]"
    if answer.is_error:
        return CallResult(CallState.FAILED, shown or "it failed and says no more", "ToolError", blob=blob)
    # What is large, or repeats a picture, is in the text or a blob already: the log keeps nothing twice.
    is_kept = all(part.type == "text" for part in answer.content) and not is_cut
    return CallResult(CallState.SUCCEEDED, shown, blob=blob, value=structured if is_kept else None)


def prompt_text(answer: Any, keep: Keep) -> str:
    """The text of a prompt; messages that are not the user's say whose they are."""
    lines = []
    for message in answer.messages:
        said = "\n".join(_parts([message.content], keep))
        lines.append(said if message.role == "user" else f"[{message.role}] {said}")
    return "\n\n".join(lines)


def resource_text(answer: Any, keep: Keep) -> str:
    """The text of a resource; parts that are no text are blobs."""
    return "\n".join(_contents(each, keep) for each in answer.contents)


def _parts(content: Iterable[Any], keep: Keep) -> Iterator[str]:
    for part in content:
        match part.type:
            case "text":
                yield str(part.text)
            case "image" | "audio":
                yield _binary(part.type, part.data, part.mime_type, keep)
            case "resource_link":
                yield f"[resource {part.uri} {part.name}]"
            case "resource":
                yield _contents(part.resource, keep)
            case other:
                yield f"[{other}: not shown]"


def _contents(contents: Any, keep: Keep) -> str:
    text = getattr(contents, "text", None)
    return str(text) if text is not None else _binary("data", contents.blob, contents.mime_type, keep)


def _binary(kind: str, data: str, media_type: str | None, keep: Keep) -> str:
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError:
        return f"[{kind} that is not base64: left out]"
    return f"[{kind} {media_type or 'of no stated type'}, {len(content)} bytes: blob {keep(content)}]"
