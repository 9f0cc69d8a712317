"""Hooks in the plan language: prototypes, watched agents, order, and errors."""

from __future__ import annotations

from planloop.schemas.limits import HOOKS_MAX
from planloop.schemas.objects.hook import hook_from_json
from tests.compiler.compiling import GOLDEN, codes, compiled, document_of, graph_json, graph_of, told
from tests.product import JsonObject

SCRIPT = "{script: [{done: ok}]}"
TREE = f"""
agent: {SCRIPT}
goal: g
tasks:
  a: {{goal: a, agent: {SCRIPT}, tasks: {{b: {{goal: b, agent: {SCRIPT}}}}}}}
"""
RULE = "{on: on-wake, rule: {comment: x}}"


def _hooks(text: str) -> dict[str, JsonObject]:
    return {address: one.spec for address, one in graph_of(text).objects.items() if address.startswith("hook/")}


def _over(text: str, agent: str) -> list[str]:
    return list(graph_of(text).objects[agent].spec["hooks"])


def test_hook_of_the_plan_watches_every_agent_with_its_own_object() -> None:
    hooks = _hooks(f"hooks: {{guard: {RULE}}}{TREE}")
    assert list(hooks) == ["hook/guard", "hook/a/guard", "hook/a/b/guard"]
    assert [spec["watches"] for spec in hooks.values()] == ["agent/.", "agent/a", "agent/a/b"]
    assert [spec["original"] for spec in hooks.values()] == ["", "hook/guard", "hook/guard"]
    assert all(spec["is_root"] for spec in hooks.values())


def test_agent_without_a_watched_ancestor_has_the_original_hook() -> None:
    text = f"hooks: {{guard: {RULE}}}\ntasks: {{a: {{goal: a, agent: {SCRIPT}}}, b: {{goal: b, agent: {SCRIPT}}}}}"
    assert [spec["original"] for spec in _hooks(text).values()] == ["", ""]


def test_a_copy_is_like_its_original_read_only_or_not_made_at_all() -> None:
    text = """hooks:
  same: {on: on-wake, rule: {comment: x}}
  ro: {on: on-wake, rule: {comment: x}, copy: read-only, expires: {turns: 3}}
  here: {on: on-wake, rule: {comment: x}, copy: none}"""
    assert _over(text + TREE, "agent/a") == ["hook/a/same", "hook/a/ro"]
    assert _over(text + TREE, "agent/a/b") == ["hook/a/b/same", "hook/a/b/ro"]
    hooks = _hooks(text + TREE)
    assert [hooks[f"hook/{path}ro"]["is_read_only"] for path in ("", "a/", "a/b/")] == [False, True, True]
    assert [hooks[f"hook/{path}ro"]["expires"]["turns"] for path in ("", "a/", "a/b/")] == [3, None, None]


def test_hooks_of_the_plan_come_first_then_each_level_down() -> None:
    text = f"""
goal: g
agent: {{script: [{{done: ok}}], hooks: [lib:planning]}}
hooks: {{root: {RULE}}}
tasks:
  a:
    goal: a
    hooks: {{here: {RULE}}}
    agent: {{script: [{{done: ok}}], hooks: [lib:single-minded]}}
    tasks: {{b: {{goal: b, hooks: {{deep: {RULE}}}, agent: {SCRIPT}}}}}
"""
    names = ["root", "planning", "single-minded", "here", "deep"]
    assert _over(text, "agent/a/b") == [f"hook/a/b/{name}" for name in names]


def test_inherited_hook_is_not_duplicated_when_an_agent_names_it() -> None:
    text = f"hooks: {{guard: {RULE}}}{TREE.replace('[{done: ok}]', '[{done: ok}], hooks: [guard]')}"
    assert _over(text, "agent/a/b") == ["hook/a/b/guard"]


def test_hook_without_copies_watches_descendants_that_name_it() -> None:
    here = "{on: on-wake, rule: {comment: x}, copy: none}"
    tree = TREE.replace("b: {goal: b, agent: {", "b: {goal: b, agent: {hooks: [guard], ")
    text = f"hooks: {{guard: {here}}}{tree}"
    found = [_over(text, agent) for agent in ("agent/.", "agent/a", "agent/a/b")]
    assert found == [["hook/guard"], [], ["hook/a/b/guard"]]
    assert _hooks(text)["hook/a/b/guard"]["original"] == ""


def test_second_hook_of_the_same_name_gets_another_address() -> None:
    below = f"{{goal: a, hooks: {{guard: {{on: on-end, rule: {{comment: y}}}}}}, agent: {SCRIPT}}}"
    text = f"hooks: {{guard: {RULE}}}\ngoal: g\nagent: {SCRIPT}\ntasks: {{a: {below}}}"
    assert _over(text, "agent/a") == ["hook/a/guard", "hook/a/guard-2"]
    assert _hooks(text)["hook/a/guard"]["on"] == ["on-wake"]


def test_settings_are_put_in_and_kept_as_options() -> None:
    hooks = _hooks(f"hooks: {{limit: {{extends: lib:spawn-limit, settings: {{children: 2}}}}}}{TREE}")
    spec = hook_from_json(hooks["hook/limit"])
    assert spec.options["children"] == 2
    assert spec.on == ("before-call",)


def test_own_fields_of_a_hook_override_those_it_extends() -> None:
    text = """hooks:
  base: {on: [before-call, on-end], match: write, rule: {deny: x}, timeout: 5s, on-fault: note}
  own: {extends: base, match: shell, run: ./own}"""
    spec = hook_from_json(_hooks(text + TREE)["hook/own"])
    assert (spec.on, spec.match, spec.timeout_s, spec.on_fault) == (("before-call", "on-end"), "shell", 5, "note")
    assert _hooks(text + TREE)["hook/own"]["mind"]["argv"] == ["sh", "-c", "./own"]


def test_extending_an_agent_changes_only_the_stated_fields() -> None:
    text = """hooks:
  base: {on: on-end, agent: {model: ollama/x, prompt: look, tools: [read]}, budget: {turns: 3}}
  own: {extends: base, agent: {model: ollama/y}}"""
    objects = graph_of(text + TREE).objects
    spec = objects["agent/~own"].spec
    assert (spec["mind"]["model"], spec["prompt"], spec["tools"]) == ("ollama/y", "look", ["read"])
    assert spec["budget"] == {"turns": 3}


def test_agent_behind_a_hook_has_only_its_stated_tools() -> None:
    text = "hooks: {late: {on: on-end, agent: {model: ollama/x, prompt: look}}}" + TREE
    spec = graph_of(text).objects["agent/~late"].spec
    assert (spec["tools"], spec["watches"], spec["parent"]) == ([], "agent/.", None)


def test_hooks_without_agents_watch_the_agents_behind_hooks_and_run_first() -> None:
    text = f"""hooks:
  first: {{on: before-call, rule: [{{deny: stop}}]}}
  late: {{on: on-end, agent: {{model: ollama/x, prompt: look}}}}
  other: {{on: on-end, agent: {{model: ollama/x, prompt: look}}}}
  last: {RULE}"""
    assert _over(text + TREE, "agent/~late") == ["hook/~late/first"]
    assert _over(text + TREE, "agent/~other") == ["hook/~other/first"]


def test_copies_watch_only_the_calls_of_a_hooks_agent_and_end_with_the_original() -> None:
    text = """hooks:
  first: {on: [on-wake, before-call, before-reply], rule: [{comment: hello}], copy: read-only}
  says: {on: before-reply, rule: [{deny: "no"}]}
  late: {on: on-end, agent: {model: ollama/x, prompt: look}}"""
    objects = graph_of(text + TREE).objects
    assert _over(text + TREE, "agent/~late") == ["hook/~late/first"]
    for path in ("", "a/"):
        spec = objects[f"hook/{path}~late/first"].spec
        assert (spec["on"], spec["original"], spec["is_read_only"]) == (["before-call"], "hook/first", True)


def test_a_read_only_copy_of_a_hook_that_thinks_asks_the_agent_of_its_original() -> None:
    text = "hooks: {late: {on: on-end, agent: {model: ollama/x, prompt: look}, copy: read-only}}" + TREE
    objects = graph_of(text).objects
    assert objects["hook/a/late"].spec["mind"]["address"] == "agent/~late"
    assert "agent/a/~late" not in objects


def test_plan_agent_is_consulted_where_a_hook_names_it_and_never_about_itself() -> None:
    text = "hooks: {boss: {on: on-end, agent: {as: agent/.}}}" + TREE
    objects = graph_of(text).objects
    assert "hook/boss" not in objects
    assert objects["hook/a/boss"].spec["mind"] == {"kind": "agent", "address": "agent/."}
    below = graph_of("hooks: {boss: {on: on-end, agent: {as: agent/a}}}" + TREE).objects
    assert [one for one in below if one.startswith("hook/")] == ["hook/boss", "hook/a/b/boss"]


def test_hook_wakes_the_agent_that_must_be_notified() -> None:
    objects = graph_of("hooks: {late: {on: on-end, agent: {model: ollama/x, prompt: look}}}" + TREE).objects
    assert "hook/a/late" in objects["agent/a"].refs
    assert set(objects["hook/a/late"].refs) == {"agent/a", "hook/late", "agent/a/~late"}
    assert (objects["hook/a/late"].owner, objects["agent/a/~late"].owner) == ("task/a", "hook/a/late")
    assert "hook/a/late" in objects["agent/a/~late"].refs


def test_hook_whose_agent_has_no_model_is_reported_by_name() -> None:
    found = [one for one in compiled(f"hooks: {{late: {{on: on-end, agent: {{prompt: x}}}}}}{TREE}").diagnostics]
    assert [(one.code, one.summary.split(" has")[0]) for one in found][:1] == [
        ("P0225", "the agent of hook `late` and 2 more")
    ]


def test_unused_setting_is_reported() -> None:
    assert codes(f"hooks: {{limit: {{extends: lib:spawn-limit, settings: {{childs: 2}}}}}}{TREE}") == ["P0213"]


def test_number_of_hooks_of_an_agent_is_bounded() -> None:
    hooks = "".join(f"  h{number}: {RULE}\n" for number in range(HOOKS_MAX + 1))
    assert "P0224" in codes(f"hooks:\n{hooks}{TREE}")


def test_a_plan_without_hooks_has_no_trace_of_them() -> None:
    objects = graph_of(TREE).objects
    assert not [address for address in objects if address.startswith("hook/")]
    assert all(one.spec["hooks"] == [] for address, one in objects.items() if address.startswith("agent/"))


def test_the_same_hooks_in_yaml_and_edn_are_the_same_objects() -> None:
    texts = [(GOLDEN / "valid" / name).read_text() for name in ("watched.plan.yaml", "watched.plan.edn")]
    one, other = (compiled(text, name) for text, name in zip(texts, ("w.plan.yaml", "w.plan.edn"), strict=True))
    assert one.graph is not None, told(one.diagnostics)
    assert other.graph is not None, told(other.diagnostics)
    assert one.document == other.document
    assert graph_json(one.graph) == graph_json(other.graph)


def test_a_name_standing_alone_is_what_a_hook_is_made_from() -> None:
    document = document_of(f"hooks: {{first: lib:planning}}{TREE}")
    assert document["hooks"] == {"first": {"extends": "lib:planning"}}


def test_files_that_answer_for_a_hook_are_not_writable_by_agents_it_watches() -> None:
    text = f"""hooks:
  guard: {{on: before-call, run: [python3, hooks/guard.py, --strict]}}
  looks: {{on: before-call, python: "checks.py:look"}}
{TREE}
  c: {{goal: c, cwd: deep, hooks: {{mine: {{on: on-end, run: "./mine | tee log"}}}}, agent: {SCRIPT}}}
"""
    objects = graph_of(text).objects
    top, deep = (objects[f"agent/{path}"].spec["rights"]["guarded"] for path in (".", "c"))
    assert {"write(hooks/guard.py)", "edit(hooks/guard.py)", "write(checks.py)"} <= set(top)
    assert {"write(hooks/guard.py)", "write(deep/mine)"} <= set(deep)
    assert not any("mine" in denied for denied in top)
    assert not any("strict" in denied or "python3" in denied for denied in deep)


def test_hook_named_by_a_mixin_watches_and_an_unknown_one_is_reported() -> None:
    text = "mixins: {careful: {hooks: [NAME]}}\nagent: {script: [{done: ok}], mixins: [careful]}\ngoal: g\n"
    assert _over(text.replace("NAME", "lib:planning"), "agent/.") == ["hook/planning"]
    assert codes(text.replace("NAME", "plannning")) == ["P0213"]
