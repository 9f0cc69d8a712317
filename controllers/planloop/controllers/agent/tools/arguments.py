"""Arguments of tools: JSON Schema and validation made from the tool's own signature, when first needed.

The one adapter to pydantic in this package; what is wrong with arguments comes back as words for whoever called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, Final, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from planloop.schemas.call import given_of
from planloop.schemas.encoding import Json, JsonObject

CONTEXT: Final = "context"
_NULL: Final[JsonObject] = {"type": "null"}
_OPEN: Final = ("additionalProperties", True)


class BadArguments(ValueError):
    """The arguments do not fit the tool; the message lists every fault."""


@cache
def model_of(function: Callable[..., Any]) -> type[BaseModel]:
    """The model of the parameters of `function`, its context left out, `**fields: Unpack[…]` opened up."""
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if name == CONTEXT:
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            (table,) = get_args(parameter.annotation)
            fields |= {key: (kind, None) for key, kind in get_type_hints(table, include_extras=True).items()}
        else:
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            fields[name] = (parameter.annotation, default)
    return create_model(function.__name__, __config__=ConfigDict(extra="forbid", frozen=True), **fields)


def schema_of(function: Callable[..., Any]) -> JsonObject:
    """The JSON Schema of the arguments, without what says nothing: a model reads all of it in every request.

    That an argument may be left out is told by `required`; null is taken for left out, and is not offered.
    """
    return _brief(model_of(function).model_json_schema())


def _brief(schema: JsonObject) -> JsonObject:
    kept = {word: value for word, value in schema.items() if not _says_nothing(word, value)}
    branches = [_brief(each) for each in kept.pop("anyOf", ()) if each != _NULL]
    if len(branches) == 1:
        kept = branches[0] | kept
    elif branches:
        kept["anyOf"] = branches
    for word in ("properties", "$defs"):
        if word in kept:
            kept[word] = {name: _brief(each) for name, each in kept[word].items()}
    return kept | ({"items": _brief(kept["items"])} if "items" in kept else {})


def _says_nothing(word: str, value: Json) -> bool:
    return word == "title" or (word == "default" and value in (None, "")) or (word, value) == _OPEN


def checked(function: Callable[..., Any], arguments: Json) -> dict[str, Any]:
    """`arguments` as keyword arguments of `function`, with defaults. Raises BadArguments."""
    arguments = given_of(arguments)
    if not isinstance(arguments, dict):
        raise BadArguments(f"arguments are a map of {', '.join(model_of(function).model_fields) or 'nothing'}")
    try:
        model = model_of(function).__pydantic_validator__.validate_python(arguments)
    except ValidationError as error:
        raise BadArguments("; ".join(_words(fault) for fault in error.errors(include_url=False))) from None
    # Fields of `Unpack` that were not given are left out; parameters with a default of None bear both.
    return {name: value for name, value in model.__dict__.items() if value is not None}


def plain(function: Callable[..., Any], arguments: JsonObject) -> JsonObject:
    """`arguments` as `function` takes them: each under its first name and of its kind, `"5"` as 5, null left out.

    What does not fit is as it was written.
    """
    try:
        model = model_of(function).__pydantic_validator__.validate_python(arguments)
    except ValidationError:
        return arguments
    found = model.model_dump(exclude_unset=True, exclude_none=True)
    return {name: _as_written(arguments.get(name), value) for name, value in found.items()}


def _as_written(written: Json, taken: Json) -> Json:
    """The value that was written where it is the same one: 5 stays 5 for a function that takes 5.0."""
    is_same = written == taken and isinstance(written, bool) is isinstance(taken, bool)
    return written if is_same else taken


def _words(fault: Any) -> str:
    where = ".".join(str(part) for part in fault["loc"]) or "arguments"
    return f"{where}: {fault['msg'][:1].lower()}{fault['msg'][1:]}"
