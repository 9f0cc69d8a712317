"""What a replay of a whole tree found, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from planloop.app.replaying.playing import Outcome
from planloop.schemas import amounts
from planloop.schemas.encoding import JsonObject
from planloop.schemas.record import Record

NOTES_SHOWN = 5


def lines(found: Outcome, plan: str) -> Iterator[str]:
    """The verdict first, then where and how."""
    prompts = f", {amounts.plural(found.prompts, 'prompt')} the same" if found.prompts else ""
    if found.verdict == "same":
        again = amounts.plural(found.records - len(found.taken_over), "record")
        yield f"{plan}: same: {again} came about again{prompts}, and the end state"
        if found.taken_over:
            revs = ", ".join(str(rev) for rev in found.taken_over[:NOTES_SHOWN])
            yield f"    {len(found.taken_over)} that decide nothing did not, and stand as they were: rev {revs}"
    else:
        where = f" at {_where(found.at)}" if found.at is not None else ""
        yield f"{plan}: {found.verdict}{where}: {found.why}"
        yield f"    {found.rev} of {found.records} records came about again{prompts}"
    yield from (f"    {line}" for line in found.details)
    yield from (f"    {one.words()}" for one in found.end)
    if found.notes:
        yield f"    {amounts.plural(len(found.notes), 'record')} in other words:"
    for note in found.notes[:NOTES_SHOWN]:
        yield f"    rev {note.rev} {note.type} {note.subject} · {note.differences[0].words()}"


def to_json(found: Outcome) -> JsonObject:
    """`plan replay --tree -o json`."""
    out: JsonObject = {"verdict": found.verdict, "rev": found.rev, "records": found.records, "prompts": found.prompts}
    out |= {"why": found.why, "details": list(found.details)}
    if found.at is not None:
        draft = found.at.draft
        out["at"] = {"rev": found.at.rev, "type": draft.type, "subject": draft.subject, "turn": draft.data.get("turn")}
    out["end"] = [one.words() for one in found.end]
    out["taken_over"] = list(found.taken_over)
    return out | {
        "notes": [{"rev": one.rev, "differences": [d.words() for d in one.differences]} for one in found.notes]
    }


def _where(record: Record) -> str:
    turn = record.draft.data.get("turn")
    return f"rev {record.rev}, {record.draft.subject}{f' turn {turn}' if turn else ''} ({record.draft.type})"
