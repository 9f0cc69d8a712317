"""`json`: holds when a JSON file, or what a command prints, has at least the members of `subset`."""

from __future__ import annotations

from planloop.controllers.task.checking import reading, shell
from planloop.controllers.task.checking.contract import Bench, Finding
from planloop.schemas import exit_codes
from planloop.schemas.encoding import Json, decode_foreign, encode_text
from planloop.schemas.task import CheckSpec


async def check(spec: CheckSpec, bench: Bench) -> Finding:
    """Reads the JSON and compares."""
    name = spec.arguments.get("path")
    if name:
        content = await reading.read(bench, name)
        return content if isinstance(content, Finding) else _held(spec, content)
    exit_ = await shell.run(spec.arguments, bench, spec.timeout_s)
    trouble = shell.not_ended(exit_, spec.timeout_s)
    return trouble or printed(spec, exit_.code, exit_.output)


def printed(spec: CheckSpec, code: int | None, output: bytes) -> Finding:
    """What is found by the command of `spec` that came to an end of its own."""
    if code != 0:
        return Finding("error", f"{_source(spec)}: {exit_codes.words(code)}", output)
    return _held(spec, output)


def _held(spec: CheckSpec, content: bytes) -> Finding:
    try:
        value = decode_foreign(content)
    except ValueError as error:
        return Finding("fail", f"{_source(spec)} is not JSON: {error}", content)
    return compare(value, spec.arguments.get("subset"), _source(spec), content)


def compare(value: Json, subset: Json, source: str, output: bytes = b"") -> Finding:
    """Whether `value` has what `subset` asks for."""
    missing = difference(value, subset)
    if missing is None:
        return Finding("pass", f"{source} has the members asked for", output)
    return Finding("fail", f"{source}: {missing}", output)


def difference(value: Json, subset: Json, at: str = "") -> str | None:
    """The first place where `value` lacks what `subset` says, in words; None when it lacks nothing.

    Maps may have more members; lists are compared item by item and must have the same length.
    """
    where = at or "/"
    if isinstance(subset, dict):
        if not isinstance(value, dict):
            return f"{where} is not a map"
        found = (
            difference(value[k], s, f"{at}/{k}") if k in value else f"{at}/{k} is missing" for k, s in subset.items()
        )
        return next((words for words in found if words is not None), None)
    if isinstance(subset, list):
        if not isinstance(value, list) or len(value) != len(subset):
            return f"{where} is not a list of {len(subset)}"
        found = (difference(v, s, f"{at}/{n}") for n, (v, s) in enumerate(zip(value, subset, strict=True)))
        return next((words for words in found if words is not None), None)
    if value == subset and isinstance(value, bool) == isinstance(subset, bool):
        return None
    return f"{where} is {_short(value)}, not {_short(subset)}"


def _short(value: Json) -> str:
    text = encode_text(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _source(spec: CheckSpec) -> str:
    return str(spec.arguments.get("path") or shell.shown(spec.arguments))
