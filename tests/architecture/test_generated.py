"""`.gitattributes` marks the generated files that are committed."""

from __future__ import annotations

import subprocess

import pytest

from planloop.server.api import openapi
from tests.architecture.test_map import MODULES
from tests.architecture.tree import ROOT

MARK = "linguist-generated"
WRITTEN = (
    openapi.FILE,
    MODULES,
    ROOT / "web/src/api-types.d.ts",
    ROOT / "schemas/planloop/schemas/json/plan.schema.json",
    ROOT / "server/planloop/server/page/index.html",
)


def test_every_marked_pattern_names_files() -> None:
    lines = (ROOT / ".gitattributes").read_text().splitlines()
    patterns = [line.removesuffix(f" {MARK}") for line in lines if line.endswith(MARK)]

    assert len(patterns) >= len(WRITTEN)
    assert [pattern for pattern in patterns if not any(ROOT.glob(pattern))] == []


@pytest.mark.process
@pytest.mark.needs("git")
def test_generated_files_are_marked_for_reviews() -> None:
    files = [
        str(file.relative_to(ROOT)) for file in (*WRITTEN, *(ROOT / "server/planloop/server/page/assets").iterdir())
    ]
    command = ["git", "check-attr", MARK, "--", *files]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert [line for line in found.splitlines() if not line.endswith(": set")] == []
