"""Warn about hooks that guard nothing: no agent matches, or their program is missing.

Both are warnings: an agent or a file may come later. What the plan's own tasks make is theirs to know.
"""

from __future__ import annotations

from collections.abc import Mapping

from planloop.compiler.check.tasks import TaskTree
from planloop.compiler.graph import Sources
from planloop.compiler.lower import hooks
from planloop.compiler.lower.hooks import ResolvedHook
from planloop.compiler.problems import Pointer, Problems
from planloop.compiler.resolve.needs import TaskPath
from planloop.schemas import address as addresses
from planloop.schemas import json_pointer
from planloop.schemas.objects.hook import HookFunction, HookProgram
from planloop.schemas.resource import WantedObject


def warn_idle_hooks(
    tree: TaskTree,
    objects: Mapping[str, WantedObject],
    made: Mapping[str, ResolvedHook],
    sources: Sources,
    faults: Problems,
) -> None:
    """Tells of every hook in `tree` that watches no agent of `objects`, and of those `made` that cannot be asked."""
    _tell_unwatching(tree, objects, faults)
    told: set[Pointer] = set()
    for at, hook in made.items():
        if hook.to not in told:
            told.add(hook.to)
            _tell_program(hook, _cwd(objects, str(objects[at].spec["set_at"])), sources, faults)


def _tell_unwatching(tree: TaskTree, objects: Mapping[str, WantedObject], faults: Problems) -> None:
    watchable: set[TaskPath] = set()
    for path, task in tree:
        if task.get("hooks") and not watchable:
            watchable = _with_agents(objects)
        for name in task.get("hooks", ()) if path not in watchable else ():
            why = "`run` is a command" if "run" in task else "no task here has an agent"
            hint = "hooks watch agents: set it where there is one"
            to = (*json_pointer.task_pointer(path), "hooks", name)
            faults.warn_on_key("P0228", f"hook `{name}` watches nobody: {why}", hint, to=to)


def _with_agents(objects: Mapping[str, WantedObject]) -> set[TaskPath]:
    """The tasks that have an agent, or one below them."""
    paths = {addresses.parse_address(address).path for address in objects if address.startswith("agent/")}
    return {path[:depth] for path in paths for depth in range(len(path) + 1)}


def _cwd(objects: Mapping[str, WantedObject], set_at: str) -> str:
    task = objects.get(f"task/{set_at.partition('/')[2]}")
    return str(task.spec.get("cwd") or ".") if task is not None else "."


def _tell_program(hook: ResolvedHook, cwd: str, sources: Sources, faults: Problems) -> None:
    match hook.mind:
        case HookProgram(argv=argv):
            program, script = hooks.program_words(argv)
            if program and not sources.has_program(program, cwd):
                _tell(hook, *_not_run(program, cwd, sources), faults)
            elif script and not sources.has_file(f"{cwd}/{script}"):
                _tell(hook, f"there is no file `{script}`", _looked_for(cwd), faults)
        case HookFunction(target=target) if not target.startswith("lib:"):
            file = target.rpartition(":")[0]
            if not sources.has_file(file):
                _tell(hook, f"there is no file `{file}`", _looked_for("."), faults)
        case _:
            pass


def _not_run(program: str, cwd: str, sources: Sources) -> tuple[str, str]:
    if "/" not in program:
        return f"there is no program `{program}`", "install it, or put the folder where it is into PATH"
    if sources.has_file(f"{cwd}/{program}"):
        return f"the file `{program}` is not executable", f"chmod +x {program.removeprefix('./')}"
    return f"there is no file `{program}`", _looked_for(cwd)


def _looked_for(cwd: str) -> str:
    where = "beside the plan file" if cwd in ("", ".") else f"in `{cwd}`, where the hook is set"
    return f"it is looked for {where}"


def _tell(hook: ResolvedHook, summary: str, hint: str, faults: Problems) -> None:
    to = (*hook.to, "run" if isinstance(hook.mind, HookProgram) else "python")
    faults.warn("P0229", f"hook `{hook.name}` cannot be asked: {summary}", hint, to=to)
