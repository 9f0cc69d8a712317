"""Parse a `calls` check, and assign calls to the needed calls that it lists.

The parser of a suite reports a `BadCheck` before anything runs; the check itself returns it as an `error`.
`planloop.benchmarks.checks.calls` compares the calls of an attempt with these rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, cast

from planloop.benchmarks.checks.evidence import EmittedCall, Evidence
from planloop.schemas import limits, patterns
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.checks import matchers
from planloop.schemas.checks.matchers import match_pairs
from planloop.schemas.frozen import frozen
from planloop.schemas.spec.suite import EXTRAS, ORDERS


def argument_problems(
    given: Mapping[str, Json], wanted: Mapping[str, Json], *, is_exact: bool = False
) -> dict[str, str]:
    """Problems by argument: each wanted argument must be present and match. `is_exact` applies to nested values too."""
    words = {
        name: _missing_problem(matcher, given[name], is_exact=is_exact) if name in given else "is missing"
        for name, matcher in wanted.items()
    }
    return {name: why for name, why in words.items() if why}


def _missing_problem(matcher: Json, value: Json, *, is_exact: bool) -> str:
    kind = "exact" if is_exact else "subset"
    return matchers.find_mismatch({kind: {"": matcher}}, {"": value}).removeprefix("/").strip()


# Needs and calls are indexes into their lists. If there is a way to serve all needs, the assignment finds it, so the
# order in which two needs of one tool were served does not matter.

Fits: TypeAlias = Sequence[Sequence[int]]
"""For each need, the calls that can serve it, in order."""


class TooManyWays(Exception):
    """The number of ways to serve the needs exceeds the search limit."""


def assign_calls(fits: Fits) -> list[int | None]:
    """Return the call that serves each need, None if none does. Serves as many needs as possible, each by one call."""
    serving = {need: call for call, need in match_pairs(fits).items()}
    return [serving.get(need) for need in range(len(fits))]


def assign_in_order(fits: Fits, after: Sequence[frozenset[int]]) -> list[int] | None:
    """Return the call that serves each need, so that the needs in `after` are served by earlier calls; None if
    impossible.

    `after` has no cycles. Raises TooManyWays.
    """
    fits = _in_time(fits, after)
    chosen: dict[int, int] = {}
    left = limits.ASSIGNING_STEPS_MAX

    def choose() -> bool:
        nonlocal left
        left -= 1
        if left < 0:
            raise TooManyWays
        ready = [need for need in range(len(fits)) if need not in chosen and after[need] <= chosen.keys()]
        if not ready:
            return True
        if None in assign_calls(_open(fits, after, chosen)):
            return False
        need = min(ready, key=lambda one: len(fits[one]))
        for call in _open(fits, after, chosen)[need]:
            chosen[need] = call
            if choose():
                return True
            del chosen[need]
        return False

    return [chosen[need] for need in range(len(fits))] if choose() else None


def _in_time(fits: Fits, after: Sequence[frozenset[int]]) -> Fits:
    """Drop calls that come too early or too late: before the first call a need can follow, or after the last that
    can follow it."""
    out = [list(calls) for calls in fits]
    rows = _sorted(after)
    for need in rows:
        first = max((min(out[other], default=0) for other in after[need]), default=-1)
        out[need] = [call for call in out[need] if call > first]
    for need in reversed(rows):
        last = max(out[need], default=0)
        for other in after[need]:
            out[other] = [call for call in out[other] if call < last]
    return out


def _sorted(after: Sequence[frozenset[int]]) -> list[int]:
    """All needs in topological order: each after the needs that it follows."""
    out: list[int] = []
    while ready := [need for need in range(len(after)) if need not in out and after[need] <= set(out)]:
        out += ready
    return out


def _open(fits: Fits, after: Sequence[frozenset[int]], chosen: dict[int, int]) -> Fits:
    """The calls left for each need once the calls in `chosen` are assigned."""
    taken = set(chosen.values())
    return [
        [chosen[need]]
        if need in chosen
        else [
            call
            for call in calls
            if call not in taken and all(chosen[other] < call for other in after[need] if other in chosen)
        ]
        for need, calls in enumerate(fits)
    ]


def chain_order(count: int) -> list[frozenset[int]]:
    """The order in which each need follows the previous one."""
    return [frozenset({need - 1} if need else ()) for need in range(count)]


Order: TypeAlias = Literal["any", "partial", "exact"]
Extra: TypeAlias = Literal["allow", "soft", "deny"]


READS: Final = "reads"
"""Stands for a tool's name: all read-only tools of the world."""


class BadCheck(ValueError):
    """The check is invalid; the message says why. `hint` is the fix, `at` the location within the check."""

    def __init__(self, words: str, hint: str, at: tuple[str, ...] = ()) -> None:
        super().__init__(words)
        self.hint = hint
        self.at = at


@frozen
class NeededCall:
    """One call that must be made: of one of `tools`, with `args`, after the needs with the indexes in `after`.

    All `args` must be present and match. Arguments in `may` are optional and must match if present. With `is_exact`, no
    other arguments are allowed. With `is_tried`, a failed call is enough.
    """

    id: str
    tools: tuple[str, ...]
    args: Mapping[str, Json]
    may: Mapping[str, Json]
    is_exact: bool
    after: frozenset[int]
    is_tried: bool = False

    @property
    def shown(self) -> str:
        return " or ".join(f"`{tool}`" for tool in self.tools)


@frozen
class CallShape:
    """A set of calls, by tool name (stars match anything), by arguments, or by being calls of decoys.

    `reads`: calls of the world's own read-only tools.
    """

    shown: str
    tool: str = "*"
    args: Mapping[str, Json] | None = None
    decoys: str = ""
    reads: bool = False

    def covers(self, call: EmittedCall, seen: Evidence) -> bool:
        """Whether `call` is in the set; a malformed call never is."""
        if call.fault or not patterns.star_regex(self.tool).fullmatch(call.tool):
            return False
        if self.reads and not _is_read(call.tool, seen):
            return False
        among = {"": None, "near": seen.near, "far": seen.far, "all": seen.decoys}[self.decoys]
        if among is not None and call.tool not in among:
            return False
        return self.args is None or not argument_problems(call.arguments, self.args)


def _is_read(tool: str, seen: Evidence) -> bool:
    """Whether the tool is a read-only tool of the world that was offered.

    Decoys do not count, though they change nothing.
    """
    if tool in seen.decoys or tool not in seen.offered:
        return False
    known = None if seen.world is None else seen.world.tools.get(tool)
    return known is not None and not known.writes


@frozen
class CallRules:
    """A `calls` check. `free` calls, such as lookups, may be made at any time and are neither right nor wrong."""

    needs: tuple[NeededCall, ...]
    order: Order
    forbid: tuple[CallShape, ...]
    free: tuple[CallShape, ...]
    extra: Extra

    @property
    def probes(self) -> int:
        """How many things the check looks at; 0 for a check without requirements."""
        return len(self.needs) + len(self.forbid) + (self.extra == "deny")


MEMBERS: Final = ("need", "order", "forbid", "free", "extra")


def parse_call_rules(arguments: Json) -> CallRules:
    """Parse the check. Raises BadCheck."""
    given = require_members(arguments, MEMBERS, "`calls`")
    needs = _needs(as_list(given.get("need", []), ("need",)))
    order = _one_of(given.get("order", "partial"), ORDERS, "order")
    if order != "partial" and any(need.after for need in needs):
        raise BadCheck(f"`after` has no effect if `order` is `{order}`", "delete `order`", ("order",))
    return CallRules(
        needs,
        cast("Order", order),
        parse_shapes(given.get("forbid", []), "forbid"),
        parse_shapes(given.get("free", []), "free"),
        cast("Extra", _one_of(given.get("extra", "soft"), EXTRAS, "extra")),
    )


def parse_shapes(value: Json, name: str) -> tuple[CallShape, ...]:
    """Parse a list of names, patterns and maps to sets of calls. Raises BadCheck."""
    return tuple(_shape(one, (name, str(place))) for place, one in enumerate(as_list(value, (name,))))


def _shape(value: Json, at: tuple[str, ...]) -> CallShape:
    if isinstance(value, str) and value:
        return CallShape(value, reads=True) if value == READS else CallShape(value, value)
    given = require_members(value, ("tool", "args", "decoys"), f"an item of `{at[0]}`", at)
    tool, decoys = given.get("tool", "*"), given.get("decoys", "")
    if not given or not isinstance(tool, str):
        raise BadCheck(
            f"an item of `{at[0]}` names no tool", "write `mail.*`, `{tool: mail.send}` or `{decoys: true}`", at
        )
    if decoys not in ("", True, "near", "far"):
        raise BadCheck(f"invalid `decoys`: {decoys}", "write true, near or far", (*at, "decoys"))
    args = _args(given["args"], (*at, "args"))[0] if "args" in given else None
    shown = tool if not decoys else "decoys" if decoys is True else f"{decoys} decoys"
    return CallShape(shown, tool, args, "all" if decoys is True else decoys)


def _needs(values: Sequence[Json]) -> tuple[NeededCall, ...]:
    if len(values) > limits.NEEDED_CALLS_MAX:
        words = f"{len(values)} needed calls: at most {limits.NEEDED_CALLS_MAX} are allowed"
        raise BadCheck(words, "delete some, or split the case", ("need",))
    known = ("id", "tool", "args", "may", "after", "tried")
    maps = [require_members(one, known, "a needed call", ("need", str(place))) for place, one in enumerate(values)]
    names = [str(one.get("id", f"need-{place}")) for place, one in enumerate(maps, 1)]
    if twice := [place for place, name in enumerate(names) if name in names[:place]]:
        raise BadCheck(f"two needed calls have the id `{names[twice[0]]}`", "rename one", ("need", str(twice[0]), "id"))
    needs = tuple(_need(place, one, names) for place, one in enumerate(maps))
    _require_acyclic(needs)
    return needs


def _need(place: int, one: JsonObject, names: Sequence[str]) -> NeededCall:
    at, name = ("need", str(place)), names[place]
    tools = tuple(as_list(one.get("tool", []), (*at, "tool")))
    if not tools or not all(isinstance(tool, str) and tool for tool in tools):
        raise BadCheck(f"the needed call `{name}` has no `tool`", "write `tool: mail.send`", at)
    args, is_exact = _args(one.get("args", {}), (*at, "args"))
    after = as_list(one.get("after", []), (*at, "after"))
    if unknown := [other for other in after if other not in names]:
        hint = f"use one of {', '.join(names)}"
        raise BadCheck(f"no needed call has the id `{unknown[0]}`", hint, (*at, "after"))
    may = _usable(require_members(one.get("may", {}), None, "`may`", (*at, "may")), (*at, "may"))
    tried = one.get("tried", False)
    if not isinstance(tried, bool):
        raise BadCheck(f"invalid `tried`: {tried}", "write true or false", (*at, "tried"))
    return NeededCall(name, tools, args, may, is_exact, frozenset(map(names.index, after)), tried)


def _args(value: Json, at: tuple[str, ...]) -> tuple[JsonObject, bool]:
    """The matchers by argument, and whether other arguments are forbidden. A plain map is a subset."""
    given = require_members(value, None, "`args`", at)
    if len(given) == 1 and (kind := next(iter(given))) in ("subset", "exact") and isinstance(given[kind], dict):
        return _usable(given[kind], (*at, kind)), kind == "exact"
    return _usable(given, at), False


def _usable(args: JsonObject, at: tuple[str, ...]) -> JsonObject:
    for name, matcher in args.items():
        require_usable(matcher, (*at, name))
    return args


def require_usable(matcher: Json, at: tuple[str, ...]) -> None:
    """Raise BadCheck if the matcher is invalid."""
    for problem in matchers.pattern_problems(matcher, at):
        raise BadCheck(problem.summary, problem.hint, problem.at)


def _require_acyclic(needs: Sequence[NeededCall]) -> None:
    done: set[int] = set()
    while ready := [place for place, need in enumerate(needs) if place not in done and need.after <= done]:
        done.update(ready)
    if left := [place for place in range(len(needs)) if place not in done]:
        names = ", ".join(needs[place].id for place in left)
        raise BadCheck(f"dependency cycle in `after`: {names}", "remove one of them", ("need", str(left[0]), "after"))


def require_members(value: Json, allowed: Sequence[str] | None, what: str, at: tuple[str, ...] = ()) -> JsonObject:
    """Return `value` if it is a map with only `allowed` members; None allows any. Raises BadCheck."""
    if not isinstance(value, dict):
        raise BadCheck(f"{what} must be a map", "write `{name: value}`", at)
    if allowed is not None and (unknown := [name for name in value if name not in allowed]):
        raise BadCheck(f"{what} has no member `{unknown[0]}`", f"use one of {', '.join(allowed)}", (*at, unknown[0]))
    return value


def as_list(value: Json, at: tuple[str, ...]) -> list[Json]:
    """Return `value` as a list; a single text is a list of one. Raises BadCheck."""
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        return [value]
    raise BadCheck(f"`{at[-1]}` must be a list", "write `[…]`", at)


def _one_of(value: Json, words: Sequence[str], name: str) -> str:
    if value not in words:
        raise BadCheck(f"invalid `{name}`: {value}", f"use one of {', '.join(words)}", (name,))
    return str(value)
