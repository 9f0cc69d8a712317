"""Check a hook after everything it extends is applied: points, one decider, fields that exclude each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planloop.compiler.check.agents import check_target
from planloop.compiler.check.tasks import check_command
from planloop.compiler.problems import Pointer, Problems
from planloop.compiler.resolve.symbols import Toolsets
from planloop.schemas import limits
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.diagnostic import ValueProblem
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.linear_regex import UnsupportedRegex, compile_linear_regex
from planloop.schemas.objects.hook import ABOUT_CALLS
from planloop.schemas.patterns import parse_call_pattern
from planloop.schemas.rules.language import KnownTools, rule_state_of, setting_name, tools_in_patterns
from planloop.schemas.rules.validate import RuleScope, call_pattern_problems, condition_problems, rule_problems
from planloop.schemas.spec.hook import HOOK_DECIDERS

GOES_WITH: Final = {"contract": "run", "budget": "agent", "first": "agent"}
"""Fields that are about one kind of mind: they go when that is replaced."""


def check_hook(fields: Mapping[str, Json], to: Pointer, toolsets: Toolsets, faults: Problems) -> bool:
    """Whether the hook written at `to` can be asked; tells why not."""
    minds = [name for name in HOOK_DECIDERS if name in fields]
    if len(minds) > 1:
        said = " and ".join(f"`{name}`" for name in minds)
        faults.on_key(
            "P0211", f"{said} exclude each other", "a hook has one decider: keep one of them", to=(*to, minds[1])
        )
    if not minds and not faults.is_at(to):
        hint = "add a " + ", ".join(f"`{name}`" for name in HOOK_DECIDERS[:-1]) + f" or an `{HOOK_DECIDERS[-1]}`"
        faults.on_key("P0210", f"hook `{to[-1]}` has no decider", hint, to=to)
    if not fields.get("on") and not faults.is_at((*to, "on")):
        faults.on_key(
            "P0210", f"hook `{to[-1]}` is never asked", "add `on`, for example `on: before-call`", to=(*to, "on")
        )
    for name, mind in GOES_WITH.items():
        if name in fields and len(minds) == 1 and mind not in minds:
            faults.on_key(
                "P0211",
                f"`{name}` without `{mind}`",
                f"delete it, or add `{mind}`: it sets how `{mind}` is asked",
                to=(*to, name),
            )
    if "transcript" in fields:
        _check_transcript(fields, (*to, "transcript"), faults)
    check_command(dict(fields), "run", to, faults)
    if "python" in fields:
        check_target(fields["python"], (*to, "python"), faults)
    if "match" in fields and fields.get("on"):
        _check_match(fields, to, toolsets, faults)
    is_told = _is_existing_wrong(fields.get("agent"), to, faults)
    return len(minds) == 1 and bool(fields.get("on")) and not is_told


def _check_transcript(fields: Mapping[str, Json], to: Pointer, faults: Problems) -> None:
    """Report a transcript that the hook does not read, and bounds over the most that is shown."""
    if "rule" in fields:
        hint = "use `run`, `python` or `agent`: a rule can read only the call, the reply and messages"
        faults.on_key("P0211", "`transcript` with `rule`, which does not read it", hint, to=to)
    if fields.get("contract") == "claude-code":
        hint = "delete the line: the script can read the whole transcript in the file `transcript_path`"
        faults.on_key("P0211", "`transcript` with `contract: claude-code`", hint, to=to)
    written = fields["transcript"]
    bounds = (("turns", limits.HOOK_TRANSCRIPT_TURNS_MAX), ("chars", limits.HOOK_TRANSCRIPT_CHARS_MAX))
    for name, most in bounds:
        value = written.get(name) if isinstance(written, dict) else written if name == "turns" else None
        if isinstance(value, int) and value > most:
            at = (*to, name) if isinstance(written, dict) else to
            faults.add("P0212", f"`{name}` of a hook's transcript is {value}; the limit is {most}", "lower it", to=at)


@frozen
class MadeHook:
    """A hook as it is made: `fields` with its settings put in, `written` as they were before, with the `settings`.

    `own` are the settings that it states itself at `to`.
    """

    fields: Mapping[str, Json]
    written: Mapping[str, Json]
    settings: JsonObject
    own: JsonObject
    to: Pointer


def check_rules(made: MadeHook, toolsets: Toolsets, faults: Problems) -> None:
    """Report problems of the hook's rules and of its end condition."""
    fields = made.fields
    rules = {name: fields[name] for name in ("rule", "first") if name in fields}
    around = RuleScope(
        points=fields["on"],
        settings=made.settings,
        tools=_tools_of(toolsets),
        called=tools_in_patterns(fields["match"]) if "match" in fields else None,
        kept=rule_state_of(*rules.values()) if rules else None,
    )
    for name, rule in rules.items():
        for problem in rule_problems(rule, remade(around, is_first=name == "first")):
            _tell_of_rule(problem, made, (name,), faults)
    _tell_misspelled(made, faults)
    ends = fields.get("expires", {}).get("when")
    for problem in (
        condition_problems(ends, around) if ends is not None else ()
    ):  # It is looked at where the hook is asked.
        _tell_of_rule(problem, made, ("expires", "when"), faults)


def _tell_of_rule(problem: ValueProblem, made: MadeHook, part: Pointer, faults: Problems) -> None:
    """Report the problem where its value is written. The value of a setting is written at the hook."""
    place = (*part, *problem.at)
    if problem.code == "P0210" and faults.is_at((*made.to, *place)):
        return  # What the clause was to do is what could not be read.
    name = _setting_at(made.written, place, made.settings)
    if name is None:
        _tell(problem, (*made.to, *part), faults)
        return
    to = (*made.to, "settings", name) if name in made.own else (*made.to, *place)
    told = ValueProblem((), problem.code, f"invalid value for setting `{name}`: {problem.summary}", problem.hint)
    if not faults.is_at(to):
        _tell(told, to, faults)


def _setting_at(written: Json, place: Pointer, settings: JsonObject) -> str | None:
    """The setting that stands at `place` of what is written, or above it."""
    for token in place:
        if setting_name(written) is not None:
            break
        if isinstance(written, list):
            # A setting that is a list has taken its place with all of its own.
            items = [item for item in written for _ in range(_width(item, settings))]
            written = items[int(token)] if token.isdigit() and int(token) < len(items) else None
        else:
            written = written.get(token) if isinstance(written, Mapping) else None
    return setting_name(written)


def _width(item: Json, settings: JsonObject) -> int:
    value = settings.get(setting_name(item) or "")
    return len(value) if isinstance(value, list) else 1


def _tell_misspelled(made: MadeHook, faults: Problems) -> None:
    """Names of effects that there are not, whose values could not be read either."""
    for problem in () if faults.are_many else tuple(faults.found):
        to = problem.diagnostic.pointer or ()
        if len(to) == len(made.to) + 3 and to[:-2] in ((*made.to, "rule"), (*made.to, "first")):
            for wrong in rule_problems({to[-1]: "x"}) if problem.diagnostic.code == "P0206" else ():
                _tell(wrong, to[:-1], faults)


def _tools_of(toolsets: Toolsets) -> KnownTools:
    return KnownTools(toolsets.is_tool, tuple(toolsets.servers), is_open=bool(toolsets.servers))


def _tell(problem: ValueProblem, to: Pointer, faults: Problems) -> None:
    tell = faults.on_key if problem.is_key else faults.add
    tell(problem.code, problem.summary, problem.hint, to=(*to, *problem.at))


def _check_match(fields: Mapping[str, Json], to: Pointer, toolsets: Toolsets, faults: Problems) -> None:
    """A pattern that no call can be like would leave open what the hook is there to guard."""
    here, written, points = (*to, "match"), str(fields["match"]), fields["on"]
    found = parse_call_pattern(written)
    if not any(point in ABOUT_CALLS for point in points):
        hint = "delete it, or set `on` to one of " + ", ".join(f"`{point}`" for point in ABOUT_CALLS)
        faults.add("P0227", f"`match` with `on: {points[0]}`, which is not about a call", hint, to=here)
    elif fields.get("contract") == "claude-code":
        _check_matcher(written, here, faults)
    elif found is None:
        faults.add(
            "P0223", f"invalid call pattern `{written}`", "write it as `shell(git *)` or `write(src/**)`", to=here
        )
    else:
        for problem in call_pattern_problems(written, _tools_of(toolsets)):
            _tell(problem, here, faults)


def _is_existing_wrong(agent: Json, to: Pointer, faults: Problems) -> bool:
    if not isinstance(agent, dict) or "as" not in agent:
        return False
    here = (*to, "agent", "as")
    if len(agent) > 1:
        faults.on_key("P0211", "`as` with other fields", "delete them: `as` names an existing agent", to=here)
        return True
    is_address = str(agent["as"]).startswith("agent/")
    if not is_address:
        faults.add(
            "P0223", f"invalid agent address `{agent['as']}`", "write it as `agent/frontend` or `agent/.`", to=here
        )
    return not is_address


def _check_matcher(written: str, here: Pointer, faults: Problems) -> None:
    """Scripts of that contract come with their matchers: names there, joined by `|`, or a regular expression."""
    try:
        compile_linear_regex("" if written == "*" else written)
    except UnsupportedRegex as problem:
        faults.add(
            "P0223", f"invalid call matcher `{written}`: {problem}", "write it as `Write|Edit` or `mcp__.*`", to=here
        )
