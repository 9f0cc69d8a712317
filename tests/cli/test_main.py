"""The command as a whole: its verbs, what it imports, how it ends."""

from __future__ import annotations

import errno
import importlib
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from planloop.cli.main import VERBS, cli, run_command_line
from planloop.client import error_report
from planloop.client.process import command_line
from tests import golden_text, rows
from tests.product import CommandError
from tests.product import CommandExit as Exit

EXAMPLES = Path(__file__).parents[2] / "plans" / "examples"
MISSING = "missing.plan.yaml"
HEAVY = ("pydantic", "asyncio", "yaml", "rich", "anyio", "aiohttp", "watchfiles", "http.client")


@rows.each("verb", VERBS)
def test_the_line_in_the_list_of_verbs_is_the_verbs_own(verb: str) -> None:
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None

    assert (command.help or "").splitlines()[0] == VERBS[verb]


@rows.each("verb", VERBS)
def test_every_verb_has_an_example_in_its_help(verb: str) -> None:
    said = CliRunner().invoke(cli, [verb, "--help"], prog_name="plan")

    assert said.exit_code == 0
    assert "Example" in said.output
    assert f"plan {verb}" in said.output.partition("Example")[2]


@pytest.mark.parametrize(
    ("words", "named"),
    [(["--new-tokens"], "--new-tokens"), (["--port", "7078"], "--port"), (["--tls-key", "k", "--insecure"], "and")],
)
def test_mcp_refuses_over_standard_input_what_it_could_only_ignore(words: list[str], named: str) -> None:
    said = CliRunner().invoke(cli, ["mcp", *words], prog_name="plan")

    assert isinstance(said.exception, CommandError)
    assert said.exception.exit is Exit.USAGE
    assert named in said.exception.summary


def test_the_help_of_init_names_every_example() -> None:
    said = CliRunner().invoke(cli, ["init", "--help"], prog_name="plan").output

    assert {path.name for path in EXAMPLES.iterdir() if path.name not in said} == set()


@pytest.mark.parametrize("words", [["--help"], ["get"], ["version"], ["tree"], ["history"]], ids=" ".join)
def test_the_fast_paths_import_nothing_heavy(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    run = f"from planloop.cli.main import run_command_line; run_command_line({words})"
    code = f"import sys; {run}; print(*sys.modules, file=sys.stderr)"
    here = tmp_path_factory.mktemp("nothing")
    root = str(importlib.import_module("planloop").__path__[0]).rpartition("/")[0]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); {code}"],
        cwd=here,
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = set(done.stderr.splitlines()[-1].split())
    assert loaded.isdisjoint(HEAVY)


def test_a_slip_in_the_verb_is_usage_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["gett"]) == Exit.USAGE
    golden_text.said_in(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["bench", "run", "notes.yaml"], "plan bench run --help"),
        (["bench", "report", "-o", "xml"], "plan bench report --help"),
        (["bench", "show"], "plan bench --help"),
        (["get", "--nope"], "plan get --help"),
        (["mcp", "--print-config"], "plan mcp --help"),
        (["--nope"], "plan --help"),
    ],
)
def test_wrong_usage_gets_the_help_of_the_intended_command(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(words) == Exit.USAGE
    assert capsys.readouterr().err.endswith(f"help: {meant}\n")


def test_exit_codes_are_the_promised_numbers() -> None:
    assert {one.name: one.value for one in Exit} == {
        "DONE": 0,
        "FAILED": 1,
        "USAGE": 2,
        "INVALID": 3,
        "CONFLICT": 4,
        "REFUSED": 5,
        "NOT_FOUND": 6,
        "CANCELLED": 8,
        "TIMEOUT": 9,
        "FINISHED_WITH_FAILURES": 10,
        "BUG": 70,
    }


def test_ending_prints_a_line_for_each_error_and_each_fix() -> None:
    end = CommandError(Exit.REFUSED, "one\ntwo", "this\nor that", label="refused")

    assert end.text() == "refused: one\nrefused: two\nhelp: this\nhelp: or that"


def test_a_bug_of_ours_is_one_report_line_with_a_saved_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    @cli.command("broken-for-test")
    def broken() -> None:
        raise ZeroDivisionError("by us")

    VERBS["broken-for-test"] = "x"
    sys.modules["planloop.cli.broken-for-test"] = type(sys)("x")
    sys.modules["planloop.cli.broken-for-test"].command = broken  # type: ignore[attr-defined]
    try:
        assert run_command_line(["broken-for-test"]) == Exit.BUG
    finally:
        del VERBS["broken-for-test"], sys.modules["planloop.cli.broken-for-test"]

    err = capsys.readouterr().err
    assert "Traceback" not in err
    report = err.partition("report: ")[2].splitlines()[0]
    with open(report) as file:  # noqa: PTH123 - the path is text out of a message
        assert "ZeroDivisionError: by us" in file.read()


@pytest.mark.parametrize(
    ("code", "file", "named"),
    [
        (errno.EACCES, "/srv/my plans/a.yaml", ("permission denied", "ls -ld '/srv/my plans'")),
        (errno.EPERM, None, ("permission denied", "ls -ld .")),
        (errno.EROFS, "/srv/a.yaml", ("read-only (/srv/a.yaml)", "a writable folder")),
    ],
)
def test_a_refused_write_names_the_folder_to_look_at(code: int, file: str | None, named: tuple[str, str]) -> None:
    known = error_report.explain_exception(OSError(code, "refused", file))

    assert known is not None and known.exit == Exit.FAILED
    assert all(part in known.text() for part in named)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_the_command(shell: str) -> None:
    said = CliRunner().invoke(cli, ["completion", shell], prog_name="plan")

    assert said.exit_code == 0
    assert "_PLAN_COMPLETE" in said.output


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_stream_is_not_an_internal_error(closed: str, tmp_path: Path) -> None:
    line = f"{sys.executable} -m planloop validate {MISSING} {closed}"
    assert subprocess.run(["sh", "-c", line], cwd=tmp_path, check=False).returncode == Exit.NOT_FOUND


def test_reader_that_stops_early_is_not_a_failure() -> None:
    line = f"{sys.executable} -m planloop schema | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", line], check=False).returncode == Exit.DONE


@pytest.mark.parametrize("text", ["1e999", "NaN", '"\\ud800"', '"\udcff"'])
def test_unstorable_argument_is_a_usage_error_and_not_an_internal_one(text: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "planloop"]
    (tmp_path / "p.yaml").write_text("plan: p\ntasks: {a: {run: 'true'}}\n")
    subprocess.run([*words, "apply", "p.yaml"], cwd=tmp_path, check=True, capture_output=True)
    ops = f'[{{"op": "add", "path": "/notes", "value": {text}}}]'.encode(errors="surrogateescape")
    done = subprocess.run([*words, "patch", "--json", ops], cwd=tmp_path, check=False, capture_output=True)
    assert done.returncode == Exit.USAGE, done.stderr


def test_missing_plan_file_gets_a_list_of_existing_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command_line(["diff"]) == Exit.USAGE
    assert "plan init" in capsys.readouterr().err
    (tmp_path / "web.plan.yaml").write_text("plan: web")
    assert run_command_line(["diff"]) == Exit.USAGE
    golden_text.said_in(capsys.readouterr().err)


def test_as_a_module_it_loads_nothing_of_the_folder_that_it_is_started_in(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("print('loaded')\n")
    for words in ([sys.executable, "-m", "planloop", "version"], command_line("version")):
        ended = subprocess.run(words, cwd=tmp_path, capture_output=True, check=True, text=True)
        assert ended.stdout.startswith("planloop ")

    (tmp_path / "runpy.py").write_text("print('loaded')\n")
    ended = subprocess.run(command_line("version"), cwd=tmp_path, capture_output=True, check=True, text=True)
    assert ended.stdout.startswith("planloop ")
