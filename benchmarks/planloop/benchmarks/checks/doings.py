"""What happened below a case's task, folded from the rows of its log (`planloop.benchmarks.events.happening`).

Times are numbers of rows: what matters is what came before what. The agent that is measured has the empty name, and so
has its task; everybody else is named by their path below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from planloop.schemas.encoding import Json, JsonObject, encode_text
from planloop.schemas.frozen import mutable

MEASURED = ""
ENDED = frozenset({"done", "failed", "cancelled"})


@mutable
class Task:
    """A task below the measured one, or that one itself. `by` added it: None for the plan, empty for the measured."""

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
        """How it stands at the end."""
        return "removed" if self.removed is not None else self.states[-1][1] if self.states else "waiting"

    def first(self, *states: str, since: int = 0) -> int | None:
        """When it first was in one of `states`."""
        return next((at for at, state in self.states if state in states and at >= since), None)

    def state_at(self, time: int) -> str:
        """How it stood at `time`."""
        if self.removed is not None and self.removed <= time:
            return "removed"
        return next((state for at, state in reversed(self.states) if at <= time), "waiting")


@mutable
class Call:
    """A call of an agent. `state` is empty until it has ended."""

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
        """Whether it was turned down, by rights or a hook, or because the gate refused the patch that it made."""
        return self.state == "Denied"

    @property
    def likeness(self) -> tuple[str, str]:
        """Equal for calls that ask for the same."""
        return self.tool, encode_text(self.arguments)


@mutable
class Heard:
    """A message that was read."""

    by: str
    text: str
    at: int


@mutable
class Doings:
    """All of it, in order. `refused` are patches that the gate turned down, `parked` budgets that were used up."""

    tasks: dict[str, Task] = field(default_factory=dict)
    gone: list[Task] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    refused: list[tuple[int, str, str]] = field(default_factory=list)
    parked: list[tuple[int, str]] = field(default_factory=list)

    def all_tasks(self) -> list[Task]:
        """Those that are gone, too; of one name there may be several, one after the other."""
        return sorted([*self.gone, *self.tasks.values()], key=lambda task: task.made)

    def children(self) -> list[Task]:
        """The tasks that the measured agent added, right below it or further down."""
        return [task for task in self.all_tasks() if task.by == MEASURED and task.name]

    def of(self, *agents: str) -> list[Call]:
        return [call for call in self.calls if call.by in agents]

    def own(self) -> set[str]:
        """The measured agent, and those that it made or that they made."""
        found = {MEASURED}
        for task in self.all_tasks():
            if task.name and task.by in found:
                found.add(task.name)
        return found

    def claim(self) -> int | None:
        """When the measured agent last said that it is done."""
        return next((call.at for call in reversed(self.of(MEASURED)) if call.tool == "done"), None)


def doings(rows: Iterable[JsonObject]) -> Doings:
    """The fold. A row of a kind that it does not know says nothing."""
    found, open_calls = Doings(), dict[str, Call]()
    for at, row in enumerate(rows, 1):
        match row["what"]:
            case "made" | "state" | "removed":
                _of_task(found, row, at)
            case "call" | "settled":
                _of_call(found, row, at, open_calls)
            case "read":
                found.heard.append(Heard(row["by"], row["text"], at))
            case "refused":
                found.refused.append((at, row["by"], row["why"]))
            case "parked":
                found.parked.append((at, row["by"]))
            case _:
                pass
    return found


def _of_task(found: Doings, row: JsonObject, at: int) -> None:
    task = found.tasks.get(row["task"])
    if row["what"] == "made":
        _make(found, row, at)
    elif task is not None and row["what"] == "removed":
        task.removed = at
        found.gone.append(found.tasks.pop(task.name))
    elif task is not None:
        task.states.append((at, row["state"]))


def _of_call(found: Doings, row: JsonObject, at: int, open_calls: dict[str, Call]) -> None:
    if row["what"] == "call":
        call = open_calls[row["call"]] = Call(row["by"], row["tool"], row["arguments"], at)
        if row["fault"]:
            call.state, call.text = "Failed", row["fault"]
        found.calls.append(call)
    elif (ended := open_calls.get(row["call"])) is not None:
        ended.ended, ended.state, ended.text = at, row["state"], row["text"]
        ended.has_violated = row["violated"]


def _make(found: Doings, row: Mapping[str, Json], at: int) -> None:
    """A task is added, or is another than before: who added it and when stays."""
    name = row["task"]
    task = found.tasks.setdefault(name, Task(name, at, row["by"]))
    task.goal, task.needs = row["goal"], tuple(row["needs"])
    task.has_budget, task.has_checks = row["budget"], bool(row["checks"])
