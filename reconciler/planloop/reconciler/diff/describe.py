"""Describe differences as text: what does a new task, and how a field changed. Pure.

Tolerates any input, because the texts are only shown. Long values are last in a phrase, because narrow terminals cut
off the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from planloop.schemas import quantities
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.objects.budget import amounts_from_json, format_amount
from planloop.schemas.objects.lock import declared_locks
from planloop.schemas.resource import WantedObject
from planloop.schemas.tools import CORE_TOOLS

TEXT_CHARS: Final = 60  # Characters of a command or of one side of a change.
PAIR_CHARS: Final = 60  # Characters of both sides together. Longer pairs show only the difference …
CONTEXT: Final = 2  # … with this many words around it.
TOOLS_SHOWN: Final = 5
SHOWN_AS: Final = {
    "heal_every_s": "heal.every",
    "wake_every_s": "wake",
    "talk_to": "topology",
    "timeout_s": "timeout",
    "cpu": "limits.cpu",
    "memory_bytes": "limits.memory",
    "pids": "limits.pids",
    "logs_bytes": "logs.max",
    "ttl_s": "ttl",
    "is_read_only": "read-only",
}


def describe_start(want: WantedObject, wanted: Mapping[str, WantedObject]) -> str:
    """`a script of 3 steps, tools write; after prepare` or `after a, b; runs make integration`."""
    work, after = want.spec.get("work") or {}, _after(want.spec)
    match work.get("kind"):
        case "agent":
            return "; ".join(part for part in (_agent(wanted.get(str(work.get("agent")))), after) if part)
        case "run":
            return "; ".join(part for part in (after, f"runs {describe_command(work)}") if part)
        case "group":
            below = _counted(want.spec, "children", "task") or _counted(want.spec, "containers", "container")
            return "; ".join(part for part in (after, below or "nothing to do") if part)
    if want.address.startswith("fork/"):
        branch = f", branch {want.spec['branch']}" if want.spec.get("branch") else ""
        return f"a separate working tree{branch}"
    return after or "new"


def _counted(spec: JsonObject, field: str, noun: str) -> str:
    """`its 3 tasks`, `its task`; empty without any."""
    count = len(spec.get(field) or ())
    return f"its {count} {noun}s" if count > 1 else f"its {noun}" if count else ""


def describe_command(work: JsonObject) -> str:
    """The command of a lowered `run` in one short line."""
    return _short(_whole(work))


def describe_change(field: str, before: Json, after: Json) -> str:
    """`run: sleep 20 → sleep 11`, `tools: + shell`; only the field's name if its values are not readable."""
    name = plan_field_name(field)
    if field in ("escalate", "granted"):
        said = [_stronger(field, value) for value in (before, after)]
        return f"{name}: {describe_pair(*said)}"
    match before, after:
        case dict(), dict() if "kind" in before and "kind" in after:
            return _doer(before, after)
        case list(), list() if all(isinstance(one, str) for one in (*before, *after)):
            signs = [f"+ {one}" for one in after if one not in before]
            signs += [f"- {one}" for one in before if one not in after]
            return f"{name}: {_short(', '.join(signs))}" if signs else f"{name} reordered"
        case (str() | int() | float() | None, str() | int() | float() | None) if before != after:
            return f"{name}: {describe_pair(_text(field, before), _text(field, after))}"
    return f"{name} changed"


def _stronger(field: str, value: Json) -> str:
    if not isinstance(value, dict):
        return "none"
    return describe_escalation(value) if field == "escalate" else str(value.get("model", ""))


_AT: Final = {
    "before-call": "before {calls}",
    "after-call": "after {calls}",
    "on-patch": "before changes of the plan",
    "before-reply": "before its final answer",
    "on-input": "on input",
    "on-wake": "when it wakes",
    "on-sleep": "when it goes to sleep",
    "on-child": "when a child ends",
    "on-conflict": "when it is in a conflict",
    "on-budget": "when its budget runs low",
    "on-end": "when it ends",
}


def describe_hook_events(spec: JsonObject) -> str:
    """When a hook is asked: `before write(*)`, `before its final answer, when it ends`."""
    calls = str(spec.get("match") or "calls")
    return ", ".join(_AT.get(str(point), str(point)).format(calls=calls) for point in spec.get("on") or ())


def describe_hook(spec: JsonObject) -> str:
    """`before write(*), runs ./guard`."""
    below = {"none": ", not for child agents", "read-only": ", shared with child agents"}.get(str(spec.get("copy")), "")
    return f"{describe_hook_events(spec)}, {describe_hook_mind(spec.get('mind') or {})}{below}"


def describe_hook_mind(mind: JsonObject) -> str:
    """What decides for a hook: `runs ./guard`, `a rule of 2 clauses`, `asks agent/~careful`."""
    match mind.get("kind"):
        case "program":
            argv = [str(word) for word in mind.get("argv") or ()]
            # A command line of the plan runs in a shell. It is shown as written.
            return f"runs {_short(argv[2] if argv[:2] == ['sh', '-c'] else ' '.join(argv))}"
        case "python":
            return f"calls {mind.get('target')}"
        case "rule":
            count = len(mind.get("clauses") or ())
            return f"a rule of {count} clauses" if count != 1 else "a rule"
    return f"asks {mind.get('address', 'an agent')}"


def plan_field_name(field: str) -> str:
    """The name of a lowered field in a plan file."""
    return SHOWN_AS.get(field, field.replace("_", "-"))


def _after(spec: JsonObject) -> str:
    names = [str(need).partition("/")[2] for need in spec.get("needs") or ()]
    named = declared_locks(spec).items()
    locks = ", ".join(path if mode == "write" else f"{path} ({mode})" for path, mode in named)
    parts = [f"after {', '.join(names)}" if names else "", f"locks {locks}" if locks else ""]
    return ", ".join(part for part in parts if part)


def _agent(agent: WantedObject | None) -> str:
    if agent is None:
        return "an agent"
    spec = agent.spec
    name, mind = str(spec.get("prototype") or ""), _mind(spec.get("mind") or {})
    tools = [str(tool) for tool in spec.get("tools") or () if tool not in CORE_TOOLS]
    more = f" and {len(tools) - TOOLS_SHOWN} more" if len(tools) > TOOLS_SHOWN else ""
    with_tools = f", tools {' '.join(tools[:TOOLS_SHOWN])}{more}" if tools else ""
    stronger = f", escalates {describe_escalation(spec['escalate'])}" if spec.get("escalate") else ""
    return (f"{name} on {mind}" if name else mind) + stronger + with_tools


def describe_escalation(escalate: JsonObject) -> str:
    """Describe a lowered escalation: `to openai/gpt-5 after 3 rejected answers, with at most $2.00`."""
    count = escalate["after"]
    after = f"after {count} rejected answers" if count > 1 else "after a rejected answer"
    bounds = ", ".join(format_amount(unit, amount) for unit, amount in amounts_from_json(escalate["budget"]))
    return f"to {escalate['to']['model']} {after}" + (f", with at most {bounds}" if bounds else "")


def _mind(mind: JsonObject) -> str:
    match mind.get("kind"):
        case "script":
            steps = len(mind.get("steps") or ())
            return f"a script of {steps} steps" if steps != 1 else "a script of one step"
        case "model":
            return _model(str(mind.get("stated") or ""), str(mind.get("model") or ""))
        case "python":
            return str(mind.get("target", "a Python function"))
        case "program" | "outside":
            return describe_command({"argv": mind.get("argv") or ()})
        case "guest":
            return "any MCP client (plan mcp)"
    return "an agent"


def _model(stated: str, asked: str) -> str:
    if not asked:
        return "an unspecified model"
    return f"{asked} (for {stated})" if stated and stated != asked else asked


def _doer(before: JsonObject, after: JsonObject) -> str:
    """How the work of a task changes: a command, the decider of an agent, or its child tasks."""
    if before["kind"] == after["kind"] == "run":
        if _whole(before) != _whole(after):
            return f"run: {describe_pair(_whole(before), _whole(after))}"
        others = [name for name in after if before.get(name) != after.get(name)]
        return ", ".join(describe_change(name, before.get(name), after.get(name)) for name in others)
    if before["kind"] == after["kind"] == "script":
        old, new = before.get("steps") or [], after.get("steps") or []
        same = next((at for at, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), None)
        at = min(len(old), len(new)) if same is None else same
        return f"script: step {at + 1} changed" if at < len(new) else f"script: ends after step {at}"
    return f"{_who(before)} → {_who(after)}"


def _who(work: JsonObject) -> str:
    match work["kind"]:
        case "run":
            return f"run {describe_command(work)}"
        case "group":
            return "its tasks"
        case "agent":
            return "an agent"
    return _mind(work)


def _whole(work: JsonObject) -> str:
    if work.get("shell"):
        return str(work["shell"])
    return quote_command([str(word) for word in work.get("argv") or ()])


def quote_command(words: Sequence[str]) -> str:
    """A program and its arguments in one line; arguments with spaces are quoted."""
    return " ".join(f'"{word}"' if not word or " " in word else word for word in words)


def _text(field: str, value: str | float | None) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or value == "":
        return "none"
    if field.endswith("_bytes") and not isinstance(value, str):
        return quantities.format_exact_size(int(value))
    return f"{value:g} s" if field.endswith("_s") and not isinstance(value, str) else str(value)


def describe_pair(before: str, after: str) -> str:
    """`before → after`; for long values only the difference, with a few words around it."""
    if len(before) + len(after) > PAIR_CHARS or "\n" in before + after:
        before, after = _differing(before.split(), after.split())
    return f"{_short(before)} → {_short(after)}"


def _differing(before: Sequence[str], after: Sequence[str]) -> tuple[str, str]:
    """Both sides without their common first and last words, except for a few."""
    shortest = min(len(before), len(after))
    head = next((at for at in range(shortest) if before[at] != after[at]), shortest)
    tail = next((at for at in range(shortest - head) if before[-1 - at] != after[-1 - at]), shortest - head)
    first, last = max(0, head - CONTEXT), max(0, tail - CONTEXT)

    def part(words: Sequence[str]) -> str:
        shown = list(words[first : len(words) - last])
        return " ".join((["…"] if first else []) + shown + (["…"] if last else []))

    return part(before), part(after)


def _short(text: str) -> str:
    first, _, rest = text.strip().partition("\n")
    if len(first) > TEXT_CHARS:
        return first[: TEXT_CHARS - 1].rstrip() + "…"
    return first + (" …" if rest.strip() else "")
