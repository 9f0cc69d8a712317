"""Making a transcript shorter, by whole turns: a reply stays with its results, and every original stays in a blob.

Tiers, each only as far as is needed and none in the newest turns: reads of files that were read or written again, long
outputs (head and tail stay), old results, and at last one summary in a fixed form. What the plan says, instructions,
task and checks, is not in a transcript and so is never made shorter. The result is recorded, not computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from planloop.controllers.agent.observing import Observed
from planloop.controllers.agent.status import Chunk, OpenTurn
from planloop.controllers.agent.thinking import transcript
from planloop.reconciler.effects.clamping import clamped
from planloop.schemas import limits
from planloop.schemas.encoding import Json, JsonObject, decode, encode
from planloop.schemas.frozen import frozen

Load: TypeAlias = Callable[[str], bytes]
Put: TypeAlias = Callable[[bytes], str]
Chunks: TypeAlias = Mapping[str, Chunk]

SUMMARY: Final = "000000"
"""The key of the summary in a transcript: before every turn."""

READS: Final = frozenset({"read", "list", "search", "plan_view"})
WRITES: Final = frozenset({"write", "edit"})
AT: Final = 0.8  # Share of the window at which it is done, when the plan does not say.
ROOM: Final = 0.6  # Share of that which is left filled: each time costs what the provider has kept of the prompt.
KEEP: Final = 0.25  # Share of the window that the newest turns may have, when the plan does not say.

SUMMED: Final = 0.6  # Share of the window that the text of the old turns may have in the request for a summary.

FORM: Final = (
    "You keep the memory of an agent that goes on working. Below is what it has lived through, oldest first. Write "
    "what it needs to know of it, under exactly these four headings: `Facts`, `Decisions`, `Files`, `Open items`. "
    "Under each one short line for each thing; leave out what is no longer true. Keep names, paths, numbers and exact "
    "words of promises and requests. Write nothing else."
)
BEFORE: Final = "[What came before, in short. `recall` shows any turn in full.]\n"


@frozen
class Shorter:
    """A transcript made shorter without a model. `chunks` are those that changed, with the content of each new blob."""

    chunks: Mapping[str, tuple[Chunk, bytes]]
    tiers: Mapping[str, int]
    tokens: int


@frozen
class ToSum:
    """What one summary is to stand for: the keys of its turns, the text of them, about how many tokens they had."""

    keys: tuple[str, ...]
    text: str
    tokens: int
    origins: Mapping[str, str]


def is_due(seen: Observed, tokens: int, output_tokens: int, window: int) -> bool:
    """Whether a prompt of `tokens` is to be made shorter before it is sent; the model may have said so itself."""
    full = min(_full(seen, window), window - output_tokens)
    return (tokens > full and may_be_shorter(seen)) or (seen.status.open is not None and was_too_long(seen.status.open))


def shorter_of(seen: Observed, load: Load, tokens: int, window: int) -> Shorter:
    """What the tiers without a model make of the transcript, so that the prompt of `tokens` has some room again."""
    is_forced = seen.status.open is not None and was_too_long(seen.status.open)
    full = _full(seen, window)
    goal = int(ROOM * (min(tokens, full) if is_forced else full))
    return shorter(seen.status.transcript, old_of(seen, window), load, tokens - goal)


def _full(seen: Observed, window: int) -> int:
    return max(1, int(float(seen.spec.compact.get("at", AT)) * window))


def old_of(seen: Observed, window: int) -> tuple[str, ...]:
    """The turns that may be made shorter: all but the newest ones that fit what is to be kept, and never the last."""
    chunks = seen.status.transcript
    keep = int(seen.spec.compact.get("keep", KEEP * min(window, sum(chunk.tokens for chunk in chunks.values()))))
    keys = [key for key in sorted(chunks) if key != SUMMARY]
    kept = 0
    for place in range(len(keys) - 1, -1, -1):
        kept += chunks[keys[place]].tokens
        if kept > keep and place < len(keys) - 1:
            return tuple(keys[: place + 1])
    return ()


def shorter(chunks: Chunks, old: Sequence[str], load: Load, surplus: int) -> Shorter:
    """The tiers that need no model, until `surplus` tokens are saved; as much as can be when that is not enough."""
    turns = {key: [decode(line) for line in load(chunks[key].blob).split(b"\n")] for key in old}
    later = _touched_after(chunks, old, load, turns)
    tiers: dict[str, int] = {}
    saved = 0
    for name, tier in (("superseded", _superseded), ("clamped", _clamped), ("cleared", _cleared)):
        for key in old:
            if saved >= surplus:
                break
            made = tier(turns[key], later[key])
            if made is not None:
                saved += _size(turns[key]) - _size(made)
                turns[key] = made
                tiers[name] = tiers.get(name, 0) + 1
    changed: dict[str, tuple[Chunk, bytes]] = {}
    for key in old:
        content = b"\n".join(encode(message) for message in turns[key])
        before = chunks[key]
        if (tokens := transcript.tokens_of(content)) < before.tokens:
            changed[key] = (Chunk("", tokens, before.origin or before.blob, before.by), content)
    total = sum(changed[key][0].tokens if key in changed else chunk.tokens for key, chunk in chunks.items())
    return Shorter(changed, tiers, total)


def _size(messages: Iterable[JsonObject]) -> int:
    return sum(transcript.tokens_of(encode(message)) for message in messages)


def _touched_after(
    chunks: Chunks, old: Sequence[str], load: Load, turns: Mapping[str, list[JsonObject]]
) -> dict[str, frozenset[str]]:
    """For each old turn, what later turns read or wrote again: a reading by tool and arguments, a file by its path."""
    touched: set[str] = set()
    after: dict[str, frozenset[str]] = {}
    for key in sorted((key for key in chunks if key != SUMMARY), reverse=True):
        if key in turns:
            after[key] = frozenset(touched)
        messages = turns.get(key) or [decode(line) for line in load(chunks[key].blob).split(b"\n")]
        touched |= {mark for message in messages for _, mark in _marks(message)}
    return {key: after.get(key, frozenset()) for key in old}


def _marks(message: JsonObject) -> list[tuple[str, str]]:
    """The calls of a message by id, each with the mark of what it read or wrote."""
    found = []
    for call in message.get("tool_calls") or ():
        tool, arguments = call["function"]["name"], call["function"]["arguments"]
        if tool in WRITES:
            found.append((call["id"], f"path {_path_in(arguments)}"))
        elif tool in READS:
            found.append((call["id"], f"{tool} {arguments}"))
    return found


def _path_in(arguments: str) -> str:
    try:
        given: Json = decode(arguments)
    except ValueError:
        return ""
    return str(given.get("path", "")) if isinstance(given, dict) else ""


def _superseded(messages: list[JsonObject], later: frozenset[str]) -> list[JsonObject] | None:
    stale = set()
    for message in messages:
        for call in message.get("tool_calls") or ():
            tool, arguments = call["function"]["name"], call["function"]["arguments"]
            if tool in READS and not later.isdisjoint({f"{tool} {arguments}", f"path {_path_in(arguments)}"}):
                stale.add(call["id"])
    return _with_results(
        messages, lambda one: "[read again or changed since]" if one["tool_call_id"] in stale else None
    )


def _clamped(messages: list[JsonObject], later: frozenset[str]) -> list[JsonObject] | None:
    del later
    most = limits.OLD_RESULT_BYTES
    return _with_results(
        messages,
        lambda one: clamped(one["content"].encode(), most) if len(one["content"].encode()) > 2 * most else None,
    )


def _cleared(messages: list[JsonObject], later: frozenset[str]) -> list[JsonObject] | None:
    del later
    return _with_results(messages, lambda one: CLEARED if len(one["content"]) > 2 * len(CLEARED) else None)


CLEARED: Final = "[old result, left out: `recall` shows it]"


def _with_results(messages: list[JsonObject], shown: Callable[[JsonObject], str | None]) -> list[JsonObject] | None:
    """The messages with results replaced where `shown` gives a text that is shorter; None when nothing changes."""
    out: list[JsonObject] = []
    is_changed = False
    for message in messages:
        text = shown(message) if message["role"] == "tool" else None
        is_shorter = text is not None and len(text) < len(message["content"])
        out.append({**message, "content": text} if is_shorter else message)
        is_changed = is_changed or is_shorter
    return out if is_changed else None


def to_sum(seen: Observed, load: Load, window: int) -> ToSum | None:
    """What a summary would stand for; None when there is nothing old but a summary."""
    chunks, old = seen.status.transcript, old_of(seen, window)
    if not old:
        return None
    most_tokens = int(SUMMED * window)
    keys = ((SUMMARY,) if SUMMARY in chunks else ()) + tuple(old)
    parts = [told(decode(line)) for key in keys for line in load(chunks[key].blob).split(b"\n")]
    text = clamped("\n\n".join(parts).encode(), max(1, most_tokens) * transcript.BYTES_PER_TOKEN)
    origins = {key: chunks[key].origin or chunks[key].blob for key in old}
    if SUMMARY in chunks and chunks[SUMMARY].origin:
        origins = {**decode(load(chunks[SUMMARY].origin)), **origins}
    return ToSum(keys, text, sum(chunks[key].tokens for key in keys), origins)


def told(message: JsonObject) -> str:
    """A message as a line of a story."""
    calls = "".join(
        f"\n→ {call['function']['name']}({call['function']['arguments']})" for call in message.get("tool_calls") or ()
    )
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content)
    return f"{message['role']}: {content}{calls}"


def summary_messages(wanted: ToSum) -> tuple[bytes, ...]:
    """The request for a summary."""
    system = encode({"role": "system", "content": FORM})
    return (system, transcript.user(wanted.text))


def summary_chunk(text: str, wanted: ToSum, seen: Observed) -> tuple[Chunk, bytes, bytes]:
    """The chunk of a summary with its content, and the content of the index of what it stands for.

    One that is no shorter than half of what it replaces is cut: it would be done again at once.
    """
    most_bytes = max(1, wanted.tokens // 2) * transcript.BYTES_PER_TOKEN
    body = clamped(text.encode(), most_bytes)
    owed = "".join(
        f"\n- {message.sender} waits for an answer to: {message.body}" for message in seen.status.asked.values()
    )
    content = transcript.user(BEFORE + body + (f"\n\nStill owed:{owed}" if owed else ""))
    index = encode(dict(wanted.origins))
    return Chunk("", transcript.tokens_of(content)), content, index


def originals(chunks: Chunks, load: Load) -> dict[str, str]:
    """The digest of every turn as it was, by its key, oldest first: those that a summary stands for too."""
    found: dict[str, str] = {}
    if SUMMARY in chunks and chunks[SUMMARY].origin:
        found |= decode(load(chunks[SUMMARY].origin))
    found |= {key: chunk.origin or chunk.blob for key, chunk in chunks.items() if key != SUMMARY}
    return dict(sorted(found.items()))


def was_too_long(turn: OpenTurn) -> bool:
    """Whether the model refused the last request of the turn for its length."""
    return turn.failure is not None and turn.failure.reason == TOO_LONG


def may_be_shorter(seen: Observed) -> bool:
    """Whether there is an old turn at all."""
    return len(seen.status.transcript.keys() - {SUMMARY}) > 1


TOO_LONG: Final = "ContextTooLong"


def summarised(seen: Observed, text: str, wanted: ToSum, put: Put) -> tuple[dict[str, Chunk | None], JsonObject]:
    """The chunks of a transcript in which a summary stands for old turns, and what the log says of it."""
    chunk, content, index = summary_chunk(text, wanted, seen)
    gone: dict[str, Chunk | None] = dict.fromkeys(wanted.keys)
    gone[SUMMARY] = replace(chunk, blob=put(content), origin=put(index))
    data: JsonObject = {"tiers": {"summarised": len(wanted.origins)}, "before": wanted.tokens, "after": chunk.tokens}
    return gone, data


def settled(made: Shorter, before: int, put: Put) -> tuple[dict[str, Chunk | None], JsonObject]:
    """The chunks that were made shorter without a model, and what the log says of it."""
    chunks: dict[str, Chunk | None] = {
        key: replace(chunk, blob=put(text)) for key, (chunk, text) in made.chunks.items()
    }
    return chunks, {"tiers": dict(made.tiers), "before": before, "after": made.tokens}
