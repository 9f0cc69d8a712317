"""Splices as people see them: what changes, what stays, and what is refused with a reason."""

from __future__ import annotations

from textwrap import dedent

import pytest

from planloop.compiler.plan_compiler import compile_source
from planloop.compiler.read import read_source
from planloop.compiler.splice.write_back import NotSpliced, Spliced, SpliceRequest, splice
from tests import rows
from tests.compiler.compiling import SOURCES
from tests.compiler.test_splicing_generated import splice_plain
from tests.product import JsonObject


def plain(text: str, **changed: object) -> str | NotSpliced:
    """The YAML text with top-level values replaced; `None` removes a key, a new name adds one."""
    content = dedent(text).encode()
    old = splice_source(content)
    new = {key: changed.get(key, value) for key, value in old.items()} | {k: v for k, v in changed.items()}
    new = {key: value for key, value in new.items() if value is not None}
    result = splice_plain(content, "plan.yaml", old, new)
    return result.content.decode() if isinstance(result, Spliced) else result


def splice_source(content: bytes) -> JsonObject:
    tree = read_source(content, file="plan.yaml")
    assert tree.diagnostics == ()
    return dict(tree.value)


def compiled(text: str, file: str, new_of: object) -> str | NotSpliced:
    """The plan's text after `new_of(document)` changed its document, compiled for real."""
    assert callable(new_of)
    source = compile_source(dedent(text).encode(), file=file, sources=SOURCES)
    assert source.document is not None, source.diagnostics
    new = new_of(source.document)

    def recompile(content: bytes) -> JsonObject | None:
        return compile_source(content, file=file, sources=SOURCES).document

    result = splice(SpliceRequest(source.tree, source.origin, source.document, new, recompile))
    return result.content.decode() if isinstance(result, Spliced) else result


@rows.each(
    ("line", "value", "expected"),
    [
        ("a: plain  # why", "other", "a: other  # why"),
        ("a: plain", "no", 'a: "no"'),
        ("a: plain", 'say "hi": x', 'a: "say \\"hi\\": x"'),
        ("a: 'single'", "it's", "a: 'it''s'"),
        ("a: 'single'", "two\nlines\n", 'a: "two\\nlines\\n"'),
        ('a: "double"', "x", 'a: "x"'),
        ('"a":   1', 2, '"a":   2'),
        ("a: 1", True, "a: true"),
        ("a:", "x", "a: x"),
        ("a: # note", "x", "a: x # note"),
        ("a: [1,  2]", [1, 3], "a: [1,  3]"),
        ("a: [1,  2]", [1], "a: [1]"),
        ("a: [ 1, 2 ]", [1, 2, 3], "a: [ 1, 2, 3 ]"),
        ("a: []", ["x"], "a: [x]"),
        ("a: {}", {"b": 1}, "a: {b: 1}"),
        ("a: {b: 1,  c: 2}", {"c": 2}, "a: {c: 2}"),
        ("a: {b: 1,  c: 2}", {"b": 1}, "a: {b: 1}"),
        ("a: {b: 1}", {}, "a: {}"),
        ('a: {"b": 1}', {"b": 1, "c": "no"}, 'a: {"b": 1, "c": "no"}'),
        ("a: x  # why", {"b": {"c": 1}}, "a:  # why\n  b:\n    c: 1"),
        ("a: x", ["p", "q"], "a: [p, q]"),
        ("a: x  # why", "two\nlines\n", "a: |  # why\n  two\n  lines"),
    ],
)  # fmt: skip
def test_a_value_changes_in_the_style_it_had(line: str, value: object, expected: str) -> None:
    text = f"# head\nz: 1\n{line}\n\n# next\ny: 2  # tail\n"
    assert plain(text, a=value) == text.replace(line, expected)


def test_block_text_stays_block_text() -> None:
    text = "a: |\n   one\n   two\n\nb: >-  # folded\n  long\n  line\nc: 1\n"
    assert plain(text, a="uno\n\ndos\n") == text.replace("   one\n   two\n", "   uno\n\n   dos\n")
    assert plain(text, a="one") == text.replace("|\n   one\n   two", "|-\n   one")
    assert plain(text, b="short") == text.replace("  long\n  line\n", "  short\n")
    assert plain(text, b="p\nq\n") == text.replace(">-", ">").replace("  long\n  line\n", "  p\n\n  q\n")
    assert plain(text, a=5) == "a: 5\n" + text[text.index("\nb") :]


WITH_COMMENTS = """\
    # The plan of the chat.
    # yaml-language-server: $schema=./.plan/schema.json
    plan: webchat

    # who does it
    a:
      # first
      x: 1   # one
      # second, and
      # what it is about
      y: 2
        # a thought on y

      # apart

      # third
      z: 3
    # after a
    b: 4
"""


def test_a_removed_key_takes_its_own_comments_and_no_others() -> None:
    text = dedent(WITH_COMMENTS)
    assert plain(text, a={"x": 1, "z": 3}) == text.replace(
        "  # second, and\n  # what it is about\n  y: 2\n    # a thought on y\n", ""
    )
    assert plain(text, a={"y": 2, "z": 3}) == text.replace("  # first\n  x: 1   # one\n", "")
    assert plain(text, a={"x": 1, "y": 2}) == text.replace("\n  # third\n  z: 3\n", "\n")
    assert plain(text, b=None) == text.replace("# after a\nb: 4\n", "")
    assert plain(text, plan=None) == text.replace("plan: webchat\n", "")


def test_new_keys_copy_the_indentation_and_the_spacing_of_their_siblings() -> None:
    text = "t:\n     a:\n        goal: x\n        list:\n        - p\n\n     b:\n        goal: y\n# end\n"
    new = {"a": {"goal": "x", "list": ["p"]}, "b": {"goal": "y"}, "c": {"goal": "z", "list": [{"sh": "q"}]}}
    assert plain(text, t=new) == text.replace(
        "# end\n", "\n     c:\n        goal: z\n        list:\n        - sh: q\n# end\n"
    )


def test_list_items_are_inserted_changed_and_taken_out_alone() -> None:
    text = "l:\n  # one\n  - a   # A\n  - {b: 1}\n  # three\n  - c: 1\n    d: 2\n  - e\n"
    old = ["a", {"b": 1}, {"c": 1, "d": 2}, "e"]
    assert plain(text, l=[*old, "f"]) == text + "  - f\n"
    assert plain(text, l=["new", *old]) == text.replace("  # one\n", "  - new\n  # one\n")
    assert plain(text, l=["a", {"b": 1}, "new", {"c": 1, "d": 2}, "e"]) == text.replace("{b: 1}\n", "{b: 1}\n  - new\n")
    assert plain(text, l=["a", {"b": 1}, {"d": 2}, "e"]) == text.replace("- c: 1\n    d: 2", "- d: 2")
    assert plain(text, l=["a", {"b": 1}, "e"]) == text.replace("  # three\n  - c: 1\n    d: 2\n", "")
    assert plain(text, l=[{"b": 1}, {"c": 1, "d": 2}, "e"]) == text.replace("  # one\n  - a   # A\n", "")
    assert plain(text, l=[]) == "l: []\n"


def test_brackets_over_several_lines_keep_their_lines() -> None:
    text = "a: {\n  b: 1,  # one\n  c: 2   # two\n}\nz: [\n  x,\n]\n"
    assert plain(text, a={"b": 1, "c": 2, "d": 3}) == text.replace("c: 2   # two\n", "c: 2,   # two\n  d: 3\n")
    assert plain(text, a={"c": 2}) == text.replace("  b: 1,  # one\n", "")
    assert plain(text, a={"b": 1}) == text.replace("1,  # one\n  c: 2   # two\n", "1  # one\n")
    assert plain(text, z=["x", "more"]) == text.replace("  x,\n", "  x,\n  more,\n")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_line_breaks_marks_and_the_end_of_the_file_are_unchanged(newline: str, bom: str, end: str) -> None:
    text = bom + newline.join(["a: 1", "b:", "  c: 2"]) + (newline if end else "")
    content = text.encode()
    old = splice_source(content)
    result = splice_plain(content, "plan.yaml", old, {"a": 1, "b": {"c": 2, "d": 3}, "e": 4})
    wanted = bom + newline.join(["a: 1", "b:", "  c: 2", "  d: 3", "e: 4"]) + (newline if end else "")
    assert result == Spliced(wanted.encode())
    assert splice_plain(content, "plan.yaml", old, {"a": 1}) == Spliced(
        (bom + "a: 1" + (newline if end else "")).encode()
    )


ANCHORS = (
    "base: &base\n  x: 1\n  y: &why [2]\nuses: *base\nmerged:\n  <<: *base\n  z: 3\nlast: *why\nfree: &unused {k: 1}\n"
)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"base": {"x": 9, "y": [2]}}, "&base"),
        ({"base": {"x": 1, "y": [3]}}, "&base"),
        ({"uses": {"x": 9, "y": [2]}}, "alias"),
        ({"uses": "text"}, "alias"),
        ({"merged": {"x": 9, "y": [2], "z": 3}}, "merge"),
        ({"base": None, "uses": "x"}, "alias"),
        ({"base": None}, "&base"),
    ],
)
def test_value_shared_by_aliases_is_not_edited(changed: dict[str, object], reason: str) -> None:
    result = plain(ANCHORS, **changed)
    assert isinstance(result, NotSpliced)
    assert reason in result.reason


def test_edits_beside_aliases_are_spliced() -> None:
    both = {"x": 1, "y": [2]}
    assert plain(ANCHORS, merged={**both, "z": 4, "w": 5}) == ANCHORS.replace("  z: 3\n", "  z: 4\n  w: 5\n")
    assert plain(ANCHORS, last=None) == ANCHORS.replace("last: *why\n", "")
    assert plain(ANCHORS, free={"k": 2}) == ANCHORS.replace("k: 1", "k: 2")


def test_ambiguous_spellings_are_refused() -> None:
    result = plain("a:\n  ? b\n  : 1\n", a={"b": 1, "c": 2})
    assert isinstance(result, NotSpliced)
    assert "`?`" in result.reason
    assert plain("a: {b, c: 1}\n", a={"c": 2}) is not None


def test_result_with_another_meaning_is_not_written() -> None:
    content = b"a: 1\n"
    source = compile_source(b"goal: x\ntasks: {a: {run: make}}\n", file="p.yaml", sources=SOURCES)
    assert source.document is not None
    new = {**source.document, "goal": "z"}
    for back in (None, source.document):
        result = splice(SpliceRequest(source.tree, source.origin, source.document, new, lambda _, back=back: back))  # type: ignore[misc]
        assert isinstance(result, NotSpliced)
    assert isinstance(splice_plain(content, "p.yaml", {"a": 1}, {}), NotSpliced)


def test_derived_field_is_not_edited() -> None:
    result = compiled(
        "goal: x\ntasks: {a: {run: make}}\n", "named.yaml", lambda document: {**document, "plan": "other"}
    )
    assert isinstance(result, NotSpliced)
    assert "/plan" in result.reason


PLAN = """\
    plan: webchat
    goal: a chat   # short
    budget: {tokens: 2M, time: 2h}
    agents:
      worker: {script: [{done: ok}]}
    children:
      - id: front
        goal: the UI
        agent: worker
        needs: back
        spec:
          - sh: npm test
      # the server
      - id: back
        run: make
"""


def test_tasks_added_by_agents_are_written_where_the_file_keeps_tasks() -> None:
    def live(document: JsonObject) -> JsonObject:
        front = document["tasks"]["front"]
        front = {**front, "acceptance": [*front["acceptance"], {"port": 80}], "tasks": {"ui": {"run": "x"}}}
        back = {**document["tasks"]["back"], "notes": "slow"}
        return {**document, "tasks": {"front": front, "back": back, "docs": {"goal": "write", "run": "z"}}}

    text = dedent(PLAN)
    assert (
        compiled(text, "p.yaml", live)
        == text.replace(
            "      - sh: npm test\n", "      - sh: npm test\n      - port: 80\n    tasks:\n      ui:\n        run: x\n"
        )
        + "    notes: slow\n  - id: docs\n    goal: write\n    run: z\n"
    )


def test_a_shorthand_gives_way_to_what_it_cannot_say() -> None:
    def live(document: JsonObject) -> JsonObject:
        front = {**document["tasks"]["front"], "needs": ["back", "docs"]}
        return {
            **document,
            "budget": {"tokens": 5},
            "tasks": {**document["tasks"], "front": front, "docs": {"run": "z"}},
        }

    result = compiled(PLAN, "p.yaml", live)
    assert isinstance(result, str)
    assert "budget: {tokens: 5}\n" in result
    assert "    needs: [back, docs]\n" in result


FORMS = """\
    ;; the chat
    (task "create a web chat"
      (task "frontend"
        :cwd "frontend" ; here
        :run "make"
        :spec [(sh "npm test") (require-file "README.md")])
      ;; the server
      (task "backend" :cwd "back" :run "make"))
"""


def test_edn_forms_take_fields_checks_and_children() -> None:
    def live(document: JsonObject) -> JsonObject:
        front, back = document["tasks"]["frontend"], document["tasks"]["backend"]
        front = {**front, "cwd": "web", "acceptance": [{"sh": "npm t"}, *front["acceptance"][1:], {"sh": "lint"}]}
        new = {"goal": "write docs", "run": "z"}
        return {**document, "notes": "n", "tasks": {"frontend": front, "backend": {**back, "notes": "b"}, "docs": new}}

    text = dedent(FORMS)
    expected = text.replace('"frontend" ; here', '"web" ; here')
    expected = expected.replace(
        '(sh "npm test") (require-file "README.md")', '(sh "npm t") (require-file "README.md") (sh "lint")'
    )
    expected = expected.replace('"create a web chat"\n', '"create a web chat"\n  :notes "n"\n')
    expected = expected.replace(
        ':run "make"))\n', ':run "make" :notes "b")\n  (task "write docs"\n    :id "docs"\n    :run "z"))\n'
    )
    assert compiled(text, "p.edn", live) == expected


def test_edn_children_go_with_their_comments() -> None:
    text = dedent(FORMS)
    result = compiled(text, "p.edn", lambda plan: {**plan, "tasks": {"frontend": plan["tasks"]["frontend"]}})
    assert result == text.replace('\n  ;; the server\n  (task "backend" :cwd "back" :run "make"))', ")")


MAPS = """\
    {:task/id "root" ; the root
     :task/goal "a chat",
     :task/children [{:task/id "front" :task/goal "UI", :run "x"}
                     ;; the server
                     {:task/id "back"
                      :task/run "make" ; often
                      :task/spec #{{:sh "t"}}}]
     #_ {:task/notes "old"}
     :limits {:models {"ollama/*" 2}}}
"""


def test_edn_maps_keep_their_namespaces_comments_and_discards() -> None:
    def live(document: JsonObject) -> JsonObject:
        front, back = document["tasks"]["front"], document["tasks"]["back"]
        tasks = {"front": {**front, "goal": "the UI"}, "back": {**back, "notes": "b"}, "docs": {"run": "z"}}
        return {**document, "tasks": tasks, "limits": {"models": {"ollama/*": 2, "gpt/*": 1}}}

    text = dedent(MAPS)
    expected = text.replace('"UI"', '"the UI"').replace('"ollama/*" 2', '"ollama/*" 2 "gpt/*" 1')
    expected = expected.replace(
        '#{{:sh "t"}}}]',
        '#{{:sh "t"}}\n                  :task/notes "b"}\n                 {:task/id "docs", :task/run "z"}]',
    )
    assert compiled(text, "p.edn", live) == expected


@pytest.mark.parametrize(
    ("written", "value", "expected"),
    [
        (":all", "none", ":none"),
        (":all", "two words", '"two words"'),
        ("worker", "other", "other"),
        ("worker", "true", '"true"'),
        ("worker", "a:", '"a:"'),
        ("true", "false", '"false"'),
        ("-1", "x", '"x"'),
        ('"a\nb"', "c\nd", '"c\nd"'),
        ('"one"', "c\nd", '"c\\nd"'),
        ("[1, 2]", [1, 3], "[1, 3]"),
        ("#{1 2}", [2], "#{2}"),
        ("nil", 1.5, "1.5"),
    ],
)  # fmt: skip
def test_an_edn_value_changes_in_the_spelling_it_had(written: str, value: object, expected: str) -> None:
    content = f"{{:z 1 ; one\n :a {written} ; two\n }}".encode()
    old = read_source(content, file="p.edn").value
    result = splice_plain(content, "p.edn", old, {**old, "a": value})
    assert result == Spliced(content.replace(f":a {written}".encode(), f":a {expected}".encode()))


def test_edn_entries_are_taken_out_of_lines_and_of_their_own_lines() -> None:
    def live(document: JsonObject) -> JsonObject:
        front = {"run": "x"}
        return {key: value for key, value in document.items() if key != "limits"} | {"tasks": {"front": front}}

    result = compiled(MAPS, "p.edn", live)
    expected = """\
        {:task/id "root" ; the root
         :task/goal "a chat",
         :task/children [{:task/id "front" :run "x"}]
         #_ {:task/notes "old"}
         }
    """
    assert result == dedent(expected)
