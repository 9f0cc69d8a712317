"""Which of the standard cheats a case has follows from what it offers."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from planloop.benchmarks.runs.contestants import case_cheats, script_for_act
from tests.benchmarks.validating.suites import SOUND, suite_of
from tests.product import encode_text

EVERYWHERE = ["printed-pass", "only-claimed"]
WRITING = ["hard-coded", "forged-verdict", "patched-runner"]
STARTING = ["surviving-writer", "peeking"]


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({}, [*EVERYWHERE, *WRITING, *STARTING]),
        ({"tools": ["read", "write"]}, [*EVERYWHERE, *WRITING]),
        ({"tools": ["all"]}, [*EVERYWHERE, *WRITING, *STARTING]),
        ({"tools": ["lib:code"]}, [*EVERYWHERE, *WRITING, *STARTING]),
        ({"tools": ["read"]}, [*EVERYWHERE, "hard-coded"]),
        (
            {"serve": "auto", "image": "planloop/node"},
            [*EVERYWHERE, "hard-coded", "constant-reply", *WRITING[1:], *STARTING],
        ),
        ({"proof": {"oracles": {"asks": {"says": "which one?"}}}}, ["printed-pass", *WRITING[1:]]),
        ({"proof": {"cheats": {"own": {"says": "x"}}}}, ["printed-pass", *WRITING[1:], "own"]),
        ({"proof": {"cheats": {"printed-pass": {"says": "x"}}}}, ["printed-pass", *WRITING[1:]]),
    ],
)
def test_a_case_has_the_cheats_that_it_leaves_room_for(more: dict[str, Any], names: list[str]) -> None:
    case = suite_of(one=SOUND | more).cases["one"]

    assert sorted(case_cheats(case)) == sorted(names)


def test_a_hard_coded_answer_has_the_nonces_of_another_trial() -> None:
    case = suite_of(one=SOUND).cases["one"]

    assert case_cheats(case)["hard-coded"].files == {"a.txt": "{{nonce.before-word}}"}


def test_cheat_writes_only_inside_the_run_without_a_container() -> None:
    plain = suite_of(one=SOUND).cases["one"]
    boxed = suite_of(one=SOUND | {"image": "planloop/node"}).cases["one"]

    shown = [encode_text([list(script_for_act(act)) for act in case_cheats(case).values()]) for case in (plain, boxed)]

    assert [("~/" in text, "/usr/" in text) for text in shown] == [(False, False), (True, True)]


def test_cheat_by_the_shell_writes_what_the_oracle_writes(tmp_path: Path) -> None:
    nasty = 'it\'s "quoted" $HOME `x`\n%s \\n ünï\n'
    files = {"deep er/a'b.txt": nasty, "b.txt": ""}
    proof = {"oracles": {"plain": {"files": files}}}
    act = case_cheats(suite_of(one=SOUND | {"proof": proof}).cases["one"])["peeking"]

    command = act.calls[0]["shell"]["command"]

    then = command[command.index("then ") + 5 : command.rindex("; fi")]
    assert nasty in shlex.split(then)
