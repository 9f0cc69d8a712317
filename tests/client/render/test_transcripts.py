"""A transcript tells each turn of an agent: told, said, called, and what came of it."""

from __future__ import annotations

from typing import Any

from planloop.client.render import records, transcripts
from tests import golden_text
from tests.product import Change, Record, RecordDraft, SetStatus, SubRecord, Uid

ME = "agent/writer"
LETTER = {"sender": "human:cli", "body": "use fewer words"}


def _record(rev: int, type_: str, subject: str, *changes: Change, **data: Any) -> Record:
    return Record(rev, 0.0, 1, RecordDraft(type_, "controller:agent", subject, changes, data))


def _turn() -> list[Record]:
    calls = [{"call": "call/1", "tool": "shell", "arguments": {"command": "ls"}}]
    lines = "\n".join(f"line {number}" for number in range(9))
    return [
        _record(1, "message.sent", ME, SetStatus(ME, Uid("u"), {"inbox": {"m1": LETTER}})),
        _record(2, "turn.started", ME, turn=1, reasons=["message"], read=["m1"]),
        _record(3, "model.replied", ME, text="I look.", calls=calls),
        _record(4, "call.settled", "call/1", tool="shell", result={"state": "Succeeded", "text": lines}),
        _record(5, "call.settled", "call/2", tool="other", result={"state": "Succeeded", "text": "of another agent"}),
        _record(6, "turn.ended", ME, active_s=1.5),
    ]


def _words(records: list[Record]) -> list[str]:
    return [
        line.partition("  ")[2].strip() if line[0].isdigit() else line.strip()
        for line in transcripts.transcript_lines(records, ME)
    ]


def test_turn_is_shown_step_by_step_with_long_results_cut() -> None:
    assert _words(_turn()) == [
        "turn 1: message",
        "< human:cli: use fewer words",
        "I look.",
        "→ shell('ls')",
        "← shell ok: line 0",
        *(f"line {number}" for number in range(1, 6)),
        "… 3 more lines",
        "ended after 1.5 s",
    ]


def test_steps_in_one_record_are_shown_like_steps_in_several() -> None:
    apart = _turn()
    first, *rest = [one for one in apart[1:] if one.draft.subject != "call/2"]
    also = tuple(SubRecord(one.draft.type, one.draft.subject, one.draft.data) for one in rest)
    together = Record(2, 0.0, 1, RecordDraft(first.draft.type, "controller:agent", ME, (), first.draft.data, also=also))
    assert _words([apart[0], together]) == _words(apart)


def test_messages_are_shown_in_words_and_a_wait_with_its_target() -> None:
    letters = {
        "m1": {"sender": "controller:conflict", "body": {"conflict": "conflict/1", "text": "it stands"}},
        "m2": {"sender": "controller:conflict", "body": {"key": "conflict/1", "conflict": "over", "why": "it is done"}},
        "m3": {"sender": "agent/lead", "body": {"limit": 3}},
    }
    call = {"call": "call/1", "tool": "edit", "arguments": {"path": "a"}}
    golden_text.said(
        _words(
            [
                _record(1, "message.sent", ME, SetStatus(ME, Uid("u"), {"inbox": letters})),
                _record(2, "turn.started", ME, turn=1, reasons=["message"], read=list(letters)),
                _record(3, "model.replied", ME, calls=[call]),
                _record(4, "call.waiting", "call/1", tool="edit", state="AwaitingLock", why="lock a is held by task/b"),
                _record(5, "call.waiting", "call/1", tool="edit", state="Authorized", why=""),
            ]
        )
    )


def test_only_the_last_turns_can_be_asked_for() -> None:
    records = [_record(turn, "turn.started", ME, turn=turn, reasons=["again"]) for turn in range(1, 6)]
    assert [line.partition("  ")[2] for line in transcripts.last_turns(records, ME, 2)] == [
        "turn 4: again",
        "turn 5: again",
    ]


def test_actions_of_hooks_are_shown_and_their_passes_are_not() -> None:
    said = {"key": "k", "hook": "hook/guard", "point": "before-call", "tool": "shell"}
    fired = [
        said | {"verdict": {"decision": "deny", "reason": "no rm"}},
        said | {"verdict": {}},
        said | {"verdict": {"memory": {"n": 1}}},
        said | {"verdict": {"decision": "deny", "reason": "it broke: exit 3", "fault": "exit 3"}},
        said | {"verdict": {"arguments": {"command": "ls"}, "comment": "safer", "is_last": True}},
    ]
    golden_text.said(_words([_record(2, "hook.fired", ME, turn=1, fired=fired)]))
    assert _words([_record(2, "hook.fired", ME, turn=1, fired=fired, late=True)]) == []
    late = RecordDraft(
        "hook.fired", "controller:agent", ME, (), {"fired": fired[:2], "cost": {"time_s": 2.0}, "late": True}
    )
    golden_text.said(records.record_words(late), "hook/guard")


def test_silent_passes_of_hooks_and_their_questions_are_distinguished() -> None:
    assert records.is_silent_verdict({"fired": [{"verdict": {}}, {"verdict": {"memory": {"n": 1}}}]})
    assert not records.is_silent_verdict({"fired": [{"verdict": {}}, {"verdict": {"comment": "x"}}]})
    asked = RecordDraft(
        "message.sent", "controller:agent", ME, (), {"to": "hook/wise", "point": "before-reply", "key": "k"}
    )
    golden_text.said(records.record_words(asked), "hook/wise")
