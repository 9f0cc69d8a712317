"""An agent's conversation as JSON items, and the system message of each turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, TypeAlias

from planloop.client.render.records import body_words, expand_record, record_words, violation_words
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.frozen import mutable
from planloop.schemas.log.record import Record, RecordDraft, SetStatus
from planloop.schemas.objects.call import FINAL_STATES

# Which system message an agent was asked with in a turn, from the log. Pure.
#
# The log names the blob of a system message where it became another one; in between it was the same.


@mutable
class TurnPrompt:
    """The requests of the agent at `agent`, as far as they were read.

    `found` is the newest one of each turn of its newest run that took it, by turn; `turns` are all that it took.
    """

    agent: str
    found: dict[int, JsonObject]
    turns: set[int]
    run: int = 1
    turn: int = 0
    blob: str = ""

    def take(self, record: Record) -> None:
        """Read the data of `record` about the agent."""
        for step in expand_record(record):
            if step.draft.subject == self.agent:
                self._step(step.draft, record)

    def _step(self, draft: RecordDraft, record: Record) -> None:
        data = draft.data
        match draft.type:
            case "agent.woken":
                self.run = int(data.get("incarnation") or self.run)
            case "turn.started":
                self.turn = int(data.get("turn") or 0)
                self.turns.add(self.turn)
                self.found.pop(self.turn, None)  # An earlier run had a turn of that number, too.
            case "model.requested" if not data.get("purpose"):
                self.blob = str(data.get("system") or self.blob)
                self.found[self.turn] = {
                    "agent": self.agent,
                    "run": self.run,
                    "turn": self.turn,
                    "attempt": int(data.get("attempt") or 1),
                    "model": str(data.get("model") or ""),
                    "rev": record.rev,
                    "at": record.at,
                    "tokens": int(data.get("tokens") or 0),
                    "blob": self.blob,
                }


def turn_prompt(records: Iterable[Record], agent: str) -> TurnPrompt:
    """The requests of the agent in all `records`."""
    found = TurnPrompt(agent, {}, set())
    for record in records:
        found.take(record)
    return found


# An agent's life as items, one for each thing that it was told, said, called and got back: `plan logs` for programs.
#
# An item has `rev`, `at` (seconds since 1970) and `kind`: `turn` (with `reasons` and what it was `told`), `said`,
# `call`, `verdict` (of a hook), `waits`, `result`, `failed` (the model), `ended` (the turn) and `life` (asleep, parked,
# ended, a new run). What belongs to a call has its address as `call`. Items are only ever added: who has those up to a
# revision asks for the later ones. Pure.

TEXT_CHARS_MAX: Final = 16_000  # Of one text; the rest of an output is its blob, and of anything else in the log.
Letter: TypeAlias = Callable[[str], JsonObject | None]
LIVES: Final = ("agent.slept", "agent.parked", "agent.ended")


def unknown_item(name: str, before: int) -> JsonObject | None:
    """For `items` over a whole log, which has all messages itself."""
    del name, before
    return None


def conversation_items(
    records: Iterable[Record], agent: str, letter: Callable[[str, int], JsonObject | None] = unknown_item
) -> list[JsonObject]:
    """Return the events of the agent at that address in `records`, in order, texts cut to `TEXT_CHARS_MAX`.

    `letter` finds a message by its id below a revision: it may have come long before the turn that read it.
    """
    letters: dict[str, JsonObject] = {}
    return [_bounded(item) for one in records for item in agent_items(one, agent, letters, letter)]


def agent_items(
    record: Record,
    agent: str,
    letters: dict[str, JsonObject],
    letter: Callable[[str, int], JsonObject | None] = unknown_item,
) -> Iterator[JsonObject]:
    """Return the items of one record about the agent, with whole texts. Delivered messages are added to `letters`."""
    letters |= delivered_letters(record, agent)
    known = partial(_found, letters, letter, record.rev)
    yield from ({"rev": record.rev, "at": record.at, **item} for item in _of_record(record, agent, known))


def task_items(record: Record, task: str) -> Iterator[JsonObject]:
    """Return the items of one record about a task: states, ends of its commands, checks. Whole texts."""
    for step in expand_record(record):
        draft, data = step.draft, step.draft.data
        if draft.subject != task:
            continue
        told: JsonObject = {"rev": record.rev, "at": record.at}
        match draft.type:
            case "task.changed":
                yield told | {"kind": "life", "word": str(data.get("state") or ""), "text": record_words(draft)}
            case "check.ran":
                found = {"check": str(data.get("check", "")), "state": str(data.get("result") or "")}
                yield told | {"kind": "result", **found, "text": record_words(draft)}
            case "call.settled" if isinstance(data.get("result"), dict):
                result = _result(draft.subject, data["result"])
                yield told | {name: value for name, value in result.items() if name != "call"}


def delivered_letters(record: Record, agent: str) -> dict[str, JsonObject]:
    """The messages that the record puts into the agent's inbox, by id."""
    merges = (one.merge for one in record.draft.changes if isinstance(one, SetStatus) and one.address == agent)
    return {name: one for merge in merges for name, one in (merge.get("inbox") or {}).items() if one is not None}


def _found(
    near: Mapping[str, JsonObject], letter: Callable[[str, int], JsonObject | None], rev: int, name: str
) -> JsonObject | None:
    return near[name] if name in near else letter(name, rev)


def _of_record(record: Record, agent: str, letter: Letter) -> list[JsonObject]:
    signed = f"agent:{agent.partition('/')[2]}"
    given = _results(record.draft, agent)
    found: list[JsonObject] = []
    for step in expand_record(record):
        draft = step.draft
        if draft.subject == agent or draft.actor == signed or draft.subject in given:
            found += _items(draft, agent, letter)
    told = {item["call"] for item in found if item["kind"] == "result"}
    return found + [_result(call, result) for call, result in given.items() if call not in told]


def _results(draft: RecordDraft, agent: str) -> dict[str, JsonObject]:
    """The results that the record puts into the agent's open turn, by call: those of refused calls have no other."""
    merges = (one.merge for one in draft.changes if isinstance(one, SetStatus) and one.address == agent)
    found: dict[str, JsonObject] = {}
    for merge in merges:
        found |= {call: box[0] for call, box in ((merge.get("open") or {}).get("results") or {}).items() if box}
        # A turn that is one record was never open in it.
        found |= {one["address"]: one["result"] for one in merge.get("past") or () if one.get("result")}
    return found


def _items(draft: RecordDraft, agent: str, letter: Letter) -> Iterator[JsonObject]:
    data = draft.data
    if draft.subject == agent:
        yield from _own(draft, agent, letter)
    match draft.type:
        case "call.waiting":
            yield {"kind": "waits", "call": draft.subject, "why": str(data.get("why") or "")}
        case "call.reconciled" if draft.subject.startswith("call/"):
            yield {"kind": "waits", "call": draft.subject, "why": record_words(draft)}
        case "call.authorized":
            yield from (_ruled(call, str(why)) for call, why in data.items() if why != "allowed")
        case "call.settled" if not data.get("late") and data.get("tool") and isinstance(data.get("result"), dict):
            yield _settled(draft)


def _own(draft: RecordDraft, agent: str, letter: Letter) -> Iterator[JsonObject]:
    data = draft.data
    match draft.type:
        case "turn.started":
            yield _turn(draft, agent, letter)
        case "model.replied":
            yield from _replied(data)
        case "model.failed":
            yield {"kind": "failed", "text": record_words(draft)}
        case "hook.fired" if not data.get("late"):
            yield from (_verdict(one) for one in data.get("fired", ()))
        case "turn.ended":
            yield _ended(data)
        case "agent.escalated":
            text = f"{data.get('to', '')} continues: {data.get('why', '')}"
            yield {"kind": "life", "word": "escalated", "text": text}
        case "agent.woken":
            yield {"kind": "life", "word": "began", "text": f"run {data.get('incarnation')} begins"}
        case life if life in LIVES:
            yield {"kind": "life", "word": life.partition(".")[2], "text": str(data.get("why") or "")}


def _turn(draft: RecordDraft, agent: str, letter: Letter) -> JsonObject:
    opened = (one.merge.get("open") for one in draft.changes if isinstance(one, SetStatus) and one.address == agent)
    messages = draft.data.get("told") or next((one["messages"] for one in opened if one and "messages" in one), None)
    if messages is None:
        messages = [one for name in draft.data.get("read") or () if (one := letter(str(name))) is not None]
    reasons = [str(reason) for reason in draft.data.get("reasons") or ()]
    return {
        "kind": "turn",
        "turn": int(draft.data.get("turn") or 0),
        "reasons": reasons,
        "told": [_told(message) for message in messages],
    }


def _told(message: JsonObject) -> JsonObject:
    body: Json = message.get("body")
    question = body.get("question") if isinstance(body, dict) else None
    text = encode_text(question) if question else body_words(body)
    told: JsonObject = {"sender": message["sender"], "form": message["kind"], "id": message["id"], "text": text}
    rare = ("thread", "asks", "delivery", "trust")
    plain = {"thread": "", "asks": False, "delivery": "queue", "trust": "trusted"}
    return told | {name: message[name] for name in rare if message.get(name, plain[name]) != plain[name]}


def _replied(data: JsonObject) -> Iterator[JsonObject]:
    if text := str(data.get("text") or "").strip():
        yield {"kind": "said", "text": text}
    for call in data.get("calls") or ():
        if call.get("implied"):
            continue  # The text is the result, not a call of the agent.
        made: JsonObject = {"kind": "call", "call": str(call.get("call")), "tool": str(call.get("tool"))}
        arguments: Json = call.get("arguments")
        given = arguments if isinstance(arguments, dict) else {"": str(arguments)}
        made["arguments"] = given
        yield made | ({"fault": str(call["fault"])} if call.get("fault") else {})


def _verdict(one: JsonObject) -> JsonObject:
    """`is_silent` when the hook let it pass and said nothing."""
    verdict: JsonObject = one["verdict"]
    told: JsonObject = {"kind": "verdict", "hook": one["hook"], "point": one["point"]}
    told |= {"decision": verdict.get("decision", "allow"), "is_silent": not verdict.keys() - {"memory"}}
    told |= {name: one[name] for name in ("call", "tool") if one.get(name)}
    return told | {
        name: verdict[name] for name in ("reason", "comment", "arguments", "fault", "is_last") if verdict.get(name)
    }


def _ruled(call: str, words: str) -> JsonObject:
    """What became of a call that may not simply start: it waits for a yes, or was refused."""
    state, _, text = words.partition(": ")
    if state not in tuple(FINAL_STATES):
        return {"kind": "waits", "call": call, "why": words}
    return {"kind": "result", "call": call, "state": state, "error": state, "text": text}


def _settled(draft: RecordDraft) -> JsonObject:
    data = draft.data
    told = _result(draft.subject, data["result"])
    if isinstance(trace := data.get("trace"), dict) and "seconds" in trace:
        told["took_s"] = float(trace["seconds"])
    if against := violation_words(data):
        told["violation"] = against
    return told | ({"is_cached": True} if data.get("cached") else {})


def _result(call: str, result: JsonObject) -> JsonObject:
    told: JsonObject = {"kind": "result", "call": call, "state": result["state"]}
    told |= {name: result[name] for name in ("error", "exit_code", "blob") if result.get(name) is not None}
    return told | {"text": str(result.get("text") or "").rstrip()}


def _ended(data: JsonObject) -> JsonObject:
    told: JsonObject = {"kind": "ended", "turn": int(data.get("turn") or 0)}
    if "called_off" in data:
        return told | {"called_off": str(data["called_off"])}
    return told | {"active_s": float(data.get("active_s") or 0.0), "calls": int(data.get("calls") or 0)}


def _bounded(item: JsonObject) -> JsonObject:
    """The item with no text longer than `TEXT_CHARS_MAX`, and under `left` how many characters are left out of one."""
    found = _clipped(item)
    if "told" in item:
        found["told"] = [_clipped(each) for each in item["told"]]
    if "arguments" in item:
        pairs = item["arguments"].items()
        found["arguments"] = {name: one[:TEXT_CHARS_MAX] if isinstance(one, str) else one for name, one in pairs}
    return found


def _clipped(item: JsonObject) -> JsonObject:
    left = len(item.get("text", "")) - TEXT_CHARS_MAX
    return {**item, "text": item["text"][:TEXT_CHARS_MAX], "left": left} if left > 0 else dict(item)
