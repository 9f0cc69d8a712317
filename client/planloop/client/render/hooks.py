"""Hooks in words: what they watch, when they run, and what ends them."""

from __future__ import annotations

from planloop.reconciler.diff import describe
from planloop.schemas import quantities
from planloop.schemas.canonical_json import JsonObject, encode
from planloop.schemas.objects.hook import ACTIVE, default_on_error
from planloop.schemas.resource import Resource

HOOK_HEAD = ("hook", "watches", "on", "state", "fired", "for", "what")


def hook_row(item: Resource, now: float) -> tuple[str, ...]:
    """Return the table row of a hook: watched agent, points, state, number of questions, age and text."""
    spec, status = item.spec, item.status
    points = ",".join(spec["on"])
    since = status.get("since")
    age = quantities.format_duration(now - float(since)) if since is not None and hook_state(item) == ACTIVE else ""
    broke = sum(one["count"] for one in _broke(item).values())
    asks = describe.describe_hook_mind(spec["mind"]) + (f" · failed {_times(broke)}" if broke else "")
    what = str(status.get("why") or asks)
    name = item.address.partition("/")[2]
    return (name, spec["watches"], points, hook_state(item), str(status.get("fired", 0)), age, what)


def hook_state(item: Resource) -> str:
    """Return the state; `active` before any is written, because a hook exists as soon as its agent does."""
    return "deleting" if item.deleting else item.state or ACTIVE


def hook_facts(item: Resource, now: float) -> list[tuple[str, str]]:
    """Return labelled lines of a hook: its points, what answers, its place and its end."""
    spec, status = item.spec, item.status
    out = [
        ("watches", spec["watches"]),
        ("asked", describe.describe_hook_events(spec)),
        ("answers", describe.describe_hook_mind(spec["mind"])),
    ]
    if spec["original"]:
        kind = "shares state and end with" if spec["is_read_only"] else "a copy, with its own state, of"
        out.append(("copy", f"{kind} {spec['original']}"))
    below = {"same": "their own copy", "read-only": "a read-only copy", "none": "no copy"}[spec["copy"]]
    out.append(("set at", f"{spec['set_at']}; descendants get {below}"))
    out.append(("on error", _faults(spec)))
    if ends := _ends(spec["expires"], status, now):
        out.append(("ends", ends))
    if spec["options"]:
        out.append(
            ("settings", ", ".join(f"{name} {encode(value).decode()}" for name, value in spec["options"].items()))
        )
    out.append(("fired", _times(int(status.get("fired", 0)))))
    out += [("failed", f"{point}, {_times(one['count'])}; last: {one['last']}") for point, one in _broke(item).items()]
    for value in status.get("memory") or ():  # In a box, so that a merge replaces the whole of it.
        out.append(("remembers", encode(value).decode()))
    return out


def _broke(item: Resource) -> JsonObject:
    """By point, how often it broke there and how it did last. In a box, so that a merge replaces the whole of it."""
    return next(iter(item.status.get("faults") or ()), {})


def _faults(spec: JsonObject) -> str:
    """Return what an error of the hook means at each point. By default, a hook that guards calls denies."""
    late = f", timeout {quantities.format_duration(spec['timeout_s'])}" if spec["timeout_s"] is not None else ""
    policies: dict[str, list[str]] = {}
    for point in spec["on"]:
        policies.setdefault(spec["on_fault"] or default_on_error(point), []).append(point)
    if len(policies) == 1:
        return f"{next(iter(policies))}{late}"
    parts = (f"{policy} at {', '.join(points)}" for policy, points in policies.items())
    return "; ".join(parts) + late


def _ends(expires: JsonObject, status: JsonObject, now: float) -> str:
    ways = []
    if expires["turns"] is not None:
        ways.append(f"after {expires['turns']} turns")
    if expires["time_s"] is not None:
        since = status.get("since")
        left = (
            ""
            if since is None
            else f", in {quantities.format_duration(max(0.0, float(since) + expires['time_s'] - now))}"
        )
        ways.append(f"after {quantities.format_duration(expires['time_s'])}{left}")
    if expires["when"]:
        ways.append(f"when {encode(expires['when']).decode()}")
    if expires["is_by_approval"]:
        ways.append("when a person approves")
    return ", or ".join(ways)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times" if count else "never"
