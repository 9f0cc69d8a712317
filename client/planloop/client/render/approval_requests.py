"""Conflicts and requests that wait for a person, and the commands that answer them."""

from __future__ import annotations

from planloop.client.render import differences, records
from planloop.client.render.tables import call_words, one_line
from planloop.schemas import quantities
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.log.patch import describe_author
from planloop.schemas.objects.approval import APPROVED, REJECTED, describe_request, needs_person, patch_from_json
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
    """Return the table row of a conflict: number, state, resolver, age and description."""
    spec, status = conflict_from_json(item.spec), conflict_status_from_json(item.status)
    ended = float(item.status.get("ended_at") or now)
    age = quantities.format_duration(ended - status.since) if status.since else ""
    words = f"{_path(spec.wants)} wants {', '.join(status.paths)} of {_path(spec.holds)}"
    said = f"{words}: {status.why}" if status.why and status.state != OPEN else words
    before = _conflict_owner(status) if status.state == OPEN else ""
    return (item.address.partition("/")[2], status.state, before, age, said)


def conflict_facts(item: Resource) -> list[tuple[str, str]]:
    """Return labelled lines of a conflict: both sides, their changes, the resolver, and the commands to resolve it."""
    status = conflict_status_from_json(item.status)
    out = [("", line) for line in str(item.status.get("text") or "").splitlines()]
    if status.ruling is not None:
        ruling = status.ruling
        plan = f'; "{ruling.plan}"' if ruling.plan else ""
        means = conflict_from_json(item.spec).means(ruling.how, ruling.for_agent)
        out.append(("decision", f"{ruling.how} by {describe_author(ruling.by)}: {means}{plan}"))
    if status.state == OPEN:
        raised = f", after {quantities.pluralize(status.raised, 'time')} without an answer" if status.raised else ""
        out.append(("resolver", (_conflict_owner(status) or "not assigned yet") + raised))
    if status.is_open:
        out += resolution_commands(item.address, conflict_from_json(item.spec))
    return out


def resolution_commands(address: str, spec: ConflictSpec) -> list[tuple[str, str]]:
    """Return the commands that resolve a conflict. They stay valid while it is open: a decision can be replaced."""
    out = [("resolve", f"plan approve {address} --{how:<9} {words}") for how, words in spec.ways().items()]
    parties = " or ".join(f"--for {_path(each)}" for each in spec.parties)
    return [*out, ("", f"{parties} selects the agent; each resolution can apply to either")]


def _conflict_owner(status: ConflictStatus) -> str:
    return "a person" if status.before == PERSON else status.before


def _path(agent: str) -> str:
    return agent.partition("/")[2]


TEXT_MAX = 400  # Characters of a description to approve: enough to see most changes.


def approval_subject(spec: JsonObject) -> str:
    """Return the subject of an approval in one line: `shell("git push")`, `plan: first this, then that`."""
    what = spec.get("what") or {}
    match spec.get("kind"):
        case "call":
            return call_words(what)
        case "conflict":
            return f"a resolution of {what.get('conflict', '')}"
        case "patch":
            return "an edit of the plan" + _edit(what)
        case "input":
            return f"a question of {what.get('tool', '')}"
        case "tool":
            return f"a changed description of {what.get('tool', '')}"
        case _:
            return one_line(describe_request(spec))


def approval_line(spec: JsonObject) -> str:
    """Return the subject and the reason of an approval."""
    return ": ".join(part for part in (approval_subject(spec), one_line(str(spec.get("why", "")))) if part)


def approval_commands(address: str) -> str:
    """Return the commands that answer an approval."""
    return f"plan approve {address} · plan reject {address}"


def approval_notice(approval: Resource) -> str:
    """Return a notice of a new approval that waits for a person, with the commands that answer; else an empty text.

    Conflicts have their own record, with their own commands.
    """
    spec = approval.spec
    if approval.state in (APPROVED, REJECTED) or spec["kind"] == "conflict" or not needs_person(spec):
        return ""
    way = approval_commands(approval.address)
    if spec["kind"] == "input":
        way = " · ".join(said for label, said in approval_facts(approval) if label == "answer") or way
    return f"by {describe_author(str(spec['by']))}: {approval_line(spec)} · {way}"


def _edit(what: JsonObject) -> str:
    try:
        ops = patch_from_json(what).ops
    except (KeyError, ValueError):
        return ""
    return f", {records.patch_words(ops)}" if ops else ""


def approval_facts(approval: Resource) -> list[tuple[str, str]]:
    """Return labelled lines of an approval: requester, reason, and details by kind."""
    spec = approval.spec
    out = [("asked by", describe_author(str(spec["by"]))), ("why", str(spec["why"]))]
    match spec["kind"]:
        case "input":
            for request in spec["what"]["requests"].values():
                out += _question(approval.address, request)
        case "tool":
            out += _tool(spec["what"])
        case "conflict":
            out += [("", line) for line in str(spec["what"]["text"]).splitlines()]
            out += resolution_commands(spec["what"]["conflict"], conflict_from_json(spec["what"]))
        case "call":
            out.append(("call", f"{spec['what']['tool']} {encode_text(spec['what']['arguments'])}"))
        case "patch":
            out.append(("asks for", approval_subject(spec)))
            out.append(
                (
                    "would be",
                    differences.differences_summary(spec.get("differences") or (), spec.get("difference_counts")),
                )
            )
        case "request":
            first, *rest = describe_request(spec).splitlines() or [""]
            out += [("asks for", first), *(("", each) for each in rest)]
            out += [] if needs_person(spec) else [("approver", f"{spec['what']['of']}; a person can answer too")]
    if spec["kind"] not in ("input", "conflict") and approval.state not in (APPROVED, REJECTED):
        out.append(("answer", approval_commands(approval.address)))
    return out


def _question(address: str, request: JsonObject) -> list[tuple[str, str]]:
    if "url" in request:
        return [("go to", str(request["url"]))]
    schema: JsonObject = request.get("schema") or {}
    fields: JsonObject = schema.get("properties") or {}
    needed = schema.get("required") or ()
    out = [
        ("field", f"{name}  {_kind(field)}{'' if name in needed else '  (optional)'}") for name, field in fields.items()
    ]
    example = " ".join(f"--answer {name}=…" for name in needed or fields)
    return [*out, ("answer", f"plan approve {address} {example}".rstrip())]


def _kind(field: JsonObject) -> str:
    said = " ".join(str(part) for part in (field.get("type"), field.get("description") or field.get("title")) if part)
    choices: Json = field.get("enum")
    return f"{said}: {', '.join(map(str, choices))}" if choices else said


def _tool(what: JsonObject) -> list[tuple[str, str]]:
    before, after = what.get("before") or {}, what["after"]
    out = [
        ("before", quantities.truncate_cells(str(before.get("description", "")), TEXT_MAX)),
        ("after", quantities.truncate_cells(str(after["description"]), TEXT_MAX)),
    ]
    if before and before.get("parameters") != after["parameters"]:
        out.append(("arguments", f"{encode_text(before['parameters'])} -> {encode_text(after['parameters'])}"))
    return out
