"""Parse a web check as written, and report every problem with its place and a fix.

The compiler, the suite loader and the runner share this parser, so they cannot differ.

    read(arguments, flows)   the check, None if it cannot run, and its problems
    web_faults(arguments)    the problems alone, including a missing address

What a `reuse` names is put in its place by `planloop.schemas.checks.web_reuse`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final, TypeAlias

from planloop.schemas import limits, quantities
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.checks.web_check import (
    ChooseOption,
    ClickElement,
    DragElement,
    ExpectAnyOf,
    ExpectChange,
    ExpectCount,
    ExpectEnabled,
    ExpectFocusable,
    ExpectPageAddress,
    ExpectPicture,
    ExpectTitle,
    ExpectValue,
    ExpectVisible,
    FillField,
    FindBoard,
    GoBack,
    MaybeSteps,
    OpenPage,
    Pause,
    PressKey,
    ReloadPage,
    TypeText,
    WebAction,
    WebCheck,
    WebExpectation,
    WebStep,
)
from planloop.schemas.checks.web_reuse import ReusableSteps
from planloop.schemas.checks.web_targets import (
    Lexicon,
    builtin_lexicon,
    list_names,
    quote_value,
    unknown_name_problem,
)
from planloop.schemas.diagnostic import ValuePath, ValueProblem
from planloop.schemas.predicates import is_number

WITHIN_S: Final = 3.0
_HELD: Final = ("Alt", "Control", "Meta", "Shift")
_KEYS: Final = (
    *("Enter", "Tab", "Escape", "Space", "Backspace", "Delete", "Home", "End", "PageUp", "PageDown"),
    *("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", *(f"F{number}" for number in range(1, 13)), *_HELD),
)
_FIELDS: Final = ("url", "can", "never", "and", "contexts", "lexicon", "within")

WebStepParser: TypeAlias = WebAction | WebExpectation
WebVerbParser: TypeAlias = "Callable[[_Steps, Json, ValuePath], list[WebStepParser]]"


_NO_FLOWS: Final[ReusableSteps] = MappingProxyType({})


def parse_web_check(
    arguments: JsonObject, flows: ReusableSteps = _NO_FLOWS
) -> tuple[WebCheck | None, tuple[ValueProblem, ...]]:
    """Return the check in `arguments`, or None and its problems. `flows` are the steps that a `reuse` may name."""
    faults: list[ValueProblem] = []
    meanings = Lexicon(faults, builtin_lexicon())
    meanings.add(arguments.get("lexicon", {}))
    for name in arguments:
        if name not in _FIELDS:
            faults.append(unknown_name_problem(name, _FIELDS, (name,), "a web check"))
    check = _Steps(meanings, _contexts(arguments, meanings), flows).check(arguments)
    return (None if faults else check), tuple(faults)


def web_check_problems(
    arguments: JsonObject, *, has_url: bool, flows: ReusableSteps = _NO_FLOWS
) -> Iterator[ValueProblem]:
    """Yield every problem of a check. `has_url`: another field has the URL of its first page."""
    yield from parse_web_check(arguments, flows)[1]
    if "url" not in arguments and not has_url:
        yield ValueProblem((), "P0210", "a web check without `url`", "as in `url: http://localhost:8080`", is_key=True)


def _contexts(arguments: JsonObject, meanings: Lexicon) -> tuple[str, ...]:
    names = meanings.texts(arguments.get("contexts", ()), ("contexts",))
    for index, name in enumerate(names):
        at = ("contexts", str(index))
        if name in VERBS:
            meanings.tell(at, "P0211", f"`{name}` is a verb", "call the context `A`, or by a person's name")
        if name in names[:index]:
            meanings.tell(at, "P0208", f"the context `{name}` is named twice", "each has a name of its own")
    if len(names) > limits.WEB_CONTEXTS_MAX:
        hint = f"at most {limits.WEB_CONTEXTS_MAX}"
        meanings.tell(("contexts",), "P0224", f"{len(names)} contexts", hint)
    return names


class _Steps:
    """Reads the steps of one check, in order: what a `grid` finds is known to the steps after it."""

    def __init__(self, meanings: Lexicon, contexts: tuple[str, ...], flows: ReusableSteps) -> None:
        self.meanings = meanings
        self.contexts = contexts
        self.flows = flows
        self.depth = 0  # Of flows that reuse flows.
        self.tell = meanings.tell

    def check(self, arguments: JsonObject) -> WebCheck:
        is_never = "never" in arguments
        name = "never" if is_never else "can"
        if ("can" in arguments) == is_never:
            said = "both `can` and `never`" if is_never else "neither `can` nor `never`"
            self.tell((), "P0211" if is_never else "P0210", f"a web check with {said}", "it has one of them")
        count = len(self.meanings.faults)
        steps = self.steps(arguments.get(name, []), (name,))
        last = max((index for index, step in enumerate(steps) if not step.is_expectation), default=-1)
        forbidden = steps[last + 1 :] if is_never else ()
        if name in arguments and len(self.meanings.faults) == count:  # Else it may be just what could not be read.
            self._looks(steps, forbidden, is_never=is_never)
        if "and" in arguments and not is_never:
            self.tell(("and",), "P0211", "`and` without `never`", "put it at the end of `can`", is_key=True)
        also = self.steps(arguments.get("and", []), ("and",))
        for index, step in enumerate(also):
            if not step.is_expectation:
                at = ("and", str(index)) if isinstance(arguments["and"], list) else ("and",)
                self.tell(at, "P0211", f"`{step.written}` is done, not looked for", "do it before, in `never`")
        return WebCheck(
            steps=steps[: last + 1] if is_never else steps,
            is_never=is_never,
            forbidden=forbidden,
            also=also,
            url=self.meanings.text(arguments.get("url", ""), ("url",)),
            contexts=self.contexts,
            lexicon=self.meanings.lexicon,
            within_s=self.seconds(arguments.get("within", WITHIN_S), ("within",)),
        )

    def _looks(self, steps: tuple[WebStep, ...], forbidden: tuple[WebStep, ...], *, is_never: bool) -> None:
        if is_never and not forbidden:
            hint = "end it with what must not be seen then, such as `gone: pass-field`"
            self.tell(("never",), "P0210", "`never` does not say what is forbidden", hint)
        elif not any(step.is_expectation for step in steps):
            self.tell(("can",), "P0210", "`can` looks at nothing", "end it with what is seen then, such as `see: ada`")

    def steps(self, raw: Json, at: ValuePath) -> tuple[WebStep, ...]:
        """The steps of a list, or the one that stands alone."""
        if isinstance(raw, list):
            places = [(*at, str(index)) for index in range(len(raw))]
            steps = tuple(step for one, place in zip(raw, places, strict=True) for step in self.step(one, place))
        else:
            steps = self.step(raw, at)
        if len(steps) > limits.WEB_STEPS_MAX:
            self.tell(at, "P0224", f"{len(steps)} steps", f"at most {limits.WEB_STEPS_MAX}: make several checks")
        return steps

    def step(self, raw: Json, at: ValuePath, who: str = "") -> tuple[WebStep, ...]:
        """`{press: send-button, within: 5s}`, or the same below the name of a context."""
        if not isinstance(raw, dict) or not raw:
            self.tell(at, "P0202", f"a step is a map, not {quote_value(raw)}", "as in `{press: send-button}`")
            return ()
        if len(raw) == 1 and not who and (name := next(iter(raw))) in self.contexts:
            inner = raw[name]
            rows = enumerate(inner) if isinstance(inner, list) else None
            if rows is None:
                return self.step(inner, (*at, name), name)
            return tuple(step for index, one in rows for step in self.step(one, (*at, name, str(index)), name))
        within_s = self.seconds(raw["within"], (*at, "within")) if "within" in raw else None
        verbs = [name for name in raw if name != "within"]
        if len(verbs) != 1:
            said = " and ".join(f"`{name}`" for name in verbs) or "none"
            self.tell(at, "P0211", f"a step does one thing, this has {said}", "make a list of steps")
            return ()
        verb = verbs[0]
        if verb == "reuse":
            return self.reused(raw[verb], (*at, verb))
        if verb not in VERBS:
            known = [*VERBS, "reuse", *self.contexts]
            self.meanings.faults.append(unknown_name_problem(verb, known, (*at, verb), "the browser"))
            return ()
        done = VERBS[verb](self, raw[verb], (*at, verb))
        return tuple(WebStep(does, _words_of(verb, raw[verb], does), who, within_s) for does in done)

    def reused(self, name: Json, at: ValuePath) -> tuple[WebStep, ...]:
        """Return the steps of another check, whose own problems are reported at that check."""
        if not isinstance(name, str) or name not in self.flows:
            known = (
                f"known ids: {list_names(self.flows)}" if self.flows else "add an `id` to a web check that has `can`"
            )
            self.tell(at, "P0213", f"no check {quote_value(name)} to reuse", known)
            return ()
        if self.depth == limits.WEB_REUSED_DEEP_MAX:
            self.tell(at, "P0215", f"`{name}` reuses others that reuse others", "write some of the steps out")
            return ()
        faults, count = self.meanings.faults, len(self.meanings.faults)
        self.depth += 1
        steps = self.steps(self.flows[name], at)
        self.depth -= 1
        if len(faults) > count:  # Its places are in another check, which may know names that this one does not.
            first = faults[count]
            faults[count:] = [ValueProblem(at, first.code, f"`{name}` does not fit here: {first.summary}", first.hint)]
        return steps

    def seconds(self, raw: Json, at: ValuePath) -> float:
        found: float | None = quantities.parse_duration(raw) if isinstance(raw, str) else raw
        if found is None or not is_number(found) or found < 0:
            self.tell(at, "P0202", f"{quote_value(raw)} is not a duration", "for example `500ms` or `3s`")
            return 0.0
        if found > limits.WEB_WAIT_S_MAX:
            self.tell(at, "P0212", f"{quote_value(raw)} is too long", f"at most {limits.WEB_WAIT_S_MAX:g}s")
        return float(found)

    def number(self, raw: Json, at: ValuePath, least: int, most: int) -> int:
        if not isinstance(raw, int) or isinstance(raw, bool) or not least <= raw <= most:
            self.tell(
                at, "P0212", f"{quote_value(raw)} is not a whole number from {least} to {most}", f"for example {least}"
            )
            return least
        return raw

    def members(self, raw: Json, at: ValuePath, needed: tuple[str, ...], example: str) -> JsonObject | None:
        """A map that has exactly these members."""
        if not isinstance(raw, dict):
            self.tell(at, "P0202", f"`{at[-1]}` is a map, not {quote_value(raw)}", f"as in `{example}`")
            return None
        for name in raw:
            if name not in needed:
                self.meanings.faults.append(unknown_name_problem(name, needed, (*at, name), f"`{at[-1]}`"))
        missing = [name for name in needed if name not in raw]
        if missing:
            self.tell(at, "P0210", f"`{at[-1]}` lacks {list_names(missing)}", f"as in `{example}`")
        return None if missing else raw


def _words_of(verb: str, raw: Json, does: WebStepParser) -> str:
    match does:
        case FillField(target, text):
            return f"fill {target.written}: {text}"
        case ClickElement(target):
            return f"press {target.written}"
        case PressKey(key):
            return f"key {key}"
        case ChooseOption(target, option):
            return f"choose {target.written}: {option}"
    return verb if raw is True else f"{verb} {quote_value(raw).strip('`')}"


def _open(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    return [OpenPage("" if raw is True else steps.meanings.text(raw, at))]


def _fill(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    if not isinstance(raw, dict) or not raw:
        steps.tell(at, "P0202", f"`fill` is a map, not {quote_value(raw)}", "as in `fill: {user-field: ada}`")
        return []
    rows = [(steps.meanings.target(name, (*at, name)), name) for name in raw]
    texts = [steps.meanings.text(raw[name], (*at, name)) for name in raw]
    return [FillField(target, text) for (target, _), text in zip(rows, texts, strict=True) if target is not None]


def _press(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    rows = [(one, (*at, str(index))) for index, one in enumerate(raw)] if isinstance(raw, list) else [(raw, at)]
    return [ClickElement(target) for one, place in rows if (target := steps.meanings.target(one, place)) is not None]


def _key(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    found: list[WebStepParser] = []
    for index, key in enumerate(steps.meanings.texts(raw, at)):
        *held, last = re.split(r"\+(?=.)", key)
        wrong = [name for name in held if name not in _HELD] + [last] * (len(last) != 1 and last not in _KEYS)
        if wrong:
            place = (*at, str(index)) if isinstance(raw, list) else at
            near = get_close_matches(wrong[0], (*_KEYS, *_HELD), n=1)
            hint = f"did you mean `{near[0]}`?" if near else "as in `Enter`, `ArrowLeft`, `a` or `Control+a`"
            steps.tell(place, "P0213", f"unknown key {quote_value(wrong[0])}", hint)
        found.append(PressKey(key))
    return found


def _type(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    return [TypeText(steps.meanings.text(raw, at))]


def _choose(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    if not isinstance(raw, dict) or not raw:
        steps.tell(at, "P0202", f"`choose` is a map, not {quote_value(raw)}", "as in `choose: {colour-field: red}`")
        return []
    found = [(steps.meanings.target(name, (*at, name)), steps.meanings.words(raw[name], (*at, name))) for name in raw]
    return [ChooseOption(target, words) for target, words in found if target is not None and words is not None]


def _drag(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    found = steps.members(raw, at, ("from", "to"), "drag: {from: card, to: slot}")
    if found is None:
        return []
    source, to = (steps.meanings.target(found[name], (*at, name)) for name in ("from", "to"))
    return [DragElement(source, to)] if source is not None and to is not None else []


def _flag(make: Callable[[], WebStepParser]) -> WebVerbParser:
    def read_flag(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
        if raw is not True:
            steps.tell(at, "P0202", f"`{at[-1]}` is true, not {quote_value(raw)}", f"write `{at[-1]}: true`")
        return [make()]

    return read_flag


def _wait(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    return [Pause(steps.seconds(raw, at))]


def _grid(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    found = steps.members(raw, at, ("rows", "cols", "as"), "grid: {rows: 3, cols: 3, as: g}")
    if found is None:
        return []
    rows, columns = (steps.number(found[name], (*at, name), 1, limits.WEB_GRID_SIDE_MAX) for name in ("rows", "cols"))
    name = steps.meanings.text(found["as"], (*at, "as"))
    if rows * columns < 2:
        steps.tell(at, "P0212", "a grid of one cell", "press it by its name")
    steps.meanings.boards[name] = (rows, columns)
    return [FindBoard(rows, columns, name)]


def _maybe(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    found = steps.steps(raw, at)
    if found and not isinstance(found[0].does, FillField | ClickElement | ChooseOption | DragElement):
        steps.tell(at, "P0211", f"`maybe` begins with `{found[0].written}`", "it begins with a target: fill, press …")
    return [MaybeSteps(found)] if found else []


def _see(how: str) -> WebVerbParser:
    def read_seen(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
        rows = [(one, (*at, str(index))) for index, one in enumerate(raw)] if isinstance(raw, list) else [(raw, at)]
        found = [steps.meanings.seen(one, place) for one, place in rows]
        return [ExpectVisible(what, how) for what in found if what is not None]  # type: ignore[arg-type]

    return read_seen


def _count(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    if not isinstance(raw, dict) or not raw:
        steps.tell(at, "P0202", f"`count` is a map, not {quote_value(raw)}", "as in `count: {message: 2}`")
        return []
    found: list[WebStepParser] = []
    for name, wanted in raw.items():
        what = steps.meanings.seen(name, (*at, name))
        bounds = _bounds(steps, wanted, (*at, name))
        if what is not None and bounds is not None:
            found.append(ExpectCount(what, *bounds))
    return found


def _bounds(steps: _Steps, raw: Json, at: ValuePath) -> tuple[int, int | None] | None:
    if not isinstance(raw, dict):
        exact = steps.number(raw, at, 0, limits.WEB_COUNT_MAX)
        return exact, exact
    if not raw or raw.keys() - {"at-least", "at-most"}:
        steps.tell(at, "P0202", f"{quote_value(raw)} is not a count", "give a number or `{at-least: 1, at-most: 3}`")
        return None
    most = limits.WEB_COUNT_MAX
    least = steps.number(raw.get("at-least", 0), (*at, "at-least"), 0, most)
    return least, steps.number(raw["at-most"], (*at, "at-most"), 0, most) if "at-most" in raw else None


def _changes(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    if raw is True:
        return [ExpectChange(None)]
    found = steps.members(raw, at, ("on",), "changes: {on: main}") if isinstance(raw, dict) else {"on": raw}
    target = steps.meanings.target(found["on"], (*at, "on") if isinstance(raw, dict) else at) if found else None
    return [] if target is None else [ExpectChange(target)]


def _value(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    if not isinstance(raw, dict) or not raw:
        steps.tell(at, "P0202", f"`value` is a map, not {quote_value(raw)}", "as in `value: {counter: 3}`")
        return []
    found = [(steps.meanings.target(name, (*at, name)), steps.meanings.words(raw[name], (*at, name))) for name in raw]
    return [ExpectValue(target, words) for target, words in found if target is not None and words is not None]


def _enabled(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    if isinstance(raw, dict) and raw and all(isinstance(wanted, bool) for wanted in raw.values()):
        found = [(steps.meanings.target(name, (*at, name)), wanted) for name, wanted in raw.items()]
    else:
        found = [(steps.meanings.target(raw, at), True)]
    return [ExpectEnabled(target, wanted) for target, wanted in found if target is not None]


def _focusable(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    target = steps.meanings.target(raw, at)
    return [] if target is None else [ExpectFocusable(target)]


def _title(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    words = steps.meanings.words(raw, at)
    return [] if words is None else [ExpectTitle(words)]


def _url(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    words = steps.meanings.words(raw, at)
    return [] if words is None else [ExpectPageAddress(words)]


def _picture(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    target = None if raw is True else steps.meanings.target(raw, at)
    return [] if target is None and raw is not True else [ExpectPicture(target)]


def _any(steps: _Steps, raw: Json, at: ValuePath) -> list[WebStepParser]:
    if not isinstance(raw, list) or not raw:
        steps.tell(
            at, "P0202", f"`any` is a list, not {quote_value(raw)}", "as in `any: [{see: ada}, {see: login-button}]`"
        )
        return []
    alternatives = tuple(steps.steps(one, (*at, str(index))) for index, one in enumerate(raw))
    for index, alternative in enumerate(alternatives):
        for step in alternative:
            if not step.is_expectation or step.who:
                hint = "`any` is of expectations; what may be done or not is `maybe`"
                steps.tell((*at, str(index)), "P0211", f"`{step.written}` in `any`", hint)
    return [ExpectAnyOf(alternatives)]


VERBS: Final[Mapping[str, WebVerbParser]] = MappingProxyType(
    {
        "open": _open,
        "fill": _fill,
        "press": _press,
        "key": _key,
        "type": _type,
        "choose": _choose,
        "drag": _drag,
        "reload": _flag(ReloadPage),
        "back": _flag(GoBack),
        "wait": _wait,
        "grid": _grid,
        "maybe": _maybe,
        "see": _see("see"),
        "gone": _see("gone"),
        "appears": _see("appears"),
        "count": _count,
        "changes": _changes,
        "value": _value,
        "enabled": _enabled,
        "focusable": _focusable,
        "title": _title,
        "url": _url,
        "picture-changes": _picture,
        "any": _any,
    }
)
"""Every verb and expectation, and what reads it."""
