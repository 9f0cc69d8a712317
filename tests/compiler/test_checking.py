"""References, cycles, resolution and inheritance in whole plans. Single errors are golden cases."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from planloop.compiler import explain
from planloop.compiler.explain import explain_topic, field_provenance, suggest_topic
from planloop.compiler.plan_compiler import check_document
from planloop.schemas.spec.tables import TABLE_BY_NAME
from tests.compiler.compiling import SOURCES, codes, compiled, graph_of
from tests.golden_text import said, said_in
from tests.product import JsonObject

ROOT = Path(__file__).parents[2]


def _needs(text: str, address: str) -> list[str]:
    return list(graph_of(text).objects[address].spec["needs"])


def test_sibling_is_preferred_to_a_task_of_the_same_id_elsewhere() -> None:
    text = """
tasks:
  a: {tasks: {build: {run: x}, test: {run: y, needs: [build]}}}
  b: {tasks: {build: {run: x}, test: {run: y, needs: [build]}}}
"""
    assert _needs(text, "task/b/test") == ["task/b/build"]


def test_a_task_is_named_by_a_unique_id_or_by_its_path() -> None:
    text = """
tasks:
  a: {tasks: {deep: {run: x}}}
  b: {run: y, needs: [deep]}
  c: {run: y, needs: [a/deep, task/b]}
"""
    assert _needs(text, "task/b") == ["task/a/deep"]
    assert _needs(text, "task/c") == ["task/a/deep", "task/b"]


@pytest.mark.parametrize(
    "text",
    [
        "tasks: {a: {run: x, needs: [a]}}",
        "tasks: {p: {needs: [p/c], tasks: {c: {run: x}}}}",
        "tasks: {p: {tasks: {c: {run: x, needs: [p]}}}}",
        "tasks: {a: {needs: [b], tasks: {x: {run: x}}}, b: {tasks: {y: {run: y, needs: [x]}}}}",
    ],
    ids=["itself", "its child", "its parent", "through children"],
)
def test_every_kind_of_wait_on_itself_is_reported(text: str) -> None:
    assert codes(text) == ["P0222"]


def test_diamond_is_not_a_cycle() -> None:
    text = "tasks: {a: {run: x}, b: {run: x, needs: [a]}, c: {run: x, needs: [a]}, d: {run: x, needs: [b, c]}}"
    assert codes(text) == []


def test_the_ring_is_printed_and_each_task_on_it_has_its_place() -> None:
    text = "tasks:\n  a: {run: x, needs: [b]}\n  b: {run: x, needs: [c]}\n  c: {run: x, needs: [a]}\n"
    fault = compiled(text).diagnostics[0]
    said(fault.summary, "a → b → c → a")
    assert [note.span.line for note in fault.related if note.span] == [3, 4]


def test_unknown_agent_is_reported_with_the_place_of_the_suggested_one() -> None:
    text = "agents:\n  worker: {run: x}\ntasks:\n  a: {goal: g, agent: worekr}\n"
    fault = compiled(text).diagnostics[0]
    assert (fault.code, fault.hint) == ("P0203", "did you mean `worker`?")
    assert fault.span is not None
    assert (fault.span.line, fault.span.column) == (4, 23)
    assert [note.span.line for note in fault.related if note.span] == [2]


NEVER_MEANT = {
    "tasks: {one: {run: x, needs: [onee]}}": "name another task of this plan, by id or by path",
    "tasks: {one: {run: x, needs: [onee]}, two: {tasks: {ones: {run: x}}}}": "did you mean `ones`?",
    "tasks: {above: {tasks: {kid: {run: x, needs: [abov]}}}}": "name another task of this plan, by id or by path",
    "toolsets: {look: {tools: [read, loook]}}\nagent: {run: x, tools: [look]}": (
        "planloop ignores it; run `plan explain tools` for a list"
    ),
    "tasks: {front: {agent: {run: x, topology: {talk-to: [frnt]}}}}": (
        "available: `parent`, `children`, `siblings`, `all`, `*`, `.`"
    ),
}


@pytest.mark.parametrize("text", NEVER_MEANT)
def test_suggestion_never_names_the_object_that_holds_the_unknown_name(text: str) -> None:
    (fault,) = compiled(text).diagnostics
    assert fault.hint == NEVER_MEANT[text]


def test_unknown_setting_of_a_mixin_is_reported_where_it_is_given() -> None:
    mixin = "mixins:\n  careful: {settings: {attempts: 2}, around: [{retry: {max: $attempts}}]}\n"
    text = f"{mixin}agents:\n  worker:\n    run: x\n    mixins: [{{careful: {{atempts: 3}}}}]\nagent: worker\ngoal: g\n"
    fault = next(one for one in compiled(text).diagnostics if one.code == "P0406")
    said(fault.hint, "attempts")
    assert fault.span is not None
    assert fault.span.line == 6


def test_errors_are_reported_once_in_file_order_without_consequential_errors() -> None:
    text = "tasks:\n  a: {agent: nobody}\n  b: {goal: [x], needs: [c]}\n  c: {run: x, gaol: y, timeout: soon}\n"
    assert codes(text) == ["P0203", "P0202", "P0201", "P0202"]


def test_a_prototype_is_under_its_mixins_and_they_are_under_the_agent() -> None:
    text = """
mixins: {m: {lock: task, wake: {every: 1m}, deny: [shell]}}
agents:
  base: {run: x, lock: "off", wake: {every: 9m}, deny: [write], prompt: base}
  own: {extends: base, mixins: [m], wake: {every: 5m}, deny: [edit]}
tasks: {t: {goal: g, agent: own}}
"""
    graph = graph_of(text)
    spec = graph.objects["agent/t"].spec
    assert (spec["lock"], spec["wake_every_s"], spec["prompt"]) == ("task", 300, "base")
    assert spec["rights"]["deny"] == ["write", "shell", "edit"]
    assert field_provenance(graph, "task/t", "lock") == "mixin mixins/m"
    assert field_provenance(graph, "agent/t", "wake") == "agents/own"
    assert str(field_provenance(graph, "agent/t", "prompt")).startswith("agents/base")
    assert field_provenance(graph, "agent/t", "sandbox") is None


def test_error_from_the_library_is_reported_with_its_line() -> None:
    graph = graph_of("tasks: {t: {goal: g, agent: {extends: 'lib:micro', mixins: ['lib:denylist'], model: a/b}}}")
    assert field_provenance(graph, "task/t", "tools") == "lib:micro (lib:prototypes/micro.yaml:3)"
    assert field_provenance(graph, "task/t", "topology") == "lib:base (lib:prototypes/base.yaml:2)"
    assert str(field_provenance(graph, "task/t", "deny")).startswith("mixin lib:denylist")
    assert field_provenance(graph, "task/t", "model") == "agent of t"


def test_settings_of_mixins_are_merged_defaults_first() -> None:
    text = """
mixins: {m: {settings: {max: 1, pause: 2, deep: {a: 1, b: 2}}}}
agents:
  base: {run: x, mixins: [{m: {pause: 3}}]}
  own: {extends: base, settings: {m: {deep: {b: 5}}}}
tasks: {t: {goal: g, agent: own}}
"""
    assert graph_of(text).objects["agent/t"].spec["mixins"] == [
        {"name": "m", "settings": {"max": 1, "pause": 3, "deep": {"a": 1, "b": 5}}}
    ]


def test_prompt_added_by_a_mixin_is_added_once_and_survives_another_prompt() -> None:
    text = """
mixins: {brief: {prompt: be brief}, kind: {prompt: be kind}}
agents:
  base: {run: x, mixins: [brief], prompt: build}
  own: {extends: base, mixins: [kind, brief], prompt: test}
tasks: {t: {goal: g, agent: own}}
"""
    assert graph_of(text).objects["agent/t"].spec["prompt"] == "test\n\nbe brief\n\nbe kind"


def test_a_task_may_move_to_where_another_moved_away() -> None:
    assert codes("moved: {a: b, b: c}\ntasks: {b: {run: x}, c: {run: y}}") == []


@pytest.mark.parametrize("modes", [("read", "write"), ("write", "read")])
def test_a_path_named_twice_takes_the_stricter_lock(modes: tuple[str, str]) -> None:
    locks = ", ".join(f"{{path: src, mode: {mode}}}" for mode in modes)
    assert graph_of(f"{{run: x, locks: [{locks}]}}").objects["task/."].spec["locks"] == {"src": "write"}


@pytest.mark.parametrize("written", [".", "./", "src/.."])
def test_a_lock_on_the_plans_folder_is_on_everything_in_it(written: str) -> None:
    assert graph_of(f"{{run: x, locks: [{written}]}}").objects["task/."].spec["locks"] == {"**": "write"}


def test_a_task_inherits_what_it_does_not_set_itself() -> None:
    text = """
env: {A: outer, B: outer}
pause: true
priority: 3
tasks: {a: {run: x, env: {A: inner}, pause: false}}
"""
    spec = graph_of(text).objects["task/a"].spec
    assert spec["env"] == {"A": "inner", "B": "outer"}
    assert (spec["pause"], spec["priority"]) == (True, 3), "no task goes on below a paused one"


def test_agent_with_locks_off_gets_no_warning_about_locks() -> None:
    assert codes('goal: g\nagent: {run: x, lock: "off"}') == []


def test_agent_that_overrides_its_prototypes_kind_has_that_kind_only() -> None:
    text = "agents: {m: {model: x}}\ntasks: {t: {goal: g, agent: {extends: m, script: [{done: ok}]}}}"
    assert graph_of(text).objects["agent/t"].spec["mind"]["kind"] == "script"


@pytest.mark.parametrize(
    ("models", "suggested"),
    [
        ("gpt-5", "openai/gpt-5"),
        ("record/tape@claude-sonnet-5", "anthropic/claude-sonnet-5"),
        ("qwen3:8b", "ollama/qwen3:8b"),
        ("openai/gpt-5", ""),
        ("gpt-5@http://127.0.0.1:8000/v1", ""),
        ("replay/tape@gpt-5", ""),
        ("house", ""),
    ],
)
def test_model_without_provider_gets_a_warning_with_the_likely_name(models: str, suggested: str) -> None:
    found = [each for each in compiled(f"goal: g\nagent: {{model: '{models}'}}").diagnostics if each.code == "P0213"]
    assert [each.hint for each in found] == ([f"did you mean `{suggested}`?"] if suggested else [])
    assert [each.pointer for each in found] == ([("agent", "model")] if suggested else [])


def test_model_without_provider_gets_no_warning_if_the_plan_states_its_route() -> None:
    for row in ("url: http://127.0.0.1:8000/v1", "api: litellm", "as: openai/gpt-5"):
        assert codes(f"goal: g\nagent: {{model: gpt-5}}\nmodels: {{gpt-5: {{{row}}}}}") == []


def test_patched_document_is_checked_and_returned_in_canonical_form() -> None:
    document: JsonObject = {"plan": "p", "tasks": [{"id": "a", "run": "x", "budget": {"time": "2h"}, "spec": ["t"]}]}
    checked = check_document(document, sources=SOURCES)
    assert checked.document == {
        "plan": "p",
        "tasks": {"a": {"run": "x", "budget": {"time": 7200}, "acceptance": [{"sh": "t"}]}},
    }
    wrong = check_document({"plan": "p", "tasks": {"a": {"rnu": "x"}}}, sources=SOURCES)
    assert (wrong.graph, wrong.document) == (None, None)
    assert wrong.diagnostics[0].pointer == ("tasks", "a", "rnu")
    assert wrong.diagnostics[0].span is None


def test_a_used_file_may_use_others_and_is_over_them() -> None:
    graph = graph_of("use: [parts/above.yaml]\ntasks: {a: {goal: g, agent: builder}, b: {goal: g, agent: base}}")
    assert graph.objects["agent/a"].spec["prompt"] == "build"
    assert graph.objects["agent/a"].spec["budget"] == {"turns": 3}
    assert graph.objects["agent/b"].spec["mind"]["kind"] == "script"


def test_files_that_use_each_other_are_reported_with_the_cycle() -> None:
    (fault,) = compiled("run: x\nuse: [parts/round.yaml]").diagnostics
    assert fault.code == "P0215"
    said(fault.summary, "parts/round.yaml → parts/round-back.yaml → parts/round.yaml")


def test_folder_among_the_used_files_is_reported_as_a_folder() -> None:
    (fault,) = compiled("run: x\nuse: [parts]").diagnostics
    assert (fault.code, "folder" in fault.summary) == ("P0214", True)


def test_heal_without_an_interval_has_the_usual_one() -> None:
    spec = graph_of("run: x\nheal: {}\nacceptance: [y]").objects["task/."].spec
    assert (spec["heal"], spec["heal_every_s"]) == (True, 60)


@pytest.mark.parametrize("form", ["()", "(:a b c)", "(:a)"])
def test_invalid_name_of_a_form_is_reported_and_not_followed_forever(form: str) -> None:
    assert codes(f'{{:run "x" :tasks {{:a {{:run "y" :needs [{form}]}}}}}}', "demo.plan.edn")[-1] == "P0202"


def test_compiling_imports_nothing_heavy() -> None:
    program = (
        "import sys, compiler; print(sorted({'pydantic', 'networkx', 'edn_format', 'asyncio'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ast.literal_eval(out.stdout) == []


def test_every_table_and_field_can_be_explained_and_a_wrong_topic_is_helped() -> None:
    for table in TABLE_BY_NAME.values():
        for row in table.fields:
            text = explain_topic(f"{table.name}.{row.name}")
            assert text is not None
            assert row.doc in text
    assert explain_topic("acceptance") is not None
    assert "unknown agent" in (explain_topic("p0203") or "")
    assert explain_topic("accpetance") is None
    said(suggest_topic("task.accpetance"), "acceptance")


def test_suite_fields_are_explained_by_table_and_by_path() -> None:
    said_in(explain_topic("suite-case") or "")
    assert "tools\n" in (explain_topic("suite.cases.tools") or "")
    assert explain_topic("suite.cases.checks.calls.need") == explain_topic("calls.need")
    assert "changing" not in (explain_topic("suite.trials") or "")
    assert (explain_topic("world.tools") or "").count("Tools:") == 0
    said(suggest_topic("suite.pass-at"))


def test_a_name_of_both_a_plan_and_a_suite_is_explained_as_the_plans() -> None:
    assert (explain_topic("tools") or "").startswith("agent.tools\n")
    assert (explain_topic("budget") or "").startswith("task.budget\n")


def test_a_field_of_two_spellings_is_explained_with_both_and_with_what_is_in_them() -> None:
    text = explain_topic("container.ports") or ""
    said_in(text)
    said_in(text)
    assert "stops and removes the running one" in text
    said_in(explain_topic("container.cmd") or "")


def test_library_can_be_explained_and_a_typo_gets_a_suggestion() -> None:
    library = SOURCES
    listed = explain.library_page("lib:", library) or ""
    for shelf in listed.splitlines():
        for name in shelf.partition(": ")[2].split(", "):
            said_in(explain.library_page(name, library) or "", name, shelf.partition(":")[0][:-1])
    assert "lib:planning" in listed
    assert explain.library_page("lib:../../pyproject", library) is None
    said(explain.suggest_library_topic("planning", library))
    said(explain.suggest_library_topic("lib:plannin", library), "lib:planning")


def test_references_stay_inside_the_plans_folder() -> None:
    assert codes("agent: {run: x, prompt: 'file:../../etc/passwd'}") == ["P0218"]
    assert codes("run: x\nuse: [/etc/passwd]") == ["P0218"]
    assert codes("agent: {run: x, prompt: 'lib:../../pyproject'}") == ["P0218"]
