"""A small plan language for testing the engine without the compiler: tasks, scripts, commands, checks, rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from planloop.compiler import merge
from planloop.reconciler.plan_language_port import PlanLanguage
from planloop.schemas.address import Address
from planloop.schemas.diagnostic import Diagnostic
from planloop.schemas.json_pointer import task_pointer
from planloop.schemas.objects.agent import AgentSpec, ScriptSpec
from planloop.schemas.objects.budget import budget_from_json
from planloop.schemas.rights import Rights
from tests.product import AgentWork, CheckSpec, GroupWork, JsonObject, RunWork, TaskSpec, WantedObject, Work

FIELDS: Final = frozenset(
    "plan goal notes tasks needs run agent acceptance rights budget protect pause cancel cwd open approve moved "
    "prompts priority".split()
)
NEVER_RUNS: Final = "P0407"
CLASSES: Final = {"goal": "tail", "notes": "tail", "work": "restart", "cwd": "restart", "mind": "restart"}


@dataclass(frozen=True, slots=True)
class SmallGraph:
    name: str
    objects: Mapping[str, WantedObject]


@dataclass(frozen=True, slots=True)
class SmallChecked:
    graph: SmallGraph | None
    diagnostics: tuple[Diagnostic, ...] = ()
    document: JsonObject | None = None


@dataclass(slots=True)
class _Lowering:
    plan: str
    objects: dict[str, WantedObject] = field(default_factory=dict)
    faults: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)

    def task(self, path: tuple[str, ...], raw: JsonObject, rights: Rights, cwd: str = ".") -> None:
        address = Address("task", path)
        self.faults += _unknown(path, raw)
        rights = _meet(rights, raw.get("rights", {}))
        children = tuple(str(address.child(name)) for name in raw.get("tasks", {}))
        needs = tuple(str(Address("task", (*path[:-1], need))) for need in raw.get("needs", ()))
        work: Work = GroupWork()
        if "run" in raw:
            work = RunWork(shell=raw["run"])
        elif "agent" in raw:
            work = AgentWork(str(Address("agent", path)))
        spec = TaskSpec(
            goal=raw.get("goal", ""),
            work=work,
            notes=raw.get("notes", ""),
            parent=None if address.parent is None else str(address.parent),
            children=children,
            needs=needs,
            cwd=raw.get("cwd", cwd),
            acceptance=tuple(_check(n, one) for n, one in enumerate(raw.get("acceptance", ()))),
            budget=budget_from_json(raw.get("budget", {})),
            pause=raw.get("pause", False),
            cancel=raw.get("cancel", False),
            protect=raw.get("protect", False),
            priority=raw.get("priority", 0),
        )
        owner = f"plan/{self.plan}" if address.parent is None else str(address.parent)
        self.objects[str(address)] = WantedObject(str(address), spec.to_json(), (*children, *needs), owner, ("task",))
        if "agent" in raw:
            self.agent(path, raw["agent"], rights)
        for name, child in raw.get("tasks", {}).items():
            self.task((*path, name), child, rights, spec.cwd)

    def agent(self, path: tuple[str, ...], raw: JsonObject, rights: Rights) -> None:
        if "model" in raw:
            where = (*task_pointer(path), "agent")
            self.warnings.append(Diagnostic(NEVER_RUNS, "no models here", pointer=where, severity="warning"))
        address, task = str(Address("agent", path)), str(Address("task", path))
        spec = AgentSpec(task, ScriptSpec(tuple(raw.get("script", ()))), _meet(rights, raw))
        self.objects[address] = WantedObject(address, spec.to_json(), (task,), task, ("agent",))


def check(document: JsonObject) -> SmallChecked:
    """Lowers `document`, or says which fields are unknown."""
    plan = str(document.get("plan", "p"))
    lowering = _Lowering(plan)
    lowering.task((), document, Rights())
    faults = tuple(lowering.faults)
    if faults:
        return SmallChecked(None, faults)
    return SmallChecked(SmallGraph(plan, lowering.objects), tuple(lowering.warnings), document)


def change_class(kind: str, field: str) -> str:
    """As the compiler's, for the few fields there are."""
    return CLASSES.get(field, "hot")


def language() -> PlanLanguage:
    """The small language, with the real merge."""
    return PlanLanguage(check, merge.merge_documents, change_class, stops=frozenset((NEVER_RUNS,)))


def _unknown(path: tuple[str, ...], raw: JsonObject) -> Iterator[Diagnostic]:
    for name in raw:
        if name not in FIELDS:
            yield Diagnostic("P0201", f"unknown field `{name}`", pointer=(*task_pointer(path), name))


def _check(number: int, raw: JsonObject) -> CheckSpec:
    ((kind, value),) = ((kind, value) for kind, value in raw.items() if kind != "id")
    return CheckSpec(str(number), kind, {"shell": value} if kind == "sh" else {"path": value}, 600.0)


def _meet(rights: Rights, raw: JsonObject) -> Rights:
    tools = rights.tools
    if "tools" in raw:
        tools = tuple(one for one in raw["tools"] if tools is None or one in tools)
    deny = tuple(dict.fromkeys((*rights.deny, *raw.get("deny", ()))))
    return Rights(tools=tools, deny=deny, grant_tools=tools)
