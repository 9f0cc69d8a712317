"""Validate a hook rule: report every problem in one pass, with its place and a fix.

`planloop.schemas.rules.language` defines the words. The compiler adds file positions to the problems.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from planloop.schemas import limits, patterns
from planloop.schemas.canonical_json import Json, encode
from planloop.schemas.diagnostic import ValuePath, ValueProblem
from planloop.schemas.frozen import frozen, remade
from planloop.schemas.linear_regex import UnsupportedRegex, compile_linear_regex
from planloop.schemas.objects.hook import POINTS, STRICTNESS
from planloop.schemas.predicates import is_number
from planloop.schemas.rules.language import (
    BUDGET_UNITS,
    CHILD_TESTS,
    CLOSED_WORDS,
    CONDITIONS,
    EFFECTS,
    ERRORS,
    MESSAGE_TESTS,
    NEEDS,
    NUMBER_TESTS,
    RULE_PLACEHOLDER,
    RULE_PLACEHOLDERS,
    TEXT_TESTS,
    KnownTools,
    RuleState,
    has_no_subject,
    rule_clauses,
    rule_state_of,
    setting_name,
    tools_of_condition,
)


@frozen
class RuleScope:
    """What is known of the hook that a rule is of.

    `points` are those at which it is asked, empty if that is not known; `settings` the names that `$name` may say, None
    for any. `tools` are those of the plan, None if that is not known; `called` the ones that the hook's own `match`
    names, None for any. `kept` is what all of its rules count and mark, None for what the rule at hand does.
    `is_first`: the rule stands before an agent, which it may have consulted.
    """

    points: Collection[str] = ()
    settings: Collection[str] | None = None
    tools: KnownTools | None = None
    called: frozenset[str] | None = None
    kept: RuleState | None = None
    is_first: bool = False


_UNKNOWN: Final = RuleScope()


def rule_problems(rule: Json, around: RuleScope = _UNKNOWN) -> tuple[ValueProblem, ...]:
    """Everything that is wrong with a rule, in order."""
    clauses = rule_clauses(rule)
    if not clauses:
        return (ValueProblem((), "P0210", "a rule without clauses", "as in `[{when: {call: shell}, deny: not here}]`"),)
    if len(clauses) > limits.RULE_CLAUSES_MAX:
        most = limits.RULE_CLAUSES_MAX
        return (
            ValueProblem((), "P0224", f"a rule of {len(clauses)} clauses", f"at most {most}: make it several hooks"),
        )
    reading = _Reading(around if around.kept is not None else remade(around, kept=rule_state_of(rule)), around.called)
    numbered = isinstance(rule, list)
    places = (((str(index),) if numbered else (), clause) for index, clause in enumerate(clauses))
    return tuple(problem for at, clause in places for problem in reading.clause(clause, at))


def condition_problems(condition: Json, around: RuleScope = _UNKNOWN) -> tuple[ValueProblem, ...]:
    """The same for a condition alone, as `expires: {when: …}` has it."""
    return tuple(_Reading(around, around.called).condition(condition, ()))


RuleProblems: TypeAlias = Iterator[ValueProblem]


@frozen
class _Reading:
    """The checks, for a hook with this `around`. `called` are the tools of which a call is here, None for any."""

    around: RuleScope
    called: frozenset[str] | None = None

    def within(self, when: Json) -> _Reading:
        """The checks of what is so only where `when` holds."""
        called = tools_of_condition(when)
        return self if called is None else remade(self, called=called)

    def clause(self, clause: Json, at: ValuePath) -> RuleProblems:
        if not isinstance(clause, dict):
            yield ValueProblem(at, "P0202", f"a clause is a map, not {_shown(clause)}", "as in `{when: …, deny: …}`")
            return
        decisions = [name for name in clause if name in STRICTNESS]
        for name in clause:
            if name not in EFFECTS and name not in ("when", "doc"):
                yield _unknown(name, (*EFFECTS, "when", "doc"), (*at, name), "a clause")
        if clause.keys() <= {"when", "doc", "once"}:
            yield ValueProblem(at, "P0210", "a clause that does nothing", f"it may {_listed(EFFECTS)}")
        if len(decisions) > 1:
            said = " and ".join(f"`{name}`" for name in decisions)
            yield ValueProblem((*at, decisions[1]), "P0211", f"a clause with {said}", "it decides one thing")
        yield from self.condition(clause.get("when", {}), (*at, "when"))
        allowed = self._asked_at(clause.get("when", {}))
        inside = self.within(clause.get("when", {}))
        for name in clause:
            if name in EFFECTS:
                yield from self._misplaced(name, (*at, name), allowed)
                yield from inside.effect(name, clause[name], (*at, name))

    def _asked_at(self, when: Json) -> frozenset[str]:
        """The points at which a clause can have effect, empty if that is not known."""
        stated = when.get("on") if isinstance(when, dict) else None
        points = frozenset(self.around.points)
        named = frozenset(_many(stated)) if stated is not None else points
        return named & points if points else named

    def _misplaced(self, name: str, at: ValuePath, points: frozenset[str]) -> RuleProblems:
        needs = NEEDS.get(name)
        if needs is not None and points and not points.intersection(needs):
            said = ", ".join(sorted(points))
            yield ValueProblem(at, "P0211", f"`{name}` has no meaning at {said}", f"it is for {' or '.join(needs)}")

    def effect(self, name: str, value: Json, at: ValuePath) -> RuleProblems:
        match name:
            case "deny" | "defer" | "ask" | "allow":
                if not isinstance(value, str) and value is not True:
                    yield ValueProblem(
                        at, "P0202", f"`{name}` is a text that says why, not {_shown(value)}", f'as in `{name}: "…"`'
                    )
                yield from self._text(value, at)
            case "comment" | "once" | "note":
                if not isinstance(value, str) or not value:
                    yield ValueProblem(at, "P0202", f"`{name}` is a text, not {_shown(value)}", f"as in `{name}: …`")
                yield from self._text(value, at)
            case "rewrite":
                if not isinstance(value, dict) or not value:
                    yield ValueProblem(
                        at, "P0202", f"`rewrite` is a map of arguments, not {_shown(value)}", "as in `{path: new}`"
                    )
                for argument in value if isinstance(value, dict) else ():
                    yield from self._argument(argument, (*at, argument), is_key=True)
                yield from self._texts_in(value, at)
            case "count":
                yield from self._counted(value, at)
            case "reset" | "mark":
                yield from self._names(value, at)
            case _:
                yield from self._flagged(name, value, at)

    def _flagged(self, name: str, value: Json, at: ValuePath) -> RuleProblems:
        if value is not True:
            yield ValueProblem(
                at, "P0202", f"`{name}` is true or left out, not {_shown(value)}", f"write `{name}: true`"
            )
        if name == "consult" and not self.around.is_first:
            hint = "it stands in `first`, before an `agent`"
            yield ValueProblem(at, "P0211", "`consult` in a rule that has no agent", hint)

    def _counted(self, value: Json, at: ValuePath) -> RuleProblems:
        if not isinstance(value, dict):
            yield from self._names(value, at)
            return
        for name, number in value.items():
            if setting_name(number) is None and not is_number(number):
                summary = f"a counter is raised by a number, not by {_shown(number)}"
                yield ValueProblem((*at, name), "P0202", summary, f"as in `{{{name}: 1}}`")
            yield from self._setting(number, (*at, name))

    def _names(self, value: Json, at: ValuePath) -> RuleProblems:
        for name in value if isinstance(value, list) else [value]:
            if not isinstance(name, str) or not name:
                summary = f"`{at[-1]}` is a name or a list of names, not {_shown(name)}"
                yield ValueProblem(at, "P0202", summary, f"as in `{at[-1]}: tries`")
            elif at[-1] == "reset" and not RULE_PLACEHOLDER.search(name):
                yield from self._kept("reset", name, at)
            yield from self._text(name, at)

    def condition(self, when: Json, at: ValuePath, depth: int = 0) -> RuleProblems:
        if not isinstance(when, dict):
            yield ValueProblem(at, "P0202", f"a condition is a map, not {_shown(when)}", "as in `{call: shell}`")
            return
        if depth > limits.RULE_NESTING_MAX:
            yield ValueProblem(at, "P0224", "conditions that are nested too deeply", "take them apart")
            return
        points, inside = self._asked_at(when), self.within(when)
        for name, value in when.items():
            here = (*at, name)
            if name not in CONDITIONS:
                yield _unknown(name, CONDITIONS, here, "a condition")
                continue
            yield from self._misplaced(name, here, points)
            if name in ("any", "all"):
                yield from inside.several(name, value, here, depth)
            elif name == "not":
                yield from inside.condition(value, here, depth + 1)
            else:
                yield from _CHECKS[name](inside, value, here)

    def several(self, name: str, value: Json, at: ValuePath, depth: int) -> RuleProblems:
        if not isinstance(value, list) or not value:
            summary = f"`{name}` is a list of conditions, not {_shown(value)}"
            yield ValueProblem(at, "P0202", summary, f"as in `{name}: [{{call: shell}}, {{turn: 1}}]`")
            return
        for index, one in enumerate(value):
            yield from self.condition(one, (*at, str(index)), depth + 1)

    def points_named(self, value: Json, at: ValuePath) -> RuleProblems:
        """A point or several, which the hook must be asked at."""
        for name in _many(value):
            if setting_name(name) is not None:
                continue
            if name not in POINTS:
                yield _unknown(name, POINTS, at, "a point")
            elif self.around.points and name not in self.around.points:
                yield ValueProblem(
                    at, "P0211", f"the hook is not asked at `{name}`", f"add it to the hook's `on`: {name}"
                )

    def calls(self, value: Json, at: ValuePath) -> RuleProblems:
        """A pattern of calls or several."""
        for index, one in enumerate(rule_clauses(value)):
            here = (*at, str(index)) if isinstance(value, list) else at
            found = patterns.parse_call_pattern(one) if isinstance(one, str) else None
            if setting_name(one) is not None:
                yield from self._setting(one, here)
            elif found is None:
                hint = "as in `shell`, `write(src/**)` or `*`"
                yield ValueProblem(here, "P0223", f"{_shown(one)} is not a call pattern", hint)
            else:
                yield from call_pattern_problems(str(one), self.around.tools, here)

    def tool_numbers(self, value: Json, at: ValuePath) -> RuleProblems:
        """Numbers by the names of tools."""
        yield from _by_name(_Reading.number)(self, value, at)
        tools = self.around.tools
        for name in value if isinstance(value, dict) else ():
            if tools is not None and ("*" in name or not tools.is_tool(name)):
                yield ValueProblem(
                    (*at, name), "P0213", f"unknown tool `{name}`", _hint(name, tools.names), is_key=True
                )

    def units(self, value: Json, at: ValuePath) -> RuleProblems:
        """Numbers by the units of budgets."""
        yield from _by_name(_Reading.number)(self, value, at)
        for name in value if isinstance(value, dict) else ():
            if name not in BUDGET_UNITS:
                summary = f"budgets have no unit `{name}`"
                yield ValueProblem((*at, name), "P0213", summary, _hint(name, BUDGET_UNITS), is_key=True)

    def kept(self, value: Json, at: ValuePath) -> RuleProblems:
        """Numbers by counters or marks, which some clause of the hook has to set."""
        yield from _by_name(_Reading.number)(self, value, at)
        for name in value if isinstance(value, dict) else ():
            yield from self._kept(at[-1], name, (*at, name), is_key=True)

    def _kept(self, what: str, name: str, at: ValuePath, *, is_key: bool = False) -> RuleProblems:
        kept = self.around.kept
        if kept is None or kept.has(what, name):
            return
        known = kept.known(what)
        said = {"count": f"counts `{name}`", "turns-since": f"marks `{name}`"}.get(what, f"counts or marks `{name}`")
        cure = f"`{'mark' if what == 'turns-since' else 'count'}: {name}` in a clause does"
        hint = _hint(name, known) if difflib.get_close_matches(name, known, n=1) else cure
        yield ValueProblem(at, "P0213", f"no clause of the hook {said}", hint, is_key)

    def arguments(self, value: Json, at: ValuePath) -> RuleProblems:
        """Tests by the names of arguments, which the calls have to have."""
        yield from _by_name(_Reading.text)(self, value, at)
        for name in value if isinstance(value, dict) else ():
            yield from self._argument(name, (*at, name), is_key=True)

    def _argument(self, name: str, at: ValuePath, *, is_key: bool = False) -> RuleProblems:
        tools = self.around.tools
        known = None if tools is None else tools.arguments(self.called)
        if known is None or name in known or name.partition(".")[0] in known:
            return
        of = sorted(self.called or ())
        who = f"`{of[0]}` has no" if len(of) == 1 else "those calls have no" if of else "no tool has an"
        yield ValueProblem(at, "P0213", f"{who} argument `{name}`", _hint(name.partition(".")[0], known), is_key)

    def settings(self, value: Json, at: ValuePath) -> RuleProblems:
        """Tests by the names of the hook's settings."""
        yield from _by_name(_Reading.text)(self, value, at)
        for name in value if isinstance(value, dict) else ():
            if self._is_missing(name):
                yield self._no_setting(name, (*at, name), is_key=True)

    def word(self, test: Json, at: ValuePath) -> RuleProblems:
        """A test of a text that is one of a few."""
        yield from self.text(test, at)
        known = CLOSED_WORDS.get(at[-1])
        for one in _equals(test):
            is_wrong = one[:1].islower() if known is None else one not in known
            if is_wrong and setting_name(one) is None:
                hint = _hint(one.capitalize() if known is None else one, known or ERRORS)
                yield ValueProblem(at, "P0212", f"`{at[-1]}` is never {_shown(one)}", hint)

    def text(self, test: Json, at: ValuePath) -> RuleProblems:
        """A test of a text, a number or whatever an argument may be."""
        if isinstance(test, list):
            for one in test:
                yield from self._setting(one, at)
        if not isinstance(test, dict):
            yield from self._setting(test, at)
            return
        for name, value in test.items():
            here = (*at, name)
            if name not in TEXT_TESTS and name not in NUMBER_TESTS:
                yield _unknown(name, (*TEXT_TESTS, *NUMBER_TESTS), here, "a test")
            elif name in NUMBER_TESTS or name == "length":
                yield from self.number(value if name == "length" else {name: value}, here if name == "length" else at)
            elif name in ("any-case", "given"):
                if not isinstance(value, bool) and setting_name(value) is None:
                    yield ValueProblem(
                        here, "P0202", f"`{name}` is true or false, not {_shown(value)}", "true or false"
                    )
            else:
                yield from self._compared(name, value, here)

    def _compared(self, name: str, value: Json, at: ValuePath) -> RuleProblems:
        is_list = name in ("is", "not", "like", "contains")
        for one in value if is_list and isinstance(value, list) else [value]:
            yield from self._setting(one, at)
            if setting_name(one) is not None:
                continue
            if name not in ("is", "not") and not isinstance(one, str):
                yield ValueProblem(at, "P0202", f"`{name}` is a text, not {_shown(one)}", "put it in quotes")
            elif name == "matches":
                yield from _pattern(str(one), at)

    def number(self, test: Json, at: ValuePath) -> RuleProblems:
        """A number, or a map of `<`, `<=`, `=`, `!=`, `>=`, `>`."""
        for name, value in test.items() if isinstance(test, dict) else (("=", test),):
            here = (*at, name) if isinstance(test, dict) else at
            if name not in NUMBER_TESTS:
                yield _unknown(name, NUMBER_TESTS, here, "a test of a number")
            elif setting_name(value) is not None:
                yield from self._setting(value, here)
            elif not is_number(value):
                summary = f"a number is compared with a number, not with {_shown(value)}"
                yield ValueProblem(here, "P0202", summary, 'as in `{">=": 3}`')

    def flag(self, value: Json, at: ValuePath) -> RuleProblems:
        """True or false."""
        if not isinstance(value, bool) and setting_name(value) is None:
            yield ValueProblem(at, "P0202", f"`{at[-1]}` is true or false, not {_shown(value)}", "true or false")

    def _setting(self, value: Json, at: ValuePath) -> RuleProblems:
        name = setting_name(value)
        if name is not None and self._is_missing(name):
            yield self._no_setting(name, at)

    def _is_missing(self, setting: str) -> bool:
        known = self.around.settings
        return known is not None and setting not in known and setting.partition(".")[0] not in known

    def _no_setting(self, name: str, at: ValuePath, *, is_key: bool = False) -> ValueProblem:
        known = self.around.settings
        hint = _hint(name, known) if known else "declare it under `settings`"
        return ValueProblem(at, "P0213", f"the hook has no setting `{name}`", hint, is_key)

    def _text(self, text: Json, at: ValuePath) -> RuleProblems:
        if not isinstance(text, str):
            return
        yield from self._setting(text, at)
        for blank in RULE_PLACEHOLDER.finditer(text):
            name, member = blank[1], blank[2]
            if name is None:
                continue
            if name not in RULE_PLACEHOLDERS:
                yield _unknown(
                    name, RULE_PLACEHOLDERS, at, "a blank of a text", "write `{{` for a brace that is meant as such"
                )
            elif name in ("count", "turns-since", "setting") and not member:
                yield ValueProblem(at, "P0223", f"`{{{name}}}` does not say which", f"write `{{{name}.name}}`")
            elif member:
                yield from self._member(name, member, at)

    def _member(self, name: str, member: str, at: ValuePath) -> RuleProblems:
        """What a blank such as `{count.tries}` names."""
        match name:
            case "setting" if self._is_missing(member):
                yield self._no_setting(member, at)
            case "count" | "turns-since":
                yield from self._kept(name, member, at)
            case "arguments":
                yield from self._argument(member, at)

    def _texts_in(self, value: Json, at: ValuePath) -> RuleProblems:
        yield from self._text(value, at)
        members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for name, member in members:
            yield from self._texts_in(member, (*at, str(name)))


Check: TypeAlias = Callable[[_Reading, Json, ValuePath], RuleProblems]


def _by_name(check: Check) -> Check:
    """A map from any names to what `check` is for."""

    def checked(reading: _Reading, value: Json, at: ValuePath) -> RuleProblems:
        if not isinstance(value, dict) or not value:
            summary = f"`{at[-1]}` is a map from names to tests, not {_shown(value)}"
            yield ValueProblem(at, "P0202", summary, f"as in `{at[-1]}: {{name: test}}`")
            return
        for name, test in value.items():
            yield from check(reading, test, (*at, name))

    return checked


def _of(members: Mapping[str, Check], alone: Check | None = None) -> Check:
    """Check a map of these members; `alone` checks a value that is not a map."""

    def checked(reading: _Reading, value: Json, at: ValuePath) -> RuleProblems:
        if not isinstance(value, dict) or (alone is not None and value.keys() <= set(NUMBER_TESTS) and value):
            if alone is None:
                yield ValueProblem(at, "P0202", f"`{at[-1]}` is a map, not {_shown(value)}", f"of {_listed(members)}")
            else:
                yield from alone(reading, value, at)
            return
        for name, test in value.items():
            if name not in members:
                yield _unknown(name, members, (*at, name), f"`{at[-1]}`")
            else:
                yield from members[name](reading, test, (*at, name))

    return checked


_MESSAGE: Final[Mapping[str, Check]] = dict.fromkeys(MESSAGE_TESTS, _Reading.text)
_CHILD: Final[Mapping[str, Check]] = {
    **dict.fromkeys(CHILD_TESTS, _Reading.text),
    "live": _Reading.flag,
    "quiet": _Reading.number,
    "count": _Reading.number,
}
_CHECKS: Final[Mapping[str, Check]] = {
    "on": _Reading.points_named,
    "call": _Reading.calls,
    **dict.fromkeys(("result", "reply", "prompt"), _Reading.text),
    **dict.fromkeys(("effect", "outcome", "error", "claim"), _Reading.word),
    **dict.fromkeys(("count", "turns-since"), _Reading.kept),
    "arguments": _Reading.arguments,
    "setting": _Reading.settings,
    "budget": _Reading.units,
    "calls": _Reading.tool_numbers,
    **dict.fromkeys(("changed", "turn", "depth", "requests", "nudges", "sent-back", "children-then"), _Reading.number),
    "is-copy": _Reading.flag,
    "message": _of(_MESSAGE),
    "messages": _of({**_MESSAGE, "count": _Reading.number}, _Reading.number),
    "children": _of(_CHILD, _Reading.number),
}


def call_pattern_problems(written: str, tools: KnownTools | None, at: ValuePath = ()) -> RuleProblems:
    """What keeps calls from ever being like a pattern, which is one."""
    found = patterns.parse_call_pattern(written)
    if found is None or tools is None:
        return
    if not tools.has(found.tool):
        near = difflib.get_close_matches(found.tool, tools.names, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "`plan explain tools` lists what there is"
        yield ValueProblem(at, "P0227", f"`{written}` matches no call: unknown tool `{found.tool}`", hint)
    elif found.subject is not None and has_no_subject(found.tool):
        summary = f"calls of `{found.tool}` are not told apart by what they are about"
        yield ValueProblem(at, "P0227", summary, f"name the tool alone: `{found.tool}`")


def _equals(test: Json) -> Iterator[str]:
    """The texts that a test compares with as they stand; none where capitals do not count."""
    if isinstance(test, dict):
        if test.get("any-case"):
            return
        compared = [test[name] for name in ("is", "not") if name in test]
    else:
        compared = [test]
    for one in compared:
        yield from (text for text in rule_clauses(one) if isinstance(text, str))


def _pattern(pattern: str, at: ValuePath) -> RuleProblems:
    try:
        compile_linear_regex(pattern)
    except UnsupportedRegex as problem:
        yield ValueProblem(
            at, "P0223", f"`{pattern}` is not a regular expression for rules: {problem}", "use `like` for stars"
        )


def _unknown(name: Json, known: Iterable[str], at: ValuePath, what: str, also: str = "") -> ValueProblem:
    hint = "; ".join(part for part in (_hint(str(name), known), also) if part)
    return ValueProblem(at, "P0201", f"{what} has no `{name}`", hint, is_key=at[-1:] == (name,))


_SIGNS: Final = {"=>": ">=", "=<": "<=", "==": "=", "<>": "!=", "=!": "!="}
"""Signs of other languages, and those that are written the wrong way round."""


def _hint(wrong: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = [_SIGNS[wrong]] if _SIGNS.get(wrong) in names else difflib.get_close_matches(wrong, names, n=1)
    if near:
        return f"did you mean `{near[0]}`?"
    return f"there are {_listed(names)}" if names else "there are none"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _many(value: Json) -> list[str]:
    return [str(one) for one in (value if isinstance(value, list) else [value])]


def _shown(value: Json) -> str:
    if value is None or value == "":
        return "nothing" if value is None else "an empty text"
    text = value if isinstance(value, str) else encode(value).decode()
    return f"`{text[: limits.VALUE_SHOWN_CHARS]}`"
