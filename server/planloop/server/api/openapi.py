"""The OpenAPI 3.1 description, made from the operations and their models.

`openapi.json` beside this is what `description` gives, held current by a test; the types that the page compiles
against are made of it (`web/src/api-types.d.ts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from planloop.schemas.canonical_json import JsonObject
from planloop.server.api import validation
from planloop.server.api.base_model import ApiModel
from planloop.server.api.operations import QUERY_CHARS_MAX, REV_MAX, TABLE, WHOLE, Operation, Parameter

VERSION: Final = "1"  # Of the API: the `v1` of its paths. It rises when what worked works no more.
FILE: Final = Path(__file__).with_name("openapi.json")
REFS: Final = "#/components/schemas/{model}"
HEAD: Final = """\
What can be asked of a plan, as `plan serve` opens it. Reads are answered from the plan's log; changes are made by \
whoever runs the plan, and nobody need. Everything happens at a revision: read `objects`, then follow `tail` with its \
`rev`, and nothing is missed."""

Adapters: TypeAlias = Mapping[str, TypeAdapter[Any]]

_TEXT: Final[JsonObject] = {"type": "string", "minLength": 1, "maxLength": QUERY_CHARS_MAX}
READ: Final = (400, 401, 403, 404, 405, 421, 502, 504)
CHANGE: Final = (400, 401, 403, 404, 405, 409, 413, 421, 422, 502, 504)
WORDS: Final[Mapping[int, str]] = {
    400: "The request is not one of these.",
    401: "A token is needed.",
    403: "It may not be done: by this link, from this page, or by the plan's own rules.",
    404: "There is no such thing.",
    405: "There is such a path for another method.",
    409: "It does not fit what is there by now.",
    413: "The body is too large.",
    421: "This is not the host that was asked.",
    422: "What was sent has faults.",
    502: "The world failed: a disk, a tool server. It says what.",
    504: "Whoever was asked did not answer in time.",
}


def openapi_description(plan: str = "") -> JsonObject:
    """The whole of it. `plan` is the name that paths have, any if empty."""
    schemas = _schemas()
    return {
        "openapi": "3.1.0",
        "info": {"title": "planloop", "version": VERSION, "description": HEAD},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": _paths(plan),
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "What is behind the # of a link."}
            },
            "responses": {str(status): _refusal(words) for status, words in WORDS.items()},
            "schemas": schemas,
        },
    }


def _paths(plan: str) -> JsonObject:
    paths: JsonObject = {}
    for row in TABLE:
        if row.door != "owner":
            base = "/v1/plans/{plan}/" if row.is_of_plan else "/v1/"
            paths.setdefault(base + row.path, {})[row.method.lower()] = _operation(row, plan)
    return paths


def _operation(row: Operation, plan: str) -> JsonObject:
    out: JsonObject = {"operationId": row.name, "summary": row.summary}
    plans = [_plan(plan)] if row.is_of_plan else []
    out["parameters"] = [*plans, *(_rest(row, name) for name in row.takes), *map(_parameter, row.parameters)]
    if row.request:
        out["requestBody"] = {"required": True, "content": _content({"$ref": REFS.format(model=row.request)})}
    if row.is_stream:
        out["description"] = (
            "A websocket: offer the protocols `planloop.v1` and `token.TOKEN`. Each text frame is a "
            f"[{row.answer}](#/components/schemas/{row.answer})."
        )
        out["responses"] = {"101": {"description": "The websocket is open."}, **_refusals((400, 401, 403, 404, 421))}
        return out
    out["responses"] = _responses({"$ref": REFS.format(model=row.answer)}, READ if row.method == "GET" else CHANGE)
    return out


def _plan(plan: str) -> JsonObject:
    schema = {"type": "string", "enum": [plan]} if plan else _TEXT
    return {"name": "plan", "in": "path", "required": True, "description": "The plan's name.", "schema": schema}


def _rest(row: Operation, name: str) -> JsonObject:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": f"{row.of} Slashes may stand as they are.".strip(),
        "schema": {"type": "integer", "minimum": 0, "maximum": REV_MAX} if name in WHOLE else _TEXT,
    }


def _parameter(one: Parameter) -> JsonObject:
    schema: JsonObject = {"type": "string", "maxLength": QUERY_CHARS_MAX}
    match one.kind:
        case "integer":
            schema = {"type": "integer", "minimum": one.minimum, "maximum": one.maximum}
        case "flag":
            schema = {"type": "integer", "enum": [0, 1]}
        case "text" if one.choices:
            schema = {"type": "string", "enum": list(one.choices)}
        case "text" if one.pattern:
            schema["pattern"] = one.pattern
    required = {"required": True} if one.is_required else {}
    return {"name": one.name, "in": "query", "description": one.words, "schema": schema, **required}


def _responses(schema: JsonObject, refusals: Sequence[int]) -> JsonObject:
    return {"200": {"description": HTTPStatus(200).phrase, "content": _content(schema)}, **_refusals(refusals)}


def _refusals(statuses: Sequence[int]) -> JsonObject:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}


def _refusal(words: str) -> JsonObject:
    return {"description": words, "content": _content({"$ref": REFS.format(model="Refusal")})}


def _content(schema: JsonObject) -> JsonObject:
    return {"application/json": {"schema": schema}}


def _schemas() -> JsonObject:
    """Every model that an operation names, and what those are made of, by name."""
    names = {"Refusal", *(row.answer for row in TABLE), *(row.request for row in TABLE if row.request)}
    single = [model for name in sorted(names) if (model := validation.model_class(name)) is not None]
    inputs: list[tuple[type[ApiModel], JsonSchemaMode]] = [(model, "validation") for model in single]
    _, found = models_json_schema(inputs, ref_template=REFS)
    schemas: JsonObject = dict(found["$defs"])
    for name in sorted(names):
        if validation.model_class(name) is None:
            one = TypeAdapter(validation.model_or_union(name)).json_schema(ref_template=REFS)
            schemas |= one.pop("$defs", {})
            schemas[name] = one
    public = {name.removeprefix(validation.PREFIX): schema for name, schema in schemas.items()}
    return {name: _plain(public[name]) for name in sorted(public)}


def _plain(schema: Any) -> Any:
    """Without the titles that pydantic makes of names, and with the public names of models."""
    if isinstance(schema, str):
        return schema.replace(REFS.format(model=validation.PREFIX), REFS.format(model=""), 1)
    if isinstance(schema, dict):
        return {
            key: {name: _plain(one) for name, one in value.items()} if key == "properties" else _plain(value)
            for key, value in schema.items()
            if key != "title" or not isinstance(value, str)
        }
    return [_plain(one) for one in schema] if isinstance(schema, list) else schema
