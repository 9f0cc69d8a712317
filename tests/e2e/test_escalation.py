"""A stuck model escalates, seen through the command, and the page on models shows what it prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.folder import Folder
from tests.fakes.model_server.running import started

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "models.md"
STEPS: Final = [
    {"reply": {"text": "It cannot be done."}, "times": 3},
    {"reply": {"calls": [{"name": "write", "arguments": {"path": "answer.txt", "content": "42"}}]}},
    {"reply": {"text": "answer.txt is written."}},
]


EDN: Final = """
{:plan "demo" :goal "answer" :acceptance [{:require-file "answer.txt"}] :models {:house {:url "URL"}}
 :agent {:model "house/small" :tools [:write] :escalate {:after 3 :model "house/large" :budget {:turns 20}}}}
"""


def shown() -> tuple[str, list[str]]:
    """The plan of the section of the page, and the lines of output in it."""
    section = PAGE.read_text().partition("## Stuck, and a stronger model")[2].partition("\n## ")[0]
    (plan,) = re.findall(r"(?ms)^```yaml\n(.*?)^```", section)
    return plan, [line for block in re.findall(r"(?ms)^```text\n(.*?)^```", section) for line in block.splitlines()]


@pytest.mark.process
@pytest.mark.parametrize("form", ["yaml", "edn"])
def test_a_stuck_model_escalates_as_the_page_shows(folder: Folder, form: str) -> None:
    plan, lines = shown()
    with started(STEPS, folder.path) as server:
        text = plan.replace("http://localhost:8000/v1", server.url)
        text = f"plan: demo\ngoal: answer\nacceptance: [{{require-file: answer.txt}}]\n{text}"
        if form == "edn":
            text = EDN.replace("URL", server.url)
        folder.write(f"demo.plan.{form}", text)
        preview = folder.run("diff", f"demo.plan.{form}").out
        assert folder.run("apply", "--yes", f"demo.plan.{form}").code == 0
    described, logs = folder.run("describe", "agent/.").out, folder.run("logs", "agent/.").out

    assert lines[0] in preview
    assert lines[1] in described
    assert "escalated to house/large: its agent gave the same answer 3 times" in logs
    assert folder.run("replay", "--tree").code == 0
