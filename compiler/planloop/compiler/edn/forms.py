"""EDN list forms as fields: `(task "goal" (task …) :cwd "x")`, `(sh "npm test")`, `(def-agent id {…})`.

Everything becomes entries (key, value, source path), which `planloop.compiler.normalise` then reads like the fields of
a map. The heads known at the top: `task`, `plan`, `def-agent-proto`, `def-agent`, `def-proto`; `ns` says nothing and is
skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from planloop.compiler.names import did_you_mean
from planloop.compiler.problems import Pointer, Problems
from planloop.compiler.scalars import is_elision, value_text
from planloop.compiler.source import Form, Keyword, SourcePath, SourceValue, Symbol
from planloop.schemas.checks.kinds import CHECK_KINDS
from planloop.schemas.frozen import frozen

_CHECK_HEADS: Final = {
    name: field.name for field in (kind.field for kind in CHECK_KINDS.values()) for name in (field.name, *field.aliases)
}
_TIER_KEYS: Final = ("allowed-models", "models", "tools", "spawn")
ID_KEYS: Final = ("id", "name")
_TOP_HEADS: Final = ("task", "plan", "def-agent-proto", "def-agent", "def-proto")


@frozen
class FormEntry:
    """One field as written: its key, its value, and where the value stands."""

    key: str
    value: SourceValue
    at: SourcePath


FormRow: TypeAlias = tuple[str | None, SourceValue, SourcePath]


@frozen
class PlacedItems:
    """Items that stand in different places: (id or None, value, path)."""

    rows: tuple[FormRow, ...]


def placed_items(items: Sequence[SourceValue], at: SourcePath) -> PlacedItems:
    """A list of maps that carry their ids, as rows."""
    return PlacedItems(tuple((None, item, (*at, index)) for index, item in enumerate(items)))


def map_entries(value: dict[str, SourceValue], at: SourcePath) -> Iterator[FormEntry]:
    """The fields of a map; what a prototype puts under `defaults` are its own fields, where it does not set them."""
    for key, item in value.items():
        if key != "defaults" or not isinstance(item, dict):
            yield FormEntry(key, item, (*at, key))
    defaults = value.get("defaults")
    if isinstance(defaults, dict):
        own = {key.rpartition("/")[2] for key in value}
        for key, item in defaults.items():
            if key.rpartition("/")[2] not in own:
                yield FormEntry(key, item, (*at, "defaults", key))


def is_tier(value: SourceValue) -> bool:
    """Whether a map at the top of a file is a line of a depth policy: `{:depth 0 :allowed-models […]}`."""
    return isinstance(value, dict) and "depth" in value and any(key in value for key in _TIER_KEYS)


def top_entries(value: SourceValue, faults: Problems) -> list[FormEntry]:
    """The fields of a plan that is not one map: a form, or several forms and maps one after the other."""
    top = _Top(faults)
    if isinstance(value, list):
        for index, item in enumerate(value):
            top.take(item, (index,))
    else:
        top.take(value, ())
    return top.entries()


class _Top:
    """Gathers what several forms say into the fields of one plan."""

    def __init__(self, faults: Problems) -> None:
        self._faults = faults
        self._plain: list[FormEntry] = []
        self._keyed: dict[str, list[FormRow]] = {}
        self._tiers: list[tuple[SourceValue, SourcePath]] = []

    def take(self, item: SourceValue, at: SourcePath) -> None:
        if is_tier(item):
            self._tiers.append((item, at))
        elif isinstance(item, dict):
            self._plain.extend(map_entries(item, at))
        elif isinstance(item, Form):
            self._take_form(item, at)
        else:
            hint = "write a map such as `plan: demo` and `tasks: …`; EDN also takes `(task …)`, or several forms"
            self._faults.add("P0220", f"a plan cannot be {value_text(item)}", hint, to=(), at=at)

    def _take_form(self, form: Form, at: SourcePath) -> None:
        head = form.head.rpartition("/")[2]
        match head:
            case "task" | "plan":
                self._plain.extend(form_entries(form, at, "plan", self._faults, ()) or ())
            case "def-agent-proto" | "def-agent":
                self._define("agents", form, at)
            case "def-proto":
                self._define(_sort_of_prototype(form), form, at)
            case "ns" | "comment":
                pass
            case _:
                self._faults.add(
                    "P0220", f"unknown form here: {value_text(form)}", did_you_mean(head, _TOP_HEADS), to=(), at=at
                )

    def _define(self, field: str, form: Form, at: SourcePath) -> None:
        if len(form.items) != 3 or not isinstance(form.items[1], str) or not isinstance(form.items[2], dict):
            summary = f"`({form.head} …)` takes a name and a map"
            self._faults.add("P0220", summary, f"write `({form.head} name {{…}})`", to=(field,), at=at)
            return
        name = str(form.items[1]).rpartition("/")[2]
        self._keyed.setdefault(field, []).append((name, form.items[2], (*at, 2)))

    def entries(self) -> list[FormEntry]:
        out = list(self._plain)
        out += [FormEntry(field, PlacedItems(tuple(rows)), rows[0][2]) for field, rows in self._keyed.items()]
        if self._tiers:
            tiers = PlacedItems(tuple((None, item, at) for item, at in self._tiers))
            out.append(FormEntry("rights", {"tiers": tiers}, self._tiers[0][1]))
        return out


def _sort_of_prototype(form: Form) -> str:
    body = form.items[2] if len(form.items) > 2 else None
    written = str(form.items[1]) if len(form.items) > 1 else ""
    keys = [*body, *body.get("defaults", {})] if isinstance(body, dict) else []
    if "toolset" in written or any(key.startswith("toolset/") for key in keys):
        return "toolsets"
    return "mixins" if "mixin" in written else "agents"


def form_entries(form: Form, at: SourcePath, table: str, faults: Problems, to: Pointer) -> list[FormEntry] | None:
    """Return the fields of a form that stands for a map of `table`; None, with a problem, if it is invalid there."""
    head = form.head.rpartition("/")[2]
    if table in ("task", "plan") and head in ("task", "plan"):
        return _task_entries(form, at, faults, to, is_named=table == "task")
    if table == "check" and head in _CHECK_HEADS:
        return _check_entries(form, at, _CHECK_HEADS[head], faults, to)
    known = _CHECK_HEADS if table == "check" else ("task",) if table == "task" else ()
    hint = did_you_mean(head, known) if known else "write a map"
    faults.add("P0220", f"unknown form here: {value_text(form)}", hint, to=to, at=at)
    return None


def _task_entries(form: Form, at: SourcePath, faults: Problems, to: Pointer, *, is_named: bool) -> list[FormEntry]:
    out: list[FormEntry] = []
    children: list[FormRow] = []
    index = 1
    while index < len(form.items):
        item, here = form.items[index], (*at, index)
        index += 1
        if isinstance(item, Keyword) and index < len(form.items):
            if not is_named or item.rpartition("/")[2] not in ID_KEYS:
                out.append(FormEntry(str(item), form.items[index], (*at, index)))
            index += 1
        elif isinstance(item, Form):
            children.append((None, item, here))
        elif isinstance(item, dict):
            out.extend(map_entries(item, here))
        elif isinstance(item, str) and not isinstance(item, Keyword | Symbol):
            out.append(FormEntry("goal", item, here))
        elif not is_elision(item):
            hint = 'write a task as `(task "goal" (task …) :field value)`'
            faults.add("P0220", f"{value_text(item)} is not valid in a task", hint, to=to, at=here)
    if children:
        out.append(FormEntry("tasks", PlacedItems(tuple(children)), children[0][2]))
    return out


def _check_entries(form: Form, at: SourcePath, kind: str, faults: Problems, to: Pointer) -> list[FormEntry] | None:
    words: list[tuple[SourceValue, SourcePath]] = []
    extras: list[FormEntry] = []
    index = 1
    while index < len(form.items):
        item, here = form.items[index], (*at, index)
        index += 1
        if isinstance(item, Keyword) and index < len(form.items):
            extras.append(FormEntry(str(item), form.items[index], (*at, index)))
            index += 1
        elif not is_elision(item):
            words.append((item, here))
    if len(words) == 1:
        return [FormEntry(kind, *words[0]), *extras]
    if kind == "sh" and words:
        return [FormEntry(kind, [word for word, _ in words], at), *extras]
    pair = CHECK_KINDS[kind].edn_pair
    if len(words) == 2 and pair is not None:
        parts = {name: word for name, (word, _) in zip(pair, words, strict=True)}
        return [FormEntry(kind, parts, at), *extras]
    faults.add("P0220", f"`({form.head} …)` takes one value", f'write `({form.head} "…")`', to=to, at=at)
    return None


def stated_id(item: SourceValue) -> str | None:
    """The id that an item of a list carries itself; None when it has none."""
    if isinstance(item, Form):
        pairs = zip(item.items[1:], item.items[2:], strict=False)
        found = [value for key, value in pairs if isinstance(key, Keyword) and key.rpartition("/")[2] in ID_KEYS]
    elif isinstance(item, dict):
        found = [value for key, value in item.items() if key.rpartition("/")[2] in ID_KEYS]
    else:
        return None
    return str(found[0]).rpartition("/")[2] if found and isinstance(found[0], str | int) else None


def stated_goal(item: SourceValue) -> str | None:
    """The goal that an item of a list of tasks carries; None when it has none."""
    if isinstance(item, Form) and item.head.rpartition("/")[2] == "task":
        texts = (each for each in item.items[1:] if type(each) is str)
        return next(texts, None)
    if isinstance(item, dict):
        goal = next((value for key, value in item.items() if key.rpartition("/")[2] == "goal"), None)
        return goal if isinstance(goal, str) else None
    return None
