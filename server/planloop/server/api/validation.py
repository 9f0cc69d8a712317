"""Validate request bodies with their models. Loads pydantic."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.server.api import bench_models, edit_models, presenter_models, request_models, response_models
from planloop.server.api.base_model import REPAIRED, ApiModel
from planloop.server.api.operations import Operation

PREFIX: Final = "Api"
"""Of the class of a model whose name another class of the product has. The API and its description leave it out."""

# The models that rows of the table name. Whoever has many of their own keeps them in a module here.

MODEL_MODULES: Final = (request_models, response_models, edit_models, presenter_models, bench_models)


def model_or_union(name: str) -> Any:
    """The model, or the union of models, of that name. Raises KeyError for one that there is not."""
    names = (f"{PREFIX}{name}", name)
    found = next((vars(module)[one] for one in names for module in MODEL_MODULES if one in vars(module)), None)
    if found is None:
        raise KeyError(name)
    return found


def model_class(name: str) -> type[ApiModel] | None:
    """The same, None for a union."""
    found = model_or_union(name)
    return found if isinstance(found, type) and issubclass(found, ApiModel) else None


# Bodies held to their models. Loads pydantic, so the doors import it with the first body that is sent.

FAULTS_SHOWN_MAX: Final = 20  # More than that are one cause repeated.


def validated_body(operation: Operation, given: Json) -> JsonObject:
    """`given` as the body of `operation`. Raises CommandError: USAGE, with all that is wrong in it."""
    model, context = _body_adapter(operation.request), dict[str, bool]()
    try:
        found = model.validate_python(given, context=context)
    except ValidationError as error:
        faults = [_words(one) for one in error.errors(include_url=False, include_context=False, include_input=False)]
        hint = f"/v1/openapi.json describes {operation.request}"
        raise CommandError(ExitCode.USAGE, "\n".join(faults[:FAULTS_SHOWN_MAX]), hint) from None
    if REPAIRED in context:  # Seldom; a plan of thousands of tasks is not copied for it.
        given = model.dump_python(found, by_alias=True, exclude_unset=True)
    assert isinstance(given, dict)
    return given


@cache
def _body_adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(model_or_union(name))


def _words(fault: Any) -> str:
    where = ".".join(str(part) for part in fault["loc"])
    said = f"{fault['msg'][:1].lower()}{fault['msg'][1:]}"
    return f"`{where[:200]}`: {said}" if where else said
