"""Reduce a tool's JSON Schema to the subset that every model provider accepts. Pure.

Tool servers publish any JSON Schema. OpenAI, Anthropic and Gemini reject a whole request because of one tool whose
schema they do not like, so each schema is rewritten before a model reads it. The result accepts at least what the
original accepts: the server checks its arguments itself. The common subset, as of what their APIs answer:

- at the top an object with `properties`, without `anyOf`, `oneOf`, `allOf`, `enum`, `not` (OpenAI, Anthropic)
- no `$ref`, no lists of types, no boolean schemas, a type everywhere, `items` in every array (Gemini, OpenAI)
- keywords as in draft 2020-12, numbers that are finite (Anthropic)
- names of properties of 64 letters, digits, `_`, `.` and `-` at most (Anthropic; `rename_properties`)
- `enum` of non-empty texts only, `format` of a few names only (Gemini)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Final

from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject, encode_text

DEPTHS: Final = (16, 4, 1)
"""How deep schemas are shown, at most; the next one if the tool would be too large for a prompt."""
NODES_MAX: Final = 2_000  # After references are resolved; what comes after that is any value.
_TYPES: Final[Mapping[str, str]] = {
    name: name for name in ("string", "number", "integer", "boolean", "object", "array", "null")
} | {
    "str": "string",
    "text": "string",
    "int": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "dict": "object",
    "map": "object",
    "list": "array",
    "none": "null",
}
"""Names of types, and what servers write instead of them."""
_FLAT: Final[JsonObject] = {
    "anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "object", "properties": {}}]
}
ANY_SCHEMA: Final[JsonObject] = {"anyOf": [*_FLAT["anyOf"], {"type": "array", "items": {"type": "string"}}]}
"""Any value, for a property without a type."""
_SIZES: Final = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_FORMATS: Final = {
    "string": frozenset({"date-time"}),
    "integer": frozenset({"int32", "int64"}),
    "number": frozenset({"float", "double"}),
}
_MARKS: Final = (
    ("object", ("properties", "required", "additionalProperties", "patternProperties", "maxProperties")),
    ("array", ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains")),
    ("string", ("pattern", "minLength", "maxLength", "format")),
    ("number", _BOUNDS),
)
"""What shows the type of a schema that does not name it."""
_NAME_CHARS_MAX: Final = 64
_PLAIN_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_.-]")
_BRANCHES: Final = ("anyOf", "oneOf")


def to_accepted_schema(schema: Json) -> JsonObject:
    """`schema` as an object with `properties`, in the subset that every provider accepts."""
    root: JsonObject = schema if isinstance(schema, dict) else {}
    shaped: JsonObject = {}
    for depth_max in DEPTHS:
        # References may make much of little: then less of the depth is shown.
        shaped = _Shaper(root, depth_max).top()
        if len(encode_text(shaped)) <= limits.SERVER_OFFER_BYTES_MAX:
            break
    return shaped


def drop_non_finite(value: Json) -> Json:
    """`value` without members and items that are NaN or infinite, which JSON does not have."""
    match value:
        case dict():
            return {key: drop_non_finite(item) for key, item in value.items() if not _is_endless(item)}
        case list():
            return [drop_non_finite(item) for item in value if not _is_endless(item)]
        case _:
            return None if _is_endless(value) else value


def _is_endless(value: Json) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


class _Shaper:
    """Rewrites the parts of one document, to which its references point."""

    def __init__(self, root: JsonObject, depth_max: int) -> None:
        self._root = root
        self._depth_max = depth_max
        self._left = NODES_MAX

    def top(self) -> JsonObject:
        whole = self._merged(self._root, ())
        kinds = _kinds(whole)
        shaped = self._object(whole if not kinds or "object" in kinds else {}, (), 0)
        return {**shaped, **_described(whole)}

    def node(self, schema: Json, stack: tuple[str, ...], depth: int) -> JsonObject:
        """A schema inside the document. `stack` has the references that are being resolved."""
        self._left -= 1
        if not isinstance(schema, dict) or depth > self._depth_max or self._left < 0:
            return dict(ANY_SCHEMA) if depth <= 1 else {"type": "string"}
        schema, stack = self._resolved(schema, stack)
        if any(word in schema for word in ("allOf", "then", "else")) or _is_shared(schema):
            schema = self._merged(schema, stack)
        branches = [one for word in _BRANCHES for one in _list(schema.get(word)) if one is not False]
        if branches:
            return self._either(schema, branches, stack, depth)
        kinds = _kinds(schema)
        if not kinds:
            return {**ANY_SCHEMA, **_described(schema)}
        made = [self._typed(kind, schema, stack, depth) for kind in kinds]
        return {**(made[0] if len(made) == 1 else {"anyOf": made}), **_described(schema), **_default(schema)}

    def _either(self, schema: JsonObject, branches: list[Json], stack: tuple[str, ...], depth: int) -> JsonObject:
        """One of several schemas, each with a type of its own."""
        shared = {word: value for word, value in schema.items() if word == "type"}
        made: list[JsonObject] = []
        for branch in branches:
            whole = {**shared, **branch} if isinstance(branch, dict) and "$ref" not in branch else branch
            shaped = self.node(whole, stack, depth + 1)
            made += [one for one in shaped.get("anyOf", [shaped]) if one not in made]
        either = made[0] if len(made) == 1 else {"anyOf": made}
        return {**either, **_described(schema), **_default(schema)}

    def _typed(self, kind: str, schema: JsonObject, stack: tuple[str, ...], depth: int) -> JsonObject:
        match kind:
            case "object":
                return self._object(schema, stack, depth)
            case "array":
                return {"type": "array", "items": self._items(schema, stack, depth), **_sizes("array", schema)}
            case "string":
                pattern = schema.get("pattern")
                more: JsonObject = {"pattern": pattern} if isinstance(pattern, str) else {}
                return {
                    "type": "string",
                    **_choice(schema),
                    **_sizes("string", schema),
                    **more,
                    **_format(kind, schema),
                }
            case "integer" | "number":
                bounds = {word: schema[word] for word in _BOUNDS if _is_number(schema.get(word))}
                return {"type": kind, **bounds, **_format(kind, schema)}
            case _:
                return {"type": kind}

    def _object(self, schema: JsonObject, stack: tuple[str, ...], depth: int) -> JsonObject:
        given = schema.get("properties")
        named = given if isinstance(given, dict) else {}
        properties = {str(name): self.node(each, stack, depth + 1) for name, each in named.items() if each is not False}
        required = [name for name in dict.fromkeys(_texts(schema.get("required"))) if name in properties]
        shaped: JsonObject = {"type": "object", "properties": properties, **_sizes("object", schema)}
        shaped |= {"required": required} if required else {}
        others = schema.get("additionalProperties")
        if others is False:
            shaped["additionalProperties"] = False
        elif isinstance(others, dict) and others:
            shaped["additionalProperties"] = self.node(others, stack, depth + 1)
        return shaped

    def _items(self, schema: JsonObject, stack: tuple[str, ...], depth: int) -> JsonObject:
        """Of all items together: those of a tuple may each be of another type."""
        items = schema.get("items")
        each = [one for word in ("prefixItems", "items") for one in _list(schema.get(word))]
        each += [items] if isinstance(items, dict) and items else []
        if not each:
            return dict(_FLAT)
        return self.node(each[0] if len(each) == 1 else {"anyOf": each}, stack, depth + 1)

    def _resolved(self, schema: JsonObject, stack: tuple[str, ...]) -> tuple[JsonObject, tuple[str, ...]]:
        """The schema that `schema` refers to, with its own words; of one that contains itself only the type."""
        while isinstance(ref := schema.get("$ref", schema.get("$dynamicRef")), str):
            beside = {word: value for word, value in schema.items() if word not in ("$ref", "$dynamicRef")}
            target = self._target(ref)
            if ref in stack or len(stack) > DEPTHS[0]:
                kinds = _kinds(target)
                return {**({"type": list(kinds)} if kinds else {}), **_described(target), **_described(beside)}, stack
            schema, stack = {**target, **beside}, (*stack, ref)
        return schema, stack

    def _target(self, ref: str) -> JsonObject:
        """What a reference inside the document points to; {} for others, which are never fetched."""
        if not ref.startswith("#"):
            return {}
        found: Json = self._root
        for part in ref.lstrip("#").split("/")[1:]:
            key = part.replace("%25", "%").replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            else:
                found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}

    def _merged(self, schema: JsonObject, stack: tuple[str, ...]) -> JsonObject:
        """Merge the branches of combinators into one object schema. Only properties of all branches stay required."""
        self._left -= 1
        schema, stack = self._resolved(schema, stack)
        if len(stack) > DEPTHS[0] or self._left < 0:
            return schema
        kept = {word: value for word, value in schema.items() if word not in _COMBINING}
        for each in _dicts(schema.get("allOf")):
            kept = _both(kept, self._merged(each, stack))
        for word in ("then", "else"):
            for each in _dicts([schema.get(word)]):
                kept = _both(kept, {**self._merged(each, stack), "required": []})
        for word in _BRANCHES:
            branches = [self._merged(each, stack) for each in _dicts(schema.get(word))]
            objects = [each for each in branches if not _kinds(each) or "object" in _kinds(each)]
            kept = _both(kept, _any_of(objects)) if objects else kept
        return kept


_COMBINING: Final = frozenset({*_BRANCHES, "allOf", "not", "if", "then", "else", "enum", "const"})


def _both(one: JsonObject, other: JsonObject) -> JsonObject:
    """Merge two schemas that both apply, as far as one schema can express it."""
    words: JsonObject = {**other, **one}
    properties = {**_properties(other), **_properties(one)}
    required = [*_texts(one.get("required")), *_texts(other.get("required"))]
    words |= {"properties": properties} if properties else {}
    words |= {"required": required} if required else {}
    return words


def _any_of(branches: list[JsonObject]) -> JsonObject:
    """The properties of all of `branches`. Those that each branch requires are required."""
    properties: dict[str, Json] = {}
    for branch in branches:
        for name, each in _properties(branch).items():
            known = properties.setdefault(name, each)
            if known != each:
                properties[name] = {
                    "anyOf": [*(known.get("anyOf") or [known] if isinstance(known, dict) else []), each]
                }
    needed = [_texts(branch.get("required")) for branch in branches]
    shared = [name for name in needed[0] if all(name in each for each in needed)]
    words: JsonObject = {"properties": properties, "required": shared}
    choices = list(dict.fromkeys(", ".join(f"`{name}`" for name in each) for each in needed if each))
    if len(choices) > 1:
        words["description"] = f"Give one of: {'; or '.join(choices)}."
    return words


def _is_shared(schema: JsonObject) -> bool:
    """Whether the branches of a schema only add to its own properties."""
    return any(word in schema for word in _BRANCHES) and isinstance(schema.get("properties"), dict)


def _kinds(schema: JsonObject) -> tuple[str, ...]:
    """The types that a schema allows, as it names them or as its other words show; none for any value."""
    given = schema.get("type")
    names = [given] if isinstance(given, str) else _texts(given)
    known = [_TYPES[name.lower()] for name in names if name.lower() in _TYPES]
    if known:
        return tuple(dict.fromkeys(known))
    values = _values(schema)
    if values:
        return tuple(dict.fromkeys(map(_kind_of, values)))
    return next(((kind,) for kind, words in _MARKS if any(word in schema for word in words)), ())


def _values(schema: JsonObject) -> list[Json]:
    return [schema["const"]] if "const" in schema else _list(schema.get("enum"))


def _kind_of(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _choice(schema: JsonObject) -> JsonObject:
    texts = [value for value in _values(schema) if isinstance(value, str)]
    return {"enum": list(dict.fromkeys(texts))} if texts and all(texts) else {}


def _described(schema: JsonObject) -> JsonObject:
    """Its title and description, with what its other words cannot say in the subset."""
    given, title = schema.get("description"), schema.get("title")
    words = [given] if isinstance(given, str) and given else []
    values = _values(schema)
    if values and not (_choice(schema) and all(isinstance(value, str) for value in values)):
        words.append(f"One of {', '.join(encode_text(drop_non_finite(value)) for value in values)}.")
    form = schema.get("format")
    if isinstance(form, str) and not any(_format(kind, schema) for kind in _kinds(schema)):
        words.append(f"Format: {form}.")
    named: JsonObject = {"title": title} if isinstance(title, str) and title else {}
    return named | ({"description": " ".join(words)} if words else {})


def _default(schema: JsonObject) -> JsonObject:
    value = schema.get("default")
    if value is None or _is_endless(value):
        return {}
    kinds, kind = _kinds(schema), _kind_of(value)
    fits = not kinds or kind in kinds or (kind == "integer" and "number" in kinds)
    return {"default": drop_non_finite(value)} if fits else {}


def _format(kind: str, schema: JsonObject) -> JsonObject:
    form = schema.get("format")
    return {"format": form} if isinstance(form, str) and form in _FORMATS.get(kind, ()) else {}


def _sizes(kind: str, schema: JsonObject) -> JsonObject:
    found: Iterable[tuple[str, Json]] = ((word, schema.get(word)) for word in _SIZES[kind])
    return {word: int(size) for word, size in found if _is_number(size) and size >= 0 and size == int(size)}


def _is_number(value: Json) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)  # It may be too large for isfinite().


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _dicts(value: Json) -> Iterable[JsonObject]:
    return (one for one in _list(value) if isinstance(one, dict))


def _texts(value: Json) -> list[str]:
    return [one for one in _list(value) if isinstance(one, str)]


def _properties(schema: Mapping[str, Json]) -> JsonObject:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def rename_properties(parameters: JsonObject, kept: Iterable[str] = ()) -> tuple[JsonObject, dict[str, str]]:
    """`parameters` with names of properties that Anthropic accepts, and the original names by the new ones.

    Names in `kept` stay as they are.
    """
    properties = _properties(parameters)
    odd = [name for name in properties if name not in kept and not _PLAIN_NAME.fullmatch(name)]
    if not odd:
        return parameters, {}
    shown: dict[str, str] = {}
    for name in odd:
        base = _FOREIGN.sub("_", name)[: _NAME_CHARS_MAX - 3] or "_"
        tries = (base, *(f"{base}_{number}" for number in range(2, 100)))
        shown[name] = next(each for each in tries if each not in properties and each not in shown.values())
    renamed: JsonObject = {**parameters, "properties": {shown.get(name, name): properties[name] for name in properties}}
    if "required" in parameters:
        renamed["required"] = [shown.get(name, name) for name in parameters["required"]]
    return renamed, {new: name for name, new in shown.items()}
