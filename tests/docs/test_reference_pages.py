"""The generated pages of the reference are those that their sources make."""

from __future__ import annotations

import inspect
import re
from typing import Any

from planloop.client.exit_codes import ExitCode
from planloop.controllers.agent.deciders import port, python_child
from planloop.schemas.spec.tables import TABLE_BY_NAME
from tests import rows
from tests.docs import reference_pages

PAGES = reference_pages.all_pages()


@rows.each("page", PAGES)
def test_a_page_of_the_reference_is_what_its_sources_make(page: str, is_updating: bool) -> None:
    path = reference_pages.path_of(page)
    if is_updating:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGES[page])

    assert path.read_text() == PAGES[page], "run `make docs` and look at the difference"


def test_every_field_table_is_on_one_page() -> None:
    tables = [name for _, _, names in reference_pages.SECTIONS.values() for name in names]

    assert sorted(tables) == sorted(TABLE_BY_NAME)


def test_every_exit_code_is_explained() -> None:
    assert set(reference_pages.EXIT_CODES) == set(ExitCode)


def test_there_is_a_page_of_fields_for_each_section_and_for_nothing_else() -> None:
    there = {f"fields/{path.name}" for path in (reference_pages.FOLDER / "fields").glob("*.md")}

    assert there == {page for page in PAGES if page.startswith("fields/")}


def test_the_python_agent_of_the_page_returns_valid_actions() -> None:
    (program,) = re.findall(r"(?ms)^```python\n(.*?)^```\n", (reference_pages.FOLDER / "python.md").read_text())
    names: dict[str, Any] = {}
    exec(program, names)
    turns = [{"memory": None, "results": []}, {"memory": 1, "results": [{"result": {"state": "Succeeded"}}]}]

    replies = [port.reply_from_actions(python_child.action_lines(names["work"](turn))[-2:]) for turn in turns]

    assert [[call.fault for call in reply.calls] for reply in replies] == [[""], [""]]
    assert replies[0].memory == 1


def test_the_page_on_python_names_every_action_and_every_member_of_a_turn() -> None:
    text = (reference_pages.FOLDER / "python.md").read_text()
    members = dict(inspect.signature(port.TurnInput).parameters)

    assert [verb for verb in port.ACTION_VERBS if f'`{{"{verb}": ' not in text] == []
    assert [name for name in members if f"`{name}`" not in text] == []
