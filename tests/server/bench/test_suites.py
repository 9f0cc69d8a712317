"""Suites of one's own are known by name: in ./suites, or in the folders that are configured."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.server.bench import suites
from tests.product import CommandError
from tests.product import CommandExit as Exit

SUITE = """\
suite: {name}
cases: {{one: {{prompts: [go], checks: {{made: {{require-file: a.txt}}}}}}}}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(suites.SUITES_VARIABLE, raising=False)
    return tmp_path


def write(folder: Path, name: str, file: str = "") -> Path:
    path = folder / (file or f"{name}.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SUITE.format(name=name))
    return path


def test_without_configuration_suites_of_the_folder_suites_are_known(here: Path) -> None:
    assert not suites.known_suites().own
    write(here / "suites", "notes")
    write(here / "suites", "tidy", "any/suite.yaml")
    (here / "suites" / "other.yaml").write_text("plan: no suite\n")
    assert set(suites.known_suites().own) == {"notes", "tidy"}
    every = suites.select_suites([], is_all=True)
    assert len(every) == len(suites.shipped_suites()) + 2
    assert suites.find_suites("tidy", here).name == "suite.yaml"


def test_folders_come_from_the_option_else_from_the_variable(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here / "suites", "default")
    write(here / "a", "one")
    write(here / "b", "two")
    monkeypatch.setenv(suites.SUITES_VARIABLE, "a:b")
    assert set(suites.known_suites().own) == {"one", "two"}
    assert set(suites.known_suites([Path("a")]).own) == {"one"}
    assert suites.find_suites("two", here).parent.name == "b"


@pytest.mark.parametrize("text", ["suite: 'notes' # mine\n", '# head\n---\nsuite: "notes"\n', "{:suite :notes}"])
def test_a_suite_is_known_by_the_name_at_its_top(here: Path, text: str) -> None:
    (here / "suites").mkdir()
    (here / "suites" / ("x.edn" if text[0] == "{" else "x.yaml")).write_text(text)
    assert set(suites.known_suites().own) == {"notes"}


def test_missing_folder_and_two_suites_of_one_name_are_reported(here: Path) -> None:
    with pytest.raises(CommandError) as gone:
        suites.known_suites([Path("nowhere")])
    write(here / "a", "one")
    write(here / "a", "one", "again.yaml")
    with pytest.raises(CommandError) as twice:
        suites.known_suites([Path("a")])
    write(here / "b", next(iter(suites.shipped_suites())))
    with pytest.raises(CommandError) as shipped:
        suites.known_suites([Path("b")])
    assert [one.value.exit for one in (gone, twice, shipped)] == [Exit.NOT_FOUND, Exit.INVALID, Exit.INVALID]
    assert all(one.value.hint for one in (gone, twice, shipped))


def test_typo_in_a_name_gets_a_suggestion(here: Path) -> None:
    write(here / "suites", "notes")
    with pytest.raises(CommandError) as fault:
        suites.find_suites("ntoes", here)
    assert "`notes`" in fault.value.hint
