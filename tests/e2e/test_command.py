"""A forked `plan` command behaves as one that Python starts: every scenario runs both ways, with equal outcomes."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from planloop.client import process as client_process
from tests import sets
from tests.architecture.tree import ROOT
from tests.e2e import command
from tests.e2e.command import Forked
from tests.e2e.folder import Folder

pytestmark = [pytest.mark.process, pytest.mark.needs("linux")]

PLAN = "plan: demo\ntasks:\n  wait: {run: 'touch begun; sleep 60'}\n"
SPY = """\
plan: demo
tasks:
  spy: {run: "(env | sort | grep -avE '^(PLANLOOP_|_=|SHLVL=)'; umask; pwd; ulimit -a) >seen"}
"""
DIFFERS = (
    (r"0x[0-9a-f]+", "0x"),
    (r"\b\d+\.\d+ s\b", "S"),
    (r"\d\d:\d\d:\d\d", "T"),
    (r"/tmp/\S*/(true|forked)\b", "/"),
)
Outcome = tuple[Any, ...]


@pytest.fixture(autouse=True)
def _both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forked process is compared in every set, nightly included."""
    monkeypatch.setattr(command, "is_fresh", lambda: False)


def both(tmp_path: Path, scenario: Callable[[Folder, bool], Outcome]) -> Outcome:
    """The outcome of `scenario`, which is the same with a start of Python and with a fork."""
    found = []
    for name, fresh in (("true", True), ("forked", False)):
        (tmp_path / name).mkdir()
        found.append(scenario(Folder(tmp_path / name), fresh))
    assert found[0] == found[1]
    return found[1]


def steady(text: str) -> str:
    for pattern, example in DIFFERS:
        text = re.sub(pattern, example, text)
    return text


def begun(folder: Folder, *, fresh: bool, **options: Any) -> subprocess.Popen[str]:
    """`plan apply` whose task runs."""
    folder.write("p.yaml", PLAN)
    pipe = subprocess.PIPE
    process = command.start("apply", "p.yaml", cwd=folder.path, stdout=pipe, stderr=pipe, fresh=fresh, **options)
    assert isinstance(process, Forked) is not fresh
    assert process.stdout is not None
    while not re.search("running +task/wait", line := process.stdout.readline()):
        assert line, process.communicate()
    while not folder.processes():  # The line is printed before the command of the task starts.
        time.sleep(0.01)
    return process


def after(folder: Folder, process: subprocess.Popen[str], sent: int) -> Outcome:
    """How the process ends after that signal; what it left is stopped."""
    process.send_signal(sent)
    out, err = process.communicate()
    left = len(folder.processes())
    folder.run("down", "--force")
    return process.returncode, steady(out), steady(err), left > 0


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("version", 0),
        ("get --help", 0),
        ("gte", 2),
        ("get --none", 2),
        ("apply bad.yaml", 3),
        ("diff p.yaml", 1),
        ("get tasks \udcff", 6),
        ("apply --yes fails.yaml", 10),
    ],
)
def test_exit_code_stdout_and_stderr_are_the_same(tmp_path: Path, line: str, code: int) -> None:
    def scenario(folder: Folder, fresh: bool) -> Outcome:
        folder.write("p.yaml", PLAN)
        folder.write("bad.yaml", "plan: demo\ntasks:\n  a: {needs: [b]}\n")
        folder.write("fails.yaml", "plan: demo\ntasks:\n  a: {run: 'exit 3'}\n")
        done = command.run(*line.split(), cwd=folder.path, fresh=fresh)
        return done.returncode, steady(done.stdout), steady(done.stderr)

    assert both(tmp_path, scenario)[0] == code


def test_stdin_is_read_to_its_end_byte_for_byte(tmp_path: Path) -> None:
    text = b"plan: demo\r\ntasks:\r\n  a: {goal: 'gr\xc3\xbc\xc3\x9fe'}\r\n" + b"# filler\n" * 20_000

    def scenario(folder: Folder, fresh: bool) -> Outcome:
        done = command.run("compile", "-", cwd=folder.path, input=text, text=False, fresh=fresh)
        return done.returncode, done.stdout, done.stderr

    code, out, _ = both(tmp_path, scenario)
    assert (code, "grüße" in out.decode()) == (0, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_signal_ends_it_in_the_same_way(tmp_path: Path, number: signal.Signals) -> None:
    def scenario(folder: Folder, fresh: bool) -> Outcome:
        return after(folder, begun(folder, fresh=fresh), number)

    assert both(tmp_path, scenario)[0] == (-signal.SIGKILL if number is signal.SIGKILL else 8)


def test_ctrl_c_before_it_does_anything_ends_it(tmp_path: Path) -> None:
    """A fork must not lose the signal that comes while the child still becomes the command."""
    codes = set()
    for _ in range(20):
        process = command.start("wait", "plan/none", cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        codes.add(process.returncode)
    assert codes <= {6, 8, -signal.SIGINT}, codes  # 6: the signal came after the answer.


def test_a_command_of_the_plan_gets_the_same_environment_and_limits(tmp_path: Path) -> None:
    given = {**client_process.environment(), "PATH": f"{client_process.environment()['PATH']}:/grüße \udcff"}

    def scenario(folder: Folder, fresh: bool) -> Outcome:
        folder.write("p.yaml", SPY)
        done = command.run("apply", "--yes", "p.yaml", cwd=folder.path, env=given, fresh=fresh)
        seen = (folder.path / "seen").read_text(errors="surrogateescape")
        return done.returncode, seen.replace(str(folder.path), "/HERE")

    code, seen = both(tmp_path, scenario)
    assert code == 0
    assert ":/grüße \udcff\n" in seen and "OLDPWD=/HERE\n" in seen and "unlimited" in seen


def open_files(process: Path) -> set[str]:
    """What the descriptors of a process in /proc refer to. One that it closes meanwhile is left out."""
    found = set()
    for file in (process / "fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(str(file.readlink()))
    return {file for file in found if "/libffi." not in file}  # Newer versions keep it open after the first callback.


def test_files_signals_folder_and_session_of_the_process_are_the_same(tmp_path: Path) -> None:
    def scenario(folder: Folder, fresh: bool) -> Outcome:
        process = begun(folder, fresh=fresh, start_new_session=True)
        place = Path("/proc") / str(process.pid)
        server = Path("/proc") / str(command.server(os.getpid()).process.pid)
        status = dict(line.split(":\t", 1) for line in (place / "status").read_text().splitlines())
        kept = {name: status[name] for name in ("Umask", "SigBlk", "SigIgn", "SigCgt", "Groups", "CapEff")}
        files = open_files(place)
        session = os.getsid(process.pid) == os.getpgid(process.pid) == process.pid
        cwd = (place / "cwd").readlink() == folder.path
        after(folder, process, signal.SIGKILL)
        shared = files & open_files(server)
        outside = {file for file in files if file.startswith("/") and not file.startswith(str(folder.path))}
        return kept, outside, session, cwd, shared

    *_, session, cwd, shared = both(tmp_path, scenario)
    assert session and cwd
    assert shared <= {"/dev/null"}, "files of the server that the command has too"


def test_without_a_new_session_it_is_in_the_group_of_its_starter(tmp_path: Path) -> None:
    def scenario(folder: Folder, fresh: bool) -> Outcome:
        process = begun(folder, fresh=fresh)
        ids = os.getsid(process.pid), os.getpgid(process.pid)
        after(folder, process, signal.SIGKILL)
        return ids

    assert both(tmp_path, scenario) == (os.getsid(0), os.getpgid(0))


def test_on_a_terminal_it_shows_the_live_tree(tmp_path: Path) -> None:
    given = {**client_process.environment(), "TERM": "xterm-256color", "COLUMNS": "80", "NO_COLOR": ""}

    def scenario(folder: Folder, fresh: bool) -> Outcome:
        folder.write("p.yaml", "plan: demo\ntasks:\n  a: {run: 'true'}\n")
        ours, theirs = pty.openpty()
        words, on = ("apply", "--yes", "p.yaml"), theirs
        process = command.start(*words, cwd=folder.path, stdin=on, stdout=on, stderr=on, env=given, fresh=fresh)
        os.close(theirs)
        seen = b""
        with suppress(OSError):  # A terminal that no process writes to has no more to read.
            while piece := os.read(ours, 1 << 16):
                seen += piece
        os.close(ours)
        return process.wait(), b"\x1b[" in seen, "✔ a" in seen.decode(), seen.count(b"\n") == seen.count(b"\r\n")

    assert both(tmp_path, scenario) == (0, True, True, True)


def test_broken_pipe_is_not_a_failure_and_a_full_disk_is(tmp_path: Path) -> None:
    def scenario(folder: Folder, fresh: bool) -> Outcome:
        read, write = os.pipe()
        os.close(read)
        found: list[object] = []
        full = os.open("/dev/full", os.O_WRONLY)
        for out in (write, full):
            process = command.start("schema", cwd=folder.path, stdout=out, stderr=subprocess.PIPE, fresh=fresh)
            _, err = process.communicate()
            os.close(out)
            found += [process.returncode, steady(err)]
        return tuple(found)

    broken, _, full, said = both(tmp_path, scenario)
    assert broken == 0
    assert full != 0 and "the disk is full" in said


def test_timed_out_wait_is_reported_and_the_process_continues(tmp_path: Path) -> None:
    def scenario(folder: Folder, fresh: bool) -> Outcome:
        process = begun(folder, fresh=fresh)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.05)
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=0.05)
        alive = process.poll()
        process.terminate()
        ended = process.wait(timeout=20)
        process.kill()  # Of a process that has ended: nothing happens.
        process.communicate()
        folder.run("down", "--force")
        return alive, ended, process.poll()

    assert both(tmp_path, scenario) == (None, 8, 8)


@pytest.mark.timeout(60)
def test_several_threads_that_wait_for_one_process_all_see_its_end(tmp_path: Path) -> None:
    """A thread that begins to wait as another sees the end must not wait for the next command instead."""
    for _ in range(10):
        process = command.start("version", cwd=tmp_path, stdout=subprocess.DEVNULL)
        with ThreadPoolExecutor(8) as threads:
            waits = [threads.submit(process.wait) for _ in range(8)]
            while process.poll() is None:
                waits.append(threads.submit(process.wait))
        assert {wait.result() for wait in waits} == {0}


@pytest.mark.parametrize("changed", [{"PLANLOOP_PLAN": "x"}, {"LC_ALL": "C"}, {"PYTHONHASHSEED": "3"}, {"TZ": "UTC"}])
def test_an_environment_that_counts_at_a_start_starts_python(tmp_path: Path, changed: dict[str, str]) -> None:
    kinds = []
    for more in ({"OTHER": "x"}, changed):
        with command.start(
            "version", cwd=tmp_path, env={**client_process.environment(), **more}, stdout=subprocess.DEVNULL
        ) as process:
            kinds.append(type(process))
        assert process.returncode == 0
    assert kinds == [Forked, subprocess.Popen]


OWNER = """\
import sys
from pathlib import Path
from tests.e2e import command
process = command.start("apply", "p.yaml", cwd=Path(sys.argv[1]), stdout=open("out", "w"))
print(process.pid, command.server(__import__("os").getpid()).process.pid, flush=True)
input()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_server_and_its_commands_end_with_the_process_that_started_it(tmp_path: Path, number: int) -> None:
    (tmp_path / "p.yaml").write_text(PLAN)
    # Nightly starts Python for each command, and this is about the server.
    given = {**client_process.environment(), "PYTHONPATH": str(ROOT), sets.SET: "change", command.FRESH: ""}
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        cwd=tmp_path,
        env=given,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        pidfds = [os.pidfd_open(int(pid)) for pid in starter.stdout.readline().split()]
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        starter.send_signal(number)
    for pidfd in pidfds:
        assert select.select([pidfd], [], [], 20)[0], "it has not ended"
        os.close(pidfd)
    Folder(tmp_path).run("down", "--force")
