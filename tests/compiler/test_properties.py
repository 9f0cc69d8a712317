"""Laws of the compiler over generated plans."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from planloop.compiler.normalise import Normalisation, normalise_document
from planloop.compiler.plan_compiler import check_document
from planloop.compiler.problems import Problems
from planloop.compiler.read import format_edn, format_yaml
from tests import sets
from tests.compiler.compiling import SOURCES, compiled, document_of, graph_json, graph_of, told
from tests.compiler.plans import plans
from tests.product import JsonObject, canonical_bytes, encode

few = settings(max_examples=sets.examples(40, 20))


@few
@given(plans)
def test_compiling_twice_gives_the_same_bytes(plan: JsonObject) -> None:
    text = format_yaml(plan)
    assert encode(graph_json(graph_of(text))) == encode(graph_json(graph_of(text)))


@few
@given(plans)
def test_yaml_and_edn_of_one_plan_are_one_graph(plan: JsonObject) -> None:
    assert graph_json(graph_of(format_yaml(plan))) == graph_json(graph_of(format_edn(plan), "demo.plan.edn"))


@few
@given(plans)
def test_a_document_printed_and_compiled_is_the_same_document(plan: JsonObject) -> None:
    document = document_of(format_yaml(plan))
    assert canonical_bytes(document) == canonical_bytes(plan)
    assert canonical_bytes(document_of(format_yaml(document))) == canonical_bytes(document)
    assert canonical_bytes(document_of(format_edn(document), "demo.edn")) == canonical_bytes(document)


@few
@given(plans)
def test_normalising_a_document_changes_nothing_and_moves_nothing(plan: JsonObject) -> None:
    work = Normalisation(Problems(), {})
    assert encode(normalise_document(plan, "plan", work)) == encode(plan)
    assert work.moved == {}
    assert work.faults.found == []


@few
@given(plans)
def test_a_document_checks_to_the_graph_that_its_text_compiles_to(plan: JsonObject) -> None:
    checked = check_document(plan, sources=SOURCES)
    assert checked.graph is not None, told(checked.diagnostics)
    assert graph_json(checked.graph) == graph_json(graph_of(format_yaml(plan)))


@few
@given(plans, st.data())
def test_the_order_of_keys_makes_no_other_objects(plan: JsonObject, data: st.DataObject) -> None:
    keys = data.draw(st.permutations(list(plan)))
    shuffled = {key: plan[key] for key in keys}
    assert graph_json(graph_of(format_yaml(shuffled))) == graph_json(graph_of(format_yaml(plan)))


@few
@given(plans)
def test_every_value_of_a_document_has_its_place_in_the_text(plan: JsonObject) -> None:
    result = compiled(format_yaml(plan))
    for pointer in _pointers(plan):
        path = result.origin(pointer)
        assert path is not None
        assert result.tree.place(path) is not None


def _pointers(value: object, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(each for key, item in pairs for each in _pointers(item, (*at, str(key))))]


FIELDS = st.sampled_from(
    "plan goal tasks agent run script rights tiers tools budget acceptance needs use agents extends "
    "mixins hooks containers moved a b".split()
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(FIELDS, inner, max_size=4)),
    max_leaves=25,
)


@settings(max_examples=sets.examples(300, 60))
@given(st.dictionaries(FIELDS, VALUES, max_size=4))
def test_no_document_crashes_the_compiler(document: JsonObject) -> None:
    checked = check_document(document, sources=SOURCES)
    assert checked.graph is not None or checked.diagnostics
