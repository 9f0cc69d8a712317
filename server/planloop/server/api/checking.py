"""Bodies held to their models. Loads pydantic, so the doors import it with the first body that is sent."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from planloop.app.exits import Exit, Halt
from planloop.schemas.encoding import Json, JsonObject
from planloop.server.api import naming
from planloop.server.api.model import MENDED
from planloop.server.api.operations import Operation

FAULTS_SHOWN_MAX: Final = 20  # More than that are one cause repeated.


def body(operation: Operation, given: Json) -> JsonObject:
    """`given` as the body of `operation`. Raises Halt: USAGE, with all that is wrong in it."""
    model, context = _model(operation.request), dict[str, bool]()
    try:
        found = model.validate_python(given, context=context)
    except ValidationError as error:
        faults = [_words(one) for one in error.errors(include_url=False, include_context=False, include_input=False)]
        hint = f"/v1/openapi.json describes {operation.request}"
        raise Halt(Exit.USAGE, "\n".join(faults[:FAULTS_SHOWN_MAX]), hint) from None
    if MENDED in context:  # Seldom; a plan of thousands of tasks is not copied for it.
        given = model.dump_python(found, by_alias=True, exclude_unset=True)
    assert isinstance(given, dict)
    return given


@cache
def _model(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(naming.named(name))


def _words(fault: Any) -> str:
    where = ".".join(str(part) for part in fault["loc"])
    said = f"{fault['msg'][:1].lower()}{fault['msg'][1:]}"
    return f"`{where[:200]}`: {said}" if where else said
