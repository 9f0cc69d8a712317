"""What is started of a program: where people put such things, in the order in which they mean them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from planloop.benchmarks.grading.containers import find_start_command
from tests import rows

MAIN = "(ns my.app (:gen-class))\n(defn -main [& args] (println 1))\n"
START = '{"scripts": {"start": "node x"}}'
NBB = ["nbb", "--classpath", "src:."]
CLOJURE = ["clojure", "-cp", "src:."]

FOUND: list[tuple[str, Mapping[str, str], list[str]]] = [
    ("a script says what runs it", {"run": "#!/usr/bin/env bash\nnode x"}, ["/usr/bin/env", "bash", "./run"]),
    ("a script that says nothing is the shell's", {"run": "node x"}, ["sh", "./run"]),
    ("a script before a package", {"start.sh": "node x", "package.json": START}, ["sh", "./start.sh"]),
    ("a package with a start", {"package.json": START, "main.ts": ""}, ["npm", "start"]),
    ("a package without a start", {"package.json": '{"scripts": {"test": "x"}}', "main.ts": ""}, ["node", "main.ts"]),
    ("a package.json that is not JSON", {"package.json": "{", "index.js": ""}, ["node", "index.js"]),
    ("a package that is a spire", {"package.json": "[" * 100_000, "index.js": ""}, ["node", "index.js"]),
    ("a package that is a list", {"package.json": "[1]", "app.mjs": ""}, ["node", "app.mjs"]),
    (
        "an alias of deps.edn",
        {"deps.edn": '{:paths ["src" "res"] :aliases {:run {:main-opts ["-m" "a.b"]}}}', "main.clj": ""},
        ["clojure", "-cp", "src:res", "-m", "a.b"],
    ),
    (
        "a function of deps.edn",
        {"deps.edn": "{:aliases {:run {:exec-fn a.b/go}}}"},
        ["clojure", "-cp", "src", "-e", "((requiring-resolve 'a.b/go) {})"],
    ),
    ("a deps.edn without the alias", {"deps.edn": "{:paths []}", "main.clj": "(println 1)"}, [*CLOJURE, "main.clj"]),
    ("a deps.edn that is torn", {"deps.edn": "{:paths [", "main.clj": "(println 1)"}, [*CLOJURE, "main.clj"]),
    ("a main below src", {"src/my/app.clj": MAIN}, [*CLOJURE, "-m", "my.app"]),
    (
        "the core before others, and only one with a main",
        {"src/a/other.clj": MAIN.replace("my.app", "a.other"), "src/z/core.clj": MAIN, "src/core.clj": "(ns core)"},
        [*CLOJURE, "-m", "my.app"],
    ),
    ("a namespace with metadata", {"src/a.clj": MAIN.replace("my", "^:x ^{:doc 1} my")}, [*CLOJURE, "-m", "my.app"]),
    (
        "a namespace that can be read in many ways",  # Trying all orders would take years.
        {"src/a.clj": MAIN.replace("my.app", "^{} " * 60 + "("), "main.clj": "1"},
        [*CLOJURE, "main.clj"],
    ),
    ("a script in Clojure", {"server.clj": "(println 1)"}, [*CLOJURE, "server.clj"]),
    ("a script with a main", {"main.clj": MAIN}, [*CLOJURE, "-m", "my.app"]),
    ("a script that calls its main", {"main.cljs": MAIN + "(-main)\n"}, [*NBB, "main.cljs"]),
    ("ClojureScript with a main", {"src/my/core.cljs": MAIN}, [*NBB, "-m", "my.app"]),
    ("ClojureScript by its name", {"src/server.cljs": "(println 1)"}, [*NBB, "src/server.cljs"]),
    ("TypeScript below src", {"src/index.ts": "", "src/other.ts": ""}, ["node", "src/index.ts"]),
    ("TypeScript before what it was made into", {"main.js": "", "server.ts": ""}, ["node", "server.ts"]),
    ("above before below", {"src/main.ts": "", "server.js": ""}, ["node", "server.js"]),
    ("Python", {"app.py": ""}, ["python3", "app.py"]),
]  # fmt: skip


def laid(folder: Path, files: Mapping[str, str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


@rows.each(("files", "argv"), [row[1:] for row in FOUND], ids=[row[0] for row in FOUND])
def test_program_is_started_as_its_author_intended(
    files: Mapping[str, str], argv: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert find_start_command(laid(tmp_path_factory.mktemp("program"), files), "auto").argv == tuple(argv)


def test_an_executable_is_run_as_it_is(tmp_path: Path) -> None:
    (laid(tmp_path, {"run": "\x7fELF"}) / "run").chmod(0o755)

    found = find_start_command(tmp_path, "auto")

    assert (found.argv, found.tried) == (("./run",), ("an executable `run`",))


@pytest.mark.parametrize("files", [{}, {"README.md": "x", "src/thing.ts": ""}, {"run/main.ts": ""}, {"notes.clj": "1"}])
def test_missing_program_reports_where_it_was_looked_for(files: Mapping[str, str], tmp_path: Path) -> None:
    found = find_start_command(laid(tmp_path, files), "auto")

    assert found.argv is None
    assert found.tried == (
        "an executable `run`",
        "`scripts.start` of package.json",
        "the alias `:run` of deps.edn",
        "a `-main` in src/**/*.clj",
        "main, server, app, index or core with .ts, .js, .cljs, .clj or .py",
    )


@pytest.mark.parametrize(
    ("run", "argv"), [(["node", "x.ts"], ("node", "x.ts")), ("node x.ts | cat", ("sh", "-c", "node x.ts | cat"))]
)
def test_a_case_may_say_the_command(run: str | list[str], argv: tuple[str, ...], tmp_path: Path) -> None:
    assert find_start_command(laid(tmp_path, {"main.ts": ""}), run).argv == argv
