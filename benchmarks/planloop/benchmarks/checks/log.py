"""The `log` check: judge from the plan's log how an agent planned. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from itertools import pairwise
from types import MappingProxyType
from typing import Final, TypeAlias

from planloop.benchmarks.checks.call_rules import BadCheck, require_members
from planloop.benchmarks.checks.evidence import Evidence
from planloop.controllers.task.checks.run import CheckFinding
from planloop.schemas import patterns
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.checks import matchers
from planloop.schemas.checks.matchers import BadPattern
from planloop.schemas.diagnostic import ValuePath, ValueProblem
from planloop.schemas.frozen import mutable

# Times are row numbers, because only the order matters. The measured agent and its task have the empty name. Others are
# named by their path below that task.

MEASURED = ""
ENDED = frozenset({"done", "failed", "cancelled"})


@mutable
class LoggedTask:
    """The measured task or one of its descendants. `by` added it: None for the plan, empty for the measured agent."""

    name: str
    made: int
    by: str | None
    goal: str = ""
    needs: tuple[str, ...] = ()
    has_budget: bool = False
    has_checks: bool = False
    states: list[tuple[int, str]] = field(default_factory=list)
    removed: int | None = None

    @property
    def state(self) -> str:
        """The final state."""
        return "removed" if self.removed is not None else self.states[-1][1] if self.states else "waiting"

    def first(self, *states: str, since: int = 0) -> int | None:
        """When the task was first in one of `states`."""
        return next((at for at, state in self.states if state in states and at >= since), None)

    def state_at(self, time: int) -> str:
        """The state at `time`."""
        if self.removed is not None and self.removed <= time:
            return "removed"
        return next((state for at, state in reversed(self.states) if at <= time), "waiting")


@mutable
class LoggedCall:
    """A call of an agent. `state` is empty until the call ends."""

    by: str
    tool: str
    arguments: Json
    at: int
    ended: int | None = None
    state: str = ""
    text: str = ""
    has_violated: bool = False

    @property
    def is_done(self) -> bool:
        return self.state == "Succeeded"

    @property
    def is_refused(self) -> bool:
        """Whether the call was refused: by rights, by a hook, or because the gate rejected its patch."""
        return self.state == "Denied"

    @property
    def likeness(self) -> tuple[str, str]:
        """Key that is equal for calls with the same request."""
        return self.tool, encode_text(self.arguments)


@mutable
class HeardMessage:
    """A message that an agent read."""

    by: str
    text: str
    at: int


@mutable
class AttemptHistory:
    """Tasks, calls and messages of an attempt in order. `refused`: patches that the gate rejected.

    `parked`: spent budgets.
    """

    tasks: dict[str, LoggedTask] = field(default_factory=dict)
    gone: list[LoggedTask] = field(default_factory=list)
    calls: list[LoggedCall] = field(default_factory=list)
    heard: list[HeardMessage] = field(default_factory=list)
    refused: list[tuple[int, str, str]] = field(default_factory=list)
    parked: list[tuple[int, str]] = field(default_factory=list)

    def all_tasks(self) -> list[LoggedTask]:
        """All tasks, including removed ones. Tasks that followed each other may have the same name."""
        return sorted([*self.gone, *self.tasks.values()], key=lambda task: task.made)

    def children(self) -> list[LoggedTask]:
        """The tasks at any depth that the measured agent added."""
        return [task for task in self.all_tasks() if task.by == MEASURED and task.name]

    def of(self, *agents: str) -> list[LoggedCall]:
        return [call for call in self.calls if call.by in agents]

    def own(self) -> set[str]:
        """The measured agent and all agents that it created, directly or indirectly."""
        found = {MEASURED}
        for task in self.all_tasks():
            if task.name and task.by in found:
                found.add(task.name)
        return found

    def claim(self) -> int | None:
        """When the measured agent last called `done`."""
        return next((call.at for call in reversed(self.of(MEASURED)) if call.tool == "done"), None)


def fold_attempt(rows: Iterable[JsonObject]) -> AttemptHistory:
    """Fold `rows` to a history. Rows of unknown kinds are ignored."""
    found, open_calls = AttemptHistory(), dict[str, LoggedCall]()
    for at, row in enumerate(rows, 1):
        match row["what"]:
            case "made" | "state" | "removed":
                _of_task(found, row, at)
            case "call" | "settled":
                _of_call(found, row, at, open_calls)
            case "read":
                found.heard.append(HeardMessage(row["by"], row["text"], at))
            case "refused":
                found.refused.append((at, row["by"], row["why"]))
            case "parked":
                found.parked.append((at, row["by"]))
            case _:
                pass
    return found


def _of_task(found: AttemptHistory, row: JsonObject, at: int) -> None:
    task = found.tasks.get(row["task"])
    if row["what"] == "made":
        _make(found, row, at)
    elif task is not None and row["what"] == "removed":
        task.removed = at
        found.gone.append(found.tasks.pop(task.name))
    elif task is not None:
        task.states.append((at, row["state"]))


def _of_call(found: AttemptHistory, row: JsonObject, at: int, open_calls: dict[str, LoggedCall]) -> None:
    if row["what"] == "call":
        call = open_calls[row["call"]] = LoggedCall(row["by"], row["tool"], row["arguments"], at)
        if row["fault"]:
            call.state, call.text = "Failed", row["fault"]
        found.calls.append(call)
    elif (ended := open_calls.get(row["call"])) is not None:
        ended.ended, ended.state, ended.text = at, row["state"], row["text"]
        ended.has_violated = row["violated"]


def _make(found: AttemptHistory, row: Mapping[str, Json], at: int) -> None:
    """Add a task or update an existing one, which keeps who added it and when."""
    name = row["task"]
    task = found.tasks.setdefault(name, LoggedTask(name, at, row["by"]))
    task.goal, task.needs = row["goal"], tuple(row["needs"])
    task.has_budget, task.has_checks = row["budget"], bool(row["checks"])


OF_TASKS = ("made", "begun", "done", "failed")


class BadName(ValueError):
    """An invalid name or pattern; the message says why."""


def tasks_named(name: str, found: AttemptHistory) -> list[LoggedTask]:
    """The tasks below the measured one that `name` matches, in the order in which they were added."""
    return [task for task in found.all_tasks() if task.name and _picks(name, task)]


def _picks(name: str, task: LoggedTask) -> bool:
    if matchers.regex_source(name) is not None:
        return _fits(name, task.name) or _fits(name, task.goal)
    glob = patterns.star_regex(name)
    return bool(glob.fullmatch(task.name) or glob.fullmatch(task.name.rpartition("/")[2]))


def moment_of(asked: JsonObject, found: AttemptHistory) -> int | None:
    """When the moment first happened; None if it never did."""
    (kind,) = [name for name in (*OF_TASKS, "call", "reads", "claims") if name in asked] or [""]
    match kind:
        case "made" | "begun" | "done" | "failed":
            times = [_time(kind, task) for task in tasks_named(asked[kind], found)]
        case "call":
            glob = patterns.star_regex(asked["call"])
            fitting = (call for call in found.of(MEASURED) if call.is_done and glob.fullmatch(call.tool))
            times = [call.ended for call in fitting if contains_pattern(call.arguments, asked.get("has"))]
        case "reads":
            times = [one.at for one in found.heard if one.by == MEASURED and contains_pattern(one.text, asked["reads"])]
        case "claims":
            times = [call.at for call in found.of(MEASURED) if call.tool == "done"]
        case _:
            raise BadName("a moment must be a map with one of made, begun, done, failed, call, reads and claims")
    return min((time for time in times if time is not None), default=None)


def _time(kind: str, task: LoggedTask) -> int | None:
    match kind:
        case "made":
            return task.made
        case "begun":
            return task.first("running", "checking", "done", "failed")
        case _:
            return task.first(kind)


def contains_pattern(value: Json, pattern: Json) -> bool:
    """Whether `value` contains `pattern`: a text or `/regex/` in its text, a map among its members."""
    if pattern is None:
        return True
    text = value if isinstance(value, str) else encode_text(value)
    if isinstance(pattern, str):
        return _fits(pattern, text) if matchers.regex_source(pattern) is not None else pattern in text
    return not _matches({"subset": pattern} if isinstance(pattern, dict) else pattern, value)


def contains_word(value: Json, word: str) -> bool:
    """Whether `word` is a name or a path segment in `value`."""
    if isinstance(value, str):
        return word in value.replace("~1", "/").split("/")
    if isinstance(value, list):
        return any(contains_word(each, word) for each in value)
    return isinstance(value, dict) and any(contains_word(each, word) for each in value.values())


def names_asked(rules: Json, at: ValuePath = ()) -> Iterator[tuple[ValuePath, Json]]:
    """Every name and pattern of a `log` check, with its location."""
    if isinstance(rules, dict):
        for name, value in rules.items():
            if name in (*OF_TASKS, "reads", "has", "from", "to") and not (
                at == ("children",) or isinstance(value, bool)
            ):
                yield (*at, name), value
            elif at == ("ends",):
                yield (*at, name), name
            else:
                yield from names_asked(value, (*at, name))
    elif isinstance(rules, list):
        for index, value in enumerate(rules):
            if isinstance(value, str) and at[:1] == ("order",):
                yield (*at, str(index)), value
            else:
                yield from names_asked(value, (*at, str(index)))


def pattern_problem(pattern: Json) -> str:
    """Why the pattern is invalid; empty if it is valid."""
    return next((found.summary for found in matchers.pattern_problems(pattern)), "")


def moment_text(asked: Json, kind: str) -> str:
    """A moment in words."""
    if isinstance(asked, str):
        return f"`{asked}` {kind}"
    return " ".join(f"{name} `{value}`" for name, value in asked.items())


def _fits(pattern: str, text: str) -> bool:
    return not _matches(pattern, text)


def _matches(pattern: Json, value: Json) -> str:
    try:
        return matchers.find_mismatch(pattern, value)
    except BadPattern as error:
        raise BadName(str(error)) from None


def _children_of(found: AttemptHistory) -> str:
    children = found.children()
    return f"a task was added: `{children[0].name}`" if children else ""


def _left_running(found: AttemptHistory) -> str:
    claim = found.claim()
    if claim is None:
        return ""
    for task in found.children():
        state = task.state_at(claim)
        if task.made < claim and state not in ENDED and state != "removed":
            return f"the agent called `done` while `{task.name}` was {state}"
    return ""


def _lock_violated(found: AttemptHistory) -> str:
    own = found.own()
    guilty = next((call for call in found.calls if call.has_violated and call.by in own), None)
    return f"a command of `{guilty.tool}` changed files that others had locked" if guilty else ""


def _over_budget(found: AttemptHistory) -> str:
    own = found.own()
    parked = [by for _, by in found.parked if by in own]
    return f"the budget of {_who(parked[0])} was used up" if parked else ""


def _refused(found: AttemptHistory) -> str:
    own = found.own()
    call = next((call for call in found.calls if call.is_refused and call.by in own), None)
    if call is not None:
        return f"`{call.tool}` was refused: {call.text[:200]}"
    patch = next((why for _, by, why in found.refused if by in own), None)
    return f"a change of the plan was rejected: {patch[:200]}" if patch is not None else ""


def _refused_again(found: AttemptHistory) -> str:
    own, seen = found.own(), set[tuple[str, str]]()
    for call in found.calls:
        if call.is_refused and call.by in own:
            if call.likeness in seen:
                return f"`{call.tool}` was refused and called again with the same arguments"
            seen.add(call.likeness)
    return ""


def _who(by: str) -> str:
    return "the agent" if by == MEASURED else f"`{by}`"


NEVER_RULES: Final[Mapping[str, Callable[[AttemptHistory], str]]] = MappingProxyType(
    {
        "children": _children_of,
        "left-running": _left_running,
        "lock-violated": _lock_violated,
        "over-budget": _over_budget,
        "refused": _refused,
        "refused-again": _refused_again,
    }
)


# The check judges how the agent handled its tasks. Whether the work is right is for checks of files.

TELLING: Final = ("send", "answer", "discuss", "edit_plan", "plan_patch")
"""Tools that inform a child agent."""

LogRule: TypeAlias = Callable[[Json, AttemptHistory], Iterator[str]]
"""Yield the problems found by one rule, as sentences."""


def judge_log(arguments: JsonObject, evidence: Evidence) -> CheckFinding:
    """Judge whether the log has everything that the check requires and nothing that it forbids."""
    found = fold_attempt(evidence.records)
    try:
        rules = require_members(arguments, tuple(RULES), "`log`")
        problems = [why for name, value in rules.items() for why in RULES[name](value, found)]
    except (BadCheck, BadName) as error:
        return CheckFinding("error", str(error), probes=0)
    probes = sum(len(value) if isinstance(value, list | dict) else 1 for value in rules.values())
    words = "; ".join(problems) or f"all rules hold: {_summed_up(found)}"
    return CheckFinding(
        "fail" if problems else "pass", words, probes=probes if evidence.records else 0, figures=_figures(found)
    )


def log_check_problems(arguments: Json) -> Iterator[ValueProblem]:
    """Problems of a well-formed check: invalid names and patterns."""
    for place, value in names_asked(arguments):
        why = pattern_problem(value)
        if why:
            yield ValueProblem(place, "P0205", why, "write a path with stars, or `/words/`")


def _children(rule: Json, found: AttemptHistory) -> Iterator[str]:
    children = found.children()
    yield from _counted(rule, len(children), "tasks added")
    kept = [task for task in children if task.state != "removed"]
    if rule.get("done") and (left := [task for task in kept if task.state != "done"]):
        yield f"`{left[0].name}` is {left[0].state} at the end"
    for member, has in (("budget", "has_budget"), ("checks", "has_checks")):
        lacking = [task.name for task in children if not getattr(task, has)]
        if rule.get(member) and lacking:
            yield f"`{lacking[0]}` has no {member}"
    needing = sum(1 for task in children if task.needs)
    if needing < rule.get("needs", 0):
        yield f"{needing} of the added tasks have `needs`; expected at least {rule['needs']}"


def _order(rule: Json, found: AttemptHistory) -> Iterator[str]:
    for row in rule:
        for before, after in pairwise(row):
            yield from _before(before, after, found)


def _before(before: Json, after: Json, found: AttemptHistory) -> Iterator[str]:
    first = moment_of({"done": before} if isinstance(before, str) else before, found)
    then = moment_of({"begun": after} if isinstance(after, str) else after, found)
    if first is None:
        yield f"{moment_text(before, 'done')} never happened"
    elif then is None:
        yield f"{moment_text(after, 'begun')} never happened"
    elif then < first:
        yield f"{moment_text(after, 'begun')} came before {moment_text(before, 'done')}"


def _never(rule: Json, found: AttemptHistory) -> Iterator[str]:
    for each in rule:
        if isinstance(each, str):
            why = NEVER_RULES[each](found)
            if why:
                yield why
        elif moment_of(each, found) is not None:
            yield f"{moment_text(each, '')} happened, but must not"


def _ends(rule: Json, found: AttemptHistory) -> Iterator[str]:
    for name, wanted in rule.items():
        tasks = tasks_named(name, found)
        if not tasks:
            yield f"there was no task `{name}`"
        elif all(task.state != wanted for task in tasks):
            yield f"`{tasks[-1].name}` is {tasks[-1].state} at the end, not {wanted}"


def _calls(rule: Json, found: AttemptHistory) -> Iterator[str]:
    for tool, count in rule.items():
        fits = patterns.star_regex(tool)
        yield from _counted(
            count, sum(1 for call in found.of(MEASURED) if fits.fullmatch(call.tool)), f"calls of `{tool}`"
        )


def _recovers(rule: Json, found: AttemptHistory) -> Iterator[str]:
    name, ways = rule["from"], rule.get("by") or ["again", "another", "itself"]
    failed = [(task, at) for task in tasks_named(name, found) if (at := task.first("failed")) is not None]
    if not failed:
        yield f"`{name}` never failed"
    for task, at in failed:
        if not any(_REPAIRS[way](task, at, found) for way in ways):
            yield f"`{task.name}` failed, and the agent did not recover ({', '.join(ways)})"


def _is_done_again(task: LoggedTask, at: int, found: AttemptHistory) -> bool:
    del found
    return task.state == "done" and task.first("done", since=at) is not None


def _is_replaced(task: LoggedTask, at: int, found: AttemptHistory) -> bool:
    later = (other for other in found.children() if other.made > at and other is not task)
    return any(other.state == "done" for other in later)


def _is_made_up_for(task: LoggedTask, at: int, found: AttemptHistory) -> bool:
    del task
    return any(call.at > at and call.is_done and call.tool in ("write", "edit", "shell") for call in found.of(MEASURED))


_REPAIRS: Final = {"again": _is_done_again, "another": _is_replaced, "itself": _is_made_up_for}


def _tells(rule: Json, found: AttemptHistory) -> Iterator[str]:
    for each in rule:
        tasks = tasks_named(each["to"], found)
        messages = [call for call in found.of(MEASURED) if call.tool in TELLING and call.is_done]
        if not any(
            _is_to(call, task) and contains_pattern(call.arguments, each.get("has"))
            for call in messages
            for task in tasks
        ):
            what = f" that matches {each['has']}" if "has" in each else ""
            yield f"`{each['to']}` never got a message{what}"


def _is_to(call: LoggedCall, task: LoggedTask) -> bool:
    """Whether the call names the task: as recipient, as speaker, or in a path of the plan."""
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    named = [arguments.get(name) for name in ("to", "speakers", "path", "ops")]
    last = task.name.rpartition("/")[2]
    return arguments.get("to") == "children" or any(contains_word(one, last) for one in named)


def _counted(rule: Json, count: int, what: str) -> Iterator[str]:
    if count < rule.get("at-least", 0):
        yield f"{count} {what}; expected at least {rule['at-least']}"
    if count > rule.get("at-most", count):
        yield f"{count} {what}; expected at most {rule['at-most']}"


RULES: Final[Mapping[str, LogRule]] = MappingProxyType(
    {
        "children": _children,
        "order": _order,
        "never": _never,
        "ends": _ends,
        "calls": _calls,
        "recovers": _recovers,
        "tells": _tells,
    }
)


def _figures(found: AttemptHistory) -> dict[str, float]:
    """Soft figures: counts of delegated tasks, refusals and failed tasks."""
    children = found.children()
    refused = [call for call in found.calls if call.is_refused and call.by in found.own()]
    failed = [task for task in children if task.first("failed") is not None]
    return {"children": len(children), "refusals": len(refused) + len(found.refused), "children_failed": len(failed)}


def _summed_up(found: AttemptHistory) -> str:
    children = found.children()
    ended = sum(1 for task in children if task.state in ENDED)
    return f"{len(found.of(MEASURED))} calls, {len(children)} tasks added, {ended} of them ended"
