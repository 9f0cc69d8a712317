"""Rights and lines of rights to draw, and the order that they are held to: what a set of known names can show of it."""

from __future__ import annotations

from hypothesis import strategies as st

from planloop.compiler.resolve.rights import RightsLine, narrow_rights
from planloop.schemas.rights import (
    Covers,
    Patterns,
    Rights,
    covers_call,
    covers_host,
    covers_model,
    covers_path,
    is_covered,
)

TOOLS = ("read", "write", "shell", "shell(ls)", "shell(git push)", "write(a/x)", "write(a/b/x)", "files.read_file")
MODELS = ("ollama/a", "ollama/b", "openai/a", "x@http://one/v1", "ollama/a@http://two/v1")
PATHS = ("a", "a/x", "a/b/x", "b/x", "a/.x")
HOSTS = ("localhost:80", "localhost:8000", "10.0.0.1:80")
KINDS: dict[Covers, tuple[str, ...]] = {
    covers_call: TOOLS,
    covers_model: MODELS,
    covers_path: PATHS,
    covers_host: HOSTS,
}
PATTERNS: dict[Covers, tuple[str, ...]] = {
    covers_call: (*TOOLS, "*", "shell(git *)", "shell(*)", "write(a/*)", "write(a/**)", "*(a/*)", "re*", "files.*"),
    covers_model: (*MODELS, "*", "ollama/*", "*/a", "*@http://one/*", "*@http*"),
    covers_host: ("localhost:*", "localhost:80", "10.*:80", "*"),
    covers_path: (*PATHS, "**", "a/*", "a/**", "a/*/x", "**/x", "*", "./a/", "?/x"),
}


OVERLAPPING = ("*(a/*)", "*/a", "a/*/x", "**/x", "*", "?/x")
"""Patterns that merely overlap with others: two such are left out of a meet, so that it may depend on the order."""

NESTED: dict[Covers, tuple[str, ...]] = {
    covers: tuple(one for one in patterns if one not in OVERLAPPING or (one == "*" and covers is not covers_path))
    for covers, patterns in PATTERNS.items()
}


def lists(covers: Covers, among: dict[Covers, tuple[str, ...]] = PATTERNS) -> st.SearchStrategy[Patterns]:
    return st.none() | st.lists(st.sampled_from(among[covers]), max_size=4).map(tuple)


def lines_of(among: dict[Covers, tuple[str, ...]]) -> st.SearchStrategy[RightsLine]:
    return st.builds(
        RightsLine,
        models=lists(covers_model, among),
        tools=lists(covers_call, among),
        deny=st.lists(st.sampled_from(PATTERNS[covers_call]), max_size=2).map(tuple),
        read=lists(covers_path, among),
        write=lists(covers_path, among),
        network=st.sampled_from([None, True, False]),
        hosts=lists(covers_host, among),
        spawn=st.sampled_from([None, 0, 1, 5]),
        depth=st.sampled_from([None, 0, 1, 5]),
        grant_models=lists(covers_model, among),
        grant_tools=lists(covers_call, among),
    )


EVERYTHING = Rights(network=True, hosts=("*",))
lines = lines_of(PATTERNS)
nested = lines_of(NESTED)

_STARTS = st.sampled_from([Rights(), Rights(network=True, hosts=("localhost:*", "10.0.0.1:80"), spawn=4, depth=3)])
rights = st.builds(narrow_rights, _STARTS, lines)
nested_rights = st.builds(narrow_rights, _STARTS, nested)
FIELDS: dict[str, Covers] = {
    "models": covers_model,
    "tools": covers_call,
    "read": covers_path,
    "write": covers_path,
    "hosts": covers_host,
    "grant_models": covers_model,
    "grant_tools": covers_call,
}
COVERINGS = st.sampled_from(list(PATTERNS))


def allowed(patterns: Patterns, covers: Covers) -> set[str]:
    """What the list is seen to allow, of all that the tests know."""
    return {name for name in KINDS[covers] if is_covered(patterns, name, covers)}


def is_within(child: Rights, parent: Rights) -> bool:
    """Whether `child` has nothing that `parent` has not, as far as the tests' names can show."""
    are_within = all(
        allowed(getattr(child, name), c) <= allowed(getattr(parent, name), c) for name, c in FIELDS.items()
    )
    bounds = all(
        (bound := getattr(parent, name)) is None or (getattr(child, name) is not None and getattr(child, name) <= bound)
        for name in ("spawn", "depth")
    )
    return are_within and bounds and set(parent.deny) <= set(child.deny) and (parent.network or not child.network)
