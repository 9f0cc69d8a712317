"""Which files answer for a hook, as its command and its plan show them."""

from __future__ import annotations

import pytest

from planloop.compiler.lower.agents import command_argv, guarded_patterns, program_files


@pytest.mark.parametrize(
    ("command", "cwd", "files"),
    [
        (["python3", "hooks/guard.py", "--strict"], ".", {"hooks/guard.py", "hooks/**"}),
        (["python3", "./checks/guard.py"], "a", {"a/checks/guard.py"}),
        ("./guard", "./a/../b", {"b/guard"}),
        ('"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh', "a", {".claude/hooks/guard.sh", ".claude/hooks/**"}),
        ('bash "${CLAUDE_PROJECT_DIR}/my checks/guard.sh"', ".", {"my checks/guard.sh"}),
        ("cd x && python3 -u guard.py; sh other", ".", {"guard.py", "other"}),
        (["python3", "-m", "guards.first"], ".", {"guards/first.py", "guards/**"}),
        (["sh", "-e", "guard"], ".", {"guard"}),
        (["/srv/plan/git-hooks/g"], ".", {"git-hooks/g", "plan/git-hooks/g", "git-hooks/**"}),
        (["../hooks/guard.py"], "a", {"hooks/guard.py"}),
        (["..checks/guard.py"], ".", {"..checks/guard.py"}),
    ],
)
def test_a_command_shows_its_files(command: list[str] | str, cwd: str, files: set[str]) -> None:
    assert files <= set(guarded_patterns(program_files(command_argv(command), cwd)))


@pytest.mark.parametrize(
    "command",
    [
        ["/usr/bin/python3", "-c", "print(1)"],
        ["jq", "-e", ".ok"],
        "curl https://example.org/x.sh",
        ["../out.py"],
        "exit 2",
    ],
    ids=str,
)
def test_path_that_is_not_a_file_beside_the_plan_is_not_a_hook_file(command: list[str] | str) -> None:
    assert guarded_patterns(program_files(command_argv(command), ".")) in ((), (".ok",))


@pytest.mark.parametrize(
    ("command", "files"),
    [
        (["./tools/serve", "--root", "./data"], {"tools/serve"}),
        (["uvx", "mcp-server-git", "--repository", "/srv/shop"], set()),
        (["python3", "serve.py", "data/store.db"], {"serve.py"}),
        (["npx", "-y", "server-filesystem", "docs/"], set()),
    ],
    ids=str,
)
def test_only_the_programs_of_a_servers_arguments_count(command: list[str], files: set[str]) -> None:
    assert set(guarded_patterns(program_files(command, ".", with_data=False))) == files
