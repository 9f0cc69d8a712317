"""Twenty agents that write the same twenty files: the plan, and what its log says of lines, waits and rings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.hands import END, file_of, line_of

FILES = 20
SCRIPTED, THINKING = 10, 10
SCRIPT_LINES = 12  # Of each scripted agent: four turns a line.
MODEL_LINES = 16  # Of each model: three and more turns a line, for some of them are tried again.
TOOLS = "[read, edit, lock, release]"

Entry = dict[str, Any]


def plan_text(models: str, *, name: str = "hands") -> str:
    """`models` is the table of models, as YAML on one line."""
    scripted = [f"  s{number}:\n{_script(f's{number}')}" for number in range(SCRIPTED)]
    thinking = [
        f"  m{number}:\n    goal: write your lines\n    agent: {{model: ollama/m{number}, tools: {TOOLS}}}"
        for number in range(THINKING)
    ]
    head = f"plan: {name}\n" if name else ""
    return head + "\n".join([f"models: {models}", "tasks:", *scripted, *thinking, ""])


def _script(agent: str) -> str:
    steps = [step for number in range(SCRIPT_LINES) for step in _steps(agent, number)]
    lines = "".join(f"        - {json.dumps(step)}\n" for step in steps)
    return f"    agent:\n      tools: {TOOLS}\n      script:\n{lines}"


def _steps(agent: str, number: int) -> Iterator[Entry]:
    path = file_of(agent, number, FILES)
    paths = sorted({path, file_of(agent, number, FILES, "beside")}) if number % 2 else [path]
    line = line_of(agent, number)
    yield {"call": {"lock": {"paths": paths, "reason": f"for {line}"}}}
    yield {"call": {"read": {"path": path, "lines": 1}}}
    yield {"call": {"edit": {"path": path, "old": END, "new": f"{line}\n{END}"}}}
    yield {"call": {"release": {}}}


def files() -> dict[str, str]:
    """The twenty files as they are at first."""
    return {f"f{number:02}.txt": f"file {number}\n{END}\n" for number in range(FILES)}


@dataclass(slots=True)
class Story:
    """What a log says. `acknowledged` are lines that an edit said it has written, by file; `waits_s` how long calls
    waited for locks; `rings_s` how long after the last of its waits began each ring was broken.
    """

    acknowledged: dict[str, list[str]] = field(default_factory=dict)
    waits_s: list[float] = field(default_factory=list)
    rings_s: list[float] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    turns: int = 0


def story_of(entries: Sequence[tuple[float, str, str, Entry]]) -> Story:
    """`entries` are the steps of the log in order: time, type, subject, data."""
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


def check_no_update_is_lost(story: Story, contents: dict[str, str]) -> None:
    """Every line whose writing was acknowledged is in its file, once, and no other."""
    for path, text in contents.items():
        found = text.splitlines()[1:-1]
        assert sorted(found) == sorted(story.acknowledged.get(path, ())), path
    wanted = {line_of(f"s{one}", number) for one in range(SCRIPTED) for number in range(SCRIPT_LINES)}
    wanted |= {line_of(f"m{one}", number) for one in range(THINKING) for number in range(MODEL_LINES)}
    assert {line for lines in story.acknowledged.values() for line in lines} == wanted
