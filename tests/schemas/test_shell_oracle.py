"""What real shells run of random lines is what denials see in them: dash and bash, with a `git` that takes notes."""

from __future__ import annotations

import random  # noqa: TID251 - seeded: the same lines at each run
import shutil
import subprocess
from pathlib import Path

import pytest

from planloop.schemas.patterns import find_denial
from planloop.schemas.shell.commands import find_commands
from tests import needs, sets

pytestmark = pytest.mark.process

PIECES = (
    "git| |push|pu|sh|'|\"|\\|$x|${x}|$(echo push)|`echo push`|p{ush,}|pus[h]|pu*|;|&&|\n|x=push|x=git|env|xargs git"
    "|sh -c|eval|-C .|-c a=b|--no-pager|<&0|2>&1|>/dev/null|'git push'|$'push'|(|)|{ |; }|echo|echo push"
    '|cat <<E\n|\nE\n|it\'s|# c|command|for x in push;do|done|case a in a)|;;esac|\\\n|$((1+1))|f(){ |set -- push;|"$@"'
    "|~|A=1|${y:-push}|$(|<(|'a;b'|{}|<<<"
).split("|")
LINES = (
    ("git", " ", "push"),
    ("x=push;", "git", " ", "$x"),
    ("git", " ", "p{ush,}"),
    ("git", "<&0", " ", "push"),
    ("git", " ", "-C .", " ", "push"),
    ("cat <<E\n", "it's", "\nE\n", "git push", "\n"),
    ("sh -c", " ", "'git push'"),
    ("f(){ ", "git", " ", '"$@"', "; }", ";", "f", " ", "push"),
    ("case a in a)", " ", "git", " ", "push", ";;esac"),
)
TAKES_NOTES = '#!/bin/sh\nIFS=@; echo "$*" >> "$NOTES"\n'
VALUED = ("-C", "-c", "--git-dir")


def varied(source: random.Random) -> str:
    """A line that pushes, with pieces of shell put in, taken out and repeated."""
    line = list(source.choice(LINES))
    for _ in range(source.randint(0, 2)):
        at = source.randrange(len(line))
        line[at : at + source.choice((0, 0, 1))] = [source.choice((*PIECES, line[at]))]
    return "".join(line)


def is_push(note: str) -> bool:
    words = note.split("@")
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in VALUED else 1 :]
    return words[:1] == ["push"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_law_6_what_a_shell_runs_of_a_line_is_denied_before(shell: str, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "git").write_text(TAKES_NOTES)
    (programs / "git").chmod(0o755)
    for name in ("cat", "env", "sh", "xargs"):
        (programs / name).symlink_to(needs.program(name))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "push").touch()
    path, notes = shutil.which(shell) or needs.missing(shell), tmp_path / "notes"
    env = {"PATH": str(programs), "NOTES": str(notes), "HOME": "/push"}
    source, pushed = random.Random(21), 0
    for _ in range(sets.examples(2_500, 250)):
        line = varied(source)
        notes.write_text("")
        subprocess.run(
            [path, "-c", line],
            cwd=tmp_path / "work",
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            timeout=20,
        )
        if any(map(is_push, notes.read_text().splitlines())):
            pushed += 1
            assert find_denial(("shell(git push *)",), "shell", find_commands(line)), repr(line)
    assert pushed > 20, "too few of the lines push for this to say anything"
