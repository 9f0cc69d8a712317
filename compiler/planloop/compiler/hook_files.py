"""Which files beside the plan answer for a hook: nobody whom it may watch writes them. Pure, and no shell.

Read off what the plan says: the program and what it is given, a function's file, prompts, and the files that the hook
is made from. What a program reads by itself cannot be seen from here; so of a folder for hooks all files count.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

_SCRIPT: Final = re.compile(r".*\.(py|sh|bash|js|mjs|ts|rb|pl)")
_PLACE: Final = re.compile(r"\$\{?(CLAUDE_PROJECT_DIR|PWD)\}?/?")
_RUNS_FILES: Final = re.compile(r"(ba|da|z|k|fi)?sh|python[\d.]*|node|deno|bun|ruby|perl|source|\.|exec|env")
_SYSTEM: Final = ("/usr/", "/bin/", "/sbin/", "/opt/", "/etc/", "/lib", "/nix/", "/proc/", "/dev/")
_OF_SHELL: Final = re.compile(r"[^\w./+@-]")  # Of a first word: then the shell makes the command of it, or it is none.
_BUILT_IN: Final = frozenset(
    """. : alias break case cd command continue do done elif else esac eval exec exit export fi for if local read
    readonly return set shift source then times trap type ulimit umask unset until wait while""".split()
)
_ODD: Final = re.compile(r"[^\w ./@+-]")
_HOOKS: Final = re.compile(r"[\w.-]*hooks?")


def of_program(argv: Sequence[str], cwd: str, *, with_data: bool = True) -> Iterator[str]:
    """Those that a command names which runs in `cwd`, all relative to the plan's folder.

    Without its data, which a server is there to work on, they are the programs and scripts alone.
    """
    is_line = tuple(argv[:2]) == ("sh", "-c")
    before = ""
    for word in _words(argv[2]) if is_line else argv:
        if before == "-m":
            yield from (f"{cwd}/{word.replace('.', '/')}.py", f"{cwd}/{word.partition('.')[0]}/**")
        elif _is_file(word, before) and (with_data or _is_run(word, before)):
            yield from _places(word, cwd)
        is_option = word.startswith("-") and word != "-m"
        before = before if is_option and _RUNS_FILES.fullmatch(before) else posixpath.basename(word)


def program_of(argv: Sequence[str]) -> tuple[str, str]:
    """The word that a command begins with, and the script that it gives to that; empty where one cannot be sure."""
    if tuple(argv[:2]) == ("sh", "-c"):
        words = _words(argv[2])
        argv = () if not words or _OF_SHELL.search(words[0]) or words[0] in _BUILT_IN else words
    program, script = (*argv[:2], "", "")[:2]
    runs_it = _RUNS_FILES.fullmatch(posixpath.basename(program)) and _SCRIPT.fullmatch(script)
    return program, script if runs_it and not _ODD.search(script) else ""


def _words(line: str) -> list[str]:
    try:
        parts = shlex.shlex(line, posix=True, punctuation_chars=True)
        parts.whitespace_split = True
        return list(parts)
    except ValueError:
        return re.split(r"[\s;|&()<>'\"]+", line)


def _is_file(word: str, before: str) -> bool:
    if word.startswith(("-", "~", *_SYSTEM)) or _ODD.search(_PLACE.sub("", word)):
        return False
    return "/" in word or _is_run(word, before)


def _is_run(word: str, before: str) -> bool:
    is_program = not before and "/" in word
    return is_program or _SCRIPT.fullmatch(word) is not None or _RUNS_FILES.fullmatch(before) is not None


def _places(word: str, cwd: str) -> Iterator[str]:
    """Where a word may lead: of an absolute path it is not known how much of it is the plan's folder."""
    place = _PLACE.match(word)
    if place is not None:
        yield word[place.end() :]
    elif word.startswith("/"):
        names = [name for name in posixpath.normpath(word).split("/") if name]
        yield from ("/".join(names[index:]) for index in range(len(names)))
    else:
        yield f"{cwd}/{word}"


def guarded(files: Iterator[str]) -> tuple[str, ...]:
    """`files` as patterns name them, each once; of a folder for hooks all that is in it."""
    found: dict[str, None] = {}
    for file in files:
        path = _ODD.sub("*", posixpath.normpath(file))  # What patterns are written with is no name in them.
        if path.partition("/")[0] in ("", ".", ".."):
            continue  # It is elsewhere, or the whole folder.
        found[path] = None
        names = path.split("/")[:-1]
        for depth, name in enumerate(names, start=1):
            if _HOOKS.fullmatch(name):
                found["/".join((*names[:depth], "**"))] = None
                break
    return tuple(found)
