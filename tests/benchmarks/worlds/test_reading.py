"""Files of worlds: each problem is reported with its location and a hint."""

from __future__ import annotations

import pytest

from planloop.benchmarks.worlds.world_file import world_from_document
from tests.benchmarks.worlds.making import SUITE, told, world

HEAD = "world: w\ntables: {notes: {note-1: {text: hello}}}\ntools:\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tools: {}\n", "1 P0210 the world has no name | start with `world: NAME`, or `pool: NAME` for decoys"),
        ("world: w\npool: p\n", "2 P0211 a file cannot be both a world and a pool | keep one of `world` and `pool`"),
        ("world: w\ntabels: {}\n", "2 P0201 a world has no field `tabels` | did you mean `tables`?"),
        ("world: w\ntables: {a: {a-1: 3}}\n", "2 P0202 the row `a-1` must be a map of fields | write `{field: value}`"),
        ("world: w\ntables: {a: {a-1: {id: a-1}}}\n", "2 P0209 the row `a-1` contains its id | delete `id`"),
        (
            f"{HEAD}  add: {{}}\n",
            "4 P0223 invalid tool name `add` | write it as `server.tool`, such as `calendar.update`",
        ),
        (
            f"{HEAD}  notes.add: {{parameters: {{properties: {{n: {{type: int}}}}}}}}\n",
            "4 P0223 `type` must be one of object, array, string, boolean, integer, number, null, or a list of these",
        ),
        (
            f"{HEAD}  notes.add: {{parameters: {{properties: {{text: {{}}}}, required: [txt]}}}}\n",
            "4 P0223 `txt` is required, but not in `properties` | did you mean `text`?",
        ),
        (
            f"{HEAD}  notes.add:\n    does:\n      - get: {{in: note, id: x}}\n",
            "6 P0213 unknown table `note` | did you mean `notes`?",
        ),
        (
            f"{HEAD}  notes.add:\n    does:\n      - get: {{in: notes, id: $id}}\n",
            "6 P0213 unknown name `$id` | use an argument, a value of the world or an earlier `as`",
        ),
        (
            f"{HEAD}  notes.add:\n    does:\n      - get: {{in: notes}}\n",
            "6 P0210 `get` needs `id` | add it",
        ),
        (
            f"{HEAD}  notes.add:\n    does:\n      - {{let: {{a: 1}}, find: {{in: notes, as: b}}}}\n",
            "6 P0211 a step must have one verb, this has `find` and `let` | use one of get, find, insert",
        ),
        (
            f"{HEAD}  notes.add:\n    does:\n      - when: {{$x: 1}}\n",
            "6 P0210 a step must have one verb, this has none | use one of get, find, insert",
        ),
        (
            f"{HEAD}  notes.add:\n    does:\n      - let: {{a: {{sum: [1, 2]}}}}\n",
            "6 P0202 `sum` must be a map with of, field | write",
        ),
        (f"{HEAD}  notes.get: {{returns: $note}}\n", "4 P0213 unknown name `$note` | use an argument"),
        (
            f"{HEAD}  notes.get: {{}}\noverlays: {{mine: {{note: {{}}}}}}\n",
            "5 P0213 unknown table `note` | did you mean `notes`?",
        ),
    ],
)
def test_a_problem_is_reported_with_its_location_and_a_hint(text: str, said: str) -> None:
    found = told(text)
    assert len(found) == 1, found
    assert found[0].startswith(said)


def test_names_are_known_from_the_step_that_gives_them() -> None:
    steps = "      - get: {in: notes, id: note-1, as: note}\n      - let: {long: '${note.text}!'}\n"
    assert told(f"{HEAD}  notes.get:\n    does:\n{steps}    returns: $long\n") == []


def test_the_same_world_may_be_written_in_edn() -> None:
    text = '{:world w :tables {:notes {"note-1" {:text "hello"}}} :tools {"notes.get" {:returns {:text "x"}}}}'
    assert world(text, "world.edn").tables == {"notes": {"note-1": {"text": "hello"}}}


@pytest.mark.parametrize("path", ["worlds/office.yaml", "worlds/shop.yaml", "tools/decoys.yaml"])
def test_the_canonical_form_of_a_shipped_file_is_the_same_world(path: str) -> None:
    from planloop.benchmarks.worlds.world_file import read_world

    read = read_world((SUITE / path).read_bytes(), file=path)
    again = world_from_document(read.document)
    assert again.world is not None, read.diagnostics
    assert again.document == read.document


def test_world_must_be_a_map() -> None:
    assert [one.code for one in world_from_document(["x"]).diagnostics] == ["P0202"]
