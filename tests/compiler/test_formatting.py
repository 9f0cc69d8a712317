"""Canonical text: deterministic, and reading it back gives the same document."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from planloop.compiler.read import format_document, format_edn, format_yaml, read_source
from planloop.compiler.source import Format, YamlTrap
from tests import sets
from tests.compiler.documents import TRICKY, documents, texts
from tests.product import Json, JsonObject, canonical_bytes

PLAN: JsonObject = {
    "plan": "webchat",
    "goal": "two lines\nof text\n",
    "budget": {"tokens": 2000000, "usd": "20", "time": 7200},
    "tasks": {
        "frontend": {"goal": "a: b", "needs": ["x", "no"], "acceptance": [{"sh": "npm test"}, {"port": 80}]},
        "backend": {},
    },
    "containers": {"redis": {"ports": {"6379": 6379}}},
    "limits": {"ollama/*": 2},
}

YAML = """\
plan: webchat
goal: |
  two lines
  of text
budget:
  tokens: 2000000
  usd: "20"
  time: 7200
tasks:
  frontend:
    goal: "a: b"
    needs: [x, "no"]
    acceptance:
      - sh: npm test
      - port: 80
  backend: {}
containers:
  redis:
    ports:
      6379: 6379
limits:
  ollama/*: 2
"""

EDN = """\
{:plan "webchat"
 :goal "two lines\\nof text\\n"
 :budget {:tokens 2000000, :usd "20", :time 7200}
 :tasks {:frontend {:goal "a: b", :needs ["x" "no"], :acceptance [{:sh "npm test"} {:port 80}]}
         :backend {}}
 :containers {:redis {:ports {"6379" 6379}}}
 :limits {"ollama/*" 2}}
"""


def read_back(text: str, spelling: Format) -> Json:
    tree = read_source(text.encode(), file=f"plan.{spelling}")
    assert tree.diagnostics == ()
    return tree.value


def test_plan_is_printed_in_the_usual_style() -> None:
    assert format_yaml(PLAN) == YAML
    assert format_edn(PLAN) == EDN


@pytest.mark.parametrize("spelling", ["yaml", "edn"])
@given(document=documents)
@settings(max_examples=sets.examples(300, 75))
def test_printed_document_reads_back_equal(spelling: Format, document: JsonObject) -> None:
    text = format_document(document, spelling)
    back = read_back(text, spelling)
    assert canonical_bytes(back) == canonical_bytes(document)
    assert format_document(back, spelling) == text


@given(text=texts)
@settings(max_examples=sets.examples(300, 75))
def test_printed_yaml_holds_no_trap_and_an_old_reader_agrees(text: str) -> None:
    printed = format_yaml({"key": text})
    assert not isinstance(read_back(printed, "yaml")["key"], YamlTrap)
    assert yaml.safe_load(printed) == {"key": text}


@pytest.mark.parametrize("spelling", ["yaml", "edn"])
def test_every_tricky_text_survives_as_key_and_as_value(spelling: Format) -> None:
    for text in TRICKY:
        document = {"m": {text: text}, "l": [text, [text]]}
        assert read_back(format_document(document, spelling), spelling) == document


@given(document=st.one_of(st.just([]), st.just({}), st.lists(texts, max_size=3)))
def test_document_that_is_not_a_map_is_printed_too(document: Json) -> None:
    assert read_back(format_yaml(document), "yaml") == document
    assert read_back(format_edn(document), "edn") == document
