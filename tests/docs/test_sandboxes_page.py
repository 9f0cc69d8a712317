"""What `docs/operate/sandboxes.md` shows can be written so."""

from __future__ import annotations

import re

import pytest

from planloop.client.plan_sources import FolderSources
from planloop.compiler import plan_compiler
from tests.architecture.tree import ROOT

BLOCKS = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "operate" / "sandboxes.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_examples_on_the_page_compile(block: str) -> None:
    text = f"plan: demo\ngoal: shows it\n{block}".encode()

    found = plan_compiler.compile_source(text, file="demo.plan.yaml", sources=FolderSources(ROOT))

    assert [one for one in found.diagnostics if one.severity == "error"] == []
    assert found.graph is not None and found.graph.objects["agent/."].spec["sandbox"]
