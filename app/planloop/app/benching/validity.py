"""What is known of the validity of suites: `validation.json` beside the runs of each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from planloop.app.benching import folder as files
from planloop.benchmarks.reading.suite import Suite
from planloop.benchmarks.validating.judging import Judgement
from planloop.benchmarks.validating.record import FILE, is_validated, recorded
from planloop.schemas.encoding import JsonObject, canonical, decode


def record(suite: Suite, judgements: Iterable[Judgement], reports: Path) -> None:
    """Keeps what `judgements` say, beside what is known of other cases."""
    path = reports / suite.name / FILE
    files.write_durably(path, canonical(recorded(_known(path), suite, judgements)) + b"\n")


def known(suite: Suite, cases: Iterable[str], reports: Path) -> bool | None:
    """Whether `cases` of `suite` are valid; None when that is not known of all as they are now."""
    return is_validated(_known(reports / suite.name / FILE), suite, cases)


def _known(path: Path) -> JsonObject:
    try:
        found = decode(path.read_bytes())
    except (OSError, ValueError):
        return {}  # As good as never validated.
    return found if isinstance(found, dict) else {}
