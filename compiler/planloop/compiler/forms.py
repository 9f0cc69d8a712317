"""EDN's list spelling as fields: `(task "goal" (task …) :cwd "x")`, `(sh "npm test")`, `(def-agent id {…})`.

Everything becomes entries (key, value, source path), which `normalising.py` then reads like the fields of a map. The
heads known at the top: `task`, `plan`, `def-agent-proto`, `def-agent`, `def-proto`; `ns` says nothing and is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from planloop.compiler.faults import Faults, Pointer
from planloop.compiler.scalars import is_elision, shown
from planloop.compiler.suggesting import did_you_mean
from planloop.compiler.syntax import Form, Keyword, Path, SourceValue, Symbol
from planloop.schemas.fields_checks import KIND_FIELDS
from planloop.schemas.frozen import frozen

_CHECK_HEADS: Final = {name: field.name for field in KIND_FIELDS for name in (field.name, *field.aliases)}
_TWO_PARTS: Final = {"contains": ("path", "text"), "run-in": ("container", "sh"), "json": ("path", "subset")}
_TIER_KEYS: Final = ("allowed-models", "models", "tools", "spawn")
ID_KEYS: Final = ("id", "name")
_TOP_HEADS: Final = ("task", "plan", "def-agent-proto", "def-agent", "def-proto")


@frozen
class Entry:
    """One field as written: its key, its value, and where the value stands."""

    key: str
    value: SourceValue
    at: Path


Row: TypeAlias = tuple[str | None, SourceValue, Path]


@frozen
class Placed:
    """Items that stand in different places: (id or None, value, path)."""

    rows: tuple[Row, ...]


def placed_items(items: Sequence[SourceValue], at: Path) -> Placed:
    """A list of maps that carry their ids, as rows."""
    return Placed(tuple((None, item, (*at, index)) for index, item in enumerate(items)))


def map_entries(value: dict[str, SourceValue], at: Path) -> Iterator[Entry]:
    """The fields of a map; what a prototype puts under `defaults` are its own fields, where it does not set them."""
    for key, item in value.items():
        if key != "defaults" or not isinstance(item, dict):
            yield Entry(key, item, (*at, key))
    defaults = value.get("defaults")
    if isinstance(defaults, dict):
        own = {key.rpartition("/")[2] for key in value}
        for key, item in defaults.items():
            if key.rpartition("/")[2] not in own:
                yield Entry(key, item, (*at, "defaults", key))


def is_tier(value: SourceValue) -> bool:
    """Whether a map at the top of a file is a line of a depth policy: `{:depth 0 :allowed-models […]}`."""
    return isinstance(value, dict) and "depth" in value and any(key in value for key in _TIER_KEYS)


def top_entries(value: SourceValue, faults: Faults) -> list[Entry]:
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

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._plain: list[Entry] = []
        self._keyed: dict[str, list[Row]] = {}
        self._tiers: list[tuple[SourceValue, Path]] = []

    def take(self, item: SourceValue, at: Path) -> None:
        if is_tier(item):
            self._tiers.append((item, at))
        elif isinstance(item, dict):
            self._plain.extend(map_entries(item, at))
        elif isinstance(item, Form):
            self._take_form(item, at)
        else:
            hint = "a plan is a map, as in `plan: demo` and `tasks: …`; in EDN also `(task …)`, or several forms"
            self._faults.add("P0220", f"a plan cannot be {shown(item)}", hint, to=(), at=at)

    def _take_form(self, form: Form, at: Path) -> None:
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
                    "P0220", f"{shown(form)} is not known here", did_you_mean(head, _TOP_HEADS), to=(), at=at
                )

    def _define(self, field: str, form: Form, at: Path) -> None:
        if len(form.items) != 3 or not isinstance(form.items[1], str) or not isinstance(form.items[2], dict):
            summary = f"`({form.head} …)` takes a name and a map"
            self._faults.add("P0220", summary, f"as in `({form.head} name {{…}})`", to=(field,), at=at)
            return
        name = str(form.items[1]).rpartition("/")[2]
        self._keyed.setdefault(field, []).append((name, form.items[2], (*at, 2)))

    def entries(self) -> list[Entry]:
        out = list(self._plain)
        out += [Entry(field, Placed(tuple(rows)), rows[0][2]) for field, rows in self._keyed.items()]
        if self._tiers:
            tiers = Placed(tuple((None, item, at) for item, at in self._tiers))
            out.append(Entry("rights", {"tiers": tiers}, self._tiers[0][1]))
        return out


def _sort_of_prototype(form: Form) -> str:
    body = form.items[2] if len(form.items) > 2 else None
    written = str(form.items[1]) if len(form.items) > 1 else ""
    keys = [*body, *body.get("defaults", {})] if isinstance(body, dict) else []
    if "toolset" in written or any(key.startswith("toolset/") for key in keys):
        return "toolsets"
    return "mixins" if "mixin" in written else "agents"


def form_entries(form: Form, at: Path, table: str, faults: Faults, to: Pointer) -> list[Entry] | None:
    """The fields of a form where a map of `table` is meant; None, with a fault, when it makes no sense there."""
    head = form.head.rpartition("/")[2]
    if table in ("task", "plan") and head in ("task", "plan"):
        return _task_entries(form, at, faults, to, is_named=table == "task")
    if table == "check" and head in _CHECK_HEADS:
        return _check_entries(form, at, _CHECK_HEADS[head], faults, to)
    known = _CHECK_HEADS if table == "check" else ("task",) if table == "task" else ()
    hint = did_you_mean(head, known) if known else "write a map"
    faults.add("P0220", f"{shown(form)} is not known here", hint, to=to, at=at)
    return None


def _task_entries(form: Form, at: Path, faults: Faults, to: Pointer, *, is_named: bool) -> list[Entry]:
    out: list[Entry] = []
    children: list[Row] = []
    index = 1
    while index < len(form.items):
        item, here = form.items[index], (*at, index)
        index += 1
        if isinstance(item, Keyword) and index < len(form.items):
            if not is_named or item.rpartition("/")[2] not in ID_KEYS:
                out.append(Entry(str(item), form.items[index], (*at, index)))
            index += 1
        elif isinstance(item, Form):
            children.append((None, item, here))
        elif isinstance(item, dict):
            out.extend(map_entries(item, here))
        elif isinstance(item, str) and not isinstance(item, Keyword | Symbol):
            out.append(Entry("goal", item, here))
        elif not is_elision(item):
            hint = 'a task is `(task "goal" (task …) :field value)`'
            faults.add("P0220", f"{shown(item)} makes no sense in a task", hint, to=to, at=here)
    if children:
        out.append(Entry("tasks", Placed(tuple(children)), children[0][2]))
    return out


def _check_entries(form: Form, at: Path, kind: str, faults: Faults, to: Pointer) -> list[Entry] | None:
    words: list[tuple[SourceValue, Path]] = []
    extras: list[Entry] = []
    index = 1
    while index < len(form.items):
        item, here = form.items[index], (*at, index)
        index += 1
        if isinstance(item, Keyword) and index < len(form.items):
            extras.append(Entry(str(item), form.items[index], (*at, index)))
            index += 1
        elif not is_elision(item):
            words.append((item, here))
    if len(words) == 1:
        return [Entry(kind, *words[0]), *extras]
    if kind == "sh" and words:
        return [Entry(kind, [word for word, _ in words], at), *extras]
    if len(words) == 2 and kind in _TWO_PARTS:
        parts = {name: word for name, (word, _) in zip(_TWO_PARTS[kind], words, strict=True)}
        return [Entry(kind, parts, at), *extras]
    faults.add("P0220", f"`({form.head} …)` takes one value", f'as in `({form.head} "…")`', to=to, at=at)
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
