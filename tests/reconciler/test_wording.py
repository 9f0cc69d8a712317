from __future__ import annotations

import pytest

from planloop.reconciler.diff import describe
from tests.product import Json

LONG = "python3 -m pipeline --input data/raw/2024 --output data/clean/2024 --jobs 8 --verbose --report out.html"


@pytest.mark.parametrize(
    ("field", "before", "after", "words"),
    [
        ("priority", 0, 5, "priority: 0 → 5"),
        ("cwd", ".", "frontend", "cwd: . → frontend"),
        ("timeout_s", 5.0, 9.0, "timeout: 5 s → 9 s"),
        ("protect", False, True, "protect: false → true"),
        ("notes", "", "be quick", "notes: none → be quick"),
        ("tools", ["read", "write"], ["read", "shell"], "tools: + shell, - write"),
        ("tools", ["read", "write"], ["write", "read"], "tools reordered"),
        ("acceptance", [{"kind": "sh"}], [], "acceptance changed"),
        ("on_change", "message", "restart", "on-change: message → restart"),
        ("work", {"kind": "run", "argv": ["a", "b c"]}, {"kind": "run", "shell": "d"}, 'run: a "b c" → d'),
        ("work", {"kind": "run", "shell": "make"}, {"kind": "agent", "agent": "agent/a"}, "run make → an agent"),
        (
            "work",
            {"kind": "run", "shell": "make", "effect": "once", "timeout_s": None},
            {"kind": "run", "shell": "make", "effect": "read", "timeout_s": 60.0},
            "effect: once → read, timeout: none → 60 s",
        ),
        ("work", {"kind": "group"}, {"kind": "run", "shell": "make"}, "its tasks → run make"),
        ("mind", {"kind": "model", "model": "a/b"}, {"kind": "model", "model": "c/d"}, "a/b → c/d"),
        (
            "mind",
            {"kind": "model", "model": "a/b", "stated": "a/b"},
            {"kind": "model", "model": "z/z", "stated": "a/b"},
            "a/b → z/z (for a/b)",
        ),
        ("mind", {"kind": "model", "model": ""}, {"kind": "outside", "argv": ["x"]}, "an unspecified model → x"),
        ("mind", {"kind": "script", "steps": [1, 2]}, {"kind": "script", "steps": [1, 3]}, "script: step 2 changed"),
        ("mind", {"kind": "script", "steps": [1]}, {"kind": "script", "steps": [1, 3]}, "script: step 2 changed"),
        ("mind", {"kind": "script", "steps": [1, 2]}, {"kind": "script", "steps": [1]}, "script: ends after step 1"),
    ],
)
def test_change_shows_the_old_and_the_new_value(field: str, before: Json, after: Json, words: str) -> None:
    assert describe.describe_change(field, before, after) == words


def test_long_commands_show_only_the_difference_with_some_context() -> None:
    after = {"kind": "run", "shell": LONG.replace("clean/2024", "clean/2025")}
    words = describe.describe_change("work", {"kind": "run", "shell": LONG}, after)
    around = "… data/raw/2024 --output {} --jobs 8 …"
    assert words == f"run: {around.format('data/clean/2024')} → {around.format('data/clean/2025')}"


def test_command_of_many_lines_is_shown_by_its_first() -> None:
    assert describe.describe_command({"shell": "set -e\nmake\n"}) == "set -e …"
