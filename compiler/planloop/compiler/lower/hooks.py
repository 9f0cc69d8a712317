"""Resolve hooks: what they extend, their settings, their decider, and the files that guard them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from planloop.compiler import names
from planloop.compiler.check.hooks import GOES_WITH, MadeHook, check_hook, check_rules
from planloop.compiler.lower.agents import command_argv, guarded_patterns, program_files
from planloop.compiler.names import did_you_mean
from planloop.compiler.problems import DeclaredAt, Pointer, Problems
from planloop.compiler.resolve.agents import AgentResolver, ResolvedAgent
from planloop.compiler.resolve.mixins import SettingsContext, fill_settings, settings_named_in
from planloop.compiler.resolve.symbols import SymbolTable
from planloop.schemas import canonical_json, limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen, mutable
from planloop.schemas.objects.hook import HookFunction, HookProgram, HookRule
from planloop.schemas.spec.field import TableType
from planloop.schemas.spec.hook import HOOK_DECIDERS

# Resolved hooks: prototypes merged, settings filled in, and the agent behind them resolved.
#
# Order, from weakest to strongest: the chain of `extends`, furthest first, then the hook's own fields. Maps merge,
# lists and plain values replace, a mind takes the place of the mind it had. Who is watched is
# `planloop.compiler.lower.hook_bindings`.

_OWN_ONLY: Final = frozenset(("extends", "settings"))


@frozen
class ResolvedHook:
    """A hook with nothing left to look up.

    `key` tells declarations apart: two agents that name the same hook with the same settings have the same one.
    `fields` have their settings put in; `mind` is empty if an agent decides: then `agent` is resolved, or `existing`
    is the address of an agent of the plan. `provenance` maps a field to where it is from; `to` is where it is written.
    `made_of` are the files beside the plan that it extends.
    """

    name: str
    key: str
    fields: Mapping[str, Json]
    options: JsonObject
    to: Pointer
    mind: HookRule | HookProgram | HookFunction | None = None
    agent: ResolvedAgent | None = None
    existing: str = ""
    provenance: Mapping[str, str] = field(default_factory=dict)
    made_of: tuple[str, ...] = ()

    @property
    def is_dumb(self) -> bool:
        """Return whether it decides without an agent."""
        return self.mind is not None

    def files(self, cwd: str) -> tuple[str, ...]:
        """The files beside the plan that answer for it where it is set in `cwd`, as far as the plan shows them."""
        return guarded_patterns(self._files(cwd))

    def _files(self, cwd: str) -> Iterator[str]:
        yield from self.made_of
        yield from () if self.agent is None else self.agent.files
        match self.mind:
            case HookFunction(target=target) if not target.startswith("lib:"):
                yield target.rpartition(":")[0]
            case HookProgram(argv=argv):
                yield from program_files(argv, cwd)


@mutable
class HookResolver:
    """Resolves hooks, equal ones once."""

    shelves: SymbolTable
    agents: AgentResolver
    faults: Problems
    _known: dict[str, ResolvedHook | None] = field(default_factory=dict)

    def declared(self, hooks: JsonObject, to: Pointer) -> Iterator[ResolvedHook]:
        """The hooks of a map, as at the top of a plan or in a task."""
        for name, own in hooks.items():
            place = (*to, "hooks", name)
            found = self._once("/".join(place[-2:] if not to else place), name, own, place)
            if found is not None:
                yield found

    def named(self, written: list[Json], to: Pointer) -> Iterator[ResolvedHook]:
        """Those that an agent names, each a name or a map of names to settings."""
        for index, item in enumerate(written):
            pairs = item.items() if isinstance(item, dict) else [(item, {})]
            for reference, settings in pairs:
                found = self._named(str(reference), settings, (*to, "hooks", str(index)))
                if found is not None:
                    yield found

    def _named(self, reference: str, settings: JsonObject, to: Pointer) -> ResolvedHook | None:
        declared = self.shelves.known("hooks", reference)
        if declared is None:
            return None
        if declared.pointer is not None and not settings:
            return self._once("/".join(declared.pointer), declared.name, declared.value, declared.pointer)
        key = str(declared.words) + (canonical_json.encode(settings).decode() if settings else "")
        name = _id_of(declared.name)
        return self._once(key, name, {"extends": reference, "settings": settings}, to)

    def _once(self, key: str, name: str, own: JsonObject, to: Pointer) -> ResolvedHook | None:
        if key not in self._known:
            self._known[key] = self._made(key, name, own, to)
        return self._known[key]

    def _made(self, key: str, name: str, own: JsonObject, to: Pointer) -> ResolvedHook | None:
        merge = _Merge()
        if not self._lay(merge, own, DeclaredAt("/".join(to)), to, ()):
            return None
        self._tell_unread(merge, own, to)
        fields = fill_settings(
            SettingsContext(TableType("hook"), to, merge.settings, "hook"), merge.fields, self.faults
        )
        if fields is None or not check_hook(fields, to, self.agents.toolsets, self.faults):
            return None
        made = MadeHook(fields, merge.fields, merge.settings, own.get("settings", {}), to)
        check_rules(made, self.agents.toolsets, self.faults)
        mind = _mind(fields)
        agent: ResolvedAgent | None = None
        existing = ""
        match fields.get("agent") if mind is None else None:
            case str() as reference:
                agent = self.agents.named(reference, (*to, "agent"))
            case {"as": existing}:
                pass
            case dict() as written:
                agent = self.agents.made(written, f"hook {name}", (*to, "agent"))
        if mind is None and agent is None and not existing:
            return None
        made_of = tuple(merge.files)
        return ResolvedHook(
            name, key, fields, merge.settings, to, mind, agent, str(existing), merge.provenance, made_of
        )

    def _lay(self, merge: _Merge, own: JsonObject, words: DeclaredAt, to: Pointer, chain: tuple[str, ...]) -> bool:
        """Merge `own` over its prototype; False, with a problem, if the prototype is unknown."""
        reference = str(own.get("extends", ""))
        if reference:
            place = (*to, "extends")
            base = self.shelves.find("hooks", reference, place)
            if base is None:
                return False
            if base.words in chain or base.words == words:
                ring = " → ".join([*chain, base.words])
                self.faults.add(
                    "P0215", f"hooks extend each other in a cycle: {ring}", "remove one of these `extends`", to=place
                )
                return False
            if len(chain) >= limits.PROTOTYPE_DEPTH_MAX:
                summary = f"hooks extend each other more than {limits.PROTOTYPE_DEPTH_MAX} levels deep"
                self.faults.add("P0224", summary, "merge some of them", to=place)
                return False
            if reference.startswith("file:"):
                merge.files.append(reference.removeprefix("file:"))
            if not self._lay(merge, base.value, base.words, base.pointer or to, (*chain, base.words)):
                return False
        merge.take(own, words)
        return True

    def _tell_unread(self, merge: _Merge, own: JsonObject, to: Pointer) -> None:
        """Report settings that the prototype does not have; a program receives them anyway."""
        known = merge.declared | set(settings_named_in([merge.fields]))
        is_given = not merge.fields.keys().isdisjoint(("run", "python"))
        tell, code = (self.faults.warn, "P0406") if is_given else (self.faults.add, "P0213")
        for name in own.get("settings", {}) if "extends" in own else ():
            if name not in known:
                summary = f"`{own['extends']}` has no setting `{name}`"
                tell(code, summary, did_you_mean(name, sorted(known)), to=(*to, "settings", name))


class _Merge:
    """One hook in the making. `declared` are the settings of those that it is made from, and its own names."""

    def __init__(self) -> None:
        self.fields: JsonObject = {}
        self.settings: JsonObject = {}
        self.provenance: dict[str, str] = {}
        self.declared: set[str] = set()
        self.files: list[str] = []

    def take(self, own: JsonObject, words: DeclaredAt) -> None:
        if "extends" not in own:
            self.declared |= own.get("settings", {}).keys()
        if any(mind in own for mind in HOOK_DECIDERS):
            self._drop_minds(own)
        for name, value in own.items():
            if name in _OWN_ONLY:
                continue
            old = self.fields.get(name)
            self.fields[name] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
            self.provenance[name] = words
        for name, value in own.get("settings", {}).items():
            self.settings[name] = value
            self.provenance[f"settings.{name}"] = self.provenance["settings"] = words

    def _drop_minds(self, own: JsonObject) -> None:
        kept = "agent" if isinstance(own.get("agent"), dict) and "as" not in own["agent"] else ""
        for mind in HOOK_DECIDERS:
            if mind != kept:
                self.fields.pop(mind, None)
        for name, mind in GOES_WITH.items():
            if mind not in own:
                self.fields.pop(name, None)


def _mind(fields: Mapping[str, Json]) -> HookRule | HookProgram | HookFunction | None:
    if "rule" in fields:
        return HookRule(tuple(fields["rule"]))
    if "run" in fields:
        return HookProgram(command_argv(fields["run"]), fields.get("contract", "planloop"))
    return HookFunction(fields["python"]) if "python" in fields else None


def _id_of(name: str) -> str:
    """What an agent calls a hook that it names by a path or as one of the library."""
    stem = name.rpartition("/")[2].split(".")[0]
    return stem if names.is_valid_id(stem) else names.id_from_goal(stem) or "hook"
