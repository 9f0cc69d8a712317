"""Numbers, tables and trees as people read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.cli import explain
from planloop.client.render import object_tables, tables, task_graph, task_tree
from planloop.schemas import quantities
from planloop.schemas.spec.tables import TABLE_BY_NAME
from tests.product import JsonObject, Resource, Uid


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (38.4, "38 s"),
        (59.6, "1m00s"),
        (100, "1m40s"),
        (7500, "2h05m"),
        (273_600, "3d04h"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds: float, text: str) -> None:
    assert quantities.format_duration(seconds) == text


@pytest.mark.parametrize(
    ("usd", "text"), [("0", "$0.00"), ("12.3", "$12.30"), ("0.0042", "$0.0042"), ("0.00004", "$0.000040")]
)
def test_money_has_two_digits_until_it_is_small(usd: str, text: str) -> None:
    assert quantities.format_money(Decimal(usd)) == text


@pytest.mark.parametrize(("number", "text"), [(950, "950"), (212_400, "212k"), (2_000_000, "2M")])
def test_counts_keep_three_digits(number: int, text: str) -> None:
    assert quantities.format_count(number) == text


@given(st.text(), st.integers(1, 60))
def test_cut_text_never_takes_more_cells_than_it_may(text: str, width: int) -> None:
    assert quantities.cell_width(quantities.truncate_cells(text, width)) <= width


def test_columns_are_padded_by_cells_and_not_by_characters() -> None:
    lines = tables.format_table(("a", "b"), [("日本", "x"), ("ab", "y")]).splitlines()

    assert lines == ["A      B", "日本   x", "ab     y"]


def task(address: str, spec: JsonObject, status: JsonObject) -> Resource:
    return Resource(address, Uid("u"), 1, {"children": [], "acceptance": [], "goal": "g", **spec}, status)


def test_tree_is_drawn_in_plan_order_with_words_beside_symbols() -> None:
    tasks = [
        task("task/.", {"children": ["task/b", "task/a"]}, {"state": "running"}),
        task("task/b", {"children": ["task/b/c"], "parent": "task/."}, {"state": "running"}),
        task("task/b/c", {"parent": "task/b"}, {"state": "done", "result": {"text": "made it"}}),
        task("task/a", {"parent": "task/.", "needs": ["task/b"]}, {}),
    ]

    rows = task_tree.tree_rows({one.address: one for one in tasks}, now=0)

    assert [line.split() for line in task_tree.tree_lines(rows)] == [
        ["├─", "●", "b", "running", "g"],
        ["│", "└─", "✔", "c", "done", "made", "it"],
        ["└─", "○", "a", "waiting", "after", "b"],
    ]
    assert all(line.isascii() for line in task_tree.tree_lines(rows, plain=True))


def test_the_tree_of_a_task_with_ten_thousand_children_looks_at_each_once() -> None:
    class Counted(Mapping[str, Resource]):
        def __init__(self, found: dict[str, Resource]) -> None:
            self.found, self.looks = found, 0

        def __getitem__(self, address: str) -> Resource:
            return self.found[address]

        def __len__(self) -> int:
            return len(self.found)

        def __iter__(self) -> Iterator[str]:
            self.looks += 1
            return iter(self.found)

    names = [f"task/t{n}" for n in range(10_000)]
    leaving = [task(f"task/gone{n}", {"parent": "task/."}, {}) for n in range(100)]
    tasks = [task("task/.", {"children": names}, {}), *(task(name, {"parent": "task/."}, {}) for name in names)]
    known = Counted({one.address: one for one in (*tasks, *leaving)})

    rows = task_tree.tree_rows(known, now=0)

    assert [row.address for row in rows] == [*names, *(one.address for one in leaving)]
    assert 0 < known.looks < 10


def test_tree_and_table_of_cases_show_how_the_work_was_graded() -> None:
    def case(name: str, status: JsonObject) -> Resource:
        return Resource(f"case/{name}", Uid("u"), 1, {"task": f"task/{name}"}, status)

    found = [
        task("task/.", {"children": ["task/a", "task/b", "task/c"]}, {"state": "running"}),
        *(
            task(f"task/{name}", {"parent": "task/."}, {"state": "done", "result": {"text": "made it"}})
            for name in "abc"
        ),
        case("a", {"state": "ended", "verdict": "pass", "why": "all hold"}),
        case("b", {"state": "ended", "verdict": "fail", "why": "one does not hold"}),
        case("c", {}),
    ]

    rows = task_tree.tree_rows({one.address: one for one in found}, now=0)

    assert [line.split() for line in task_tree.tree_lines(rows)] == [
        ["├─", "✔", "a", "done", "pass", "made", "it"],
        ["├─", "✖", "b", "done", "fail:", "one", "does", "not", "hold"],
        ["└─", "✔", "c", "done", "made", "it"],
    ]
    table = object_tables.object_tables_text([one for one in found if one.kind == "case"], now=0)
    assert [line.split() for line in table.splitlines()] == [
        ["CASE", "STATE", "VERDICT", "WHAT"],
        ["a", "ended", "pass", "all", "hold"],
        ["b", "ended", "fail", "one", "does", "not", "hold"],
        ["c", "waiting"],
    ]


GRAPH: dict[str, JsonObject] = {
    "task/.": {"children": ["task/a", "task/b"], "needs": []},
    "task/a": {"children": [], "needs": [], "goal": 'say "hi"'},
    "task/b": {"children": [], "needs": ["task/a"], "goal": "<b>"},
}


def test_pictures_have_every_task_and_every_need_and_quote_what_they_must() -> None:
    assert "t_a --> t_b" in task_graph.mermaid_graph("p", GRAPH)
    assert '"task/a" -> "task/b";' in task_graph.dot_graph("p", GRAPH)
    assert 'say \\"hi\\"' in task_graph.dot_graph("p", GRAPH)
    assert "b: &lt;b&gt;" in task_graph.svg_graph("p", GRAPH)
    assert task_graph.graph_ranks(GRAPH) == {"task/a": 0, "task/b": 1}


def test_containers_are_boxes_in_their_owners_box_without_edges_to_its_content() -> None:
    made: JsonObject = {"image": "redis:7", "rootfs": "", "needs": {}, "task": ""}
    drawn = task_graph.text_graph(
        {
            **GRAPH,
            "task/a": {**GRAPH["task/a"], "containers": ["container/sut", "container/db"]},
            "container/db": made,
            "container/sut": {**made, "needs": {"db": "healthy"}, "task": "a"},
        }
    )

    assert task_graph.graph_edges(drawn) == [
        ("container/db", "task/a"),
        ("task/a", "task/b"),
        ("container/db", "container/sut"),
    ]
    assert '  subgraph t_a["a: say #quot;hi#quot;"]\n    c_sut["sut: redis:7"]' in task_graph.mermaid_graph("p", drawn)


def test_the_list_of_fields_names_every_table_of_a_plan_and_of_a_suite() -> None:
    listed = explain.field_index()
    assert [name for name in TABLE_BY_NAME if f"{name}: " not in listed and f" {name}," not in f"{listed},"] == []
