"""The check `json`: passes when a JSON file or a command's output has at least the members of `subset`."""

from __future__ import annotations

from planloop.controllers.task.checks import command, files
from planloop.controllers.task.checks.contract import CheckEnvironment, CheckFinding
from planloop.schemas import amounts
from planloop.schemas.canonical_json import Json, decode_foreign, encode_text
from planloop.schemas.objects.task import CheckSpec


async def check_json(spec: CheckSpec, bench: CheckEnvironment) -> CheckFinding:
    """Reads the JSON and compares."""
    name = spec.arguments.get("path")
    if name:
        content = await files.read_workspace_file(bench, name)
        return content if isinstance(content, CheckFinding) else _held(spec, content)
    exit_ = await command.run_shell(spec.arguments, bench, spec.timeout_s)
    trouble = command.explain_no_exit(exit_, spec.timeout_s)
    return trouble or judge_printed_json(spec, exit_.code, exit_.output)


def judge_printed_json(spec: CheckSpec, code: int | None, output: bytes) -> CheckFinding:
    """What is found by the command of `spec` that came to an end of its own."""
    if code != 0:
        return CheckFinding("error", f"{_source(spec)}: {amounts.describe_exit_code(code)}", output)
    return _held(spec, output)


def _held(spec: CheckSpec, content: bytes) -> CheckFinding:
    try:
        value = decode_foreign(content)
    except ValueError as error:
        return CheckFinding("fail", f"{_source(spec)} is not JSON: {error}", content)
    return compare_json(value, spec.arguments.get("subset"), _source(spec), content)


def compare_json(value: Json, subset: Json, source: str, output: bytes = b"") -> CheckFinding:
    """Whether `value` has what `subset` asks for."""
    missing = json_difference(value, subset)
    if missing is None:
        return CheckFinding("pass", f"{source} has the members asked for", output)
    return CheckFinding("fail", f"{source}: {missing}", output)


def json_difference(value: Json, subset: Json, at: str = "") -> str | None:
    """The first place where `value` lacks what `subset` says, in words; None when it lacks nothing.

    Maps may have more members; lists are compared item by item and must have the same length.
    """
    where = at or "/"
    if isinstance(subset, dict):
        if not isinstance(value, dict):
            return f"{where} is not a map"
        found = (
            json_difference(value[k], s, f"{at}/{k}") if k in value else f"{at}/{k} is missing"
            for k, s in subset.items()
        )
        return next((words for words in found if words is not None), None)
    if isinstance(subset, list):
        if not isinstance(value, list) or len(value) != len(subset):
            return f"{where} is not a list of {len(subset)}"
        found = (json_difference(v, s, f"{at}/{n}") for n, (v, s) in enumerate(zip(value, subset, strict=True)))
        return next((words for words in found if words is not None), None)
    if value == subset and isinstance(value, bool) == isinstance(subset, bool):
        return None
    return f"{where} is {_short(value)}, not {_short(subset)}"


def _short(value: Json) -> str:
    text = encode_text(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _source(spec: CheckSpec) -> str:
    return str(spec.arguments.get("path") or command.command_text(spec.arguments))
