"""Containers on the command line, as users of docker and kubectl expect: a real engine, terminals and pipes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import golden_text
from tests.e2e import command, container_harness
from tests.e2e.command import PLAN
from tests.e2e.container_harness import IMAGE, ContainerHarness
from tests.e2e.folder import Folder
from tests.e2e.test_terminal import terminal

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

SERVICES = f"""\
plan: p
containers:
  - name: db
    image: {IMAGE}
    env: {{NAME: db}}
    health: {{cmd: [test, -f, /tmp/well], interval: 0.2s}}
    ports: [{{container: 80}}]
  - name: once
    image: {IMAGE}
    cmd: [sh, -c, "echo first; echo last; test -f /tmp/go || sleep 300"]
    needs: [db]
"""


@pytest.fixture
def harness(folder: Folder, tmp_path: Path) -> Iterator[ContainerHarness]:
    with container_harness.harness(folder, container_harness.machines_address(), tmp_path) as harness:
        folder.write("p.yaml", SERVICES)
        yield harness


def started(folder: Folder, *words: str) -> subprocess.Popen[str]:
    return command.start(*words, cwd=folder.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_containers_are_shown_and_their_logs_followed_to_their_end(harness: ContainerHarness, folder: Folder) -> None:
    golden_text.said(folder.run("validate", "p.yaml").out)
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("running +container/once")
        host = harness.inspect("db")["NetworkSettings"]["Ports"]["80/tcp"][0]["HostPort"]
        assert folder.run("get", "containers").out.splitlines()[1].split()[:4] == [
            "db",
            "healthy",
            IMAGE,
            f"{host}->80",
        ]
        assert f"port      127.0.0.1:{host} -> 80" in folder.run("describe", "container/db").out
        assert "├─ ● container/db    healthy" in folder.run("tree").out
        golden_text.said_in(folder.run("describe", "db").err, "container/db")
        first, end = follow_to_the_end(harness, folder).splitlines()
        assert first == "last"
        assert re.fullmatch(r"container/once is failed: it ended with exit code 137 \(.*\): last", end)
        owner.until(r"failed +container/once +it ended with exit code 137 \(signal 9: killed, by .*\): last")
        owner.ended()
        golden_text.said_in(owner.text, "container/once")

    assert folder.run("logs", "container/db").out == "db is up\n", "what has gone is in a blob"


def test_a_plan_without_an_owner_can_still_be_looked_into(harness: ContainerHarness, folder: Folder) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("running +container/once")
        owner.process.kill()
        owner.process.wait()

    assert folder.run("exec", "db", "--", "sh", "-c", "echo more > /proc/1/fd/1; echo still").out == "still\n"
    assert folder.run("logs", "container/db").out == "db is up\nmore\n"
    golden_text.said(follow_to_the_end(harness, folder).splitlines())
    gone = folder.run("exec", "once", "--", "true")
    assert (gone.code, "container/once is not running" in gone.err) == (4, True)


def test_follower_is_told_why_output_ended(harness: ContainerHarness, folder: Folder) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("running +container/once")
        with started(folder, "logs", "container/db", "-f") as following:
            assert following.stdout is not None
            assert following.stdout.readline() == "db is up\n"
            owner.process.send_signal(signal.SIGINT)
            owner.ended()
            said = following.stdout.read()
            assert following.wait() == 0
        golden_text.said_in(said, "container/db")

    with folder.started("--yes", "p.yaml") as owner:
        owner.until("healthy +container/db|rev ")
        with started(folder, "logs", "container/db", "-f") as following:
            assert following.stdout is not None
            assert following.stdout.readline() == "db is up\n"
            folder.run("down")
            owner.ended()
            golden_text.said_in(following.stdout.read(), "container/db")


def follow_to_the_end(harness: ContainerHarness, folder: Folder) -> str:
    """Return what a follower of `once` prints from the last line on, while `once` exits."""
    with started(folder, "logs", "container/once", "-f", "--tail", "1") as following:
        assert following.stdout is not None
        first = following.stdout.readline()
        harness.api.kill(harness.ref("once"))
        return first + following.stdout.read()


def test_kept_container_is_deleted_by_name(harness: ContainerHarness, folder: Folder) -> None:
    folder.write("p.yaml", SERVICES.replace("test -f /tmp/go || sleep 300", "exit 3") + "    keep: on-failure\n")
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("container/once is kept; plan delete container/once removes it")
        owner.ended()
    assert list(harness.containers()) == ["container/once"]

    assert folder.run("delete", "container/once", "--dry-run").code == 0
    assert list(harness.containers()) == ["container/once"]
    assert folder.run("delete", "container/once").code == 0

    assert harness.left() == []
    assert [one["status"]["state"] for one in folder.json("get", "containers")] == ["removed", "removed"]
    assert folder.run("logs", "container/once").out == "first\nlast\n"
    assert folder.run("delete", "container/onc").code == 6


def test_a_command_inside_has_its_own_outputs_input_and_exit_code(harness: ContainerHarness, folder: Folder) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("running +container/once")
        said = folder.run("exec", "container/db", "--", "sh", "-c", "echo out; echo err >&2; exit 5")
        assert (said.code, said.out, said.err) == (5, "out\n", "err\n")
        assert (
            folder.run("exec", "db", "-w", "/tmp", "-u", "1000", "--", "sh", "-c", "pwd; id -u").out == "/tmp\n1000\n"
        )
        piped = command.run("exec", "-i", "db", "wc", "-c", cwd=folder.path, input=b"x" * 300_000, text=False)
        assert piped.returncode == 0
        assert piped.stdout.split() == [b"300000"]

        missing = folder.run("exec", "db", "--", "bash")
        assert missing.code == 127
        golden_text.said_in(missing.err, "container/db", "bash")
        golden_text.said_in(missing.err, "container/db")
        golden_text.said_in(folder.run("exec", "dbb", "--", "true").err, "container/db")
        assert folder.run("exec", "task/.", "--", "true").code == 2
        assert folder.run("exec", "db").code == 2
        owner.process.kill()  # It would let it go on.
        owner.process.wait()
        harness.api.pause(harness.ref("db"))
        paused = folder.run("exec", "db", "--", "true")
        assert (paused.code, "docker unpause" in paused.err) == (4, True)


INT, TERM, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL


@pytest.mark.parametrize("numbers", [(INT,), (TERM,), (KILL,), (INT, TERM)])
def test_process_started_by_a_command_ends_with_its_caller(
    harness: ContainerHarness, folder: Folder, numbers: tuple[signal.Signals, ...]
) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("running +container/once")
        with started(folder, "exec", "db", "--", "sh", "-c", "echo in; (sleep 271 & sleep 272)") as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "in\n"
            for number in numbers:  # The second comes while the command is being ended.
                client.send_signal(number)
            client.wait()
            # The process that ends it inside keeps this pipe open only for that.
            assert client.stdout.read() == ""
        while re.search(r"sleep 27[12]", harness.said_inside("db", "ps")):
            pass  # The test's own timeout is the bound.
        assert client.returncode in [-number if number == KILL else 128 + number for number in numbers]


@pytest.mark.parametrize("number", [INT, TERM])
def test_command_interrupted_as_it_starts_is_ended_too(
    harness: ContainerHarness, folder: Folder, number: signal.Signals
) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("running +container/once")
        with started(folder, "exec", "once", "--", "sleep", "273") as client:
            while not harness.inspect("once")["ExecIDs"]:
                pass  # The engine knows of it, and may not have begun it.
            client.send_signal(number)
            assert client.wait() == 128 + number
        assert "sleep 273" not in harness.said_inside("once", "ps")


def test_a_shell_inside_has_the_terminal_to_itself(harness: ContainerHarness, folder: Folder) -> None:
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("running +container/once")
        with terminal(folder, "exec", "-it", "container/db", "--", "sh", columns=77) as screen:
            screen.until("# ")
            assert not screen.echoes, "keys are handed on as they are"
            screen.press("busybox stty size; busybox tty; sleep 300\n")
            screen.until("24 77")
            screen.until("/dev/pts/")
            while "sleep 300" not in harness.said_inside("db", "ps"):
                pass
            screen.press("\x03")
            screen.until("^C")
            screen.press("exit 7\n")
            assert screen.ended() == 7


def test_agents_of_the_plan_cannot_run_commands_in_its_containers(harness: ContainerHarness, folder: Folder) -> None:
    from planloop.client.plan_paths import plan_label

    with folder.started("--yes", "p.yaml") as owner:
        owner.until("running +container/once")
        said = subprocess.run(
            [*PLAN, "exec", "db", "--", "true"],
            cwd=folder.path, capture_output=True, text=True, check=False,
            env={"PATH": os.defpath, "PLANLOOP_PLAN": plan_label(harness.place)},
        )  # fmt: skip
        assert said.returncode == 5


def test_doctor_shows_where_the_engine_is_or_how_to_get_one(
    harness: ContainerHarness, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = next(line for line in folder.run("doctor").out.splitlines() if " containers " in line)
    assert re.search(rf"(docker|podman) \d\S* at {harness.address}", found)
    assert re.search("limits of .*memory", found)

    monkeypatch.setenv("DOCKER_HOST", f"unix://{folder.path}/nobody")
    said = folder.run("doctor")
    lacking = next(line for line in said.out.splitlines() if " containers " in line)
    assert said.code == 0, "most plans need none"
    assert lacking.startswith("without")
    assert "systemctl start docker" in lacking


def test_preview_asks_the_running_containers(harness: ContainerHarness, folder: Folder) -> None:
    checks = "[{container: db}, {run-in: {container: db, sh: 'test $NAME = db'}}]"
    folder.write("p.yaml", SERVICES.replace("plan: p\n", f"plan: p\nrun: sleep 100\nacceptance: {checks}\n"))
    golden_text.said_in(folder.run("diff", "--checks", "p.yaml").out, "db")
    with folder.started("--yes", "p.yaml", "--stay") as owner:
        owner.until("running +container/once")

        golden_text.said_in(folder.run("diff", "--checks", "p.yaml").out)

        assert folder.run("down").code == 0
        owner.ended()


def test_preview_runs_checks_only_in_the_container_of_their_sandbox(harness: ContainerHarness, folder: Folder) -> None:
    agent = "{script: [{call: {shell: {command: sleep 100}}}, {done: x}], sandbox: {container: db}}"
    checks = "[{sh: 'touch here; test $NAME = db'}]"
    folder.write("p.yaml", SERVICES.replace("plan: p\n", f"plan: p\nagent: {agent}\nacceptance: {checks}\n"))
    said = folder.run("diff", "--checks", "p.yaml").out
    golden_text.said_in(said, "db")
    with folder.started("--yes", "p.yaml") as owner:
        owner.until("healthy +container/db")

        golden_text.said_in(folder.run("diff", "--checks", "p.yaml").out)

        assert folder.run("down").code == 0
        owner.ended()
    assert not (folder.path / "here").exists()


def test_a_plan_that_failed_ends_with_what_would_help_the_one_that_failed_first(
    harness: ContainerHarness, folder: Folder
) -> None:
    both = f"{{a: {{image: {IMAGE}, needs: [z]}}, z: {{image: planloop/nothing}}}}"
    folder.write("p.yaml", f"plan: p\ncontainers: {both}\n")

    said = folder.run("apply", "--yes", "p.yaml")

    assert (said.code, said.err.splitlines()) == (
        10,
        [
            "help: use one of shell, python, node, clojure, typescript, clojurescript",
            "help: plan describe container/z · plan logs container/z",
            "help: plan apply p.yaml retries it",
        ],
    )


@pytest.mark.parametrize("word", ["container/job", "."])
def test_failed_container_is_recreated_on_request_while_the_plan_runs(
    harness: ContainerHarness, folder: Folder, word: str
) -> None:
    job = f'job: {{image: {IMAGE}, cmd: [test, -e, /data/ready], mounts: {{".": /data}}}}'
    hold = 'hold: {run: "while [ ! -e over ]; do sleep 0.1; done"}'
    folder.write("p.yaml", f"plan: p\ncontainers: {{{job}}}\ntasks: {{{hold}}}\n")

    with folder.started("--yes", "p.yaml") as owner:
        owner.until("failed +container/job")
        first = folder.json("get", "container/job")["status"]["incarnation"]
        folder.write("ready", "")
        said = folder.run("resume", word)
        assert said.code == 0
        golden_text.said_in(said.out, "container/job/again")
        owner.until("completed +container/job")
        assert folder.json("get", "container/job")["status"]["incarnation"] > first
        golden_text.said_in(folder.run("resume", word).out)
        folder.write("over", "")
        owner.ended()
