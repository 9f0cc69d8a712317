"""A Python function `file.py:name` as a mind: a program like any other, in a process of its own (`python_child.py`).

The function is given the turn as a map and returns an action, a list of actions, a text, or None. The file is looked
for below the plan's folder, `lib:name` in `../library/`. A process of its own keeps a hanging or dying function from
taking the owner with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from planloop.controllers.agent.minds.port import MindFailed
from planloop.controllers.agent.minds.program import ProgramMind
from planloop.controllers.agent.ports import World

CHILD: Final = Path(__file__).with_name("python_child.py")
LIBRARY: Final = Path(__file__).parents[1] / "library"
STEP: Final = "step"  # What the function of a library agent is called.


def python_mind(world: World, target: str, setting: ProgramMind.Setting) -> ProgramMind:
    """The mind behind `target`. Raises MindFailed when it does not name a function in a file."""
    return ProgramMind(world.processes, python_command(world, target), setting)


def python_command(world: World, target: str) -> tuple[str, ...]:
    """What runs the function `target` once, on a JSON line. Raises MindFailed when there is no such file."""
    file, colon, name = target.rpartition(":")
    if file == "lib" and name.isidentifier() and (path := LIBRARY / f"{name}.py").is_file():
        return world.python, str(CHILD), str(path), STEP
    if not colon or not name.isidentifier():
        raise MindFailed(f"`{target}` does not name a function: write `file.py:name`")
    path = world.folder / file
    if not path.is_file():
        raise MindFailed(f"there is no file `{file}` in the plan's folder")
    return world.python, str(CHILD), str(path), name
