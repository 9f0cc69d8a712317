"""Patterns of tools, of tool calls and of paths, as rights and denials write them.

Tool names: `*` matches any run of characters. Calls: `shell(rm -rf *)`, `write(.git/**)`, or a bare name. Paths: globs
where `*` stays within one folder and `**` crosses them. The gate, which judges what a patch would run, and the agents'
tools, which run it, read them here alike. Agents write patterns too, so every star is atomic: what follows it is taken
where it first fits, which loses no match and keeps the time at pattern times text (law 11).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

_CALL = re.compile(r"(?P<tool>[^()\s]+)(?:\((?P<subject>.*)\))?", re.DOTALL)
_SEPARATORS = re.compile(r"&&|\|\||[;|&\n`]|\$\(|[(){}]")


def any_name(patterns: Iterable[str] | None, name: str) -> bool:
    """Whether one of `patterns` matches `name`; None stands for all, and so does the word `all`."""
    return patterns is None or any(pattern == "all" or _plain(pattern).fullmatch(name) for pattern in patterns)


def any_path(globs: Iterable[str] | None, path: str) -> bool:
    """Whether `path` (relative to the plan's folder, `/` between names) is matched; None stands for all."""
    return globs is None or any(_glob(glob).fullmatch(path) for glob in globs)


def denied_by(denials: Iterable[str], tool: str, subjects: Sequence[str]) -> str:
    """The first denial that covers a call of `tool` on any of `subjects`; empty when none does."""
    return next((denial for denial in denials if _covers(denial, tool, subjects)), "")


def _covers(denial: str, tool: str, subjects: Sequence[str]) -> bool:
    parsed = _CALL.fullmatch(denial.strip())
    if parsed is None or not _plain(parsed["tool"]).fullmatch(tool):
        return False
    subject = parsed["subject"]
    if subject is None or subject.strip() in ("", "*", "**"):
        return True
    # A star crosses folders here: a denial that covers too much is safe, one that covers too little is not.
    pattern = _plain(squeezed(subject))
    return any(pattern.fullmatch(squeezed(text)) for text in subjects)


def squeezed(text: str) -> str:
    """`text` with each run of white space as one blank: `rm  -rf` is `rm -rf`."""
    return " ".join(text.split())


def commands_in(line: str) -> tuple[str, ...]:
    """The whole shell line and each simple command in it, for denials.

    A guard against accidents and not a sandbox: a shell can always be made to hide a command.
    """
    parts = (part.strip() for part in _SEPARATORS.split(line))
    return tuple(dict.fromkeys((line.strip(), *(part for part in parts if part))))


@lru_cache(maxsize=4096)
def _plain(pattern: str) -> re.Pattern[str]:
    return re.compile(_starred(pattern, any_one="."), re.DOTALL)


def _starred(pattern: str, *, any_one: str) -> str:
    """`pattern` as a regular expression whose stars match any run of `any_one`."""
    first, *rest = (re.escape(part) for part in re.split(r"\*+", pattern))
    if not rest:
        return first
    middle = "".join(f"(?>{any_one}*?{part})" for part in rest[:-1])
    return f"{first}{middle}{any_one}*{rest[-1]}"


_FOLDERS = "(?:[^/]*/)"


@lru_cache(maxsize=4096)
def _glob(glob: str) -> re.Pattern[str]:
    runs: list[list[str]] = [[]]  # The names before, between and after each `**`.
    for name in (glob.removeprefix("./").rstrip("/") or "**").split("/"):
        if name == "**":
            runs.append([])
        else:
            runs[-1].append(_starred(name, any_one="[^/]").replace(r"\?", "[^/]"))
    if len(runs) == 1:
        return re.compile("/".join(runs[0]))
    head, *floating, tail = runs
    inner = "".join(rf"(?>{_FOLDERS}*?{'/'.join(run)}(?:/|\Z))" for run in floating if run)
    if tail:
        inner += f"{_FOLDERS}*{'/'.join(tail)}"
    elif head and not inner:
        return re.compile(f"{'/'.join(head)}(?:/.*)?", re.DOTALL)  # `src/**` also names `src` itself.
    else:
        inner += ".*"
    return re.compile("".join(f"{name}/" for name in head) + inner, re.DOTALL)
