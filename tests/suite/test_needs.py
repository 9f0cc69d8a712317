"""A missing program skips a test with its reason, is counted in the last line, and fails where no skip is allowed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs
from tests.rights import without_rights
from tests.suite.changes import ROOT

CONFTEST = """
from tests import needs

def pytest_configure(config):
    config.addinivalue_line("markers", "needs(name)")
    config.pluginmanager.register(needs.Needs())
"""
SUITE = """
import pytest
from tests import needs

@pytest.mark.needs("git")
def test_by_mark(): raise AssertionError("it needs git")

def test_by_call(): needs.git()

def test_program_of_another_kind_is_missing(): needs.program("no-such-program", remedy="write it")

def test_passes(): pass

@pytest.mark.xfail(reason="known")
def test_fails_as_expected(): raise AssertionError
"""


def run(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_some.py").write_text(SUITE)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PLANLOOP_", "PYTEST_"))}  # noqa: TID251
    environment = kept | {"PYTHONPATH": str(ROOT), "PATH": "/nowhere"} | more
    command = [sys.executable, "-m", "pytest", "-q", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.process
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["one process", "a worker"])
def test_the_last_line_counts_skips_by_what_is_missing(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = run(tmp_path, *workers)

    assert done.returncode == 0, done.stdout
    last = "skipped tests: 2 need git (sudo make setup); 1 needs no-such-program (write it)"
    assert done.stdout.splitlines()[-1] == last


@pytest.mark.process
def test_a_skip_fails_where_nothing_may_be_skipped_and_an_expected_failure_does_not(tmp_path: Path) -> None:
    done = run(tmp_path, **{needs.MUST: "must"})

    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("2 failed, 1 passed, 1 xfailed, 1 error in ")


def test_installation_specific_message_is_not_part_of_the_count() -> None:
    reasons = ["needs a container engine (no answer at unix:///x: start it): sudo make setup", "another reason"]

    assert needs.closing_line(reasons) == "skipped tests: 1 needs a container engine (sudo make setup)"
    assert needs.closing_line(["another reason"]) == ""


def test_without_rights_file_modes_hold_for_root_and_the_rights_come_back(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    file.chmod(0)

    with without_rights(), pytest.raises(PermissionError):
        file.read_text()

    file.chmod(0o600)
    assert file.read_text() == "x"
    if os.geteuid() == 0:
        file.chmod(0)
        assert file.read_text() == "x"
