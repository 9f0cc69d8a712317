"""The names of entries: ids of tasks, workspaces and containers are made of them."""

from __future__ import annotations

from planloop.benchmarks.runs.contestants import contestant_from_name
from planloop.benchmarks.runs.plan import plan_document
from planloop.benchmarks.runs.run_compiler import RunRequest, compile_run
from planloop.benchmarks.suite import Case, CaseSetting, Suite
from planloop.compiler.names import is_valid_id

LONG = "a" * 63
MODELS = ("lab/gpt", "lab-gpt", f"lab/{LONG * 5}", "nop")


def test_entries_with_too_long_or_similar_names_get_distinct_ids() -> None:
    cases = {
        id_: Case(id_, id_, ("go",), (), setting=CaseSetting(image="stand/in"))
        for id_ in (f"{LONG}a", f"{LONG}b", "short")
    }

    compiled = compile_run(
        Suite("s", "", 7, 2, {}, cases), [contestant_from_name(name) for name in MODELS], RunRequest()
    )

    made = {(entry.case, entry.model, entry.trial): name for name, entry in compiled.entries.items()}
    assert len(made) == len(compiled.entries) == len(cases) * len(MODELS) * 2
    assert made["short", "lab/gpt", 2] == "short--lab-gpt--2"
    document = plan_document(compiled, dict.fromkeys(compiled.entries, 9999), parallel=1)
    assert all(map(is_valid_id, (*document["tasks"], *document["containers"])))
