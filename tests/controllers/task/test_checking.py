"""Each kind of check against real files, processes, sockets and HTTP."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socket import create_server
from typing import Any, Final

import pytest

from planloop.controllers.task.checks.files import open_parent_folder
from planloop.controllers.task.checks.run import (
    CheckEnvironment,
    CheckFinding,
    load_runner,
    load_verdict,
    run_check,
    run_checks,
)
from planloop.reconciler.effects.local_processes import LocalProcesses
from planloop.schemas.checks.kinds import CHECK_KINDS, CheckKind, DeclaredCheck
from tests.controllers.task.harness import ENV, sh
from tests.golden_text import said
from tests.product import CheckSpec, RandomIds

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> CheckEnvironment:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    processes = LocalProcesses(tmp_path / "run", str(tmp_path), 1, grace_s=0.5)
    return CheckEnvironment(processes, RandomIds(), str(workspace), None, ENV)


async def find(bench: CheckEnvironment, kind: str, timeout_s: float = 10.0, **arguments: Any) -> CheckFinding:
    return await run_check(CheckSpec("0", kind, arguments, timeout_s), bench)


def write(bench: CheckEnvironment, name: str, content: str) -> None:
    Path(bench.cwd, name).write_text(content)


@pytest.mark.parametrize(
    ("command", "result", "words"),
    [
        ("true", "pass", "exit code 0"),
        ("echo 2 of 9 failed; exit 1", "fail", "exit code 1: 2 of 9 failed"),
        ("no-such-program", "error", "exit code 127"),
        ("kill -9 $$", "fail", "exit code -9"),
    ],
)
async def test_sh_holds_when_the_command_ends_well(
    bench: CheckEnvironment, command: str, result: str, words: str
) -> None:
    found = await find(bench, "sh", shell=command)

    assert found.result == result
    assert words in found.message


async def test_sh_takes_a_program_with_arguments_and_keeps_the_whole_output(bench: CheckEnvironment) -> None:
    found = await find(bench, "sh", argv=["seq", "1", "5000"])

    assert found.result == "pass"
    assert found.output.split()[-1] == b"5000"


async def test_timed_out_command_is_an_error_and_its_group_is_ended(bench: CheckEnvironment) -> None:
    found = await find(bench, "sh", timeout_s=0.1, shell="sleep 600 & wait")

    assert found.result == "error"
    said(found.message)
    assert await bench.processes.sweep(frozenset()) == []


async def test_checks_leave_no_files_behind(bench: CheckEnvironment, tmp_path: Path) -> None:
    await find(bench, "sh", shell="echo a")

    assert [file.name for file in (tmp_path / "run").iterdir() if file.suffix == ".out"] == []


READERS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("json", {"subset": {"seed": "zzz"}}),
    ("contains", {"pattern": "seed"}),
    ("contains", {"text": "seed"}),
    ("require-file", {}),
)


@pytest.mark.parametrize(
    ("path", "link"),
    [
        ("plan.json", "plan.json"),
        ("root/plan.json", "root"),
        ("deep/../root/plan.json", "deep/../root"),
        ("twice", "twice"),
        ("root/missing", "root"),
        ("../beside.json", "../beside.json"),
    ],
)
async def test_link_out_of_the_workspace_shows_a_check_nothing(
    bench: CheckEnvironment, tmp_path_factory: pytest.TempPathFactory, path: str, link: str
) -> None:
    workspace, outside = Path(bench.cwd), tmp_path_factory.mktemp("outside")
    (outside / "plan.json").write_text('{"seed": 4711}')
    (workspace / "deep").mkdir()
    (workspace / "plan.json").symlink_to(outside / "plan.json")
    (workspace / "root").symlink_to(outside)
    (workspace / "twice").symlink_to("plan.json")
    (workspace.parent / "beside.json").symlink_to(outside / "plan.json")

    found = [await find(bench, kind, path=path, **arguments) for kind, arguments in READERS]

    assert [one.result for one in found] == ["fail"] * len(READERS)
    end = f": the link {link} points outside the workspace"
    assert [one.message for one in found if not one.message.endswith(end)] == []
    assert "4711" not in f"{found}"


async def test_workspace_swapped_for_a_link_shows_a_check_nothing_behind_it(
    bench: CheckEnvironment, tmp_path: Path
) -> None:
    workspace, outside = Path(bench.cwd), tmp_path / "outside"
    outside.mkdir()
    (outside / "plan.json").write_text('{"seed": 4711}')
    (workspace / "plan.json").write_text("{}")
    firm, stop = replace(bench, no_links_from=str(tmp_path)), threading.Event()

    def swap() -> None:
        while not stop.is_set():
            workspace.rename(tmp_path / "real")
            workspace.symlink_to(outside)
            workspace.unlink()
            (tmp_path / "real").rename(workspace)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        found: list[CheckFinding] = []
        while len(found) < 400 or not any("points outside" in one.message for one in found):
            found.append(await find(firm, "contains", path="plan.json", text="4711"))
    finally:
        stop.set()
        thread.join()
    assert {one.result for one in found} == {"fail"}

    workspace.rename(tmp_path / "real")
    workspace.symlink_to(outside)
    for kind, arguments in (("require-file", {}), ("contains", {"text": "4711"}), ("json", {"subset": {"seed": 4711}})):
        seen = await find(firm, kind, path="plan.json", **arguments)
        assert seen.result == "fail"
        said(seen.message)


def test_link_made_during_a_check_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, opened, real_open = tmp_path / "a/b", list[str](), os.open
    (tmp_path / "outside/b").mkdir(parents=True)
    workspace.mkdir(parents=True)

    def open_late(path: str, flags: int, *, dir_fd: int | None = None) -> int:
        if not opened:
            (tmp_path / "a").rename(tmp_path / "away")
            (tmp_path / "a").symlink_to("outside")
        opened.append(path)
        return real_open(path, flags, dir_fd=dir_fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", open_late)
        with pytest.raises(OSError), open_parent_folder(str(workspace), "x", no_links_from=str(tmp_path)):
            pass

    assert opened == [str(tmp_path), "a"]  # Nothing around the plan's folder has to be readable.


@pytest.mark.parametrize("name", ["x", "../x", "../../x"])
def test_file_beside_the_workspace_is_found_around_the_plans_folder_too(tmp_path: Path, name: str) -> None:
    (tmp_path / "plan/work").mkdir(parents=True)

    with open_parent_folder(str(tmp_path / "plan/work"), name, no_links_from=str(tmp_path / "plan")) as spot:
        found = str(Path(f"/proc/self/fd/{spot.folder}").readlink()) if Path("/proc/self/fd").is_dir() else ""
        assert spot.name == "x" and found in ("", os.path.normpath(tmp_path / "plan/work" / name / ".."))


@pytest.mark.parametrize(("kind", "arguments"), [*READERS[1:], ("json", {"subset": {"seed": 4711}})])
@pytest.mark.parametrize("path", ["link", "way/x.json", "whole", "deep/../link", "../shared/x.json"])
async def test_a_link_that_stays_inside_is_followed_by_a_check(
    bench: CheckEnvironment, kind: str, arguments: dict[str, Any], path: str
) -> None:
    workspace, shared = Path(bench.cwd), Path(bench.cwd).parent / "shared"
    for folder in (workspace / "deep", shared):
        folder.mkdir()
        (folder / "x.json").write_text('{"seed": 4711}')
    (workspace / "link").symlink_to("deep/x.json")
    (workspace / "way").symlink_to("deep")
    (workspace / "whole").symlink_to(workspace / "deep/x.json")

    assert (await find(bench, kind, path=path, **arguments)).result == "pass"


async def test_circular_links_fail_a_check(bench: CheckEnvironment) -> None:
    Path(bench.cwd, "a").symlink_to("b")
    Path(bench.cwd, "b").symlink_to("a")

    assert [(await find(bench, kind, path="a", **arguments)).result for kind, arguments in READERS] == ["fail"] * 4


async def test_require_file_needs_a_non_empty_file(bench: CheckEnvironment) -> None:
    said((await find(bench, "require-file", path="README.md")).message)
    write(bench, "README.md", "")
    said((await find(bench, "require-file", path="README.md")).message)
    assert (await find(bench, "require-file", path="README.md", empty=True)).result == "pass"
    write(bench, "README.md", "words")
    assert (await find(bench, "require-file", path="README.md")).result == "pass"
    assert (await find(bench, "require-file", path="README.md/below")).result == "fail"
    Path(bench.cwd, "folder").mkdir()
    said((await find(bench, "require-file", path="folder")).message)


async def test_contains_looks_for_a_text_or_a_pattern(bench: CheckEnvironment) -> None:
    write(bench, "a.txt", "one\nnpm start\nthree")

    assert (await find(bench, "contains", path="a.txt", text="npm start")).result == "pass"
    said((await find(bench, "contains", path="a.txt", text="npm run")).message)
    assert (await find(bench, "contains", path="a.txt", pattern="^npm (start|run)$")).result == "pass"
    assert (await find(bench, "contains", path="a.txt", pattern="^four")).result == "fail"
    assert (await find(bench, "contains", path="a.txt", pattern="(")).result == "error"
    said((await find(bench, "contains", path="missing", text="x")).message)


async def test_contains_reads_a_file_in_its_own_encoding(bench: CheckEnvironment) -> None:
    for name, encoding in (("utf-16", "utf-16"), ("latin", "latin-1")):
        Path(bench.cwd, name).write_bytes("one\ncafé\n".encode(encoding))

        assert (await find(bench, "contains", path=name, text="café")).result == "pass"
        assert (await find(bench, "contains", path=name, pattern="^caf.$")).result == "pass"
        assert (await find(bench, "contains", path=name, text="cafè")).result == "fail"


async def test_a_pattern_that_would_take_years_is_stopped_at_its_time(bench: CheckEnvironment) -> None:
    write(bench, "a.txt", "a" * 40 + "b")

    found = await find(bench, "contains", timeout_s=0.3, path="a.txt", pattern="(a+)+$")
    assert found.result == "error"
    said(found.message)


@pytest.mark.parametrize("kind", ["contains", "json"])
async def test_pipe_without_a_writer_fails_immediately(bench: CheckEnvironment, kind: str) -> None:
    os.mkfifo(Path(bench.cwd, "pipe"))

    found = await find(bench, kind, path="pipe", text="x", subset={})
    assert found.result == "fail"
    said(found.message)


@pytest.mark.parametrize(
    ("kind", "words"),
    [("contains", "Too many levels"), ("json", "Too many levels"), ("require-file", "is not a regular file")],
)
async def test_circular_link_is_not_a_file(bench: CheckEnvironment, kind: str, words: str) -> None:
    Path(bench.cwd, "a").symlink_to("b")
    Path(bench.cwd, "b").symlink_to("a")

    found = await find(bench, kind, path="a", text="x", subset={})
    assert (found.result, words in found.message) == ("fail", True)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a": 1e999}', '"\\ud800"'])
async def test_unrepresentable_json_is_a_fail(bench: CheckEnvironment, content: str) -> None:
    write(bench, "p.json", content)

    assert (await find(bench, "json", path="p.json", subset={"a": 1})).result == "fail"


async def test_json_requires_the_members_of_the_subset_and_allows_more(bench: CheckEnvironment) -> None:
    write(bench, "p.json", '{"private": true, "scripts": {"test": "x"}, "list": [1, {"a": 2, "b": 3}]}')

    assert (await find(bench, "json", path="p.json", subset={"private": True})).result == "pass"
    assert (await find(bench, "json", path="p.json", subset={"list": [1, {"a": 2}]})).result == "pass"
    wrong = await find(bench, "json", path="p.json", subset={"scripts": {"test": "y"}})
    said(wrong.message)
    assert (await find(bench, "json", path="p.json", subset={"private": 1})).result == "fail"
    said((await find(bench, "json", path="p.json", subset={"main": 1})).message)
    said((await find(bench, "json", path="p.json", subset={"list": [1]})).message)


async def test_json_reads_what_a_command_prints(bench: CheckEnvironment) -> None:
    assert (await find(bench, "json", shell="echo '{\"a\": 1}'", subset={"a": 1})).result == "pass"
    assert (await find(bench, "json", shell="echo nonsense", subset={})).result == "fail"
    assert (await find(bench, "json", shell="exit 3", subset={})).result == "error"


class Answers(BaseHTTPRequestHandler):
    """Says what the path asks for."""

    def do_GET(self) -> None:
        status, body = {"/ok": (200, b'{"ok": true, "n": 1}'), "/busy": (503, b"busy")}.get(self.path, (404, b""))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        pass


@pytest.fixture
def site() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


async def test_http_requires_the_status_the_text_and_the_members(bench: CheckEnvironment, site: str) -> None:
    assert (await find(bench, "http", url=f"{site}/ok")).result == "pass"
    assert (await find(bench, "http", url=f"{site}/busy")).message == f"{site}/busy answers 503"
    assert (await find(bench, "http", url=f"{site}/busy", status=503)).result == "pass"
    said((await find(bench, "http", url=f"{site}/ok", status=201)).message, site)
    assert (await find(bench, "http", url=f"{site}/ok", contains='"ok"')).result == "pass"
    assert (await find(bench, "http", url=f"{site}/ok", contains="nope")).result == "fail"
    assert (await find(bench, "http", url=f"{site}/ok", subset={"ok": True})).result == "pass"
    said((await find(bench, "http", url=f"{site}/ok", subset={"n": 2})).message, site)
    assert (await find(bench, "http", url=f"{site}/busy", status=503, subset={})).result == "fail"


async def test_http_check_distinguishes_no_answer_from_an_invalid_request(bench: CheckEnvironment) -> None:
    with create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    assert (await find(bench, "http", url=f"http://127.0.0.1:{port}/")).result == "fail"
    assert (await find(bench, "http", url="not a url")).result == "error"


async def test_http_gives_up_on_a_server_that_never_answers(bench: CheckEnvironment) -> None:
    with create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"

        found = await find(bench, "http", timeout_s=0.1, url=url)
        assert found.result == "fail"
        said(found.message, url, "0.1 s")


async def test_port_holds_when_something_listens(bench: CheckEnvironment) -> None:
    with create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert (await find(bench, "port", port=port, host="127.0.0.1")).result == "pass"

    assert (await find(bench, "port", port=port)).result == "fail"


async def test_unsupported_kind_is_an_error_and_never_a_pass(bench: CheckEnvironment) -> None:
    assert (await find(bench, "judge", value={})).result == "error"


async def test_checks_run_side_by_side_outside_of_any_plan_and_answer_in_order(bench: CheckEnvironment) -> None:
    found = await run_checks([sh("sleep 0.05", "slow"), sh("true", "1"), sh("exit 1", "2")], bench, parallel=2)

    assert [(key, each.result) for key, each in found.items()] == [("slow", "pass"), ("1", "pass"), ("2", "fail")]


@pytest.mark.parametrize("kind", CHECK_KINDS.values(), ids=lambda kind: kind.name)
def test_every_check_kind_has_a_runner_unless_the_compiler_warns_of_it(kind: CheckKind) -> None:
    if not kind.runner:
        assert kind.name == "judge"  # The compiler reports P0407.
        return

    assert inspect.iscoroutinefunction(load_runner(kind.name))


@pytest.mark.parametrize("kind", CHECK_KINDS.values(), ids=lambda kind: kind.name)
def test_every_check_kind_that_runs_a_command_in_the_workspace_has_a_verdict(kind: CheckKind) -> None:
    assert bool(kind.verdict) == (kind.can_run_command and kind.container is None)
    if kind.verdict:
        assert callable(load_verdict(kind.name))


@pytest.mark.parametrize("kind", CHECK_KINDS.values(), ids=lambda kind: kind.name)
def test_the_example_of_every_check_kind_is_lowered_to_arguments_by_name(kind: CheckKind) -> None:
    arguments = kind.arguments(DeclaredCheck(kind.name, {kind.name: kind.field.example}, 10.0))

    assert arguments
    assert "sh" not in arguments  # Admission looks for commands in `shell` and `argv`.


@pytest.mark.parametrize("value", ["should it be readable?", 5, None, {"prompt": "x"}])
def test_a_judge_of_any_shape_is_lowered(value: Any) -> None:
    assert CHECK_KINDS["judge"].arguments(DeclaredCheck("judge", {"judge": value}, 10.0))
