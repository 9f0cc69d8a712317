"""Agents that all write the same files: their plan, and the lines, waits and cycles in its log.

Half of them are scripts, half are models (`hands.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.hands import END, file_of, line_of

TOOLS = "[read, edit, lock, release]"

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many agents write how many lines each; a script takes four turns a line, a model three and more."""

    scripts: int = 10
    script_lines: int = 12
    models: int = 10
    model_lines: int = 16
    files: int = 20

    def plan_text(self, more: str) -> str:
        """The tasks of all, after `more`."""
        scripted = [f"  s{number}:\n{self._script(f's{number}')}" for number in range(self.scripts)]
        thinking = [
            f"  m{number}:\n    goal: write your lines\n    agent: {{model: ollama/m{number}, tools: {TOOLS}}}"
            for number in range(self.models)
        ]
        return "\n".join([more, "tasks:", *scripted, *thinking, ""])

    def _script(self, agent: str) -> str:
        steps = [step for number in range(self.script_lines) for step in self._steps(agent, number)]
        lines = "".join(f"        - {json.dumps(step)}\n" for step in steps)
        return f"    agent:\n      tools: {TOOLS}\n      script:\n{lines}"

    def _steps(self, agent: str, number: int) -> Iterator[Entry]:
        path = file_of(agent, number, self.files)
        paths = sorted({path, file_of(agent, number, self.files, "beside")}) if number % 2 else [path]
        line = line_of(agent, number)
        yield {"call": {"lock": {"paths": paths, "reason": f"for {line}"}}}
        yield {"call": {"read": {"path": path, "lines": 1}}}
        yield {"call": {"edit": {"path": path, "old": END, "new": f"{line}\n{END}"}}}
        yield {"call": {"release": {}}}

    def contents(self) -> dict[str, str]:
        """The files as they are at first."""
        return {f"f{number:02}.txt": f"file {number}\n{END}\n" for number in range(self.files)}

    def check_no_update_is_lost(self, story: Story, contents: dict[str, str]) -> None:
        """Every line whose writing was acknowledged is in its file, once, and no other; and all were written."""
        for path in self.contents():
            found = contents[path].splitlines()[1:-1]
            assert sorted(found) == sorted(story.acknowledged.get(path, ())), path
        wanted = {line_of(f"s{one}", number) for one in range(self.scripts) for number in range(self.script_lines)}
        wanted |= {line_of(f"m{one}", number) for one in range(self.models) for number in range(self.model_lines)}
        assert {line for lines in story.acknowledged.values() for line in lines} == wanted


@dataclass(slots=True)
class Story:
    """`acknowledged` are lines that an edit said it has written, by file; `waits_s` how long calls waited for locks;
    `rings_s` how long after the last of its waits began each ring was broken; `errors` how often what was refused.
    """

    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    waits_s: list[float] = field(default_factory=list)
    rings_s: list[float] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    turns: int = 0


def told_by(entries: Sequence[tuple[float, str, str, Entry]]) -> Story:
    """What a log says: `entries` are its steps in order, with time, type, subject and data."""
    story, proposed, since = Story(), dict[str, Entry](), dict[str, float]()
    for at, kind, subject, data in entries:
        match kind:
            case "model.replied":
                proposed |= {call["call"]: call for call in data["calls"]}
            case "turn.ended":
                story.turns += 1
            case "call.waiting" if data["state"] == "AwaitingLock":
                since[subject] = at
            case "call.waiting" | "call.settled" if subject in since:
                story.waits_s.append(at - since.pop(subject))
        if kind == "call.settled":
            _settled(story, proposed.get(subject, {}), data["result"])
            if data["result"].get("error") == "Deadlock":
                story.rings_s.append(story.waits_s[-1])
    return story


def _settled(story: Story, call: Entry, result: Entry) -> None:
    if result.get("error"):
        story.errors[result["error"]] = story.errors.get(result["error"], 0) + 1
    if call.get("tool") == "edit" and result["state"] == "Succeeded":
        line = call["arguments"]["new"].partition("\n")[0]
        story.acknowledged.setdefault(call["arguments"]["path"], []).append(line)
