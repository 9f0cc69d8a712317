"""Parse what a person types into an object address, a path in the plan document, and a value.

`task/a/b` and `a/b` are a task, `task/a/goal` is its field, `task/a/budget.usd` a field within a field. Looking things
up is not done here: what the words mean does not depend on what there is.
"""

from __future__ import annotations

from collections.abc import Iterable

from planloop.client.exit_codes import CommandError, ExitCode
from planloop.schemas import json_pointer
from planloop.schemas.address import KINDS
from planloop.schemas.canonical_json import Json, JsonObject, decode
from planloop.schemas.json_patch import PatchOp


def parse_kind(word: str) -> str | None:
    """The kind that `word` names in singular or plural; None when it names none.

    There are no short names: `a` and `c` are what people call tasks.
    """
    if word in KINDS:
        return word
    if word in ("server", "servers"):
        return "mcp"
    return word[:-1] if word.endswith("s") and word[:-1] in KINDS else None


def resolve_address(word: str, kind: str = "task") -> str:
    """Return the address: `task/a/b` unchanged, `a/b` as a task, `.` as the root task. Raises CommandError."""
    head, slash, rest = word.partition("/")
    named = parse_kind(head)
    if named is not None and slash and rest:
        return f"{named}/{rest}"
    if not word or not all(word.split("/")):
        raise CommandError(
            ExitCode.USAGE, f"`{word}` does not name an object", f"write {kind}/NAME, or {kind}/PARENT/NAME"
        )
    return f"{kind}/{word}"


def field_path(address: str, field: str) -> tuple[str, ...]:
    """The path in the document of a field of an object: `task/a/b` and `budget.usd`. Raises CommandError."""
    kind, _, path = address.partition("/")
    names = () if path == "." else tuple(path.split("/"))
    fields = tuple(field.split(".")) if field else ()
    match kind:
        case "task":
            return (*json_pointer.task_pointer(names), *fields)
        case "agent":
            return (*json_pointer.task_pointer(names), "agent", *fields)
        case "container":
            return ("containers", *names, *fields)
        case "hook":
            return (*json_pointer.task_pointer(names[:-1]), "hooks", *names[-1:], *fields)
    raise CommandError(
        ExitCode.USAGE, f"a {kind} is not part of the plan document", "patch a task, an agent, a container or a hook"
    )


def named_field(text: str) -> tuple[str, ...]:
    """The path of the field that `task/a/b/goal`, `a/goal`, the root's `goal` or `/tasks/a/goal` names. Raises
    CommandError.
    """
    if text.startswith("/"):
        return json_pointer.parse_pointer(text)
    head, _, field = text.rpartition("/")
    if not head and _is_field_of_root(field):
        return field_path("task/.", field)
    if not head or not field:
        task, _, rest = text.removeprefix("task/").partition(".")
        raise CommandError(
            ExitCode.USAGE, f"`{text}` does not name a field of a task", f"write task/{task or '.'}/{rest or 'goal'}"
        )
    return field_path(resolve_address("task/." if head == "task" else head), field)


def _is_field_of_root(field: str) -> bool:
    from planloop.schemas.spec.tables import fields_by_name

    return field.partition(".")[0] in fields_by_name("plan")


def parse_value(text: str) -> Json:
    """`40`, `true`, `null`, `[1, 2]` and `{"a": 1}` as JSON says; anything else is text."""
    try:
        return decode(text)
    except ValueError:
        return text


def parse_setting(document: JsonObject, path: tuple[str, ...], value: Json) -> PatchOp:
    """The operation that sets the field at `path`.

    Maps on the way that are not there yet are added with it in them, but never a task: its name may be a slip.
    """
    field = json_pointer.pointer_owner(path)[1]
    for _ in field[1:]:
        if json_pointer.has_value(document, path[:-1]):
            break
        path, value = path[:-1], {path[-1]: value}
    return PatchOp("add", path, value)


def parse_answer(parts: Iterable[str]) -> JsonObject:
    """`name=Ada`, `age=36` as a map. A value is JSON where it reads as a number, a flag or a list. Raises
    CommandError.
    """
    out: JsonObject = {}
    for part in parts:
        name, equals, text = part.partition("=")
        if not equals or not name:
            raise CommandError(ExitCode.USAGE, f"`{part}` is not a valid answer", "write name=value")
        value = parse_value(text)
        out[name] = text if isinstance(value, dict) else value
    return out
