"""The worlds of a run: decoys beside a world's own tools, what each entry finds, and what changes a verdict's key."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.benchmarks.runs.contestants import Contestant
from planloop.benchmarks.runs.plan import plan_document
from planloop.benchmarks.runs.run_compiler import (
    CompiledRun,
    RunRequest,
    compile_run,
    compiled_run_from_json,
    make_nonce,
    rank_name,
)
from planloop.benchmarks.suite import ReadSuite
from planloop.benchmarks.suite_parser import FolderSuiteSources, read_suite
from planloop.benchmarks.worlds.world_file import world_file_of
from tests.product import JsonObject, canonical_bytes, decode

WORLD = "world: memo\ntables: {notes: {note-1: {text: hello}}}\ntools: {notes.get: {}, notes.add: {}}\n"
SHOP = "world: shop\ntables: {orders: {}}\ntools: {orders.get: {}}\n"
POOL = "pool: decoys\ntools: {notes.burn: {about: Burns.}, songs.play: {}, orders.split: {}}\n"
SUITE = """\
suite: memo
worlds: {memo: memo.yaml, shop: shop.yaml}
pools: {decoys: decoys.yaml}
defaults: {checks: {said: {abstain: {}}}, proof: {oracles: {plain: {says: hi}}}, prompts: [go]}
cases:
  plain: {tools: [notes.get], world: memo, decoys: {pool: decoys, pick: 2, near: 1}}
  other: {tools: [notes.get], world: {use: memo, with: {notes: {note-2: {text: here}, note-1: null}}}}
  fresh: {tools: [notes.get], world: {use: memo, with: {notes: {note-1: {text: "{{nonce.word}}"}}}}}
  sold: {tools: [orders.get], world: shop}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"memo": WORLD, "shop": SHOP, "decoys": POOL}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def read(folder: Path, text: str = SUITE) -> ReadSuite:
    return read_suite(text.encode(), file="suite.yaml", sources=FolderSuiteSources(folder))


def compiled(folder: Path, text: str = SUITE, **wish: str) -> CompiledRun:
    found = read(folder, text)
    assert found.suite is not None, found.diagnostics
    return compile_run(found.suite, [Contestant("oracle", "oracle")], RunRequest(trials=2, **wish))  # type: ignore[arg-type]


def test_every_entry_finds_its_own_tables_and_so_does_a_later_attempt(folder: Path) -> None:
    made = compiled(folder)
    file = world_file_of(made.worlds["memo"])

    def notes(task: str) -> JsonObject:
        return dict(file.found_by(task).tables["notes"])

    assert notes("plain--oracle--1") == {"note-1": {"text": "hello"}}
    assert notes("other--oracle--2") == notes("other--oracle--2--3") == {"note-2": {"text": "here"}}
    words = [notes(f"fresh--oracle--{trial}/helper")["note-1"]["text"] for trial in (1, 2)]
    assert words == [make_nonce(0, "fresh", trial, "word") for trial in (1, 2)]


def test_servers_act_in_the_world_that_owns_their_tools_beside_decoys(folder: Path) -> None:
    made = compiled(folder)
    again = compiled_run_from_json(decode(canonical_bytes(made.to_json())))
    plan = plan_document(made, dict.fromkeys(made.entries, 1), parallel=2)
    assert plan["mcp"] == {
        "notes": {"world": "worlds/memo.json"},
        "orders": {"world": "worlds/shop.json"},
        "songs": {"world": "worlds/memo.json"},
    }
    assert plan_document(again, dict.fromkeys(made.entries, 1), parallel=2) == plan
    case = made.cases["plain"]
    assert case["near"] == ["notes.burn"] and case["far"][0] in ("songs.play", "orders.split")
    assert set(made.worlds["memo"]["tools"]) == {"notes.get", "notes.add", "notes.burn", "songs.play", "orders.split"}
    order = plan["tasks"]["plain--oracle--1"]["agent"]["tools"]
    assert order == sorted(["notes.get", *case["near"], *case["far"]], key=lambda tool: rank_name(0, "plain", tool))
    assert "note-2" not in str(plan), "what lies in the tables is in no plan"


def test_decoys_alone_are_simulated_too(folder: Path) -> None:
    made = compiled(
        folder, SUITE.replace("tools: [notes.get], world: memo, decoys", "tools: [], decoys"), cases="plain"
    )
    assert set(made.worlds) == {"decoys"}
    assert world_file_of(made.worlds["decoys"]).world.tools["songs.play"].returns.of({}) == {"ok": True}


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("memo", "hello", "bye", {"plain", "other", "fresh"}),
        ("shop", "orders: {}", "orders: {ord-1: {}}", {"sold"}),
        ("decoys", "Burns.", "Burns a note.", {"plain"}),
    ],
)
def test_an_entry_has_another_key_when_what_its_tools_act_on_is_another(
    folder: Path, file: str, old: str, new: str, changed: set[str]
) -> None:
    before = {name: entry.key for name, entry in compiled(folder).entries.items()}
    path = folder / f"{file}.yaml"
    path.write_text(path.read_text().replace(old, new))
    after = {name: entry.key for name, entry in compiled(folder).entries.items()}
    assert {name.partition("--")[0] for name in before if before[name] != after[name]} == changed


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[notes.get], world: memo,", "[notes.got], world: memo,", "6 no world or pool has the tool `notes.got`"),
        ("with: {notes: {note-2", "with: {note: {note-2", "7 unknown table `note`"),
        (
            "memo: memo.yaml",
            "memo: memo.yaml, copy: memo.yaml",
            "2 the worlds `memo` and `copy` both have tools of `notes`",
        ),
        ("memo: memo.yaml", "memo: none.yaml", "2 `none.yaml` cannot be read"),
        ("memo: memo.yaml", "memo: ill.yaml", "2 ill.yaml:2: unknown name `$x`"),
    ],
)
def test_world_errors_are_reported_by_the_suite_that_names_them(folder: Path, old: str, new: str, said: str) -> None:
    (folder / "ill.yaml").write_text("world: ill\ntools: {notes.get: {returns: $x}}\n")
    found = read(folder, SUITE.replace(old, new))
    assert found.suite is None
    told = [f"{one.span.line} {one.summary}" for one in found.diagnostics if one.span is not None]
    assert len(told) == 1 and told[0].startswith(said), told
