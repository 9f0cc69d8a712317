"""Convert a tool server's answer into a call result: text for the model, other content as blobs. Pure.

The values are the server's own JSON (`planloop.controllers.mcp.lenient_results`), which may lack or misspell anything:
what is not in the form of the protocol is shown as it came. Long text is kept whole and shown clamped.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Final

from planloop.reconciler.effects.truncate import truncate_output
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.call import CallResult, CallState

KeepBlob = Callable[[bytes], str]
"""Keeps bytes as a blob; returns the digest."""
UNREADABLE: Final = "planloop/unreadable"
"""The member of a result of ours that says why the server's own could not be read."""
_ENVELOPE: Final = frozenset({"content", "structuredContent", "isError", "resultType", "_meta", UNREADABLE})


@frozen
class ToolServerAnswer:
    """The result of a call. `note` is what its reader should know besides; empty if there is nothing."""

    result: JsonObject
    note: str = ""


def call_result(answer: ToolServerAnswer, keep: KeepBlob) -> CallResult:
    """The result of a tool call. An answer that says that it is an error is Failed, with the server's words."""
    told = answer.result
    parts = list(_parts(told.get("content"), keep))
    structured: Json = told.get("structuredContent")
    # What repeats a picture is in a blob already.
    is_text = all(content_kind(part) == "text" for part in _listed(told.get("content")))
    if structured is not None and is_text and not _says(parts, structured):
        parts.append(encode_text(structured))
    if others := {name: value for name, value in told.items() if name not in _ENVELOPE and value is not None}:
        parts += [] if any(parts) else [encode_text(others)]
    notes = [note for note in (_why_unreadable(told), answer.note) if note]
    whole = "\n".join((*(part for part in parts if part), *notes)).encode()
    shown = truncate_output(whole, limits.FILE_SHOWN_BYTES)
    is_cut = len(whole) > limits.FILE_SHOWN_BYTES
    blob = keep(whole) if is_cut else None
    if is_cut:
        shown += f"\n[the whole of it is blob {blob}]"
    if told.get("isError") in (True, "true"):
        return CallResult(CallState.FAILED, shown or "it failed and says no more", "ToolError", blob=blob)
    # What is large is in the text or a blob already: the log keeps nothing twice.
    value = structured if is_text and not is_cut else None
    return CallResult(CallState.SUCCEEDED, shown, blob=blob, value=value)


def prompt_text(answer: JsonObject, keep: KeepBlob) -> str:
    """The text of a prompt; messages that are not the user's say whose they are."""
    lines = []
    for message in _listed(answer.get("messages")):
        each = message if isinstance(message, dict) else {"content": message}
        said = "\n".join(_parts(each.get("content"), keep))
        role = str(each.get("role") or "user")
        lines.append(said if role == "user" else f"[{role}] {said}")
    return "\n\n".join(lines)


def resource_text(answer: JsonObject, keep: KeepBlob) -> str:
    """The text of a resource; parts that are no text are blobs."""
    return "\n".join(_contents(each, keep) for each in _listed(answer.get("contents")))


def _why_unreadable(told: JsonObject) -> str:
    why = told.get(UNREADABLE)
    return f"[the server answered, so the call was made, but the answer cannot be read: {why}]" if why else ""


def _says(parts: list[str], structured: Json) -> bool:
    """Whether the text has all that is in the structured content: servers send it twice, for older clients."""
    text = "\n".join(parts)
    return bool(text.strip()) and all(leaf in text for leaf in _leaves(structured))


def _leaves(value: Json) -> Iterator[str]:
    """The texts and numbers in `value`, as a text would have them."""
    match value:
        case dict() | list():
            for item in value.values() if isinstance(value, dict) else value:
                yield from _leaves(item)
        case str():
            yield encode_text(value)[1:-1] if "\n" in value or '"' in value else value
        case bool() | None:
            pass
        case _:
            yield encode_text(value)


def _listed(value: Json) -> list[Json]:
    """Parts of a content: some servers send one part, or its text, instead of a list."""
    return value if isinstance(value, list) else [] if value is None else [value]


def content_kind(part: Json) -> str:
    """The type of a part: what it says, or what its members show."""
    if not isinstance(part, dict):
        return "text"
    kind = part.get("type")
    return kind if isinstance(kind, str) else "text" if isinstance(part.get("text"), str) else "unknown"


def _parts(content: Json, keep: KeepBlob) -> Iterator[str]:
    for part in _listed(content):
        if not isinstance(part, dict):
            yield part if isinstance(part, str) else "" if part is None else encode_text(part)
            continue
        match content_kind(part):
            case "text":
                yield _text(part.get("text"))
            case "image" | "audio" as kind:
                yield _binary(kind, part.get("data"), part.get("mimeType"), keep)
            case "resource_link":
                yield f"[resource {part.get('uri')} {part.get('name') or ''}".rstrip() + "]"
            case "resource":
                yield _contents(part.get("resource"), keep)
            case kind:
                yield _other(kind, part)


def _text(value: Json) -> str:
    return value if isinstance(value, str) else "" if value is None else encode_text(value)


def _other(kind: str, part: JsonObject) -> str:
    """A part of an unknown kind: a model can read what it says, and no long encoded data."""
    rest = {name: value for name, value in part.items() if name != "type" and not _is_long(value)}
    return f"[{kind}: {encode_text(rest)}]" if rest else f"[{kind}: not shown]"


def _is_long(value: Json) -> bool:
    return isinstance(value, str) and len(value) > limits.SERVER_PART_CHARS_MAX and " " not in value[:1000]


def _contents(contents: Json, keep: KeepBlob) -> str:
    if not isinstance(contents, dict):
        return _text(contents)
    if contents.get("text") is not None:
        return _text(contents["text"])
    if contents.get("blob") is not None:
        return _binary("data", contents["blob"], contents.get("mimeType"), keep)
    return f"[resource {contents.get('uri') or 'without an address'}: it has no content]"


def _binary(kind: str, data: Json, media_type: Json, keep: KeepBlob) -> str:
    try:
        content = base64.b64decode(data, validate=True) if isinstance(data, str) else None
    except ValueError:
        content = None
    if content is None:
        return f"[{kind} that is not base64: left out]"
    return f"[{kind} {media_type or 'of no stated type'}, {len(content)} bytes: blob {keep(content)}]"
