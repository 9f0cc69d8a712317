"""The names and moments of `log` checks: which tasks a name picks, and when something first happened."""

from __future__ import annotations

from collections.abc import Iterator

from planloop.benchmarks.checks.doings import MEASURED, Doings, Task
from planloop.schemas import matcher_faults, matchers, patterns
from planloop.schemas.encoding import Json, JsonObject, encode_text
from planloop.schemas.fault_at import Place
from planloop.schemas.matchers import BadPattern

OF_TASKS = ("made", "begun", "done", "failed")


class BadName(ValueError):
    """A name or pattern that nobody can look for; the text says why."""


def named(name: str, found: Doings) -> list[Task]:
    """The tasks below that a name picks, in the order in which they were added."""
    return [task for task in found.all_tasks() if task.name and _picks(name, task)]


def _picks(name: str, task: Task) -> bool:
    if matchers.expression_in(name) is not None:
        return _fits(name, task.name) or _fits(name, task.goal)
    glob = patterns.starred(name)
    return bool(glob.fullmatch(task.name) or glob.fullmatch(task.name.rpartition("/")[2]))


def moment(asked: JsonObject, found: Doings) -> int | None:
    """When it first happened; None when it never did."""
    (kind,) = [name for name in (*OF_TASKS, "call", "reads", "claims") if name in asked] or [""]
    match kind:
        case "made" | "begun" | "done" | "failed":
            times = [_time(kind, task) for task in named(asked[kind], found)]
        case "call":
            glob = patterns.starred(asked["call"])
            fitting = (call for call in found.of(MEASURED) if call.is_done and glob.fullmatch(call.tool))
            times = [call.ended for call in fitting if has(call.arguments, asked.get("has"))]
        case "reads":
            times = [one.at for one in found.heard if one.by == MEASURED and has(one.text, asked["reads"])]
        case "claims":
            times = [call.at for call in found.of(MEASURED) if call.tool == "done"]
        case _:
            raise BadName("a moment is a map with one of made, begun, done, failed, call, reads and claims")
    return min((time for time in times if time is not None), default=None)


def _time(kind: str, task: Task) -> int | None:
    match kind:
        case "made":
            return task.made
        case "begun":
            return task.first("running", "checking", "done", "failed")
        case _:
            return task.first(kind)


def has(value: Json, pattern: Json) -> bool:
    """Whether `pattern` is in `value`: a text or `/words/` in what is written there, a map among its members."""
    if pattern is None:
        return True
    text = value if isinstance(value, str) else encode_text(value)
    if isinstance(pattern, str):
        return _fits(pattern, text) if matchers.expression_in(pattern) is not None else pattern in text
    return not _matches({"subset": pattern} if isinstance(pattern, dict) else pattern, value)


def has_word(value: Json, word: str) -> bool:
    """Whether `word` stands in `value` as a name or a part of a path."""
    if isinstance(value, str):
        return word in value.replace("~1", "/").split("/")
    if isinstance(value, list):
        return any(has_word(each, word) for each in value)
    return isinstance(value, dict) and any(has_word(each, word) for each in value.values())


def asked(rules: Json, at: Place = ()) -> Iterator[tuple[Place, Json]]:
    """Every name and pattern of a `log` check, with its place."""
    if isinstance(rules, dict):
        for name, value in rules.items():
            if name in (*OF_TASKS, "reads", "has", "from", "to") and not (
                at == ("children",) or isinstance(value, bool)
            ):
                yield (*at, name), value
            elif at == ("ends",):
                yield (*at, name), name
            else:
                yield from asked(value, (*at, name))
    elif isinstance(rules, list):
        for index, value in enumerate(rules):
            if isinstance(value, str) and at[:1] == ("order",):
                yield (*at, str(index)), value
            else:
                yield from asked(value, (*at, str(index)))


def unusable(pattern: Json) -> str:
    """Why nobody can look for it; empty when one can."""
    return next((found.summary for found in matcher_faults.faults_of(pattern)), "")


def shown(asked: Json, kind: str) -> str:
    """A moment in words."""
    if isinstance(asked, str):
        return f"`{asked}` {kind}"
    return " ".join(f"{name} `{value}`" for name, value in asked.items())


def _fits(pattern: str, text: str) -> bool:
    return not _matches(pattern, text)


def _matches(pattern: Json, value: Json) -> str:
    try:
        return matchers.matches(pattern, value)
    except BadPattern as error:
        raise BadName(str(error)) from None
