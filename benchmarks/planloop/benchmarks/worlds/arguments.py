"""Check arguments against a tool's JSON Schema, like a strict service."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, TypeAlias

from planloop.compiler.names import did_you_mean
from planloop.schemas.canonical_json import Json, JsonObject, encode_text
from planloop.schemas.frozen import mutable
from planloop.schemas.predicates import is_number

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def parse_instant(value: Json) -> datetime | None:
    """Parse a time, in UTC unless it has an offset, or a day, which stands for its start. None if invalid."""
    if not isinstance(value, str) or not _DAY.match(value):
        return None
    try:
        found = datetime.fromisoformat(value)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):  # In UTC, the time may be before the year 1 or after 9999.
        return None


def canonical_time(value: str) -> str | None:
    """Format a time as `2030-01-02T15:00:00Z`; None if `value` is not a time."""
    found = parse_instant(value)
    return None if found is None or _DAY.fullmatch(value) else write_time(found)


def canonical_day(value: str) -> str | None:
    """Format a day as `2030-01-02`; None if `value` is not a day."""
    try:
        return date.fromisoformat(value).isoformat()
    except ValueError:
        return None


def shift_time(time: datetime, by: timedelta) -> datetime | None:
    """Add `by`, which may be negative, to `time`; None if the result is outside of the years 1 to 9999."""
    try:
        return time + by
    except OverflowError:
        return None


def write_time(time: datetime) -> str:
    """Format a time in the canonical form of worlds, without trailing zeros."""
    return time.isoformat(timespec="microseconds" if time.microsecond else "seconds").replace("+00:00", "Z")


# This covers the part of JSON Schema that tool descriptions use. Unlike in JSON Schema, unknown arguments are errors
# unless `additionalProperties: true` allows them. Times are converted to UTC and mail addresses to lower case, so that
# equal values have the same form. A missing or null argument gets its default.


KINDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: is_number(value) and (isinstance(value, int) or value.is_integer()),
    "number": is_number,
    "null": lambda value: value is None,
}
_SIZES: Final[Mapping[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "minimum": (lambda value, bound: value >= bound, "must be at least {}"),
    "maximum": (lambda value, bound: value <= bound, "must be at most {}"),
    "exclusiveMinimum": (lambda value, bound: value > bound, "must be more than {}"),
    "exclusiveMaximum": (lambda value, bound: value < bound, "must be less than {}"),
}
_LENGTHS: Final[Mapping[str, tuple[type, Callable[[int, int], bool], str]]] = {
    "minLength": (str, int.__ge__, "must have at least {} characters"),
    "maxLength": (str, int.__le__, "must have at most {} characters"),
    "minItems": (list, int.__ge__, "must have at least {} items"),
    "maxItems": (list, int.__le__, "must have at most {} items"),
}
SHOWN_CHARS: Final = 60  # Characters of a value in a message.
_MAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")
_FORMS: Final[Mapping[str, tuple[Callable[[str], str | None], str]]] = {
    "date-time": (canonical_time, "a time such as 2030-01-02T15:00:00Z"),
    "date": (canonical_day, "a day such as 2030-01-02"),
    "email": (lambda text: text.strip().lower() if _MAIL.fullmatch(text.strip()) else None, "a mail address"),
}
_SAYS_NOTHING: Final = ("description", "title", "examples", "default")
WORDS: Final = frozenset(
    (*_SIZES, *_LENGTHS, *_SAYS_NOTHING, "type", "properties", "required", "enum", "const", "items", "pattern")
) | {"format", "anyOf", "additionalProperties"}
"""The supported keywords of JSON Schema."""


class BadWorldArguments(ValueError):
    """The arguments do not match the schema; the message lists every problem."""


def fit_arguments(schema: JsonObject, arguments: JsonObject) -> JsonObject:
    """Return `arguments` in canonical form, with defaults. Raises BadWorldArguments."""
    check = _Check()
    found: JsonObject = check.value(schema, arguments, "")
    if check.problems:
        raise BadWorldArguments("; ".join(check.problems))
    return found


SchemaProblem: TypeAlias = tuple[tuple[str, ...], str, str]
"""A problem of a schema: location, description, and fix."""


def _is_kind(value: Any) -> bool:
    kinds = value if isinstance(value, list) else [value]
    return bool(kinds) and all(isinstance(kind, str) and kind in KINDS for kind in kinds)


_FORM_OF: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    **dict.fromkeys(_SIZES, (is_number, "a number")),
    **dict.fromkeys(_LENGTHS, (lambda value: type(value) is int, "a whole number")),
    **dict.fromkeys(("pattern", "format"), (lambda value: isinstance(value, str), "a text")),
    **dict.fromkeys(("enum", "anyOf"), (lambda value: isinstance(value, list) and bool(value), "a list")),
    "required": (
        lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
        "a list of names",
    ),
    "properties": (lambda value: isinstance(value, dict), "a map of schemas"),
    "type": (_is_kind, f"one of {', '.join(KINDS)}, or a list of these"),
}


def schema_problems(schema: Json, to: tuple[str, ...] = ()) -> Iterator[SchemaProblem]:
    """Yield the problems of a schema."""
    if not isinstance(schema, dict):
        yield to, "a schema must be a map", "write `{type: string}`"
        return
    is_sound = True
    for word, value in schema.items():
        fits, form = _FORM_OF.get(word, (None, ""))
        if word not in WORDS:
            hint = did_you_mean(word, sorted(WORDS)) or "delete it"
            yield (*to, word), f"worlds do not support the keyword `{word}` of JSON Schema", hint
        elif fits is not None and not fits(value):
            is_sound = False
            yield (*to, word), f"`{word}` must be {form}, not {_shown(value)}", "correct it"
    if is_sound:
        yield from _nested_problems(schema, to)


def _nested_problems(schema: JsonObject, to: tuple[str, ...]) -> Iterator[SchemaProblem]:
    properties = schema.get("properties", {})
    for name, each in properties.items():
        yield from schema_problems(each, (*to, "properties", name))
    for name in schema.get("required", ()):
        if name not in properties:
            hint = did_you_mean(name, list(properties)) if properties else "describe it under `properties`"
            yield (*to, "required"), f"`{name}` is required, but not in `properties`", hint
    if "items" in schema:
        yield from schema_problems(schema["items"], (*to, "items"))
    for index, each in enumerate(schema.get("anyOf", ())):
        yield from schema_problems(each, (*to, "anyOf", str(index)))
    try:
        re.compile(schema.get("pattern", ""))
    except re.error as error:
        yield (*to, "pattern"), f"invalid regular expression `{schema['pattern']}`: {error}", "correct it"


@mutable
class _Check:
    """Collects every problem, each with the path of the argument."""

    problems: list[str] = field(default_factory=list)

    def value(self, schema: JsonObject, value: Json, at: str) -> Json:
        """Return the value in canonical form, and collect problems."""
        if "anyOf" in schema:
            return self._any(schema, value, at)
        kinds = schema.get("type", ())
        kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
        if kinds and not any(KINDS[kind](value) for kind in kinds):
            self._report(at, f"must be {' or '.join(_article(kind) for kind in kinds)}, not {_shown(value)}")
            return value
        if "enum" in schema and value not in schema["enum"]:
            self._report(at, f"must be one of {', '.join(map(_shown, schema['enum']))}, not {_shown(value)}")
        if "const" in schema and value != schema["const"]:
            self._report(at, f"must be {_shown(schema['const'])}, not {_shown(value)}")
        match value:
            case dict():
                return self._object(schema, value, at) if "properties" in schema or not at else value
            case list():
                self._length(schema, value, at)
                items = schema.get("items")
                return value if items is None else [self.value(items, one, f"{at}[{n}]") for n, one in enumerate(value)]
            case str():
                self._length(schema, value, at)
                return self._text(schema, value, at)
            case float() if kinds == ("integer",):
                value = int(value)
        if is_number(value):
            self._size(schema, value, at)
        return value

    def _any(self, schema: JsonObject, value: Json, at: str) -> Json:
        own = {word: each for word, each in schema.items() if word != "anyOf"}
        for branch in schema["anyOf"]:
            check = _Check()
            found = check.value({**own, **branch}, value, at)
            if not check.problems:
                return found
        self._report(at, f"{_shown(value)} matches no allowed form")
        return value

    def _object(self, schema: JsonObject, value: JsonObject, at: str) -> JsonObject:
        properties: JsonObject = schema.get("properties", {})
        inside = f"{at}." if at else ""
        given = {name: each for name, each in value.items() if not _is_left_out(properties.get(name), each)}
        for name in schema.get("required", ()):
            if name not in given:
                self.problems.append(f"missing argument `{inside}{name}`")
        found: JsonObject = {}
        for name, each in given.items():
            if name in properties:
                found[name] = self.value(properties[name], each, f"{inside}{name}")
            elif schema.get("additionalProperties", False) is not False:
                found[name] = each
            else:
                known = ", ".join(properties) or "none"
                self.problems.append(f"unknown argument `{inside}{name}` (known: {known})")
        lacking = ((name, each) for name, each in properties.items() if name not in found and "default" in each)
        return found | {name: each["default"] for name, each in lacking}

    def _text(self, schema: JsonObject, value: str, at: str) -> str:
        if "pattern" in schema and re.search(schema["pattern"], value) is None:
            self._report(at, f"must match {schema['pattern']}, not {_shown(value)}")
        form = _FORMS.get(schema.get("format", ""))
        if form is None or value == schema.get("default"):
            return value
        made = form[0](value)
        if made is None:
            self._report(at, f"must be {form[1]}, not {_shown(value)}")
        return value if made is None else made

    def _size(self, schema: JsonObject, value: float, at: str) -> None:
        for word, (fits, words) in _SIZES.items():
            if word in schema and not fits(value, schema[word]):
                self._report(at, f"{words.format(schema[word])}, not {_shown(value)}")

    def _length(self, schema: JsonObject, value: str | list[Json], at: str) -> None:
        for word, (kind, fits, words) in _LENGTHS.items():
            if word in schema and isinstance(value, kind) and not fits(len(value), schema[word]):
                self._report(at, words.format(schema[word]))

    def _report(self, at: str, words: str) -> None:
        self.problems.append(f"{at or 'arguments'}: {words}")


def _is_left_out(schema: JsonObject | None, value: Json) -> bool:
    """Whether null means "not given" because the schema does not allow it."""
    if value is not None or schema is None:
        return False
    kinds = schema.get("type", ())
    return "anyOf" not in schema and None not in schema.get("enum", ()) and bool(kinds) and "null" not in kinds


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else kind if kind == "null" else f"a {kind}"


def _shown(value: Json) -> str:
    text = encode_text(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
