"""What a `calls` check asks for, read from the suite once: what is needed, in which order, what is forbidden, extra.

`BadCheck` says what is wrong with it in words; a suite's reader shows them before anything runs, and `judge` answers
them as an `error`. How calls are compared with all this is `classing.py` and `assigning.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, cast

from benchmarks.checks import fitting
from benchmarks.checks.contract import Emitted, Evidence
from schemas import limits, patterns
from schemas.encoding import Json, JsonObject
from schemas.frozen import frozen

Order: TypeAlias = Literal["any", "partial", "exact"]
Extra: TypeAlias = Literal["allow", "soft", "deny"]

ORDERS: Final = ("any", "partial", "exact")
EXTRAS: Final = ("allow", "soft", "deny")


READS: Final = "reads"
"""In the place of a tool's name: all tools of the world that change nothing."""


class BadCheck(ValueError):
    """The check cannot be read; its text says why and what is to be written instead."""


@frozen
class Need:
    """One call that must be made: of one of `tools`, with `args`, after the needs at `after` (their places).

    `args` must all be there and match. `may` can be left out, and must match where they are not. With `is_exact` no
    others may be there. With `is_tried` a call that failed will do.
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
class Shape:
    """Calls by the name of their tool (stars match anything), their arguments, or by being a decoy.

    `reads`: calls of the world's own tools that change nothing in it.
    """

    shown: str
    tool: str = "*"
    args: Mapping[str, Json] | None = None
    decoys: str = ""
    reads: bool = False

    def covers(self, call: Emitted, seen: Evidence) -> bool:
        """Whether `call` is one of these. A call that nobody could read is none."""
        if call.fault or not patterns.starred(self.tool).fullmatch(call.tool):
            return False
        if self.reads and not _is_read(call.tool, seen):
            return False
        among = {"": None, "near": seen.near, "far": seen.far, "all": seen.decoys}[self.decoys]
        if among is not None and call.tool not in among:
            return False
        return self.args is None or not fitting.faults(call.arguments, self.args)


def _is_read(tool: str, seen: Evidence) -> bool:
    """Whether the tool was offered as one of the world's own and changes nothing: a decoy never changes anything."""
    if tool in seen.decoys or tool not in seen.offered:
        return False
    known = None if seen.world is None else seen.world.tools.get(tool)
    return known is not None and not known.writes


@frozen
class Rules:
    """A `calls` check. `free` calls may be made at any time and are neither right nor wrong: looking things up."""

    needs: tuple[Need, ...]
    order: Order
    forbid: tuple[Shape, ...]
    free: tuple[Shape, ...]
    extra: Extra

    @property
    def probes(self) -> int:
        """How many things the check looks at; a check that asks for nothing has none."""
        return len(self.needs) + len(self.forbid) + (self.extra == "deny")


MEMBERS: Final = ("need", "order", "forbid", "free", "extra")


def read(arguments: Json) -> Rules:
    """The check as rules. Raises BadCheck."""
    given = members(arguments, MEMBERS, "`calls`")
    needs = _needs(listed(given.get("need", []), "need"))
    ordered = any(need.after for need in needs)
    order = _one_of(given.get("order", "partial"), ORDERS, "order")
    if ordered and order != "partial":
        raise BadCheck(f"`after` is for `order: partial`, not for `order: {order}`")
    return Rules(
        needs,
        cast("Order", order),
        shapes(given.get("forbid", []), "forbid"),
        shapes(given.get("free", []), "free"),
        cast("Extra", _one_of(given.get("extra", "soft"), EXTRAS, "extra")),
    )


def shapes(value: Json, name: str) -> tuple[Shape, ...]:
    """The calls that a list of names, patterns and maps stands for. Raises BadCheck."""
    return tuple(_shape(one, name) for one in listed(value, name))


def _shape(value: Json, name: str) -> Shape:
    if isinstance(value, str) and value:
        return Shape(value, reads=True) if value == READS else Shape(value, value)
    given = members(value, ("tool", "args", "decoys"), f"what `{name}` lists")
    if not given:
        raise BadCheck(f"`{name}` lists tools, or maps with `tool`, `args` or `decoys`")
    decoys = given.get("decoys", "")
    if decoys not in ("", True, "near", "far"):
        raise BadCheck("`decoys` is true, near or far")
    tool = given.get("tool", "*")
    if not isinstance(tool, str):
        raise BadCheck(f"a `tool` of `{name}` is a name; stars match anything")
    args = _args(given["args"])[0] if "args" in given else None
    shown = tool if not decoys else "decoys" if decoys is True else f"{decoys} decoys"
    return Shape(shown, tool, args, "all" if decoys is True else decoys)


def _needs(values: Sequence[Json]) -> tuple[Need, ...]:
    if len(values) > limits.NEEDED_CALLS_MAX:
        raise BadCheck(f"`need` has at most {limits.NEEDED_CALLS_MAX} calls")
    maps = [members(one, ("id", "tool", "args", "may", "after", "tried"), "a needed call") for one in values]
    names = [str(one.get("id", f"need-{place}")) for place, one in enumerate(maps, 1)]
    if twice := [name for name in names if names.count(name) > 1]:
        raise BadCheck(f"two needed calls have the id `{twice[0]}`")
    needs = tuple(_need(one, name, names) for one, name in zip(maps, names, strict=True))
    _without_circles(needs)
    return needs


def _need(one: JsonObject, name: str, names: Sequence[str]) -> Need:
    tools = tuple(listed(one.get("tool", []), "tool"))
    if not tools or not all(isinstance(tool, str) and tool for tool in tools):
        raise BadCheck(f"the needed call `{name}` lacks the name of its `tool`")
    args, is_exact = _args(one.get("args", {}))
    after = listed(one.get("after", []), "after")
    if unknown := [other for other in after if other not in names]:
        raise BadCheck(f"`{name}` comes after `{unknown[0]}`, which is no id of a needed call")
    may = members(one.get("may", {}), None, "`may`")
    tried = one.get("tried", False)
    if not isinstance(tried, bool):
        raise BadCheck(f"`tried` of `{name}` is true or false")
    return Need(name, tools, args, _usable(may), is_exact, frozenset(map(names.index, after)), tried)


def _args(value: Json) -> tuple[JsonObject, bool]:
    """The matchers by argument, and whether no others may be there. A plain map is a subset."""
    given = members(value, None, "`args`")
    if len(given) == 1 and (kind := next(iter(given))) in ("subset", "exact") and isinstance(given[kind], dict):
        return _usable(given[kind]), kind == "exact"
    return _usable(given), False


def _usable(args: JsonObject) -> JsonObject:
    for name, matcher in args.items():
        if why := fitting.unusable(matcher):
            raise BadCheck(f"the argument `{name}`: {why}")
    return args


def _without_circles(needs: Sequence[Need]) -> None:
    done: set[int] = set()
    while ready := [place for place, need in enumerate(needs) if place not in done and need.after <= done]:
        done.update(ready)
    if left := [need.id for place, need in enumerate(needs) if place not in done]:
        raise BadCheck(f"`after` goes in a circle: {', '.join(left)}")


def members(value: Json, allowed: Sequence[str] | None, what: str) -> JsonObject:
    """`value` as a map that has none but the `allowed` members; None allows any. Raises BadCheck."""
    if not isinstance(value, dict):
        raise BadCheck(f"{what} is a map")
    if allowed is not None and (unknown := [name for name in value if name not in allowed]):
        raise BadCheck(f"{what} has no member `{unknown[0]}`: there are {', '.join(allowed)}")
    return value


def listed(value: Json, name: str) -> list[Json]:
    """`value` as a list; a word alone is a list of one. Raises BadCheck."""
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        return [value]
    raise BadCheck(f"`{name}` is a list")


def _one_of(value: Json, words: Sequence[str], name: str) -> str:
    if value not in words:
        raise BadCheck(f"`{name}` is one of {', '.join(words)}")
    return str(value)
