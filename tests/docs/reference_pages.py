"""The generated pages of docs/reference: fields of plans, error codes, the HTTP API, exit codes and limits.

Each page is made from the data that the product itself uses: the field tables behind `plan explain` and the JSON
Schema, the codes, `openapi.json`, `ExitCode` and `planloop.schemas.limits`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from planloop.client.exit_codes import ExitCode
from planloop.compiler.error_advice import PLAN_ADVICE, READING_ADVICE, RIGHTS_ADVICE, SUITE_ADVICE
from planloop.compiler.error_codes import CODES, STOPS_APPLY
from planloop.compiler.explain import CHANGES, describe_type
from planloop.compiler.read import format_yaml
from planloop.schemas import limits
from planloop.schemas.spec.field import Field, FieldTable
from planloop.schemas.spec.tables import TABLE_BY_NAME, TABLES
from tests.architecture.tree import ROOT

FOLDER: Final = ROOT / "docs" / "reference"
Pages = Mapping[str, str]
"""Texts by path below `FOLDER`."""


def all_pages() -> Pages:
    """Every page that this module makes."""
    return {
        **field_pages(),
        "errors/index.md": errors_page(),
        "api-operations.md": operations_page(),
        "api-schemas.md": schemas_page(),
        "exit-codes.md": exit_codes_page(),
        "limits.md": limits_page(),
    }


# Fields.

SECTIONS: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "plan": ("Fields of a plan", "The top of a plan file, and what its tasks share.", ("plan", "library", "limits")),
    "task": (
        "Fields of a task",
        "A task is a goal, and the command, agent or child tasks that reach it.",
        ("task", "budget", "lock", "heal", "fork", "granted", "case"),
    ),
    "check": (
        "Fields of checks",
        "A check decides whether a task is done. `acceptance` is a list of checks.",
        (
            "check", "contains", "json", "http", "http-step", "http-send", "http-expect", "http-repeat", "port",
            "run-in", "web", "ws", "ws-discover", "ws-frame",
        ),
    ),
    "agent": (
        "Fields of an agent",
        "An agent works on a task by calling tools. `agents` holds prototypes; `agent` of a task names one or is one.",
        (
            "agent", "step", "when", "expect", "toolset", "topology", "wake", "outside", "escalate", "compact",
            "sandbox",
        ),
    ),
    "rights": ("Fields of rights", "What an agent may use, and pass on to its children.", ("rights", "grant")),
    "hook": (
        "Fields of a hook",
        "A hook watches agents at fixed points, and may comment, allow, deny or change what they do.",
        ("hook", "hook-agent", "hook-transcript", "expires"),
    ),
    "mixin": (
        "Fields of a mixin",
        "A mixin is a named set of fields and steps that agents add to their own.",
        ("mixin", "before", "around", "after", "retry", "concurrency-limit", "cache"),
    ),
    "model": (
        "Fields of models and tool servers",
        "`models` configures providers and models, `mcp` tool servers.",
        ("model-config", "price", "mcp"),
    ),
    "container": (
        "Fields of a container",
        "`containers` declares the containers that planloop starts and keeps healthy.",
        (
            "container", "container-build", "mount", "port-map", "health", "container-limits", "container-logs",
        ),
    ),
    "suite": (
        "Fields of a benchmark suite",
        "A suite is a file of its own, which `plan bench` reads.",
        tuple(name for name in TABLE_BY_NAME if name not in TABLES and not name.startswith("world")),
    ),
    "world": (
        "Fields of a simulated world",
        "A world is a file of tables and tools. A plan uses it as a tool server.",
        tuple(name for name in TABLE_BY_NAME if name.startswith("world")),
    ),
}  # fmt: skip
"""Page, its title, its subject, and its tables."""

PAGE_OF: Final = {table: page for page, (_, _, tables) in SECTIONS.items() for table in tables}


def field_pages() -> Pages:
    """An index of all fields, and a page for each section of the plan language."""
    pages = {f"fields/{page}.md": _section(page) for page in SECTIONS}
    rows = [
        f"| [{title}]({page}.md) | {', '.join(f'[`{name}`]({page}.md#{name})' for name in tables)} |"
        for page, (title, _, tables) in SECTIONS.items()
    ]
    text = [
        "# Fields",
        "Every field that a plan file, a suite or a world may have, with its type, its default and what a change of it "
        "does to running work. `plan explain FIELD` prints the same, `plan schema` prints it as JSON Schema.",
        "\n".join(["| page | maps |", "| --- | --- |", *rows]),
    ]
    return {"fields/index.md": _joined(text), **pages}


def _section(page: str) -> str:
    title, about, tables = SECTIONS[page]
    parts = [f"# {title}", about]
    for name in tables:
        parts += _table(TABLE_BY_NAME[name], page)
    return _joined(parts)


def _table(table: FieldTable, page: str) -> Iterator[str]:
    yield f"## {table.name}"
    yield table.doc
    for group in table.one_of:
        yield f"Exactly one of {', '.join(f'`{name}`' for name in group)} is required."
    for field in table.fields:
        yield f"### {table.name}.{field.name}"
        yield field.doc
        yield "\n".join(_facts(table, field, page))
        yield f"```yaml\n{format_yaml({field.name: field.example}).strip()}\n```"


def _facts(table: FieldTable, field: Field, page: str) -> Iterator[str]:
    yield f"- Type: {_linked(describe_type(field.type), page)}"
    if field.default is not None:
        yield f"- Default: `{json.dumps(field.default, ensure_ascii=False)}`"
    if field.aliases:
        yield f"- Alias: {', '.join(f'`{name}`' for name in field.aliases)}"
    if table.name in TABLES:
        yield f"- On edit: {CHANGES[field.change]}"


def _linked(words: str, page: str) -> str:
    """`words` with the tables that they name as links."""

    def link(found: re.Match[str]) -> str:
        there = PAGE_OF[found[1]]
        return f"[{found[1]}]({'' if there == page else f'{there}.md'}#{found[1]}) map"

    return re.sub(r"`([a-z-]+)` map", link, words.replace(" | ", ", "))


# Error codes.

GROUPS: Final = (
    ("Reading a file", READING_ADVICE),
    ("The plan", PLAN_ADVICE),
    ("Rights and limits", RIGHTS_ADVICE),
    ("Suites", SUITE_ADVICE),
)


def errors_page() -> str:
    """An index of the codes of diagnostics."""
    parts = [
        "# Error codes",
        "Each problem in a plan file has a code. Codes keep their meaning. `plan explain CODE` prints its page. "
        "Codes marked † are warnings of `plan validate` and `plan diff`; `plan apply` refuses to start such a plan.",
    ]
    for title, advice in GROUPS:
        rows = [f"| [{code}]({code}.md){' †' if code in STOPS_APPLY else ''} | {CODES[code]} |" for code in advice]
        parts += [f"## {title}", "\n".join(["| code | problem |", "| --- | --- |", *rows])]
    return _joined(parts)


# Exit codes.

EXIT_CODES: Final = {
    ExitCode.DONE: "The command did what it was asked to do.",
    ExitCode.FAILED: "The command failed. For `plan diff`: the file and the live plan differ. If `plan diff` fails, "
    "its code is above 1.",
    ExitCode.USAGE: "The command line is wrong.",
    ExitCode.INVALID: "The plan file has errors.",
    ExitCode.CONFLICT: "The plan has changed since it was read, or another process is running it.",
    ExitCode.REFUSED: "Refused by rights, a protected object or a budget.",
    ExitCode.NOT_FOUND: "A plan, object or file does not exist.",
    ExitCode.CANCELLED: "The command was cancelled.",
    ExitCode.TIMEOUT: "The command did not finish in time.",
    ExitCode.FINISHED_WITH_FAILURES: "The plan has finished, and tasks have failed.",
    ExitCode.BUG: "Internal error. Report it with the output of `plan version`.",
}


def exit_codes_page() -> str:
    """What each exit code of the command means."""
    rows = [f"| {int(code)} | {EXIT_CODES[code]} |" for code in ExitCode]
    return _joined(
        [
            "# Exit codes",
            "Every command of `plan` ends with one of these codes. They do not change between versions. Code 7 is not "
            "used.",
            "\n".join(["| code | meaning |", "| --- | --- |", *rows]),
            "An error is printed on stderr as `error:` lines, followed by `help:` lines that say what to do.",
        ]
    )


# Limits.

UNITS: Final = {"BYTES": "bytes", "S": "s", "CHARS": "characters", "USD": "USD", "TOKENS": "tokens"}


def limits_page() -> str:
    """Every constant of `planloop.schemas.limits` with its value and its reason."""
    parts = [
        "# Limits",
        "Every bound of planloop, by its name in "
        "[limits.py](https://github.com/planloop/planloop/blob/main/schemas/planloop/schemas/limits.py), with value "
        "and reason. If a plan can set a value, this is the default.",
    ]
    rows: list[str] = []
    for line in (ROOT / "schemas/planloop/schemas/limits.py").read_text().splitlines():
        if line.startswith("# "):
            rows = ["| limit | value | reason |", "| --- | --- | --- |"]
            parts += [f"## {line[2:].rstrip('.')}", ""]
        elif found := re.match(r"([A-Z][A-Z0-9_]*)\b[^=#]*=[^#]*(?:# (.*))?$", line):
            value = getattr(limits, found[1])
            if isinstance(value, int | float | Decimal) and rows:
                rows.append(f"| `{found[1]}` | {_measured(found[1], value)} | {_cell(found[2] or '')} |")
                parts[-1] = "\n".join(rows)
    return _joined([part for part in parts if part])


def _measured(name: str, value: float | Decimal) -> str:
    words = [word for word in name.split("_") if word in UNITS]
    unit = words[-1] if words else ""
    if unit == "BYTES":
        for size, label in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
            if value >= size and value % size == 0:
                return f"{int(value // size)} {label}"
    return f"{value:,g} {UNITS[unit]}".strip() if unit else (f"{value:,}" if isinstance(value, int) else f"{value:g}")


# The HTTP API.

AREAS: Final = (
    ("Server", "/v1/"),
    ("Benchmarks", "/v1/suites /v1/runs /v1/comparison"),
    ("Read a plan", "GET /v1/plans/{plan}/"),
    ("Change a plan", "POST /v1/plans/{plan}/"),
    ("Edit a plan as text", "/v1/plans/{plan}/edit"),
    ("Containers", "/v1/plans/{plan}/containers/"),
)


def _openapi() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((ROOT / "server/planloop/server/api/openapi.json").read_text())
    return read


def operations_page() -> str:
    """Every operation of `openapi.json`: parameters, body and answers."""
    description = _openapi()
    areas: dict[str, list[str]] = {title: [] for title, _ in AREAS}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            areas[_area(method.upper(), path)] += _operation(f"{method.upper()} {path}", operation)
    statuses = [
        f"| {status} | {_cell(found['description'])} |"
        for status, found in description["components"]["responses"].items()
    ]
    parts = [
        "# HTTP API: operations",
        "Every request that `plan serve` answers, from its description `/v1/openapi.json` (OpenAPI 3.1). "
        "[The API](api.md) shows requests and answers of a real plan, and explains tokens, revisions and errors.",
        "\n".join(["| error status | meaning |", "| --- | --- |", *statuses]),
    ]
    for title, texts in areas.items():
        parts += [f"## {title}", *texts]
    return _joined(parts)


def _area(method: str, path: str) -> str:
    found = [
        (len(prefix), title)
        for title, prefixes in AREAS
        for prefix in re.findall(r"(?:[A-Z]+ )?\S+", prefixes)
        if f"{method} {path}".startswith(prefix) or path.startswith(prefix)
    ]
    # The prefix of `edit` is longer than that of all operations, without its method.
    return max(found, key=lambda one: (one[1] in ("Edit a plan as text", "Containers"), one[0]))[1]


def _operation(title: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {title}"
    yield operation["summary"]
    if "description" in operation:
        yield _texts(operation["description"])
    rows = [
        f"| `{one['name']}` | {one['in']}{', required' if one.get('required') else ''} | {_type(one['schema'])} | "
        f"{_cell(one.get('description', ''))} |"
        for one in operation.get("parameters", ())
    ]
    if rows:
        yield "\n".join(["| parameter | in | type | meaning |", "| --- | --- | --- | --- |", *rows])
    lines = []
    if "requestBody" in operation:
        lines.append(f"- Body: {_content(operation['requestBody'])}")
    for status, answer in operation["responses"].items():
        if "$ref" not in answer:
            lines.append(f"- {status}: {_content(answer) or _texts(answer['description'])}")
    errors = [status for status, answer in operation["responses"].items() if "$ref" in answer]
    lines.append(f"- Errors: {', '.join(errors)}")
    yield "\n".join(lines)


def _content(holder: Mapping[str, Any]) -> str:
    return " or ".join(
        _type(media["schema"]) if kind == "application/json" and "schema" in media else f"`{kind}`"
        for kind, media in holder.get("content", {}).items()
    )


def schemas_page() -> str:
    """Every value of the API: its members, and which are required."""
    parts = [
        "---\nsearch:\n  exclude: true\n---",  # Their names are those of commands and fields, which readers look for.
        "# HTTP API: values",
        "JSON values in requests and answers of the [operations](api-operations.md). Members marked * are required.",
    ]
    for name, schema in _openapi()["components"]["schemas"].items():
        parts += [f"## {name}", _texts(schema.get("description", ""))]
        members = schema.get("properties")
        if not members:
            parts.append(f"{_type(schema)}.")
            continue
        required = schema.get("required", ())
        rows = [
            f"| `{member}`{'*' if member in required else ''} | {_type(one)} | {_cell(one.get('description', ''))} |"
            for member, one in members.items()
        ]
        parts.append("\n".join(["| member | type | meaning |", "| --- | --- | --- |", *rows]))
    return _joined([part for part in parts if part])


def _type(schema: Mapping[str, Any]) -> str:
    """A JSON Schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](api-schemas.md#{name.lower()})"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(map(_type, schema[word])))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array" and "items" in schema:
        return f"array of {_type(schema['items'])}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    bound = f", at most {schema['maxLength']:,} characters" if "maxLength" in schema else ""
    return f"{kind}{bound}"


def _texts(text: str) -> str:
    return re.sub(r"\(#/components/schemas/(\w+)\)", lambda found: f"(api-schemas.md#{found[1].lower()})", text)


def _cell(text: str) -> str:
    """`text` for a cell of a table."""
    return " ".join(_texts(text).replace("|", "\\|").split())


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(parts) + "\n"


def path_of(page: str) -> Path:
    """The file of a page."""
    return FOLDER / page
