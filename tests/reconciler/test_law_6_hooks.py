"""Law 6 for hooks: agents attach them to themselves and below, and shed, change or see none that is set above them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from planloop.schemas import json_patch, json_pointer
from tests import rows, sets
from tests.golden_text import said, said_in
from tests.product import HUMAN_CLI, HUMAN_FILE, Author, Json, JsonObject, Patch, PatchOp
from tests.reconciler.imagined import Imagined
from tests.reconciler.test_law_6_escapes import FOLDER

RULE: JsonObject = {"on": ["before-call"], "rule": [{"deny": "no"}]}
DOCUMENT: JsonObject = {
    "plan": "p",
    "goal": "all",
    "prompts": {"kind": "be kind"},
    "agent": {"model": "house/big"},
    "hooks": {
        "guard": {"on": ["before-call"], "match": "write(*)", "run": "./guard"},
        "careful": {"on": ["before-reply"], "agent": {"model": "house/big", "prompt": "kind"}},
        "shared": {"on": ["on-input"], "rule": [{"comment": "x"}], "copy": "read-only"},
        "here": {"on": ["on-wake"], "rule": [{"comment": "y"}], "copy": "none"},
    },
    "tasks": {
        "a": {
            "goal": "first",
            "cwd": "a",
            "agent": {"model": "house/a"},
            "rights": {
                "tools": ["read", "task", "plan_patch", "shell(git *)"],
                "grant": {"models": ["house/a"], "tools": ["read", "shell(git *)"]},
            },
            "hooks": {"mine": RULE},
            "tasks": {"x": {"goal": "part", "cwd": "a", "hooks": {"deep": RULE}}},
        },
        "b": {"goal": "second", "agent": {"model": "house/a"}},
    },
}
A, X, ROOT, HOOK = Author("agent", "a"), Author("agent", "a/x"), Author("agent", "."), Author("agent", "a/~careful")
NEW: JsonObject = {"on": ["before-call"], "rule": [{"deny": "mine"}]}


@pytest.fixture
def plan() -> Imagined:
    made = Imagined(FOLDER, DOCUMENT)
    assert made.submit(Patch(HUMAN_FILE, (PatchOp("add", (), DOCUMENT),), 0))
    return made


def _of(*path: str) -> tuple[str, ...]:
    return json_pointer.task_pointer(path)


def _by(plan: Imagined, author: Author, *ops: PatchOp) -> tuple[str, ...]:
    """What is wrong with the patch; when nothing is, it is made."""
    patch = Patch(author, ops, plan.view.rev)
    found = plan.faults(patch)
    assert plan.submit(patch) is not bool(found), found
    return found


def test_law_6_an_agent_attaches_hooks_to_itself_and_to_its_children(plan: Imagined) -> None:
    assert not _by(plan, A, PatchOp("add", (*_of("a"), "hooks", "own"), NEW))
    assert not _by(plan, A, PatchOp("add", (*_of("a", "x"), "hooks", "theirs"), NEW))
    found = plan.view.get("hook/a/x/own")
    assert found is not None
    assert found.spec["original"] == "hook/a/own"
    assert plan.view.get("hook/a/x/theirs") is not None
    assert plan.view.get("hook/b/own") is None


@rows.each(
    "op",
    [
        PatchOp("remove", ("hooks",)),
        PatchOp("remove", ("hooks", "guard")),
        PatchOp("replace", ("hooks", "guard", "match"), "write(z)"),
        PatchOp("add", ("hooks", "guard", "expires"), {"turns": 1}),
        PatchOp("add", ("hooks", "guard"), NEW),
        PatchOp("add", ("hooks", "other"), NEW),
        PatchOp("test", ("hooks", "guard", "run"), "./guard"),
        PatchOp("copy", (*_of("a"), "notes"), None, ("hooks", "guard", "run")),
        PatchOp("move", (*_of("a"), "notes"), None, ("hooks", "guard", "run")),
        PatchOp("test", (*_of("a"), "agent", "hooks"), ["lib:planning"]),
        PatchOp("test", ("agents", "some", "hooks", "0"), "lib:planning"),
        PatchOp("copy", (*_of("a"), "notes"), None, (*_of("a", "x"), "agent", "hooks")),
        PatchOp("remove", (*_of("a"), "hooks")),
        PatchOp("remove", (*_of("a"), "hooks", "mine")),
        PatchOp("replace", (*_of("a"), "hooks", "mine", "on"), ["on-end"]),
        PatchOp("add", (*_of("a"), "hooks"), {"other": NEW}),
        PatchOp("remove", (*_of("a", "x"), "hooks", "deep")),
        PatchOp("replace", (*_of("a", "x"), "hooks"), {}),
        PatchOp("remove", ("children", "a", "children", "x", "hooks", "deep")),
        PatchOp("add", (*_of("b"), "hooks"), {"evil": NEW}),
        PatchOp("test", (*_of("b"), "hooks"), None),
        PatchOp("remove", _of("a", "x")),
        PatchOp("replace", _of("a", "x"), {"goal": "part", "cwd": "a"}),
        PatchOp("replace", (*_of("a"), "tasks"), {}),
    ],
    ids=lambda op: f"{op.op} {json_pointer.render_pointer(op.path)}",
)
def test_law_6_no_operation_removes_changes_or_reads_inherited_hooks(plan: Imagined, op: PatchOp) -> None:
    before = plan.document
    assert _by(plan, A, op)
    assert plan.document == before


def test_law_6_agent_cannot_redefine_a_prompt_that_a_hook_uses() -> None:
    document = {**DOCUMENT, "hooks": {"careful": {"on": ["on-end"], "agent": {"model": "house/big", "prompt": "kind"}}}}
    document = {name: value for name, value in document.items() if name != "prompts"}
    plan = Imagined(FOLDER, document)
    assert plan.submit(Patch(HUMAN_FILE, (PatchOp("add", (), document),), 0))
    faults = _by(plan, A, PatchOp("add", ("prompts",), {"kind": "allow all"}))
    assert faults
    assert plan.specs["agent/~careful"]["prompt"] == "kind"


def test_law_6_what_an_agent_attached_to_itself_it_does_not_take_off(plan: Imagined) -> None:
    assert not _by(plan, A, PatchOp("add", (*_of("a"), "hooks", "own"), NEW))
    assert _by(plan, A, PatchOp("remove", (*_of("a"), "hooks", "own")))
    assert _by(plan, A, PatchOp("replace", (*_of("a"), "hooks", "own", "rule"), [{"allow": True}]))
    assert _by(plan, X, PatchOp("remove", (*_of("a"), "hooks", "own")))


def test_law_6_a_parent_takes_off_what_it_or_the_child_attached_to_the_child(plan: Imagined) -> None:
    assert not _by(plan, A, PatchOp("add", (*_of("a", "x"), "hooks", "first"), NEW))
    assert not _by(plan, X, PatchOp("add", (*_of("a", "x"), "hooks", "second"), NEW))
    assert _by(plan, X, PatchOp("remove", (*_of("a", "x"), "hooks", "first")))
    assert not _by(plan, A, PatchOp("remove", (*_of("a", "x"), "hooks", "first")))
    assert not _by(plan, A, PatchOp("remove", (*_of("a", "x"), "hooks", "second")))


def test_law_6_hook_of_the_same_name_is_added_to_the_inherited_one(plan: Imagined) -> None:
    before = plan.view.get("hook/a/guard")
    assert not _by(plan, A, PatchOp("add", (*_of("a"), "hooks", "guard"), NEW))
    after = plan.view.get("hook/a/guard")
    assert before is not None
    assert after is not None
    assert after.spec == before.spec
    assert plan.view.get("hook/a/guard-2") is not None


@pytest.mark.parametrize(
    ("hook", "told"),
    [
        ({"on": ["on-wake"], "run": "curl evil"}, "would run `curl evil`"),
        ({"on": ["on-wake"], "run": ["evil", "x"]}, "would run `evil x`"),
        ({"on": ["on-wake"], "python": "evil.py:go"}, "would run `python evil.py:go`"),
        ({"on": ["on-wake"], "agent": {"model": "house/big", "prompt": "x"}}, "`house/big` is not allowed"),
        ({"on": ["on-wake"], "agent": {"run": "evil", "prompt": "x"}}, "would run `evil`"),
        ({"on": ["on-wake"], "agent": {"model": "house/a@http://evil/v1", "prompt": "x"}}, "http://evil"),
        ({"on": ["on-wake"], "agent": {"prompt": "x", "tools": ["write"]}}, "`write` is not allowed"),
        ({"on": ["on-wake"], "agent": {"as": "agent/."}}, "neither you nor your descendant"),
        ({"on": ["on-wake"], "agent": {"as": "agent/b"}}, "neither you nor your descendant"),
    ],
)
def test_law_6_a_new_hook_runs_and_asks_what_its_author_may(plan: Imagined, hook: JsonObject, told: str) -> None:
    faults = _by(plan, A, PatchOp("add", (*_of("a", "x"), "hooks", "new"), hook))
    assert any(told in fault for fault in faults), faults


@pytest.mark.parametrize(
    "hook",
    [
        {"on": ["on-wake"], "run": "git log"},
        {"on": ["on-wake"], "agent": {"prompt": "x"}},
        {"on": ["on-wake"], "agent": {"model": "house/a", "prompt": "x", "tools": ["read"]}},
        {"on": ["on-wake"], "agent": {"as": "agent/a"}, "copy": "none"},
    ],
)
def test_law_6_what_the_author_may_itself_a_new_hook_may(plan: Imagined, hook: JsonObject) -> None:
    assert not _by(plan, A, PatchOp("add", (*_of("a", "x"), "hooks", "new"), hook))


def test_law_6_an_agent_gives_a_hook_no_model_that_it_may_use_and_not_hand_on(plan: Imagined) -> None:
    hook = {"on": ["on-wake"], "agent": {"model": "house/big", "prompt": "x"}}
    faults = _by(plan, A, PatchOp("add", (*_of("a"), "hooks", "new"), hook))
    said_in(faults, "hook/a/new", "house/big")


def test_law_6_hook_attaches_hooks_to_its_agent_which_cannot_remove_them(
    plan: Imagined,
) -> None:
    assert not _by(plan, HOOK, PatchOp("add", (*_of("a"), "hooks", "again"), NEW))
    assert plan.view.get("hook/a/again") is not None
    assert _by(plan, A, PatchOp("remove", (*_of("a"), "hooks", "again")))
    assert _by(plan, HOOK, PatchOp("add", (*_of("a"), "hooks", "runs"), {"on": ["on-end"], "run": "evil"}))
    assert _by(plan, HOOK, PatchOp("remove", (*_of("a"), "hooks", "mine")))
    assert _by(plan, HOOK, PatchOp("add", (*_of("b"), "hooks"), {"other": NEW}))
    assert _by(plan, HOOK, PatchOp("add", (*_of("a"), "notes"), "x"))


def test_law_6_what_its_hook_set_below_it_an_agent_does_not_take_off(plan: Imagined) -> None:
    assert not _by(plan, HOOK, PatchOp("add", (*_of("a", "x"), "hooks", "again"), NEW))
    assert _by(plan, A, PatchOp("remove", (*_of("a", "x"), "hooks", "again")))


def test_law_6_a_new_child_has_all_hooks_that_its_parent_has(plan: Imagined) -> None:
    assert not _by(plan, A, PatchOp("add", (*_of("a"), "tasks", "new"), {"goal": "n", "cwd": "a"}))
    hooks = plan.specs["agent/a/new"]["hooks"]
    assert hooks == [f"hook/a/new/{name}" for name in ("guard", "careful", "shared", "mine")]
    behind = plan.specs["agent/a/new/~careful"]
    assert behind["watches"] == "agent/a/new"
    assert behind["hooks"] == ["hook/a/new/~careful/guard"]


def test_law_6_errors_do_not_reveal_hooks_to_an_agent(plan: Imagined) -> None:
    for name in ("guard", "careful", "gaurd"):  # One that there is and one that there is not are refused alike.
        for op in (
            PatchOp("add", (*_of("a"), "hooks", "new"), {"extends": name}),
            PatchOp("add", (*_of("a"), "hooks", "new"), name),
            PatchOp("add", (*_of("a", "x"), "agent"), {"hooks": [name]}),
            PatchOp("add", (*_of("a", "x"), "agent"), {"hooks": [{name: {"max": 1}}]}),
            PatchOp(
                "add", (*_of("a"), "tasks", "new"), {"goal": "n", "hook/hooks": [{"id": "h", "hook/extends": name}]}
            ),
        ):
            answer = plan.answer(Patch(A, (op,), plan.view.rev))
            told = [f"{fault.message} {fault.hint}".strip() for fault in answer.faults]
            said(told)


def test_law_6_operators_program_of_a_hook_is_not_limited_by_watched_agents() -> None:
    runs: JsonObject = {"on": ["on-end"], "agent": {"run": "./decider"}}
    tasks = {"a": {**DOCUMENT["tasks"]["a"], "hooks": {"mine": {"on": ["on-end"], "run": "./mine"}, "late": runs}}}
    document = {**DOCUMENT, "hooks": {"root": runs}, "tasks": tasks}
    plan = Imagined(FOLDER, document)
    assert plan.submit(Patch(HUMAN_FILE, (PatchOp("add", (), document),), 0))
    assert not _by(plan, A, PatchOp("add", (*_of("a"), "tasks", "new"), {"goal": "n", "cwd": "a"}))
    assert not _by(plan, A, PatchOp("add", (*_of("a"), "hooks", "own"), NEW))
    assert not _by(plan, A, PatchOp("add", (*_of("a"), "notes"), "x"))


def test_law_6_a_hook_below_is_not_made_to_run_what_its_author_may_not(plan: Imagined) -> None:
    at = (*_of("a", "x"), "hooks", "new")
    assert not _by(plan, A, PatchOp("add", at, {"on": ["on-end"], "run": "git log"}))
    assert _by(plan, A, PatchOp("replace", (*at, "run"), "curl evil"))
    assert not _by(plan, A, PatchOp("replace", at, {"on": ["on-end"], "agent": {"prompt": "x"}}))
    assert _by(plan, A, PatchOp("replace", at, {"on": ["on-end"], "agent": {"run": "curl evil"}}))


def test_law_6_an_agent_that_attaches_a_program_no_longer_writes_it(plan: Imagined) -> None:
    assert not _by(
        plan, A, PatchOp("add", (*_of("a"), "hooks", "new"), {"on": ["on-end"], "run": "git run-hook ./own"})
    )
    assert "write(a/own)" in plan.specs["agent/a"]["rights"].get("guarded", [])
    assert "write(a/own)" in plan.specs["agent/a/x"]["rights"].get("guarded", [])
    assert "write(a/own)" not in plan.specs["agent/b"]["rights"].get("guarded", [])


def test_law_6_agent_cannot_copy_what_a_hooks_agent_has_learnt(plan: Imagined) -> None:
    copy = {"goal": "n", "cwd": "a", "agent": {"from": "~careful"}}
    assert _by(plan, A, PatchOp("add", (*_of("a"), "tasks", "new"), copy)) == ("agent `~careful` cannot be copied",)
    hook = {"on": ["on-wake"], "agent": {"as": "agent/a/~careful"}}
    assert _by(plan, A, PatchOp("add", (*_of("a", "x"), "hooks", "new"), hook))


def test_operator_can_remove_any_hook(plan: Imagined) -> None:
    assert not _by(plan, A, PatchOp("add", (*_of("a"), "hooks", "own"), NEW))
    assert not _by(
        plan, HUMAN_CLI, PatchOp("remove", (*_of("a"), "hooks", "own")), PatchOp("remove", ("hooks", "guard"))
    )
    gone = plan.view.get("hook/guard")
    assert gone is not None
    assert gone.deleting


# -- any sequence of patches -------------------------------------------------------------------------------------

AUTHORS: Final = (ROOT, A, X, Author("agent", "b"), Author("agent", "a/new"), HOOK)
OWN = st.sampled_from(["", "/tasks/a", "/tasks/a/tasks/x", "/tasks/b", "/tasks/a/tasks/new", "/tasks/0", "/children/a"])
FIELDS = st.sampled_from(
    "hooks hooks/guard hooks/careful hooks/mine hooks/deep hooks/new hooks/guard/on hooks/shared/copy hooks/mine/rule "
    "hooks/careful/expires agent agent/hooks agent/model tasks tasks/x tasks/new prompts prompts/kind prompts/x moved "
    "rights agents use open notes hooks/0".split()
)
HOOK_VALUES: st.SearchStrategy[Json] = st.sampled_from(
    [
        NEW,
        {"on": ["before-reply"], "rule": [{"allow": True}], "copy": "none"},
        {"extends": "guard", "match": "write(z)"},
        {"on": ["before-call"], "rule": [{"allow": True}]},
        "lib:single-minded",
        {"extends": "lib:spawn-limit", "copy": "none"},
        {"on": ["before-call"], "run": "git log"},
        {"on": ["on-wake"], "agent": {"prompt": "x"}},
        {"on": ["before-call"], "run": "evil"},
    ]
)
VALUES: st.SearchStrategy[Json] = st.one_of(
    HOOK_VALUES,
    st.dictionaries(st.sampled_from(["guard", "mine", "new", "deep"]), HOOK_VALUES, max_size=2),
    st.sampled_from(
        [
            {"goal": "n", "cwd": "a"},
            {"goal": "n", "cwd": "a", "hooks": {"own": NEW}},
            {"x": {"goal": "part", "cwd": "a"}},
            {"kind": "allow all"},
            {"x": "a/new"},
            {"a/x": "a/new"},
            {"model": "house/a", "hooks": []},
            {"model": "house/a", "hooks": ["guard", "lib:single-minded"]},
            ["guard"],
            "be rude",
            ["on-end"],
            None,
        ]
    ),
)
POINTERS = st.builds(lambda at, field: json_pointer.parse_pointer(f"{at}/{field}"), OWN, FIELDS)
OPS = st.builds(
    PatchOp, st.sampled_from(["add", "add", "replace", "remove", "move", "copy"]), POINTERS, VALUES, POINTERS
)
NODES: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"goal": "n", "cwd": "a"},
        {"goal": "n", "cwd": "a", "hooks": {"own": NEW}},
        {"goal": "n", "cwd": "a", "agent": {}},
    ]
)
PLACES: Final = {"agent:.": ("", "a", "b", "a/x"), "agent:a": ("a", "a/x", "a/new"), "agent:a/x": ("a/x",)}


def _sensible(author: Author) -> st.SearchStrategy[PatchOp]:
    """What such an author may well do: attach, take off again, spawn, remove."""
    places = st.sampled_from(PLACES.get(str(author), (author.name.removesuffix("/~careful"),)))
    names = st.sampled_from(["guard", "mine", "new", "deep", "own"])
    at = places.map(lambda path: json_pointer.task_pointer(tuple(path.split("/")) if path else ()))
    attach = st.builds(lambda own, name, value: PatchOp("add", (*own, "hooks", name), value), at, names, HOOK_VALUES)
    take = st.builds(lambda own, name: PatchOp("remove", (*own, "hooks", name)), at, names)
    spawn = st.builds(lambda own, node: PatchOp("add", (*own, "tasks", "new"), node), at, NODES)
    remove = at.map(lambda own: PatchOp("remove", (*own, "tasks", "new")))
    return st.one_of(attach, take, spawn, remove)


ACTS = st.sampled_from(AUTHORS).flatmap(
    lambda author: st.tuples(
        st.just(author), st.lists(_sensible(author), min_size=1, max_size=1) | st.lists(OPS, min_size=1, max_size=2)
    )
)


@pytest.mark.sweep
@settings(max_examples=sets.examples(150, 50))
@given(st.lists(ACTS, min_size=1, max_size=6))
def test_law_6_no_sequence_of_patches_removes_a_hook_or_changes_its_effect(acts: list[tuple[Author, Any]]) -> None:
    plan = Imagined(FOLDER, DOCUMENT)
    assert plan.submit(Patch(HUMAN_FILE, (PatchOp("add", (), DOCUMENT),), 0))
    first = _hooks(plan)
    for author, ops in acts:
        before = _run(plan)
        if plan.submit(Patch(author, tuple(_fitted(plan, op) for op in ops), plan.view.rev)):
            event(f"accepted by {author}")
            _holds(plan, first)
            assert author.name in (".", "b") or _run(plan) - before <= {"sh -c git log"}, "it may run no more"


def _fitted(plan: Imagined, op: PatchOp) -> PatchOp:
    """Add the surrounding map if it does not exist yet."""
    is_first = op.op == "add" and op.path[-2:-1] in (("hooks",), ("tasks",))
    if not is_first or json_pointer.has_value(plan.document, op.path[:-1]):
        return op
    return PatchOp("add", op.path[:-1], {op.path[-1]: op.value})


def _hooks(plan: Imagined) -> Mapping[str, JsonObject]:
    found = [*plan.view.list("hook"), *(one for one in plan.view.list("agent") if "~" in one.address)]
    return {one.address: one.spec for one in found if not one.deleting}


def _run(plan: Imagined) -> set[str]:
    minds = [spec["mind"] for spec in _hooks(plan).values()]
    return {" ".join(mind["argv"]) for mind in minds if mind["kind"] == "program"}


def _holds(plan: Imagined, first: Mapping[str, JsonObject]) -> None:
    """Each agent has all hooks that people set above it, unchanged, and these come first."""
    now = _hooks(plan)
    for address, spec in first.items():
        watched = plan.view.get(str(spec["watches"]))
        if watched is None or watched.deleting:
            continue  # Its task was given children, and is done by them.
        assert not json_patch.diff_values(spec, now[address]), f"{address} was changed"
    for agent in plan.view.list("agent"):
        if agent.deleting or "~" in agent.address:
            continue
        from_above = ["guard", "careful", "shared", *(["mine"] if agent.address.startswith("agent/a") else [])]
        names = [hook.rpartition("/")[2] for hook in agent.spec["hooks"]]
        assert [name for name in names if name in from_above] == from_above, agent.address
        for name in from_above:
            hook = now[next(each for each in agent.spec["hooks"] if each.rpartition("/")[2] == name)]
            like = first[f"hook/a/{name}"]
            assert {key: hook[key] for key in ("on", "match", "copy", "expires", "options")} == {
                key: like[key] for key in ("on", "match", "copy", "expires", "options")
            }


def _watched_child(hook: JsonObject) -> Imagined:
    reviewer = {"goal": "review", "agent": {"model": "house/a", "tools": ["read"]}}
    child = {"goal": "work", "agent": {"model": "house/a"}, "hooks": {"h": hook}}
    above = {"model": "house/a"}
    tasks = {"a": {"goal": "first", "agent": above, "tasks": {"rev": reviewer, "w": child}}}
    document: JsonObject = {"plan": "p", "goal": "all", "agent": {"model": "house/big"}, "tasks": tasks}
    plan = Imagined(FOLDER, document)
    assert plan.submit(Patch(HUMAN_FILE, (PatchOp("add", (), document),), 0))
    return plan


@pytest.mark.parametrize(("field", "value"), [(("env",), {"PATH": "/evil"}), (("cwd",), "evil")], ids=str)
def test_law_6_a_parent_does_not_change_what_a_hook_of_its_child_runs_in(field: tuple[str, ...], value: Json) -> None:
    plan = _watched_child({"on": ["before-call"], "run": "./guard"})
    assert _by(plan, A, PatchOp("add", (*_of("a", "w"), *field), value))
    assert not _by(_watched_child(RULE), A, PatchOp("add", (*_of("a", "w"), *field), value))


@pytest.mark.parametrize(
    ("field", "value"),
    [(("pause",), True), (("cancel",), True), (("budget",), {"turns": 1}), (("agent", "tools"), [])],
    ids=str,
)
def test_law_6_an_agent_that_a_hook_asks_stays_what_it_was(field: tuple[str, ...], value: Json) -> None:
    plan = _watched_child({"on": ["before-call"], "agent": {"as": "agent/a/rev"}})
    assert _by(plan, A, PatchOp("add", (*_of("a", "rev"), *field), value))
    assert not _by(plan, A, PatchOp("add", (*_of("a", "rev"), "notes"), "be quick"))


def test_law_6_an_agent_that_a_hook_asks_may_get_more_budget() -> None:
    plan = _watched_child({"on": ["before-call"], "agent": {"as": "agent/a/rev"}})
    assert plan.submit(Patch(HUMAN_FILE, (PatchOp("add", (*_of("a", "rev"), "budget"), {"turns": 5}),), plan.view.rev))
    assert not _by(plan, A, PatchOp("add", (*_of("a", "rev"), "budget", "turns"), 9))
    assert _by(plan, A, PatchOp("add", (*_of("a", "rev"), "budget", "turns"), 3))


def test_law_6_no_name_makes_another_agents_hook_ones_own() -> None:
    plan = _watched_child({"on": ["before-call"], "run": "./guard"})
    assert plan.submit(Patch(HUMAN_FILE, (PatchOp("add", ("hooks",), {"h": RULE}),), plan.view.rev))
    beside = plan.view.get("hook/a/w/h-2")
    assert beside is not None and beside.spec["mind"]["kind"] == "program"
    assert not _by(plan, A, PatchOp("add", (*_of("a", "w"), "hooks", "h-2"), NEW))
    assert _by(plan, A, PatchOp("add", (*_of("a", "w"), "env"), {"PATH": "/evil"}))
    assert not _by(plan, A, PatchOp("remove", (*_of("a", "w"), "hooks", "h-2")))
    assert plan.view.get("hook/a/w/h-2") == beside
