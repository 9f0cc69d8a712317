"""Narrow terminals, no colours, pipes, and leaving twice: what a person sees stays whole, and what runs goes on."""

from __future__ import annotations

import re
import unicodedata

import pytest

from tests import golden_text
from tests.e2e.folder import Folder
from tests.e2e.test_terminal import LONG, QUICK, terminal

# A name and a goal that fit nowhere, and signs that take two cells.
WIDE = """\
plan: wide
tasks:
  a-task-with-a-name-that-is-longer-than-a-narrow-terminal:
    goal: "écrire 日本語 日本語 日本語 日本語 日本語 日本語 日本語 日本語 日本語 日本語 and on and on"
    run: "true"
    tasks: {below: {run: "true"}}
  fails: {goal: no, run: "echo 'a long line that says at length why it cannot be done at all today' >&2; exit 3"}
""".replace("goal: no,", 'goal: "no",').replace('    run: "true"\n    tasks', "    tasks")
COLOUR = re.compile(rb"\x1b\[(?:[0-9]*;)*(?:3|4|9|10)[0-9]m")

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


def cells(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in line)


def widest(shown: str) -> int:
    return max(cells(line.rstrip()) for part in shown.splitlines() for line in part.split("\r"))


@pytest.mark.parametrize("columns", [40, 80])
def test_the_live_tree_keeps_to_the_width_and_ends_with_every_task(folder: Folder, columns: int) -> None:
    folder.write("p.yaml", WIDE)

    with terminal(folder, "apply", "--yes", "p.yaml", columns=columns) as screen:
        code = screen.ended()

    assert code == 10
    tree = [line for line in screen.shown.splitlines() if "─" in line]
    assert tree
    assert max(map(cells, tree)) <= columns
    assert re.search(r"fails +failed", screen.shown)
    assert re.search(r"below +done", screen.shown)


@pytest.mark.parametrize("columns", [40, 80])
def test_tables_lose_the_end_of_their_lines_and_no_column(folder: Folder, columns: int) -> None:
    folder.write("p.yaml", WIDE)
    assert folder.run("apply", "--yes", "p.yaml").code == 10

    for words in (["get"], ["get", "agents"], ["tree"], ["events"], ["history"]):
        with terminal(folder, *words, columns=columns) as screen:
            assert screen.ended() == 0

        # The head line is a sentence that ends with a command: the terminal wraps it, nothing is cut off.
        table = "\n".join(line for line in screen.shown.splitlines() if "  rev " not in line)
        assert widest(table) <= columns, (words, table)


def test_description_in_a_narrow_terminal_cuts_off_no_fix(folder: Folder) -> None:
    folder.write("p.yaml", WIDE)
    assert folder.run("apply", "--yes", "p.yaml").code == 10

    with terminal(folder, "describe", "fails", columns=40) as screen:
        assert screen.ended() == 0
    golden_text.said_in(screen.shown, "task/fails")


def test_no_color_and_a_pipe_mean_no_escapes_and_a_pipe_loses_nothing(folder: Folder) -> None:
    folder.write("p.yaml", WIDE)
    with terminal(folder, "apply", "--yes", "p.yaml", settings=("NO_COLOR=1",)) as screen:
        assert screen.ended() == 10
    assert not COLOUR.search(screen.raw)

    for words in (["get"], ["tree"], ["describe", "task/fails"], ["diff", "p.yaml"], ["apply", "p.yaml"], ["--help"]):
        said = folder.run(*words)
        assert "\x1b" not in said.text, words
    assert "why it cannot be done at all today" in folder.run("logs", "task/fails").out
    assert "and on and on" in folder.run("get", "-o", "wide").out


def test_an_error_has_its_place_in_a_narrow_terminal_too(folder: Folder) -> None:
    folder.write("p.yaml", QUICK.replace("needs", "nedes"))

    with terminal(folder, "apply", "p.yaml", columns=40) as screen:
        assert screen.ended() == 3

    assert "p.yaml:4:" in screen.shown
    golden_text.said_in(screen.shown, "needs")


@pytest.mark.parametrize("presses", ["\x03", "\x03\x03"], ids=["once", "twice"])
def test_ctrl_c_reports_what_still_runs_and_the_next_apply_takes_it_over(folder: Folder, presses: str) -> None:
    folder.write("p.yaml", LONG + "  walk: {run: 'echo walked >> walked; while [ ! -e stop ]; do sleep 0.05; done'}\n")
    with terminal(folder, "apply", "p.yaml") as screen:
        screen.until("its command is running")
        screen.press(presses)
        code = screen.ended()
        assert code in ((8,) if presses == "\x03" else (8, 130))
        assert "Traceback" not in screen.shown
        # The second one may end the process before it says anything.
        assert code == 130 or "task/walk" in screen.shown
        if presses == "\x03":
            golden_text.said_in(screen.shown, "task/walk")

        folder.write("stop", "")
        folder.write("p.yaml", (folder.path / "p.yaml").read_text().replace("{sleep: 300}", "{done: over}"))
        said = folder.run("apply", "--yes", "p.yaml")

        assert said.code == 0, said.text
        assert (folder.path / "walked").read_text() == "walked\n"
        assert folder.processes() == []
