"""Which commands an agent's patch may add: only those that the agent could run or grant itself. Pure.

Commands are in tasks, checks, deciders of agents, steps of mixins and tool servers. What a command does also depends on
its folder and environment, so a moved command counts as new, and variables that decide which programs run
(`planloop.schemas.shell.variables`) are only for authors that may run every command.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from planloop.schemas import patterns
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.checks.kinds import COMMANDLESS_KINDS
from planloop.schemas.log.patch import PatchProblem
from planloop.schemas.resource import Resource, WantedObject
from planloop.schemas.rights import Rights
from planloop.schemas.secret import REFERENCES
from planloop.schemas.shell import commands as shell_commands
from planloop.schemas.shell.variables import changed_steering_variables

SHELL: Final = "shell"
INSIDE: Final = "container_exec"
REFERENCE: Final = "env:"
WITHOUT_COMMAND: Final = f"use checks that run no command ({', '.join(COMMANDLESS_KINDS)})"
SHELLS: Final = ("sh", "bash", "dash", "/bin/sh", "/bin/bash", "/bin/dash", "/usr/bin/sh", "/usr/bin/bash")
SURROUNDINGS: Final = ("cwd", "env")
"""Fields that decide what a command does: `make` in another folder is another command."""


def task_command_faults(
    old: Resource | None, want: WantedObject, rights: Rights, inherited: JsonObject
) -> Iterator[PatchProblem]:
    """Yield problems of commands that are new in the task or in its folder. `inherited`: the variables of its
    parent."""
    variables = want.spec["env"]
    if changed := changed_steering_variables(inherited, variables):
        had = inherited if old is None else old.spec["env"]
        yield from _variable_faults(
            want.address, set(changed) & set(changed_steering_variables(had, variables)), rights
        )
    known = set(_of_task(old.spec)) if old is not None and has_same_surroundings(old, want) else set()
    yield from _faults(want.address, _of_task(want.spec), known, rights)
    before: set[tuple[str, str]] = set() if old is None else set(_inside(old.spec))
    for container, line in _inside(want.spec):
        if (container, line) not in before and not may_run_inside(rights, container, line):
            what = f"{want.address} would run `{line}` in `{container}`, but you may neither run nor grant that"
            yield PatchProblem("rights", what, (), f"{WITHOUT_COMMAND}, or `request` it")


def agent_command_faults(
    old: Resource | None, want: WantedObject, rights: Rights, *, is_elsewhere: bool
) -> Iterator[PatchProblem]:
    """Yield problems of new commands of an agent's decider and mixins; of all commands if its task has moved."""
    before: JsonObject = {} if old is None else old.spec
    variables, had = _variables(want.spec), _variables(before)
    known = set() if is_elsewhere or variables != had else set(_of_agent(before))
    yield from _faults(want.address, _of_agent(want.spec), known, rights)
    yield from _variable_faults(want.address, changed_steering_variables(had, variables), rights)
    for name, value in variables.items():
        if str(value).startswith(REFERENCE) and had.get(name) != value:
            yield PatchProblem(
                "rights", f"{want.address} would receive `{value}`; only people may pass on values of the owner"
            )


def hook_command_faults(want: WantedObject, rights: Rights) -> Iterator[PatchProblem]:
    """Yield problems of the program or function that a hook would run."""
    match want.spec["mind"]:
        case {"kind": "program", "argv": argv}:
            yield from _faults(want.address, (_line(argv),), set(), rights)
        case {"kind": "python", "target": target} if not str(target).startswith("lib:"):
            yield from _faults(want.address, (f"python {target}",), set(), rights)


def _variables(spec: JsonObject) -> JsonObject:
    """The variables that an agent's decider gets."""
    return (spec.get("mind") or {}).get("env") or {}


def server_command_faults(old: Resource | None, want: WantedObject, rights: Rights) -> Iterator[PatchProblem]:
    """Yield problems of a tool server that the patch would start or change."""
    if old is not None and old.spec == want.spec:
        return
    pointing = (*_pointing(want.spec.get("env"), (REFERENCE,)), *_pointing(want.spec.get("headers"), REFERENCES))
    for name, value in pointing:
        yield PatchProblem(
            "rights", f"{want.address} would receive `{value}` as `{name}`; only people may pass on values of the owner"
        )
    command = want.spec.get("command")
    if command:
        had = {} if old is None else old.spec.get("env") or {}
        yield from _faults(want.address, (_line(command),), set(), rights)
        yield from _variable_faults(want.address, changed_steering_variables(had, want.spec.get("env") or {}), rights)
    if want.spec.get("url") and not rights.network:
        yield PatchProblem(
            "rights", f"{want.address} would connect to `{want.spec['url']}`, but you may not use the network"
        )


def _pointing(values: JsonObject | None, kinds: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the values that refer to values of the owner, such as secrets."""
    return ((name, str(value)) for name, value in (values or {}).items() if str(value).startswith(kinds))


def has_same_surroundings(old: Resource | None, want: WantedObject) -> bool:
    """Whether the commands of the task run in the same environment as before."""
    return old is not None and all(old.spec.get(name) == want.spec.get(name) for name in SURROUNDINGS)


def may_run(rights: Rights, line: str) -> bool:
    """Whether `rights` let their holder run or grant a shell line; a denial always wins."""
    commands = shell_commands.simple_commands(line)
    is_given = any(patterns.is_allowed_by(given, SHELL, commands) for given in (rights.tools, rights.grant_tools))
    return is_given and not patterns.find_denial(rights.deny, SHELL, shell_commands.find_commands(line))


def may_run_inside(rights: Rights, container: str, line: str) -> bool:
    """Whether `rights` let their holder run or grant a shell line inside a container; a denial always wins."""
    plain = shell_commands.simple_commands(line)
    commands = None if plain is None else shell_commands.commands_in_container(container, plain)
    is_given = any(patterns.is_allowed_by(given, INSIDE, commands) for given in (rights.tools, rights.grant_tools))
    wide = shell_commands.commands_in_container(container, shell_commands.find_commands(line))
    return is_given and not patterns.find_denial(rights.deny, INSIDE, wide)


def _variable_faults(address: str, names: Collection[str], rights: Rights) -> Iterator[PatchProblem]:
    if not names or any(patterns.is_allowed_by(given, SHELL, None) for given in (rights.tools, rights.grant_tools)):
        return
    what = f"{address} would run with a changed {', '.join(f'`{name}`' for name in sorted(names))}"
    why = "it decides which programs a command runs, and you may not run every command"
    yield PatchProblem("rights", f"{what}: {why}", (), "remove the variable, or `request` `shell` without a pattern")


def _faults(
    address: str, commands: Sequence[str] | Iterator[str], known: set[str], rights: Rights
) -> Iterator[PatchProblem]:
    for command in commands:
        if command not in known and not may_run(rights, command):
            yield PatchProblem(
                "rights",
                f"{address} would run `{command}`, but you may neither run nor grant that",
                (),
                f"{WITHOUT_COMMAND}, or `request` the shell",
            )


def _of_task(task: JsonObject) -> Iterator[str]:
    checks = [check["arguments"] for check in task["acceptance"] if "container" not in check["arguments"]]
    yield from filter(None, map(_command, (task["work"], *checks)))


def _inside(task: JsonObject) -> Iterator[tuple[str, str]]:
    """The container and the line of each check that runs a command in one."""
    for check in task["acceptance"]:
        if "container" in check["arguments"]:
            yield str(check["arguments"]["container"]), _command(check["arguments"])


def _command(what: JsonObject) -> str:
    """The command of a task or a check as a shell line, or empty."""
    if what.get("shell"):
        return str(what["shell"])
    return _line(what["argv"]) if what.get("argv") else ""


def _of_agent(spec: JsonObject) -> Iterator[str]:
    mind = spec.get("mind") or {}
    match mind.get("kind"):
        case "program" | "outside":
            yield _line(mind["argv"])
            if mind.get("resume"):
                yield _line(mind["resume"])
        case "python" if not mind["target"].startswith("lib:"):
            yield f"python {mind['target']}"
    for mixin in spec.get("mixins", ()):
        for step in mixin.get("steps", ()):
            match step.get("do"):
                case "run":
                    yield _line(step["with"])
                case "python":
                    yield f"python {step['with']}"


def _line(command: Json) -> str:
    """The command as a shell line. If a shell runs a line, returns that line."""
    if isinstance(command, str):
        return command
    words = [str(word) for word in command]
    is_script = len(words) == 3 and words[0] in SHELLS and words[1] == "-c"
    return words[2] if is_script else shlex.join(words)
