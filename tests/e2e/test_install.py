"""The built wheel in an empty venv, with the repository out of reach: each example from `init` to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import golden_text
from tests.e2e import installed, team
from tests.e2e.installed import ROOT, SETUP_S, run
from tests.fakes.model_server.running import started

TALKING = "socratic"  # It ends when a person has said enough.
EXAMPLES = sorted({path.name for path in (ROOT / "plans/examples").iterdir()} - {TALKING})
LESSON = ("teach me", "it calls itself", "to make big things small", "the empty list is returned as it is", "thanks")

TRAPS = (
    "planloop",
    "schemas",
    "compiler",
    "reconciler",
    "controllers",
    "containers",
    "benchmarks",
    "plans",
    "cli",
    "server",
)

pytestmark = [pytest.mark.process, pytest.mark.timeout(SETUP_S), pytest.mark.xdist_group("installed")]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `plan` command of an installation of its own."""
    return installed.offline(tmp_path_factory.mktemp("installed"))


@pytest.mark.network
def test_pip_installs_it_with_all_that_it_needs(tmp_path: Path) -> None:
    plan = installed.from_registry(tmp_path)

    assert run(plan, "init", "--example", "quickstart", cwd=tmp_path).returncode == 0
    ended = run(plan, "apply", "--yes", "quickstart.plan.yaml", cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_package_runs_from_its_own_folders_alone(plan: Path, tmp_path: Path) -> None:
    found = run(plan.parent / "python", "-c", "import planloop.client; print(planloop.client.__file__)", cwd=tmp_path)

    assert found.stdout.startswith(str(plan.parent.parent))
    assert run(plan, "version", cwd=tmp_path).returncode == 0


def test_packages_of_the_folder_that_are_named_as_ours_are_never_imported(plan: Path, tmp_path: Path) -> None:
    for name in TRAPS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('{name} of the folder was imported')\n")
    assert run(plan, "init", "--example", "webchat", cwd=tmp_path).returncode == 0
    file = tmp_path / "webchat.plan.yaml"
    file.write_text(file.read_text().replace("sleep: 5s", "sleep: 0.1").replace("sleep 20", "sleep 0.1"))

    codes = {
        words: run(plan, *words.split(), cwd=tmp_path).returncode
        for words in ("validate webchat.plan.yaml", "apply --yes webchat.plan.yaml", "get", "tree", "replay --tree")
    }

    assert set(codes.values()) == {0}, codes


def test_packages_that_only_the_tests_need_are_not_installed(plan: Path, tmp_path: Path) -> None:
    missing = run(plan.parent / "python", "-m", "pytest", "--version", cwd=tmp_path)

    assert "No module named pytest" in missing.stderr


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_goes_from_init_to_done(plan: Path, tmp_path: Path, example: str) -> None:
    created = run(plan, "init", "--example", example, cwd=tmp_path)
    assert created.returncode == 0, created.stderr
    file = tmp_path / f"{example}.plan.yaml"
    file.write_text(file.read_text().replace("sleep: 5s", "sleep: 0.1").replace("sleep 20", "sleep 0.1"))

    with started(team.steps("m", "m"), tmp_path) as server:
        # Only `team` has agents that a model moves; for the others the option changes nothing.
        on_model = ("--model", f"m@{server.url}")
        assert run(plan, "diff", file.name, *on_model, cwd=tmp_path).returncode == 1
        ended = run(plan, "apply", "--yes", file.name, *on_model, cwd=tmp_path)

        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert f"{example}  done:" in ended.stdout
        assert run(plan, "diff", file.name, *on_model, cwd=tmp_path).returncode == 0


def test_interactive_example_ends_with_the_lesson(plan: Path, tmp_path: Path) -> None:
    assert run(plan, "init", "--example", TALKING, cwd=tmp_path).returncode == 0
    file = f"{TALKING}.plan.yaml"
    assert run(plan, "apply", "--yes", "--detach", file, cwd=tmp_path).returncode == 0
    try:
        talked = run(plan, "chat", cwd=tmp_path, said="".join(f"{line}\n" for line in LESSON))
        assert "You have just explained recursion" in talked.stdout, talked.stdout + talked.stderr
    finally:
        run(plan, "down", cwd=tmp_path)


def test_a_first_plan_of_ones_own_validates_and_runs(plan: Path, tmp_path: Path) -> None:
    assert run(plan, "init", "first", cwd=tmp_path).returncode == 0

    assert run(plan, "validate", "first.plan.yaml", cwd=tmp_path).returncode == 0
    ended = run(plan, "apply", "--yes", "first.plan.yaml", cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_init_overwrites_nothing(plan: Path, tmp_path: Path) -> None:
    (tmp_path / "workers.py").write_text("mine")

    said = run(plan, "init", "--example", "webchat", cwd=tmp_path)

    assert said.returncode == 4
    golden_text.said_in(said.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["workers.py"]
    assert (tmp_path / "workers.py").read_text() == "mine"
    assert run(plan, "init", "--example", "nonsense", cwd=tmp_path).returncode == 6
