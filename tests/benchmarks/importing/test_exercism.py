"""A track of Exercism becomes a suite: made-up tracks with the layout of the public ones."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from planloop.benchmarks.importers.exercism import TRACKS, ExercismImport, convert_exercism
from planloop.benchmarks.suite import Case, Suite
from planloop.benchmarks.suite_parser import FolderSuiteSources, read_suite
from tests.golden_text import said

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


def read(made: ExercismImport, folder: Path) -> Suite:
    for path, text in made.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    found = read_suite(made.files["suite.yaml"].encode(), file="suite.yaml", sources=FolderSuiteSources(folder))
    assert found.suite is not None, found.diagnostics
    return found.suite


@pytest.mark.parametrize("language", TRACKS)
def test_an_exercise_becomes_a_case_with_its_stub_tests_and_example(language: str, tmp_path: Path) -> None:
    suite = read(convert_exercism(track(language), language), tmp_path)
    case: Case = suite.cases["adder"]
    (check,) = case.checks
    oracle, stub = case.proofs.oracles["example"], case.proofs.mutants["stub"]

    assert case.setting.image == f"planloop/{language}" and set(case.setting.files) == set(oracle.files) == set(
        stub.files
    )
    assert (
        "Numbers add up.\n\nAdd { {two}} numbers." in case.prompts[0]
        and next(iter(case.setting.files)) in case.prompts[0]
    )
    assert stub.files == case.setting.files and oracle.files != case.setting.files and stub.kills == ("tests",)
    assert any("test" in path for path in case.check_files) and not any("test" in path for path in case.setting.files)
    assert check.kind == "sh" and check.arguments["shell"] == "sh /checks/run.sh"


def test_exercises_are_in_the_order_of_the_track_followed_by_unknown_ones(tmp_path: Path) -> None:
    made = track("clojure", "abacus") | track("clojure") | track("clojure", "zebra")

    assert list(read(convert_exercism(made, "clojure"), tmp_path).cases) == ["zebra", "adder", "abacus"]


def test_known_exceptions_are_tagged_and_reported(tmp_path: Path) -> None:
    made = convert_exercism(track("clojure", "wordy"), "clojure")

    said(read(made, tmp_path).cases["wordy"].tags["known"])
    assert made.notes == ("wordy: its example solution is known to fail: requires Clojure 1.12",)


def broken(path: str, content: bytes | None) -> dict[str, bytes]:
    files = track("typescript")
    if content is None:
        del files[f"{EX}/adder/{path}"]
    else:
        files[f"{EX}/adder/{path}"] = content
    return files


def test_invalid_config_is_harmless_where_the_files_have_their_usual_names(tmp_path: Path) -> None:
    made = convert_exercism(broken(".meta/config.json", b'{"files": {} "blurb": 1}'), "typescript")

    assert made.cases == 1 and read(made, tmp_path).cases["adder"].proofs.oracles
    assert "is invalid" in made.notes[0]


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("adder.test.ts", None, "adder.test.ts is missing"),
        (".meta/config.json", json.dumps({"files": {"solution": ["adder.ts"]}}).encode(), "its config names no test"),
    ],
)
def test_incomplete_exercise_is_left_out_and_named(path: str, content: bytes | None, words: str) -> None:
    made = convert_exercism(broken(path, content), "typescript")

    assert made.cases == 0 and words in made.notes[0]


def test_a_folder_without_exercises_gives_no_case() -> None:
    assert convert_exercism({"README.md": b"hello"}, "clojure").cases == 0


def judged(folder: Path, program: str, runs: str, *, track_: str = "typescript", test: str = TEST_TS) -> bool:
    """Whether the script of the exercise passes when its program `runs` this."""
    files = track(track_)
    if track_ == "typescript":
        files[f"{EX}/adder/adder.test.ts"] = test.encode()
    made = convert_exercism(files, track_).files
    bin_, checks, work = (folder / name for name in ("bin", "checks", "work"))
    for path, text in made.items():
        if path.startswith("checks/adder/"):
            file = checks / path.removeprefix("checks/adder/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace("/tmp/t", str(folder / "t")).replace("/checks", str(checks)))
    bin_.mkdir()
    work.mkdir(exist_ok=True)
    (bin_ / program).write_text(f"#!/bin/sh\n{runs}\n")
    (bin_ / program).chmod(0o755)
    env = {"PATH": f"{bin_}:/usr/bin:/bin", "TMPDIR": str(folder), "WORK": str(work)}
    argv = ["sh", str(checks / "run.sh")]
    return subprocess.run(argv, cwd=work, env=env, capture_output=True, timeout=60, check=False).returncode == 0


@pytest.mark.parametrize("language", ["clojurescript", "clojure"])
@pytest.mark.parametrize(
    ("says", "passes"),
    [
        ('"$key 3 0" >&3', True),
        ('"$key 3 1" >&3', False),
        ('"$key 0 0" >&3', False),
        ('"$key 3 0"', False),
        ('"$key 3 1\\n$key 3 0" >&3', False),
        ('"other 3 0" >&3', False),
        ("PASS", False),
    ],
    ids=["all pass", "one fails", "no tests", "only printed", "twice", "another key", "no key"],
)
def test_only_a_run_that_prints_its_key_passes(language: str, says: str, passes: bool, tmp_path: Path) -> None:
    program = {"clojurescript": "node", "clojure": "clojure"}[language]

    assert judged(tmp_path, program, f"key=$(cat)\nprintf {says}", track_=language) is passes


def test_neither_a_command_line_nor_the_environment_has_the_key(tmp_path: Path) -> None:
    looks = "tr '\\0' '\\n' < /proc/$PPID/cmdline; tr '\\0' '\\n' < /proc/$$/cmdline; env"
    runs = f'key=$(cat)\nif {{ {looks}; }} | grep -q "$key"; then exit 1; fi\nprintf \'%s\' "$key 3 0" >&3'

    assert judged(tmp_path, "clojure", runs, track_="clojure")


def test_fewer_tests_than_are_written_do_not_pass(tmp_path: Path) -> None:
    says = "key=$(cat); printf '%s' \"$key 3 0\" >&3"

    assert not judged(tmp_path, "node", says, test=f"{TEST_TS}\n  it('is a fourth', () => {{}})\n")


# The runner and the stand-in for jest, on the Node of this machine.

NODE = shutil.which("node")
needs_node = pytest.mark.needs("node")
SOLVED = "export const add = (a, b) => a + b\n"
WRONG = "export const add = (a, b) => a * b\n"
# A Node of version 22 takes types off by itself; an older one is given none, and knows its permissions by another name.
RUNS = f"""\
case $({NODE} --version) in v2[01].*) permission=--experimental-permission;; *) permission=--permission;; esac
for one; do
  shift
  case $one in
    --experimental-transform-types) ;;
    --permission) set -- "$@" $permission;;
    *.test.ts) cp "$one" "${{one%.ts}}.mjs"; set -- "$@" "${{one%.ts}}.mjs";;
    *) set -- "$@" "$one";;
  esac
done
exec {NODE} "$@" 2>&1"""


def solves(folder: Path, solution: str, test: str = TEST_TS) -> tuple[bool, str]:
    """Whether `solution` passes, and what its run printed."""
    (folder / "work").mkdir()
    (folder / "work" / "adder.mjs").write_text(solution)
    passes = judged(folder, "node", RUNS, test=test.replace("adder.ts", "adder.mjs"))
    return passes, (folder / "printed").read_text()


@needs_node
@pytest.mark.parametrize(
    ("solution", "passes", "failed"),
    [
        (SOLVED, True, 0),
        (WRONG, False, 3),
        ("export const add = () => { throw new Error() }\n", False, 5),
        ("syntax error", False, 0),
    ],
    ids=["solved", "wrong", "throws", "no program"],
)
def test_tests_run_with_none_skipped(solution: str, passes: bool, failed: int, tmp_path: Path) -> None:
    did, printed = solves(tmp_path, solution)

    assert (did, printed.count("FAILED")) == (passes, failed)


CHEATS = {
    "ends itself": "process.exit(0)",
    "prints words": "console.log(process.argv.join(' ') + ' 5 0'); process.exit(0)",
    "says no key": "import('node:fs').then(({ writeSync }) => { writeSync(3, 'x 5 0\\n'); process.exit(0) })",
    "reads stdin": """
import { readFileSync, writeSync } from 'node:fs'
writeSync(3, readFileSync(0, 'utf8') + ' 5 0\\n'); process.exit(0)""",
    "reads the memory of others": """
import { readFileSync, writeSync } from 'node:fs'
try { readFileSync(`/proc/${process.ppid}/cmdline`); process.kill(process.ppid) } catch { process.exit(0) }""",
    "looks at the heap": """
import v8 from 'node:v8'
import { writeSync } from 'node:fs'
let heap = ''
for await (const part of v8.getHeapSnapshot()) heap += part
const found = heap.match(/"[0-9a-f]{32}"/)
if (found) { writeSync(3, found[0].slice(1, -1) + ' 5 0\\n'); process.exit(0) }""",
    "rewrites what is written": """
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
const write = fs.writeSync
fs.writeSync = (fd, text) => write(fd, typeof text === 'string' && fd === 3 ? ' 5 0\\n' : text)
syncBuiltinESMExports()""",
    "extends matchers": """
import { expect } from '@jest/globals'
expect.extend({ toBe: () => ({ pass: true }), toEqual: () => ({ pass: true }) })""",
    "swaps expect": """
import { expect } from '@jest/globals'
try { expect.extend = () => {}; expect.not = {} } catch {}""",
    "swaps equality": """
import util from 'node:util'
import { syncBuiltinESMExports } from 'node:module'
util.isDeepStrictEqual = () => true
syncBuiltinESMExports()
try { Object.is = () => true } catch {}""",
    "swaps what arrays do": """
try { Array.prototype.push = () => 0 } catch {}
try { Array.prototype.map = () => [] } catch {}
try { Reflect.ownKeys = () => [] } catch {}""",
    "swaps promises": "try { Promise.prototype.then = function (go) { return go() } } catch {}",
    "swaps globals": "try { globalThis.Object = { is: () => true }; globalThis.Reflect = {} } catch {}",
    "swaps registration": """
import * as jest from '@jest/globals'
try { jest.it.each = () => () => {} } catch {}
try { jest.test.only = () => {} } catch {}""",
    "takes the run": "import { takeRun } from '@jest/globals'\ntakeRun()(() => {})",
    "exits in the end": "process.on('exit', () => { process.exitCode = 0 })",
}


@needs_node
@pytest.mark.parametrize("name", CHEATS)
def test_a_wrong_solution_that_cheats_does_not_pass(name: str, tmp_path: Path) -> None:
    assert solves(tmp_path, f"{CHEATS[name]}\n{WRONG}")[0] is False


@needs_node
def test_link_out_of_the_workspace_resolves_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("export const add = (a, b) => a + b\n")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "adder.mjs").symlink_to(tmp_path / "secret")

    assert not judged(tmp_path, "node", RUNS, test=TEST_TS.replace("adder.ts", "adder.mjs"))


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


@needs_node
def test_expectations_pass_and_fail_like_those_of_jest(tmp_path: Path) -> None:
    _, printed = solves(tmp_path, SOLVED, MATCHES)

    assert [line.split(":")[0].strip() for line in printed.splitlines() if line.startswith("FAILED")] == [
        f"FAILED  fails {n}" for n in range(1, 7)
    ]
