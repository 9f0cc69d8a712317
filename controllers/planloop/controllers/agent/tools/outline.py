"""The plan as text for an agent: one line a task, indented, with state, goal and result."""

from __future__ import annotations

from typing import Final

from planloop.controllers.agent.tools.tool import Objects
from planloop.schemas import limits
from planloop.schemas.encoding import encode

GOAL_CHARS: Final = 160


def outline(view: Objects, address: str) -> str:
    """The tasks from `address` down."""
    lines: list[str] = []
    _add(view, address, 0, lines)
    surplus = len(lines) - limits.OUTLINE_LINES_MAX
    if surplus > 0:
        lines[limits.OUTLINE_LINES_MAX :] = [f"[… {surplus} more tasks; name one below …]"]
    return "\n".join(lines)


def _add(view: Objects, address: str, depth: int, lines: list[str]) -> None:
    task = view.get(address)
    if task is None:
        return
    name = address.rpartition("/")[2]
    words = [f"{'  ' * depth}{name}", f"[{'removing' if task.deleting else task.state or 'new'}]"]
    goal = str(task.spec.get("goal", ""))
    words.append(goal if len(goal) <= GOAL_CHARS else goal[:GOAL_CHARS] + "…")
    result = task.status.get("result")
    if result is not None:
        words.append(f"→ {encode(result).decode()[:GOAL_CHARS]}")
    lines.append(" ".join(word for word in words if word))
    for child in task.spec.get("children", ()):
        _add(view, child, depth + 1, lines)
