"""Source value → canonical document: maps by id, no aliases or shorthands. Checks types on the way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from planloop.compiler import names
from planloop.compiler.edn import forms
from planloop.compiler.edn.forms import FormEntry, FormRow, PlacedItems
from planloop.compiler.names import list_known, nearest_name
from planloop.compiler.problems import Pointer, Problems
from planloop.compiler.scalars import ELISION, NOTHING, field_name, is_elision, scalar_reader, value_text
from planloop.compiler.source import Form, SourcePath, SourceValue
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.frozen import mutable
from planloop.schemas.spec.field import EitherType, FieldType, ListType, MapType, ScalarType, TableType
from planloop.schemas.spec.tables import TABLE_BY_NAME, fields_by_name

# Field names of Compose, Make, Ansible and CI systems, and the field of a plan that does the same.
#
# They are used in hints only: a plan with one of these names is still refused.

_OF_TASK: Final = {
    "after": "needs",
    "attempts": "retries",
    "bash": "run",
    "chdir": "cwd",
    "checks": "acceptance",
    "cmd": "run",
    "command": "run",
    "depends-on": "needs",
    "depends_on": "needs",
    "dependencies": "needs",
    "dependsOn": "needs",
    "deps": "needs",
    "desc": "goal",
    "description": "goal",
    "dir": "cwd",
    "environment": "env",
    "exec": "run",
    "instructions": "goal",
    "max-retries": "retries",
    "max_retries": "retries",
    "requires": "needs",
    "retry": "retries",
    "shell": "run",
    "tests": "acceptance",
    "timeout-minutes": "timeout",
    "timeout_minutes": "timeout",
    "title": "goal",
    "working-directory": "cwd",
    "working_dir": "cwd",
    "workdir": "cwd",
}
"""What other tools call the fields that a task and the plan share."""
_FOREIGN_FIELDS: Final[dict[str, dict[str, str]]] = {
    "plan": {
        **_OF_TASK,
        "jobs": "tasks",
        "name": "plan",
        "services": "containers",
        "stages": "tasks",
        "steps": "tasks",
    },
    "task": {
        **_OF_TASK,
        "children": "tasks",
        "jobs": "tasks",
        "name": "goal",
        "stages": "tasks",
        "steps": "tasks",
        "subtasks": "tasks",
    },
    "container": {
        "cap_add": "cap-add",
        "command": "cmd",
        "cpus": "limits",
        "depends_on": "needs",
        "environment": "env",
        "healthcheck": "health",
        "logging": "logs",
        "mem_limit": "limits",
        "pids_limit": "limits",
        "volumes": "mounts",
        "working_dir": "workdir",
    },
    "health": {"test": "cmd"},
    "mount": {"source": "host", "target": "container"},
    "port-map": {"published": "host", "target": "container"},
}
_OTHERWISE: Final = {
    "container_name": "a container's name is its key in the plan",
    "deploy": "set limits with `limits: {cpu: 0.5, memory: 512MiB}`",
    "env_file": "name each variable: `env: {NAME: file:path}`, or `secret:NAME`",
    "expose": "containers of a plan can reach each other's ports by name",
    "init": "every container has an init process",
    "network_mode": "use `networks: [none]` for no network, `[internal]` for no outside access",
    "pid": "a container cannot see the processes of this machine",
    "privileged": "a container cannot be privileged; add single capabilities with `cap-add`",
    "security_opt": "processes cannot gain privileges; add single capabilities with `cap-add`",
    "tmpfs": "write `mounts: [{tmpfs: true, container: /tmp}]`",
}
_PORT: Final = re.compile(r"(?:[\d.]+:)?(\d+):(\d+)(?:/tcp)?", re.ASCII)
_MOUNT: Final = re.compile(r"([^:]+):(/[^:]*)(?::(ro|rw|z|Z))?")


def field_for_foreign_name(table: str, name: str) -> str:
    """Return the field of `table` that other tools call `name`; empty for an unknown name."""
    return _FOREIGN_FIELDS.get(table, {}).get(name, "")


def docker_hint(table: str, name: str) -> str:
    """How a plan does what a field of Compose does that has no like; empty for others."""
    return _OTHERWISE.get(name, "") if table == "container" else ""


def docker_value_as_map(table: str, value: SourceValue) -> str:
    """A port or mount that is written as for `docker run`, as a map; empty for what is neither."""
    if table == "port-map" and isinstance(value, int):
        return f"{{container: {value}}}"
    if table == "port-map" and isinstance(value, str) and (port := _PORT.fullmatch(value)):
        return f"{{host: {port[1]}, container: {port[2]}}}"
    if table == "mount" and isinstance(value, str) and (mount := _MOUNT.fullmatch(value)):
        kind = "host" if mount[1].startswith(("/", ".", "~")) else "volume"
        return f"{{{kind}: {mount[1]}, container: {mount[2]}{', read-only: true' if mount[3] == 'ro' else ''}}}"
    return ""


# Source value → canonical document: maps by id, no aliases, no shorthands, plain JSON. Types are checked on the way.
#
# Driven by the tables of `planloop.schemas.spec.field*`. An invalid value is reported and left out, so that nothing
# follows from it. Normalising a document gives the same document. EDN's list spelling is opened by
# `planloop.compiler.edn.forms`.

_NAMESPACED: Final = {"deny/tools": "deny", "toolset/tools": "tools"}
_MAP_HINT: Final = "write `name: value` lines below it"


@mutable
class Normalisation:
    """What one normalising gathers: problems, and where in the source each moved value came from."""

    faults: Problems
    moved: dict[Pointer, SourcePath | None]


ValueReader = Callable[[SourceValue, SourcePath, Pointer, Normalisation], Any]


def normalise_document(value: SourceValue, table: str, work: Normalisation) -> JsonObject:
    """The document in `value`, which may be a map, a form or a list of forms; what is wrong with it is left out."""
    if type(value) is dict and not forms.is_tier(value):
        found = _table_reader(table)(value, (), (), work)
        return found if isinstance(found, dict) else {}
    entries = forms.top_entries(value, work.faults)
    return _read_entries(table, entries, (), work)


@cache
def reader_for_type(type_: FieldType) -> ValueReader:
    """The reader for a declared type."""
    match type_:
        case ScalarType():
            return _scalar_reader(type_)
        case ListType():
            return _many_reader(type_)
        case MapType():
            return _keyed_reader(type_)
        case TableType():
            return _table_reader(type_.name, type_.short)
        case EitherType():
            return _either_reader(type_)


def _scalar_reader(type_: ScalarType) -> ValueReader:
    read_plain = scalar_reader(type_)

    def read(value: SourceValue, at: SourcePath, to: Pointer, work: Normalisation) -> Any:
        if is_elision(value):
            return _elided(at, to, work)
        return read_plain(value, at, to, work.faults)

    def read_text(value: SourceValue, at: SourcePath, to: Pointer, work: Normalisation) -> Any:
        return value if type(value) is str else read(value, at, to, work)

    is_text = type_.kind in ("text", "word", "pattern", "loose") and not type_.choices
    return read_text if is_text else read


def _elided(at: SourcePath, to: Pointer, work: Normalisation) -> Any:
    work.faults.warn("P0219", f"`{field_name(to)}` contains `...`, a placeholder for a missing part", to=to, at=at)
    return NOTHING


def _many_reader(type_: ListType) -> ValueReader:
    read_item = reader_for_type(type_.item)

    def read(value: SourceValue, at: SourcePath, to: Pointer, work: Normalisation) -> Any:
        if type(value) is list:
            return _read_items(read_item, value, at, to, work)
        if isinstance(value, PlacedItems):
            rows = [(item, there) for _, item, there in value.rows]
        elif value is None:
            return _valueless(to, at, work)
        else:
            rows = [(value, at)]
        out: list[Any] = []
        for item, there in rows:
            work.moved[(*to, str(len(out)))] = there
            found = read_item(item, there, (*to, str(len(out))), work)
            if found is not NOTHING:
                out.append(found)
        return out or NOTHING

    return read


def _read_items(
    read_item: ValueReader, value: list[SourceValue], at: SourcePath, to: Pointer, work: Normalisation
) -> list[Any]:
    out: list[Any] = []
    for index, item in enumerate(value):
        if is_elision(item):
            _elided((*at, index), to, work)
            continue
        here = (*to, str(len(out)))
        if len(out) != index:
            work.moved[here] = (*at, index)
        found = read_item(item, (*at, index), here, work)
        if found is not NOTHING:
            out.append(found)
    return out


def _valueless(to: Pointer, at: SourcePath, work: Normalisation) -> Any:
    hint = "add a value, or delete the line"
    work.faults.on_key("P0202", f"`{field_name(to)}` has no value", hint, to=to, at=at)
    return NOTHING


def _keyed_reader(type_: MapType) -> ValueReader:
    read_item = reader_for_type(type_.value)

    def read(value: SourceValue, at: SourcePath, to: Pointer, work: Normalisation) -> Any:
        if value is None:
            return _valueless(to, at, work)
        if type(value) is dict:
            if not (all(map(names.is_valid_id, value)) if type_.is_id else ELISION not in value):
                value = _with_good_keys(value, at, to, work, is_id=type_.is_id)
            pairs = ((key, read_item(item, (*at, key), (*to, key), work)) for key, item in value.items())
            return {key: found for key, found in pairs if found is not NOTHING}
        if not isinstance(value, list | PlacedItems) or not type_.is_id:
            work.faults.add(
                "P0202", f"`{field_name(to)}` must be a map, not {value_text(value)}", _MAP_HINT, to=to, at=at
            )
            return NOTHING
        rows = value if isinstance(value, PlacedItems) else forms.placed_items(value, at)
        return _read_rows(read_item, rows, to, work)

    return read


def _with_good_keys(
    value: dict[str, SourceValue], at: SourcePath, to: Pointer, work: Normalisation, *, is_id: bool
) -> dict[str, SourceValue]:
    out: dict[str, SourceValue] = {}
    for key, item in value.items():
        if key == ELISION:
            _elided((*at, key), to, work)
        elif is_id and not names.is_valid_id(key):
            _bad_id(key, (*at, key), (*to, key), work)
        else:
            out[key] = item
    return out


def _read_rows(read_item: ValueReader, items: PlacedItems, to: Pointer, work: Normalisation) -> JsonObject:
    out: JsonObject = {}
    for name, item, there in items.rows:
        if is_elision(item):
            _elided(there, to, work)
            continue
        id_ = _id_of((name, item, there), to, work, out)
        if id_ is None:
            continue
        here = (*to, id_)
        work.moved[here] = there
        found = read_item(_without_id(item), there, here, work)
        if found is not NOTHING:
            out[id_] = found
    return out


def _bad_id(key: str, at: SourcePath, to: Pointer, work: Normalisation) -> None:
    work.faults.on_key("P0207", f"invalid id `{key}`", names.id_hint(key), to=to, at=at)


def _id_of(row: FormRow, to: Pointer, work: Normalisation, taken: JsonObject) -> str | None:
    name, item, at = row
    given = name if name is not None else forms.stated_id(item)
    if given is None:
        return _made_id(item, at, to, work, taken)
    if not names.is_valid_id(given):
        _bad_id(given, at, (*to, given), work)
        return None
    if given in taken:
        summary = f"duplicate id `{given}`"
        work.faults.add("P0208", summary, "rename one: ids must be unique among siblings", to=(*to, given), at=at)
        return None
    return given


def _made_id(item: SourceValue, at: SourcePath, to: Pointer, work: Normalisation, taken: JsonObject) -> str | None:
    goal = forms.stated_goal(item)
    base = names.id_from_goal(goal) if goal else ""
    if not base:
        what = to[-1].removesuffix("s") if to else "item"
        hint = "add `id:`"
        if what == "hook" and isinstance(item, str):
            hint = (
                f"to use a hook by name, write `agent: {{hooks: [{item}]}}`; here, write a map with an id for each hook"
            )
        work.faults.add("P0207", f"this {what} has no id", hint, to=to, at=at)
        return None
    made, number = base, 2
    while made in taken:
        made, number = f"{base}-{number}", number + 1
    return made


def _without_id(item: SourceValue) -> SourceValue:
    if type(item) is not dict:
        return item
    return {key: value for key, value in item.items() if key.rpartition("/")[2] not in forms.ID_KEYS}


@cache
def _rows(table: str) -> dict[str, tuple[str, ValueReader]]:
    return {name: (field.name, reader_for_type(field.type)) for name, field in fields_by_name(table).items()}


@cache
def _canonical_names(table: str) -> frozenset[str]:
    return frozenset(field.name for field in TABLE_BY_NAME[table].fields)


def _table_reader(table: str, short: str = "") -> ValueReader:
    def read(value: SourceValue, at: SourcePath, to: Pointer, work: Normalisation) -> Any:
        if type(value) is not dict:
            return _read_other(value, at, to, work)
        rows = _rows(table)
        if not value.keys() <= _canonical_names(table):
            return _read_entries(table, forms.map_entries(value, at), to, work)
        out: JsonObject = {}
        for key, item in value.items():
            found = rows[key][1](item, (*at, key), (*to, key), work)
            if found is not NOTHING:
                out[key] = found
        return out

    def _read_other(value: SourceValue, at: SourcePath, to: Pointer, work: Normalisation) -> Any:
        if isinstance(value, Form):
            entries = forms.form_entries(value, at, table, work.faults, to)
            return NOTHING if entries is None else _read_entries(table, entries, to, work)
        if short and value is not None and not isinstance(value, bool):
            return _read_entries(table, [FormEntry(short, value, at)], to, work)
        if value is None:
            return _valueless(to, at, work)
        form = docker_value_as_map(table, value) or TABLE_BY_NAME[table].form
        hint = f"as in `{form}`" if form else _MAP_HINT
        work.faults.add("P0202", f"`{field_name(to)}` must be a map, not {value_text(value)}", hint, to=to, at=at)
        return NOTHING

    return read


def _read_entries(table: str, entries: Iterable[FormEntry], to: Pointer, work: Normalisation) -> JsonObject:
    """Reads fields one by one, whatever their spelling, and notes where each came from."""
    rows = _rows(table)
    out: JsonObject = {}
    for entry in entries:
        if entry.key == ELISION:
            _elided(entry.at, to, work)
            continue
        row = rows.get(entry.key) or rows.get(_plain_key(entry.key, rows))
        if row is None:
            _keep_setting_or_complain(table, entry, to, work, out)
            continue
        name, read = row
        here = (*to, name)
        if name in out:
            summary = f"duplicate field `{name}`" + (f", also as `{entry.key}`" if entry.key != name else "")
            work.faults.on_key("P0209", summary, "keep one", to=here, at=entry.at)
            continue
        if entry.at[-1:] != (name,):
            work.moved[here] = entry.at
        found = _valueless(here, entry.at, work) if entry.value is None else read(entry.value, entry.at, here, work)
        if found is not NOTHING:
            out[name] = found
    return out


def _plain_key(key: str, rows: dict[str, tuple[str, ValueReader]]) -> str:
    if "/" not in key:
        return key
    plain = _NAMESPACED.get(key) or key.rpartition("/")[2]
    return plain if plain in rows else key


def _keep_setting_or_complain(table: str, entry: FormEntry, to: Pointer, work: Normalisation, out: JsonObject) -> None:
    mixin, slash, name = entry.key.partition("/")
    if slash and table == "agent":
        # `:trace/enabled true` in a prototype's defaults is a setting of the mixin `trace`.
        read = reader_for_type(ScalarType("any"))
        here = (*to, "settings", mixin, name)
        found = read(entry.value, entry.at, here, work)
        work.moved[here] = entry.at
        if found is not NOTHING:
            out.setdefault("settings", {}).setdefault(mixin, {})[name] = found
        return
    theirs = field_for_foreign_name(table, entry.key)
    near = theirs or (None if work.faults.are_many else nearest_name(entry.key, fields_by_name(table)))
    hint = docker_hint(table, entry.key)
    if table in ("task", "plan") and entry.key in fields_by_name("agent"):
        hint = f"`{entry.key}` is a field of the agent: `agent: {{{entry.key}: …}}`"
    if not hint and near:
        hint = f"did you mean `{near}`?"
    hint = hint or list_known([row.name for row in TABLE_BY_NAME[table].fields])
    article = "an" if table[0] in "aeiou" else "a"
    where = f"`{table}`" if table.endswith("s") else f"{article} {table}"  # `limits` and `contains` take no article.
    work.faults.on_key("P0201", f"{where} has no field `{entry.key}`", hint, to=(*to, entry.key), at=entry.at)


def _either_reader(type_: EitherType) -> ValueReader:
    read_plain = reader_for_type(type_.plain) if type_.plain else None
    read_items = reader_for_type(type_.items) if type_.items else None
    read_map = reader_for_type(type_.map) if type_.map else None
    allowed = [
        words
        for words, read in (("a plain value", read_plain), ("a list", read_items), ("a map", read_map))
        if read is not None
    ]

    def read(value: SourceValue, at: SourcePath, to: Pointer, work: Normalisation) -> Any:
        if value is None:
            return _valueless(to, at, work)
        if is_elision(value):
            return _elided(at, to, work)
        chosen = read_items if isinstance(value, list) else read_map if isinstance(value, dict | Form) else read_plain
        if chosen is None:
            summary = f"`{field_name(to)}` must be {' or '.join(allowed)}, not {value_text(value)}"
            work.faults.add("P0202", summary, f"write {' or '.join(allowed)} here", to=to, at=at)
            return NOTHING
        return chosen(value, at, to, work)

    return read
