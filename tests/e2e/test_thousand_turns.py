"""Ten scripted and ten LLM agents edit the same twenty files for a thousand turns, and their owner is killed.

In the set change they take a quarter of the turns.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import pytest

from tests import sets
from tests.e2e.folder import Folder
from tests.e2e.test_model_kills import draws, lives
from tests.fakes.crowd import Crowd, Story, told_by
from tests.fakes.hands import Hands, serving

KILLS = 8 if sets.is_nightly() else 2
TURNS = 1000 if sets.is_nightly() else 250
CROWD = Crowd() if sets.is_nightly() else Crowd(script_lines=3, model_lines=4)
WAIT_S_MAX = 30.0  # Of a call for its locks: behind nineteen others, with an owner that is killed meanwhile.
RING_S_MAX = 1.0


@pytest.mark.sweep
@pytest.mark.timeout(300)  # A thousand turns, each on the disk before it goes on, and nine owners that start.
def test_thousand_turns_on_twenty_files_lose_no_line_despite_killed_owners(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in CROWD.contents().items():
        folder.write(name, text)
    with serving(Hands(CROWD.model_lines, CROWD.files)) as url:
        models = json.dumps({"ollama": {"url": url}})
        folder.write("hands.plan.yaml", CROWD.plan_text(f"plan: hands\nmodels: {models}"))
        kills = 0
        for kill in range(KILLS):
            records, more_s = draws(17, kill)
            with folder.killed("--yes", "hands.plan.yaml") as owner:
                kills += lives(folder, owner, 60 + 10 * records, more_s)
        said = folder.run("apply", "--yes", "hands.plan.yaml", timeout_s=200)

    assert said.code == 0, said.text
    assert kills == KILLS, "the work was over before the last kill"
    assert set(folder.states().values()) == {"done"}
    assert folder.json("get", "locks") == []
    assert folder.json("get", "approvals") == [], "resolved conflicts need no approval"
    story = story_of(folder)
    CROWD.check_no_update_is_lost(story, contents(folder.path))
    assert story.turns >= TURNS, story.turns
    assert max(story.rings_s, default=0.0) <= RING_S_MAX
    assert max(story.waits_s) <= WAIT_S_MAX
    with capsys.disabled():
        sys.stdout.write(f"\n{words_of(story)}, {kills} kills\n")


def contents(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in CROWD.contents()}


def story_of(folder: Folder) -> Story:
    entries = []
    for record in folder.records():
        steps = [record, *record.get("also", ())]
        entries += [(record["at"], one["type"], one["subject"], one["data"]) for one in steps]
    return told_by(entries)


def words_of(story: Story) -> str:
    median_ms, most_ms = statistics.median(story.waits_s) * 1000, max(story.waits_s) * 1000
    rings = f"{len(story.rings_s)} rings, broken in at most {max(story.rings_s, default=0.0) * 1000:.0f} ms"
    waits = f"{len(story.waits_s)} waits, median {median_ms:.0f} ms, longest {most_ms:.0f} ms"
    return f"{story.turns} turns, {waits}, {rings}, refused: {story.errors}"
