"""What people write and what it points at."""

from __future__ import annotations

import pytest

from planloop.client import references
from tests.golden_text import said
from tests.product import CommandError
from tests.product import CommandExit as Exit


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("task/ui/form/goal", ("tasks", "ui", "tasks", "form", "goal")),
        ("ui/budget.usd", ("tasks", "ui", "budget", "usd")),
        ("task/./goal", ("goal",)),
        ("task/goal", ("goal",)),
        ("goal", ("goal",)),
        ("budget.usd", ("budget", "usd")),
        ("agent/ui/tools", ("tasks", "ui", "agent", "tools")),
        ("hook/guard/on", ("hooks", "guard", "on")),
        ("/tasks/ui/goal", ("tasks", "ui", "goal")),
    ],
)
def test_command_words_name_a_field(words: str, path: tuple[str, ...]) -> None:
    assert references.named_field(words) == path


@pytest.mark.parametrize("words", ["", "frontend", "ui/", "call/1/op"])
def test_unknown_field_is_refused_with_a_fix(words: str) -> None:
    with pytest.raises(CommandError) as fault:
        references.named_field(words)
    assert fault.value.exit == Exit.USAGE
    assert fault.value.hint


def test_field_is_set_and_missing_maps_on_its_path_are_created() -> None:
    document = {"tasks": {"ui": {"goal": "x"}}}

    op = references.parse_setting(document, ("tasks", "ui", "budget", "usd"), 4)

    assert (op.path, op.value) == (("tasks", "ui", "budget"), {"usd": 4})


def test_setting_a_field_of_a_missing_task_does_not_create_it() -> None:
    op = references.parse_setting({"tasks": {}}, ("tasks", "nobody", "goal"), "x")

    assert op.path == ("tasks", "nobody", "goal")


def test_an_answer_reads_numbers_and_leaves_text_as_it_is() -> None:
    assert references.parse_answer(["name=Ada", "age=36", "sure=true", "map={}"]) == {
        "name": "Ada",
        "age": 36,
        "sure": True,
        "map": "{}",
    }


def test_a_part_of_an_answer_without_a_name_is_refused() -> None:
    with pytest.raises(CommandError) as caught:
        references.parse_answer(["=x"])
    said(str(caught.value))
