"""`--model`: one redirect in the document, the agents that it reaches, and their rights."""

from __future__ import annotations

from planloop.client import plan_file
from planloop.compiler import plan_compiler
from planloop.schemas.objects.model import model_table
from tests.compiler.compiling import SOURCES, compiled, told
from tests.product import Json, JsonObject

PLAN = """
rights: {models: ["a/*", default/one]}
agents: {own: {model: a/b, prompt: own}, scripted: {script: [{done: ok}]}, other: {extends: scripted, prompt: x}}
tasks:
  default: {goal: g}
  named: {goal: g, agent: own, tasks: {heir: {goal: h}, fixed: {goal: i, agent: other, tasks: {below: {goal: j}}}}}
  inline: {goal: g, agent: {extends: lib:child, prompt: hi, compact: {model: a/c}}}
  command: {run: x}
"""


def _document(text: str = PLAN) -> JsonObject:
    found = compiled(text)
    assert found.document is not None, told(found.diagnostics)
    return found.document


def _specs(document: JsonObject) -> dict[str, JsonObject]:
    found = plan_compiler.check_document(document, sources=SOURCES)
    assert found.graph is not None, told(found.diagnostics)
    return {
        address.removeprefix("agent/"): wanted.spec
        for address, wanted in found.graph.objects.items()
        if address.startswith("agent/")
    }


def _asked(document: JsonObject) -> dict[str, Json]:
    return {name: spec["mind"].get("model", spec["mind"]["kind"]) for name, spec in _specs(document).items()}


def test_every_model_is_replaced_by_the_given_one_and_nothing_else_changes() -> None:
    document = plan_file.with_model(_document(), "z/z")
    assert _asked(document) == {
        "default": "z/z",
        "named": "z/z",
        "named/heir": "z/z",
        "named/fixed": "script",
        "named/fixed/below": "z/z",
        "inline": "z/z",
    }
    assert {**document, "models": {}} == {**_document(), "models": {}}
    assert _specs(document)["inline"]["compact"]["model"] == "z/z"


def test_rights_go_by_the_names_that_the_plan_states_and_not_by_the_one_that_answers() -> None:
    document = plan_file.with_model(_document(), "z/z")
    assert _specs(document)["named"]["mind"]["stated"] == "a/b"
    document["tasks"]["added"] = {"goal": "later", "agent": {"model": "a/x"}}
    assert _asked(document)["added"] == "z/z"
    document["tasks"]["added"]["agent"]["model"] = "z/z"
    refused = plan_compiler.check_document(document, sources=SOURCES)
    assert "P0302" in [one.code for one in refused.diagnostics]


def test_a_tape_is_put_around_the_model_that_would_have_been_asked() -> None:
    plan = _document(PLAN + "models: {a/b: {as: c/d, url: 'http://localhost/v1'}}")
    asked = _asked(plan_file.with_model(plan, "record/tapes/one"))
    assert (asked["named"], asked["named/fixed/below"]) == ("record/tapes/one@c/d", "record/tapes/one@c/d")
    assert asked["default"] == "record/tapes/one@default/one"
    assert _asked(plan_file.with_model(plan, "replay/tapes/one"))["named"] == "replay/tapes/one@c/d"


def test_given_models_replace_redirects_of_the_plan_and_keep_its_other_rows() -> None:
    plan = _document(PLAN + "models: {a/b: {as: c/d, url: 'http://localhost/v1'}, a/c: {as: x/y}}")
    document = plan_file.with_model(plan, "z@http://localhost:8000/v1")
    assert document["models"] == {
        "a/b": {"url": "http://localhost/v1"},
        "*": {"as": "z@http://localhost:8000/v1"},
    }
    assert model_table(document).asked("a/b") == "z@http://localhost:8000/v1"


def test_an_agent_without_any_model_gets_the_one_given() -> None:
    bare = compiled("tasks: {t: {goal: g}}")
    assert [one.code for one in bare.diagnostics] == ["P0225"]
    assert bare.document is not None
    assert _asked(plan_file.with_model(bare.document, "z/z")) == {"t": "z/z"}
