"""What an edit would do to running objects: one difference per object, deletions first. Pure.

Compares live objects with wanted objects, using the change class of each field. `plan diff`, holds and announcements of
edits show the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from planloop.reconciler.diff import describe, hook_diff
from planloop.reconciler.diff.renames import rename_references
from planloop.reconciler.plan_language_port import ChangeClassOf
from planloop.schemas import json_patch
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.objects.container import has_health
from planloop.schemas.objects.hook import is_hook_agent
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource, WantedObject

EditAction: TypeAlias = Literal[
    "cancel",
    "replace",
    "restart",
    "message",
    "start",
    "move",
    "pause",
    "resume",
    "continue",
    "attach",
    "detach",
    "change",
    "adopt",
    "none",
]

STRUCTURE: Final = frozenset({"children", "parent", "hooks"})
"""Fields that only link objects. The objects that they name have their own differences."""

BEGUN: Final = frozenset({"running", "checking", "paused", "stopping"})
"""States in which a task has work to lose."""


@frozen
class EditStake:
    """What an edit can lose: the state, the start (seconds since 1970, None: not started), and the spent budget."""

    state: str
    started_at: float | None = None
    spent: JsonObject | None = None

    @property
    def is_running(self) -> bool:
        return self.state in BEGUN or (self.state == "blocked" and self.started_at is not None)

    def to_json(self) -> JsonObject:
        return {"state": self.state, "started_at": self.started_at, "spent": self.spent or {}}


@frozen
class ObjectDifference:
    """One object's change. `reason` is a CamelCase code, `words` a phrase for people, `fields` lowered field names.

    `address` is where the object is after the change (before it, for a cancel); `was` its old address when it moves.
    """

    action: EditAction
    address: str
    reason: str
    words: str
    fields: tuple[str, ...] = ()
    stake: EditStake | None = None
    was: str | None = None

    def to_json(self) -> JsonObject:
        out: JsonObject = {"action": self.action, "address": self.address, "reason": self.reason, "words": self.words}
        out["fields"] = list(self.fields)
        if self.stake is not None:
            out["stake"] = self.stake.to_json()
        if self.was is not None:
            out["was"] = self.was
        return out


def diff_objects(
    live: Mapping[str, Resource],
    wanted: Mapping[str, WantedObject],
    moves: Mapping[str, str],
    change_class: ChangeClassOf,
) -> tuple[ObjectDifference, ...]:
    """Every difference between the live planned objects and the wanted ones; empty when they agree.

    `moves` is the result of `object_changes.effective_moves`. If a task and its agent are both added or removed,
    only the task has a difference.
    """
    back = {new: old for old, new in moves.items()}
    out = list(_gone(live, wanted, moves))
    told = hook_diff.hook_edits(live, wanted, lambda spec: rename_references(spec, moves) if moves else spec)
    out += (ObjectDifference(one.action, one.address, one.reason, one.words, one.fields) for one in told)
    for address, want in wanted.items():
        if address.startswith("hook/"):
            continue
        old = live.get(back.get(address, address))
        if old is None or (old.deleting and address not in back):
            out += _come(live, wanted, want)
        else:
            out += _changed(old, want, _Frame(moves, change_class, _stake(live, old)))
    return tuple(sorted(out, key=lambda one: _ORDER[one.action]))


_ORDER: Final[dict[EditAction, int]] = {"cancel": 0, "detach": 0, "replace": 1, "restart": 2}
_ORDER.update({action: 3 for action in ("message", "start", "move", "pause", "resume")})
_ORDER.update({action: 3 for action in ("continue", "attach", "change", "adopt", "none")})


def task_stake(task: Resource, agent: Resource | None) -> EditStake:
    """What a task and its agent have done so far, from their statuses."""
    spent: JsonObject = {}
    if task.status.get("spent_s"):
        spent["time_s"] = task.status["spent_s"]
    if agent is not None:
        spent |= {unit: amount for unit, amount in agent.status.get("used", {}).items() if amount}
    return EditStake(task.state, task.status.get("started_at") or None, spent)


def _stake(live: Mapping[str, Resource], one: Resource) -> EditStake:
    if one.kind == "agent":
        task = live.get("task/" + one.address.partition("/")[2])
        return task_stake(task, one) if task is not None else EditStake(one.state)
    if one.kind == "container":
        since = running_since(one)
        return EditStake(one.state if since is None else "running", since)
    return task_stake(one, live.get("agent/" + one.address.partition("/")[2]))


def _gone(
    live: Mapping[str, Resource], wanted: Mapping[str, WantedObject], moves: Mapping[str, str]
) -> Iterator[ObjectDifference]:
    for address, one in live.items():
        if address in wanted or address in moves or one.deleting or one.kind in ("agent", "hook"):
            continue
        stake = _stake(live, one)
        words = "no longer in the plan; its work is stopped" if stake.is_running else "no longer in the plan"
        if one.kind == "fork":
            words = "no longer in the plan; its branch keeps unmerged changes"
        if one.kind == "container":
            words = describe_removal(one)
        yield ObjectDifference("cancel", address, "Removed", words, stake=stake)


def _come(
    live: Mapping[str, Resource], wanted: Mapping[str, WantedObject], want: WantedObject
) -> Iterator[ObjectDifference]:
    kind, _, path = want.address.partition("/")
    if kind == "agent" and (f"task/{path}" in wanted or is_hook_agent(want.address)):
        return
    words = describe.describe_start(want, wanted) if kind in ("task", "fork") else "new"
    if kind == "container":
        words = describe_container_start(want, wanted)
    if want.address in live:
        words = "new, after the old one is removed"
    yield ObjectDifference("start", want.address, "Added", words)


@frozen
class _Frame:
    moves: Mapping[str, str]
    change_class: ChangeClassOf
    stake: EditStake


def _changed(old: Resource, want: WantedObject, frame: _Frame) -> Iterator[ObjectDifference]:
    before = rename_references(old.spec, frame.moves) if frame.moves else old.spec
    if json_patch.same_json(before, want.spec) and old.address == want.address:
        return
    # Rights that guard the files of hooks are shown with the hooks, and do not change the prompt.
    changes = (op for op in json_patch.diff_values(before, want.spec) if op.path[:2] != ("rights", "guarded"))
    fields = tuple(op.path[0] for op in changes if op.path)
    fields = tuple(name for name in dict.fromkeys(fields) if name not in STRUCTURE)
    was = old.address if old.address != want.address else None
    if was is not None and old.kind == "task":
        yield ObjectDifference("move", want.address, "Moved", f"was {was}; continues to run", (), frame.stake, was)
    if fields:
        action, reason, words = _switch(old, want.spec, fields) or _by_class(old, want, fields, frame.change_class)
        yield ObjectDifference(action, want.address, reason, words, fields, frame.stake)


_Told: TypeAlias = tuple[EditAction, str, str]


def _switch(old: Resource, after: JsonObject, fields: tuple[str, ...]) -> _Told | None:
    if not {"cancel", "pause"} & set(fields):
        return None
    is_cancel = "cancel" in fields
    if old.state in ENDED and not (old.state == "cancelled" and is_cancel) and len(fields) == 1:
        field, state = ("cancel", "cancelled") if is_cancel else ("pause", "paused")
        if after[field]:
            return "none", "EndedAlready", f"is already {old.state}; would be {state} only after a restart"
        return "none", "EndedAlready", f"is {old.state}; would not be {state} after a restart"
    if is_cancel:
        if after["cancel"]:
            return "cancel", "CancelAsked", "is stopped and marked as cancelled"
        return "start", "CancelWithdrawn", "may run again"
    if after["pause"]:
        return "pause", "PauseAsked", "pauses at its next boundary"
    return "resume", "PauseWithdrawn", "continues"


def _by_class(old: Resource, want: WantedObject, fields: tuple[str, ...], change_class: ChangeClassOf) -> _Told:
    if old.kind == "container":
        return container_edit(old, want.spec, fields, change_class)
    classes = {name: _class_of(old, name, want, change_class) for name in fields}
    strongest = max(classes.values(), key=_STRENGTH.index)
    names = [name for name, cls in classes.items() if cls == strongest]
    guilty = ", ".join(describe.plan_field_name(name) for name in names)
    if strongest == "tail":
        return _told(old, want, fields, guilty) if _has_begun(old) or old.kind != "task" else _not_begun(guilty)
    changed = ", ".join(describe.describe_change(name, old.spec.get(name), want.spec.get(name)) for name in names)
    if strongest in ("replace", "immutable"):
        return "replace", "MustBeReplaced", f"{guilty} cannot change in place"
    if strongest == "none":
        return "none", "Bookkeeping", f"{guilty} does not affect running work"
    if old.kind == "task" and not _has_begun(old):
        return _not_begun(changed)
    if strongest == "restart":
        return "restart", "WorkChanged", _restarted(old, names, changed)
    if strongest == "prefix":
        return "continue", "NextTurn", f"{changed}; takes effect in the next turn{_cache_lost(old, want)}"
    return "continue", "NextStep", f"{changed}; takes effect immediately, without a restart"


def _cache_lost(old: Resource, want: WantedObject) -> str:
    """The cost of changing the start of a prompt that the model's provider has cached."""
    told = (old.status.get("transcript") or {}).values()
    tokens = sum(int(turn.get("tokens", 0)) for turn in told if isinstance(turn, dict))
    if (want.spec.get("mind") or {}).get("kind") != "model" or not tokens:
        return ""
    return f"; the provider's cache is lost: about {tokens:,} tokens are read again"


def _not_begun(changed: str) -> _Told:
    return "continue", "NotBegun", f"{changed}; takes effect when it starts"


def _restarted(old: Resource, names: list[str], changed: str) -> str:
    if names == ["again"]:
        return "is retried" if old.state == "failed" else "runs again"
    return f"{changed}; runs again" if old.state in ENDED else f"{changed}; restarts"


def _told(old: Resource, want: WantedObject, fields: tuple[str, ...], guilty: str) -> _Told:
    """The effect of a new goal or new notes: a message to a running agent, or a restart if the task has ended."""
    if want.spec.get("work", {}).get("kind") != "agent":
        return "continue", "NextStep", f"{guilty} is only for people; running work is not notified"
    if (old.state == "done" and "goal" in fields) or old.state == "failed":
        return "restart", "ToldTooLate", f"{guilty} changed after it was {old.state}; restarts"
    if old.state in ENDED:
        return "continue", "NextStep", f"{guilty} takes effect after a restart"
    return "message", "ToldAsMessage", f"{guilty} is sent to its agent, which continues"


_STRENGTH: Final = ("none", "hot", "prefix", "tail", "restart", "replace", "immutable")


_HOT_OF_WORK: Final = frozenset({"effect", "timeout_s"})  # Separate fields in the document, but part of `work` here.


def _class_of(old: Resource, field: str, want: WantedObject, change_class: ChangeClassOf) -> str:
    kind = old.kind
    if kind == "task" and field == "work":
        changed = {op.path[0] if op.path else "" for op in json_patch.diff_values(old.spec["work"], want.spec["work"])}
        if changed <= _HOT_OF_WORK:
            return "hot"
    if kind == "task" and field in ("goal", "notes") and want.spec.get("on_change") == "restart":
        return "restart"
    return str(change_class(kind, field))


def _has_begun(task: Resource) -> bool:
    return task.state in BEGUN or task.state in ENDED or bool(task.status.get("started_at"))


# Containers. Values of their environment are not shown, because they may be passwords.

ContainerEdit: TypeAlias = tuple[Literal["replace", "continue", "none"], str, str]
"""Action, reason and words of a difference."""

BEFORE_SHOWN: Final = 3  # Names of waiting tasks and containers; the rest is a count.
_LIMITS: Final = ("cpu", "memory_bytes", "pids")
_NAMES_ONLY: Final = ("env", "labels")


def describe_container_start(want: WantedObject, wanted: Mapping[str, WantedObject]) -> str:
    """`redis:7, healthy before task/integrate`."""
    how = "healthy" if has_health(want.spec) else "up"
    before = [*_before(want.address, how, wanted)]
    rest = len(before) - BEFORE_SHOWN
    named = ", ".join(before[:BEFORE_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
    while_ = f", while task/{want.spec['task']} runs" if want.spec["task"] else ""
    return describe_image(want.spec) + while_ + (f", {named}" if named else "")


def _before(address: str, how: str, wanted: Mapping[str, WantedObject]) -> Iterator[str]:
    """Yield `healthy before task/integrate`. Omits the word if it is the same as in the previous item."""
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
    """The source of the container: an image's name, the folder that is built, or the archive."""
    if spec["build"]:
        return f"built from {spec['build'].get('folder', '.')}"
    return f"built from {spec['rootfs']}" if spec["rootfs"] else str(spec["image"])


def describe_removal(one: Resource) -> str:
    """The effect of removing the container from the plan."""
    is_there = one.status.get("seen") is not None
    volumes = ", ".join(mount["volume"] for mount in one.spec["mounts"] if mount["volume"])
    stay = f"; its volumes are kept: {volumes}" if volumes else ""
    return ("no longer in the plan; stopped and removed" if is_there else "no longer in the plan") + stay


def running_since(one: Resource) -> float | None:
    """When the container started, in seconds since 1970; None if it is not running."""
    seen = one.status.get("seen") or {}
    return seen.get("started_at") or None if seen.get("run") in ("running", "paused") else None


def container_edit(
    old: Resource, spec: JsonObject, fields: Sequence[str], change_class: ChangeClassOf
) -> ContainerEdit:
    """The effect of an edit of `fields` on the container `old`."""
    classes = {name: str(change_class("container", name)) for name in fields}
    replacing = [name for name in fields if classes[name] == "replace"]
    if replacing:
        if replacing == ["again"]:
            return "replace", "MustBeReplaced", "is recreated"
        said = _said(old.spec, spec, replacing)
        if old.status.get("seen") is None:
            return "continue", "NotBegun", f"{said}; takes effect when it starts"
        how = "stopped, removed" if running_since(old) is not None else "removed"
        return "replace", "MustBeReplaced", f"{said}; {how} and recreated"
    hot = [name for name in fields if classes[name] != "none"]
    if not hot:
        return (
            "none",
            "Bookkeeping",
            f"{_said(old.spec, spec, fields)}; applies to the next container, not to the running one",
        )
    return "continue", "NextStep", "; ".join(_by_effect(old, spec, hot))


def _by_effect(old: Resource, spec: JsonObject, fields: Sequence[str]) -> Iterator[str]:
    """One clause per effect: changed while it runs, at its next start, or immediately."""
    is_up = running_since(old) is not None
    groups: dict[str, list[str]] = {}
    for name in fields:
        effect = "takes effect immediately, without a restart"
        if name in _LIMITS:
            effect = "changed while it runs" if is_up else "takes effect when it starts"
        elif name == "needs":
            effect = "takes effect at its next start" if is_up else "takes effect immediately"
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
