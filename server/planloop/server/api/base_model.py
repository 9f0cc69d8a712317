"""Base of all API models: frozen, strict, no unknown fields."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from planloop.server.api.operations import ADDRESS, REV_MAX, TEXT_CHARS_MAX

REPAIRED: Final = "repaired"  # Set in the validation context if a value was converted, such as 3.0 to 3.


class ApiModel(BaseModel):
    """Base of the API's models. The docstring of a model is its description; fields without a default are required."""

    # `defer_build`: most processes use two or three of the models.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True, populate_by_name=True)


def _whole(value: object, found: ValidationInfo) -> object:
    # JSON has one kind of number: 3.0 is the integer 3.
    if not isinstance(value, float) or not value.is_integer():
        return value
    if found.context is not None:
        found.context[REPAIRED] = True
    return int(value)


Rev: TypeAlias = Annotated[int, Field(ge=0, le=REV_MAX, description="A revision of the plan."), BeforeValidator(_whole)]
Seconds: TypeAlias = Annotated[float, Field(description="Seconds since 1970, UTC.")]
Address: TypeAlias = Annotated[str, Field(pattern=ADDRESS, max_length=TEXT_CHARS_MAX, examples=["task/build"])]
Digest: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="The SHA-256 of a blob, in hex.")]
Reason: TypeAlias = Annotated[str, Field(max_length=TEXT_CHARS_MAX, description="The reason, shown in the history.")]
