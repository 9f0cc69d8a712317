"""Check tasks beyond field types: references, cycles, contradictions, bounds, branches, acceptance checks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from planloop.compiler.names import did_you_mean, leaves_folder
from planloop.compiler.problems import Pointer, Problems
from planloop.compiler.resolve.needs import NeedsResolver, TaskPath, find_cycles
from planloop.compiler.scalars import field_name
from planloop.schemas import json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.checks.kinds import CHECK_KINDS, OPTION_OWNERS, ContainerUse, DeclaredCheck, kinds_in
from planloop.schemas.spec.field import COMMAND
from planloop.schemas.spec.tables import TABLE_BY_NAME, TABLES, fields_by_name, table_of_type

# What must hold for the branches of forks: git takes the name, and no two forks want one branch.

_BAD: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|(^|/)\.|\.lock(/|$)|[./]$|^[-/]|^@$")
"""What git's own rules for names of branches forbid (git check-ref-format)."""


def check_forks(tree: Iterable[tuple[TaskPath, JsonObject]], faults: Problems) -> None:
    """Report branches that cannot be created."""
    taken: dict[str, TaskPath] = {}
    for path, task in tree:
        fork = task.get("fork")
        branch = fork.get("branch") if isinstance(fork, dict) else None
        if not isinstance(branch, str):
            continue
        to = (*json_pointer.task_pointer(path), "fork", "branch")
        if not branch or _BAD.search(branch):
            hint = "use letters, digits and `-`, with `/` between parts, as in `try/new-parser`"
            faults.add("P0223", f"invalid branch name `{branch}`", hint, to=to)
        elif (other := _nearest_branch(branch, taken)) is not None:
            there = (*json_pointer.task_pointer(taken[other]), "fork", "branch")
            hint = "choose another branch, or delete the line: planloop then picks one"
            words = f"two forks have the branch `{branch}`"
            if other != branch:
                words = f"git cannot have both branches `{branch}` and `{other}`"
            faults.related("P0208", words, hint, to, [(f"`{other}` is named here", there)])
        else:
            taken[branch] = path


def _nearest_branch(branch: str, taken: Iterable[str]) -> str | None:
    """One that is the same, or that git would have to keep as a folder where this is a file."""
    here = f"{branch}/"
    return next((one for one in taken if f"{one}/".startswith(here) or here.startswith(f"{one}/")), None)


# Acceptance checks of any kind: problems are reported where they are in the plan.


def report_check_problems(check: DeclaredCheck, to: Pointer, faults: Problems) -> None:
    """Report what is wrong with the value of a check, which is at `to`, beyond the types of its fields."""
    for problem in CHECK_KINDS[check.kind].problems(check):
        place = (*to, *problem.at)
        if problem.code != "P0210" or not faults.is_at(place):  # What is missing there may be just what was wrong.
            report = faults.on_key if problem.is_key else faults.add
            report(problem.code, problem.summary, problem.hint, to=place)


# What must hold in a plan beyond the types of its fields: references, rings, contradictions, bounds.
#
# Works on the canonical document. Invalid values are already left out of it, so each problem is reported once. What
# agents, containers and hooks must be is in `planloop.compiler.check.agents`; rights and budgets have modules of their
# own.

_WITH_RUN: Final = ("effect", "timeout")
_OF_RUN: Final = frozenset(("run", *_WITH_RUN))


TaskTree: TypeAlias = Sequence[tuple[TaskPath, JsonObject]]
"""Every task of a plan with its path, in document order, the root first."""


def task_tree(document: JsonObject) -> TaskTree:
    """The tasks of a document, walked once for everybody who looks at all of them."""
    return tuple(_walk(document))


def _walk(document: JsonObject) -> Iterator[tuple[TaskPath, JsonObject]]:
    stack: list[tuple[TaskPath, JsonObject]] = [((), document)]
    while stack:
        path, task = stack.pop()
        yield path, task
        children = task.get("tasks")
        if children:
            stack.extend(((*path, name), child) for name, child in reversed(children.items()))


def resolve_needs(tree: TaskTree, faults: Problems) -> Mapping[TaskPath, tuple[TaskPath, ...]]:
    """Return, for each task with needs, the paths of the needed tasks. Report cycles with their path."""
    needs = NeedsResolver(dict(tree), faults)
    found = {path: needs.resolved(path, task["needs"]) for path, task in tree if task.get("needs")}
    for ring in find_cycles(found, [path for path, _ in tree]):
        _tell_ring(ring, found, faults)
    return found


def _tell_ring(ring: list[TaskPath], needs: Mapping[TaskPath, tuple[TaskPath, ...]], faults: Problems) -> None:
    waiting = next((index for index, path in enumerate(ring) if path in needs), 0)
    ring = [*ring[waiting:], *ring[:waiting]]
    names = ["/".join(path) or "." for path in ring]
    to = (*json_pointer.task_pointer(ring[0]), "needs")
    others = [
        (f"`{name}` is here", json_pointer.task_pointer(path)) for name, path in zip(names[1:], ring[1:], strict=True)
    ]
    way = " → ".join([*names, names[0]])
    faults.related("P0222", f"dependency cycle: {way}", "remove one of these `needs`", to, others)


def check_tasks(document: JsonObject, tree: TaskTree, faults: Problems) -> None:
    """Report contradictions in the task tree, and values beyond a limit."""
    containers = document.get("containers", {})
    for path, task in tree:
        # Most tasks have none of what could go wrong: look closer only where there is something to see.
        if "agent" not in task or not _OF_RUN.isdisjoint(task):
            _check_work(task, path, faults)
        if "acceptance" in task:
            _check_acceptance(task["acceptance"], path, containers, faults)
        if "cwd" in task:
            _check_inside(task["cwd"], (*json_pointer.task_pointer(path), "cwd"), faults)
        if "locks" in task:
            _check_locks(task["locks"], (*json_pointer.task_pointer(path), "locks"), faults)
        if path and "containers" in task:
            _check_containers(task["containers"], path, containers, faults)
        if "open" in task:
            _check_open(task["open"], (*json_pointer.task_pointer(path), "open"), faults)
        if "rights" in task:
            check_rights_line(task["rights"], (*json_pointer.task_pointer(path), "rights"), faults)
        if "tasks" in task:
            _check_bounds(task["tasks"], path, faults)
    check_forks(tree, faults)
    _check_moved(document.get("moved", {}), tree, faults)


def check_rights_line(line: JsonObject, to: Pointer, faults: Problems) -> None:
    """Report fields that only the top of a plan, or a tier, may have."""
    if "tiers" in line and len(to) > 1:
        hint = "move them to `rights` at the top of the plan"
        faults.on_key("P0211", "`tiers` are only allowed at the top of the plan", hint, to=(*to, "tiers"))
    if "budget" in line:
        hint = "move it next to `rights`: a `budget` in `rights` is only for tiers"
        faults.on_key("P0211", "`budget` in `rights`", hint, to=(*to, "budget"))
    for index, tier in enumerate(line.get("tiers", ())):
        if "tiers" in tier:
            faults.on_key(
                "P0211", "tiers inside a tier", "write all tiers in one list", to=(*to, "tiers", str(index), "tiers")
            )


def _check_work(task: JsonObject, path: TaskPath, faults: Problems) -> None:
    if "agent" not in task and "tasks" not in task and is_command(task.get("run")):
        return  # The common case, told apart before any pointer is made.
    to = json_pointer.task_pointer(path)
    check_command(task, "run", to, faults)
    if "run" in task and "agent" in task:
        hint = "keep one of them: a task is done by a command or by an agent"
        faults.on_key("P0211", "`run` and `agent` exclude each other", hint, to=(*to, "run"))
    if "run" in task and task.get("tasks"):
        hint = "move the command to a child, with `needs` if it must run last"
        faults.on_key("P0211", "`run` and `tasks` exclude each other", hint, to=(*to, "run"))
    if "run" not in task:
        for name in _WITH_RUN:
            if name in task:
                faults.on_key(
                    "P0211",
                    f"`{name}` without `run`",
                    "delete it, or add `run`: it sets how a command runs",
                    to=(*to, name),
                )
    if not any(name in task for name in ("goal", "run", "agent", "tasks")):
        _tell_empty(task, path, faults)


def is_command(written: Json) -> bool:
    """Whether there is a command in a shell line or a list of words."""
    return bool(written.strip() if isinstance(written, str) else written and written[0])


def check_exactly_one(table: str, value: JsonObject, to: Pointer, faults: Problems) -> None:
    """Tells where a map of `table` lacks a member that it must have, or has several that exclude each other."""
    for group in TABLE_BY_NAME[table].one_of:
        given = [name for name in group if name in value]
        wanted = " or ".join(f"`{name}`" for name in group)
        what = field_name(to)
        if not given and not faults.is_at(to):
            faults.on_key("P0210", f"`{what}` needs {wanted}", "add it", to=to)
        if len(given) > 1:
            said = " and ".join(f"`{name}`" for name in given)
            faults.on_key(
                "P0211", f"`{what}` has {said}, which exclude each other", f"keep one of {wanted}", to=(*to, given[1])
            )


def check_command(value: JsonObject, name: str, to: Pointer, faults: Problems) -> None:
    """Tells when the field `name` of `value` should hold a command, and holds nothing."""
    if name in value and not is_command(value[name]):
        faults.add("P0210", f"`{name}` has no command", "write one, or delete the line", to=(*to, name))


def _tell_empty(task: JsonObject, path: TaskPath, faults: Problems) -> None:
    if faults.is_at(json_pointer.task_pointer(path)):
        return
    if path:
        hint = "add `goal`, `run`, `agent` or `tasks`"
        faults.on_key("P0210", f"task `{path[-1]}` has nothing to do", hint, to=json_pointer.task_pointer(path))
    elif not any(name in task for name in ("agents", "rights", "containers", "toolsets", "mixins", "prompts", "hooks")):
        faults.warn("P0221", "the plan has nothing to do", "add `tasks`", to=())


def _check_acceptance(checks: list[JsonObject], path: TaskPath, containers: JsonObject, faults: Problems) -> None:
    ids: set[str] = set()
    # A check without an id is known by its place, so a stated id must not be the place of such a one either.
    places = {str(index) for index, check in enumerate(checks) if "id" not in check}
    others = [(check["id"], check) for check in checks if "id" in check]
    for index, check in enumerate(checks):
        if len(check) == 1 and is_command(check.get("sh")):
            continue  # The common case, told apart before any pointer is made.
        to = (*json_pointer.task_pointer(path), "acceptance", str(index))
        if "id" in check:
            _check_own_id(check["id"], ids, places, (*to, "id"), faults)
            ids.add(check["id"])
        kinds = kinds_in(check)
        if len(kinds) != 1:
            if not kinds and faults.is_at(to):
                continue
            said = " and ".join(f"`{kind}`" for kind in kinds) or "of no kind"
            faults.add(
                "P0211",
                f"a check must have one kind, this one has {said}",
                "use one of " + ", ".join(CHECK_KINDS),
                to=to,
            )
            continue
        timeout_s = float(check.get("timeout", limits.CHECK_TIMEOUT_S))
        _check_of_kind(DeclaredCheck(kinds[0], check, timeout_s, others), to, containers, faults)


def _check_own_id(id_: str, ids: set[str], places: set[str], to: Pointer, faults: Problems) -> None:
    if id_ in ids:
        faults.add("P0208", f"duplicate id `{id_}`", "give each check its own id", to=to)
    elif id_ in places:
        hint = "choose another id: a check without an id has its position as id, counted from 0"
        faults.add("P0208", f"the id `{id_}` is the position of another check", hint, to=to)


def _check_of_kind(check: DeclaredCheck, to: Pointer, containers: JsonObject, faults: Problems) -> None:
    kind = CHECK_KINDS[check.kind]
    place = (*to, check.kind)
    if kind.field.type == COMMAND:
        check_command(check.fields, check.kind, to, faults)
    table = table_of_type(kind.field.type)
    if table is not None and isinstance(check.value, dict):
        for group in TABLES[table].one_of:
            _check_one_of(group, check.value, f"`{check.kind}`", place, faults)
        for field in TABLES[table].fields:
            if field.type == COMMAND:
                check_command(check.value, field.name, place, faults)
    report_check_problems(check, place, faults)
    for name in OPTION_OWNERS:
        if name in check.fields and OPTION_OWNERS[name] != check.kind:
            hint = fields_by_name("check")[name].doc
            faults.on_key("P0211", f"`{name}` without `{OPTION_OWNERS[name]}`", hint, to=(*to, name))
    if kind.container is not None:
        _check_container_use(kind.container, check.value, place, containers, faults)


def _check_container_use(use: ContainerUse, value: Json, to: Pointer, containers: JsonObject, faults: Problems) -> None:
    place = (*to, *use.at)
    for token in use.at:
        value = value.get(token)
    if value is not None and _is_declared(value, place, containers, faults) and use.needs_health:
        check_health(value, place, containers, faults)


def _check_locks(locks: Sequence[Json], to: Pointer, faults: Problems) -> None:
    if len(locks) > limits.LOCKS_DECLARED_MAX:
        hint = f"use at most {limits.LOCKS_DECLARED_MAX}: lock the folder that contains them, as in `src/**`"
        faults.add("P0212", f"the task has {len(locks)} locks", hint, to=to)
    for index, lock in enumerate(locks):
        place = (*to, str(index))
        if isinstance(lock, dict):
            _check_one_of(("path",), lock, "a lock", place, faults)
        path = lock.get("path") if isinstance(lock, dict) else lock
        if path == "":
            faults.add("P0210", "the lock has no path", "name a file or a glob, or `**` for the whole folder", to=place)
        elif isinstance(path, str):
            _check_inside(path, place, faults)


def _check_one_of(group: tuple[str, ...], value: JsonObject, what: str, to: Pointer, faults: Problems) -> None:
    given = [name for name in group if name in value]
    if len(given) == 1:
        return
    wanted = " or ".join(f"`{name}`" for name in group)
    if given:
        faults.on_key("P0211", f"{what} has {' and '.join(f'`{name}`' for name in given)}", f"keep {wanted}", to=to)
    elif not faults.is_at(to):
        faults.on_key("P0210", f"{what} needs {wanted}", "add it", to=to)


def _is_declared(name: str, to: Pointer, containers: JsonObject, faults: Problems) -> bool:
    if name not in containers:
        faults.add("P0213", f"unknown container `{name}`", did_you_mean(name, containers), to=to)
    return name in containers


def check_health(name: str, to: Pointer, containers: JsonObject, faults: Problems) -> None:
    """Tells when `name` must be healthy but has no way to say that it is."""
    if "health" not in containers[name]:
        hint = f"add one at containers/{name}: `health: {{cmd: […]}}`"
        declared = [(f"`{name}` is declared here", ("containers", name))]
        faults.related("P0217", f"container `{name}` has no health check", hint, to, declared)


def _check_containers(names: list[str], path: TaskPath, containers: JsonObject, faults: Problems) -> None:
    for index, name in enumerate(names):
        _is_declared(name, (*json_pointer.task_pointer(path), "containers", str(index)), containers, faults)


def _check_inside(path: str, to: Pointer, faults: Problems) -> None:
    if leaves_folder(path):
        hint = "use a folder below the plan file's, or move the plan file to a higher folder"
        faults.add("P0218", f"`{path}` is outside the plan's folder", hint, to=to)


def _check_open(paths: list[str], to: Pointer, faults: Problems) -> None:
    fields = fields_by_name("plan" if to == ("open",) else "task")
    for index, written in enumerate(paths):
        name = written.removeprefix("/").split("/")[0]
        if name not in fields and name != "*":
            faults.add("P0213", f"unknown field `{name}`", did_you_mean(name, fields), to=(*to, str(index)))


def _check_bounds(children: JsonObject, path: TaskPath, faults: Problems) -> None:
    to = (*json_pointer.task_pointer(path), "tasks")
    if len(children) > limits.CHILDREN_MAX:
        summary = f"the task has {len(children):,} child tasks; the limit is {limits.CHILDREN_MAX:,}"
        faults.on_key("P0224", summary, "group them under more tasks", to=to)
    if len(path) == limits.TASK_DEPTH_MAX and children:
        summary = f"tasks are nested deeper than {limits.TASK_DEPTH_MAX} levels"
        faults.on_key("P0224", summary, "flatten the tree; delegation this deep is usually an endless loop", to=to)


def _check_moved(moved: Mapping[str, Json], tree: TaskTree, faults: Problems) -> None:
    if not moved:
        return
    paths = {"/".join(path) for path, _ in tree}
    entered = set(moved.values())
    taken: dict[str, str] = {}
    for old, new in moved.items():
        to = ("moved", old)
        if old in paths and old not in entered:
            hint = "delete the line, or use the task's former path"
            faults.on_key("P0216", f"`{old}` is still in the plan", hint, to=to)
        elif _comes_back(old, moved):
            hint = "move one of them first, and save the plan in between"
            faults.on_key("P0216", f"`{old}` and `{new}` cannot swap places in one edit", hint, to=to)
        if new not in paths or not new:
            hint = did_you_mean(new, sorted(paths - {""}))
            hint = f"`{new}` was moved too: write `{old}: {moved[new]}`" if new in moved else hint
            faults.add("P0216", f"cannot move `{old}`: no task at `{new}`", hint, to=to)
        elif new in taken:
            hint = "keep one: a task can be moved from only one path"
            faults.add("P0216", f"`{taken[new]}` and `{old}` both move to `{new}`", hint, to=to)
        taken[new] = old


def _comes_back(start: str, moved: Mapping[str, Json]) -> bool:
    """Whether the moves from `start` lead round to it: then none of them could be made first."""
    at: Json = moved[start]
    for _ in moved:
        if at == start or at not in moved:
            break
        at = moved[at]
    return bool(at == start)
