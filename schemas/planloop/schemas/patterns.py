"""Patterns of tools, tool calls and paths, as rights and denials write them.

Tool names: `*` matches any run of characters. Calls: `shell(rm -rf *)`, `write(.git/**)`, or a bare name. Paths: globs
where `*` stays within one folder and `**` crosses them. The gate, which judges what a patch would run, and the agents'
tools, which run it, read them here alike. Agents write patterns too, so every star is atomic: what follows it is taken
where it first fits, which loses no match and keeps the time at pattern times text (law 11).

A denial errs by covering too much, an allowance by covering too little: what cannot be decided is refused by both.
Which pattern covers which is `planloop.schemas.rights`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from planloop.schemas.frozen import frozen
from planloop.schemas.shell.commands import squeeze_blanks
from planloop.schemas.shell.words import NAMES, SIGNS
from planloop.schemas.tools import PATH_TOOLS

ANYTHING: Final = frozenset({"", "*", "**"})


@frozen
class CallPattern:
    """`tool` may contain stars; `subject` is None for a bare name, which matches every call of the tool."""

    tool: str
    subject: str | None = None


@lru_cache(maxsize=4096)
def parse_call_pattern(text: str) -> CallPattern | None:
    """Return the parts of a call pattern, None if `text` is malformed."""
    tool, bracket, rest = text.strip().partition("(")
    if not tool or ")" in tool or re.search(r"\s", tool) or (bracket and not rest.endswith(")")):
        return None
    subject = squeeze_blanks(rest[:-1]).strip(" ")
    return CallPattern(tool, None if not bracket or subject in ANYTHING else subject)


def name_matches(patterns: Iterable[str] | None, name: str) -> bool:
    """Whether one of `patterns` matches `name`; None stands for all, and so does the word `all`."""
    return patterns is None or any(pattern == "all" or star_regex(pattern).fullmatch(name) for pattern in patterns)


def path_matches(globs: Iterable[str] | None, path: str) -> bool:
    """Whether `path` (relative to the plan's folder, `/` between names) is matched; None stands for all."""
    return globs is None or any(_glob(glob).fullmatch(path) for glob in globs)


def allows_some_call(patterns: Iterable[str] | None, tool: str) -> bool:
    """Whether one of `patterns` allows some call of `tool`."""
    if patterns is None:
        return True
    found = (parse_call_pattern(pattern) for pattern in patterns)
    return any(one is not None and (one.tool == "all" or star_regex(one.tool).fullmatch(tool)) for one in found)


def is_allowed_by(patterns: Iterable[str] | None, tool: str, subjects: Sequence[str] | None) -> bool:
    """Whether a call of `tool` on all of `subjects` is allowed, each by one of `patterns`.

    `subjects` None: what the call is about cannot be told, so only a bare name allows it.
    """
    if patterns is None:
        return True
    fitting = [
        one
        for one in (parse_call_pattern(pattern) for pattern in patterns)
        if one is not None and (one.tool == "all" or star_regex(one.tool).fullmatch(tool))
    ]
    if any(one.subject is None for one in fitting):
        return True
    return bool(subjects) and all(any(_fits(one, tool, text) for one in fitting) for text in subjects or ())


def _fits(pattern: CallPattern, tool: str, subject: str) -> bool:
    assert pattern.subject is not None, "bare names were looked at before"
    if tool in PATH_TOOLS:
        return _glob(pattern.subject).fullmatch(subject) is not None
    return star_regex(pattern.subject).fullmatch(subject) is not None


def find_denial(denials: Iterable[str], tool: str, subjects: Sequence[str]) -> str:
    """The first denial that covers a call of `tool` on any of `subjects`; empty when none does.

    Without subjects there is nothing to tell calls apart by, and a denial of some covers all.
    """
    return next((denial for denial in denials if _covers(denial, tool, subjects)), "")


def _covers(denial: str, tool: str, subjects: Sequence[str]) -> bool:
    parsed = parse_call_pattern(denial)
    if parsed is None:
        return star_regex(denial.partition("(")[0].strip() or "*").fullmatch(tool) is not None
    if not star_regex(parsed.tool).fullmatch(tool):
        return False
    if parsed.subject is None or not subjects:
        return True
    # A star crosses folders here, letters count in any case, and `rm *` is also `rm` alone.
    wide = _wide(parsed.subject)
    forms = (wide, wide.removesuffix(" *").removesuffix("/**"))
    return any(_is_met(forms, _wide(text)) for text in subjects)


def _is_met(forms: Sequence[str], text: str) -> bool:
    """Whether one of `forms` matches `text`, or what the signs in it may stand for."""
    if SIGNS.search(text):
        return any(_may_match(form, text) for form in forms)
    return any(star_regex(form).fullmatch(text) for form in forms)


def _may_match(form: str, text: str) -> bool:
    """Whether there is a text that `form` matches and that `text` may stand for.

    Bit n of `reached` is set where the first n signs of `form` may match the text so far; a star matches none, too.
    """
    pattern = _of_pattern(form)
    reached = pattern.after(1)
    for sign in text:
        if sign == NAMES:
            while (
                more := reached | pattern.after(reached & pattern.unbroken) | (reached & pattern.unbroken) << 1
            ) != reached:
                reached = more
        elif SIGNS.match(sign):
            reached = pattern.whole & ~((reached & -reached) - 1)
        else:
            reached = pattern.after((reached & pattern.places.get(sign, 0)) << 1 | reached & pattern.stars)
        if not reached:
            return False
    return bool(reached >> pattern.length & 1)


@frozen
class _Pattern:
    """A pattern by the places of its signs, as bits: of each, of its stars, and of all but blanks."""

    length: int
    places: Mapping[str, int]
    stars: int
    unbroken: int
    whole: int

    def after(self, reached: int) -> int:
        """What is reached as well, since a star may match nothing."""
        return reached | (reached & self.stars) << 1


@lru_cache(maxsize=1024)
def _of_pattern(form: str) -> _Pattern:
    plain = re.sub(r"\*+", "*", form)
    places: dict[str, int] = {}
    for at, sign in enumerate(plain):
        places[sign] = places.get(sign, 0) | 1 << at
    stars, whole = places.pop("*", 0), (1 << len(plain) + 1) - 1
    return _Pattern(len(plain), places, stars, whole & ~places.get(" ", 0), whole)


def _wide(text: str) -> str:
    """A text as denials compare it: `rm  -rf` is `rm -rf`, and letters that look alike are one."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@lru_cache(maxsize=4096)
def star_regex(pattern: str) -> re.Pattern[str]:
    """The regular expression of a pattern whose stars match any run of characters."""
    return re.compile(_star_source(pattern, any_one="."), re.DOTALL)


def _star_source(pattern: str, *, any_one: str) -> str:
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
    for name in split_glob(glob):
        if name == "**":
            runs.append([])
        elif name.strip("*"):
            runs[-1].append(_star_source(name, any_one="[^/]").replace(r"\?", "[^/]"))
        else:
            runs[-1].append("[^/]+" if name else "")  # Some name, and not none: then the path has ended before.
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


def split_glob(glob: str) -> list[str]:
    """The names of a path glob; one for the whole folder is `**`."""
    return (glob.removeprefix("./").rstrip("/") or "**").split("/")
