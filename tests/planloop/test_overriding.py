"""`--model`: which agents it moves."""

from __future__ import annotations

from planloop import overriding
from schemas.encoding import Json
from tests.compiler.compiling import compiled, told

PLAN = """
agents: {own: {model: a/b, prompt: own}, scripted: {script: [{done: ok}]}, other: {extends: scripted, prompt: x}}
tasks:
  default: {goal: g, tasks: {}}
  named: {goal: g, agent: own, tasks: {heir: {goal: h}, fixed: {goal: i, agent: other, tasks: {below: {goal: j}}}}}
  inline: {goal: g, agent: {extends: lib:child, prompt: hi}}
  command: {run: x}
"""


def _minds() -> dict[str, Json]:
    before = compiled(PLAN)
    assert before.document is not None, told(before.diagnostics)
    assert before.graph is not None
    document = overriding.on_model(before.document, before.graph, "z/z")
    after = compiled(str(document).replace("True", "true")).graph
    assert after is not None
    assert after.objects.keys() == before.graph.objects.keys()
    return {
        address.removeprefix("agent/"): wanted.spec["mind"].get("model", wanted.spec["mind"]["kind"])
        for address, wanted in after.objects.items()
        if address.startswith("agent/")
    }


def test_every_agent_that_a_model_moves_is_on_the_one_given_and_all_others_stay() -> None:
    assert _minds() == {
        "default": "z/z",
        "named": "z/z",
        "named/heir": "z/z",
        "named/fixed": "script",
        "named/fixed/below": "z/z",
        "inline": "z/z",
    }


def test_what_an_agent_is_besides_its_model_stays() -> None:
    before = compiled(PLAN)
    assert before.document is not None
    assert before.graph is not None
    tasks = overriding.on_model(before.document, before.graph, "z/z")["tasks"]
    assert tasks["named"]["agent"] == {"extends": "own", "model": "z/z"}
    assert tasks["inline"]["agent"] == {"extends": "lib:child", "prompt": "hi", "model": "z/z"}
    assert "agent" not in tasks["named"]["tasks"]["heir"]
