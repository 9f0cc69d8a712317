"""Import the Berkeley Function Calling Leaderboard, version 4: one suite for each single-turn category."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Final

from planloop.benchmarks.importers import suite_text
from planloop.benchmarks.worlds.arguments import BadWorldArguments, fit_arguments
from planloop.schemas.canonical_json import Json, JsonObject, decode_foreign, encode_text
from planloop.schemas.checks import matchers
from planloop.schemas.frozen import frozen
from planloop.schemas.spec.template_placeholders import replace_texts

# A key of BFCL, `{function: {argument: [alternatives]}}`, becomes a needed call and the calls of an oracle.

OMIT: Final = ""
"""The alternative that means: the argument may be omitted."""

OPTIONAL_MEMBERS_MAX: Final = 8  # In one map of a key: each doubles the number of its forms.


class BadKey(ValueError):
    """The key cannot become a needed call; the message says why."""


def needed_call(call: JsonObject, tools: Mapping[str, JsonObject]) -> JsonObject:
    """Return the needed call for a key. Raises BadKey."""
    name, args = _only(call)
    if name not in tools:
        raise BadKey(f"its key names the function `{name}`, which the row does not offer")
    types = tools[name].get("properties", {})
    if unknown := [arg for arg in args if arg not in types]:
        raise BadKey(f"its key names the argument `{unknown[0]}`, which `{name}` does not have")
    forms = {arg: _alternatives(alts, types.get(arg, {})) for arg, alts in args.items()}
    may = {arg: forms[arg] for arg, alts in args.items() if OMIT in _listed(alts)}
    must = {arg: form for arg, form in forms.items() if arg not in may}
    return {"tool": name, "args": {"exact": must}} | ({"may": may} if may else {})


def oracle_call(call: JsonObject, tools: Mapping[str, JsonObject], *, is_full: bool) -> JsonObject:
    """Return a call that the key accepts: with all arguments, or only with the required ones."""
    name, args = _only(call)
    schema = tools.get(name, {})
    required, types = schema.get("required", ()), schema.get("properties", {})
    given: JsonObject = {}
    for arg, alts in args.items():
        own = types.get(arg, {})
        values = [_first(alt, own) for alt in _listed(alts) if alt != OMIT or own.get("type") == "string"]
        taken = [value for value in values if not schema_misfits(value, own)]
        if OMIT not in _listed(alts):
            given[arg] = (taken or values)[0]
        elif taken and (is_full or arg in required):
            given[arg] = taken[0]
    return {name: given}


def check_key(calls: Sequence[JsonObject], tools: Mapping[str, JsonObject]) -> None:
    """Raise BadKey if a function does not accept the arguments in its key."""
    for call in calls:
        for name, given in call.items():
            if why := schema_misfits(given, {"type": "object", **tools[name]}):
                raise BadKey(f"`{name}` does not accept the arguments in its key: {why}")


def schema_misfits(value: Json, schema: JsonObject) -> str:
    """Why a value does not match the schema; empty if it does."""
    try:
        fit_arguments({"type": "object", "properties": {"": schema}, "required": [""]}, {"": value})
    except BadWorldArguments as error:
        return str(error).removeprefix(".")
    return ""


def _only(call: JsonObject) -> tuple[str, JsonObject]:
    if len(call) != 1:
        raise BadKey("its key has several functions in one call")
    name, args = next(iter(call.items()))
    if not isinstance(args, dict):
        raise BadKey(f"its key has no named arguments for `{name}`")
    return name, args


def _listed(alternatives: Json) -> list[Json]:
    return alternatives if isinstance(alternatives, list) else [alternatives]


def _alternatives(alternatives: Json, schema: JsonObject) -> Json:
    if not _listed(alternatives):
        raise BadKey("its key has an argument without alternatives")
    forms = list(chain.from_iterable(_forms(one, schema) for one in _listed(alternatives)))
    return forms[0] if len(forms) == 1 else {"one-of": forms}


def _forms(value: Json, schema: JsonObject) -> list[Json]:
    """The matchers of one alternative. Maps, and lists of maps, contain alternatives."""
    if isinstance(value, dict) and schema.get("type", "object") == "object":
        return _maps(value, schema)
    if value == OMIT and schema.get("type") == "array":
        return [{"is": []}]  # An empty list means the same as omitting the argument.
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return [[_either(_forms(one, schema.get("items", {}))) for one in value]]
    return [_literal(value)]


def _maps(value: JsonObject, schema: JsonObject) -> list[Json]:
    types = schema.get("properties", {})
    forms = {name: _alternatives(alts, types.get(name, {"type": "any"})) for name, alts in value.items()}
    optional = [name for name, alts in value.items() if OMIT in _listed(alts)]
    if len(optional) > OPTIONAL_MEMBERS_MAX:
        raise BadKey(f"its key has a map with {len(optional)} optional members")
    left_out = chain.from_iterable(combinations(optional, count) for count in range(len(optional) + 1))
    return [{"exact": {name: form for name, form in forms.items() if name not in without}} for without in left_out]


def _either(forms: Sequence[Json]) -> Json:
    return forms[0] if len(forms) == 1 else {"one-of": list(forms)}


def _literal(value: Json) -> Json:
    """A matcher of exactly this value: nothing in it is a pattern."""
    is_plain = not isinstance(value, list | dict) and matchers.regex_source(value) is None
    return value if is_plain else {"is": value}


def _first(value: Json, schema: JsonObject) -> Json:
    """A value that matches an alternative."""
    if isinstance(value, dict) and schema.get("type", "object") == "object":
        types = schema.get("properties", {})
        chosen = {name: [alt for alt in _listed(alts) if alt != OMIT] for name, alts in value.items()}
        return {
            name: _first(alts[0], types.get(name, {"type": "any"})) if alts else OMIT for name, alts in chosen.items()
        }
    if isinstance(value, list):
        return [_first(one, schema.get("items", {})) if isinstance(one, dict) else one for one in value]
    return value


# BFCL files have one JSON row a line: `BFCL_v4_<category>.json` has a question and functions, `possible_answer/` the
# keys in a file of the same name. A key lists alternatives for each argument; an empty text among them means that the
# argument may be omitted. `irrelevance` becomes an `abstain` check, `relevance` any call. Rows with several turns,
# memory or web search are reported, not imported. The functions become tools that do nothing; texts are compared by
# `matchers.values_equal`, which keeps punctuation. Source: ShishirPatil/gorilla,
# berkeley-function-call-leaderboard/bfcl_eval/data (Apache-2.0); none of it ships here.

PREFIX: Final = "BFCL_v4_"
KEYED: Final = tuple(
    "simple_python simple_java simple_javascript multiple parallel parallel_multiple "
    "live_simple live_multiple live_parallel live_parallel_multiple".split()
)
UNKEYED: Final = ("irrelevance", "live_irrelevance", "live_relevance")
SERVER: Final = "bfcl"
"""First part of tool names. The second part is the name of the function, with underscores for dots."""
SUITE_CASES_MAX: Final = 250  # Keeps a suite below the parser's limit of 1 MiB.
TURNS: Final = 4  # Added to one turn for each needed call, for models that make one call a turn.

_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("dict", "HashMap", "Hashtable", "object"), "object"),
    **dict.fromkeys(("array", "Array", "ArrayList", "Set", "Queue", "Stack", "tuple"), "array"),
    **dict.fromkeys(("float", "double", "number"), "number"),
    **dict.fromkeys(("integer", "long", "short", "byte", "int", "Bigint"), "integer"),
    **dict.fromkeys(("string", "String", "char"), "string"),
    **dict.fromkeys(("boolean", "Boolean"), "boolean"),
}
"""JSON Schema types by their names in three languages; other types accept any value."""

_NAMED_BY_VARIABLES: Final = ("object", "array", "boolean")
"""Types whose values are often names of variables in the keys for Java and JavaScript."""


@frozen
class BfclRow:
    """One row: the id, the question, the functions, and the key (None without one)."""

    id: str
    question: str
    functions: tuple[JsonObject, ...]
    key: list[Json] | None


@frozen
class BfclImport:
    """Imported suites. `files` are texts by path, a folder for each suite; `counts` are cases by category.

    `notes` says what was not imported, and why.
    """

    files: Mapping[str, str]
    counts: Mapping[str, int]
    notes: tuple[str, ...]


def convert_bfcl(files: Mapping[str, bytes]) -> BfclImport:
    """Convert a data directory, given as texts by path, to suites. Pure."""
    out: dict[str, str] = {}
    counts: dict[str, int] = {}
    notes: list[str] = []
    for category in _categories(files):
        if category not in (*KEYED, *UNKEYED):
            notes.append(f"{category} is not imported: it needs several turns, or special tools")
            continue
        key = files.get(f"possible_answer/{PREFIX}{category}.json")
        if category in KEYED and key is None:
            notes.append(f"{category} is not imported: possible_answer/ has no key for it")
            continue
        rows = list(_rows(files[f"{PREFIX}{category}.json"], key, category, notes))
        cases = [(row, case) for row in rows if (case := _case(row, category, notes)) is not None]
        counts[category] = len(cases)
        for place in range(0, len(cases), SUITE_CASES_MAX):
            part = cases[place : place + SUITE_CASES_MAX]
            number = f"-{place // SUITE_CASES_MAX + 1}" if len(cases) > SUITE_CASES_MAX else ""
            out |= _suite(f"bfcl-{category.replace('_', '-')}{number}", category, part)
    return BfclImport(out, counts, tuple(notes))


def _categories(files: Mapping[str, bytes]) -> Iterator[str]:
    for path in sorted(files):
        if path.startswith(PREFIX) and path.endswith(".json"):
            yield path.removeprefix(PREFIX).removesuffix(".json")


def _rows(content: bytes, key: bytes | None, category: str, notes: list[str]) -> Iterator[BfclRow]:
    keys = {one["id"]: one["ground_truth"] for one in _lines(key or b"")}
    for raw in _lines(content):
        if key is not None and raw["id"] not in keys:
            notes.append(f"{raw['id']} is not imported: it has no key")
        elif len(raw["question"]) != 1:
            notes.append(f"{raw['id']} is not imported: it needs several turns")
        else:
            functions = tuple(_tool(one, category) for one in raw["function"])
            yield BfclRow(raw["id"], _asked(raw["question"][0]), functions, _renamed(keys.get(raw["id"])))


def tool_name(function: str) -> str:
    """The name of a function in a suite."""
    return f"{SERVER}.{re.sub(r'[^A-Za-z0-9_-]', '_', function)}"


def _renamed(key: Json) -> list[Json] | None:
    return None if key is None else [{tool_name(name): args for name, args in call.items()} for call in key]


def _lines(content: bytes) -> Iterator[Json]:
    return (decode_foreign(line) for line in content.splitlines() if line.strip())


def _asked(messages: Sequence[JsonObject]) -> str:
    """The messages of the turn as one text."""
    if len(messages) == 1:
        return str(messages[0]["content"])
    prefixes = {"system": "", "user": "User: ", "assistant": "You: "}
    return "\n\n".join(f"{prefixes.get(one['role'], '')}{one['content']}" for one in messages)


def _tool(function: JsonObject, category: str) -> JsonObject:
    has_variables = category in ("simple_java", "simple_javascript")
    parameters = _schema(function["parameters"], has_variables=False)
    members = {
        name: _schema(one, has_variables=has_variables)
        for name, one in function["parameters"].get("properties", {}).items()
    }
    return {
        "name": tool_name(function["name"]),
        "about": function["description"],
        "parameters": {**parameters, "properties": members, "additionalProperties": False},
        "returns": {"ok": True},
    }


def _schema(written: Json, *, has_variables: bool) -> JsonObject:
    """Convert a function's schema to JSON Schema. Defaults go into the description: a tool would fill in real ones."""
    type_ = _TYPES.get(str(written.get("type", "")))
    if has_variables and type_ in _NAMED_BY_VARIABLES:
        type_ = None
    out: JsonObject = {} if type_ is None else {"type": type_}
    default = written.get("default")
    if "description" in written:
        suffix = f" Default: {encode_text(default)}." if default is not None else ""
        out["description"] = f"{written['description']}{suffix}"
    if type_ == "object" and written.get("properties"):
        members = {name: _schema(one, has_variables=has_variables) for name, one in written["properties"].items()}
        required = [name for name in written.get("required") or () if name in members]
        out |= {"properties": members, "required": required, "additionalProperties": True}
    if type_ == "array" and isinstance(written.get("items"), dict):
        out["items"] = _schema(written["items"], has_variables=has_variables)
    if isinstance(written.get("enum"), list):
        inner = out.get("items", out)  # The enum of a list applies to its items.
        own = [default] if inner is out and default is not None and default not in written["enum"] else []
        inner["enum"] = [*written["enum"], *own]
    return out


def _case(row: BfclRow, category: str, notes: list[str]) -> JsonObject | None:
    tools = [one["name"] for one in row.functions]
    case: JsonObject = {"prompts": [row.question], "tags": {"category": category}, "tools": tools}
    if category in UNKEYED:
        return case | (_any_call(tools) if category.endswith("_relevance") else _no_call(tools))
    try:
        return case | _keyed(row)
    except BadKey as error:
        notes.append(f"{row.id} is not imported: {error}")
        return None


def _keyed(row: BfclRow) -> JsonObject:
    tools = {one["name"]: one["parameters"] for one in row.functions}
    needs = [needed_call(call, tools) for call in row.key or ()]
    full = [oracle_call(call, tools, is_full=True) for call in row.key or ()]
    least = [oracle_call(call, tools, is_full=False) for call in row.key or ()]
    check_key(least, tools)
    oracles = {"full": {"calls": full, "says": "Done."}, "least": {"calls": least, "says": "Done."}}
    mutants = {
        "mute": _mutant([], "right-calls"),
        "half": _mutant([{one: {}} for call in full for one in call], "right-calls"),
    }
    if not any(need["args"]["exact"] for need in needs):
        del mutants["half"]
    return {
        "budget": {"turns": TURNS + len(needs)},
        "checks": {"right-calls": {"calls": {"need": needs, "order": "any", "extra": "deny"}}},
        "proof": {"oracles": oracles, "mutants": mutants},
    }


def _any_call(tools: Sequence[str]) -> JsonObject:
    """Any call of an offered tool passes, with any arguments: the data has no keys for these rows."""
    oracles = {f"tries-{place}": {"calls": [{tool: {}}], "says": "Done."} for place, tool in enumerate(tools[:3], 1)}
    return {
        "checks": {"some-call": {"calls": {"need": [{"tool": list(tools), "tried": True}]}}},
        "proof": {"oracles": oracles, "mutants": {"mute": _mutant([], "some-call")}},
    }


def _no_call(tools: Sequence[str]) -> JsonObject:
    oracles = {"says-so": {"says": "None of the tools that I have can do that."}}
    mutants = {"calls": _mutant([{tools[0]: {}}] if tools else [{"look": {}}], "abstains")}
    return {"checks": {"abstains": {"abstain": {}}}, "proof": {"oracles": oracles, "mutants": mutants}}


def _mutant(calls: list[JsonObject], kills: str) -> JsonObject:
    return {"calls": calls, "says": "Done.", "kills": [kills]}


def _suite(name: str, category: str, cases: Sequence[tuple[BfclRow, JsonObject]]) -> dict[str, str]:
    """The files of one suite: its text, and the worlds that contain its tools."""
    worlds = _packed([row.functions for row, _ in cases])
    files = {f"worlds/{place}.yaml": _world(place, tools) for place, tools in enumerate(worlds.worlds)}
    head = {
        "suite": name,
        "about": f"BFCL v4, {category}: {len(cases)} cases from its public data.",
        "seed": 4,
        "defaults": {"budget": {"turns": TURNS}},
        "worlds": {f"w{place}": f"worlds/{place}.yaml" for place in range(len(worlds.worlds))},
    }
    rows = {
        row.id: _in_world(case, place) | {"world": f"w{place}"}
        for (row, case), place in zip(cases, worlds.of_case, strict=True)
    }
    files["suite.yaml"] = suite_text.suite_lines(head | {"cases": rows})
    return {f"{name}/{path}": text for path, text in files.items()}


def _world(place: int, tools: Mapping[str, JsonObject]) -> str:
    about = "Functions that respond and do nothing."
    named = {tool.replace(SERVER, _server(place), 1): one for tool, one in tools.items()}
    return suite_text.suite_lines({"world": f"w{place}", "about": about, "tables": {}, "tools": named})


def _in_world(case: JsonObject, place: int) -> JsonObject:
    """The case with the names that its tools have in their world: a tool server belongs to one world."""
    named = {one: one.replace(SERVER, _server(place), 1) for one in case["tools"]} if place else {}
    prompts = case["prompts"]
    renamed: JsonObject = replace_texts(case, named)
    return renamed | {"prompts": prompts}


def _server(place: int) -> str:
    return f"{SERVER}{place}" if place else SERVER


@frozen
class _Packed:
    """Worlds as tools by name, and for each case the index of the world that has its tools."""

    worlds: list[dict[str, JsonObject]]
    of_case: list[int]


def _packed(cases: Sequence[Sequence[JsonObject]]) -> _Packed:
    """Distribute tools to worlds by first fit: functions with the same name and different members need different
    worlds."""
    worlds: list[dict[str, JsonObject]] = []
    of_case: list[int] = []
    for functions in cases:
        tools = {one["name"]: {name: value for name, value in one.items() if name != "name"} for one in functions}
        place = next((n for n, world in enumerate(worlds) if _fits(world, tools)), len(worlds))
        if place == len(worlds):
            worlds.append({})
        worlds[place] |= tools
        of_case.append(place)
    return _Packed(worlds, of_case)


def _fits(world: Mapping[str, JsonObject], tools: Mapping[str, JsonObject]) -> bool:
    return all(world.get(name, tool) == tool for name, tool in tools.items())
