"""Conflicts between agents in words: parties, files, who resolves them, the resolution."""

from __future__ import annotations

from planloop.schemas import amounts
from planloop.schemas.log.patch import describe_author
from planloop.schemas.objects.conflict import (
    OPEN,
    PERSON,
    ConflictSpec,
    ConflictStatus,
    conflict_from_json,
    conflict_status_from_json,
)
from planloop.schemas.resource import Resource


def conflict_row(item: Resource, now: float) -> tuple[str, ...]:
    """Number, state, before whom, age and words of one conflict, for a table."""
    spec, status = conflict_from_json(item.spec), conflict_status_from_json(item.status)
    ended = float(item.status.get("ended_at") or now)
    age = amounts.format_duration(ended - status.since) if status.since else ""
    words = f"{_path(spec.wants)} wants {', '.join(status.paths)} of {_path(spec.holds)}"
    said = f"{words}: {status.why}" if status.why and status.state != OPEN else words
    before = _conflict_owner(status) if status.state == OPEN else ""
    return (item.address.partition("/")[2], status.state, before, age, said)


def conflict_facts(item: Resource) -> list[tuple[str, str]]:
    """Labelled lines of a description: both sides, what they have changed, before whom, and the ways on."""
    status = conflict_status_from_json(item.status)
    out = [("", line) for line in str(item.status.get("text") or "").splitlines()]
    if status.ruling is not None:
        ruling = status.ruling
        plan = f'; "{ruling.plan}"' if ruling.plan else ""
        means = conflict_from_json(item.spec).means(ruling.how, ruling.for_agent)
        out.append(("ruled", f"{ruling.how} by {describe_author(ruling.by)}: {means}{plan}"))
    if status.state == OPEN:
        raised = f", after {amounts.pluralize(status.raised, 'time')} without an answer" if status.raised else ""
        out.append(("before", (_conflict_owner(status) or "nobody yet") + raised))
    if status.is_open:
        out += resolution_commands(item.address, conflict_from_json(item.spec))
    return out


def resolution_commands(address: str, spec: ConflictSpec) -> list[tuple[str, str]]:
    """Labelled lines of what a person may rule, as commands; they stand while it does: a ruling may be overruled."""
    out = [("rule", f"plan approve {address} --{how:<9} {words}") for how, words in spec.ways().items()]
    parties = " or ".join(f"--for {_path(each)}" for each in spec.parties)
    return [*out, ("", f"{parties} says whom it is about: each may be the other way round")]


def _conflict_owner(status: ConflictStatus) -> str:
    return "a person" if status.before == PERSON else status.before


def _path(agent: str) -> str:
    return agent.partition("/")[2]
