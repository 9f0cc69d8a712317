"""A state folder that cannot be written, or has no room: a clear word, and nothing that was acknowledged is lost."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import needs
from tests.e2e.folder import Folder

SMALL = "plan: p\ntasks:\n  a: {goal: x, run: 'true'}\n"
NOISY = "plan: p\ntasks:\n" + "".join(
    f"  t{n}: {{goal: noise, run: head -c 60000 /dev/urandom | base64}}\n" for n in range(60)
)


@contextmanager
def small_disk(path: Path) -> Iterator[None]:
    """A disk of one and a half megabytes at `path`."""
    needs.small_disk(path, "1536k")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_full_disk_is_reported_in_a_sentence_and_the_log_stays_valid(folder: Folder) -> None:
    state = folder.path / ".plan"
    state.mkdir()
    with small_disk(state):
        folder.write("p.plan.yaml", NOISY)

        said = folder.run("apply", "p.plan.yaml")

        assert said.code == 1, said.text
        assert "full" in said.err
        assert "free some disk space" in said.err
        replayed = folder.run("replay")
        assert replayed.code == 0, replayed.text


def test_unwritable_state_folder_is_reported_with_its_fix(folder: Folder) -> None:
    folder.write("p.plan.yaml", SMALL)
    # Nothing can be written into a file in place of the folder, not even as root.
    (folder.path / ".plan").write_text("")

    said = folder.run("apply", "p.plan.yaml")

    assert said.code == 1, said.text
    assert "help:" in said.err


@pytest.mark.process
def test_a_plan_on_a_read_only_disk_can_still_be_read(folder: Folder) -> None:
    folder.write("p.plan.yaml", SMALL)
    assert folder.run("apply", "p.plan.yaml").code == 0
    state = folder.path / ".plan"
    needs.root()
    subprocess.run(["mount", "--bind", state, state], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(state)], check=True)
        read, written = folder.run("get"), folder.run("patch", ".", "goal=x")
    finally:
        subprocess.run(["umount", "-l", str(state)], check=True)

    assert read.code == 0, read.text
    assert "1 of 1 tasks done" in read.out
    assert written.code == 1, written.text
    assert "help:" in written.err
