"""Approvals and questions that wait for a person, in words."""

from __future__ import annotations

from planloop.client.render import conflicts, differences, records
from planloop.client.render.cells import call_words, one_line
from planloop.schemas import amounts
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.log.patch import describe_author
from planloop.schemas.objects.approval import APPROVED, REJECTED, describe_request, needs_person, patch_from_json
from planloop.schemas.objects.conflict import conflict_from_json
from planloop.schemas.resource import Resource

TEXT_MAX = 400  # Characters of a description that one is to agree to: enough to see what is new in most.


def approval_subject(spec: JsonObject) -> str:
    """What somebody is to agree to, in a line: `shell("git push")`, `plan: first this, then that`."""
    what = spec.get("what") or {}
    match spec.get("kind"):
        case "call":
            return call_words(what)
        case "conflict":
            return f"how {what.get('conflict', '')} goes on"
        case "patch":
            return "an edit of the plan" + _edit(what)
        case "input":
            return f"a question of {what.get('tool', '')}"
        case "tool":
            return f"{what.get('tool', '')} in other words"
        case _:
            return one_line(describe_request(spec))


def approval_line(spec: JsonObject) -> str:
    """What is asked for, and why."""
    return ": ".join(part for part in (approval_subject(spec), one_line(str(spec.get("why", "")))) if part)


def approval_commands(address: str) -> str:
    """The commands that answer."""
    return f"plan approve {address} · plan reject {address}"


def approval_notice(approval: Resource) -> str:
    """For whoever watches a run: what has just come to wait for a person, and how to answer; empty for what does not.

    Of a conflict its own record tells, with its own commands.
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
    """Labelled lines of a description: who asks, why, and what by the kind of approval."""
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
            out += conflicts.resolution_commands(spec["what"]["conflict"], conflict_from_json(spec["what"]))
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
            out += [] if needs_person(spec) else [("asks", f"{spec['what']['of']}; a person may answer as well")]
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
        ("before", amounts.truncate_cells(str(before.get("description", "")), TEXT_MAX)),
        ("after", amounts.truncate_cells(str(after["description"]), TEXT_MAX)),
    ]
    if before and before.get("parameters") != after["parameters"]:
        out.append(("arguments", f"{encode_text(before['parameters'])} -> {encode_text(after['parameters'])}"))
    return out
