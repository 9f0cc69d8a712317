"""What waits for somebody's word, in words: what it is about, what a question wants to know, what a tool says anew."""

from __future__ import annotations

from planloop.rendering import conflicts, tables
from schemas.conflict import conflict_from_json
from schemas.encoding import Json, JsonObject, encode_text
from schemas.resource import Resource

TEXT_MAX = 400  # Characters of a description that one is to agree to: enough to see what is new in most.


def facts(approval: Resource) -> list[tuple[str, str]]:
    """Labelled lines of a description: who asks, why, and what by the kind of approval."""
    spec = approval.spec
    out = [("asked by", str(spec["by"])), ("why", str(spec["why"]))]
    match spec["kind"]:
        case "input":
            for request in spec["what"]["requests"].values():
                out += _question(approval.address, request)
        case "tool":
            out += _tool(spec["what"])
        case "conflict":
            out += [("", line) for line in str(spec["what"]["text"]).splitlines()]
            out += conflicts.rules(spec["what"]["conflict"], conflict_from_json(spec["what"]))
        case "call":
            out.append(("call", f"{spec['what']['tool']} {encode_text(spec['what']['arguments'])}"))
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
        ("before", tables.cut(str(before.get("description", "")), TEXT_MAX)),
        ("after", tables.cut(str(after["description"]), TEXT_MAX)),
    ]
    if before and before.get("parameters") != after["parameters"]:
        out.append(("arguments", f"{encode_text(before['parameters'])} -> {encode_text(after['parameters'])}"))
    return out
