"""A folder with a plan in it, and the real `plan` command run there as a person would."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planloop.cli import apply_run
from planloop.client import process
from planloop.client.owner_client import OwnerClient, OwnerGone
from tests.e2e import command
from tests.product import CommandExit as Exit


@dataclass(frozen=True, slots=True)
class Said:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


@dataclass(slots=True)
class Owner:
    """A running `plan apply`. Its lines are read as they come, so waiting for one needs no sleeping."""

    process: subprocess.Popen[str]
    seen: list[str] = field(default_factory=list)

    def until(self, pattern: str) -> str:
        """The first line from here on that matches; the test's timeout is the bound."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.seen.append(line)
            if re.search(pattern, line):
                return line
        raise AssertionError(f"it ended without saying {pattern!r}:\n{''.join(self.seen)}")

    def ended(self) -> int:
        """Its exit code, once it has ended by itself."""
        assert self.process.stdout is not None
        self.seen += list(self.process.stdout)
        return self.process.wait()

    @property
    def text(self) -> str:
        return "".join(self.seen)


@dataclass(frozen=True, slots=True)
class Folder:
    """Where the plan file lies. `run` ends with the command; `started` leaves an owner running meanwhile."""

    path: Path

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.write_text(text)
        return file

    def run(
        self,
        *words: str,
        timeout_s: float = 110.0,
        path: str | None = None,
        env: Mapping[str, str] | None = None,
        fresh: bool = False,
    ) -> Said:
        """Runs `plan` with `words` to its end; `path` replaces the folders where programs are looked for.

        `fresh` starts Python instead of forking a process that has the command loaded.
        """
        given = {**process.environment(), **(env or {}), **({} if path is None else {"PATH": path})}
        done = command.run(*words, cwd=self.path, env=given, timeout_s=timeout_s, fresh=fresh)
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return Said(done.returncode, done.stdout, done.stderr)

    def done(self, text: str) -> Said:
        """What `plan apply` said of a plan with this text, which ran to its end and is done."""
        self.write("task.yaml", text)
        said = self.run("apply", "--yes", "task.yaml")
        assert said.code == 0, said.text
        return said

    def json(self, *words: str) -> Any:
        said = self.run(*words, "-o", "json")
        assert said.code == 0, said.err
        return json.loads(said.out)

    def states(self) -> dict[str, str]:
        """The state of every task, by address."""
        return {task["address"]: task["status"].get("state", "") for task in self.json("get", "tasks")}

    def send(self, agent: str, text: str) -> None:
        """Send `text` to an agent as soon as it exists, which is after its task is shown as running."""
        while self.run("get", f"agent/{agent}").code == Exit.NOT_FOUND:
            continue
        said = self.run("send", agent, text)
        assert said.code == 0, said.text

    def records(self) -> list[dict[str, Any]]:
        """The log, oldest first, from its mirror."""
        (mirror,) = (self.path / ".plan").glob("*/events.jsonl")
        return [json.loads(line) for line in mirror.read_text().splitlines() if line.endswith("}")]

    @contextmanager
    def started(self, *words: str, fresh: bool = False) -> Iterator[Owner]:
        """`plan apply …` running; killed with whatever it left when the block ends."""
        pipe, both = subprocess.PIPE, subprocess.STDOUT
        with command.start("apply", *words, cwd=self.path, stdout=pipe, stderr=both, fresh=fresh) as process:
            owner = Owner(process)
            try:
                yield owner
            finally:
                process.kill()
                for pid in self.processes():
                    with suppress(ProcessLookupError):  # Some are short: it has ended by itself.
                        os.kill(pid, signal.SIGKILL)

    @contextmanager
    def owned(self, name: str, text: str) -> Iterator[None]:
        """An owner of the plan in the file `name`, which stays as with `--detach`. It ends with the block.

        `plan apply --detach` starts Python again for the owner; here it is forked like any other command.
        """
        self.write(name, text)
        plan = re.search(r'(?m)^plan: *"?([^"\s]+)', text)
        place = self.path / ".plan" / (plan[1] if plan else name.partition(".")[0])
        place.mkdir(parents=True, exist_ok=True)
        words = ("apply", "--yes", "--stay", name)
        with (place / apply_run.OWNER_LOG).open("a") as out:
            owner = command.start(*words, cwd=self.path, stdout=out, stderr=out, start_new_session=True)
        try:
            while not _answers(place):
                assert owner.poll() is None, (place / apply_run.OWNER_LOG).read_text()
                time.sleep(0.01)
            yield
        finally:
            self.run("down", "--force")
            owner.kill()
            owner.wait()
            for pid in self.processes():
                with suppress(ProcessLookupError):  # It has ended by itself.
                    os.kill(pid, signal.SIGKILL)

    @contextmanager
    def killed(self, *words: str, fresh: bool = False) -> Iterator[Owner]:
        """`plan apply …` running; at the end of the block it is killed -9, and what it started is left alone."""
        with (self.path / "owner.out").open("a") as out:
            process = command.start("apply", *words, cwd=self.path, stdout=out, stderr=out, fresh=fresh)
        try:
            yield Owner(process)
        finally:
            process.kill()
            process.wait()

    def processes(self) -> list[int]:
        """Processes that carry the label of a plan of this folder and are not a `plan` command."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environment = (folder / "environ").read_bytes()
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                here = (folder / "cwd").readlink()
            except OSError:
                continue
            if b"PLANLOOP_OP=" in environment and state != "Z" and here.is_relative_to(self.path):
                found.append(int(folder.name))
        return found


def _answers(place: Path) -> bool:
    """Whether the owner of the plan in that folder answers requests."""
    try:
        OwnerClient(place).get("status")
    except OwnerGone:
        return False
    return True
