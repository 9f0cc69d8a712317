"""Rights of an agent, and the order of patterns: which one covers which, and what two lists both allow (law 6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, TypeAlias

from planloop.schemas import codec
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.patterns import parse_call_pattern, split_glob, star_regex
from planloop.schemas.tools import PATH_TOOLS

# Rights: what an agent may use, and what it may grant on. How two rights meet is `planloop.compiler.resolve.rights`.


@frozen
class Rights:
    """The effective rights of one agent: already the meet along its path to the root.

    `models`, `tools` and the `grant_` pair are patterns (`*` matches any run of characters); None means all. `deny`
    are tool-call patterns such as `shell(rm -rf *)`, united over the path. `read` and `write` are path globs below
    the plan's folder, None meaning the task's own workspace. `network` is none or all; `hosts` are patterns of
    `host:port` on this machine and in private networks that may be asked too. `spawn` is how many children it
    may have, `depth` how many levels below it; None means only the limits in `planloop.schemas.limits`. `guarded` are
    denials of writing to the files of inherited hooks; the agent does not see them, unlike `deny`.
    `containers` is how many it and its descendants may create, None for `limits.CONTAINERS_OF_AGENTS`; `ports` are
    those of this machine that they may take.
    """

    models: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    network: bool = False
    hosts: tuple[str, ...] = ()
    spawn: int | None = None
    depth: int | None = None
    grant_models: tuple[str, ...] | None = None
    grant_tools: tuple[str, ...] | None = None
    guarded: tuple[str, ...] = ()
    containers: int | None = None
    ports: tuple[int, ...] = ()

    def to_json(self) -> JsonObject:
        return codec.to_json(self, "guarded", "containers", "ports")


def rights_from_json(raw: JsonObject) -> Rights:
    """Inverse of `Rights.to_json`."""
    return codec.from_json(Rights, raw)


# Which pattern covers which, and what two lists of patterns both allow: the order of rights (law 6).
#
# None allows everything. `covers` is asked of tool calls, of paths and of models, each with its own meaning of a star.
# All three are sound, not complete: what covers is certain to match whatever the covered one matches. `meet` keeps a
# pattern that the other side covers whole and leaves out two that merely overlap, so it is never wider than either
# side; of those three that overlap, how much is left may depend on which two meet first.

Patterns: TypeAlias = tuple[str, ...] | None
Covers: TypeAlias = Callable[[str, str], bool]

_AT_URL: Final = re.compile(r"(?P<name>.*?)@(?P<url>https?:.*)", re.DOTALL)


@lru_cache(maxsize=16384)
def covers_call(pattern: str, other: str) -> bool:
    """Of tools and their calls. A bare name covers its calls: `shell`, `shell(ls)`."""
    one, two = parse_call_pattern(pattern), parse_call_pattern(other)
    if one is None or two is None:
        return pattern == other
    if not _covers_text(one.tool, two.tool):
        return False
    if one.subject is None:
        return True
    if two.subject is None:
        return False
    if one.subject == two.subject:
        return True
    # A star of the tool's name may be a tool of paths or one of texts: both must hold then.
    is_path, is_text = two.tool in PATH_TOOLS or "*" in two.tool, two.tool not in PATH_TOOLS
    return (not is_path or covers_path(one.subject, two.subject)) and (
        not is_text or _covers_text(one.subject, two.subject)
    )


@lru_cache(maxsize=16384)
def covers_path(glob: str, other: str) -> bool:
    """Of path globs, where `*` stays within one folder."""
    wide, narrow = split_glob(glob), split_glob(other)
    if ".." in narrow:
        return wide == narrow  # It matches no resolved path, so only an equal pattern covers it.
    # ends[j]: whether the names of `glob` from here on cover those of `other` from j on.
    ends = [False] * len(narrow) + [True]
    for at in range(len(wide) - 1, -1, -1):
        ends = _one_name_more(wide[at], narrow, ends, is_last=at == len(wide) - 1)
    return ends[0]


def _one_name_more(name: str, narrow: list[str], ends: list[bool], *, is_last: bool) -> list[bool]:
    if name != "**":
        steps = [narrow[j] != "**" and _covers_name(name, narrow[j]) and ends[j + 1] for j in range(len(narrow))]
        return [*steps, False]
    if is_last:
        return [True] * (len(narrow) + 1)
    found = list(ends)
    for j in range(len(narrow) - 1, -1, -1):
        found[j] = ends[j] or found[j + 1]
    return found


def covers_model(pattern: str, other: str) -> bool:
    """Of models. Where one is asked is part of it: `ollama/*` does not cover `ollama/x@http://elsewhere/v1`."""
    if pattern in ("*", "all"):
        return True
    (name, url), (other_name, other_url) = _at(pattern), _at(other)
    return bool(url) == bool(other_url) and _covers_text(name, other_name) and _covers_text(url, other_url)


def covers_host(pattern: str, other: str) -> bool:
    """Of `host:port`, where a star is any run of characters."""
    return _covers_text(pattern, other)


def _at(model: str) -> tuple[str, str]:
    found = _AT_URL.fullmatch(model)
    return (found["name"], found["url"]) if found else (model, "")


def _covers_text(pattern: str, other: str) -> bool:
    return pattern == other or star_regex(pattern).fullmatch(other) is not None


@lru_cache(maxsize=4096)
def _name(pattern: str) -> re.Pattern[str]:
    # One sign of the covered pattern stands for `?`, but not its star, which may be many or none.
    return re.compile(star_regex(pattern).pattern.replace(r"\?", "[^*]"), re.DOTALL)


def _covers_name(pattern: str, other: str) -> bool:
    return pattern == other or _name(pattern).fullmatch(other) is not None


def is_covered(patterns: Patterns, other: str, covers: Covers) -> bool:
    """Whether one of `patterns` covers `other`."""
    return patterns is None or any(covers(pattern, other) for pattern in patterns)


def meet_patterns(one: Patterns, other: Patterns, covers: Covers) -> Patterns:
    """What both allow, in the order of `other`, then of `one`."""
    if one is None:
        return other
    if other is None or one == other:
        return one
    kept = [pattern for pattern in other if is_covered(one, pattern, covers)]
    kept += [pattern for pattern in one if pattern not in kept and is_covered(other, pattern, covers)]
    return tuple(dict.fromkeys(kept))


def union_patterns(one: tuple[str, ...], other: Iterable[str]) -> tuple[str, ...]:
    """Both, each once, the first's first."""
    return tuple(dict.fromkeys((*one, *other)))
