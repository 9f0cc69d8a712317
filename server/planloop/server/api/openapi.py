"""The OpenAPI 3.1 description, generated from the operations and their models.

A test compares `openapi.json` with it. The page's types (`web/src/api-types.d.ts`) are generated from that file.
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

VERSION: Final = "1"  # Of the API, as in the `v1` of its paths. A breaking change increments it.
FILE: Final = Path(__file__).with_name("openapi.json")
REFS: Final = "#/components/schemas/{model}"
HEAD: Final = """\
The API of one plan, served by `plan serve`. Reads are answered from the plan's log. Changes go to the plan's owner \
process; if none is running, the gateway makes them itself. To follow a plan without gaps, read `objects`, then open \
`tail` with the `rev` of the answer."""

Adapters: TypeAlias = Mapping[str, TypeAdapter[Any]]

_TEXT: Final[JsonObject] = {"type": "string", "minLength": 1, "maxLength": QUERY_CHARS_MAX}
READ: Final = (400, 401, 403, 404, 405, 421, 502, 504)
CHANGE: Final = (400, 401, 403, 404, 405, 409, 413, 421, 422, 502, 504)
WORDS: Final[Mapping[int, str]] = {
    400: "The request is malformed: an unknown or invalid parameter or field.",
    401: "The request has no valid token.",
    403: "Forbidden by the token, by the Origin header, or by the rules of the plan.",
    404: "The object, file or path does not exist.",
    405: "The path does not accept this method.",
    409: "The request conflicts with the current state.",
    413: "The body is too large.",
    421: "The Host header does not name this server.",
    422: "The plan or file that was sent is invalid.",
    502: "A disk, a tool server or another part of the environment failed. The summary says which.",
    504: "The owner or a tool server did not answer in time.",
}


def openapi_description(plan: str = "") -> JsonObject:
    """Return the description. If `plan` is set, paths accept only that plan's name."""
    schemas = _schemas()
    return {
        "openapi": "3.1.0",
        "info": {"title": "planloop", "version": VERSION, "description": HEAD},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": _paths(plan),
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The part of a link after `#token=`."}
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
            "A websocket. Offer the protocols `planloop.v1` and `token.TOKEN`. Each text frame is a "
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
        "description": f"{row.of} Slashes need not be encoded.".strip(),
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
    """Return every model that an operation names, and the models that those refer to, by name."""
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
    """Return the schema without the titles that pydantic generates, and with the public names of models."""
    if isinstance(schema, str):
        return schema.replace(REFS.format(model=validation.PREFIX), REFS.format(model=""), 1)
    if isinstance(schema, dict):
        return {
            key: {name: _plain(one) for name, one in value.items()} if key == "properties" else _plain(value)
            for key, value in schema.items()
            if key != "title" or not isinstance(value, str)
        }
    return [_plain(one) for one in schema] if isinstance(schema, list) else schema
