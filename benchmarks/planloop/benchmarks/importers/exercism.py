"""Import an Exercism track as a suite: practice exercises with their tests, in one of three languages.

The agent gets the instructions and the stub. The track's tests, none of them skipped, grade it in a fresh container
that mounts the tests. The oracle is the track's example solution, the mutant its stub.

A shell that loads nothing of the solution is the judge. It creates a key and passes it to the test runner on stdin. The
runner reads the key before it loads the solution, and only a report on fd 3 with the key passes. So a solution that
exits early, or prints the output of a good run, does not pass. Source: exercism/clojure, exercism/clojurescript,
exercism/typescript (MIT). planloop ships none of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files as resources
from types import MappingProxyType
from typing import Final

from planloop.benchmarks.importers import suite_text
from planloop.schemas.canonical_json import Json, JsonObject, decode_foreign
from planloop.schemas.frozen import frozen

PRACTICE: Final = "exercises/practice/"
TIMEOUT: Final = "2m"
RUN: Final = "run.sh"
CLOJURE_RUN: Final = "clojure-run.clj"
CLOJURESCRIPT_RUN: Final = "nbb-run.mjs"
TYPESCRIPT_RUN: Final = "jest-run.mjs"
RUN_KEY: Final = "run-key.mjs"
_COPIED: Final = """\
rm -rf /tmp/t && mkdir /tmp/t && cp -R . /tmp/t/ && find /tmp/t -type l -exec rm {} + &&
  cp -R /checks/. /tmp/t/ && cd /tmp/t || exit 1"""
"""Copy without links: Node's folder permissions would allow following them out of the folders."""
TOLD: Final = ("introduction.md", "instructions.md", "instructions.append.md")
_TEST: Final = re.compile(r"^\s*(?:(?:it|test)(?:\.\w+)*\(|\(deftest-?\s)", re.MULTILINE)


@frozen
class Exercise:
    """One exercise: its instructions, and its files by path: stub, tests, and example solution."""

    slug: str
    told: str
    stub: Mapping[str, str]
    tests: Mapping[str, str]
    example: Mapping[str, str]


@frozen
class ExercismImport:
    """An imported track. `files` are texts by path, including `suite.yaml`; `cases` is the number of cases.

    `notes` says what was not imported, and why.
    """

    files: Mapping[str, str]
    cases: int
    notes: tuple[str, ...]


@frozen
class Track:
    """The layout and tests of a language's exercises, and the exercises that are known to be broken.

    `command` is the shell line that runs the tests at /checks. `known` are exercises whose example solution fails, with
    the reason. `beside` are files that the tests of every exercise need.
    """

    language: str
    guess: Callable[[str], JsonObject]
    command: Callable[[Exercise], str]
    known: Mapping[str, str]
    beside: Mapping[str, str] = MappingProxyType({})


def convert_exercism(files: Mapping[str, bytes], track: str) -> ExercismImport:
    """Convert the directory of a track, given as texts by path, to a suite. Pure. Raises KeyError."""
    rules = TRACKS[track]
    texts: dict[str, str] = {}
    cases: dict[str, JsonObject] = {}
    notes: list[str] = []
    for slug in _slugs(files):
        exercise = _exercise(files, slug, rules, notes)
        if exercise is None:
            continue
        if slug in rules.known:
            notes.append(f"{slug}: its example solution is known to fail: {rules.known[slug]}")
        cases[slug] = _case(exercise, rules)
        for folder, found in (("stub", exercise.stub), ("example", exercise.example), ("checks", exercise.tests)):
            texts |= {f"{folder}/{slug}/{path}": text for path, text in found.items()}
        beside = {**rules.beside, RUN: f"#!/bin/sh\n{rules.command(exercise)}\n"}
        texts |= {f"checks/{slug}/{path}": text for path, text in beside.items()}
    head: JsonObject = {
        "suite": f"exercism-{track}",
        "about": f"Does it solve the practice exercises of Exercism's {rules.language} track?",
        "seed": 1,
        "report": {"pass-at": [1], "pass-hat": [1]},
        "defaults": {"image": f"planloop/{track}", "budget": {"turns": 40}, "soft": ["churn"]},
    }
    texts["suite.yaml"] = suite_text.suite_lines(head | {"cases": cases})
    return ExercismImport(texts, len(cases), tuple(notes))


def _slugs(files: Mapping[str, bytes]) -> Sequence[str]:
    """The exercises with instructions: first those in the track's config, in its order, then the others."""
    there = {
        path.split("/")[2] for path in files if path.startswith(PRACTICE) and path.endswith("/.docs/instructions.md")
    }
    config = _json(files.get("config.json"))
    listed = config.get("exercises", {}).get("practice", []) if isinstance(config, dict) else []
    order = [str(one.get("slug")) for one in listed]
    return [*(slug for slug in order if slug in there), *sorted(there.difference(order))]


def _exercise(files: Mapping[str, bytes], slug: str, rules: Track, notes: list[str]) -> Exercise | None:
    top = f"{PRACTICE}{slug}/"
    own = {path.removeprefix(top): _text(content) for path, content in files.items() if path.startswith(top)}
    config = _json(files.get(f"{top}.meta/config.json"))
    if not isinstance(config, dict) or not isinstance(config.get("files"), dict):
        notes.append(f"{slug}: .meta/config.json is invalid; the files were found by their usual names")
        config = {"files": rules.guess(slug)}
    named = {kind: [str(path) for path in config["files"].get(kind, ())] for kind in ("solution", "test", "example")}
    if missing := [path for paths in named.values() for path in paths if path not in own]:
        notes.append(f"{slug} is not imported: {missing[0]} is missing")
        return None
    if not all(named.values()):
        notes.append(
            f"{slug} is not imported: its config names no {next(kind for kind, paths in named.items() if not paths)}"
        )
        return None
    return Exercise(
        slug,
        "\n\n".join(own[f".docs/{name}"].strip() for name in TOLD if f".docs/{name}" in own),
        {path: own[path] for path in named["solution"]},
        {path: _unskipped(own[path]) for path in (*named["test"], *_beside(own, config))},
        dict(zip(_answers(named), (own[path] for path in named["example"]), strict=False)),
    )


def _beside(own: Mapping[str, str], config: JsonObject) -> Iterator[str]:
    """Files that the tests need and the stub does not have."""
    return (path for path in config["files"].get("editor", ()) if path in own)


def _answers(named: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The solution file that each example file replaces: the one with the same name, else the one at the same index."""
    by_name = {path.rpartition("/")[2]: path for path in named["solution"]}
    return [by_name.get(path.rpartition("/")[2], named["solution"][min(place, len(named["solution"]) - 1)])
            for place, path in enumerate(named["example"])]  # fmt: skip


def _case(exercise: Exercise, rules: Track) -> JsonObject:
    where = " and ".join(f"`{path}`" for path in exercise.stub)
    tags = {"track": rules.language} | ({"known": rules.known[exercise.slug]} if exercise.slug in rules.known else {})
    told = exercise.told.replace("{{", "{ {")  # Instructions contain no placeholders of planloop.
    return {
        "about": exercise.slug,
        "prompts": [f"{told}\n\nWrite the solution in {rules.language}, in {where}. Keep the names in the stub."],
        "tags": tags,
        "files": f"stub/{exercise.slug}",
        "check-files": f"checks/{exercise.slug}",
        "checks": {"tests": {"sh": f"sh /checks/{RUN}", "timeout": TIMEOUT}},
        "proof": {
            "oracles": {"example": {"files": f"example/{exercise.slug}"}},
            "mutants": {"stub": {"files": f"stub/{exercise.slug}", "kills": "tests"}},
        },
    }


def _unskipped(text: str) -> str:
    """The tests with all skips removed."""
    return re.sub(
        r"\b(it|test|describe)\.(?:skip|todo)\b", r"\1", re.sub(r"\bx(it|test|describe)(?=\s*[(.])", r"\1", text)
    )


def _json(content: bytes | None) -> Json:
    try:
        return None if content is None else decode_foreign(content)
    except ValueError:
        return None


def _text(content: bytes) -> str:
    return content.decode(errors="replace")


def _namespaces(exercise: Exercise) -> list[str]:
    """The namespaces of the tests, from their `ns` forms."""
    found = (re.search(r"\(ns\s+(?:\^\S+\s+)*([\w.*+!?<>=-]+)", text) for text in exercise.tests.values())
    return [one[1] for one in found if one is not None]


def _clojure(exercise: Exercise) -> str:
    spaces = " ".join(_namespaces(exercise))
    return _judged(exercise, f"clojure -cp src:/checks/test /checks/{CLOJURE_RUN} {spaces}")


def _clojurescript(exercise: Exercise) -> str:
    spaces = " ".join(_namespaces(exercise))
    return f"{_COPIED}\n" + _judged(exercise, f"{_node('--allow-fs-read=/node_modules/')} {CLOJURESCRIPT_RUN} {spaces}")


def _typescript(exercise: Exercise) -> str:
    tests = " ".join(path for path in exercise.tests if path.endswith(".test.ts"))
    return f"{_COPIED}\n" + _judged(
        exercise, f"{_node('--frozen-intrinsics', '--experimental-transform-types')} {TYPESCRIPT_RUN} {tests}"
    )


def _node(*options: str) -> str:
    """Node that can read only the copied files, and not `/proc`, which exposes commands, memory and pipes."""
    return " ".join(("node --permission --allow-fs-read=/tmp/t/ --no-warnings", *options))


def _tests_min(exercise: Exercise) -> int:
    """The minimal number of tests that must run: tests in the text, where a table of tests counts once."""
    return max(1, sum(len(_TEST.findall(text)) for text in exercise.tests.values()))


def _judged(exercise: Exercise, command: str) -> str:
    """The end of the script: run the command, and pass if it reports the key, enough tests and no failure.

    Only the memory of the shell has the key. Output of the run and its report are separate.
    """
    return f"""\
key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')
printed="${{TMPDIR:-/tmp}}/printed"
said=$(printf %s "$key" | {command} 3>&1 > "$printed" 2>&1)
tail -c 4000 "$printed"
set -f
set -- "$key" $said
[ $# = 4 ] && [ "$2" = "$1" ] && [ "$3" -ge {_tests_min(exercise)} ] && [ "$4" = 0 ]"""


def _lisp_files(ending: str) -> Callable[[str], JsonObject]:
    def files(slug: str) -> JsonObject:
        name = slug.replace("-", "_")
        example = ".meta/example.clj" if ending == "clj" else ".meta/src/example.cljs"
        return {"solution": [f"src/{name}.{ending}"], "test": [f"test/{name}_test.{ending}"], "example": [example]}

    return files


def _typescript_files(slug: str) -> JsonObject:
    return {"solution": [f"{slug}.ts"], "test": [f"{slug}.test.ts"], "example": [".meta/proof.ci.ts"]}


def _part(name: str) -> str:
    return resources("planloop.benchmarks.importers").joinpath(name).read_text()


def _jest() -> Mapping[str, str]:
    """A small replacement for jest, which the images do not have: the parts that the track's tests use."""
    package = '{"name": "@jest/globals", "type": "module", "main": "index.mjs"}\n'
    jest = "node_modules/@jest/globals/"
    own = {f"{jest}package.json": package, f"{jest}index.mjs": _part("jest_globals.mjs")}
    runner = {RUN_KEY: _part("run_key.mjs"), TYPESCRIPT_RUN: _part("jest_run.mjs")}
    return {**own, **runner, "package.json": '{"type": "module"}\n'}


def _nbb() -> Mapping[str, str]:
    """Files for nbb, with empty settings next to the script: otherwise nbb searches parent folders for settings."""
    return {RUN_KEY: _part("run_key.mjs"), CLOJURESCRIPT_RUN: _part("nbb_run.mjs"), "nbb.edn": "{}\n"}


TRACKS: Final[Mapping[str, Track]] = MappingProxyType(
    {
        "clojure": Track(
            "Clojure",
            _lisp_files("clj"),
            _clojure,
            {"wordy": "requires Clojure 1.12", "state-of-tic-tac-toe": "requires Clojure 1.12"},
            {CLOJURE_RUN: _part("clojure_run.clj")},
        ),
        "clojurescript": Track(
            "ClojureScript",
            _lisp_files("cljs"),
            _clojurescript,
            {
                "bank-account": "nbb has no `pmap`",
                "change": "uses an exception of the JVM",
                "isogram": "nbb has no `goog.string`",
            },
            _nbb(),
        ),
        "typescript": Track(
            "TypeScript",
            _typescript_files,
            _typescript,
            {
                "palindrome-products": "takes longer than 40 seconds",
                "pythagorean-triplet": "takes longer than 40 seconds",
                "crypto-square": "fails a test that the track skips",
            },
            _jest(),
        ),
    }
)
