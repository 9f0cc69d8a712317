"""What a hostile or broken tool server offers and says, before any of it reaches a model or a person."""

from __future__ import annotations

from pathlib import Path

from planloop.controllers.mcp import server_offer
from planloop.controllers.mcp.server_run import RUN_HEADER, last_stderr_line
from planloop.reconciler.effects.rolling_file import RollingFile
from planloop.schemas import limits


def test_tool_with_an_enormous_name_is_left_out() -> None:
    schema = {"type": "object"}
    made = server_offer.server_offer(
        [{"name": "x" * 70_000, "inputSchema": schema}, {"name": "ok", "inputSchema": schema}]
    )

    assert [each.name for each in made.tools] == ["ok"]
    ((name, why),) = made.left_out
    assert len(name) <= 100 and str(limits.SERVER_OFFER_BYTES_MAX) in why


def test_reason_of_a_servers_end_is_its_output_and_never_our_own_line_before_it(tmp_path: Path) -> None:
    grumbles = RollingFile(tmp_path / "log", limits.SERVER_LOG_BYTES_MAX)
    grumbles.add(f"{RUN_HEADER}mcp/bad plan 1\n".encode())
    assert last_stderr_line(grumbles) == ""

    grumbles.add(b"no module named x\n\n")
    assert last_stderr_line(grumbles) == "no module named x"
