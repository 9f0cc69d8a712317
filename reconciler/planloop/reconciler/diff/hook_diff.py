"""The effects of an edit on hooks: one entry for each declared hook, whatever the number of agents it watches. Pure.

If an agent is added or removed, its hooks are, too. Only the agent then has a difference, not each hook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from planloop.reconciler.diff import describe
from planloop.schemas import json_patch
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.resource import Resource, WantedObject

OWN: Final = frozenset({"watches", "original", "is_read_only", "name", "stated_as"})
"""Fields in which the hooks of two agents differ although the plan declares one hook."""

HookKey: TypeAlias = tuple[str, str]
Renamed: TypeAlias = Callable[[JsonObject], JsonObject]


@frozen
class HookEdit:
    """The effect on a declared hook; `address` is its first object."""

    action: Literal["attach", "detach", "change"]
    address: str
    reason: str
    words: str
    fields: tuple[str, ...] = ()


def hook_edits(
    live: Mapping[str, Resource], wanted: Mapping[str, WantedObject], renamed: Renamed
) -> Iterator[HookEdit]:
    """Yield the edits of all hooks. `renamed` replaces addresses in the spec of a live object that moves."""
    before = _by_key({one.address: renamed(one.spec) for one in live.values() if _is_told(one.address, one.deleting)})
    after = _by_key({one.address: one.spec for one in wanted.values() if _is_told(one.address)})
    agents = {address for address in (*live, *wanted) if address.startswith("agent/")}
    staying = {address for address in agents if address in wanted and address in live}
    for key, specs in before.items():
        if key not in after and any(spec["watches"] in staying for spec in specs.values()):
            first, spec = next(iter(specs.items()))
            words = f"no longer asked {describe.describe_hook_events(spec)}{_count(specs)}"
            yield HookEdit("detach", first, "HookRemoved", words)
    for key, specs in after.items():
        first, spec = next(iter(specs.items()))
        if key not in before:
            yield HookEdit("attach", first, "HookAdded", f"{describe.describe_hook(spec)}{_count(specs)}")
        elif fields := _changed(before[key], specs):
            old = next(iter(before[key].values()))
            said = ", ".join(describe.describe_change(name, old.get(name), spec.get(name)) for name in fields)
            words = f"{said}; takes effect immediately, without a restart{_count(specs)}"
            yield HookEdit("change", first, "HookChanged", words, fields)


def stated_name(spec: JsonObject) -> str:
    """The name of a hook at its `set_at`, from its spec as JSON."""
    return str(spec.get("stated_as") or spec["name"])


def _is_told(address: str, deleting: bool = False) -> bool:
    return address.startswith("hook/") and "/~" not in address and not deleting


def _by_key(specs: Mapping[str, JsonObject]) -> dict[HookKey, dict[str, JsonObject]]:
    """Hooks by the place and name of their declaration."""
    found: dict[HookKey, dict[str, JsonObject]] = {}
    for address, spec in sorted(specs.items(), key=lambda one: bool(one[1]["original"])):
        found.setdefault((str(spec["set_at"]), stated_name(spec)), {})[address] = spec
    return found


def _changed(before: Mapping[str, JsonObject], after: Mapping[str, JsonObject]) -> tuple[str, ...]:
    """The fields in which a declared hook differs, from its first object before and after, ignoring copies."""
    old, new = next(iter(before.values())), next(iter(after.values()))
    same = next((address for address in after if address in before), None)
    if same is not None:
        old, new = before[same], after[same]
    names = (op.path[0] for op in json_patch.diff_values(old, new) if op.path)
    found = tuple(name for name in dict.fromkeys(names) if name not in OWN)
    # The plan does not declare the address of an agent that was created for the hook.
    is_moved = found == ("mind",) and {old["mind"].get("kind"), new["mind"].get("kind")} == {"agent"}
    return () if is_moved and same is None else found


def _count(specs: Mapping[str, JsonObject]) -> str:
    return f"; watches {len(specs)} agents" if len(specs) > 1 else ""
