"""A track of Exercism becomes a suite: made-up tracks with the layout of the public ones."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.importing.exercism import TRACKS, Imported, imported
from benchmarks.reading.reading import read_suite
from benchmarks.reading.sources import FolderSuiteSources
from benchmarks.reading.suite import Case, Suite
from schemas.encoding import JsonObject

EX = "exercises/practice"
CONFIG = {"exercises": {"practice": [{"slug": "zebra"}, {"slug": "adder"}]}}


def files_json(solution: str, test: str, example: str) -> bytes:
    return json.dumps({"files": {"solution": [solution], "test": [test], "example": [example]}}).encode()


def track(language: str, slug: str = "adder") -> dict[str, bytes]:
    """One exercise: adding two numbers."""
    top = f"{EX}/{slug}"
    told = {
        f"{top}/.docs/introduction.md": b"Numbers add up.\n",
        f"{top}/.docs/instructions.md": b"Add {{two}} numbers.\n",
        "config.json": json.dumps(CONFIG).encode(),
    }
    name = slug.replace("-", "_")
    match language:
        case "clojure":
            own = {
                ".meta/config.json": files_json(f"src/{name}.clj", f"test/{name}_test.clj", ".meta/example.clj"),
                f"src/{name}.clj": f"(ns {slug})\n(defn add [a b])\n".encode(),
                ".meta/example.clj": f"(ns {slug})\n(defn add [a b] (+ a b))\n".encode(),
                f"test/{name}_test.clj": f"(ns {slug}-test (:require {slug}))".encode(),
            }
        case "clojurescript":
            own = {
                ".meta/config.json": files_json(f"src/{name}.cljs", f"test/{name}_test.cljs", ".meta/src/example.cljs"),
                f"src/{name}.cljs": b"(ns adder)",
                ".meta/src/example.cljs": b"(ns adder) (defn add [a b] (+ a b))",
                f"test/{name}_test.cljs": b"(ns adder-test)",
            }
        case _:
            own = {
                ".meta/config.json": files_json(f"{slug}.ts", f"{slug}.test.ts", ".meta/proof.ci.ts"),
                f"{slug}.ts": b"export const add = (a: number, b: number): number => { throw new Error('do it') }\n",
                ".meta/proof.ci.ts": b"export const add = (a: number, b: number): number => a + b\n",
                f"{slug}.test.ts": TEST_TS.replace("adder", slug).encode(),
            }
    return told | {f"{top}/{path}": content for path, content in own.items()}


TEST_TS = """\
import { describe, it, xit, xdescribe, expect } from '@jest/globals'
import { add } from './adder.ts'

describe('adding', () => {
  it('adds', () => { expect(add(1, 2)).toEqual(3) })
  xit('adds zero', () => { expect(add(0, 0)).toBe(0) })
  it.skip('is no product', () => { expect(add(2, 3)).not.toBe(6) })
})
xdescribe('tables', () => {
  xit.each([[1, 1, 2], [2, 2, 4]])('%d', (a, b, c) => {
    expect({ sum: add(a, b), none: undefined }).toEqual({ sum: c })
  })
})
"""


def read(made: Imported, folder: Path) -> Suite:
    for path, text in made.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    found = read_suite(made.files["suite.yaml"].encode(), file="suite.yaml", sources=FolderSuiteSources(folder))
    assert found.suite is not None, found.diagnostics
    return found.suite


@pytest.mark.parametrize("language", TRACKS)
def test_an_exercise_becomes_a_case_with_its_stub_tests_and_example(language: str, tmp_path: Path) -> None:
    suite = read(imported(track(language), language), tmp_path)
    case: Case = suite.cases["adder"]
    (check,) = case.checks
    oracle, stub = case.oracles["example"], case.mutants["stub"]

    assert case.image == f"planloop/{language}" and set(case.files) == set(oracle.files) == set(stub.files)
    assert "Numbers add up.\n\nAdd { {two}} numbers." in case.prompts[0] and next(iter(case.files)) in case.prompts[0]
    assert stub.files == case.files and oracle.files != case.files and stub.kills == ("tests",)
    assert any("test" in path for path in case.check_files) and not any("test" in path for path in case.files)
    assert check.kind == "sh" and check.arguments["shell"] == "sh /checks/run.sh {{nonce.ran}}"


def test_exercises_come_in_the_order_of_the_track_and_strangers_after_them(tmp_path: Path) -> None:
    made = track("clojure", "abacus") | track("clojure") | track("clojure", "zebra")

    assert list(read(imported(made, "clojure"), tmp_path).cases) == ["zebra", "adder", "abacus"]


def test_known_exceptions_are_tagged_and_told(tmp_path: Path) -> None:
    made = imported(track("clojure", "wordy"), "clojure")

    assert read(made, tmp_path).cases["wordy"].tags["known"] == "it needs Clojure 1.12"
    assert made.notes == ("wordy: its own solution is known to fail here: it needs Clojure 1.12",)


def broken(path: str, content: bytes | None) -> dict[str, bytes]:
    files = track("typescript")
    if content is None:
        del files[f"{EX}/adder/{path}"]
    else:
        files[f"{EX}/adder/{path}"] = content
    return files


def test_a_config_that_is_no_json_costs_nothing_where_the_files_have_their_usual_names(tmp_path: Path) -> None:
    made = imported(broken(".meta/config.json", b'{"files": {} "blurb": 1}'), "typescript")

    assert made.cases == 1 and read(made, tmp_path).cases["adder"].oracles
    assert "cannot be read" in made.notes[0]


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("adder.test.ts", None, "adder.test.ts is missing"),
        (".meta/config.json", json.dumps({"files": {"solution": ["adder.ts"]}}).encode(), "it names no test"),
    ],
)
def test_an_exercise_that_is_not_whole_is_left_out_and_named(path: str, content: bytes | None, words: str) -> None:
    made = imported(broken(path, content), "typescript")

    assert made.cases == 0 and words in made.notes[0]


def test_a_folder_without_exercises_gives_no_case() -> None:
    assert imported({"README.md": b"hello"}, "clojure").cases == 0


@pytest.mark.parametrize(
    ("prints", "passes"),
    [("w0rd 3 0", True), ("w0rd 3 1", False), ("w0rd 0 0", False), ("other 3 0", False), ("PASS", False), ("", False)],
)
def test_only_a_run_that_says_its_word_passes(prints: str, passes: bool, tmp_path: Path) -> None:
    script = imported(track("clojurescript"), "clojurescript").files["checks/adder/run.sh"]
    (tmp_path / "run.sh").write_text(script)
    nbb = tmp_path / "nbb"
    nbb.write_text(f"#!/bin/sh\necho \"$4\"; echo '{prints}'\n")
    nbb.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "TMPDIR": str(tmp_path)}

    ran = subprocess.run(["sh", "run.sh", "w0rd"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    assert (ran.returncode == 0) is passes
    assert '(println "w0rd" (:test r)' in ran.stdout  # What it runs has the word, and no quote is lost.


# The stand-in for jest, on the Node of this machine.

NODE = shutil.which("node")


def run_tests(folder: Path, solution: str, test: str = TEST_TS) -> str:
    assert NODE is not None
    files: JsonObject = dict(TRACKS["typescript"].beside)
    # A Node that takes types off by itself is not on every machine: what is tested here needs none.
    files |= {"adder.mjs": solution, "adder.test.mjs": test.replace("adder.ts", "adder.mjs")}
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    argv = [NODE, "jest-run.mjs", "w0rd", "adder.test.mjs"]
    ran = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=20, check=False)
    return ran.stdout.splitlines()[-1] if ran.stdout else ""


SOLVED = "export const add = (a, b) => a + b\n"


@pytest.mark.skipif(NODE is None, reason="needs node")
@pytest.mark.parametrize(
    ("solution", "last"),
    [
        (SOLVED, "w0rd 5 0"),
        ("export const add = (a, b) => a * b\n", "w0rd 5 3"),
        ("export const add = () => { throw new Error() }\n", "w0rd 5 5"),
        ("syntax error", "w0rd 0 1"),
        ("export const add = 0; process.exit(0)\n", ""),
    ],
    ids=["solved", "wrong", "throws", "no program", "ends itself"],
)
def test_tests_run_with_none_skipped_and_say_how_many_failed(solution: str, last: str, tmp_path: Path) -> None:
    assert run_tests(tmp_path, solution) == last


MATCHES = """\
import { it, expect } from '@jest/globals'
it('holds', async () => {
  expect(() => { throw new RangeError('too far') }).toThrow('far')
  expect(() => { throw new RangeError('too far') }).toThrow(RangeError)
  expect(new Set([1])).toEqual(new Set([1]))
  expect(0.1 + 0.2).toBeCloseTo(0.3)
  expect([1, 2]).toContain(2)
  expect({ a: 1, b: 2 }).toMatchObject({ a: 1 })
  await expect(Promise.resolve(1)).resolves.toBe(1)
  await expect(Promise.reject(new Error('no'))).rejects.toThrow('no')
})
it('fails 1', () => { expect(() => {}).toThrow() })
it('fails 2', () => { expect(new Map([[1, 2]])).toEqual(new Map([[1, 3]])) })
it('fails 3', async () => { await expect(Promise.resolve(1)).resolves.toBe(2) })
it('fails 4', () => { expect([1]).not.toEqual([1]) })
it('fails 5', async () => { await expect(Promise.resolve(1)).rejects.toThrow() })
it('fails 6', () => { expect(() => { throw new Error('a') }).toThrow('b') })
"""


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_expectations_hold_and_fail_as_those_of_jest(tmp_path: Path) -> None:
    assert run_tests(tmp_path, SOLVED, MATCHES) == "w0rd 7 6"
