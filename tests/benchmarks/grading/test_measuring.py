"""Soft figures count what a reader of the code can see."""

from __future__ import annotations

from pathlib import Path

import pytest

from planloop.benchmarks.checks.soft_figures import (
    count_branches,
    count_changed_lines,
    count_style_problems,
    measure_code,
    read_texts,
)


@pytest.mark.parametrize(
    ("path", "text", "branches"),
    [
        ("a.ts", "if (a && b || c) { for (;;) {} } else x = y ? 1 : 2; // if", 5),
        ("a.ts", "const f = (x?: string) => x?.length ?? `if ${x}`; /* while */", 1),
        ("a.ts", "switch (x) { case 1: case 2: } try {} catch (e) {}", 3),
        ("a.cljs", '(defn f [x] (if (and x y) (when-let [z 1] "(if") (or a b))) ; (if', 4),
        ("a.clj", "(ifn? x) (format x) (cond a 1 :else 2)", 1),
        ("a.py", 'x = 1 if a and b else "if"  # while', 2),
        ("a.ts", "if (a) {} /*" * 20_000, 1),
        ("a.clj", '(if a) "' + '\\"' * 100_000, 1),
        ("a.md", "if and while", 0),
    ],
)
def test_branches_are_counted_in_code_alone(path: str, text: str, branches: int) -> None:
    assert count_branches(path, text) == branches


@pytest.mark.parametrize(
    ("path", "text", "faults"),
    [
        ("a.ts", "const a = [1, (2)];\n", 0),
        ("a.ts", "a" * 121 + "\n", 1),
        ("a.ts", "a  \nb\t\n", 2),
        ("a.ts", "a\n  \tb\n", 1),
        ("a.ts", "a", 1),
        ("a.ts", "f(a]\n", 1),
        ("a.clj", '(f "(" \\( [a])\n', 0),
        ("a.clj", "(f (g)\n", 1),
        ("a.txt", "an :) and a (\n", 0),
        ("a.txt", "", 0),
    ],
)
def test_lint_counts_what_is_untidy(path: str, text: str, faults: int) -> None:
    assert count_style_problems(path, text) == faults


def test_churn_is_lines_that_came_and_went() -> None:
    assert count_changed_lines("a\nb\nc\n", "c\na\nB\nd\n") == 3
    assert count_changed_lines("", "a\na\n") == 2
    assert count_changed_lines("a\n", "a\n") == 0


def test_only_new_or_changed_files_are_measured_and_only_wanted_figures_reported() -> None:
    before = {"given.ts": "if (a) {} \n", "gone.ts": "x\n"}
    after = {"given.ts": "if (a) {} \n", "new.ts": "if (b) {}\n"}

    assert measure_code(("churn", "complexity", "lint"), before, after) == {
        "churn": 2.0,
        "complexity": 1.0,
        "lint": 0.0,
    }
    assert measure_code(("lint", "runtime"), before, after) == {"lint": 0.0}


def test_generated_files_are_left_out(tmp_path: Path) -> None:
    kept = {"src/a.ts": "a\n", "b.txt": "é\n"}
    left = {
        "node_modules/x/i.js": "x\n",
        ".cache/y": "y\n",
        "package-lock.json": "{}\n",
        "z.bin": "\0",
        "big": "a" * 300_000,
    }
    for name, text in (kept | left).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "link.ts").symlink_to("src/a.ts")

    assert read_texts(tmp_path) == kept
