"""Runs as they are read by others: by checked names, over no link, while they grow, and when they are damaged."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from planloop.server.bench import bench_presenter, case_presenter
from planloop.server.bench.run_folder import ReportsFolder, RunName, run_name
from planloop.server.bench.run_library import RunLibrary
from planloop.server.bench.suites import SuiteLibrary
from tests.e2e import bench_suite
from tests.e2e.folder import Folder
from tests.product import CommandError
from tests.product import CommandExit as Exit

HASTY = '"*": [{call: {write: {path: a.txt, content: hello}}}, {done: ok}]\n'
FIRST = RunName("mixed", "first")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder with two real runs of a small suite."""
    folder = Folder(tmp_path_factory.mktemp("bench"))
    bench_suite.lay(folder)
    folder.write("hasty.yaml", HASTY)
    models = ("--model", "script:hasty.yaml", "--model", "oracle", "--model", "nop")
    for name in ("first", "second"):
        said = folder.run("bench", "run", "suite.yaml", *models, "--trials", "2", "--name", name)
        assert said.code == 0, said.text
    return folder


@pytest.fixture
def library(folder: Folder) -> RunLibrary:
    return RunLibrary(ReportsFolder(folder.path / "reports"))


@pytest.fixture
def copy(folder: Folder, tmp_path: Path) -> Path:
    """The reports in a place of this test's own."""
    return Path(shutil.copytree(folder.path / "reports", tmp_path / "reports"))


@pytest.mark.process
def test_run_shows_the_figures_of_its_report(folder: Folder, library: RunLibrary) -> None:
    """One implementation of the statistics: the figures are those of `plan bench report`, to the digit."""
    said = bench_presenter.run_json(library, FIRST)["report"]["sections"][0]
    report = json.loads(folder.run("bench", "report", "mixed/first", "-o", "json").out)["suites"]["mixed"]

    assert {one["label"]: one["rate"] for one in said["columns"]} == {
        one["label"]: one["rate"] for one in report["models"]
    }
    assert [one["interval"] for one in said["columns"]] == [
        pytest.approx(one["interval_by_case"] or one["interval"], abs=1e-6) for one in report["models"]
    ]
    assert said["cases"]["writes"] == [
        {"1": "fail", "2": "fail"},
        {"1": "pass", "2": "pass"},
        {"1": "fail", "2": "fail"},
    ]
    assert [sheet["title"] for sheet in said["sheets"]][:2] == ["Pass rate", "Cost"]


def test_runs_are_compared_on_the_keys_that_they_share(library: RunLibrary) -> None:
    section = bench_presenter.comparison_json(library, "mixed/first,mixed/second")["report"]["sections"][0]

    (pair,) = section["pairs"]
    assert {pair["a"], pair["b"]} == {"hasty (first)", "hasty (second)"}
    assert pair["cases"] == bench_suite.CASES
    assert pair["difference"] == 0.0
    low, high = pair["interval"]
    assert low < 0 < high
    assert not pair["is_distinguishable"]


def test_an_entry_has_its_prompt_calls_checks_and_transcript(library: RunLibrary) -> None:
    entry = case_presenter.entry_json(library, FIRST, "writes", "oracle", 1)

    word = entry["calls"][0]["arguments"]["content"]
    assert word in entry["prompt"]
    assert "{{" not in entry["prompt"]
    assert [(one["tool"], one["state"]) for one in entry["calls"]] == [("write", "Succeeded"), ("done", "Succeeded")]
    assert [(one["check"], one["result"]) for one in entry["checks"]] == [("right", "pass"), ("slow", "pass")]
    assert word in entry["checks"][0]["message"]
    (transcript,) = entry["transcripts"]
    assert transcript["agent"] == entry["task"].replace("task/", "agent/")
    assert "call" in [item["kind"] for item in transcript["items"]]
    figures = {
        one["figure"]: one["value"]
        for one in case_presenter.entry_json(library, FIRST, "calls", "oracle", 1)["figures"]
    }
    assert figures["argument-accuracy"] == "1"


@pytest.mark.parametrize(
    ("suite", "run"),
    [
        ("..", "first"),
        ("mixed", ".."),
        ("mixed", "."),
        ("", "first"),
        ("mixed/first", "x"),
        ("mixed", "a\0b"),
        ("~", "x"),
    ],
)
def test_invalid_run_name_is_not_a_path(suite: str, run: str) -> None:
    with pytest.raises(CommandError) as halt:
        run_name(suite, run)
    assert halt.value.exit is Exit.NOT_FOUND


def test_no_link_is_followed_anywhere(copy: Path, tmp_path: Path) -> None:
    """An agent that broke out of its workspace could put one there: it must not make the server read for it."""
    (tmp_path / "secret").write_text("hidden")
    (copy / "mixed" / "first" / "events.jsonl").unlink()
    (copy / "mixed" / "first" / "events.jsonl").symlink_to(tmp_path / "secret")
    (copy / "mixed" / "linked").symlink_to(copy / "mixed" / "second")
    (copy / "aside").symlink_to(copy / "mixed")
    digest = "0" * 64
    (copy / "mixed" / "second" / "blobs").mkdir(exist_ok=True)
    (copy / "mixed" / "second" / "blobs" / digest).symlink_to(tmp_path / "secret")
    (copy / "mixed" / "second" / ".plan").rename(tmp_path / "log")
    (copy / "mixed" / "second" / ".plan").symlink_to(tmp_path / "log")
    shelf = ReportsFolder(copy)
    library = RunLibrary(shelf)

    assert shelf.runs() == [RunName("mixed", "first"), RunName("mixed", "second")]
    assert not library.reports.has(FIRST, "events.jsonl")
    assert library.place(RunName("mixed", "second")) is None
    for name, parts in (
        (RunName("mixed", "linked"), ("plan.json",)),
        (RunName("aside", "second"), ("plan.json",)),
        (RunName("mixed", "second"), case_presenter.blob_parts(digest)),
    ):
        with pytest.raises(CommandError), shelf.opened(name, *parts):
            pass


def test_pipe_in_the_place_of_a_file_blocks_nothing(copy: Path) -> None:
    events = copy / "mixed" / "first" / "events.jsonl"
    events.unlink()
    os.mkfifo(events)

    with pytest.raises(CommandError), ReportsFolder(copy).opened(FIRST, "events.jsonl"):
        pass


def test_run_is_folded_further_on_new_events_and_again_on_replaced_ones(copy: Path) -> None:
    """Live, torn in the middle of a line, and rewritten: every read returns the complete lines."""
    file = copy / "mixed" / "first" / "events.jsonl"
    content = file.read_bytes()
    library = RunLibrary(ReportsFolder(copy))
    whole = bench_presenter.run_json(library, FIRST)["report"]
    grown = RunLibrary(ReportsFolder(copy))
    file.write_bytes(b"")
    seen: list[tuple[int, int]] = []
    for end in range(0, len(content) + 1, max(1, len(content) // 40)):
        file.write_bytes(content[:end])
        answer = bench_presenter.run_json(grown, FIRST)
        assert answer["seq"] == content[:end].count(b"\n")
        seen.append((answer["seq"], answer["done"]))
    file.write_bytes(content)

    assert bench_presenter.run_json(grown, FIRST)["report"] == whole
    assert seen == sorted(seen)
    assert grown.run(FIRST).events(0, 3)[0].type == "run/open"
    file.write_bytes(content.splitlines(keepends=True)[0])
    assert bench_presenter.run_json(grown, FIRST)["seq"] == 1


def test_unknown_events_are_reported_and_other_runs_are_kept(copy: Path) -> None:
    file = copy / "mixed" / "first" / "events.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    library = RunLibrary(ReportsFolder(copy))

    told: dict[str, Any] = {one["run"]: one for one in bench_presenter.runs_json(library)["runs"]}
    assert told["first"]["state"] == "broken"
    assert "4 missing" in told["first"]["words"]
    assert told["second"]["state"] == "complete"


@pytest.mark.parametrize(
    ("content", "media"),
    [
        (b"\x89PNG\r\n\x1a\nrest", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        ("<script>alert('ä')</script>".encode(), case_presenter.TEXT_TYPES),
        (b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>', case_presenter.TEXT_TYPES),
        ("ä".encode() * 400, case_presenter.TEXT_TYPES),
        (b"\xff\xfe\x00\x01", case_presenter.BINARY_TYPE),
        (b"text\0with", case_presenter.BINARY_TYPE),
        (b"", case_presenter.TEXT_TYPES),
    ],
)
def test_blob_is_a_picture_a_text_or_nothing_executable(tmp_path: Path, content: bytes, media: str) -> None:
    (tmp_path / "blob").write_bytes(content)
    with (tmp_path / "blob").open("rb") as file:
        assert case_presenter.media_of(file) == media
        assert file.read() == content


def test_suites_of_the_folder_are_listed_beside_the_shipped_ones(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "shop.plan.yaml").write_text("plan: shop\n")
    for name in ("suite.yaml", "shelf.yaml"):
        shutil.copy(folder.path / name, tmp_path)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "suite.yaml").write_text("# one\nsuite: bad\ncases: 3\n")
    suites = SuiteLibrary(tmp_path, ReportsFolder(tmp_path / "reports"))

    listed = {one["key"]: one for one in suites.listed()["suites"]}
    assert {"tool-calling", "suite.yaml", "bad/suite.yaml"} <= listed.keys()
    assert listed["suite.yaml"]["cases"] == bench_suite.CASES
    assert listed["bad/suite.yaml"]["faults"]
    assert [one["case"] for one in suites.told("suite.yaml")["members"]] == ["writes", "calls", "says"]
    (tmp_path / "suite.yaml").write_text(bench_suite.SUITE.replace("  writes:", "  noted:"))
    assert next(one["case"] for one in suites.told("suite.yaml")["members"]) == "noted"
    with pytest.raises(CommandError):
        suites.told("../suite.yaml")
