"""The tables of `docs/reference/rights.md` list the ways that the tests try, in their order, with what stopped each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.tree import ROOT
from tests.containers.sandboxing import probes
from tests.e2e import command_escapes

PAGE = ROOT / "docs" / "reference" / "rights.md"
WAYS = ("| tried | stopped by |", command_escapes.table())
PROBES = ("| tried inside | stopped by |", [(one.name, one.stopped_by) for one in probes.PROBES])


def lines(head: str, rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield head
    yield "| --- | --- |"
    yield from (f"| {name} | {stopped} |" for name, stopped in rows)


@pytest.mark.parametrize(("head", "rows"), [WAYS, PROBES], ids=["shell(git status)", "tier 2"])
def test_table_lists_every_tried_way(head: str, rows: list[tuple[str, str]]) -> None:
    wanted = "\n".join(lines(head, rows))

    _, found, rest = PAGE.read_text().partition(head)
    table = found + rest.partition("\n\n")[0].rstrip("\n")

    assert table == wanted, f"write this table into {PAGE.name}:\n{wanted}"
