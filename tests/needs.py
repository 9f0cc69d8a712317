"""Programs and rights that tests need: each function returns one, or skips the test with the reason and the remedy.

A test states what it needs with a mark (`browser`, `engine`, or `needs("git")` with a name of NEEDS) or a call
(`needs.git()`). If PLANLOOP_NEEDS is `must`, as in `.ci/run`, every skipped test fails, also one that skips for another
reason. The last line of a run counts the skipped tests by what was missing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

import pytest
from _pytest.terminal import TerminalReporter

if TYPE_CHECKING:  # Most tests need no engine.
    from planloop.containers.engine.docker_engine import DockerEngine

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

MUST: Final = "PLANLOOP_NEEDS"
PODMAN: Final = "PLANLOOP_PODMAN"
"""The address of Podman's Docker socket."""
PODMAN_FILE: Final = "test_podman_engine.py"
SETUP: Final = "sudo make setup"
AS_ROOT: Final = "run the tests as root"
CHROMIUM: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""The names in `planloop.controllers.task.checks.web.child`, which takes too long to import for this."""
REASON: Final = re.compile(r"needs (?P<what>[^:(]+?)(?: \(.*\))?: (?P<remedy>[^:]+)", re.DOTALL)


def missing(what: str, remedy: str = SETUP, why: str = "") -> NoReturn:
    """Skip the test: `what` is missing, `remedy` is the command that provides it, `why` the machine's own message."""
    said = f" ({why.strip()})" if why else ""
    pytest.skip(f"needs {what}{said}: {remedy}")


def program(name: str, what: str = "", remedy: str = SETUP) -> str:
    """The path of the program `name`."""
    return shutil.which(name) or missing(what or name, remedy)


def git() -> str:
    return program("git")


def node() -> str:
    """The path of `node`; `make test` installs it, from PyPI where the machine has none."""
    return program("node", "Node.js", "make node")


def model_server() -> str:
    """The Python that has the small model and its server (`tests/servers/model-requirements.txt`)."""
    from tests.servers import MODEL

    return str(MODEL) if MODEL.exists() else missing("a small model", "make model")


def compose() -> str:
    return program("docker-compose")


def chromium() -> str:
    """The path of Chromium."""
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    return found or missing("Chromium")


def busybox() -> Path:
    """The path of a statically linked busybox, the only program in the images of the tests."""
    found = Path(program("busybox", "a static busybox"))
    return missing("a static busybox") if b"ld-linux" in found.read_bytes()[:4096] else found


def engine(*, sees_host: bool = True) -> DockerEngine:
    """A running container engine, as the environment names it."""
    from planloop.containers.engine.docker_engine import DockerEngine

    if why := _engine_failure():
        missing("a container engine", why=why)
    return DockerEngine(os.environ, sees_host=sees_host)  # noqa: TID251 - as in wiring


@cache
def _engine_failure() -> str:
    import anyio

    from planloop.containers.engine.docker_engine import DockerEngine
    from tests.product import EngineFailed

    try:
        anyio.run(DockerEngine(os.environ).facts)  # noqa: TID251
    except EngineFailed as failed:
        return f"{failed}. {failed.hint}"
    return ""


def dockerd() -> str:
    """The path of dockerd, which a test may start if it runs as root."""
    root()
    return program("dockerd", "a container engine")


def bubblewrap() -> str:
    """The path of `bwrap`, if it may create namespaces."""
    found = program("bwrap", "bubblewrap")
    if why := _bubblewrap_failure(found):
        missing("bubblewrap that may create namespaces", AS_ROOT, why)
    return found


@cache
def _bubblewrap_failure(bwrap: str) -> str:
    words = [bwrap, "--ro-bind", "/", "/", "--unshare-user", "--unshare-net", "--proc", "/proc", "true"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr or f"exit code {done.returncode}"


def root() -> None:
    if os.geteuid() != 0:
        missing("root", AS_ROOT)


def cgroups() -> None:
    """Control groups that the product may create for commands."""
    from planloop.containers.sandbox import cgroups as product

    if product.find_cgroups("test-looks") is None:
        missing("writable control groups", AS_ROOT)


def small_disk(folder: Path, size: str) -> None:
    """Mount a file system of `size` at `folder`. The caller unmounts it."""
    root()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        missing("the right to mount", AS_ROOT, done.stderr)


def other_disk(than: Path) -> Path:
    """A folder on another file system than `than`."""
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == than.stat().st_dev:
        missing("a second file system at /dev/shm", "mount -t tmpfs tmpfs /dev/shm")
    return other


def linux() -> None:
    if not sys.platform.startswith("linux"):
        missing("Linux", "run the tests on Linux")


NEEDS: Final[Mapping[str, Callable[[], object]]] = {
    one.__name__: one
    for one in (bubblewrap, busybox, cgroups, chromium, compose, dockerd, engine, git, linux, model_server, node, root)
}
BY_MARK: Final[Mapping[str, Callable[[], object]]] = {"browser": chromium, "engine": engine, "model": model_server}


def closing_line(reasons: Iterable[str]) -> str:
    """Count the skips by what was missing: `skipped tests: 12 need git (sudo make setup); 3 need root (…)`."""
    found = [match for reason in reasons if (match := REASON.search(reason))]
    if not found:
        return ""
    counts = Counter(match["what"] for match in found)
    remedies = {match["what"]: match["remedy"] for match in found}
    by_remedy: dict[str, list[str]] = {}
    for what, count in counts.most_common():
        by_remedy.setdefault(remedies[what], []).append(f"{count} {'need' if count > 1 else 'needs'} {what}")
    parts = (f"{', '.join(whats)} ({remedy})" for remedy, whats in by_remedy.items())
    return f"skipped tests: {'; '.join(parts)}"


class Needs:
    """The hooks of this module: `tests/conftest.py` registers an instance."""

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        return True if collection_path.name == PODMAN_FILE and PODMAN not in os.environ else None  # noqa: TID251

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        for mark in item.iter_markers():
            if mark.name in BY_MARK:
                BY_MARK[mark.name]()
            elif mark.name == "needs":
                for name in mark.args:
                    NEEDS[name]()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        return _judged((yield))

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        return _judged((yield))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        yield  # The terminal writes its closing line here.
        terminal = session.config.pluginmanager.get_plugin("terminalreporter")
        if not isinstance(terminal, TerminalReporter):
            return  # A worker of pytest-xdist.
        skipped = [report.longrepr for report in terminal.stats.get("skipped", ())]
        if line := closing_line(one[2] for one in skipped if isinstance(one, tuple)):
            terminal.write_line(line)
        if PODMAN not in os.environ and session.config.getoption("suite_set", None) == "nightly":  # noqa: TID251
            terminal.write_line(f"not run: {PODMAN_FILE}, because {PODMAN} has no address of a Podman socket")


def _judged(report: Report) -> Report:
    """Turn the report of a skip into a failure if this run may skip nothing."""
    if report.skipped and os.environ.get(MUST) == "must":  # noqa: TID251 - workers inherit it
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        report.outcome = "failed"
        report.longrepr = f"{reason}\n{MUST}=must: no test may be skipped"
    return report
