"""The transcript of a watched agent as hooks may see it: the newest turns, or messages with a text in them. Pure.

A hook says in the plan how much it is shown with each question (`transcript`); an agent behind a hook may look for more
by the tool of that name. Turns that were made shorter are shown as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from planloop.controllers.agent.status import AgentStatus, OpenTurn, PastCall
from planloop.controllers.agent.thinking import compacting, transcript
from planloop.reconciler.effects.clamping import clamped
from planloop.schemas import limits, patterns
from planloop.schemas.call import CallResult, as_map
from planloop.schemas.encoding import Json, JsonObject, decode, encode
from planloop.schemas.frozen import frozen

Blobs = Callable[[str], bytes | None]

TURNS_DEFAULT: Final = 10
CHARS_DEFAULT: Final = 1_000


@frozen
class Excerpt:
    """What is wanted: messages of the newest `turns`, or of the one turn `only`, in which `match` occurs.

    `match` is a text with stars, whatever the case; empty, all. A text is cut to `chars` characters.
    """

    turns: int = TURNS_DEFAULT
    match: str = ""
    chars: int = CHARS_DEFAULT
    only: int | None = None


def excerpt_of(written: Json) -> Excerpt:
    """What `transcript` of a hook says: a number of turns, or a map."""
    fields = written if isinstance(written, dict) else {"turns": written}
    return Excerpt(
        turns=min(int(fields.get("turns", TURNS_DEFAULT)), limits.HOOK_TRANSCRIPT_TURNS_MAX),
        match=str(fields.get("match", "")),
        chars=min(int(fields.get("chars", CHARS_DEFAULT)), limits.HOOK_TRANSCRIPT_CHARS_MAX),
    )


def shown(status: AgentStatus, wanted: Excerpt, blobs: Blobs) -> list[JsonObject]:
    """The messages, oldest first: `turn`, `role` (user, assistant or tool), `text`, and `calls` of an assistant.

    At most `limits.HOOK_TRANSCRIPT_SHOWN_BYTES` of them, the newest.
    """
    found: list[JsonObject] = []
    size = 0
    turns: list[int] = []
    for turn, message in _newest_first(status, blobs):
        if turn not in turns:
            turns.append(turn)
        if wanted.only is None and len(turns) > wanted.turns:
            break
        one = _entry(turn, message, wanted.chars)
        if (wanted.only is not None and turn != wanted.only) or not _fits(message, wanted.match):
            continue
        size += len(encode(one))
        if size > limits.HOOK_TRANSCRIPT_SHOWN_BYTES:
            break
        found.append(one)
    return found[::-1]


def text_of(messages: Iterable[JsonObject]) -> str:
    """The messages of `shown` as lines to read."""
    return "\n".join(_line(one) for one in messages)


def _line(one: JsonObject) -> str:
    calls = "".join(f" → {call['tool']}({encode(call['arguments']).decode()})" for call in one.get("calls", ()))
    return f"turn {one['turn']} {one['role']}: {one['text']}{calls}"


def _newest_first(status: AgentStatus, blobs: Blobs) -> Iterator[tuple[int, JsonObject]]:
    """Chat messages with their turns: those of the open turn as far as it has come, then of the ended ones."""
    opened = status.open
    if opened is not None:
        yield from ((opened.turn, message) for message in reversed([*_of_open(opened)]))
    if not status.transcript:
        # Scripts and programs keep no transcript: of them there is what their last turn called.
        last = status.turn - (1 if opened is not None else 0)
        yield from ((last, message) for message in reversed([*_of_past(status.past)]))
        return
    whole = compacting.originals(status.transcript, lambda digest: blobs(digest) or b"{}")
    for key, digest in reversed(whole.items()):
        lines = (blobs(digest) or b"").splitlines()
        yield from ((int(key), decode(line)) for line in reversed(lines))


def _of_open(opened: OpenTurn) -> Iterator[JsonObject]:
    if text := transcript.news_text(opened.messages, (), {}):
        yield {"role": "user", "content": text}
    if not opened.is_replied:
        return
    made = [call for call in opened.calls if not call.is_implied]
    yield {"role": "assistant", "content": opened.text, "calls": [(call.tool, as_map(call.arguments)) for call in made]}
    yield from (_result(opened.results[call.address]) for call in made if call.address in opened.results)


def _of_past(past: Iterable[PastCall]) -> Iterator[JsonObject]:
    for call in past:
        yield {"role": "assistant", "content": "", "calls": [(call.tool, as_map(call.arguments))]}
        yield _result(call.result)


def _result(result: CallResult) -> JsonObject:
    return {"role": "tool", "content": transcript.result_text(result)}


def _entry(turn: int, message: JsonObject, chars: int) -> JsonObject:
    one: JsonObject = {"turn": turn, "role": message["role"], "text": clamped(_text(message).encode(), chars)}
    calls = [{"tool": tool, "arguments": _cut(given, chars)} for tool, given in _calls(message)]
    return one | ({"calls": calls} if calls else {})


def _text(message: JsonObject) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content)
    return str(content)


def _calls(message: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    yield from message.get("calls", ())
    for call in message.get("tool_calls") or ():
        given = call["function"]["arguments"]
        yield str(call["function"]["name"]).replace(transcript.DOT, "."), as_map(decode(given))


def _cut(given: JsonObject, chars: int) -> JsonObject:
    return {name: clamped(one.encode(), chars) if isinstance(one, str) else one for name, one in given.items()}


def _fits(message: JsonObject, match: str) -> bool:
    if not match:
        return True
    calls = " ".join(f"{tool} {encode(given).decode()}" for tool, given in _calls(message))
    # Looked for in the whole text, not in what is shown of it.
    return patterns.starred(f"*{match.casefold()}*").fullmatch(f"{_text(message)} {calls}".casefold()) is not None
