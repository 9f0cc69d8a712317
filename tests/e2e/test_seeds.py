"""Every data snippet of the source documents, as written there, through the real commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from planloop.client import process
from tests import golden_text
from tests.e2e.folder import Folder

ROOT = Path(__file__).parents[2]
SEEDS = sorted(path for path in (ROOT / "tests/golden/seeds").iterdir() if path.suffix in (".edn", ".yaml"))
WEBCHAT = ROOT / "plans/examples/webchat"

# What a snippet lacks to run as it stands: a model. The others have nothing that cannot run.
STOPPED = {
    "format-tree.edn": ("P0225",),
    "plan-map.edn": ("P0225",),
    "task-tree.edn": ("P0225",),
}

WRITER = ':agent {:tools [:write] :script [{:call {:write {:path "README.md" :content "read"}}} {:done "written"}]}'

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


def seeded(folder: Folder, seed: Path) -> str:
    shutil.copy(seed, folder.path)
    return seed.name


# Their images are on a registry; they run under those names in test_containers.py, and stop for nothing here.
NEED_IMAGES = ("containers.edn", "format-containers.edn", "format-plan.yaml")


@pytest.mark.parametrize("seed", [one for one in SEEDS if one.name not in NEED_IMAGES], ids=lambda path: path.name)
def test_seed_runs_to_its_end_or_reports_unsupported_fields_at_their_place(folder: Folder, seed: Path) -> None:
    name = seeded(folder, seed)
    codes = STOPPED.get(name, ())

    said = folder.run("apply", "--yes", name)

    for code in codes:
        assert f"error[{code}]" in said.err
        assert folder.run("explain", code).code == 0
    if codes:
        assert said.code == 3, said.text
        golden_text.said_in(said.err)
        assert not (folder.path / ".plan").exists()
    else:
        assert said.code == 0, said.text
        assert set(folder.states().values()) == {"done"}
        assert folder.run("diff", name).code == 0


@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: path.name)
def test_a_seed_compiled_twice_gives_the_same_bytes(folder: Folder, seed: Path) -> None:
    name = seeded(folder, seed)

    first, second = (folder.run("compile", name, "-o", output) for output in ("json", "json"))

    assert (first.code, second.code) == (0, 0), first.err
    assert first.out == second.out
    assert json.loads(first.out)


@pytest.mark.parametrize("name", ["plan-map.edn", "format-tree.edn"])
def test_work_of_a_seed_runs_with_a_scripted_agent(folder: Folder, name: str) -> None:
    """A scripted agent stands in for the model, and two programs for npm and clj, which write down what they check."""
    seeded(folder, ROOT / "tests/golden/seeds" / name)
    folder.write(name, (folder.path / name).read_text().replace(":cwd", f"{WRITER} :cwd"))
    tools = folder.path / "tools"
    tools.mkdir()
    for program in ("npm", "clj"):
        (tools / program).write_text(f'#!/bin/sh\necho "{program} $*" >> "{folder.path}/checked"\n')
        (tools / program).chmod(0o755)

    said = folder.run("apply", "--yes", name, path=f"{tools}:{process.environment()['PATH']}")

    assert said.code == 0, said.text
    assert set(folder.states().values()) == {"done"}
    checked = set((folder.path / "checked").read_text().splitlines())
    assert {"npm test", "clj -M:test"} < checked
    assert (folder.path / "frontend").is_dir()


def test_the_web_chat_is_the_same_graph_in_both_spellings(folder: Folder) -> None:
    shutil.copytree(WEBCHAT, folder.path, dirs_exist_ok=True)

    graphs = [folder.run("compile", f"webchat.plan.{end}", "-o", "json") for end in ("yaml", "edn")]

    assert [one.code for one in graphs] == [0, 0], graphs[1].err
    assert json.loads(graphs[0].out) == json.loads(graphs[1].out)
    assert graphs[0].out == graphs[1].out
