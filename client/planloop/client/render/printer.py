"""Print results as text, JSON, YAML or names; terminal width and colour.

`NO_COLOR` and a missing terminal turn colour off (no-color.org); a pipe gets unlimited width, so nothing is lost in it.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterable
from typing import Final

import click

from planloop.client.process import CONTROL_CHARACTERS
from planloop.schemas.canonical_json import Json

WIDTH_MIN: Final = 40


def terminal_width() -> int | None:
    """Return the terminal's columns, or None without a terminal."""
    return max(WIDTH_MIN, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


def is_plain() -> bool:
    """Whether output must do with ASCII."""
    return (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"


def print_structured(value: Json, output: str) -> None:
    """Prints `value` as `json` or `yaml`."""
    click.echo(as_yaml(value) if output == "yaml" else as_json(value))


def as_json(value: Json) -> str:
    """Indented, keys in the order they have. What a terminal would obey is escaped, as JSON allows."""
    return CONTROL_CHARACTERS.sub(_escaped, json.dumps(value, indent=2, ensure_ascii=False))


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def as_yaml(value: Json) -> str:
    """Return YAML in block style, with keys in their order and long text unwrapped."""
    import yaml  # 20 ms, only for those who ask for it.

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120)
    return text.rstrip("\n")


def print_lines(found: Iterable[str]) -> None:
    """Prints lines as they come."""
    for line in found:
        click.echo(line)


def print_note(text: str) -> None:
    """Says something beside the result: on stderr."""
    click.echo(text, err=True)
