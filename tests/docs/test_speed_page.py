"""`docs/contribute/speed.md` names scripts that exist."""

from __future__ import annotations

import re

from tests.architecture.tree import ROOT

SCRIPTS = ROOT / "benchmarks" / "planloop" / "benchmarks" / "speed"


def test_every_row_of_the_page_names_a_speed_script() -> None:
    named = re.findall(r"^\|[^|]+\| `(\w+)` \|", (ROOT / "docs" / "contribute" / "speed.md").read_text(), re.MULTILINE)

    assert len(named) > 30
    assert set(named) <= {file.stem for file in SCRIPTS.glob("*.py")}
