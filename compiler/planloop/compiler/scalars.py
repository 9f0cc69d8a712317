"""Parse scalars as people write them (`2M`, `1h30m`, `$20`) into canonical JSON values.

Every reader is idempotent: a canonical value reads as itself. An invalid value becomes a problem with a fix.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from planloop.compiler import names
from planloop.compiler.names import did_you_mean
from planloop.compiler.problems import Pointer, Problems
from planloop.compiler.source import Form, Keyword, SourcePath, SourceValue, Symbol, YamlTrap
from planloop.schemas import quantities
from planloop.schemas.rules.language import TEXT_EFFECTS
from planloop.schemas.spec.field import SETTING_PATTERN, ScalarType

NOTHING: Final = object()
"""Result of a reader for an invalid value. The field is left out, so that no further problems follow."""

ELISION: Final = "..."

ScalarReader = Callable[[SourceValue, SourcePath, Pointer, Problems], Any]


class ScalarMisfit(Exception):
    """The value is not of the wanted kind. `wanted` ends the sentence "`field` is …".

    `within` leads from the value that was read to the one in it that does not fit, which is `value` then.
    """

    def __init__(self, wanted: str, hint: str = "", code: str = "P0202") -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.hint = hint
        self.code = code
        self.within: SourcePath = ()
        self.value: SourceValue = None


def scalar_reader(type_: ScalarType) -> ScalarReader:
    """The reader for one declared scalar."""
    convert = _CONVERTERS[type_.kind]
    choices, minimum, settable = type_.choices, type_.minimum, type_.settable

    def read(value: SourceValue, at: SourcePath, to: Pointer, faults: Problems) -> Any:
        if settable and setting_name(value) is not None:
            return str(value)
        if choices and isinstance(value, YamlTrap | bool):
            value = _meant(value, choices)
        try:
            found = convert(value)
        except ScalarMisfit as misfit:
            if misfit.within:
                value, at, to = misfit.value, (*at, *misfit.within), (*to, *map(str, misfit.within))
            summary = f"`{field_name(to, at)}` must be {misfit.wanted}, not {value_text(value)}"
            hint = did_you_mean(str(value), choices) if choices else misfit.hint
            if misfit.code == "P0206":
                said = f"YAML versions read {value_text(value)} differently"
                summary = f"`{field_name(to, at)}` must be {misfit.wanted}; {said}"
                hint += _or_truth(value) if type_.kind == "any" and to[-1] not in TEXT_EFFECTS else ""
            faults.add(misfit.code, summary, hint, to=to, at=at)
            return NOTHING
        if choices and found not in choices:
            hint = did_you_mean(str(found), choices)
            faults.add("P0212", f"`{field_name(to, at)}` cannot be {value_text(str(found))}", hint, to=to, at=at)
            return NOTHING
        if minimum is not None and Decimal(str(found)) < Decimal(str(minimum)):
            least = quantities.format_exact_size(int(minimum)) if type_.kind == "size" else f"{minimum:,}"
            faults.add(
                "P0212",
                f"`{field_name(to, at)}` cannot be {value_text(value)}",
                f"use at least {least}",
                to=to,
                at=at,
            )
            return NOTHING
        return found

    def read_text(value: SourceValue, at: SourcePath, to: Pointer, faults: Problems) -> Any:
        return value if type(value) is str else read(value, at, to, faults)

    return read_text if type_.kind in ("text", "word", "pattern", "loose") and not choices else read


_SETTING: Final = re.compile(SETTING_PATTERN)


def setting_name(value: object) -> str | None:
    """Return the name of the setting that a value `$name` refers to; None for any other value."""
    found = _SETTING.fullmatch(value) if isinstance(value, str) else None
    return None if found is None else found[1]


def field_name(to: Pointer, at: SourcePath = ()) -> str:
    """What to call the field at `to`: its last name, with the one before it for an item of a list.

    `at`, where it is written: what stands alone where a list may stand is called by the list's name.
    """
    if not to:
        return "the plan"
    if at and to[-1].isdigit() and to[-2:-1] == (str(at[-1]),):
        return to[-2]
    return f"{to[-2]}/{to[-1]}" if to[-1].isdigit() and len(to) > 1 else to[-1]


def value_text(value: SourceValue) -> str:
    """A value in a sentence: short, and in the words of a plan rather than of Python."""
    match value:
        case None:
            return "nothing"
        case "":
            return "an empty text"
        case bool():
            return "true" if value else "false"
        case Form():
            return "an empty list `()`" if not value.items else f"a list `({value.head or '…'} …)`"
        case dict():
            return "a map"
        case list():
            return "a list"
        case str():
            return f"`{value}`" if len(value) <= 40 else f"`{value[:37]}…`"
        case _:
            return str(value)


def _text(value: SourceValue) -> str:
    if type(value) is str:
        return value
    if isinstance(value, YamlTrap) and value.lower() in ("y", "n"):
        return str(value)  # Truth values in the letter of YAML 1.1, and in no reader that people use.
    if isinstance(value, YamlTrap):
        raise ScalarMisfit("text", _trap_hint(value), "P0206")
    if isinstance(value, Symbol | Keyword):
        raise ScalarMisfit("text", f'quote it: "{value}"')
    if isinstance(value, bool | int | float):
        raise ScalarMisfit("text", f'quote it: "{value_text(value)}"')
    if value is None:
        raise ScalarMisfit("text", "add a text, or delete the line")
    raise ScalarMisfit("text", "write a single text here, quoted if it has special characters")


def _trap_hint(value: str) -> str:
    truth = _truth(value)
    if truth is None:
        return f'for the text, write "{value}"'
    return f'YAML 1.1 reads it as {value_text(truth)}: for the text, write "{value}"'


def _or_truth(value: SourceValue) -> str:
    """Return the second fix, for fields that also accept a boolean."""
    truth = _truth(value)
    return f", or {value_text(truth)}" if truth is not None else ""


_TRUE: Final = ("on", "yes", "true")
_FALSE: Final = ("off", "no", "false")


def _truth(value: SourceValue) -> bool | None:
    """The truth value that some reader of YAML takes `value` for, None where all read something else."""
    low = value_text(value) if isinstance(value, bool) else str(value).lower()
    return True if low in _TRUE else False if low in _FALSE else None


def _meant(value: SourceValue, choices: tuple[str, ...]) -> SourceValue:
    """A word of `choices` for a value that some readers take for true or false, where one of them is such a word.

    What a plan wrote as `off` comes here as false when another program has read and written it.
    """
    truth = _truth(value)
    words = () if truth is None else _TRUE if truth else _FALSE
    return next((word for word in words if word in choices), value if isinstance(value, bool) else str(value))


def _word(value: SourceValue) -> str:
    if isinstance(value, Form):
        value = _materialized(value)
    if isinstance(value, Symbol | Keyword) and value != ELISION:
        return str(value).rpartition("/")[2] or str(value)
    return _text(value)


def _id(value: SourceValue) -> str:
    word = _word(value)
    if not names.is_valid_id(word):
        raise ScalarMisfit("an id", names.id_hint(word), "P0207")
    return word


def _materialized(form: Form) -> SourceValue:
    """The name in `(:toolset/tools (proto/materialize name))`, the way sketches in Clojure refer to a prototype."""
    if len(form.items) != 2:
        return form
    head, inner = form.items
    if isinstance(head, Keyword) and isinstance(inner, Form):
        return _materialized(inner)
    return inner if form.head.endswith("materialize") else form


def _pattern(value: SourceValue) -> str:
    return str(value) if isinstance(value, Symbol | Keyword) and value != ELISION else _text(value)


def _loose(value: SourceValue) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _text(value)


def _flag(value: SourceValue) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("yes", "on", "y", "no", "off", "n"):
        meant = "true" if value.lower() in ("yes", "on", "y") else "false"
        raise ScalarMisfit("true or false", f"write {meant}: in YAML 1.2 `{value}` is text", "P0206")
    raise ScalarMisfit("true or false", "write true or false")


def _integer(value: SourceValue) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, YamlTrap):
        raise ScalarMisfit("a whole number", _number_trap_hint(value), "P0206")
    raise ScalarMisfit("a whole number", "write digits, as in 10")


def _number_trap_hint(value: str) -> str:
    digits = value.replace("_", "").lstrip("0") or "0"
    if digits.isdigit():
        return f"write {digits}: YAML versions read `{value}` differently"
    parts = value.split(":")
    if len(parts) > 1 and all(part.isdigit() for part in parts):
        seconds = sum(int(part) * 60**power for power, part in enumerate(reversed(parts)))
        return f"write {seconds}, or `{seconds}s` for a time: YAML 1.1 reads `{value}` as a base-60 number"
    return f"YAML versions read `{value}` differently"


def _number(value: SourceValue) -> int | float:
    if type(value) in (int, float) and math.isfinite(value):
        return _trimmed(value)
    if isinstance(value, YamlTrap):
        raise ScalarMisfit("a number", _number_trap_hint(value), "P0206")
    raise ScalarMisfit("a number", "write it as 10 or 0.5")


def _trimmed(value: float) -> int | float:
    return int(value) if type(value) is float and value.is_integer() else value


_COUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgGbB])?")
_COUNT_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "b": 10**9}


def _count(value: SourceValue) -> int:
    if isinstance(value, str) and not isinstance(value, YamlTrap):
        found = _COUNT.fullmatch(value.strip())
        if found is not None:
            return _whole(Decimal(found[1]) * _COUNT_UNITS[(found[2] or "").lower()])
        raise ScalarMisfit("a count", "write it in digits: 3, 5000, 200k or 2M")
    return _integer(value)


def _whole(number: Decimal) -> int:
    if number != int(number):
        raise ScalarMisfit("a whole number", "write digits, as in 10")
    return int(number)


def _duration(value: SourceValue) -> int | float:
    if isinstance(value, str) and not isinstance(value, YamlTrap):
        found = quantities.parse_duration(value)
        if found is None:
            raise ScalarMisfit("a time", "write it as 90s, 10m, 1h30m or a number of seconds")
        return _trimmed(found)
    try:
        return _number(value)
    except ScalarMisfit as misfit:
        hint = misfit.hint if misfit.code == "P0206" else "write it as 90s, 10m, 1h30m or a number of seconds"
        raise ScalarMisfit("a time", hint, misfit.code) from None


def _size(value: SourceValue) -> int:
    if isinstance(value, str) and not isinstance(value, YamlTrap):
        found = quantities.parse_size(value)
        if found is None:
            raise ScalarMisfit("a size", "write it as 512MB, 2GiB or a number of bytes")
        return _whole(found)
    return _integer(value)


def _money(value: SourceValue) -> str:
    if isinstance(value, YamlTrap):
        raise ScalarMisfit("an amount of money", _number_trap_hint(value), "P0206")
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ScalarMisfit("an amount of money", "write it as 20 or 4.50")
    try:
        amount = Decimal(str(value).strip().removeprefix("$"))
    except InvalidOperation:
        raise ScalarMisfit("an amount of money", "write it as 20 or 4.50") from None
    if not amount.is_finite() or abs(amount.adjusted()) > 12:
        raise ScalarMisfit("an amount of money", "write it as 20 or 4.50")
    return format(amount, "f")


def _any(value: SourceValue) -> Any:
    match value:
        case YamlTrap():
            return _text(value)
        case Keyword() | Symbol():
            return str(value).rpartition("/")[2] or str(value)
        case str() | bool() | int() | float() | None:
            return value
        case dict():
            return {str(key): _inner(key, item) for key, item in value.items()}
        case list():
            return [_inner(index, item) for index, item in enumerate(value) if not is_elision(item)]
        case Form():
            return {value.head: _any(list(value.items[1:]) if len(value.items) != 2 else value.items[1])}
        case _:
            raise ScalarMisfit("a plain value", "write one value, not a list or a map")


def _inner(step: str | int, value: SourceValue) -> Any:
    try:
        return _any(value)
    except ScalarMisfit as misfit:
        misfit.value = misfit.value if misfit.within else value
        misfit.within = (step, *misfit.within)
        raise


def is_elision(value: SourceValue) -> bool:
    """Whether `value` is the `...` of a sketch, which stands for what is left out."""
    return isinstance(value, Symbol) and value == ELISION


_CONVERTERS: Final[dict[str, Callable[[SourceValue], Any]]] = {
    "text": _text,
    "word": _word,
    "id": _id,
    "pattern": _pattern,
    "loose": _loose,
    "flag": _flag,
    "integer": _integer,
    "number": _number,
    "count": _count,
    "duration": _duration,
    "size": _size,
    "money": _money,
    "any": _any,
}
