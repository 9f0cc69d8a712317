"""What a record of the log says, in words: one line for each, and one for each of its steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from planloop.client.render import containers, forks
from planloop.client.render.tables import call_words, one_line
from planloop.schemas import json_pointer, quantities
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.json_patch import PatchOp
from planloop.schemas.log.patch import describe_author
from planloop.schemas.log.record import Mark, PatchSpec, Put, Record, RecordDraft, SetStatus
from planloop.schemas.objects.conflict import PERSON, WAYS, party_name, ruling_meaning
from planloop.schemas.objects.hook import OVER
from planloop.schemas.objects.lock import describe_cycle

COUNTED_S = 0.5  # A shorter delay by a hook is not worth a note.


def verdict_words(data: JsonObject) -> str:
    """One line of a record: all verdicts, those that say nothing by their names only."""
    said = "; ".join(_line(one) for one in data.get("fired", ()))
    took = float(data.get("cost", {}).get("time_s", 0.0))
    late = " (late, of no effect)" if data.get("late") else ""
    return said + (f", {quantities.format_duration(took)}" if took >= COUNTED_S else "") + late


def verdict_lines(data: JsonObject) -> Iterator[str]:
    """A line for each verdict that did something, for a transcript."""
    for one in data.get("fired", ()):
        if not _is_silent(one):
            yield _line(one)


def is_silent_verdict(data: JsonObject) -> bool:
    """Return whether no line is needed: every hook allowed without a comment, and none of them ended."""
    return data.get("state") != OVER and all(_is_silent(one) for one in data.get("fired", ()))


def is_verdict_of(draft: RecordDraft, hook: str) -> bool:
    """Return whether the record has a verdict of the hook at that address."""
    return draft.type == "hook.fired" and any(one["hook"] == hook for one in draft.data.get("fired", ()))


def hook_asking(data: JsonObject) -> str:
    """That a hook's agent is asked."""
    return f"asks {data['to']} at {data['point']}"


def _is_silent(one: JsonObject) -> bool:
    return not one["verdict"].keys() - {"memory"}


def _line(one: JsonObject) -> str:
    verdict = one["verdict"]
    tool = f" {one['tool']}" if one.get("tool") else ""
    return f"{one['hook']} {one['point']}{tool}: {'; '.join(_parts(verdict))}"


def _parts(verdict: JsonObject) -> Iterator[str]:
    if verdict.get("fault"):
        yield f"failed, {one_line(verdict['fault'])}"
    decision, reason = verdict.get("decision", "allow"), verdict.get("reason", "")
    is_told = bool(reason) and not verdict.get("fault")
    yield f"{decision}, {one_line(reason)}" if is_told else decision
    if verdict.get("arguments") is not None:
        yield f"with {one_line(encode_text(verdict['arguments']))}"
    if verdict.get("comment"):
        yield f"says {one_line(verdict['comment'])}"
    if verdict.get("is_last"):
        yield "quits"


QUIET: Final = frozenset(
    {
        "object.created",
        "object.updated",
        "message.read",
        "lock.renewed",
        "fork.making",
        "fork.merging",
        "fork.writing",
        "fork.cleared",
        "timer.set",
        "turn.started",
        "turn.ended",
        "call.authorized",
        "agent.woken",
    }
)


def record_line(record: Record) -> str:
    """`14:03:22  rev 44  human:file  plan.patched  ~ tasks/frontend/goal`."""
    draft = record.draft
    said = record_words(draft)
    return f"{clock_time(record.at)}  {record.rev:>5}  {draft.type:<16}  {draft.subject}  {said}".rstrip()


def expand_record(record: Record) -> list[Record]:
    """Return each step of the record as its own record. Most have one step; an agent's turn may have several.

    The last step about an object has its final state.
    """
    if not record.draft.also:
        return [record]
    draft, steps = record.draft, record.draft.entries
    last = {step.subject: index for index, step in enumerate(steps)}
    return [
        replace(
            record,
            draft=replace(
                draft,
                type=one.type,
                subject=one.subject,
                data=one.data,
                changes=tuple(each for each in draft.changes if index == last.get(each.address, index)),
                also=(),
            ),
        )
        for index, one in enumerate(steps)
    ]


def clock_time(at: float) -> str:
    """Local time of day."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def is_echo(draft: RecordDraft) -> bool:
    """Return whether another record shows it: a container's next state, or an agent's reply (also a mere sleep)."""
    if containers.is_step(draft):
        return True
    if draft.type == "model.replied":
        return not (draft.data.get("text") or draft.data.get("calls"))
    if draft.type in ("call.proposed", "seat.renewed"):
        return True  # The call stands in the reply that follows, and that a client lives in what it does.
    return draft.type == "call.started" and draft.subject.startswith("agent/")


def record_words(draft: RecordDraft) -> str:
    """What happened, without who and when. Falls back to the changed state of the subject."""
    if draft.type == "plan.patched":
        return one_line(_patched(draft))
    if draft.type == "container.observed":
        return one_line(containers.container_words(draft))
    sayer = _SAYERS.get(draft.type)
    said = sayer(draft.data) if sayer else ""
    told = _LAST_SAYERS.get(draft.type, _data_words)
    return one_line(said or _call_words(draft) or _state_words(draft) or told(draft.data))


def names_author(draft: RecordDraft) -> bool:
    """Whether `words` say already who did it."""
    return draft.type.startswith(("hook.", "conflict.ruled")) or bool(_sender(draft.data))


def patch_words(ops: Sequence[PatchOp]) -> str:
    """`~ task/frontend/goal, - task/old`: at most four operations."""
    signs = {"add": "+", "remove": "-", "replace": "~", "move": ">", "copy": "+", "test": "?"}
    shown = [f"{signs[op.op]} {short_path(op.path)}" for op in ops[:4]]
    rest = f" and {len(ops) - 4} more" if len(ops) > 4 else ""
    return ", ".join(shown) + rest


def short_path(path: tuple[str, ...]) -> str:
    """A document path as people name it: `task/frontend` and the field, and `limits.tasks` of the plan as a whole."""
    if path[:1] == ("limits",):
        return ".".join(path)  # No task has any: so they are set, by `plan patch . limits.tasks=4`.
    address, rest = json_pointer.pointer_owner(path)
    return "/".join((str(address), *rest))


def _call_words(draft: RecordDraft) -> str:
    """What an agent calls; the command of a task is its only one, and its state says more."""
    if not (draft.type == "call.started" and draft.subject.startswith("agent/")):
        return ""
    return ", ".join(call_words(change.spec) for change in draft.changes if isinstance(change, Put))


def _state_words(draft: RecordDraft) -> str:
    for change in draft.changes:
        if isinstance(change, SetStatus) and change.address == draft.subject:
            state, why = change.merge.get("state"), change.merge.get("why")
            return ": ".join(str(part) for part in (state, why) if part)
        if isinstance(change, Put) and change.address == draft.subject:
            return str(change.spec.get("goal") or change.spec.get("tool") or "")
        if isinstance(change, Mark) and change.deleting:
            return "deleting"
    return ""


def _data_words(data: JsonObject) -> str:
    return ", ".join(f"{key} {value}" for key, value in data.items() if isinstance(value, str | int | float))


def _patched(draft: RecordDraft) -> str:
    reason = f" ({draft.data['reason']})" if draft.data.get("reason") else ""
    for change in draft.changes:
        if isinstance(change, PatchSpec) and change.address == draft.subject:
            return patch_words(change.ops) + reason
        if isinstance(change, Put) and change.address == draft.subject:
            return f"+ the plan{reason}"
    differences = [one for one in draft.data.get("differences") or () if one.get("address")]
    if differences:
        # The plan file is unchanged, but a file that it refers to has changed.
        count = sum((draft.data.get("difference_counts") or {}).values()) or len(differences)
        return f"{', '.join(map(_moved, differences[:4]))}{_more(count - 4)} through a file that it uses{reason}"
    return f"no change{reason}"


def _moved(difference: JsonObject) -> str:
    fields = ", ".join(str(one) for one in difference.get("fields") or ())
    return f"~ {difference['address']}" + (f" {fields}" if fields else "")


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _refused(data: JsonObject) -> str:
    faults = data.get("faults") or []
    return "; ".join(str(fault["message"]) for fault in faults)


def _answered(data: JsonObject) -> str:
    if not data.get("approval"):
        return ""
    said = ": ".join(str(data[key]) for key in ("asked", "why") if data.get(key))
    reason = f" ({data['reason']})" if data.get("reason") else ""
    return f"{data['approval']}, {said}{reason}" if said else f"{data['approval']}{reason}"


def _replied(data: JsonObject) -> str:
    calls = [call_words(call) for call in data.get("calls") or ()]
    return " · ".join(part for part in (one_line(str(data.get("text") or "")), *calls) if part)


def _settled(data: JsonObject) -> str:
    result = data.get("result")
    if not data.get("tool") or not isinstance(result, dict):
        return ""  # A task's command: the state of the task has this information.
    ended = "ok" if result.get("state") == "Succeeded" else str(result.get("state", "")).lower()
    words = f"{data['tool']} {ended}" + (f", {_spaced(result['error'])}" if result.get("error") else "")
    trace = data.get("trace")
    took = f", {quantities.format_duration(float(trace['seconds']))}" if isinstance(trace, dict) else ""
    tries = f", {trace['tries']} tries" if isinstance(trace, dict) and "tries" in trace else ""
    against = f"; it {said}" if (said := violation_words(data)) else ""
    return words + took + tries + (", cached" if data.get("cached") else "") + against


def violation_words(data: JsonObject) -> str:
    """Return the files of other lock holders that a command changed; empty for other calls."""
    held = ", and ".join(f"{path}, which {owner} holds" for path, owner in (data.get("violated") or {}).items())
    return f"changed {held}" if held else ""


_FATES: Final = {
    "again": "interrupted: it runs again",
    "doubt": "interrupted: its outcome is unknown",
}
"""Recovery of a call that an owner left running, by the fate in its record."""


def _reconciled(data: JsonObject) -> str:
    failed = data.get("failed")
    if not isinstance(failed, dict):
        return _FATES.get(str(data.get("fate")), "") or _data_words(data)
    tried = int(data.get("retry", 1)) + 1
    return f"{data.get('tool', '')} failed, {_spaced(failed.get('error', ''))}: try {tried} follows"


def _requested(data: JsonObject) -> str:
    tokens = f", about {quantities.format_count(int(data['tokens']))} tokens" if data.get("tokens") else ""
    purpose = f" for a {data['purpose']}" if data.get("purpose") else ""
    return f"attempt {data.get('attempt', 1)}: asks {data.get('model', '')}{purpose}{tokens}"


def _unanswered(data: JsonObject) -> str:
    if data.get("reason") == "Cancelled":
        return f"attempt {data['attempt']}: cancelled" if data.get("attempt") else "cancelled"
    tried = f"attempt {data.get('attempt', 1)}: {data.get('reason', '')}, {data.get('message', '')}"
    return tried + (
        f"; next attempt in {quantities.format_duration(float(data['wait_s']))}" if "wait_s" in data else ""
    )


def _checked(data: JsonObject) -> str:
    return f"check {data.get('check', '')} {data.get('result', '')}: {data.get('message', '')}"


def _began(data: JsonObject) -> str:
    reasons = ", ".join(str(reason) for reason in data.get("reasons") or ())
    return f"turn {data.get('turn', '')}" + (f": {reasons}" if reasons else "")


def _turned(data: JsonObject) -> str:
    if "called_off" in data:  # Its calls are those that had not ended, by address.
        left = data.get("calls") or ()
        return f"cancelled: {data['called_off']}" + (
            f", with {quantities.pluralize(len(left), 'call')}" if left else ""
        )
    calls = quantities.pluralize(int(data.get("calls", 0)), "call")
    return f"turn {data.get('turn', '')}: {calls}, {quantities.format_duration(float(data.get('active_s', 0.0)))}"


def _stood(data: JsonObject) -> str:
    return ": ".join(str(data[key]) for key in ("state", "message") if data.get(key))


def _taken(data: JsonObject) -> str:
    return f"process {data.get('pid', '')} is now the owner, epoch {data.get('epoch', '')}"


def _forked(data: JsonObject) -> str:
    origin = data["origin"]
    return f"from {origin['plan']} at rev {origin['rev']}"


def _spaced(name: str) -> str:
    """`CommandFailed` as `command failed`."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def _message(data: JsonObject) -> str:
    if "point" in data:
        return hook_asking(data)
    text, sender = body_words(_letter(data).get("body", "")), _sender(data)
    return f"from {sender}: {text}" if sender else text


def _letter(data: JsonObject) -> JsonObject:
    message = data.get("message")
    return message if isinstance(message, dict) else data


def _sender(data: JsonObject) -> str:
    return str(_letter(data).get("sender") or "")


def body_words(body: Json) -> str:
    """Return the text of a message, and those of its structured facts that people need."""
    match body:
        case str():
            return body
        case {"text": str(text)}:
            return text
        case {"conflict": "over", "key": str(conflict), "why": str(why)}:
            return f"{conflict} is resolved: {why}"
        case _:
            return encode_text(body)


def _waits(data: JsonObject) -> str:
    """Return what a call waits for; without a reason, the call continues."""
    why = one_line(str(data.get("why") or ""))
    return f"{data.get('tool', '')} waits: {why}" if why else f"{data.get('tool', '')} continues"


def _conflict(data: JsonObject) -> str:
    is_person = data.get("before") == PERSON
    before = "a person" if is_person else data.get("before", "")
    why = f": {data['why']}" if data.get("why") else ""
    others = ", ".join(f"--{how}" for how in WAYS[1:])
    way = f" · plan approve {data.get('conflict', '')} --{WAYS[0]} · or: {others}" if is_person else ""
    return f"over {', '.join(map(str, data.get('paths') or ()))}, resolver: {before}{why}{way}"


def _ruled(data: JsonObject) -> str:
    plan = f'; "{data["plan"]}"' if data.get("plan") else ""
    means = ruling_meaning(data["how"], party_name(data["for_agent"]))
    return f"{data['how']} by {describe_author(str(data['by']))}: {means}{plan}"


def _locked(data: JsonObject) -> str:
    waited = f", after {quantities.format_duration(data['waited_s'])}" if data.get("waited_s") else ""
    why = f" ({data['why']})" if data.get("why") else ""
    return f"{data.get('owner', '')}{waited}{why}"


def _broken_ring(data: JsonObject) -> str:
    return f"cycle: {describe_cycle(data['cycle'])}; {data['owner']} releases its locks"


def _taken_by(data: JsonObject) -> str:
    return f"by {data.get('client', '')}, number {data.get('seat', '')}"


def _left_by(data: JsonObject) -> str:
    dropped = data.get("dropped") or ()
    lost = f"; {quantities.pluralize(len(dropped), 'call')} not started" if dropped else ""
    return f"by {data.get('client', '')}: {data.get('why', '')}{lost}"


def _refused_late(data: JsonObject) -> str:
    return f"{data.get('tool') or 'a request'} came too late: {data.get('why', '')}"


def _withdrawn(data: JsonObject) -> str:
    return "its client withdraws a call that is " + ("running" if data.get("was") == "begun" else "waiting")


def _fenced(data: JsonObject) -> str:
    reason = f": {data['reason']}" if data.get("reason") else ""
    return f"{', '.join(data.get('owners') or [str(data.get('owner', ''))])} lost it, {data.get('why', '')}{reason}"


_SAYERS: Final[Mapping[str, Callable[[JsonObject], str]]] = {
    "plan.refused": _refused,
    "plan.forked": _forked,
    "plan.approved": _answered,
    "plan.rejected": _answered,
    "plan.held": lambda data: str(data.get("why", "")),
    "conflict.opened": _conflict,
    "conflict.raised": _conflict,
    "conflict.ruled": _ruled,
    "conflict.closed": lambda data: str(data.get("why", "")),
    "lock.granted": _locked,
    "lock.released": _locked,
    "lock.fenced": _fenced,
    "lock.deadlock": _broken_ring,
    **forks.FORK_SAYERS,
    "hook.fired": verdict_words,
    "agent.escalated": lambda data: f"{data.get('to', '')} continues: {data.get('why', '')}",
    "message.sent": _message,
    "message.delivered": _message,
    "model.requested": _requested,
    "model.failed": _unanswered,
    "model.replied": _replied,
    "call.reconciled": _reconciled,
    "call.settled": _settled,
    "call.waiting": _waits,
    "check.ran": _checked,
    "epoch.taken": _taken,
    "seat.taken": _taken_by,
    "seat.leaving": lambda data: str(data.get("why", "")),
    "seat.left": _left_by,
    "seat.refused": _refused_late,
    "call.withdrawn": _withdrawn,
    "turn.started": _began,
}
_LAST_SAYERS: Final[Mapping[str, Callable[[JsonObject], str]]] = {
    "model.replied": lambda _: "",
    "turn.ended": _turned,
    "task.changed": _stood,
}
