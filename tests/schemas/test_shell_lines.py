"""Ways around patterns of shell commands, by name: none widens an allowance, and the known ones meet the denial."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.schemas.patterns import find_denial, is_allowed_by
from planloop.schemas.shell.commands import UNDECIDED, find_commands, simple_commands
from tests import rows

GIT = ("shell(git *)", "shell(ls)")
NO_RM = ("shell(rm -rf *)",)

ESCAPES = {
    "a second command": "git status; rm -rf x",
    "and": "git status && rm -rf x",
    "or": "git status || rm -rf x",
    "a pipe": "git log | sh",
    "in the background": "git log & rm -rf x",
    "a newline": "git status\nrm -rf x",
    "a substitution": "git log $(rm -rf x)",
    "backticks": "git log `rm -rf x`",
    "a substitution in quotes": 'git log "$(rm -rf x)"',
    "backticks in quotes": 'git log "`rm -rf x`"',
    "a here document": "git log <<EOF\n$(rm -rf x)\nEOF",
    "a redirection": "git log > ../outside",
    "a redirection in": "git apply < ../outside",
    "a process substitution": "git diff <(rm -rf x)",
    "a subshell": "(git status)",
    "a brace": "git {status,push}",
    "a variable": "git $SUBCOMMAND",
    "an escaped newline": "git status\\\nrm -rf x",
    "an escape": "git\\ x",
    "a comment that opens a quote": "git status # it's\nrm -rf x # it's",
    "an open quote": "git status 'x",
    "an assignment": "GIT_PAGER=evil git log",
    "another case": "GIT status",
    "another blank": "git\u00a0status",
    "a longer name": "gitx status",
    "another path": "./git status",
    "nothing": "  ",
    "a null": "git status\0; rm",
    "a quoted name": "'git' status",
}


@rows.each("line", ESCAPES.values(), ids=ESCAPES.keys())
def test_a_line_that_may_do_more_than_is_allowed_is_not_allowed(line: str) -> None:
    assert not is_allowed_by(GIT, "shell", simple_commands(line))


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "git  commit -m 'one; two && three'",
        'git commit -m "a (b) <c> #d; e"',
        "git add *.py && git commit -m x\nls",
        "git log --format='%h $x `y`'",
        "git status;",
        " git log | git apply ",
    ],
)
def test_plain_lines_of_allowed_commands_are_allowed(line: str) -> None:
    assert is_allowed_by(GIT, "shell", simple_commands(line))


def test_a_bare_name_allows_every_line() -> None:
    assert is_allowed_by(("shell",), "shell", simple_commands("x $(y)"))
    assert is_allowed_by(None, "shell", None)
    assert not is_allowed_by((), "shell", ("x",))


@rows.each(
    "line",
    [
        "rm -rf x",
        "rm   -rf\tx",
        "RM -RF x",
        "rm -rf",
        "echo a; rm -rf x",
        "echo a\nrm -rf x",
        "echo $(rm -rf x)",
        "echo `rm -rf x`",
        "'rm' -rf x",
        "r''m -rf x",
        'r"m" -rf x',
        "\\rm -rf x",
        "r\\m -rf x",
        "rm \\\n -rf x",
        "/bin/rm -rf x",
        "rm${IFS}-rf${IFS}x",
        "A=1 B=2 rm -rf x",
        ">log rm -rf x",
        "env rm -rf x",
        "env A=1 /bin/rm -rf x",
        "sudo -u root rm -rf x",
        "sh -c 'rm -rf x'",
        'bash -lc "cd /; rm -rf x"',
        "eval 'rm -rf x'",
        "find . -exec rm -rf {} +",
        "echo x | xargs rm -rf",
        "xargs -n1 rm -rf < names",
        "if true; then rm -rf x; fi",
        "! rm -rf x",
        "nohup time rm -rf x &",
        "(rm -rf x)",
        "{ rm -rf x; }",
        "sh <<EOF\nrm -rf x\nEOF",
        "\uff52m -rf x",
        "$RM -rf x",
        "$(echo rm) -rf x",
        '"$(which rm)" -rf x',
        "`echo rm` -rf x",
        "r$x -rf x",
        "/bin/r? -rf x",
        "echo cm0gLXJmIHg= | base64 -d | sh",
        'sh -c "$COMMAND"',
        'eval "$COMMAND"',
    ],
)
def test_a_denied_command_is_found_or_the_line_is_undecided(line: str) -> None:
    assert find_denial(NO_RM, "shell", find_commands(line))


@pytest.mark.parametrize(
    "line",
    [
        "echo rm",
        "ls",
        "git commit -m 'no rm -rf here'",
        "grep -rn 'rm -rf' docs",
        "[ -f x ] && echo $HOME",
        "for f in *.py; do echo $f; done",
        "python3 -m pytest -k 'a and not b'",
        "A=$(date) make test",
        "bash build.sh",
    ],
)
def test_other_commands_are_not_denied(line: str) -> None:
    assert find_denial(NO_RM, "shell", find_commands(line)) == ""


def test_denial_with_a_missing_or_invalid_pattern_denies_every_call() -> None:
    for denial in ("shell", "shell()", "shell(*)", "sh*", "*", "shell(rm", "*(rm *)"):
        assert find_denial((denial,), "shell", find_commands("rm x"))
    assert find_denial(("shell(rm",), "shell", ("ls",))


WORDS = st.sampled_from(
    ["git", "rm", "-rf", "x", ";", "&&", "|", "'", '"', "$(", ")", "`", "\n", "\\", "#", "a b", "$x"]
)


@given(st.lists(WORDS, max_size=8).map(" ".join))
def test_allowed_line_consists_of_commands_that_denials_see_too(line: str) -> None:
    simple = simple_commands(line) or ()
    assert set(simple) <= set(find_commands(line)) or UNDECIDED in find_commands(line) or "'" in line or '"' in line


@given(st.lists(st.sampled_from(["git", "rm", "-rf", "x"]), min_size=1), st.sampled_from([" && ", " ; ", " | "]))
def test_a_line_of_plain_commands_is_allowed_by_the_commands_that_the_denials_see(words: list[str], by: str) -> None:
    line = by.join(words)
    assert simple_commands(line) == tuple(words)
    assert {*words} <= {*find_commands(line)}


def test_law_11_reading_a_line_takes_bounded_time() -> None:
    began = time.process_time()
    for line in ("env " * 20_000 + "rm", "a=1 " * 20_000, "'" * 50_000, "$(" * 20_000, ">x " * 20_000):
        find_commands(line)
        simple_commands(line)
    assert time.process_time() - began < 5.0


@pytest.mark.parametrize(
    "line",
    ["echo #" + "x" * 120_000, "1" * 120_000, "\n" * 120_000, ";A=" * 40_000, "a=;" * 40_000, "< " * 60_000],
    ids=lambda line: line[:8].encode("unicode_escape").decode(),
)
def test_long_line_is_read_fast_enough_for_all_waiting_agents(line: str) -> None:
    began = time.process_time()
    find_commands(line)
    assert time.process_time() - began < 2.0


@pytest.mark.parametrize(
    "line", ["`rm`", "A=1 `rm`", "x; A=1 B=2 `rm`", "x;A=1 `rm`", "x;`rm`", "x\n  `rm`", "{ `rm`; }", "a|A=x;y `rm`"]
)
def test_a_command_whose_name_is_computed_is_undecided(line: str) -> None:
    assert UNDECIDED in find_commands(line)


@pytest.mark.parametrize("line", ["echo `date`", "A=`date`", "x; echo a `date`", "A=1 echo `date`"])
def test_an_argument_that_is_computed_leaves_the_command_readable(line: str) -> None:
    assert UNDECIDED not in find_commands(line)


NO_PUSH = ("shell(git push *)",)

PUSHES = {
    "a variable": "x=push; git $x",
    "a variable in quotes": 'x=push; git "$x"',
    "a part of a word": "x=sh; git pu$x",
    "a default": "git ${x:-push}",
    "a substitution": "git $(echo push)",
    "backticks": "git `echo push`",
    "a brace expansion": "git p{ush,}",
    "a whole command in braces": "{git,push}",
    "a glob": "git pus?",
    "a glob of a set": "git pus[h]",
    "a glob of any": "git p*",
    "an extended glob": "git @(push)",
    "escapes of bash": "git $'\\x70ush'",
    "a translated text": 'git $"push"',
    "a home that is set": "HOME=push; git ~",
    "xargs": "echo push|xargs git",
    "xargs with a word of its own": "echo push | xargs -I% git %",
    "xargs with a word and other options": "echo push | xargs -0I X git X",
    "find": "find push -exec git {} ';'",
    "a redirection without blanks": "git<&0 push",
    "a redirection in between": "git 2>&1 push",
    "a redirection to a quoted name": "git > 'a b' push",
    "a process substitution for a name": "git <(true) push",
    "a folder": "git -C . push",
    "a folder with a separator in its name": "git -C 'a;b' push",
    "a folder that is not known": "git -C $x push",
    "a setting": "git -c a=b push",
    "an option": "git --no-pager push",
    "options with a value": "git --git-dir=.git --work-tree . push",
    "options and wrappers": "env A=1 git -C . -c 'a=b;c' push",
    "an alias of the shell": "alias g=git; g push",
    "an alias of the shell, whole": "alias g='git push'\ng",
    "an alias of git": "git -c alias.x=push x",
    "an alias of git that was set before": "git x",
    "a shell of git's": "git -c alias.x='!git push' x",
    "a command for each submodule": "git submodule foreach git push",
    "a command for each step": "git rebase main --exec 'git push'",
    "a pager": "git -c core.pager='git push' log",
    "the program by its own name": "/usr/lib/git-core/git-push origin",
    "a function": 'f() { git "$@"; }; f push',
    "arguments": 'set -- push; git "$@"',
    "an array of bash": 'a=(git push); "${a[@]}"',
    "eval of parts": "eval git pu''sh",
    "eval of a text": "eval 'x=push; git $x'",
    "a shell with options": "bash -o pipefail -c 'git push'",
    "a shell that reads": "echo git push | sh",
    "a shell that reads a file descriptor": "sh /dev/stdin <<< 'git push'",
    "a sourced substitution": ". <(echo git push)",
    "arguments of a shell": "sh -c 'git \"$1\"' sh push",
    "a here document with a quote before": "cat <<E\nit's\nE\ngit push\necho 'x'",
    "a here document with a substitution": "cat <<E\n$(git push)\nE",
    "a comment with a quote before": "true # it's\ngit push # it's",
    "a case": "case x in x) git push;; esac",
    "a case in a substitution": 'echo "$(case x in x) git push;; esac)"',
    "a line that goes on": "git \\\n -C . \\\n pu\\\nsh",
    "command": "command -p git push",
    "time": "time -p git push",
    "coproc": "coproc git push",
    "a quoted option": "git '--no-pager' \"push\"",
    "time with the end of its options": "time -p -- git push",
    "time by another name": "/usr/bin/time -v git push",
    "env with a split text": "env -S'git push'",
    "env with a split text, long": "env --split-string='git push'",
    "xargs of a program that runs others": "echo git push | xargs -n2 env",
    "xargs of a shell": "printf 'git push' | xargs -0 sh -c",
    "xargs of busybox": "busybox xargs git < words",
    "a processor": "taskset -c 0 git push",
    "limits": "prlimit --nofile=9 git push",
    "a personality": "setarch x86_64 git push",
    "namespaces": "nsenter --target 1 git push",
    "another user's shell": "runuser root -c 'git push'",
    "a restricted shell": "rbash -c 'git push'",
    "a versioned shell": "bash-5.2 -c 'git push'",
    "the loader": "/lib64/ld-linux-x86-64.so.2 /usr/bin/git push",
    "an option glued to its value": "script -qc'git push' /dev/null",
    "a completion": "compgen -C 'git push'",
    "lines of an array": "mapfile -C 'git push #' -c1 x < f",
    "parts of a file": "split --filter='git push' f",
    "a compressor": "tar -I 'git push' -cf x y",
    "a checkpoint": "tar cf x y --checkpoint-action=exec='git push'",
    "a remote shell": "rsync -e 'git push' a: b",
    "a rule of make": "make --eval='all:; git push'",
    "an editor": "vim -es -c '!git push' -c q",
    "a variable for git's editor": "GIT_EDITOR='git push' git commit",
    "a step of a rebase": "git rebase --exec='git push' main",
    "a tool for differences": "git difftool -x'git push'",
    "a pager of git grep": "git grep -O'git push' x",
    "a program at the other end": "git fetch --upload-pack='git push' .",
    "a transport": "git ls-remote 'ext::git push'",
}


@rows.each("line", PUSHES.values(), ids=PUSHES.keys())
def test_a_denial_holds_for_what_cannot_be_read_off_the_line(line: str) -> None:
    assert find_denial(NO_PUSH, "shell", find_commands(line))


@rows.each(
    "line",
    [
        "git status",
        "git -C sub status",
        'git -C "$dir" status',
        "git -c user.name=x commit -m y",
        'git commit -m "$(cat message)"',
        "git stash push -m x",
        "git log --format='%h $x' 2>&1 | tail -3",
        "git add *.py && git diff HEAD~2..HEAD",
        "git show HEAD^{tree}",
        "git lfs pull",
        "cd ~/x && git status",
        "for f in *.c; do gcc -c $f; done",
        "find . -name '*.py' | xargs grep -n push",
        "find . -name '*.pyc' -exec rm {} +",
        "i=$((i+1)); echo $i",
        "cat <<EOF > x\nhow to push\nEOF",
        'while read line; do echo "$line"; done < f',
        "env A=$x make",
        "./build.sh $x",
        "docker run -v $PWD:/x image git status",
        "case $x in a) echo 1;; esac",
        "git commit -m 'git push comes later'",
        "git grep -n 'git push' docs",
        "rg --regexp='git push' docs",
        "find . -type f | xargs -n1 env LC_ALL=C sort",
        "find . | xargs timeout 5 grep x",
        "tar czf out.tgz src docs",
        "make -j4 test CFLAGS='-O2 -g'",
        "GIT_PAGER=cat git log -3",
        "MESSAGE='git push' ./build.sh",
        "git clone https://example.org/a/push b",
        "man git-push",
    ],
)
def test_a_line_that_cannot_become_the_denied_command_is_not_denied(line: str) -> None:
    assert find_denial(NO_PUSH, "shell", find_commands(line)) == ""


@rows.each(
    ("denial", "text", "is_covered"),
    [
        ("shell(git push *)", "git \0", True),
        ("shell(git push *)", "git commit \0", False),
        ("shell(git push *)", "g\0", True),
        ("shell(git push *)", "go\0", False),
        ("shell(git push)", "git \1\0", True),
        ("shell(rm -rf *)", "rm \1.py\0", False),
        ("shell(rm -rf *)", "rm \1\0", True),
        ("shell(* --force *)", "git push \0", True),
        ("shell(sut: rm *)", "sut: \0", True),
        ("shell(sut: rm *)", "other: \0", False),
    ],
)
def test_a_denial_covers_every_text_that_a_sign_may_stand_for(denial: str, text: str, is_covered: bool) -> None:
    assert bool(find_denial((denial,), "shell", (text,))) is is_covered


@pytest.mark.parametrize(
    "line",
    [
        "find . " + "-exec find " * 9_000,
        'sh -c "sh -c ' * 9_000,
        "git -c a='b c' " * 9_000,
        "xargs -I{} " * 9_000,
        "${" * 60_000,
        '"$(' * 40_000,
        "$((" * 40_000,
        "`" * 60_000,
        "<<a\n" * 20_000,
    ],
    ids=lambda line: line[:8].encode("unicode_escape").decode(),
)
def test_law_11_a_line_of_nested_commands_is_read_and_judged_in_its_own_time(line: str) -> None:
    began = time.process_time()
    find_denial((*NO_PUSH, "shell(*x*y*)"), "shell", find_commands(line))
    assert time.process_time() - began < 2.0
