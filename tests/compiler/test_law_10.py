"""Law 10: every field of a plan has a reader. The table is walked; each field's example must make a difference."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from planloop.compiler.graph import CheckedPlan
from planloop.compiler.plan_compiler import check_document
from planloop.schemas.checks.kinds import CHECK_KINDS
from planloop.schemas.objects.agent import AgentSpec
from planloop.schemas.objects.hook import HookSpec
from planloop.schemas.spec.field import Field
from planloop.schemas.spec.suite import SUITE_TABLES
from planloop.schemas.spec.tables import TABLES
from tests import rows
from tests.compiler.compiling import SOURCES, graph_json, told
from tests.product import Json, JsonObject, TaskSpec

ROOT = Path(__file__).parents[2]
CHECKS = ROOT / "schemas/planloop/schemas/checks"
ROWS = [(table.name, row) for table in TABLES.values() for row in table.fields]
STEP: JsonObject = {"say": "x"}
SCRIPT: JsonObject = {"script": [STEP]}
WEB: JsonObject = {"url": "http://h", "can": [{"press": "plus-button"}, {"see": "1"}]}
WS: JsonObject = {"url": "http://h", "clients": ["bob", "ann"], "steps": [{"drop": "ann"}]}

# What else must be there for a field to stand at all.
BESIDE: dict[str, JsonObject] = {
    "task.effect": {"run": "x", "agent": None},
    "task.timeout": {"run": "x", "agent": None},
    "plan.agents": {"tasks": {"a": {"goal": "g", "agent": "writer"}}},
    "plan.mixins": {"tasks": {"a": {"goal": "g", "agent": {**SCRIPT, "mixins": ["careful"]}}}},
    "plan.toolsets": {"tasks": {"a": {"goal": "g", "agent": {**SCRIPT, "tools": ["look"]}}}},
    "plan.prompts": {"tasks": {"a": {"goal": "g", "agent": {**SCRIPT, "prompt": "polite"}}}},
    "plan.use": {"tasks": {"a": {"goal": "g", "agent": "reviewer"}}},
    "task.run": {"agent": None},
    "task.agent": {"goal": "x"},
    "plan.effect": {"run": "x", "tasks": None},
    "plan.timeout": {"run": "x", "tasks": None},
    "plan.run": {"tasks": None},
    "agent.model": {"script": None},
    "agent.escalate": {"script": None, "model": "m"},
    "escalate.after": {"model": "s"},
    "escalate.budget": {"model": "s"},
    "agent.options": {"script": None, "model": "m"},
    "agent.python": {"script": None},
    "agent.outside": {"script": None},
    "outside.prompt": {"run": "x"},
    "outside.output": {"run": "x"},
    **{f"outside.{name}": {"run": "x", "output": "json"} for name in ("field", "continue", "session")},
    **{f"outside.{name}": {"run": "x"} for name in ("env", "timeout")},
    "agent.run": {"script": None},
    "step.with": {"say": None, "call": "list"},
    "lock.mode": {"path": "x"},
    "check.id": {"sh": "x"},
    "check.timeout": {"sh": "x"},
    "check.empty": {"require-file": "x"},
    "contains.path": {"text": "x"},
    "contains.text": {"path": "x"},
    "contains.pattern": {"path": "x"},
    "json.path": {"subset": {}},
    "json.sh": {"subset": {}},
    "json.subset": {"path": "x"},
    "http.status": {"url": "u"},
    "http.contains": {"url": "u"},
    "http.subset": {"url": "u"},
    "http.steps": {"url": "http://h"},
    "http.repeat": {"url": "http://h", "steps": [{"send": {"path": ["/"], "body": "{{nonce.a}}"}}]},
    **{f"web.{name}": {**WEB, "can": None, "never": WEB["can"]} for name in ("never", "and")},
    "web.can": {"url": "http://h"},
    **{f"web.{name}": WEB for name in ("url", "contexts", "lexicon", "within")},
    **{f"ws.{name}": WS for name in ("url", "discover", "clients", "frame", "steps")},
    "http-step.expect": {"send": {"path": ["/"]}},
    "http-step.keep": {"send": {"path": ["/"]}},
    **{f"http-send.{name}": {"path": ["/"]} for name in ("method", "body", "json", "form", "headers")},
    "port.host": {"port": 1},
    "run-in.container": {"sh": "x"},
    "run-in.sh": {"container": "sut"},
    "when.state": {"child": "x"},
    "grant.models": {"tools": ["all"]},
    "before.on": {"run": "x"},
    "before.match": {"run": "x"},
    "before.on-fault": {"run": "x"},
    "around.on": {"trace": True},
    "around.match": {"trace": True},
    "after.on": {"trace": True},
    "after.match": {"trace": True},
    "after.on-fault": {"run": "x"},
    "hook.rule": {"run": None},
    "hook.extends": {"run": None},
    "hook.python": {"run": None},
    "hook.agent": {"run": None},
    "hook.budget": {"run": None, "agent": SCRIPT},
    "hook.match": {"on": ["before-call"]},
    "hook.settings": {"run": ["x", "$max"]},
    **{f"hook-agent.{name}": {"script": None} for name in ("model", "python", "run", "outside")},
    "hook-agent.options": {"script": None, "model": "m"},
    "hook-agent.settings": {"mixins": ["lib:retry"]},
    "container.build": {"image": None},
    "container.rootfs": {"image": None},
    **{f"mount.{name}": {"container": "/w"} for name in ("host", "volume", "tmpfs")},
    "mount.read-only": {"container": "/w", "host": "."},
    "mount.container": {"host": "."},
    "port-map.host": {"container": 1},
    **{f"health.{name}": {"cmd": "x"} for name in ("interval", "timeout", "retries", "start-period")},
    **{f"container-build.{name}": {"folder": "d"} for name in ("file", "target", "args")},
    "hook-agent.as": {"script": None},
}
OTHERS: JsonObject = {
    # Things that examples name.
    "agents": {"worker": {"script": [{"done": "worker"}]}, "careful": {"script": [{"done": "careful"}]}},
    "use": ["parts/hooks.yaml"],
    "containers": {"redis": {"image": "r", "health": {"tcp": 1}}, "sut": {"image": "s"}},
    "prompts": {"p": "text"},
}
READ_AS_WRITTEN = {
    # Maps that stand in a lowered spec as they stand in the plan, and who looks into them.
    "step": ("controllers/planloop/controllers/agent/deciders",),
    "when": ("controllers/planloop/controllers/agent/deciders",),
    "expect": ("controllers/planloop/controllers/agent/deciders",),
    "sandbox": ("schemas/planloop/schemas/objects/sandbox.py",),
    "retry": ("controllers/planloop/controllers/agent/mixins",),
    "concurrency-limit": ("controllers/planloop/controllers/agent/mixins",),
    "cache": ("controllers/planloop/controllers/agent/mixins",),
    "compact": ("controllers/planloop/controllers/agent",),
    "model-config": ("schemas/planloop/schemas/objects/model.py",),
    "price": ("schemas/planloop/schemas/objects/model.py",),
    # The kinds themselves are left out: they name every field.
    **{
        table.name: (
            "controllers/planloop/controllers/task/checks",
            *(str(path.relative_to(ROOT)) for path in CHECKS.glob("*.py") if path.name != "kinds.py"),
        )
        for kind in CHECK_KINDS.values()
        for table in kind.tables
    },
}
NOT_LOWERED = ("mcp", "model-config", "price")


def _trees(*places: str) -> Iterator[ast.AST]:
    for place in places:
        top = ROOT / place
        for path in [top] if top.is_file() else sorted(top.rglob("*.py")):
            yield from ast.walk(ast.parse(path.read_text()))


@cache
def _words(*places: str) -> frozenset[str]:
    """The words of every text in the code of these places, docstrings and other sentences left out."""
    texts = (node.value for node in _trees(*places) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return frozenset(word for text in texts if not text.rstrip().endswith(".") for word in text.split())


def _read_of_specs(*places: str) -> Iterator[str]:
    """What is asked of anything called a spec: `spec.name`, `spec["name"]`, `spec.get("name")`."""
    for node in _trees(*places):
        match node:
            case ast.Attribute(value=of, attr=name) if _is_spec(of):
                yield name
            case ast.Subscript(value=of, slice=ast.Constant(value=str(name))) if _is_spec(of):
                yield name
            case ast.Call(func=ast.Attribute(value=of, attr="get"), args=[ast.Constant(value=str(name)), *_]) if (
                _is_spec(of)
            ):
                yield name


def _is_spec(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute | ast.Name) and (
        node.attr if isinstance(node, ast.Attribute) else node.id
    ).endswith("spec")


def _beside(table: str, row: Field, base: JsonObject) -> JsonObject:
    written = {**base, **BESIDE.get(f"{table}.{row.name}", {})}
    # None takes a thing of the plan away as well; `_plan` drops it.
    return written if table == "plan" else {name: value for name, value in written.items() if value is not None}


def _plan(table: str, value: JsonObject) -> JsonObject:
    """A plan in which `value` stands as a map of the table."""
    task: JsonObject = {"goal": "g", "agent": SCRIPT}
    inner: dict[str, Json] = {
        "task": value,
        "heal": {**task, "heal": value},
        "case": {**task, "case": value},
        "budget": {**task, "budget": value},
        "lock": {**task, "locks": [value]},
        "check": {**task, "acceptance": [value]},
        "agent": {"goal": "g", "agent": value},
        "step": {"goal": "g", "agent": {"script": [value]}},
        "when": {"goal": "g", "agent": {"script": [{**STEP, "when": value}]}},
        "expect": {"goal": "g", "agent": {"script": [{"expect": value}]}},
        "mixin": {"goal": "g", "agent": {**SCRIPT, "mixins": ["m"]}},
        "toolset": {"goal": "g", "agent": {**SCRIPT, "tools": ["s"]}},
        "outside": {"goal": "g", "agent": {"outside": value}},
    }
    for kind in CHECK_KINDS.values():
        if kind.tables:
            inner[kind.tables[0].name] = {**task, "acceptance": [{kind.name: value}]}
    sent = {"path": ["/"], "body": "{{nonce.a}}"}
    steps: dict[str, JsonObject] = {
        "http-step": {"steps": [value]},
        "http-send": {"steps": [{"send": value}]},
        "http-expect": {"steps": [{"send": sent, "expect": value}]},
        "http-repeat": {"steps": [{"send": sent}], "repeat": value},
    }
    for name, some in steps.items():
        inner[name] = {**task, "acceptance": [{"http": {"url": "http://h", **some}}]}
    for name in ("ws-discover", "ws-frame"):
        inner[name] = {**task, "acceptance": [{"ws": {**WS, name.removeprefix("ws-"): value}}]}
    for name in ("before", "around", "after"):
        inner[name] = {"goal": "g", "agent": {**SCRIPT, "mixins": ["m"]}}
    for name in ("retry", "concurrency-limit", "cache"):
        inner[name] = {"goal": "g", "agent": {**SCRIPT, "mixins": ["m"]}}
    for name in ("topology", "wake", "sandbox", "compact"):
        inner[name] = {"goal": "g", "agent": {**SCRIPT, name: value}}
    inner["escalate"] = {"goal": "g", "agent": {"model": "m", "escalate": value}}
    inner["granted"] = {
        "goal": "g",
        "agent": {"model": "m", "tools": ["read"], "budget": {"turns": 9}},
        "granted": value,
    }
    root: JsonObject = {"plan": "demo", **OTHERS, "tasks": {"a": inner.get(table, task), "frontend": {"run": "f"}}}
    tops: dict[str, JsonObject] = {
        "plan": value,
        "library": value,
        "rights": {"rights": value},
        "grant": {"rights": {"grant": value}},
        "limits": {"limits": value},
        "model-config": {"models": {"m": value}},
        "price": {"models": {"m": {"price": value}}},
        "mixin": {"mixins": {"m": value}},
        "toolset": {"toolsets": {"s": value}},
        **{name: {"mixins": {"m": {name: [value]}}} for name in ("before", "around", "after")},
        "hook": {"hooks": {"h": value}},
        "hook-agent": {"hooks": {"h": {"on": ["on-wake"], "agent": value}}},
        "expires": {"hooks": {"h": {"on": ["on-wake"], "run": "x", "expires": value}}},
        "hook-transcript": {"hooks": {"h": {"on": ["on-wake"], "run": "x", "transcript": value}}},
        **{name: {"mixins": {"m": {"around": [{name: value}]}}} for name in ("retry", "concurrency-limit", "cache")},
        "container": {"containers": {**OTHERS["containers"], "c": value}},
    }
    parts = {"mount": "mounts", "port-map": "ports", "health": "health", "container-limits": "limits"}
    parts |= {"container-build": "build", "container-logs": "logs"}
    for name, field in parts.items():
        written = [value] if name in ("mount", "port-map") else value
        tops[name] = {"containers": {"c": {field: written} | ({} if field == "build" else {"image": "i"})}}
    return {name: item for name, item in {**root, **tops.get(table, {})}.items() if item is not None}


def _result(document: JsonObject) -> tuple[Any, CheckedPlan]:
    checked = check_document(document, sources=SOURCES)
    graph = None if checked.graph is None else json.dumps(graph_json(checked.graph))
    return (graph, [(one.code, one.summary) for one in checked.diagnostics]), checked


def _base(table: str, row: Field) -> JsonObject:
    known: dict[str, JsonObject] = {
        "case": {"key": "0"} if row.name != "key" else {},
        "task": {"goal": "g", "agent": SCRIPT},
        "agent": dict(SCRIPT),
        "hook": {"on": ["on-wake"], "run": "y"},
        "hook-agent": dict(SCRIPT),
        "step": dict(STEP) if row.name in ("when", "to", "reason", "key", "with") else {},
        "plan": {"tasks": {"a": {"goal": "g", "agent": SCRIPT}, "frontend": {"run": "f"}}},
        "container": {"image": "i"},
    }
    return known.get(table, {})


@rows.each(
    ("table", "row"),
    [pair for pair in ROWS if not pair[1].read_in and pair[0] not in (*NOT_LOWERED, "library")],
    ids=lambda part: part if isinstance(part, str) else part.name,
)
def test_law_10_example_of_every_field_changes_the_graph_or_is_reported(table: str, row: Field) -> None:
    base = _base(table, row)
    without = _plan(table, _beside(table, row, base))
    with_it = _plan(table, _beside(table, row, base) | {row.name: row.example})
    before, _ = _result(without)
    after, checked = _result(with_it)
    unknown = [one for one in checked.diagnostics if one.code in ("P0201", "P0202", "P0206", "P0212")]
    assert not unknown, told(tuple(unknown))
    assert before != after, f"{table}.{row.name} changes nothing"


@pytest.mark.parametrize(
    ("table", "row"),
    [pair for pair in ROWS if pair[1].read_in],
    ids=lambda part: part if isinstance(part, str) else part.name,
)
def test_law_10_what_is_read_from_the_document_is_named_by_its_reader(table: str, row: Field) -> None:
    assert row.name in _words(row.read_in), f"nothing in {row.read_in} reads `{row.name}`"


@rows.each(
    ("table", "row"),
    [pair for pair in ROWS if pair[0] in READ_AS_WRITTEN],
    ids=lambda part: part if isinstance(part, str) else part.name,
)
def test_law_10_unchanged_lowered_field_is_named_by_its_reader(table: str, row: Field) -> None:
    assert row.name in _words(*READ_AS_WRITTEN[table]), f"nothing in {READ_AS_WRITTEN[table]} reads `{row.name}`"


def test_law_10_every_field_of_a_lowered_spec_is_read_where_things_run() -> None:
    read = set(_read_of_specs("controllers", "reconciler"))
    for spec in (TaskSpec, AgentSpec, HookSpec):
        assert {one.name for one in fields(spec)} - read == set()


@rows.each(
    ("table", "row"),
    [(table.name, row) for table in SUITE_TABLES for row in table.fields],
    ids=lambda part: part if isinstance(part, str) else part.name,
)
def test_law_10_every_field_of_a_suite_is_named_by_a_reader(table: str, row: Field) -> None:
    assert row.name in _words("benchmarks", "schemas/planloop/schemas/checks/kinds.py"), (
        f"nothing reads `{table}.{row.name}`"
    )
