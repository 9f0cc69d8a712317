"""What is wrong with a rule of a hook, and its cure: every fault in one pass, before the rule is ever asked.

The words are those of `rule.py`; whoever knows the plan's text places the faults in it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from schemas import limits, patterns
from schemas.encoding import Json
from schemas.frozen import frozen
from schemas.hook import POINTS, STRICTNESS
from schemas.regular import NotRegular, regular
from schemas.rule import (
    BLANK,
    BLANKS,
    CHILD_TESTS,
    CONDITIONS,
    EFFECTS,
    MESSAGE_TESTS,
    NEEDS,
    NUMBER_TESTS,
    TEXT_TESTS,
    clauses_of,
    setting_of,
)

Place: TypeAlias = tuple[str, ...]


@frozen
class RuleFault:
    """What is wrong at `at`, a place within the rule, and its cure. `code` is a diagnostic's.

    `is_key`: the name at that place is at fault, not what stands under it.
    """

    at: Place
    code: str
    summary: str
    hint: str
    is_key: bool = False


def faults_of(
    rule: Json, points: Collection[str] = (), settings: Collection[str] | None = None, *, is_first: bool = False
) -> tuple[RuleFault, ...]:
    """Everything that is wrong with a rule, in order.

    `points` are those at which its hook is asked, empty if that is not known; `settings` the names that `$name` may
    say, None for any. `is_first`: it stands before an agent, which it may have consulted.
    """
    clauses = clauses_of(rule)
    if not clauses:
        return (RuleFault((), "P0210", "a rule without clauses", "as in `[{when: {call: shell}, deny: not here}]`"),)
    if len(clauses) > limits.RULE_CLAUSES_MAX:
        most = limits.RULE_CLAUSES_MAX
        return (RuleFault((), "P0224", f"a rule of {len(clauses)} clauses", f"at most {most}: make it several hooks"),)
    reading = _Reading(frozenset(points), None if settings is None else frozenset(settings), is_first)
    numbered = isinstance(rule, list)
    places = (((str(index),) if numbered else (), clause) for index, clause in enumerate(clauses))
    return tuple(fault for at, clause in places for fault in reading.clause(clause, at))


def condition_faults(
    condition: Json, points: Collection[str] = (), settings: Collection[str] | None = None
) -> tuple[RuleFault, ...]:
    """The same for a condition alone, as `expires: {when: …}` has it."""
    reading = _Reading(frozenset(points), None if settings is None else frozenset(settings))
    return tuple(reading.condition(condition, ()))


Faults: TypeAlias = Iterator[RuleFault]


@frozen
class _Reading:
    """The checks, for a hook asked at `points` (empty: unknown) with these `settings` (None: unknown)."""

    points: frozenset[str]
    settings: frozenset[str] | None
    is_first: bool = False

    def clause(self, clause: Json, at: Place) -> Faults:
        if not isinstance(clause, dict):
            yield RuleFault(at, "P0202", f"a clause is a map, not {_shown(clause)}", "as in `{when: …, deny: …}`")
            return
        decisions = [name for name in clause if name in STRICTNESS]
        for name in clause:
            if name not in EFFECTS and name not in ("when", "doc"):
                yield _unknown(name, (*EFFECTS, "when", "doc"), (*at, name), "a clause")
        if not clause.keys() & (EFFECTS.keys() - {"once"}):
            yield RuleFault(at, "P0210", "a clause that does nothing", f"it may {_listed(EFFECTS)}")
        if len(decisions) > 1:
            said = " and ".join(f"`{name}`" for name in decisions)
            yield RuleFault((*at, decisions[1]), "P0211", f"a clause with {said}", "it decides one thing")
        yield from self.condition(clause.get("when", {}), (*at, "when"))
        allowed = self._asked_at(clause.get("when", {}))
        for name in clause:
            if name in EFFECTS:
                yield from self._misplaced(name, (*at, name), allowed)
                yield from self._effect(name, clause[name], (*at, name))

    def _asked_at(self, when: Json) -> frozenset[str]:
        """The points at which a clause can have effect, empty if that is not known."""
        stated = when.get("on") if isinstance(when, dict) else None
        named = frozenset(_many(stated)) if stated is not None else self.points
        return named & self.points if self.points else named

    def _misplaced(self, name: str, at: Place, points: frozenset[str]) -> Faults:
        needs = NEEDS.get(name)
        if needs is not None and points and not points.intersection(needs):
            said = ", ".join(sorted(points))
            yield RuleFault(at, "P0211", f"`{name}` has no meaning at {said}", f"it is for {' or '.join(needs)}")

    def _effect(self, name: str, value: Json, at: Place) -> Faults:
        match name:
            case "deny" | "defer" | "ask" | "allow":
                if not isinstance(value, str) and value is not True:
                    yield RuleFault(
                        at, "P0202", f"`{name}` is a text that says why, not {_shown(value)}", f"as in `{name}: …`"
                    )
                yield from self._text(value, at)
            case "comment" | "once" | "note":
                if not isinstance(value, str) or not value:
                    yield RuleFault(at, "P0202", f"`{name}` is a text, not {_shown(value)}", f"as in `{name}: …`")
                yield from self._text(value, at)
            case "rewrite":
                if not isinstance(value, dict) or not value:
                    yield RuleFault(
                        at, "P0202", f"`rewrite` is a map of arguments, not {_shown(value)}", "as in `{path: new}`"
                    )
                yield from self._texts_in(value, at)
            case "count":
                yield from self._counted(value, at)
            case "reset" | "mark":
                yield from self._names(value, at)
            case _:
                yield from self._flagged(name, value, at)

    def _flagged(self, name: str, value: Json, at: Place) -> Faults:
        if value is not True:
            yield RuleFault(at, "P0202", f"`{name}` is true or left out, not {_shown(value)}", f"write `{name}: true`")
        if name == "consult" and not self.is_first:
            hint = "it stands in `first`, before an `agent`"
            yield RuleFault(at, "P0211", "`consult` in a rule that has no agent", hint)

    def _counted(self, value: Json, at: Place) -> Faults:
        if not isinstance(value, dict):
            yield from self._names(value, at)
            return
        for name, number in value.items():
            if setting_of(number) is None and not _is_number(number):
                summary = f"a counter is raised by a number, not by {_shown(number)}"
                yield RuleFault((*at, name), "P0202", summary, f"as in `{{{name}: 1}}`")
            yield from self._setting(number, (*at, name))

    def _names(self, value: Json, at: Place) -> Faults:
        for name in value if isinstance(value, list) else [value]:
            if not isinstance(name, str) or not name:
                summary = f"`{at[-1]}` is a name or a list of names, not {_shown(name)}"
                yield RuleFault(at, "P0202", summary, f"as in `{at[-1]}: tries`")
            yield from self._text(name, at)

    def condition(self, when: Json, at: Place, depth: int = 0) -> Faults:
        if not isinstance(when, dict):
            yield RuleFault(at, "P0202", f"a condition is a map, not {_shown(when)}", "as in `{call: shell}`")
            return
        if depth > limits.RULE_NESTING_MAX:
            yield RuleFault(at, "P0224", "conditions that are nested too deeply", "take them apart")
            return
        points = self._asked_at(when)
        for name, value in when.items():
            here = (*at, name)
            if name not in CONDITIONS:
                yield _unknown(name, CONDITIONS, here, "a condition")
                continue
            yield from self._misplaced(name, here, points)
            if name in ("any", "all"):
                yield from self._several(name, value, here, depth)
            elif name == "not":
                yield from self.condition(value, here, depth + 1)
            else:
                yield from _CHECKS[name](self, value, here)

    def _several(self, name: str, value: Json, at: Place, depth: int) -> Faults:
        if not isinstance(value, list) or not value:
            summary = f"`{name}` is a list of conditions, not {_shown(value)}"
            yield RuleFault(at, "P0202", summary, f"as in `{name}: [{{call: shell}}, {{turn: 1}}]`")
            return
        for index, one in enumerate(value):
            yield from self.condition(one, (*at, str(index)), depth + 1)

    def points_named(self, value: Json, at: Place) -> Faults:
        """A point or several, which the hook must be asked at."""
        for name in _many(value):
            if setting_of(name) is not None:
                continue
            if name not in POINTS:
                yield _unknown(name, POINTS, at, "a point")
            elif self.points and name not in self.points:
                yield RuleFault(at, "P0211", f"the hook is not asked at `{name}`", f"add it to the hook's `on`: {name}")

    def calls(self, value: Json, at: Place) -> Faults:
        """A pattern of calls or several."""
        for one in value if isinstance(value, list) else [value]:
            if setting_of(one) is None and (not isinstance(one, str) or patterns.call_pattern(one) is None):
                hint = "as in `shell`, `write(src/**)` or `*`"
                yield RuleFault(at, "P0223", f"{_shown(one)} is no pattern of calls", hint)
            yield from self._setting(one, at)

    def text(self, test: Json, at: Place) -> Faults:
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
                if not isinstance(value, bool) and setting_of(value) is None:
                    yield RuleFault(here, "P0202", f"`{name}` is true or false, not {_shown(value)}", "true or false")
            else:
                yield from self._compared(name, value, here)

    def _compared(self, name: str, value: Json, at: Place) -> Faults:
        is_list = name in ("is", "not", "like", "contains")
        for one in value if is_list and isinstance(value, list) else [value]:
            yield from self._setting(one, at)
            if setting_of(one) is not None:
                continue
            if name not in ("is", "not") and not isinstance(one, str):
                yield RuleFault(at, "P0202", f"`{name}` is a text, not {_shown(one)}", "put it in quotes")
            elif name == "matches":
                yield from _pattern(str(one), at)

    def number(self, test: Json, at: Place) -> Faults:
        """A number, or a map of `<`, `<=`, `=`, `!=`, `>=`, `>`."""
        for name, value in test.items() if isinstance(test, dict) else (("=", test),):
            here = (*at, name) if isinstance(test, dict) else at
            if name not in NUMBER_TESTS:
                yield _unknown(name, NUMBER_TESTS, here, "a test of a number")
            elif setting_of(value) is not None:
                yield from self._setting(value, here)
            elif not _is_number(value):
                summary = f"a number is compared with a number, not with {_shown(value)}"
                yield RuleFault(here, "P0202", summary, 'as in `{">=": 3}`')

    def flag(self, value: Json, at: Place) -> Faults:
        """True or false."""
        if not isinstance(value, bool) and setting_of(value) is None:
            yield RuleFault(at, "P0202", f"`{at[-1]}` is true or false, not {_shown(value)}", "true or false")

    def _setting(self, value: Json, at: Place) -> Faults:
        name = setting_of(value)
        if name is not None and self.settings is not None and name not in self.settings:
            hint = _hint(name, self.settings) if self.settings else "declare it under `settings`"
            yield RuleFault(at, "P0213", f"the hook has no setting `{name}`", hint)

    def _text(self, text: Json, at: Place) -> Faults:
        if not isinstance(text, str):
            return
        yield from self._setting(text, at)
        for blank in BLANK.finditer(text):
            name, member = blank[1], blank[2]
            if name is None:
                continue
            if name not in BLANKS:
                yield _unknown(name, BLANKS, at, "a blank of a text", "write `{{` for a brace that is meant as such")
            elif name == "setting" and self.settings is not None and member not in self.settings:
                yield RuleFault(at, "P0213", f"the hook has no setting `{member}`", _hint(str(member), self.settings))
            elif name in ("count", "turns-since", "setting") and not member:
                yield RuleFault(at, "P0223", f"`{{{name}}}` does not say which", f"write `{{{name}.name}}`")

    def _texts_in(self, value: Json, at: Place) -> Faults:
        yield from self._text(value, at)
        members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for name, member in members:
            yield from self._texts_in(member, (*at, str(name)))


Check: TypeAlias = Callable[[_Reading, Json, Place], Faults]


def _by_name(check: Check) -> Check:
    """A map from any names to what `check` is for."""

    def checked(reading: _Reading, value: Json, at: Place) -> Faults:
        if not isinstance(value, dict) or not value:
            summary = f"`{at[-1]}` is a map from names to tests, not {_shown(value)}"
            yield RuleFault(at, "P0202", summary, f"as in `{at[-1]}: {{name: test}}`")
            return
        for name, test in value.items():
            yield from check(reading, test, (*at, name))

    return checked


def _of(members: Mapping[str, Check], alone: Check | None = None) -> Check:
    """A map of these members; `alone` is what stands there without a map."""

    def checked(reading: _Reading, value: Json, at: Place) -> Faults:
        if not isinstance(value, dict) or (alone is not None and value.keys() <= set(NUMBER_TESTS) and value):
            if alone is None:
                yield RuleFault(at, "P0202", f"`{at[-1]}` is a map, not {_shown(value)}", f"of {_listed(members)}")
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
    **dict.fromkeys(("effect", "result", "outcome", "error", "reply", "prompt", "claim"), _Reading.text),
    **dict.fromkeys(("arguments", "setting"), _by_name(_Reading.text)),
    **dict.fromkeys(("budget", "count", "turns-since", "calls"), _by_name(_Reading.number)),
    **dict.fromkeys(("changed", "turn", "depth", "requests", "nudges", "sent-back", "children-then"), _Reading.number),
    "is-copy": _Reading.flag,
    "message": _of(_MESSAGE),
    "messages": _of({**_MESSAGE, "count": _Reading.number}, _Reading.number),
    "children": _of(_CHILD, _Reading.number),
}


def _pattern(pattern: str, at: Place) -> Faults:
    try:
        regular(pattern)
    except NotRegular as fault:
        yield RuleFault(at, "P0223", f"`{pattern}` is no regular expression for rules: {fault}", "`like` takes stars")


def _unknown(name: Json, known: Iterable[str], at: Place, what: str, also: str = "") -> RuleFault:
    hint = "; ".join(part for part in (_hint(str(name), known), also) if part)
    return RuleFault(at, "P0201", f"{what} has no `{name}`", hint, is_key=at[-1:] == (name,))


def _hint(wrong: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(wrong, names, n=1)
    return f"did you mean `{near[0]}`?" if near else f"there are {_listed(names)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _many(value: Json) -> list[str]:
    return [str(one) for one in (value if isinstance(value, list) else [value])]


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Json) -> str:
    text = str(value)
    return f"`{text[: limits.VALUE_SHOWN_CHARS]}`"
