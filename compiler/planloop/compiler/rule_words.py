"""`plan explain rule`: the language of rules, as its tables have it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Final

from planloop.schemas.rule import BLANKS, CONDITIONS, EFFECTS, NUMBER_TESTS, TEXT_TESTS

TOPICS: Final = frozenset({"rule", "rules", "clause", "when"})

_WIDTH: Final = 110
_EXAMPLE: Final = """\
rule:
  - when: {call: "shell(git push*)", not: {arguments: {command: {contains: --dry-run}}}}
    deny: Leave pushing to people."""


def page() -> str:
    """Every word that a rule may say, with what it means."""
    lines = [
        "rule",
        "A list of clauses, read from the top; each whose `when` holds has its effects, and one that decides ends the "
        "reading.",
        "",
        *_table("A clause may say:", {"when": "What has to hold; left out, it always holds.", **EFFECTS}),
        *_table("`when` may say, and all of it has to hold:", CONDITIONS),
        f"A test is a value, a list of which one has to be equal, or a map. Numbers know {' '.join(NUMBER_TESTS)}.",
        "",
        *_table("Texts and arguments know besides:", TEXT_TESTS),
        *_table("Texts for the agent may have blanks, as in `{tool}`:", BLANKS),
        "Example:",
        textwrap.indent(_EXAMPLE, "  "),
    ]
    return "\n".join(lines)


def _table(head: str, words: Mapping[str, str]) -> Iterator[str]:
    yield head
    wide = max(map(len, words)) + 4
    for name, text in words.items():
        yield textwrap.fill(text, _WIDTH, initial_indent=f"  {name:<{wide - 2}}", subsequent_indent=" " * wide)
    yield ""
