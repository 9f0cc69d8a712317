"""A key of BFCL, `{function: {argument: [alternatives]}}`, as a needed call, and as the calls that an oracle makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from typing import Final

from planloop.benchmarks.worlds.arguments import BadArguments, fitted
from planloop.schemas import matchers
from planloop.schemas.encoding import Json, JsonObject

OMIT: Final = ""
"""Among the alternatives: the argument may be left out."""

OPTIONAL_MEMBERS_MAX: Final = 8  # Of one map in a key: each makes twice as many forms of it.


class BadKey(ValueError):
    """The key cannot be a needed call; the text says why."""


def need_of(call: JsonObject, tools: Mapping[str, JsonObject]) -> JsonObject:
    """The needed call. Raises BadKey."""
    name, args = _only(call)
    if name not in tools:
        raise BadKey(f"its key names `{name}`, which it does not offer")
    types = tools[name].get("properties", {})
    if unknown := [arg for arg in args if arg not in types]:
        raise BadKey(f"its key names the argument `{unknown[0]}`, which `{name}` does not have")
    forms = {arg: _alternatives(alts, types.get(arg, {})) for arg, alts in args.items()}
    may = {arg: forms[arg] for arg, alts in args.items() if OMIT in _listed(alts)}
    must = {arg: form for arg, form in forms.items() if arg not in may}
    return {"tool": name, "args": {"exact": must}} | ({"may": may} if may else {})


def call_of(call: JsonObject, tools: Mapping[str, JsonObject], *, is_full: bool) -> JsonObject:
    """A call that the key takes: with all arguments, or without those that may be left out and are not required."""
    name, args = _only(call)
    schema = tools.get(name, {})
    required, types = schema.get("required", ()), schema.get("properties", {})
    given: JsonObject = {}
    for arg, alts in args.items():
        own = types.get(arg, {})
        values = [_first(alt, own) for alt in _listed(alts) if alt != OMIT or own.get("type") == "string"]
        taken = [value for value in values if not faults_of(value, own)]
        if OMIT not in _listed(alts):
            given[arg] = (taken or values)[0]
        elif taken and (is_full or arg in required):
            given[arg] = taken[0]
    return {name: given}


def check(calls: Sequence[JsonObject], tools: Mapping[str, JsonObject]) -> None:
    """Raises BadKey where the functions would not take what their key asks for."""
    for call in calls:
        for name, given in call.items():
            if why := faults_of(given, {"type": "object", **tools[name]}):
                raise BadKey(f"`{name}` does not take what its key asks for: {why}")


def faults_of(value: Json, schema: JsonObject) -> str:
    """Why a value does not fit the schema; empty where it does."""
    try:
        fitted({"type": "object", "properties": {"": schema}, "required": [""]}, {"": value})
    except BadArguments as error:
        return str(error).removeprefix(".")
    return ""


def _only(call: JsonObject) -> tuple[str, JsonObject]:
    if len(call) != 1:
        raise BadKey("its key has more than one function in one call")
    name, args = next(iter(call.items()))
    if not isinstance(args, dict):
        raise BadKey(f"its key has no arguments by name for `{name}`")
    return name, args


def _listed(alternatives: Json) -> list[Json]:
    return alternatives if isinstance(alternatives, list) else [alternatives]


def _alternatives(alternatives: Json, schema: JsonObject) -> Json:
    if not _listed(alternatives):
        raise BadKey("it lists no alternative for one of its arguments")
    forms = list(chain.from_iterable(_forms(one, schema) for one in _listed(alternatives)))
    return forms[0] if len(forms) == 1 else {"one-of": forms}


def _forms(value: Json, schema: JsonObject) -> list[Json]:
    """The matchers that one alternative stands for. Maps have alternatives of their own, and so have lists of maps."""
    if isinstance(value, dict) and schema.get("type", "object") == "object":
        return _maps(value, schema)
    if value == OMIT and schema.get("type") == "array":
        return [{"is": []}]  # Nothing in it says as little as leaving it out.
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return [[_either(_forms(one, schema.get("items", {}))) for one in value]]
    return [_literal(value)]


def _maps(value: JsonObject, schema: JsonObject) -> list[Json]:
    types = schema.get("properties", {})
    forms = {name: _alternatives(alts, types.get(name, {"type": "any"})) for name, alts in value.items()}
    optional = [name for name, alts in value.items() if OMIT in _listed(alts)]
    if len(optional) > OPTIONAL_MEMBERS_MAX:
        raise BadKey(f"its key has a map with {len(optional)} members that may be left out")
    left_out = chain.from_iterable(combinations(optional, count) for count in range(len(optional) + 1))
    return [{"exact": {name: form for name, form in forms.items() if name not in without}} for without in left_out]


def _either(forms: Sequence[Json]) -> Json:
    return forms[0] if len(forms) == 1 else {"one-of": list(forms)}


def _literal(value: Json) -> Json:
    """A matcher of just this value, in which nothing is read as a pattern."""
    is_plain = not isinstance(value, list | dict) and matchers.expression_in(value) is None
    return value if is_plain else {"is": value}


def _first(value: Json, schema: JsonObject) -> Json:
    """A value that an alternative stands for."""
    if isinstance(value, dict) and schema.get("type", "object") == "object":
        types = schema.get("properties", {})
        chosen = {name: [alt for alt in _listed(alts) if alt != OMIT] for name, alts in value.items()}
        return {
            name: _first(alts[0], types.get(name, {"type": "any"})) if alts else OMIT for name, alts in chosen.items()
        }
    if isinstance(value, list):
        return [_first(one, schema.get("items", {})) if isinstance(one, dict) else one for one in value]
    return value
