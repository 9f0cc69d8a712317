"""What waits for a person's yes: edits that stop much, edits that touch what is protected, and what the plan names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from planloop.reconciler.admitting.scoping import covers, declared
from planloop.reconciler.editing.diffing import Difference, stake_of
from planloop.schemas import limits, pointer
from planloop.schemas.encoding import Json, JsonObject
from planloop.schemas.patch import Fault, Patch
from planloop.schemas.patching import Op
from planloop.schemas.resource import Resource, Wanted


def hold_reason(differences: Sequence[Difference], live: Mapping[str, Resource]) -> str:
    """Why an edit with these differences waits, or the empty text: too much running work lost, or protected work."""
    stopped = frozenset(one.address for one in differences if one.action in ("cancel", "replace"))
    begun = [one for one in live.values() if one.kind == "task" and stake_of(one, None).is_running]
    hit = [one for one in begun if _is_hit(one.address, stopped)]
    protected = [one.address for one in hit if one.spec.get("protect")]
    if protected:
        return f"it would stop what is protected: {_listed(protected)}"
    running = [one for one in begun if _works_itself(one)]
    lost = [one for one in hit if _works_itself(one)]
    # Of a single running task, half is all: stopping that one is what the person asked for, not an accident.
    if len(lost) > limits.CANCELS_HELD_OVER or (len(lost) > 1 and 2 * len(lost) > len(running)):
        return f"it would stop {len(lost)} of {len(running)} running tasks: {_listed([one.address for one in lost])}"
    return ""


def _is_hit(task: str, stopped: frozenset[str]) -> bool:
    """Cancelling a task stops all below it, though only it has the difference."""
    parts = task.split("/")
    return "task/." in stopped or any("/".join(parts[:length]) in stopped for length in range(2, len(parts) + 1))


def _works_itself(task: Resource) -> bool:
    return bool(task.spec["work"]["kind"] != "group")


def approval_reason(patch: Patch, ops: Sequence[Op], document: JsonObject) -> str:
    """Which `approve:` pattern of the plan the patch meets, in words; a person needs nobody's approval."""
    if patch.author.is_human:
        return ""
    for task, patterns in declared(document, "approve"):
        for pattern in patterns:
            tokens = _path_pattern(pattern)
            if tokens is not None and any(_meets((*task, *tokens), op, document) for op in ops):
                return f"the plan asks for a person's yes to changes of `{pattern}`"
    return ""


def protect_faults(live: Mapping[str, Resource], wanted: Mapping[str, Wanted], gone: Sequence[str]) -> Iterator[Fault]:
    """Protected tasks among those that would go: the flag comes off first, in a patch of its own."""
    for address in gone:
        if live[address].spec.get("protect") and address not in wanted:
            task = address.partition("/")[2]
            yield Fault(
                "protect",
                f"{address} is protected and cannot be removed",
                pointer.of_task(task.split("/")),
                f"take the flag off first: plan patch {address} protect=false",
            )


def _meets(pattern: Sequence[str], op: Op, document: JsonObject) -> bool:
    """Whether `op` touches what `pattern` names: at it, above it with it inside (a whole task), or below it."""
    values = [op.value, *([pointer.get(document, op.path)] if pointer.has(document, op.path) else [])]
    return any(covers(pattern, (*op.path, *below)) for value in values for below in _paths(value))


def _paths(value: Json) -> Iterator[tuple[str, ...]]:
    yield ()
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from ((key, *below) for below in _paths(inner))


def _path_pattern(pattern: str) -> tuple[str, ...] | None:
    """The tokens of a pattern that names paths of the plan; None for one that names tool calls."""
    if pattern.startswith("/"):
        return pointer.parse(pattern)
    if pattern.startswith("task/"):
        names = pattern.split("/")[1:]
        return tuple(token for name in names for token in (("**",) if name == "**" else ("tasks", name)))
    return None


def _listed(addresses: Sequence[str]) -> str:
    shown = ", ".join(addresses[: limits.DIAGNOSTICS_SHOWN_MAX])
    rest = len(addresses) - limits.DIAGNOSTICS_SHOWN_MAX
    return f"{shown} and {rest} more" if rest > 0 else shown
