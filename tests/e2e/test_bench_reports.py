"""`plan bench report`: runs are listed and compared, and broken ones are reported."""

from __future__ import annotations

import json
import shutil
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests import golden_text
from tests.e2e import bench_suite
from tests.e2e.folder import Folder
from tests.e2e.test_terminal import terminal
from tests.fakes.model_server.running import started

pytestmark = [pytest.mark.process, pytest.mark.needs("bubblewrap"), pytest.mark.timeout(180)]

SUITE = """\
suite: notes
defaults: {soft: [churn, lint, runtime]}
cases:
  greeting:
    prompts: [write hello into greeting.txt]
    checks: {says-hello: {contains: {path: greeting.txt, text: hello}}}
    proof: {oracles: {plain: {files: {greeting.txt: hello}}}}
  farewell:
    prompts: [write bye into farewell.txt]
    checks: {says-bye: {contains: {path: farewell.txt, text: bye}}}
    proof: {oracles: {plain: {files: {farewell.txt: bye}}}}
"""
PAGE = """\
suite: notes
cases:
  form:
    prompts: [wait]
    checks:
      signs: {{web: {{url: "{url}", can: [{{fill: {{user-field: ada}}}}, {{see: user-field}}]}}}}
      writes:
        web:
          url: "{url}"
          can: [{{fill: {{user-field: ada}}}}, {{fill: {{message-field: hello}}}}, {{see: user-field}}]
    proof: {{oracles: {{plain: {{says: waited}}}}}}
"""
HASTY = '{"*": [{call: {write: {path: greeting.txt, content: hello}}}, {done: ok}]}'
ASKED = ("bench", "run", "notes.yaml", "--model", "script:hasty.yaml", "--deterministic")


class _Form(BaseHTTPRequestHandler):
    """A field with a label, and one that only its position labels."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<label>User name <input name=user></label><input placeholder=Message>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        pass


def ran(folder: Folder, *words: str) -> Path:
    """A run of the suite, whatever it is to be."""
    folder.write("notes.yaml", SUITE)
    folder.write("hasty.yaml", HASTY)
    said = folder.run(*ASKED, *words)
    assert said.code == 0, said.text
    return folder.path / said.out.splitlines()[-1]


def of(path: Path) -> Any:
    return json.loads(path.read_text())


def untimed(path: Path) -> Any:
    found = of(path)
    del found["timing"], found["run"]
    return found


def test_runs_are_listed_and_compared_in_one_report(folder: Folder) -> None:
    ran(folder, "--model", "oracle", "--name", "first")
    ran(folder, "--model", "nop", "--name", "second")

    listed, compared = folder.run("bench", "report"), folder.run("bench", "report", "--all")

    golden_text.said_in(listed.out)
    assert "hasty (first)    50.0 %" in compared.out
    index = folder.path / "reports" / "index" / "all"
    assert sorted(file.name for file in index.iterdir()) == ["report.html", "report.json", "report.md"]
    (pair,) = of(index / "report.json")["suites"]["notes"]["pairs"]
    assert (pair["keys"], pair["ties"], pair["sentence"]) == (2, 2, "not distinguishable at this size")
    assert folder.run("bench", "report", "--all", "-o", "md").out == (index / "report.md").read_text()
    assert (index / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_a_run_of_several_suites_ends_with_one_report_over_all_of_them(folder: Folder) -> None:
    folder.write("notes.yaml", SUITE)
    folder.write("other.yaml", SUITE.replace("suite: notes", "suite: other"))

    said = folder.run(
        "bench", "run", "notes.yaml", "other.yaml", "--model", "oracle", "--model", "nop", "--name", "both"
    )

    assert said.code == 0, said.text
    *runs, as_json, as_markdown, as_page = said.out.splitlines()[-5:]
    assert runs == ["reports/notes/both", "reports/other/both"]
    assert sorted(of(folder.path / as_json)["suites"]) == ["notes", "other"]
    assert "## other" in (folder.path / as_markdown).read_text()
    assert (folder.path / as_page).read_text().startswith("<!DOCTYPE html>")
    assert folder.run("bench", "report", *runs).out.splitlines()[-3:] == [as_json, as_markdown, as_page]


def test_two_deterministic_runs_have_the_same_summary_and_a_lost_one_is_made_again(folder: Folder) -> None:
    first, second = ran(folder, "--name", "first"), ran(folder, "--name", "second")
    before = (first / "summary.json").read_bytes()
    assert untimed(first / "summary.json") == untimed(second / "summary.json")

    (first / "summary.json").unlink()
    assert folder.run("bench", "report", "notes/first").code == 0

    assert (first / "summary.json").read_bytes() == before


def test_soft_figures_are_measured_and_times_among_them_are_under_timing(folder: Folder) -> None:
    found = of(ran(folder, "--name", "first") / "summary.json")

    soft, timing = found["models"]["hasty"]["soft"], found["timing"]["models"]["hasty"]["soft"]
    assert soft["churn"]["all"] == {"count": 2, "mean": 1.0, "median": 1.0}
    assert soft["lint"]["passed"] == {"count": 1, "mean": 1.0, "median": 1.0}  # Its last line has no end.
    assert timing["runtime"]["all"]["count"] == 2
    assert "runtime" not in soft


def test_call_format_is_counted_in_every_case_and_changes_no_verdict(folder: Folder) -> None:
    calls = [
        {"name": "teleport", "arguments": {}},
        {"name": "shell", "arguments": {"command": "true"}},  # It is there, and not for this agent.
        {"name": "write", "arguments": {"path": "greeting.txt"}},
        {"name": "write", "raw": "{"},
        {"name": "write", "arguments": {"path": "greeting.txt", "content": "hello"}},
    ]
    steps = [
        {"when": {"not": "no tool `teleport`"}, "reply": {"text": "Now.", "calls": calls}, "times": "always"},
        {"reply": {"text": "That is all."}, "times": "always"},
    ]
    folder.write("notes.yaml", SUITE.replace("defaults: {", "defaults: {tools: [write], "))
    with started(steps, folder.path) as server:
        model = f"mine@{server.url}"
        said = folder.run("bench", "run", "notes.yaml", "--model", model, "--cases", "greeting", "--name", "first")
    assert said.code == 0, said.text

    run = folder.path / "reports" / "notes" / "first"
    counted = {"invented": 2, "malformed": 1, "retries-after-error": 2}
    (end,) = bench_suite.ends(run).values()
    assert (end["verdict"], {name: end["soft"][name] for name in counted}) == ("pass", counted)
    soft = of(run / "summary.json")["models"][model]["soft"]
    assert {name: soft[name]["passed"]["mean"] for name in counted} == counted
    shown = folder.run("bench", "report", "notes/first", "-o", "md").out
    assert all(name in shown for name in counted)


def test_accessible_share_of_a_page_is_a_figure_of_its_case(folder: Folder) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Form) as server:
        Thread(target=server.serve_forever).start()
        folder.write("notes.yaml", PAGE.format(url=f"http://127.0.0.1:{server.server_port}/"))
        said = folder.run("bench", "run", "notes.yaml", "--model", "oracle", "--name", "first")
        server.shutdown()
    assert said.code == 0, said.text

    run = folder.path / "reports" / "notes" / "first"
    (end,) = bench_suite.ends(run).values()
    assert (end["verdict"], end["soft"]["accessible"]) == ("pass", 0.75)  # All of one check, and half of the other.
    figure = {"count": 1, "mean": 0.75, "median": 0.75}
    assert of(run / "summary.json")["models"]["oracle"]["soft"]["accessible"]["passed"] == figure


def test_soft_figure_without_a_measurement_is_an_error_of_the_suite(folder: Folder) -> None:
    folder.write("notes.yaml", SUITE.replace("churn", "churm"))

    said = folder.run("bench", "run", "notes.yaml", "--model", "nop")

    assert (said.code, "P0213" in said.err, "did you mean `churn`?" in said.err) == (3, True, True)


OWN = """\
suite: own
cases:
  greeting:
    prompts: [greet]
    checks: {there: {require-file: greeting.txt}}
    soft:
      - words: {sh: wc -w < greeting.txt, max: 1}
      - absent: {sh: no-such-linter .}
    proof: {oracles: {plain: {files: {greeting.txt: "hello you\\n"}}}}
"""


def test_a_command_of_the_suite_measures_the_work_and_changes_no_verdict(folder: Folder) -> None:
    (folder.path / "suites").mkdir()
    folder.write("suites/own.yaml", OWN)
    said = folder.run("bench", "run", "own", "--model", "oracle", "--name", "first")
    assert said.code == 0, said.text
    (end,) = bench_suite.ends(folder.path / "reports" / "own" / "first").values()
    assert end["verdict"] == "pass"
    own = {name: value for name, value in end["soft"].items() if name.partition(" ")[0] in ("words", "absent")}
    assert own == {"words": 2.0, "words at most 1": 0.0, "absent not measured": 1.0}
    listed = folder.json("bench", "list")
    assert {one["suite"]: one["from"] for one in listed}["own"] == "suites/own.yaml"


def test_torn_line_is_reported_and_its_event_is_missing(folder: Folder) -> None:
    run = ran(folder, "--name", "first")
    lines = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if b'"type":"case/end"' in line)
    (run / "events.jsonl").write_bytes(b"".join(lines[:last]) + lines[last][:40])

    said = folder.run("bench", "report", "notes/first")

    assert said.code == 0
    golden_text.said_in(said.err, line=f"line {last + 1}")
    golden_text.said_in(said.out)
    assert not of(run / "summary.json")["complete"]


def test_gap_in_the_events_is_an_error_with_its_place_and_a_working_fix(folder: Folder) -> None:
    run = ran(folder, "--name", "first")
    events, told = run / "events.jsonl", (run / "events.jsonl").read_bytes()
    lines = told.splitlines(keepends=True)
    events.write_bytes(b"".join([*lines[:4], *lines[5:]]))

    said = folder.run("bench", "report", "notes/first")

    assert (said.code, "line 5: seq 6 follows 4: 5 missing" in said.err) == (1, True)
    golden_text.said_in(said.err)
    events.rename(run / "broken.jsonl")
    assert folder.run("bench", "resume", "notes/first").code == 0
    assert events.read_bytes() == told


@pytest.mark.parametrize("words", [("notes/first",), ("--all",), ()])
def test_edited_verdict_is_detected_and_not_reported(folder: Folder, words: tuple[str, ...]) -> None:
    run = ran(folder, "--model", "nop", "--name", "first")
    events, told = run / "events.jsonl", (run / "events.jsonl").read_bytes()
    events.write_bytes(told.replace(b'"verdict":"fail"', b'"verdict":"pass"'))
    line = told[: told.index(b'"verdict":"fail"')].count(b"\n") + 1

    said = folder.run("bench", "report", *words)

    assert (said.code, "%" in said.out) == (1, False)
    golden_text.said_in(said.err, "data", line=f"line {line}")
    golden_text.said_in(said.err)
    events.rename(run / "edited.jsonl")
    assert folder.run("bench", "resume", "notes/first").code == 0
    assert events.read_bytes() == told


@pytest.mark.parametrize("file", ["events.jsonl", "plan.json", ".plan/run/log.db"])
def test_a_broken_run_hides_no_other_where_all_are_listed_or_reported(folder: Folder, file: str) -> None:
    broken = ran(folder, "--name", "broken")
    ran(folder, "--name", "sound")
    (broken / file).write_bytes(b"nothing of this is what it was\n" * 9)

    listed, reported = folder.run("bench", "report"), folder.run("bench", "report", "--all")

    assert "notes/broken   broken" in listed.out
    golden_text.said_in(listed.out)
    assert ("hasty   50.0 %" in reported.out, "report.html" in reported.out) == (True, True)
    for said in (listed, reported):
        assert (said.code, said.err.count("error:"), said.err.count("help:")) == (1, 1, 1), said.text
        assert "error: reports/notes/broken" in said.err


def test_added_events_are_detected(folder: Folder) -> None:
    run = ran(folder, "--name", "first")
    lines = (run / "events.jsonl").read_bytes().splitlines()
    added = json.dumps(json.loads(lines[-1]) | {"seq": len(lines) + 1}).encode()
    (run / "events.jsonl").write_bytes(b"\n".join([*lines, added, b""]))

    said = folder.run("bench", "report", "notes/first")

    assert (said.code, f"line {len(lines) + 1}: the run's log has no such event" in said.err) == (1, True)


def test_unwritable_report_is_printed_with_a_notice(folder: Folder) -> None:
    run = ran(folder, "--name", "first")
    (folder.path / "reports" / "index").write_text("")  # In the way of everybody, root included.
    (run / "summary.json").unlink()
    (run / "summary.json").mkdir()

    shown, told = folder.run("bench", "report", "notes/first"), folder.run("bench", "report", "notes/first", "-o", "md")

    assert (shown.code, told.code) == (0, 0), shown.text
    assert "notes   hasty   50.0 %" in shown.out
    assert "report.md" not in shown.out
    assert told.out.startswith("# Benchmark report\n")
    for said in (shown, told):
        golden_text.said_in(said.err)
        golden_text.said_in(said.err)


def test_run_without_its_log_is_reported_by_its_events(folder: Folder) -> None:
    run = ran(folder, "--name", "first")
    shutil.rmtree(run / ".plan")

    assert "hasty" in folder.run("bench", "report", "notes/first").out


def test_run_that_has_not_begun_is_left_out_with_a_notice(folder: Folder) -> None:
    ran(folder, "--name", "first")
    (ran(folder, "--name", "second") / "events.jsonl").unlink()

    every, one = folder.run("bench", "report", "--all"), folder.run("bench", "report", "notes/second")

    assert (every.code, "second has not started and was skipped" in every.err) == (0, True)
    assert (one.code, "plan bench resume" in one.err) == (6, True)
    golden_text.said_in(folder.run("bench", "report").out)


def test_a_run_whose_events_are_empty_has_not_begun(folder: Folder) -> None:
    (ran(folder, "--name", "first") / "events.jsonl").write_bytes(b"")

    one = folder.run("bench", "report", "notes/first")

    assert (one.code, "plan bench resume" in one.err) == (6, True), one.text
    golden_text.said_in(folder.run("bench", "report").out)
    assert folder.run("bench", "resume", "notes/first").code == 0
    assert "hasty" in folder.run("bench", "report", "notes/first").out


def test_a_run_may_be_given_another_name(folder: Folder) -> None:
    run = ran(folder, "--name", "first")
    run.rename(run.with_name("kept"))

    assert "hasty" in folder.run("bench", "report", "notes/kept").out
    assert folder.run("bench", "resume", "notes/kept").code == 0


def test_last_line_on_a_terminal_shows_progress_and_disappears_at_the_end(folder: Folder) -> None:
    folder.write("notes.yaml", SUITE)
    wait = "while [ ! -e gate ]; do sleep 0.05; done"
    folder.write("slow.yaml", json.dumps({"*": [{"call": {"shell": {"command": wait}}}, {"done": "ok"}]}))

    with terminal(
        folder, "bench", "run", "notes.yaml", "--model", "script:slow.yaml", "--name", "tty", columns=40
    ) as screen:
        screen.until("0/2")
        for workspace in (folder.path / "reports" / "notes" / "tty" / "work").iterdir():
            (workspace / "gate").touch()
        code = screen.ended()

    assert code == 0
    drawn = [piece for line in screen.shown.splitlines() for piece in line.split("\r") if "0/2" in piece]
    assert drawn and max(map(len, drawn)) < 40
    assert screen.shown.splitlines()[-1] == "reports/notes/tty"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("nope",), 6, "nope"),
        (("--all",), 6, "no runs in reports"),
        ((), 6, "no runs in reports"),
        (("-o", "json"), 2, "-o json prints a report, but no run is given"),
    ],
)
def test_missing_run_is_reported(folder: Folder, words: tuple[str, ...], code: int, text: str) -> None:
    said = folder.run("bench", "report", *words)

    assert (said.code, text in said.err, "help:" in said.err) == (code, True, True)


def test_a_model_is_measured_with_its_tokens(folder: Folder) -> None:
    writes = {"name": "write", "arguments": {"path": "greeting.txt", "content": "hello"}}
    steps = [
        {"when": {"not": "It is written."}, "reply": {"text": "It is written.", "calls": [writes]}, "times": "always"},
        {"reply": {"text": "That is all."}, "times": "always"},
    ]
    with started(steps, folder.path) as server:
        run = ran(folder, "--model", f"mine@{server.url}", "--name", "first")

    found = of(run / "summary.json")["models"][f"mine@{server.url}"]
    assert (found["pass"], found["fail"], found["median"]["turns"]) == (1, 1, 2)
    assert (found["usage"]["turns"], found["usage"]["calls"]) == (4, 4)  # Each writes, and says that it is done.
    assert found["usage"]["tokens_in"] > found["usage"]["tokens_out"] > 100
