"""A script as decider, for examples, tests and benchmarks: its steps, and what `when:` and `expect:` match."""

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

# What `when:` and `expect:` of a script mean: pure matches against messages, children, results and the verdict.
#
# `when` is a map; all its keys must hold:
#   message: text in a message (`from: who` narrows it) · child: id, with `state:` (default: ended) · children: a state
#   that all of them are in, or `ended` · goal, notes: text in it · rejected: text in the verdict, or true ·
#   result: as `expect`.
# `expect` is `ok`, or text that the last results must contain, or a map: `ok`, `error`, `exit`, `contains`, `not`.

WHEN_KEYS: Final = frozenset("message from child state children goal notes rejected result".split())
EXPECT_KEYS: Final = frozenset("ok error exit contains not".split())


@frozen
class ScriptFacts:
    """What a `when` is matched against."""

    results: tuple[CallOutcome, ...]
    children: tuple[ChildView, ...]
    heard: tuple[JsonObject, ...]
    rejected: JsonObject | None
    goal: str
    notes: str


def match_when(when: Json, facts: ScriptFacts) -> frozenset[str] | None:
    """The ids of the messages that the match used up (often none), or None when `when` does not hold."""
    if when is None:
        return frozenset()
    if isinstance(when, str):
        when = {"message": when}
    if not isinstance(when, dict) or not when.keys() <= WHEN_KEYS:
        return None
    if not all(_holds(key, value, when, facts) for key, value in when.items()):
        return None
    if "message" not in when and "from" not in when:
        return frozenset()
    found = next((message for message in facts.heard if _is_message(message, when)), None)
    return None if found is None else frozenset({str(found["id"])})


def _holds(key: str, value: Json, when: JsonObject, facts: ScriptFacts) -> bool:
    match key:
        case "child":
            state = str(when.get("state", "ended"))
            return any(_is_named(child, str(value)) and _is_in(child, state) for child in facts.children)
        case "children":
            return bool(facts.children) and all(_is_in(child, str(value)) for child in facts.children)
        case "goal":
            return str(value) in facts.goal
        case "notes":
            return str(value) in facts.notes
        case "rejected":
            return _is_rejected(value, facts.rejected)
        case "result":
            return bool(facts.results) and not expectation_error(value, facts.results)
        case _:
            return True


def _is_message(message: JsonObject, when: JsonObject) -> bool:
    sender = str(message["sender"])
    wanted = str(when.get("from", ""))
    if wanted and wanted != sender and not sender.endswith("/" + wanted):
        return False
    body = message["body"]
    text = body if isinstance(body, str) else encode(body).decode()
    return str(when.get("message", "")) in text


def _is_named(child: ChildView, name: str) -> bool:
    return child.task in (name, f"task/{name}") or child.task.endswith("/" + name)


def _is_in(child: ChildView, state: str) -> bool:
    return child.state in ENDED if state == "ended" else child.state == state


def _is_rejected(wanted: Json, rejected: JsonObject | None) -> bool:
    if isinstance(wanted, bool):
        return wanted is (rejected is not None)
    return rejected is not None and str(wanted) in encode(rejected).decode()


def expectation_error(expect: Json, results: Sequence[CallOutcome]) -> str:
    """Why `results` are not as expected, in words; empty when they are."""
    if isinstance(expect, str):
        expect = {"ok": True} if expect == "ok" else {"contains": expect}
    if not isinstance(expect, dict) or not expect.keys() <= EXPECT_KEYS:
        return f"`expect` is text or a map of {', '.join(sorted(EXPECT_KEYS))}"
    if not results:
        return "nothing to look at: no call was made before `expect`"
    faults = [_fault(key, value, results) for key, value in expect.items()]
    return "; ".join(fault for fault in faults if fault)


def _fault(key: str, value: Json, results: Sequence[CallOutcome]) -> str:
    text = "\n".join(part for outcome in results for part in (outcome.result.text, *outcome.comments))
    match key:
        case "ok":
            failed = [each for each in results if each.result.state is not CallState.SUCCEEDED]
            return "" if bool(value) is not bool(failed) else f"expected ok: {value}, and {text or 'all succeeded'}"
        case "error":
            errors = [each.result.error for each in results if each.result.error]
            return "" if str(value) in errors else f"expected the error {value}, got {', '.join(errors) or 'none'}"
        case "exit":
            codes = [each.result.exit_code for each in results]
            return "" if value in codes else f"expected exit code {value}, got {codes}"
        case "contains":
            return "" if str(value) in text else f"expected {str(value)!r} in the results, got: {text}"
        case _:
            return f"did not expect {str(value)!r} in: {text}" if str(value) in text else ""


# A script: the deterministic mind of examples, tests and benchmarks.
#
# Steps are taken in order; a step with `when` waits until it matches what the agent was told or how its children stand.
# `expect` looks at the results of the calls just before it; a call that failed with no `expect` after it ends the
# script with `fail`. The end of the script claims `done`; a rejected claim with no step left claims `fail`.
#
# Memory: the index of the next step, messages heard and not yet matched, until when it sleeps, how often it claimed.

LEVEL_KEYS: Final = frozenset({"task", "rejected"})  # Keys of the made messages that tell of a level.
LIVE_STATES: Final = frozenset({"", "waiting", "blocked", "running", "checking", "paused", "stopping"})


@frozen
class _Place:
    """Where the script stands."""

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
    """One turn through the steps."""

    turn: TurnInput
    place: _Place
    draft: port.ReplyDraft = field(default_factory=port.ReplyDraft)


class ScriptRunner:
    """Answers a turn by walking `steps` until one needs a result, a wait or a claim."""

    def __init__(self, steps: Sequence[JsonObject]) -> None:
        self._steps = tuple(steps)

    async def respond(self, turn: TurnInput) -> DeciderReply:
        place = _Place(**_place_of(turn.memory))
        heard = [message.to_json() for message in turn.messages if not _is_level(message)]
        walk = _Walk(turn, remade(place, heard=(*place.heard, *heard)[-limits.INBOX_MESSAGES_MAX :]))
        is_woken = any(message.delivery == "interrupt" for message in turn.messages)
        if place.until is not None and turn.now < place.until and not is_woken:
            # Woken early: the message is kept, the sleep goes on.
            walk.draft.sleep_s = place.until - turn.now
        else:
            walk.place = remade(walk.place, until=None)
            self._walk(walk)
        return remade(walk.draft.reply(), memory=walk.place.to_json())

    def _walk(self, walk: _Walk) -> None:
        while not walk.draft.calls:
            place = walk.place
            step = self._steps[place.step] if place.step < len(self._steps) else None
            if fault := _unexpected(walk, step):
                _claim(walk, "fail", fault)
                return
            if step is None:
                _end(walk)
                return
            if not self._take(walk, step):
                return

    def _take(self, walk: _Walk, step: JsonObject) -> bool:
        """Takes one step; False when the script has to wait."""
        place, turn = walk.place, walk.turn
        facts = ScriptFacts(turn.results, turn.children, place.heard, turn.rejected, turn.goal, turn.notes)
        found = match_when(step.get("when"), facts)
        if found is None:
            return False
        heard = tuple(message for message in place.heard if message["id"] not in found)
        verb = port.verb_of(step)
        if verb in ("done", "fail"):
            if verb == "done" and _has_live_children(turn):
                return False
            walk.place = remade(place, heard=heard)
            _claim(walk, verb, step[verb], place.step + 1)
            return False
        walk.place = remade(place, step=place.step + 1, heard=heard, is_checked=True)
        if "expect" in step or verb is None:
            return True
        port.add_action(walk.draft, {key: value for key, value in step.items() if key != "when"})
        walk.place = remade(walk.place, is_checked=not walk.draft.calls)
        if verb == "sleep" and walk.draft.sleep_s is not None:
            walk.place = remade(walk.place, until=turn.now + walk.draft.sleep_s)
            return False
        return True


def _is_level(message: Message) -> bool:
    # How a child stands and what a verdict says are matched as they are now, so their news need not be kept.
    return message.kind == "state" and isinstance(message.body, dict) and not LEVEL_KEYS.isdisjoint(message.body)


def _place_of(memory: object) -> JsonObject:
    if not isinstance(memory, dict):
        return {}
    return {**memory, "heard": tuple(memory["heard"])}


def _unexpected(walk: _Walk, step: JsonObject | None) -> str:
    """Why the results just in are not what the script goes on from; empty when they are."""
    if step is not None and "expect" in step:
        return expectation_error(step["expect"], walk.turn.results)
    if walk.place.is_checked or (step is not None and _looks_at_results(step)):
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
    if walk.turn.rejected is not None and walk.place.ended:
        reason = str(walk.turn.rejected.get("message", "")) or "its checks do not hold"
        _claim(walk, "fail", f"no step is left, and {reason}")
        return
    _claim(walk, "done", "\n".join(walk.draft.texts) or None)


def _claim(walk: _Walk, kind: str, value: object, step: int | None = None) -> None:
    arguments = {"result": value} if kind == "done" else {"reason": str(value)}
    walk.draft.calls.append(ProposedCall(kind, arguments))
    walk.place = remade(
        walk.place, step=walk.place.step if step is None else step, is_checked=True, ended=walk.place.ended + 1
    )
