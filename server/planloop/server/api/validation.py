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
"""Prefix of model classes whose name another class of planloop has. Names in the API do not have it."""

MODEL_MODULES: Final = (request_models, response_models, edit_models, presenter_models, bench_models)


def model_or_union(name: str) -> Any:
    """Return the model, or union of models, of that name. Raises KeyError for an unknown name."""
    names = (f"{PREFIX}{name}", name)
    found = next((vars(module)[one] for one in names for module in MODEL_MODULES if one in vars(module)), None)
    if found is None:
        raise KeyError(name)
    return found


def model_class(name: str) -> type[ApiModel] | None:
    """Return the model of that name; None if it is a union."""
    found = model_or_union(name)
    return found if isinstance(found, type) and issubclass(found, ApiModel) else None


ERRORS_SHOWN_MAX: Final = 20  # If there are more, they usually have one cause.


def validated_body(operation: Operation, given: Json) -> JsonObject:
    """Return `given` as the body of `operation`. Raises CommandError: USAGE, with all errors."""
    model, context = _body_adapter(operation.request), dict[str, bool]()
    try:
        found = model.validate_python(given, context=context)
    except ValidationError as error:
        errors = [_words(one) for one in error.errors(include_url=False, include_context=False, include_input=False)]
        hint = f"/v1/openapi.json describes {operation.request}"
        raise CommandError(ExitCode.USAGE, "\n".join(errors[:ERRORS_SHOWN_MAX]), hint) from None
    if REPAIRED in context:  # Rare, so that a plan of thousands of tasks is usually not copied.
        given = model.dump_python(found, by_alias=True, exclude_unset=True)
    assert isinstance(given, dict)
    return given


@cache
def _body_adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(model_or_union(name))


def _words(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"])
    message = f"{error['msg'][:1].lower()}{error['msg'][1:]}"
    return f"`{where[:200]}`: {message}" if where else message
