"""Figures as Prometheus reads them: the text format, version 0.0.4 (prometheus.io, "Exposition formats")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from planloop.app.observing.figures import Family, Labels

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def text(families: Iterable[Family]) -> str:
    """All families, each with its help and type; one without samples is left out."""
    return "".join(line for family in families if family.samples for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {_escaped(family.help)}\n"
    yield f"# TYPE {family.name} {family.kind}\n"
    for sample in family.samples:
        yield f"{sample.name}{_labels(sample.labels)} {_number(sample.value)}\n"


def _labels(labels: Labels) -> str:
    quote = '\\"'
    pairs = ",".join(f'{name}="{_escaped(value).replace(chr(34), quote)}"' for name, value in labels)
    return f"{{{pairs}}}" if pairs else ""


def _escaped(words: str) -> str:
    return words.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
