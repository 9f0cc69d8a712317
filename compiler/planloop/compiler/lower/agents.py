"""Choose the agent of a task (its own, or the nearest ancestor's choice one tier down) and lower its spec."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final

from planloop.compiler.names import nearest_name
from planloop.compiler.problems import Pointer, Problems
from planloop.compiler.resolve.agents import NOBODY, AgentResolver, ResolvedAgent, is_mcp_client, smaller_budget
from planloop.compiler.resolve.budgets import TaskBounds, lower_budget, task_bounds
from planloop.compiler.resolve.needs import TaskPath
from planloop.compiler.resolve.rights import RightsTree
from planloop.compiler.resolve.symbols import list_patterns
from planloop.schemas import json_pointer, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen, mutable, remade
from planloop.schemas.objects.agent import (
    NO_TIER_CAP,
    AgentSpec,
    CliAgentSpec,
    DeciderSpec,
    Escalation,
    McpClientSpec,
    ModelDeciderSpec,
    ProgramSpec,
    PythonFunctionSpec,
    ScriptSpec,
)
from planloop.schemas.objects.budget import amounts_from_json, exact_amount, format_amount, unit_to_name
from planloop.schemas.objects.model import ModelTable, parse_model_name
from planloop.schemas.rights import (
    Patterns,
    Rights,
    covers_call,
    covers_model,
    is_covered,
    meet_patterns,
    union_patterns,
)
from planloop.schemas.tools import CORE_TOOLS, WRITING_TOOLS

_TOP: Final = "lib:top"
_CHILD: Final = "lib:child"
_PLAIN: Final = ModelTable()


@frozen
class AgentChoice:
    """An agent that was chosen, and whether it was chosen here (`is_own`) rather than inherited or by default.

    `model` is that of the nearest agent above that thinks with one, `sandbox` that of the nearest agent above: they are
    taken where none is stated.
    """

    resolved: ResolvedAgent
    is_own: bool = False
    to: Pointer = ()
    model: str = ""
    sandbox: Json = None


@mutable
class AgentSpecBuilder:
    """Makes agent specs; equal ones (same choice, same rights) are computed once."""

    agents: AgentResolver
    rights: RightsTree
    faults: Problems
    default: AgentChoice = AgentChoice(NOBODY)
    models: ModelTable = _PLAIN
    _made: dict[tuple[int, int, str, int], tuple[AgentSpec, Rights]] = field(default_factory=dict)
    _kept: list[tuple[ResolvedAgent, Rights]] = field(default_factory=list)

    def of_task(
        self, task: JsonObject, path: TaskPath, above: Rights, choice: AgentChoice
    ) -> tuple[AgentSpec | None, Rights, AgentChoice]:
        """The agent of a task (None when a command or only its children do it), the task's rights, the choice made.

        The spec lacks its task and parent, which differ where all else is shared.
        """
        rights = above if not path else self.rights.child(above, len(path), task.get("rights"), path)
        chosen = self._chosen(task, path, choice)
        if chosen is None:
            self._check_fan_out(task, rights, path)
            return None, rights, choice
        spec, rights = self._spec(chosen, rights, path, is_written="agent" in task)
        if (cap := self.rights.cap(len(path))) != NO_TIER_CAP:
            spec = remade(spec, cap=cap)
            if chosen.is_own:
                self._check_under_cap(spec)
        if given := task.get("granted"):
            spec = self._granted(spec, given, (*json_pointer.task_pointer(path), "granted"))
        self._check_fan_out(task, rights, path)
        model = spec.mind.stated if isinstance(spec.mind, ModelDeciderSpec) else chosen.model
        return spec, rights, remade(chosen, model=model, sandbox=spec.sandbox)

    def _check_fan_out(self, task: JsonObject, rights: Rights, path: TaskPath) -> None:
        count = len(task.get("tasks", ()))
        if not count or (rights.spawn is None and rights.depth != 0):
            return
        place = (*json_pointer.task_pointer(path), "tasks")
        if rights.spawn is not None and count > rights.spawn:
            summary = f"the task has {count} child tasks; its rights allow {rights.spawn}"
            self.faults.on_key("P0305", summary, "raise `spawn`, or remove some", to=place)
        elif rights.depth == 0:
            self.faults.on_key(
                "P0305", "the task has child tasks; its rights allow none", "raise `depth`, or remove them", to=place
            )

    def _chosen(self, task: JsonObject, path: TaskPath, choice: AgentChoice) -> AgentChoice | None:
        written = task.get("agent")
        if written is None and ("run" in task or task.get("tasks") or (not path and "goal" not in task)):
            return None
        to = (*json_pointer.task_pointer(path), "agent")
        if isinstance(written, str):
            found = self.agents.named(written, to)
            return None if found is None else AgentChoice(found, True, to, choice.model, choice.sandbox)
        if written is not None:
            words = f"agent of {'/'.join(path) or 'the plan'}"
            return AgentChoice(self.agents.made(written, words, to), True, to, choice.model, choice.sandbox)
        if choice.resolved is NOBODY or choice.resolved.mind in ("script", "python", "run"):
            # Steps written for the parent's task are no answer to the child's.
            found = self.agents.named(_CHILD if path else _TOP, to)
            return None if found is None else AgentChoice(found, model=choice.model, sandbox=choice.sandbox)
        return remade(choice, is_own=False)

    def of_hook(
        self, resolved: ResolvedAgent, budget: JsonObject, above: Rights, place: AgentChoice
    ) -> tuple[AgentSpec, AgentChoice]:
        """The agent behind a hook that is written at a place with these rights: no tools unless some are stated.

        The spec lacks its task and the watched agent. `budget` is the hook's.
        """
        choice = AgentChoice(resolved, True, resolved.at, place.model, place.sandbox)
        # The author of a hook passes on its rights: those it may use, and those it may grant.
        models = _either(above.models, above.grant_models)
        given = remade(above, models=models, tools=_either(above.tools, above.grant_tools))
        spec, _ = self._new_spec(choice, given, resolved.at)
        stated = resolved.tools if "tools" in resolved.provenance else ()
        tools = tuple(name for name in spec.tools if stated is None or name in stated or name not in CORE_TOOLS)
        tools = tools if stated != () else ()
        bounds = smaller_budget(budget, resolved.fields.get("budget", {}))
        return remade(spec, tools=tools, budget=lower_budget(bounds)), choice

    def bounds(self, task: JsonObject, path: TaskPath, choice: AgentChoice | None, document: JsonObject) -> TaskBounds:
        """The task's own bounds and those of its agent, with the lines of the latter."""
        return task_bounds(task, path, () if choice is None else choice.resolved.bounds, document)

    def _check_under_cap(self, spec: AgentSpec) -> None:
        """Tells where a stronger model is given more than the tier lets its agent use."""
        if spec.escalate is None:
            return
        caps = spec.cap.budget.to_json()
        for unit, amount in amounts_from_json(spec.escalate.budget.to_json()):
            if unit in caps and amount > exact_amount(unit, caps[unit]):
                line = f"{spec.cap.at}.{unit_to_name(unit)}"
                most = format_amount(unit, exact_amount(unit, caps[unit]))
                shown = f"budget.{unit_to_name(unit)} {format_amount(unit, amount)}"
                summary = f"{shown} is over the limit of its tier, {most} ({line})"
                to = (*spec.escalate.at.split("."), "budget", unit_to_name(unit))
                self.faults.add("P0306", summary, f"raise `{line}`, or lower this one", to=to)

    def _granted(self, spec: AgentSpec, given: JsonObject, to: Pointer) -> AgentSpec:
        """The agent with what a yes gave it, as far as the rights of its place go."""
        opened = self.rights.toolsets.opened(given.get("tools", ()), (*to, "tools"))
        for name, index in opened.named:
            if not is_covered(spec.rights.tools, name, covers_call):
                self._forbid_tool(name, spec.rights, (*to, "tools", str(index)))
        more = meet_patterns(spec.rights.tools, opened.patterns, covers_call) or ()
        tools = [name for name in more if not any(covers_call(denied, name) for denied in spec.rights.deny)]
        spec = remade(spec, tools=union_patterns(spec.tools, tools)) if tools else spec
        model = str(given.get("model", ""))
        if not model:
            return spec
        if not isinstance(spec.mind, ModelDeciderSpec):
            summary = "`model` is granted to an agent that is not an LLM agent"
            self.faults.add("P0230", summary, "delete it, or give the agent a `model`", to=(*to, "model"))
            return spec
        if not self._is_allowed(model, spec.rights):
            self._forbid_model(model, spec.rights, (*to, "model"))
        return remade(spec, granted=ModelDeciderSpec(self.models.asked(model), spec.mind.options, model))

    def _escalation(self, choice: AgentChoice, mind: DeciderSpec, rights: Rights, to: Pointer) -> Escalation | None:
        """The stronger model of an agent, with a diagnostic for one that it could never be given."""
        written: JsonObject | None = choice.resolved.fields.get("escalate")
        if written is None:
            return None
        if not choice.is_own and not self._may_inherit(str(written.get("model", "")), mind, rights):
            return None  # One tier down, an agent that is inherited does without a model that it may not use.
        at = (*(choice.resolved.at or to), "escalate")
        if not isinstance(mind, ModelDeciderSpec):
            summary = f"`escalate` is for LLM agents; this agent has `{choice.resolved.mind}`"
            self.faults.add("P0230", summary, "delete `escalate`, or give the agent a `model`", to=at)
            return None
        if "model" not in written:
            self.faults.on_key("P0210", "`escalate` needs `model`", "add `model` with a stronger model", to=at)
            return None
        stated = str(written["model"])
        if stated == mind.stated:
            summary = f"`escalate` names `{stated}`, the agent's own model"
            self.faults.add("P0230", summary, "name a stronger model", to=(*at, "model"))
        if not self._is_allowed(stated, rights):
            self._forbid_model(stated, rights, (*at, "model"))
        strong = ModelDeciderSpec(self.models.asked(stated), mind.options, stated)
        return Escalation(
            strong,
            int(written.get("after", limits.ESCALATE_AFTER)),
            lower_budget(written.get("budget", {})),
            ".".join(at),
        )

    def _spec(
        self, choice: AgentChoice, above: Rights, path: TaskPath, *, is_written: bool
    ) -> tuple[AgentSpec, Rights]:
        key = (id(choice.resolved), id(above), choice.model, id(choice.sandbox))
        known = self._made.get(key) if not choice.is_own or choice.resolved.name else None
        if known is None:
            self._kept.append((choice.resolved, above))  # Keeps their ids from being given to others.
            to = json_pointer.task_pointer(path)
            known = self._made[key] = self._new_spec(choice, above, (*to, "agent") if is_written else to)
        return known

    def _new_spec(self, choice: AgentChoice, above: Rights, to: Pointer) -> tuple[AgentSpec, Rights]:
        resolved, fields = choice.resolved, dict(choice.resolved.fields)
        rights = above
        for line, place in resolved.lines:
            rights = self.rights.with_line(rights, line, place)
        denials = [*self.rights.toolsets.denials(fields.get("deny", ()))]
        # An agent must not write its own definition: prototypes, prompts and functions in files of the plan.
        denials += (f"{tool}({file.removeprefix('./')})" for file in resolved.files for tool in WRITING_TOOLS)
        if denials:
            rights = self.rights.like(remade(rights, deny=union_patterns(rights.deny, denials)), rights)
        mind = self._mind(choice, rights, to)
        spec = AgentSpec(
            task="",
            mind=mind,
            rights=rights,
            prototype=resolved.name,
            prompt=resolved.instructions,
            served_prompts=resolved.served_prompts,
            tools=self._tools(resolved, rights, to),
            effects=fields.get("effects", {}),
            mixins=resolved.mixins,
            talk_to=tuple(fields.get("topology", {}).get("talk-to", ("parent", "children"))),
            wake_every_s=fields.get("wake", {}).get("every"),
            lock=fields.get("lock", "turn"),
            compact=self._compact(fields.get("compact", {}), rights, to),
            sandbox=fields.get("sandbox", choice.sandbox),
            budget=lower_budget(fields.get("budget", {})),
            escalate=self._escalation(choice, mind, rights, to),
        )
        return spec, rights

    def _mind(self, choice: AgentChoice, rights: Rights, to: Pointer) -> DeciderSpec:
        fields = dict(choice.resolved.fields)
        match choice.resolved.mind:
            case "script":
                return ScriptSpec(tuple(fields["script"]))
            case "python":
                return PythonFunctionSpec(fields["python"], fields.get("options", {}))
            case "run":
                return ProgramSpec(command_argv(fields["run"]))
            case "outside" if is_mcp_client(fields["outside"]):
                return McpClientSpec(_lease_s(fields["outside"]))
            case "outside":
                return _outside(fields["outside"])
            case _:
                stated = self._stated(choice, rights, to)
                return ModelDeciderSpec(self.models.asked(stated), fields.get("options", {}), stated)

    def _may_inherit(self, model: str, mind: DeciderSpec, rights: Rights) -> bool:
        return isinstance(mind, ModelDeciderSpec) and mind.stated != model and self._is_allowed(model, rights)

    def _compact(self, written: JsonObject, rights: Rights, to: Pointer) -> JsonObject:
        if "model" not in written:
            return written
        if not self._is_allowed(written["model"], rights):
            self._forbid_model(written["model"], rights, to)
        return {**written, "model": self.models.asked(written["model"])}

    def _forbid_tool(self, name: str, rights: Rights, to: Pointer, who: str = "") -> None:
        hint = self.rights.binding(rights, "tools", name, covers_call)
        hint = hint or f"its rights allow {list_patterns(rights.tools)}"
        self.faults.add("P0301", f"tool `{name}` is not allowed here{who}", hint, to=to)

    def _forbid_model(self, model: str, rights: Rights, to: Pointer) -> None:
        near = nearest_name(model, rights.models or ())
        hint = self.rights.binding(rights, "models", parse_model_name(model).real, covers_model)
        hint = hint or f"its rights allow {list_patterns(rights.models)}"
        hint = f"did you mean `{near}`? {hint}" if near else hint
        self.faults.add("P0302", f"model `{model}` is not allowed here", hint, to=to)

    def _stated(self, choice: AgentChoice, rights: Rights, to: Pointer) -> str:
        """The model that the plan gives the agent: its own, that of the nearest agent above, or its tier's first."""
        own = str(choice.resolved.fields.get("model", ""))
        if own and self._is_allowed(own, rights):
            return own
        first = next((name for name in rights.models or () if "*" not in name), "")
        if not own:
            above = choice.model if self._is_allowed(choice.model, rights) else ""
            return first if rights.models is not None and not above else above
        if not choice.is_own:
            return first  # One tier down, the tier's first model takes the place of one it may not use.
        self._forbid_model(own, rights, to)
        return own

    @staticmethod
    def _is_allowed(model: str, rights: Rights) -> bool:
        name = parse_model_name(model)
        return is_covered(rights.models, name.real, covers_model) or (name.tape == "replay" and not name.real)

    def _tools(self, resolved: ResolvedAgent, rights: Rights, to: Pointer) -> tuple[str, ...]:
        for name, place in resolved.named:
            if not is_covered(rights.tools, name, covers_call):
                who = f" for {'/'.join(to[1::2]) or 'the plan'}" if place[: len(to)] != to else ""
                self._forbid_tool(name, rights, place, who)
        allowed = meet_patterns(rights.tools, resolved.tools, covers_call)
        every = union_patterns(self.rights.toolsets.every, resolved.beside)
        names = every if allowed is None else union_patterns(allowed, CORE_TOOLS)
        return tuple(name for name in names if not any(covers_call(denied, name) for denied in rights.deny))


def _either(one: Patterns, other: Patterns) -> Patterns:
    return None if one is None or other is None else union_patterns(one, other)


def _lease_s(how: Json) -> float:
    return float(how.get("lease", limits.MCP_CLIENT_LEASE_S)) if isinstance(how, dict) else limits.MCP_CLIENT_LEASE_S


def _outside(how: JsonObject) -> CliAgentSpec:
    return CliAgentSpec(
        argv=command_argv(how.get("run", [])),
        prompt=how.get("prompt", "stdin"),
        output=how.get("output", "text"),
        pointer=how.get("field", ""),
        resume=command_argv(how.get("continue", [])),
        session=how.get("session", ""),
        env=how.get("env", {}),
        timeout_s=how.get("timeout"),
    )


def command_argv(command: str | list[str]) -> tuple[str, ...]:
    """A command as the plan writes it, as the words that are run: a line is for the shell."""
    return ("sh", "-c", command) if isinstance(command, str) else tuple(command)


# The files of a hook, which the agents that it watches must not write. Pure; runs no shell.
#
# Found in the plan: the program and its arguments, a function's file, prompts, and the files that the hook extends.
# Files that a program opens by itself are unknown, so all files of a hooks folder count.

_SCRIPT: Final = re.compile(r".*\.(py|sh|bash|js|mjs|ts|rb|pl)")
_PLACE: Final = re.compile(r"\$\{?(CLAUDE_PROJECT_DIR|PWD)\}?/?")
_RUNS_FILES: Final = re.compile(r"(ba|da|z|k|fi)?sh|python[\d.]*|node|deno|bun|ruby|perl|source|\.|exec|env")
_SYSTEM: Final = ("/usr/", "/bin/", "/sbin/", "/opt/", "/etc/", "/lib", "/nix/", "/proc/", "/dev/")
_OF_SHELL: Final = re.compile(r"[^\w./+@-]")  # In a first word: the shell expands it, or it is not a command.
_BUILT_IN: Final = frozenset(
    """. : alias break case cd command continue do done elif else esac eval exec exit export fi for if local read
    readonly return set shift source then times trap type ulimit umask unset until wait while""".split()
)
_ODD: Final = re.compile(r"[^\w ./@+-]")
_HOOKS: Final = re.compile(r"[\w.-]*hooks?")


def program_files(argv: Sequence[str], cwd: str, *, with_data: bool = True) -> Iterator[str]:
    """Those that a command names which runs in `cwd`, all relative to the plan's folder.

    Without its data, which a server is there to work on, they are the programs and scripts alone.
    """
    is_line = tuple(argv[:2]) == ("sh", "-c")
    before = ""
    for word in _words(argv[2]) if is_line else argv:
        if before == "-m":
            yield from (f"{cwd}/{word.replace('.', '/')}.py", f"{cwd}/{word.partition('.')[0]}/**")
        elif _is_file(word, before) and (with_data or _is_run(word, before)):
            yield from _places(word, cwd)
        is_option = word.startswith("-") and word != "-m"
        before = before if is_option and _RUNS_FILES.fullmatch(before) else posixpath.basename(word)


def program_words(argv: Sequence[str]) -> tuple[str, str]:
    """The word that a command begins with, and the script that it gives to that; empty where one cannot be sure."""
    if tuple(argv[:2]) == ("sh", "-c"):
        words = _words(argv[2])
        argv = () if not words or _OF_SHELL.search(words[0]) or words[0] in _BUILT_IN else words
    program, script = (*argv[:2], "", "")[:2]
    runs_it = _RUNS_FILES.fullmatch(posixpath.basename(program)) and _SCRIPT.fullmatch(script)
    return program, script if runs_it and not _ODD.search(script) else ""


def _words(line: str) -> list[str]:
    try:
        parts = shlex.shlex(line, posix=True, punctuation_chars=True)
        parts.whitespace_split = True
        return list(parts)
    except ValueError:
        return re.split(r"[\s;|&()<>'\"]+", line)


def _is_file(word: str, before: str) -> bool:
    if word.startswith(("-", "~", *_SYSTEM)) or _ODD.search(_PLACE.sub("", word)):
        return False
    return "/" in word or _is_run(word, before)


def _is_run(word: str, before: str) -> bool:
    is_program = not before and "/" in word
    return is_program or _SCRIPT.fullmatch(word) is not None or _RUNS_FILES.fullmatch(before) is not None


def _places(word: str, cwd: str) -> Iterator[str]:
    """Where a word may lead: of an absolute path it is not known how much of it is the plan's folder."""
    place = _PLACE.match(word)
    if place is not None:
        yield word[place.end() :]
    elif word.startswith("/"):
        names = [name for name in posixpath.normpath(word).split("/") if name]
        yield from ("/".join(names[index:]) for index in range(len(names)))
    else:
        yield f"{cwd}/{word}"


def guarded_patterns(files: Iterator[str]) -> tuple[str, ...]:
    """`files` as patterns name them, each once; of a folder for hooks all that is in it."""
    found: dict[str, None] = {}
    for file in files:
        path = _ODD.sub("*", posixpath.normpath(file))  # Characters of patterns are not literal in a pattern.
        if path.partition("/")[0] in ("", ".", ".."):
            continue  # It is elsewhere, or the whole folder.
        found[path] = None
        names = path.split("/")[:-1]
        for depth, name in enumerate(names, start=1):
            if _HOOKS.fullmatch(name):
                found["/".join((*names[:depth], "**"))] = None
                break
    return tuple(found)
