"""What an edit does to a container: action, reason and the words that `plan diff` shows. Pure.

Values of its environment are not shown: a person may have written a password there. Pure, like all of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from planloop.reconciler.diff import describe
from planloop.reconciler.plan_language_port import ChangeClassOf
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.objects.container import has_health
from planloop.schemas.resource import Resource, WantedObject

ContainerEdit: TypeAlias = tuple[Literal["replace", "continue", "none"], str, str]
"""Action, reason and words of a difference."""

BEFORE_SHOWN: Final = 3  # Of those that wait for it, so many are named.
_LIMITS: Final = ("cpu", "memory_bytes", "pids")
_NAMES_ONLY: Final = ("env", "labels")


def describe_container_start(want: WantedObject, wanted: Mapping[str, WantedObject]) -> str:
    """`redis:7, healthy before task/integrate`."""
    how = "healthy" if has_health(want.spec) else "up"
    before = [*_before(want.address, how, wanted)]
    rest = len(before) - BEFORE_SHOWN
    named = ", ".join(before[:BEFORE_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
    while_ = f", while task/{want.spec['task']} is at work" if want.spec["task"] else ""
    return describe_image(want.spec) + while_ + (f", {named}" if named else "")


def _before(address: str, how: str, wanted: Mapping[str, WantedObject]) -> Iterator[str]:
    """`healthy before task/integrate`; the word only where it is not that of the one before."""
    name, last = address.partition("/")[2], ""
    for other in wanted.values():
        if other.address.startswith("task/") and other.address != "task/.":
            word = how if address in other.spec["containers"] else ""
        elif other.address.startswith("container/"):
            word = other.spec["needs"].get(name, "")
        else:
            continue
        if word:
            yield other.address if word == last else f"{word} before {other.address}"
            last = word


def describe_image(spec: JsonObject) -> str:
    """What it is made from: an image's name, the folder that is built, or the archive."""
    if spec["build"]:
        return f"built from {spec['build'].get('folder', '.')}"
    return f"made from {spec['rootfs']}" if spec["rootfs"] else str(spec["image"])


def describe_removal(one: Resource) -> str:
    """What taking it out of the plan does."""
    is_there = one.status.get("seen") is not None
    volumes = ", ".join(mount["volume"] for mount in one.spec["mounts"] if mount["volume"])
    stay = f"; what is in its volumes stays: {volumes}" if volumes else ""
    return ("no longer in the plan; stopped and removed" if is_there else "no longer in the plan") + stay


def running_since(one: Resource) -> float | None:
    """Since when it runs, in seconds since 1970; None when it does not."""
    seen = one.status.get("seen") or {}
    return seen.get("started_at") or None if seen.get("run") in ("running", "paused") else None


def container_edit(
    old: Resource, spec: JsonObject, fields: Sequence[str], change_class: ChangeClassOf
) -> ContainerEdit:
    """What an edit of `fields` does to the container `old`."""
    classes = {name: str(change_class("container", name)) for name in fields}
    replacing = [name for name in fields if classes[name] == "replace"]
    if replacing:
        if replacing == ["again"]:
            return "replace", "MustBeReplaced", "is made anew"
        said = _said(old.spec, spec, replacing)
        if old.status.get("seen") is None:
            return "continue", "NotBegun", f"{said}; counts from its start on"
        how = "stopped, removed" if running_since(old) is not None else "removed"
        return "replace", "MustBeReplaced", f"{said}; {how} and started anew"
    hot = [name for name in fields if classes[name] != "none"]
    if not hot:
        return "none", "Bookkeeping", f"{_said(old.spec, spec, fields)}; of the next one: what runs stays as it is"
    return "continue", "NextStep", "; ".join(_by_effect(old, spec, hot))


def _by_effect(old: Resource, spec: JsonObject, fields: Sequence[str]) -> Iterator[str]:
    """A clause for what changes while it runs, for what waits for its next start, and for what counts at once."""
    is_up = running_since(old) is not None
    groups: dict[str, list[str]] = {}
    for name in fields:
        effect = "counts at once, without a restart"
        if name in _LIMITS:
            effect = "changed while it runs" if is_up else "counts from its start on"
        elif name == "needs":
            effect = "counts when it is started next" if is_up else "counts at once"
        groups.setdefault(effect, []).append(name)
    for effect, names in groups.items():
        yield f"{_said(old.spec, spec, names)}; {effect}"


def _said(before: JsonObject, after: JsonObject, fields: Sequence[str]) -> str:
    return ", ".join(_change(name, before.get(name), after.get(name)) for name in fields)


def _change(field: str, before: Json, after: Json) -> str:
    if field in _NAMES_ONLY:
        return f"{field}: {', '.join(_names(before, after))}"
    if field == "needs":
        return f"needs: {describe.describe_pair(_needs(before), _needs(after))}"
    if field == "mounts":
        return f"mounts: {describe.describe_pair(_listed(before, _mount), _listed(after, _mount))}"
    if field == "ports":
        return f"ports: {describe.describe_pair(_listed(before, _port), _listed(after, _port))}"
    if field in ("cmd", "entrypoint"):
        return f"{field}: {describe.describe_pair(_command(before), _command(after))}"
    return describe.describe_change(field, before, after)


def _names(before: JsonObject, after: JsonObject) -> Iterator[str]:
    yield from (name for name in after if name in before and before[name] != after[name])
    yield from (f"+ {name}" for name in after if name not in before)
    yield from (f"- {name}" for name in before if name not in after)


def _needs(needs: JsonObject) -> str:
    return ", ".join(f"{name} {how}" for name, how in needs.items()) or "none"


def _listed(parts: Sequence[JsonObject], shown: Callable[[JsonObject], str]) -> str:
    return ", ".join(shown(part) for part in parts) or "none"


def _mount(mount: JsonObject) -> str:
    what = mount["host"] or mount["volume"] or "memory"
    return f"{what}:{mount['target']}" + (" (read-only)" if mount["is_read_only"] else "")


def _port(port: JsonObject) -> str:
    return f"{port['host'] or 'any'}:{port['inside']}"


def _command(words: Sequence[str] | None) -> str:
    return "the image's own" if words is None else describe.quote_command(words)
