"""An owner that is stopped: verbs that only read answer from the log, with a note."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from tests.e2e.folder import Folder
from tests.golden_text import said_in

pytestmark = pytest.mark.process

PLAN = "plan: p\ngoal: x\ntasks:\n  a: {run: sleep 300}\n"


def pid_of(folder: Folder) -> int:
    return int(json.loads((folder.path / ".plan/p/owner").read_text())["pid"])


@pytest.mark.timeout(120)
def test_readers_fall_back_to_the_log_when_the_owner_is_stopped(folder: Folder) -> None:
    with folder.owned("p.plan.yaml", PLAN):
        while folder.states()["task/a"] != "running":
            continue
        pid = pid_of(folder)
        os.kill(pid, signal.SIGSTOP)
        try:
            for words in (
                *(
                    ["get", "tasks"],
                    ["get", "tasks", "-o", "json"],
                    ["tree"],
                    ["describe", "task/a"],
                    ["top", "--once"],
                ),
                *(["events"], ["history"], ["logs", "task/a"], ["diff", "p.plan.yaml"]),
            ):
                begun = time.monotonic()
                answer = folder.run(*words)
                assert answer.code == 0, (words, answer.text)
                assert time.monotonic() - begun < 20, words
                assert "did not answer" in answer.err, words
                assert answer.out, words
            said_in(answer.err, "did not answer")
            waited = folder.run("wait", "task/a", "--timeout", "1s")
            assert waited.code == 9, waited.text
            assert "did not answer" in folder.run("doctor").out
        finally:
            os.kill(pid, signal.SIGCONT)
