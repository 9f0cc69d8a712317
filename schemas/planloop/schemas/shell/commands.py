"""Find every command that a shell line may run, for rights and denials. Pure; starts no shell.

If a part of the line is uncertain, the result says so, and callers assume the worse case.

For denials the reading is wide: every command that may be in the line, behind quotes, wrappers and options too, with
signs for what only the running shell knows (`planloop.schemas.shell.words`). Since no reader agrees with every shell,
the line is also read with all quotes taken away. For allowances it is strict: the simple commands of a line of plain
words, or that it cannot be told. A guard against accidents and not a sandbox: a program that is allowed to run can run
others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from planloop.schemas import limits
from planloop.schemas.shell import words as shell_words
from planloop.schemas.shell.variables import is_steering_variable
from planloop.schemas.shell.words import HOLE, NAMES, SIGNS

UNDECIDED: Final = HOLE
"""Among the commands of a line: there may be one that cannot be read off it. Every denial with a pattern covers it."""

_SEPARATORS: Final = re.compile(r"&&|\|\||[;|&\n`]|\$\(|[(){}]")
_PIECES: Final = re.compile(r"[;|&\n`()]+")
_ASSIGNED: Final = re.compile(r"(?:(?<!\w)[A-Za-z_]\w*=\S*\s+|(?<!\d)[0-9]*+[<>]+&?\s*\S+\s+)+")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=")
_SET: Final = re.compile(r"[A-Za-z_]\w*=")
_SET_LATER: Final = re.compile(r"[;&|(){}][A-Za-z_]\w*=")
_COMPUTED: Final = re.compile(r"[;&|(){}]`")
_SHELLS: Final = frozenset("sh bash dash zsh ksh mksh ash fish rbash rzsh csh tcsh".split())
_LEADING: Final = frozenset("then do else elif if while until ! time {".split())
_RUNNERS: Final = frozenset(
    """
    env sudo doas pkexec runuser su sg newgrp setpriv capsh nohup nice ionice chrt taskset uclampset choom prlimit
    timeout stdbuf command exec builtin eval xargs setsid setarch linux32 linux64 i386 i686 x86_64 busybox toybox find
    watch parallel chroot unshare nsenter flock script ssh strace ltrace gdb valgrind perf trap time coproc function
    alias . source run-parts start-stop-daemon daemonize systemd-run dbus-run-session xvfb-run unbuffer rlwrap expect
    fakeroot firejail bwrap proot torify proxychains proxychains4 eatmydata hyperfine entr direnv tini dumb-init gosu
    su-exec chpst softlimit envdir setlock split compgen complete mapfile readarray npx pnpx bunx uvx pipx
    """.split()
)
_RUNNER_NAMES: Final = re.compile(r"ld(-linux[\w.-]*|-musl[\w.-]*|\.so[\w.]*)|[gmnt]?time|(ba|da|z)sh-?[\d.]+")
"""Runners by a part of their name: the loader of programs, and shells and `time` by other names."""
_INTERPRETERS: Final = frozenset("eval trap ssh su sg runuser capsh watch script parallel split compgen".split())
"""Runners that read their arguments as lines of shell."""
_FIND_RUNS: Final = frozenset("-exec -execdir -ok -okdir".split())
_ADDING: Final = frozenset("xargs parallel alias run-parts".split())
"""Runners whose command may have more words than are written."""
_BY_OPTIONS: Final = frozenset("tar bsdtar gtar rsync sort make gmake vi vim nvim ex ed scp sftp less man".split())
"""Programs that run what some of their options say, and otherwise take their arguments for files."""
_COMMAND_IN_VALUE: Final = re.compile(r"(?:exec=|command=|!)+")
_BUNDLED: Final = 4
"""Letters of options that are tried before a value in the same word: `-qc'git push'` is `-q -c 'git push'`."""
_SOURCING: Final = frozenset((".", "source"))
_OPENED: Final = ("/dev/", "/proc/")
_REPLACING: Final = re.compile(r"(?:-[A-Za-z0-9]*[IiJ]|--replace=?)(.*)", re.DOTALL)
_SPLIT: Final = re.compile(r"[\s;&|()]")

_GIT_VALUED: Final = frozenset(
    "-C -c --git-dir --work-tree --namespace --config-env --attr-source --super-prefix".split()
)
_GIT_RUNNERS: Final = frozenset(
    "archive bisect clone config difftool fetch fetch-pack filter-branch for-each-repo ls-remote mergetool pull rebase "
    "remote-ext submodule".split()
)
_GIT_PAGED: Final = re.compile(r"(?:-O|--open-files-in-pager=)(.+)", re.DOTALL)
_GIT_TRANSPORT: Final = "ext::"
_GIT: Final = frozenset(
    """
    add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap
    check-ref-format checkout checkout-index cherry cherry-pick clean clone column commit commit-graph commit-tree
    config count-objects credential credential-cache credential-store daemon describe diagnose diff diff-files
    diff-index diff-tree difftool fast-export fast-import fetch fetch-pack filter-branch fmt-merge-msg for-each-ref
    for-each-repo format-patch fsck fsck-objects gc get-tar-commit-id grep hash-object help hook http-backend
    imap-send index-pack init init-db instaweb interpret-trailers lfs log ls-files ls-remote ls-tree mailinfo mailsplit
    maintenance merge merge-base merge-file merge-index merge-tree mergetool mktag mktree multi-pack-index mv name-rev
    notes pack-objects pack-redundant pack-refs patch-id prune prune-packed pull push quiltimport range-diff read-tree
    rebase receive-pack reflog refs remote repack replace replay request-pull rerere reset restore rev-list rev-parse
    revert rm send-email send-pack shell shortlog show show-branch show-index show-ref sparse-checkout stage stash
    status stripspace submodule subtree switch symbolic-ref tag unpack-file unpack-objects update-index update-ref
    update-server-info upload-archive upload-pack var verify-commit verify-pack verify-tag version whatchanged worktree
    write-tree
    """.split()
)
"""Commands of git's own, which no alias replaces: what else is written in their place may be any of them."""
_UNREADABLE: Final = frozenset("\\`$(){}<>#\0")
_BLANKS: Final = re.compile(r"[ \t]+")


def simple_commands(line: str) -> tuple[str, ...] | None:
    """The simple commands of a line, each as it stands; None when the line holds anything but plain and quoted words.

    Escapes, expansions, redirections, comments and here documents are such things: only a shell knows what they are.
    """
    found: list[str] = [""]
    quote = ""
    for sign in line:
        if sign in _UNREADABLE and not (quote == "'" or (quote and sign in "(){}<>#")):
            return None
        if not quote and sign in ";&|\n":
            found.append("")
            continue
        if sign in "'\"" and quote in ("", sign):
            quote = "" if quote else sign
        found[-1] += sign
    commands = tuple(squeeze_blanks(one).strip(" ") for one in found)
    kept = tuple(one for one in commands if one)
    return None if quote or not kept else kept


def squeeze_blanks(text: str) -> str:
    """`text` with each run of blanks and tabs as one blank; no other white space parts words for a shell."""
    return _BLANKS.sub(" ", text)


def find_commands(line: str) -> tuple[str, ...]:
    """The whole line and every command that may be in it, as texts with the signs of `planloop.schemas.shell.words`.

    `UNDECIDED` is among them when there may be a command of which nothing is known.
    """
    plain = re.sub(r"['\"\\]", "", line.replace("\\\n", "")).replace("${IFS}", " ").replace("$IFS", " ")
    parts = [line, *_SEPARATORS.split(line), *_SEPARATORS.split(plain)]
    if any(map(_is_computed, plain.split("\n"))):
        parts.append(UNDECIDED)
    for piece in _PIECES.split(plain):
        parts += _unwrapped(piece)
    parts += _read(line, 0)
    squeezed = (" ".join(part.split()) for part in parts)
    return tuple(dict.fromkeys(part for part in squeezed if part))


def commands_in_container(container: str, commands: tuple[str, ...]) -> tuple[str, ...]:
    """Commands as rights look at them when they are run in a container: `sut: npm test`."""
    return tuple(one if one == UNDECIDED else f"{container}: {one}" for one in commands)


def _is_computed(line: str) -> bool:
    """Whether a command's name may come of another command, after assignments too. In the line's own time."""
    is_first = True
    for word in line.split():
        if (is_first and word.startswith("`")) or _COMPUTED.search(word):
            return True
        is_first = bool((is_first and _SET.match(word)) or word[-1] in ";&|(){}" or _SET_LATER.search(word))
    return False


def _unwrapped(piece: str) -> Iterator[str]:
    """The command in `piece` without what may stand before it, and those that it may hand on to another program."""
    words = _ASSIGNED.sub("", f"{piece.strip()} ", count=1).split() if piece.strip() else []
    while words and words[0] in _LEADING:
        words = words[1:]
    if not words:
        return
    if words[0] not in ("[", "[[") and re.search(r"[$*?\[]", words[0]):
        yield UNDECIDED
    yield " ".join((_name(words[0]), *words[1:]))
    if _is_runner(_name(words[0])):
        for start in range(1, min(len(words), limits.WRAPPED_WORDS_MAX + 1)):
            yield " ".join((_name(words[start]), *words[start + 1 :]))


def _is_runner(name: str) -> bool:
    """Whether a program runs what is in its arguments."""
    return name in _SHELLS or name in _RUNNERS or _RUNNER_NAMES.fullmatch(name) is not None


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _read(line: str, depth: int) -> Iterator[str]:
    """The commands of `line`, and those that they may run: a script, the rest of their words, an alias of git."""
    for words in shell_words.split_commands(line, depth):
        start = 0
        while start < len(words) and (_ASSIGNMENT.match(words[start]) or words[start] in _LEADING | {"-p", "--"}):
            # `time` takes the options, and what is set may be a command: `GIT_EDITOR='git push' git commit`.
            named, _, value = words[start].partition("=")
            if _SPLIT.search(value) and not SIGNS.search(value) and is_steering_variable(named.rstrip("+")):
                yield from _read(value, depth + 1)
            start += 1
        known = words[start : start + limits.SHELL_WORDS_MAX]
        if known:
            yield from _of_words([*known, HOLE] if len(words) > start + len(known) else known, depth)


def _of_words(words: Sequence[str], depth: int) -> Iterator[str]:
    yield from _forms(words)
    name, rest = _name(words[0]), words[1:]
    if name in _SHELLS:
        yield from _of_shell(rest)
    if name in _SOURCING and any(SIGNS.search(word) or word.startswith(_OPENED) for word in rest[:1]):
        yield UNDECIDED
    if name == "git":
        yield from _handed_on_by_git(rest, depth)
    if name in _BY_OPTIONS:
        yield from _in_options(rest, depth)
    if _is_runner(name):
        if name in _INTERPRETERS and any(map(SIGNS.search, rest)):
            yield UNDECIDED
        yield from _handed_on(name, _arguments(name, rest), depth)


def _arguments(name: str, words: Sequence[str]) -> Sequence[str]:
    """Those of the arguments of the program `name` that may be the command which it runs."""
    if name == "xargs":
        return _replaced(words)
    if name == "find":
        first = next((at for at, word in enumerate(words) if word in _FIND_RUNS), len(words))
        return words[first + 1 :]
    return words


def _forms(words: Sequence[str]) -> Iterator[str]:
    """A command by itself: as it stands, without the options before its first argument, and as git reads it."""
    name, rest = _name(words[0]), list(words[1:])
    yield _text([name, *rest])
    if name.startswith("git-"):
        name, rest = "git", [name.removeprefix("git-"), *rest]
        yield _text([name, *rest])
    if name != "git":
        for start in _starts(rest):
            yield _text([name, *rest[start:]])
        return
    start = 0
    while start < len(rest) and rest[start].startswith("-"):
        start += 2 if rest[start] in _GIT_VALUED else 1
        if HOLE in "".join(rest[:start]):
            yield _text([name, HOLE])  # It may be several words, the command among them.
    if start < len(rest):
        yield _text([name, *rest[start:]])
        if not SIGNS.search(rest[start]) and rest[start] not in _GIT:
            yield _text([name, HOLE])


def _starts(words: Sequence[str]) -> Iterator[int]:
    """Where the first argument may be: behind options, each of which may take the next word for its value."""
    at = 0
    while at < min(len(words), limits.WRAPPED_WORDS_MAX) and words[at].startswith("-"):
        at += 1
        yield at
        if at < len(words) and not words[at].startswith("-"):
            at += 1
            yield at


def _of_shell(words: Sequence[str]) -> Iterator[str]:
    """Whether nothing is known of what a shell with these arguments runs: it reads that, or it is computed."""
    at = next((at for at, word in enumerate(words) if not word.startswith("-")), len(words))
    is_fed = any(word in ("-", "-s") for word in words[:at])
    first = words[at : at + 1]
    if not first or is_fed or any(SIGNS.search(word) or word.startswith(_OPENED) for word in first):
        yield UNDECIDED


def _handed_on(name: str, words: Sequence[str], depth: int) -> Iterator[str]:
    """Each command that a program may make of its arguments `words`."""
    if len(words) > limits.WRAPPED_WORDS_MAX:
        yield UNDECIDED
    more = (HOLE,) if name in _ADDING else ()
    for start in range(min(len(words), limits.WRAPPED_WORDS_MAX)):
        word = words[start]
        if word == "{}":  # A file that `find` found: any program, as a script is.
            continue
        yield from _forms((word, *(each.replace("{}", HOLE) for each in words[start + 1 :]), *more))
        if more and _is_runner(_name(word)) and not any(map(_may_be_program, words[start + 1 :])):
            yield UNDECIDED  # `xargs env`: the input says which program.
        if _name(word) in _ADDING:
            more = (HOLE,)
        for script in (word.partition("=")[2],) if name == "alias" else _values(word):
            if (name == "alias" or _SPLIT.search(script)) and not SIGNS.search(script):
                yield from (_text((text, *more)) for text in _read(script, depth + 1))


def _values(word: str) -> Iterator[str]:
    """The values that the option `word` may have in it: `--exec=git push`, `-S'git push'`; else the word itself."""
    if not word.startswith("-"):
        yield word
    elif word.startswith("--"):
        yield word.partition("=")[2]
    else:
        yield from (word[at:] for at in range(2, 2 + _BUNDLED))


def _may_be_program(word: str) -> bool:
    return not word.startswith("-") and not _ASSIGNMENT.match(word) and word.strip("0123456789.smhd") != ""


def _in_options(words: Sequence[str], depth: int) -> Iterator[str]:
    """The commands in the values of options, for programs that run what some of their options say."""
    for word in words[: limits.WRAPPED_WORDS_MAX]:
        for script in (_COMMAND_IN_VALUE.sub("", value) for value in _values(word)):
            if _SPLIT.search(script) and not SIGNS.search(script):
                yield from _read(script, depth + 1)


def _replaced(words: Sequence[str]) -> list[str]:
    """Arguments of `xargs`, in which what it puts in place of a word of the user's choice is not known."""
    for at, word in enumerate(words):
        found = _REPLACING.fullmatch(word)
        if found and (mark := found[1] or (words[at + 1] if at + 1 < len(words) else "")):
            return [*words[: at + 1], *(each.replace(mark, HOLE) for each in words[at + 1 :])]
    return list(words)


def _handed_on_by_git(words: Sequence[str], depth: int) -> Iterator[str]:
    """What git may run in place of itself: behind `submodule foreach` and its like, and in the value of a setting."""
    for at, word in enumerate(words[: limits.WRAPPED_WORDS_MAX]):
        setting = word.partition("=")[2].removeprefix("!")
        if setting and _SPLIT.search(setting):
            yield from _read(setting, depth + 1)
        if found := _GIT_PAGED.fullmatch(word):
            yield from _read(found[1], depth + 1)
        if word in _GIT_RUNNERS:
            yield from _handed_on("git", [one.removeprefix(_GIT_TRANSPORT) for one in words[at + 1 :]], depth)
            return


def _text(words: Sequence[str]) -> str:
    """The command as a text. What follows what is not known is left out: the sign stands for it as well."""
    text = " ".join(words)
    found = SIGNS.search(text)
    if found is None:
        return text
    end = text.find(" ", found.start())
    known = text[: len(text) if end < 0 else end] if found[0] == NAMES else text[: found.start()]
    return f"{known.partition(HOLE)[0][: limits.SHELL_COMPARED_CHARS]}{HOLE}"
