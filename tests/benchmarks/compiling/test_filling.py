"""Nonces and other blanks of a case."""

from __future__ import annotations

import hashlib

from hypothesis import given, settings
from hypothesis import strategies as st

from planloop.benchmarks.runs.run_compiler import make_nonce, placeholder_problems
from planloop.schemas.spec.template_placeholders import fill_placeholders, find_placeholders, nonce_names, replace_texts
from tests import sets


def test_a_nonce_is_of_the_seed_the_case_the_trial_and_its_name() -> None:
    bytes_ = b'[1337,"echo",2,"word"]'

    assert make_nonce(1337, "echo", 2, "word") == hashlib.sha256(bytes_).hexdigest()[:12]
    others = {
        make_nonce(1, "echo", 2, "word"),
        make_nonce(1337, "chat", 2, "word"),
        make_nonce(1337, "echo", 1, "word"),
    }
    assert len(others | {make_nonce(1337, "echo", 2, "word"), make_nonce(1337, "echo", 2, "pw")}) == 5


def test_prompts_checks_and_names_are_filled_and_unknown_blanks_are_kept() -> None:
    case = {
        "prompts": ["say {{nonce.hi}} in {{language}}"],
        "checks": {"a": {"http": {"url": "{{url}}/x", "subset": {"{{ nonce.hi }}": "{{nonce.pw}}"}}}},
        "kept": "{{kept.id}}",
        "count": 3,
    }
    words = {name: make_nonce(7, "c", 0, name) for name in nonce_names(case)}

    assert list(words) == ["hi", "pw"]
    values = {f"nonce.{name}": word for name, word in words.items()}
    assert fill_placeholders(case, {"language": "clojure", **values}) == {
        "prompts": [f"say {words['hi']} in clojure"],
        "checks": {"a": {"http": {"url": "{{url}}/x", "subset": {words["hi"]: words["pw"]}}}},
        "kept": "{{kept.id}}",
        "count": 3,
    }


def test_blank_that_is_a_whole_text_keeps_its_values_type() -> None:
    assert fill_placeholders({"a": "{{kept.id}}", "b": "/n/{{kept.id}}"}, {"kept.id": 5}) == {"a": 5, "b": "/n/5"}


def test_an_unknown_placeholder_is_reported_with_a_hint() -> None:
    wrong = {"prompts": ["{{nonse.a}} {{languge}} {{planet}}"], "{{x.y}}": 1}

    told = [("/".join(problem.at), problem.hint) for problem in placeholder_problems(wrong)]
    assert told[0] == ("prompts/0", "did you mean `{{nonce.a}}`?")
    assert told[1] == ("prompts/0", "did you mean `{{language}}`?")
    assert told[2] == ("prompts/0", "use one of `{{nonce.NAME}}`, `{{language}}`, `{{url}}`")
    assert [place for place, _ in told[3:]] == ["{{x.y}}"]
    assert list(placeholder_problems("{{nonce.a}} {{kept.b}} {{url}} { {x} } {{}}")) == []


def test_texts_change_places_without_meeting_each_other() -> None:
    assert replace_texts({"a": ["aa b", 1]}, {"aa": "b", "b": "aa", "a": "c"}) == {"c": ["b aa", 1]}


@settings(max_examples=sets.examples(100, 20))
@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_text_without_blanks_is_unchanged(value: object) -> None:
    names = {name for _, name in find_placeholders(value)}

    assert fill_placeholders(value, {}) == value
    assert names or fill_placeholders(value, {"url": "x"}) == value
