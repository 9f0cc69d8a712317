"""What a shell line would run, as rights and denials look at it. Pure, and no shell: where reading it as one is not
certain, it says so, and whoever asks takes that as the worse case.

For denials the reading is wide: every command that may be in the line, behind quotes and wrappers too. For allowances
it is strict: the simple commands of a line of plain words, or that it cannot be told. A guard against accidents and
not a sandbox: a program that is allowed to run can run others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from schemas import limits

UNDECIDED: Final = "\0undecided"
"""Among the commands of a line: there may be one that cannot be read off it. Every denial with a pattern covers it."""

_SEPARATORS: Final = re.compile(r"&&|\|\||[;|&\n`]|\$\(|[(){}]")
_PIECES: Final = re.compile(r"[;|&\n`()]+")
_ASSIGNED: Final = re.compile(r"(?:(?<!\w)[A-Za-z_]\w*=\S*\s+|(?<!\d)[0-9]*+[<>]+&?\s*\S+\s+)+")
_SET: Final = re.compile(r"[A-Za-z_]\w*=")
_SET_LATER: Final = re.compile(r"[;&|(){}][A-Za-z_]\w*=")
_COMPUTED: Final = re.compile(r"[;&|(){}]`")
_SHELLS: Final = frozenset("sh bash dash zsh ksh ash fish".split())
_LEADING: Final = frozenset("then do else elif if while until ! time {".split())
_RUNNERS: Final = frozenset(
    (
        "env sudo doas nohup nice timeout stdbuf command exec builtin eval xargs setsid busybox find watch parallel "
        "chroot unshare flock script ssh su ionice strace trap"
    ).split()
)
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
    commands = tuple(blanks_squeezed(one).strip(" ") for one in found)
    kept = tuple(one for one in commands if one)
    return None if quote or not kept else kept


def blanks_squeezed(text: str) -> str:
    """`text` with each run of blanks and tabs as one blank; no other white space parts words for a shell."""
    return _BLANKS.sub(" ", text)


def commands_in(line: str) -> tuple[str, ...]:
    """The whole line and every command that may be in it, `UNDECIDED` among them when one cannot be read."""
    plain = re.sub(r"['\"\\]", "", line.replace("\\\n", "")).replace("${IFS}", " ").replace("$IFS", " ")
    parts = [line, *_SEPARATORS.split(line), *_SEPARATORS.split(plain)]
    if any(map(_is_computed, plain.split("\n"))):
        parts.append(UNDECIDED)
    for piece in _PIECES.split(plain):
        parts += _unwrapped(piece)
    squeezed = (" ".join(part.split()) for part in parts)
    return tuple(dict.fromkeys(part for part in squeezed if part))


def inside(container: str, commands: tuple[str, ...]) -> tuple[str, ...]:
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
    name = words[0].rpartition("/")[2]
    yield " ".join((name, *words[1:]))
    if name in _SHELLS and all(word.startswith(("-", "<", ">")) for word in words[1:]):
        yield UNDECIDED  # It runs what it reads.
    if name in _SHELLS or name in _RUNNERS:
        yield from _handed_on(words[1:])


def _handed_on(words: list[str]) -> Iterator[str]:
    if any("$" in word for word in words) or len(words) > limits.WRAPPED_WORDS_MAX:
        yield UNDECIDED
    for start in range(min(len(words), limits.WRAPPED_WORDS_MAX)):
        yield " ".join((words[start].rpartition("/")[2], *words[start + 1 :]))
