"""What `when:` and `expect:` of a script mean: pure matches against messages, children, results and the verdict.

`when` is a map; all its keys must hold:
  message: text in a message (`from: who` narrows it) · child: id, with `state:` (default: ended) · children: a state
  that all of them are in, or `ended` · goal, notes: text in it · rejected: text in the verdict, or true ·
  result: as `expect`.
`expect` is `ok`, or text that the last results must contain, or a map: `ok`, `error`, `exit`, `contains`, `not`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planloop.controllers.agent.minds.port import CallOutcome, ChildView
from planloop.schemas.call import CallState
from planloop.schemas.encoding import Json, JsonObject, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.task import ENDED

WHEN_KEYS: Final = frozenset("message from child state children goal notes rejected result".split())
EXPECT_KEYS: Final = frozenset("ok error exit contains not".split())


@frozen
class Facts:
    """What a `when` is matched against."""

    results: tuple[CallOutcome, ...]
    children: tuple[ChildView, ...]
    heard: tuple[JsonObject, ...]
    rejected: JsonObject | None
    goal: str
    notes: str


def matched(when: Json, facts: Facts) -> frozenset[str] | None:
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


def _holds(key: str, value: Json, when: JsonObject, facts: Facts) -> bool:
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
            return bool(facts.results) and not expectation_fault(value, facts.results)
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


def expectation_fault(expect: Json, results: Sequence[CallOutcome]) -> str:
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
