"""Which files steer a plan: what denials of writing are about."""

from __future__ import annotations

import pytest

from planloop.controllers.shared.sandbox import steering_files


@pytest.mark.parametrize(
    ("guarded", "files"),
    [
        ("write(hooks/guard.sh)", ("p.yaml", "hooks/guard.sh")),
        ("write(hooks/**)", ("p.yaml", "hooks")),
        ("write(a/checks*1*.py)", ("p.yaml", "a")),
        ("write(checks*1*.py)", ("p.yaml", "checks*1*.py")),
        ("write(**/x.py)", ("p.yaml",)),
        ("write", ("p.yaml",)),
        ("write(p.yaml)", ("p.yaml",)),
    ],
)
def test_a_denial_of_writing_is_about_a_file_or_the_folder_that_it_is_in(guarded: str, files: tuple[str, ...]) -> None:
    assert steering_files("p.yaml", [guarded]) == files
