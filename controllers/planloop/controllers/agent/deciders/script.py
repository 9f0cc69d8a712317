"""Scripted agents, for examples, tests and benchmarks: run the steps, and match `when:` and `expect:`.

The steps run in order. A step with `when` waits until it matches the messages, the children or the verdict. `expect`
checks the results of the calls just before it; if a call failed and no `expect` follows it, the script ends with
`fail`. At its end, the script claims `done`; if the claim is rejected and no step is left, it claims `fail`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final

from planloop.controllers.agent.deciders import port
from planloop.controllers.agent.deciders.port import CallOutcome, ChildView, DeciderReply, ProposedCall, TurnInput
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, encode
from planloop.schemas.frozen import frozen, mutable, remade
from planloop.schemas.objects.call import CallState
from planloop.schemas.objects.message import Message
from planloop.schemas.objects.task import ENDED
from planloop.schemas.predicates import Vocabulary, predicate

# `when` is a map; all its keys must match:
#   message: text in a message (`from: sender` narrows it) · child: id, with `state:` (default: ended) · children: a
#   state that all of them are in, or `ended` · goal, notes: text in it · rejected: text in the verdict, or true ·
#   result: as `expect`.
# `expect` is `ok`, a text that the last results must contain, or a map: `ok`, `error`, `exit`, `contains`, `not`.


@frozen
class ScriptFacts:
    """The facts that a `when` is matched against."""

    results: tuple[CallOutcome, ...]
    children: tuple[ChildView, ...]
    heard: tuple[JsonObject, ...]
    rejected: JsonObject | None
    goal: str
    notes: str


@frozen
class _WhenInput:
    """The input of each key of a `when`: the facts, and the whole map, because `from` and `state` narrow other keys."""

    facts: ScriptFacts
    when: JsonObject


def match_when(when: Json, facts: ScriptFacts) -> frozenset[str] | None:
    """The ids of the messages that the match consumes (often none), or None if `when` does not match."""
    if when is None:
        return frozenset()
    asked: JsonObject = {"message": when} if isinstance(when, str) else when
    if not _WHEN.matches(asked, _WhenInput(facts, asked)):
        return None
    if asked.keys().isdisjoint(("message", "from")):
        return frozenset()
    found = next((message for message in facts.heard if _is_message(message, asked)), None)
    return None if found is None else frozenset({str(found["id"])})


def _is_message(message: JsonObject, when: JsonObject) -> bool:
    sender = str(message["sender"])
    wanted = str(when.get("from", ""))
    if wanted and wanted != sender and not sender.endswith("/" + wanted):
        return False
    body = message["body"]
    text = body if isinstance(body, str) else encode(body).decode()
    return str(when.get("message", "")) in text


def _has_child(name: Json, asked: _WhenInput) -> bool:
    state = str(asked.when.get("state", "ended"))
    return any(_is_named(child, str(name)) and _is_in(child, state) for child in asked.facts.children)


def _are_all_in(state: Json, asked: _WhenInput) -> bool:
    children = asked.facts.children
    return bool(children) and all(_is_in(child, str(state)) for child in children)


def _has_result(wanted: Json, asked: _WhenInput) -> bool:
    return bool(asked.facts.results) and not expectation_error(wanted, asked.facts.results)


def _is_named(child: ChildView, name: str) -> bool:
    return child.task in (name, f"task/{name}") or child.task.endswith("/" + name)


def _is_in(child: ChildView, state: str) -> bool:
    return child.state in ENDED if state == "ended" else child.state == state


def _is_rejected(wanted: Json, asked: _WhenInput) -> bool:
    rejected = asked.facts.rejected
    if isinstance(wanted, bool):
        return wanted is (rejected is not None)
    return rejected is not None and str(wanted) in encode(rejected).decode()


_WHEN: Final = Vocabulary[_WhenInput](
    {
        # These keys are matched together with others.
        **dict.fromkeys(("message", "from", "state"), predicate(lambda _wanted, _asked: True)),
        "child": predicate(_has_child),
        "children": predicate(_are_all_in),
        "goal": predicate(lambda wanted, asked: str(wanted) in asked.facts.goal),
        "notes": predicate(lambda wanted, asked: str(wanted) in asked.facts.notes),
        "rejected": predicate(_is_rejected),
        "result": predicate(_has_result),
    },
    predicate(lambda when, _asked: when == {}),
)


def expectation_error(expect: Json, results: Sequence[CallOutcome]) -> str:
    """Why `results` are not as expected; empty if they are."""
    if isinstance(expect, str):
        expect = {"ok": True} if expect == "ok" else {"contains": expect}
    if not results and (expect == {} or _EXPECT.is_word_map(expect)):
        return "there are no results: no call was made before `expect`"
    return "; ".join(_EXPECT.reasons(expect, results))


def _all_text(results: Sequence[CallOutcome]) -> str:
    return "\n".join(part for outcome in results for part in (outcome.result.text, *outcome.comments))


def _expect_ok(value: Json, results: Sequence[CallOutcome], _at: str) -> str:
    has_failed = any(each.result.state is not CallState.SUCCEEDED for each in results)
    if bool(value) is not has_failed:
        return ""
    return f"expected ok: {value}, got: {_all_text(results) or 'all calls succeeded'}"


def _expect_error(value: Json, results: Sequence[CallOutcome], _at: str) -> str:
    errors = [each.result.error for each in results if each.result.error]
    return "" if str(value) in errors else f"expected the error {value}, got {', '.join(errors) or 'none'}"


def _expect_exit(value: Json, results: Sequence[CallOutcome], _at: str) -> str:
    codes = [each.result.exit_code for each in results]
    return "" if value in codes else f"expected exit code {value}, got {codes}"


def _expect_text(value: Json, results: Sequence[CallOutcome], _at: str) -> str:
    text = _all_text(results)
    return "" if str(value) in text else f"expected {str(value)!r} in the results, got: {text}"


def _expect_no_text(value: Json, results: Sequence[CallOutcome], _at: str) -> str:
    text = _all_text(results)
    return f"did not expect {str(value)!r} in: {text}" if str(value) in text else ""


_EXPECT_WORDS: Final = {
    "ok": _expect_ok,
    "error": _expect_error,
    "exit": _expect_exit,
    "contains": _expect_text,
    "not": _expect_no_text,
}
_EXPECT: Final = Vocabulary[Sequence[CallOutcome]](
    _EXPECT_WORDS,
    lambda expect, _results, _at: (
        "" if expect == {} else f"`expect` must be text or a map of {', '.join(sorted(_EXPECT_WORDS))}"
    ),
)


LEVEL_KEYS: Final = frozenset({"task", "rejected"})  # Keys of messages about states that `when` reads directly.
LIVE_STATES: Final = frozenset({"", "waiting", "blocked", "running", "checking", "paused", "stopping"})


@frozen
class _ScriptMemory:
    """The script's memory: the next step, unmatched messages, the end of a sleep, and the number of its claims."""

    step: int = 0
    heard: tuple[JsonObject, ...] = ()
    is_checked: bool = True
    ended: int = 0
    until: float | None = None

    def to_json(self) -> JsonObject:
        out: JsonObject = {"step": self.step, "heard": list(self.heard), "until": self.until}
        return out | {"is_checked": self.is_checked, "ended": self.ended}


@mutable
class _Walk:
    """The steps of one turn."""

    turn: TurnInput
    memory: _ScriptMemory
    draft: port.ReplyDraft = field(default_factory=port.ReplyDraft)


class ScriptRunner:
    """Answers a turn by running `steps` until one makes calls, waits or claims."""

    def __init__(self, steps: Sequence[JsonObject]) -> None:
        self._steps = tuple(steps)

    async def respond(self, turn: TurnInput) -> DeciderReply:
        memory = _ScriptMemory(**_memory_fields(turn.memory))
        heard = [message.to_json() for message in turn.messages if not _is_level(message)]
        walk = _Walk(turn, remade(memory, heard=(*memory.heard, *heard)[-limits.INBOX_MESSAGES_MAX :]))
        is_woken = any(message.delivery == "interrupt" for message in turn.messages)
        if memory.until is not None and turn.now < memory.until and not is_woken:
            # The script was woken early: it keeps the message and continues to sleep.
            walk.draft.sleep_s = memory.until - turn.now
        else:
            walk.memory = remade(walk.memory, until=None)
            self._walk(walk)
        return remade(walk.draft.reply(), memory=walk.memory.to_json())

    def _walk(self, walk: _Walk) -> None:
        while not walk.draft.calls:
            memory = walk.memory
            step = self._steps[memory.step] if memory.step < len(self._steps) else None
            if failure := _unexpected(walk, step):
                _claim(walk, "fail", failure)
                return
            if step is None:
                _end(walk)
                return
            if not self._take(walk, step):
                return

    def _take(self, walk: _Walk, step: JsonObject) -> bool:
        """Run one step. Returns False if the script has to wait."""
        memory, turn = walk.memory, walk.turn
        facts = ScriptFacts(turn.results, turn.children, memory.heard, turn.rejected, turn.goal, turn.notes)
        found = match_when(step.get("when"), facts)
        if found is None:
            return False
        heard = tuple(message for message in memory.heard if message["id"] not in found)
        verb = port.verb_of(step)
        if verb in ("done", "fail"):
            if verb == "done" and _has_live_children(turn):
                return False
            walk.memory = remade(memory, heard=heard)
            _claim(walk, verb, step[verb], memory.step + 1)
            return False
        walk.memory = remade(memory, step=memory.step + 1, heard=heard, is_checked=True)
        if "expect" in step or verb is None:
            return True
        port.add_action(walk.draft, {key: value for key, value in step.items() if key != "when"})
        walk.memory = remade(walk.memory, is_checked=not walk.draft.calls)
        if verb == "sleep" and walk.draft.sleep_s is not None:
            walk.memory = remade(walk.memory, until=turn.now + walk.draft.sleep_s)
            return False
        return True


def _is_level(message: Message) -> bool:
    # `when` matches the present state of children and verdicts, so messages about them are not kept.
    return message.kind == "state" and isinstance(message.body, dict) and not LEVEL_KEYS.isdisjoint(message.body)


def _memory_fields(memory: object) -> JsonObject:
    if not isinstance(memory, dict):
        return {}
    return {**memory, "heard": tuple(memory["heard"])}


def _unexpected(walk: _Walk, step: JsonObject | None) -> str:
    """Why the new results end the script; empty if they do not."""
    if step is not None and "expect" in step:
        return expectation_error(step["expect"], walk.turn.results)
    if walk.memory.is_checked or (step is not None and _looks_at_results(step)):
        return ""
    failed = [outcome for outcome in walk.turn.results if outcome.result.state is not CallState.SUCCEEDED]
    return "; ".join(f"{each.tool} failed: {each.result.text}" for each in failed)


def _looks_at_results(step: JsonObject) -> bool:
    when = step.get("when")
    return isinstance(when, dict) and "result" in when


def _has_live_children(turn: TurnInput) -> bool:
    return any(child.state in LIVE_STATES and not child.is_removing for child in turn.children)


def _end(walk: _Walk) -> None:
    if _has_live_children(walk.turn):
        return
    if walk.turn.rejected is not None and walk.memory.ended:
        reason = str(walk.turn.rejected.get("message", "")) or "its checks fail"
        _claim(walk, "fail", f"the script has no step left: {reason}")
        return
    _claim(walk, "done", "\n".join(walk.draft.texts) or None)


def _claim(walk: _Walk, kind: str, value: object, step: int | None = None) -> None:
    arguments = {"result": value} if kind == "done" else {"reason": str(value)}
    walk.draft.calls.append(ProposedCall(kind, arguments))
    walk.memory = remade(
        walk.memory, step=walk.memory.step if step is None else step, is_checked=True, ended=walk.memory.ended + 1
    )
