"""`make docs` reaches every golden file, and what `said` compares is the text, not a part of it."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import golden_text
from tests.architecture.tree import ROOT
from tests.golden_text import FOLDER, TESTS, Entries, Text, entries_of, said, said_in
from tests.suite import updates

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(file: Path) -> Iterator[Function]:
    return (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, Function))


def test_make_docs_selects_by_nothing_but_the_update_flag() -> None:
    (recipe,) = re.findall(r"(?m)^docs:.*\n\t(.*)$", (ROOT / "Makefile").read_text())
    words = shlex.split(recipe)
    expected = ["-n", "$(WORKERS)", "--dist", "loadfile", "-rfEs", "--update", "$(ARGS)"]

    assert words[words.index("pytest") + 1 :] == expected


def test_every_function_that_takes_the_update_fixture_is_in_a_collected_file() -> None:
    takers = [
        (file.relative_to(TESTS), function.name)
        for file in TESTS.rglob("*.py")
        if f"{updates.FIXTURE}:" in file.read_text()
        for function in functions(file)
        if updates.FIXTURE in {argument.arg for argument in function.args.args}
    ]

    assert len(takers) > 20
    assert [(file, name) for file, name in takers if not file.name.startswith("test_")] == []


def test_a_test_with_the_update_fixture_is_reached(request: pytest.FixtureRequest, is_updating: bool) -> None:
    assert updates.has_golden(request.node)


def test_every_entry_belongs_to_a_test_that_asks_for_texts() -> None:
    stale = []
    for file in FOLDER.rglob("*.yaml"):
        source = TESTS / file.relative_to(FOLDER).with_suffix(".py")
        names = {function.name for function in functions(source)} if source.exists() else set()
        stored = {re.sub(r"\[.*", "", name, flags=re.DOTALL).rpartition("::")[2] for name in golden_text.read(file)}
        stale += [f"{source.relative_to(TESTS)}::{name}" for name in stored - names]

    assert stale == [], "run `make docs`"


def test_a_golden_file_without_a_test_file_is_found(tmp_path: Path) -> None:
    for name in ("suite/test_updates.yaml", "suite/test_renamed.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("test_a: [text]\n")
    assert golden_text.files_without_tests(tmp_path) == [tmp_path / "suite/test_renamed.yaml"]


def entries(folder: Path, *stored: Text, is_real: bool = False, is_updating: bool = False) -> Entries:
    return Entries(folder / "a.yaml", "test_a", is_real, is_updating, is_reached=True, stored=[*stored])


def test_folders_below_a_base_that_was_named_are_folders_of_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(golden_text, "_PLACES", [*golden_text._PLACES])
    golden_text.use_base(str(tmp_path / "base"))
    with entries_of(entries(tmp_path, "TMP/p is gone", "TMP/q is gone")):
        said(f"{tmp_path}/base/popen-gw1/test_a0/p is gone")
        said(f"{tmp_path}/base/test_b0/q is gone")


def test_a_text_is_compared_whole(tmp_path: Path) -> None:
    with entries_of(entries(tmp_path, "task a failed")):
        said("task a failed")
    with pytest.raises(AssertionError, match="entry 1: differs"), entries_of(entries(tmp_path, "task a failed")):
        said("task a failed twice")


def test_a_list_of_texts_is_compared_in_order(tmp_path: Path) -> None:
    with entries_of(entries(tmp_path, ["one", "two"])):
        said(["one", "two"])
    with pytest.raises(AssertionError, match="differs"), entries_of(entries(tmp_path, ["one", "two"])):
        said(["two", "one"])


def test_a_missing_entry_fails_and_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="missing"), entries_of(entries(tmp_path)):
        said("task a failed")
    assert [*tmp_path.iterdir()] == []


def test_an_entry_that_was_not_asked_for_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="did not ask for it"), entries_of(entries(tmp_path, "one", "two")):
        said("one")


def test_a_fact_is_required_also_when_texts_are_rewritten(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="task/b"), entries_of(entries(tmp_path, is_updating=True)):
        said("task a failed", "task/b")
    assert [*tmp_path.iterdir()] == []


def test_a_known_value_may_differ_from_run_to_run(tmp_path: Path) -> None:
    with entries_of(entries(tmp_path, "listens on {port}")):
        said("listens on 4711", port=4711)


def test_paths_and_ids_are_no_part_of_a_text(tmp_path: Path) -> None:
    with entries_of(entries(tmp_path, "no TMP/a for 5b1e0c77a2f4 in 5 s")):
        said(f"no {tmp_path}/a for 0123456789ab in 5 s")


def test_times_are_no_part_of_a_text_where_real_programs_run(tmp_path: Path) -> None:
    with entries_of(entries(tmp_path, "ended after 0.1 s at 14:03:22, process 4711", is_real=True)):
        said("ended after 12 s at 01:02:03, process 815")


def test_one_line_of_a_text_is_compared_whole(tmp_path: Path) -> None:
    with entries_of(entries(tmp_path, "a failed: no")):
        said_in("b is done\n  a failed: no\n")
    with pytest.raises(AssertionError, match="differs"), entries_of(entries(tmp_path, "a failed: no")):
        said_in("b is done\na failed: no, not yet\n", "a")


def test_a_reworded_line_is_found_by_its_facts_and_its_likeness(tmp_path: Path) -> None:
    output = "plan demo: 1 of 2\ntask/a did not succeed: no such file\ntask/b succeeded"
    with entries_of(entries(tmp_path, "task/a failed: no such file", is_updating=True)):
        said_in(output, "task/a")
    with entries_of(entries(tmp_path, "task/a is a failure: no such file", is_updating=True)):
        said_in(output)

    assert golden_text.read(tmp_path / "a.yaml") == {"test_a": ["task/a did not succeed: no such file"]}


def test_line_unlike_any_stored_one_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="yourself"), entries_of(entries(tmp_path, "gone", is_updating=True)):
        said_in("one line\nanother line")
    assert [*tmp_path.iterdir()] == []


def test_texts_of_several_lines_are_stored_as_they_read(tmp_path: Path) -> None:
    with entries_of(entries(tmp_path, is_updating=True)):
        said("one\n  two: é")

    assert (tmp_path / "a.yaml").read_text() == "test_a:\n- |-\n  one\n    two: é\n"
