"""Effective rights: the meet of every line from the root down, checked over the whole plan (law 6).

What may be used and what may be handed on are apart. A line without `grant` hands on what it may use; a tier without
`grant` hands on whatever its parent may, because tiers say what each depth uses. Denials unite and nothing lifts them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from planloop.compiler.problems import Pointer, Problems
from planloop.compiler.resolve.budgets import lower_budget
from planloop.compiler.resolve.symbols import ALL, Toolsets, list_patterns
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.objects.agent import NO_TIER_CAP, TierCap
from planloop.schemas.rights import (
    Covers,
    Patterns,
    Rights,
    covers_call,
    covers_host,
    covers_model,
    covers_path,
    is_covered,
    meet_patterns,
    union_patterns,
)

ROOT_RIGHTS: Final = Rights()
"""What a plan that says nothing gives its root: every model and tool, its own workspace, no network."""


@frozen
class RightsLine:
    """One written line of rights, its toolsets opened. None: it says nothing of this."""

    models: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    read: tuple[str, ...] | None = None
    write: tuple[str, ...] | None = None
    network: bool | None = None
    hosts: tuple[str, ...] | None = None
    spawn: int | None = None
    depth: int | None = None
    grant_models: Patterns = None
    grant_tools: Patterns = None
    containers: int | None = None
    ports: tuple[int, ...] | None = None


@frozen
class RightsLimit:
    """A line of rights and its `holder`. `at` is its path in the plan; `hands` are the members that it hands on."""

    holder: str
    at: str
    line: RightsLine
    hands: frozenset[str] = frozenset()
    is_above: bool = False

    def allows(self, name: str) -> Patterns:
        """What it allows of `models` or `tools`: to those below, what it hands on."""
        found: Patterns = getattr(self.line, f"grant_{name}" if self.is_above else name)
        return found

    def place(self, name: str) -> str:
        """The line that raises it."""
        return f"{self.at}.grant.{name}" if self.is_above and name in self.hands else f"{self.at}.{name}"


def narrow_rights(parent: Rights, line: RightsLine) -> Rights:
    """`parent` as far as `line` leaves it: never wider in anything."""
    return Rights(
        models=meet_patterns(parent.models, line.models, covers_model),
        tools=meet_patterns(parent.tools, line.tools, covers_call),
        deny=union_patterns(parent.deny, line.deny),
        read=meet_patterns(parent.read, line.read, covers_path),
        write=meet_patterns(parent.write, line.write, covers_path),
        network=parent.network and line.network is not False,
        hosts=meet_patterns(parent.hosts, line.hosts, covers_host) or (),
        spawn=_least(parent.spawn, line.spawn),
        depth=_least(parent.depth, line.depth),
        grant_models=meet_patterns(parent.grant_models, line.grant_models, covers_model),
        grant_tools=meet_patterns(parent.grant_tools, line.grant_tools, covers_call),
        guarded=parent.guarded,
        containers=_least(parent.containers, line.containers),
        ports=tuple(port for port in parent.ports if line.ports is None or port in line.ports),
    )


def hand_down_rights(parent: Rights) -> Rights:
    """Return the rights that a child of `parent` starts with: what the parent may grant, one level less deep."""
    depth = None if parent.depth is None else max(0, parent.depth - 1)
    return replace(parent, models=parent.grant_models, tools=parent.grant_tools, depth=depth)


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


@mutable
class RightsTree:
    """Computes effective rights level by level; equal steps are computed once."""

    toolsets: Toolsets
    faults: Problems
    tiers: tuple[RightsLine, ...] = ()
    caps: tuple[TierCap, ...] = ()
    limits: tuple[RightsLimit, ...] = ()
    _steps: dict[tuple[int, int], tuple[Rights, Rights]] = field(default_factory=dict)
    _traces: dict[int, tuple[Rights, tuple[RightsLimit, ...]]] = field(default_factory=dict)

    def take_tiers(self, document: JsonObject) -> None:
        """Reads the plan's tiers: by their `depth` where they state one, else by their order."""
        written: Sequence[JsonObject] = document.get("rights", {}).get("tiers", ())
        by_depth: dict[int, int] = {}
        for index, tier in enumerate(written):
            depth = tier.get("depth", index)
            if depth in by_depth:
                to = ("rights", "tiers", str(index))
                self.faults.add("P0212", f"two tiers are for depth {depth}", "write one tier for each depth", to=to)
            by_depth.setdefault(depth, index)
        lines = {depth: self._tier(written[index], index) for depth, index in by_depth.items()}
        if lines:
            deepest = max(lines)
            known = [max((d for d in lines if d <= depth), default=min(lines)) for depth in range(deepest + 1)]
            self.tiers = tuple(lines[depth] for depth in known)
            self.limits = tuple(_tier_limit(lines[depth], written[by_depth[depth]], by_depth[depth]) for depth in known)
            self.caps = tuple(_cap(written[by_depth[depth]], by_depth[depth]) for depth in known)

    def cap(self, depth: int) -> TierCap:
        """What each agent that far below the root may use itself."""
        return self.caps[min(depth, len(self.caps) - 1)] if self.caps else NO_TIER_CAP

    def _tier(self, tier: JsonObject, index: int) -> RightsLine:
        to = ("rights", "tiers", str(index))
        without_depth = {name: value for name, value in tier.items() if name != "depth"}
        line = self.line(without_depth, to)
        grant = tier.get("grant", {})
        return replace(
            line,
            grant_models=line.grant_models if "models" in grant else None,
            grant_tools=line.grant_tools if "tools" in grant else None,
        )

    def root(self, document: JsonObject) -> Rights:
        """The rights of the root task, before its agent narrows them."""
        written = document.get("rights", {})
        hosts, ports = tuple(written.get("hosts", ())), tuple(written.get("ports", ()))
        start = replace(ROOT_RIGHTS, network=written.get("network") == "all", hosts=hosts, ports=ports)
        step, line = self._step(start, 0), self.line(written, ("rights",))
        return self._traced(
            narrow_rights(step, line), (*self._trace(step), _limit("the plan", ("rights",), line, written))
        )

    def child(self, parent: Rights, depth: int, written: JsonObject | None, path: Sequence[str]) -> Rights:
        """Return the rights of the task at `path` whose parent has `parent`; `written` is its own line."""
        rights = self._step(parent, depth)
        return (
            rights if written is None else self.with_line(rights, written, (*json_pointer.task_pointer(path), "rights"))
        )

    def with_line(self, rights: Rights, written: JsonObject, to: Pointer) -> Rights:
        """`rights` under one more written line, with a problem for each excess."""
        line = self.line(written, to)
        self._complain(rights, line, written, to)
        whose = _whose(to)
        return self._traced(narrow_rights(rights, line), (*self._trace(rights), _limit(whose, to, line, written)))

    def binding(self, rights: Rights, name: str, wanted: str, covers: Covers) -> str:
        """Whose line keeps `wanted`, one of `models` or `tools`, from a place with `rights`, and what it allows."""
        for limit in self._trace(rights):
            if not is_covered(allowed := limit.allows(name), wanted, covers):
                return f"{limit.holder} allows {list_patterns(allowed)}: add it to `{limit.place(name)}`"
        return ""

    def like(self, rights: Rights, other: Rights) -> Rights:
        """`rights` as those that came of the same lines as `other`."""
        return self._traced(rights, self._trace(other))

    def _trace(self, rights: Rights) -> tuple[RightsLimit, ...]:
        return self._traces.get(id(rights), (rights, ()))[1]

    def _traced(self, rights: Rights, trace: tuple[RightsLimit, ...]) -> Rights:
        self._traces[id(rights)] = (rights, trace)  # The rights are kept, so that their id stays theirs.
        return rights

    def _step(self, parent: Rights, depth: int) -> Rights:
        # By identity: hashing rights costs more than the step. The parent is kept, so its id stays its own.
        known = self._steps.get((id(parent), depth))
        if known is None:
            start = parent if depth == 0 else hand_down_rights(parent)
            step = narrow_rights(start, self.tiers[min(depth, len(self.tiers) - 1)]) if self.tiers else start
            above = tuple(replace(limit, is_above=depth > 0) for limit in self._trace(parent))
            own = (self.limits[min(depth, len(self.limits) - 1)],) if self.limits else ()
            self._traced(step, (*above, *own))
            known = self._steps[id(parent), depth] = (parent, step)
        return known[1]

    def line(self, written: Mapping[str, object], to: Pointer) -> RightsLine:
        """A written line with its toolsets opened."""
        raw: JsonObject = dict(written)
        grant: JsonObject = raw.get("grant", {})
        models = _models(raw.get("models"))
        tools = self.toolsets.opened(raw["tools"], (*to, "tools")).patterns if "tools" in raw else None
        deny = self.toolsets.denials(raw.get("deny", ()), (*to, "deny"))
        granted = self.toolsets.opened(grant["tools"], (*to, "grant", "tools")).patterns if "tools" in grant else tools
        return RightsLine(
            models=models,
            tools=tools,
            deny=deny,
            read=tuple(raw["read"]) if "read" in raw else None,
            write=tuple(raw["write"]) if "write" in raw else None,
            network=None if "network" not in raw else raw["network"] == "all",
            hosts=tuple(raw["hosts"]) if "hosts" in raw else None,
            spawn=raw.get("spawn"),
            depth=raw.get("depth"),
            grant_models=_models(grant["models"]) if "models" in grant else models,
            grant_tools=granted,
            containers=raw.get("containers"),
            ports=tuple(raw["ports"]) if "ports" in raw else None,
        )

    def _complain(self, rights: Rights, line: RightsLine, written: JsonObject, to: Pointer) -> None:
        lists: dict[str, tuple[Patterns, Covers]] = {
            "models": (rights.models, covers_model),
            "read": (rights.read, covers_path),
            "write": (rights.write, covers_path),
            "hosts": (rights.hosts, covers_host),
        }
        for name, (allowed, covers) in lists.items():
            for index, pattern in enumerate(written.get(name, ())):
                if pattern not in ALL and not is_covered(allowed, pattern, covers):
                    self._wider(f"`{pattern}`", allowed, (*to, name, str(index)))
        for name, index in self.toolsets.opened(written.get("tools", ()), (*to, "tools")).named:
            if not is_covered(rights.tools, name, covers_call):
                self._wider(f"`{name}`", rights.tools, (*to, "tools", str(index)))
        for index, port in enumerate(line.ports or ()):
            if port not in rights.ports:
                self._wider(f"port {port}", tuple(map(str, rights.ports)), (*to, "ports", str(index)))
        if line.network and not rights.network:
            self._wider("the network", ("none",), (*to, "network"))

    def _wider(self, what: str, allowed: Patterns, to: Pointer) -> None:
        hint = f"remove it; the parent may grant {list_patterns(allowed)}"
        self.faults.add("P0303", f"{what} is more than its parent may grant", hint, to=to)


def _whose(to: Pointer) -> str:
    """Whose line stands at `to`, in words."""
    if to[0] == "agents":
        return f"agent `{to[1]}`"
    path = "/".join(name for word, name in zip(to[::2], to[1::2], strict=False) if word == "tasks")
    return f"task `{path}`" if path else "the plan"


def _limit(whose: str, to: Pointer, line: RightsLine, written: JsonObject) -> RightsLimit:
    return RightsLimit(whose, ".".join(to), line, frozenset(written.get("grant", ())))


def _tier_limit(line: RightsLine, written: JsonObject, index: int) -> RightsLimit:
    return _limit(f"tier {index}", ("rights", "tiers", str(index)), line, written)


def _cap(tier: JsonObject, index: int) -> TierCap:
    return TierCap(lower_budget(tier["budget"]), f"rights.tiers.{index}.budget") if tier.get("budget") else NO_TIER_CAP


def _models(written: Sequence[str] | None) -> Patterns:
    return None if written is None or any(name in ALL for name in written) else tuple(written)
