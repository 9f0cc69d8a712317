"""What cannot be run is told before anything of it is there, and leaves no run behind."""

from __future__ import annotations

import pytest

from tests.e2e import benches
from tests.e2e.folder import Folder

REFUSED = {
    "a name that is a path": ("--name", "../r"),
    "a name that no folder can have": ("--name", "n" * 300),
    "two scripts of one name": ("--model", "script:one/x.yaml", "--model", "script:two/x.yaml"),
    "reports that are a file": ("--reports", "suite.yaml"),
    "a plan that cannot run": ("--model", "script:bad.yaml"),
}


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_a_run_that_cannot_begin_says_why_and_leaves_nothing(folder: Folder, words: tuple[str, ...]) -> None:
    benches.lay(folder)
    for name, step in (("one/x", "{done: a}"), ("two/x", "{done: b}"), ("bad", "{zap: 1}")):
        path = folder.path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'"*": [{step}]\n')

    said = folder.run("bench", "run", "suite.yaml", "--model", "nop", *words)

    assert said.code in (1, 2, 3), said.text
    assert "help:" in said.err
    assert list(folder.path.rglob("plan.json")) == []
