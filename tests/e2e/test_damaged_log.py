"""A log that was damaged while its plan did not run: each command names the damage, or the state is what it was."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from planloop.reconciler.store import log_reader
from tests.e2e.folder import Folder
from tests.golden_text import said

pytestmark = pytest.mark.process

PLAN: Final = "plan: p\ngoal: x\ntasks:\n  a: {run: echo PRINTED}\n  b: {needs: [a], run: 'true'}\n"
STATE: Final = ".plan/p"


def replaced(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    def damage(state: Path) -> None:
        content = (state / name).read_bytes()
        assert old in content
        (state / name).write_bytes(content.replace(old, new))

    return damage


def in_table(statement: str) -> Callable[[Path], None]:
    def damage(state: Path) -> None:
        connection = sqlite3.connect(state / "log.db")
        connection.execute(statement)
        connection.commit()
        connection.close()

    return damage


def emptied(state: Path) -> None:
    (state / "log.db").write_bytes(b"")


def a_folder(state: Path) -> None:
    (state / "log.db").unlink()
    (state / "log.db").mkdir()


def gone(state: Path) -> None:
    (state / "log.db").unlink()


def of_another_run(state: Path) -> None:
    """The log becomes one that is sound in itself: of the same plan, a second later."""
    with closing(sqlite3.connect(state / "log.db")) as connection, connection:
        checksum = log_reader.GENESIS
        for rev, text in connection.execute("SELECT rev, body FROM log ORDER BY rev").fetchall():
            record = json.loads(text)
            record["at"] += 1
            body = json.dumps(record)
            checksum = log_reader.next_checksum(checksum, body.encode())
            values = (record["at"], body, checksum, rev)
            connection.execute("UPDATE log SET at = ?, body = ?, checksum = ? WHERE rev = ?", values)


def a_pipe(state: Path) -> None:
    (state / "events.jsonl").unlink()
    os.mkfifo(state / "events.jsonl")


NOTICED: Final[dict[str, Callable[[Path], None]]] = {
    "a byte of a record": replaced("log.db", b"saved p.plan.yaml", b"saved q.plan.yaml"),
    "a column of a record": in_table("UPDATE log SET subject = 'task/z' WHERE rev = 4"),
    "a blob": in_table("UPDATE blobs SET content = CAST('plan: q' AS BLOB)"),
    "a record without text": in_table("UPDATE log SET body = 7 WHERE rev = 3"),
    "an empty file": emptied,
    "a folder in its place": a_folder,
    "no file": gone,
    "a newer version": in_table("UPDATE meta SET value = 99 WHERE key = 'version'"),
    "a word for an epoch": in_table("UPDATE meta SET value = 'many' WHERE key = 'epoch'"),
    "the log of another run": of_another_run,
}
HARMLESS: Final[dict[str, Callable[[Path], None]]] = {
    "the snapshot": in_table("UPDATE objects SET body = replace(body, 'done', 'gone')"),
    "the snapshot's revision": in_table("UPDATE meta SET value = 3 WHERE key = 'snapshot_rev'"),
    "the mirror": replaced("events.jsonl", b"saved p.plan.yaml", b"saved q.plan.yaml"),
    "a pipe in place of the mirror": a_pipe,
    "the mirror's beginning": replaced("events.jsonl", b'"rev":1', b'"rev":7'),
    "the owner's file": replaced("owner", b"pid", b"qid"),
}


def done(folder: Folder) -> str:
    folder.write("p.plan.yaml", PLAN)
    assert folder.run("apply", "--yes", "p.plan.yaml").code == 0
    return folder.run("get", "tasks", "-o", "name").out


@pytest.mark.parametrize("name", NOTICED)
def test_apply_on_a_damaged_log_fails_with_a_fix(folder: Folder, name: str) -> None:
    done(folder)
    NOTICED[name](folder.path / STATE)

    answer = folder.run("apply", "--yes", "p.plan.yaml")

    assert answer.code == 1, answer.text
    assert "bug of planloop" not in answer.text
    said(answer.err)
    if name not in ("a blob", "a word for an epoch"):  # Readers need neither.
        for words in (["replay"], ["get", "tasks"]):
            assert folder.run(*words).code in (1, 6), words


@pytest.mark.parametrize("name", HARMLESS)
def test_damage_of_what_can_be_rebuilt_changes_nothing(folder: Folder, name: str) -> None:
    before = done(folder)
    states = folder.states()
    HARMLESS[name](folder.path / STATE)

    assert folder.states() == states
    answer = folder.run("apply", "--yes", "p.plan.yaml")

    assert answer.code == 0, answer.text
    assert folder.run("get", "tasks", "-o", "name").out == before
    assert folder.states() == states
    assert folder.run("replay").code == 0


def test_intact_part_of_a_damaged_log_can_be_continued_as_a_fork(folder: Folder) -> None:
    done(folder)
    folder_of = folder.path / STATE
    in_table("UPDATE log SET body = replace(body, 'done', 'gone') WHERE rev = 8")(folder_of)

    answer = folder.run("apply", "--yes", "p.plan.yaml")
    assert "plan fork --at 7" in answer.err
    forked = folder.run("fork", "--at", "7")

    assert forked.code == 0, forked.text
    assert folder.run("get", "tasks", "--plan", "p-7").code == 0


def test_log_that_lost_its_write_ahead_log_is_noticed_by_readers_too(folder: Folder) -> None:
    folder.write("p.plan.yaml", "plan: p\ngoal: x\ntasks:\n  a: {run: sleep 60}\n")
    with folder.started("--yes", "p.plan.yaml") as owner:
        owner.until("running +task/a")
    state = folder.path / STATE
    assert (state / "log.db-wal").stat().st_size
    for end in ("-wal", "-shm"):
        (state / f"log.db{end}").unlink()

    for words in (["get", "tasks"], ["events"], ["apply", "--yes", "p.plan.yaml"], ["replay"]):
        answer = folder.run(*words)
        assert answer.code == 1, answer.text
        assert "lost its end" in answer.err
    shutil.rmtree(state)
