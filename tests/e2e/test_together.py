"""Several commands on one plan at once, while its owners come and go: one owns, nothing acknowledged is lost."""

from __future__ import annotations

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event

import pytest

from tests import sets
from tests.e2e.folder import Folder, Said

OWNERS = 6 if sets.is_nightly() else 2
PLAN_TEXT = """\
plan: p
limits: {parallel: 2}
tasks:
  gate: {run: "echo gate >> effects; while [ ! -e open ]; do sleep 0.05; done"}
""" + "".join(f"  t{n}: {{needs: [gate], run: echo t{n} >> effects}}\n" for n in range(5))

pytestmark = [pytest.mark.process, pytest.mark.timeout(220)]


def test_one_of_many_concurrent_applies_owns_and_all_end_well(folder: Folder) -> None:
    folder.write("p.yaml", PLAN_TEXT)
    folder.write("open", "")

    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda _: folder.run("apply", "--yes", "p.yaml"), range(4)))

    assert [said.code for said in ended] == [0, 0, 0, 0], [said.text for said in ended]
    assert Counter((folder.path / "effects").read_text().split()) == Counter(["gate", *(f"t{n}" for n in range(5))])
    epochs = [record["epoch"] for record in folder.records()]
    assert epochs == sorted(epochs), "no owner wrote after another had taken over"


def test_reads_and_patches_while_owners_change_are_answered_and_none_is_lost(folder: Folder) -> None:
    """Owners are killed and replaced; meanwhile a reader and a writer keep asking, each in commands of its own."""
    folder.write("p.yaml", PLAN_TEXT)
    assert folder.run("apply", "--detach", "p.yaml").code == 0
    acknowledged: SimpleQueue[str] = SimpleQueue()
    notes: list[str] = []
    over = Event()
    with ThreadPoolExecutor(2) as pool:
        asking = [pool.submit(patch_until, folder, over, acknowledged), pool.submit(read_until, folder, over)]
        try:
            assert folder.run("down", "--leave").code == 0
            for turn in range(OWNERS):
                with folder.killed("--yes", "p.yaml") as owner:
                    notes += [acknowledged.get(timeout=30), acknowledged.get(timeout=30)]
                    owner.process.send_signal(signal.SIGINT if turn % 2 else signal.SIGKILL)
        finally:
            over.set()
        reads_count = [one.result() for one in asking][1]
    while not acknowledged.empty():
        notes.append(acknowledged.get())

    folder.write("open", "")
    said = folder.run("apply", "--yes", "p.yaml")
    assert said.code == 0, said.text
    assert Counter((folder.path / "effects").read_text().split()) == Counter(["gate", *(f"t{n}" for n in range(5))])
    taken = [record["data"].get("reason") for record in folder.records() if record["type"] == "plan.patched"]
    assert [note for note in taken if note in notes] == notes, "in their order, each once"
    assert reads_count
    assert folder.run("replay").code == 0


def patch_until(folder: Folder, over: Event, acknowledged: SimpleQueue[str]) -> int:
    """Patches one after the other; those that were said to be taken are acknowledged by their reasons."""
    number = 0
    while not over.is_set():
        number += 1
        said = folder.run("patch", "task/gate", f"notes=n{number}", "--reason", f"patch {number}")
        if said.code == 0:
            acknowledged.put(f"patch {number}")
        else:
            assert is_clear(said), said.text
    return number


def read_until(folder: Folder, over: Event) -> int:
    """How often it read the plan."""
    number = 0
    while not over.is_set():
        said = folder.run("get", "tasks", "-o", "json")
        assert said.code == 0, said.text
        number += 1
    return number


def is_clear(said: Said) -> bool:
    return said.code in (1, 4, 9) and "error: " in said.err and "help: " in said.err
