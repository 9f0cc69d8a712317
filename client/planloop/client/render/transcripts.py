"""The transcript of an agent, turn by turn.

Made from the log, so that it is the same for scripts, programs and models, and for agents that are long gone. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from planloop.client.render import records
from planloop.client.render.records import body_words, clock_time, expand_record, record_words
from planloop.client.render.tables import call_words, one_line
from planloop.schemas import limits, quantities
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.frozen import mutable
from planloop.schemas.log.record import Record, RecordDraft, SetStatus

ABOUT = ("tool_name", "tool_input", "tool_response", "reply", "prompt")  # What a question to a hook may be about.
RESULT_LINES = 6  # Of one result; `plan events -o json` has it all.


@mutable
class AgentTranscript:
    """One agent's. `take` gives the lines of each record as it comes; what is about others gives none."""

    agent: str
    _tools: dict[str, str] = field(default_factory=dict)
    _letters: dict[str, JsonObject] = field(default_factory=dict)  # Messages by id, until they are read.

    def take(self, record: Record) -> list[str]:
        """The lines that `record` adds."""
        for change in record.draft.changes:
            if isinstance(change, SetStatus) and change.address == self.agent:
                letters = change.merge.get("inbox") or {}
                self._letters |= {name: letter for name, letter in letters.items() if letter is not None}
        return [line for step in expand_record(record) for line in self._step(step)]

    def _step(self, record: Record) -> list[str]:
        draft = record.draft
        if draft.subject != self.agent and draft.subject not in self._tools:
            return []
        if (head := _head(draft)) is not None:
            return [f"{clock_time(record.at)}  {head}", *(self._told(draft) if draft.type == "turn.started" else ())]
        match draft.type:
            case "model.replied":
                return list(self._replied(draft))
            case "model.failed":
                return list(_marked("!", record_words(draft)))
            case "call.settled" if not draft.data.get("late"):
                return _settled(draft.data)
            case _:
                return _aside(draft)

    def _told(self, draft: RecordDraft) -> Iterator[str]:
        for name in draft.data.get("read") or ():
            message = self._letters.pop(str(name), None)
            if message is None:
                continue
            text = (_asked if message.get("kind") == "hook" else body_words)(message["body"])
            yield from _marked("<", f"{message['sender']}: {text}")

    def _replied(self, draft: RecordDraft) -> Iterator[str]:
        text = str(draft.data.get("text") or "").strip()
        if text:
            yield from _marked(" ", text)
        for call in draft.data.get("calls") or ():
            self._tools[str(call.get("call"))] = str(call.get("tool"))
            yield f"    → {call_words(_worded(call))}"


def _asked(body: Json) -> str:
    """What a hook is asked, in a line: programs and scripts are given the whole question as a map."""
    if not isinstance(body, dict):
        return str(body)
    question = body.get("question") or {}
    told = " · ".join(_shown(question[name]) for name in ABOUT if question.get(name))
    return f"asks its hook {body.get('hook')}, {question.get('hook_event_name')}: {told}"


def _shown(value: Json) -> str:
    text = one_line(value if isinstance(value, str) else encode_text(value))
    return text if len(text) <= limits.VALUE_SHOWN_CHARS else text[: limits.VALUE_SHOWN_CHARS - 1] + "…"


def transcript_lines(records: Iterable[Record], agent: str) -> Iterator[str]:
    """The whole transcript of `agent`, an address."""
    transcript = AgentTranscript(agent)
    for record in records:
        yield from transcript.take(record)


def last_turns(records: Iterable[Record], agent: str, count: int) -> list[str]:
    """The lines of its last `count` turns."""
    transcript, turns = AgentTranscript(agent), [list[str]()]
    for record in records:
        for line in transcript.take(record):
            if "  turn " in line[:16]:
                turns.append([])
            turns[-1].append(line)
    return [line for turn in turns[-count:] for line in turn]


def _aside(draft: RecordDraft) -> list[str]:
    """The lines of what is neither said nor done by the agent itself."""
    match draft.type:
        case "hook.fired" if not draft.data.get("late"):
            return [f"    ? {line}" for line in records.verdict_lines(draft.data)]
        case "call.waiting":
            return [f"    … {record_words(draft)}"]
        case "turn.ended":
            if "called_off" in draft.data:
                return [f"    cancelled: {draft.data['called_off']}"]
            return [f"    ended after {quantities.format_duration(float(draft.data.get('active_s', 0.0)))}"]
        case _:
            return []


def _head(draft: RecordDraft) -> str | None:
    """The line of what begins or ends a stretch of its life; None for what happens within a turn."""
    match draft.type:
        case "turn.started":
            return f"turn {draft.data.get('turn')}: {_reasons(draft)}"
        case "agent.escalated":
            return f"escalated to {draft.data.get('to', '')}: {draft.data.get('why', '')}"
        case "agent.slept" | "agent.parked" | "agent.ended":
            return f"{draft.type.partition('.')[2]}: {draft.data.get('why', '')}"
        case "agent.woken":
            return f"run {draft.data.get('incarnation')} begins"
        case _:
            return None


def _reasons(draft: RecordDraft) -> str:
    return ", ".join(str(reason) for reason in draft.data.get("reasons") or ()) or "again"


def _worded(call: JsonObject) -> JsonObject:
    """Arguments that are no map are shown as they were written."""
    arguments: Json = call.get("arguments")
    return call if isinstance(arguments, dict) else {**call, "arguments": {"": str(arguments)}}


def _settled(data: JsonObject) -> list[str]:
    result = data.get("result") or {}
    state = str(result.get("state", ""))
    error = f" ({result['error']})" if result.get("error") else ""
    head = f"{data.get('tool')} {'ok' if state == 'Succeeded' else state.lower()}{error}"
    text = str(result.get("text") or "").strip()
    return list(_marked("←", f"{head}: {text}" if text else head))


def _marked(mark: str, text: str) -> Iterator[str]:
    found = text.splitlines() or [""]
    for index, line in enumerate(found[:RESULT_LINES]):
        yield f"    {mark if index == 0 else ' '} {line}"
    if len(found) > RESULT_LINES:
        yield f"      … {len(found) - RESULT_LINES} more lines"
