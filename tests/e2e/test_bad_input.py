"""Every bad input gets a clear error with a hint and the documented exit code, and changes nothing."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from planloop.client.plan_sources import FolderSources
from planloop.compiler import plan_compiler
from tests import golden_text
from tests.e2e.command import PLAN
from tests.e2e.folder import Folder

GOOD = "plan: p\ntasks:\n  a: {run: 'true'}\n"

ALIAS_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)

BAD: dict[str, tuple[str, bytes, str]] = {
    "an alias bomb": ("p.yaml", ALIAS_BOMB.encode(), "alias"),
    "ten thousand levels": ("p.yaml", b"goal: " + b"[" * 10_000 + b"]" * 10_000, "deep"),
    "ten thousand levels of EDN": ("p.edn", b"{:goal " + b"[" * 10_000 + b"]" * 10_000 + b"}", "deep"),
    "a cycle": ("p.yaml", b"plan: p\ntasks:\n  a: {run: x, needs: [b]}\n  b: {run: x, needs: [a]}\n", "a"),
    "a duplicate key": ("p.yaml", b"plan: p\ntasks:\n  a: {run: x}\n  a: {run: y}\n", "a"),
    "an unknown field": ("p.yaml", b"plan: p\ntasks:\n  a: {run: x, gaol: y}\n", "goal"),
    "a wrong type": ("p.yaml", b"plan: p\ntasks:\n  a: {run: x, priority: high}\n", "priority"),
    "invalid UTF-8": ("p.yaml", b"plan: p\ngoal: \xff\xfe\xfa\n", "UTF-8"),
    "broken EDN": ("p.edn", b'{:plan "p" :tasks {:a {:run "x"}', "}"),
    "broken YAML": ("p.yaml", b"plan: p\ntasks:\n  a: {run: x\n", ""),
    "a list at the top": ("p.yaml", b"- a\n- b\n", ""),
    "an empty file": ("p.yaml", b"", ""),
    "a NUL byte": ("p.yaml", b"plan: p\ngoal: a\0b\n", ""),
}


@pytest.mark.parametrize("what", BAD, ids=str)
def test_a_bad_plan_has_an_error_with_its_place_and_a_fix(tmp_path: Path, what: str) -> None:
    name, content, word = BAD[what]

    found = plan_compiler.compile_source(content, file=name, sources=FolderSources(tmp_path)).diagnostics

    errors = [one for one in found if one.severity == "error"]
    assert errors and all(one.span and one.hint for one in errors)
    assert any(word in f"{one.summary} {one.hint}" for one in errors), errors


@pytest.mark.process(keep=2)
@pytest.mark.parametrize("what", BAD, ids=str)
def test_bad_plan_is_an_error_with_a_place_and_a_fix(folder: Folder, what: str) -> None:
    name, content, word = BAD[what]
    (folder.path / name).write_bytes(content)

    for verb in ("validate", "diff", "apply"):
        said = folder.run(verb, name, timeout_s=10)

        assert said.code == 3, said.text
        assert f"{name}:" in said.err, said.err
        assert "error[P" in said.err
        assert "help:" in said.err
        assert word in said.err
        assert not (folder.path / ".plan").exists()


def test_validate_takes_the_size_that_its_message_recommends(folder: Folder) -> None:
    folder.write("p.plan.yaml", "plan: p\ntasks: {a: {run: 'true'}}\n" + "# a long comment\n" * 70_000)

    refused = folder.run("validate", "p.plan.yaml")
    assert refused.code == 3
    assert "--max-size" in refused.err
    taken = folder.run("validate", "--max-size", "2000000", "p.plan.yaml")
    assert taken.code == 0, taken.text


def test_a_hundred_megabytes_are_refused_without_reading_them_into_memory(folder: Folder) -> None:
    with (folder.path / "p.yaml").open("wb") as file:
        file.truncate(100 << 20)

    said = folder.run("validate", "p.yaml", timeout_s=10)

    assert said.code == 3
    assert "help:" in said.err


def test_memory_stays_bounded_on_an_alias_bomb(folder: Folder) -> None:
    folder.write("p.yaml", ALIAS_BOMB)

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))

    command = [*PLAN, "validate", "p.yaml"]
    done = subprocess.run(command, cwd=folder.path, capture_output=True, text=True, check=False, preexec_fn=bounded)

    assert done.returncode == 3, done.stderr
    assert "error[P" in done.stderr


def test_missing_file_and_folder_are_distinguished_from_a_bad_plan(folder: Folder) -> None:
    (folder.path / "folder").mkdir()

    missing, directory = folder.run("apply", "none.yaml"), folder.run("apply", "folder")

    assert (missing.code, directory.code) == (6, 2)
    assert "none.yaml" in missing.err
    assert "help:" in missing.err
    assert "folder" in directory.err
    assert "help:" in directory.err


def test_unreadable_file_is_reported(folder: Folder) -> None:
    folder.write("p.yaml", GOOD).chmod(0)
    drop = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()

    done = subprocess.run(
        [*drop, *PLAN, "validate", "p.yaml"], cwd=folder.path, capture_output=True, text=True, check=False
    )

    assert done.returncode in (2, 6), done.stderr
    assert "p.yaml" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.process
def test_typo_leaves_a_finished_plan_unchanged(folder: Folder) -> None:
    folder.write("p.yaml", GOOD)
    assert folder.run("apply", "--yes", "p.yaml").code == 0
    before = folder.run("get", "tasks", "-o", "json").out
    folder.write("p.yaml", GOOD.replace("run", "rnu"))

    said = folder.run("apply", "--yes", "p.yaml")

    assert said.code == 3
    golden_text.said_in(said.err, "run")
    assert folder.run("get", "tasks", "-o", "json").out == before


@pytest.mark.process
def test_an_empty_file_never_deletes_what_runs(folder: Folder) -> None:
    folder.write("p.yaml", GOOD)
    assert folder.run("apply", "--yes", "p.yaml").code == 0
    folder.write("p.yaml", "")

    said = folder.run("apply", "--yes", "p.yaml")

    assert said.code == 3
    assert folder.states() == {"task/.": "done", "task/a": "done"}


def test_usage_errors_are_exit_two(folder: Folder) -> None:
    assert folder.run("aply").code == 2
    assert "did you mean" in folder.run("aply").err.lower()
    assert folder.run("get", "--nonsense").code == 2


def test_invalid_maximum_size_is_a_usage_error(folder: Folder) -> None:
    folder.write("p.yaml", GOOD)

    for size in ("-5", "0", "9" * 30, "nan"):
        assert folder.run("validate", "--max-size", size, "p.yaml").code == 2, size
    assert folder.run("validate", "--max-size", "20", "p.yaml").code == 3
    assert folder.run("validate", "--max-size", "2000000", "p.yaml").code == 0
