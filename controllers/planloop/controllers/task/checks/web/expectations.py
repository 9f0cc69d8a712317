"""Decide whether an expectation is met, from snapshots of the page now and before the last action. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from planloop.controllers.task.checks.web import targets
from planloop.controllers.task.checks.web.boards import BoardGrid
from planloop.controllers.task.checks.web.page_snapshot import (
    PageElement,
    PageSnapshot,
    contains_words,
    count_words,
    equals_words,
    fold_text,
)
from planloop.controllers.task.checks.web.targets import TargetContext
from planloop.schemas.checks.web_check import (
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
    MaybeSteps,
    Seen,
    TextPattern,
    WebExpectation,
    WebStep,
    WebTarget,
)
from planloop.schemas.frozen import frozen

_SHOWN_CHARS: Final = 60


@frozen
class PersonScene:
    """What one person sees now and saw before the last action.

    `boards` are the boards that were found, by name. `pictures` says for each target, and for the page under the empty
    name, whether its pixels have changed.
    """

    now: PageSnapshot
    before: PageSnapshot
    around: TargetContext
    boards: Mapping[str, BoardGrid] = {}
    pictures: Mapping[str, bool] = {}


def unmet_expectation(does: WebExpectation, scene: PersonScene) -> str:
    """Return why the expectation is not met; empty if it is."""
    now = scene.now
    match does:
        case ExpectVisible():
            return _seen(does, scene)
        case ExpectValue() | ExpectEnabled() | ExpectFocusable():
            return _unlike(does, scene)
        case ExpectCount(what, least, most):
            found = _count(what, now, scene)
            is_right = least <= found and (most is None or found <= most)
            return "" if is_right else f"found {found} of `{_name(what)}`"
        case ExpectChange(on):
            is_other = _signature(on, scene.now, scene) != _signature(on, scene.before, scene)
            return "" if is_other else f"`{on.written}` did not change" if on else "the page did not change"
        case ExpectTitle(wanted):
            return "" if contains_words(wanted, fold_text(now.title)) else f"the title is `{now.title}`"
        case ExpectPageAddress(wanted):
            return "" if contains_words(wanted, fold_text(now.url)) else f"the address is {now.url}"
        case ExpectPicture(on):
            return "" if scene.pictures.get(on.written if on else "") else "the picture did not change"
        case ExpectAnyOf(alternatives):
            why = [_first(alternative, scene) for alternative in alternatives]
            return "" if "" in why else "; ".join(why)
        case _:
            assert_never(does)


def _unlike(does: ExpectValue | ExpectEnabled | ExpectFocusable, scene: PersonScene) -> str:
    """Return why no element of the target is as expected."""
    found = elements_of_target(does.target, scene.now, scene)
    name = does.target.written
    if not found:
        return f"`{name}` was not found"
    match does:
        case ExpectValue(_, wanted):
            shown = [scene.now.shown(one) for one in found]
            is_so = any(equals_words(wanted, fold_text(one)) for one in shown)
            return "" if is_so else f"`{name}` is " + " or ".join(f"`{one[:_SHOWN_CHARS]}`" for one in shown)
        case ExpectEnabled(_, is_wanted):
            is_so = any(one.is_disabled != is_wanted for one in found)
            return "" if is_so else f"`{name}` is {'disabled' if is_wanted else 'enabled'}"
        case ExpectFocusable():
            return "" if any(one.is_focusable for one in found) else f"the keyboard cannot reach `{name}`"


def _first(steps: tuple[WebStep, ...], scene: PersonScene) -> str:
    return next((why for step in steps if (why := unmet_expectation(step.does, scene))), "")  # type: ignore[arg-type]


def needs_rest(does: WebExpectation) -> bool:
    """Whether the expectation is that something is absent, as everything is on a page that is still loading."""
    match does:
        case ExpectVisible(how="gone") | ExpectEnabled(is_wanted=False):
            return True
        case ExpectCount(most=most):
            return most is not None
        case ExpectAnyOf(alternatives):
            return any(needs_rest(step.does) for steps in alternatives for step in steps)  # type: ignore[arg-type]
        case _:
            return False


def step_pictures(does: object) -> list[WebTarget | None]:
    """Return the targets whose pictures a step compares; None stands for the page."""
    match does:
        case ExpectPicture(on):
            return [on]
        case ExpectAnyOf(alternatives):
            return [one for steps in alternatives for step in steps for one in step_pictures(step.does)]
        case MaybeSteps(steps):
            return [one for step in steps for one in step_pictures(step.does)]
        case _:
            return []


def _seen(does: ExpectVisible, scene: PersonScene) -> str:
    name = _name(does.what)
    now = _count(does.what, scene.now, scene)
    match does.how:
        case "see":
            return "" if now else f"`{name}` is not visible"
        case "gone":
            return "" if not now else f"`{name}` is still visible"
        case "appears":
            before = _count(does.what, scene.before, scene)
            return "" if now > before else f"`{name}` was visible before" if now else f"`{name}` is not visible"


def _name(what: Seen) -> str:
    return str(what) if isinstance(what, TextPattern) else what.written


def _count(what: Seen, sight: PageSnapshot, scene: PersonScene) -> int:
    """Return how often `what` is visible: as text anywhere, including dialogs, or as elements."""
    if isinstance(what, TextPattern):
        return count_words(what, sight.words)
    if what.cell is not None:
        return len(elements_of_target(what, sight, scene))
    texts = [way.text for way in what.meaning if way.text is not None and not way.roles]
    others = tuple(way for way in what.meaning if way.text is None or way.roles)
    found = targets.certain_elements(WebTarget(what.written, others), sight, scene.around)
    return sum(count_words(text, sight.words) for text in texts) + len(found)


def elements_of_target(target: WebTarget, sight: PageSnapshot, scene: PersonScene) -> list[PageElement]:
    """Return the elements that a target may mean."""
    if target.cell is not None:
        grid = scene.boards.get(target.cell.board)
        one = sight.find(grid.square(target.cell).node) if grid else None
        return [one] if one is not None else []
    found = (sight.find(one.node) for one in targets.target_candidates(target, sight, scene.around) if not one.key)
    return [one for one in found if one is not None]


def _signature(on: WebTarget | None, sight: PageSnapshot, scene: PersonScene) -> object:
    if on is None:
        return sight.words, [_state(one) for one in sight.elements]
    found = elements_of_target(on, sight, scene)
    return [
        (sight.shown(one), [_state(sight.elements[at]) for at in sight.below(sight.elements.index(one))], _state(one))
        for one in found[:1]
    ]


def _state(one: PageElement) -> object:
    aria = {name: value for name, value in one.attributes.items() if name.startswith("aria-")}
    return one.tag, one.role, one.name, one.value, one.is_disabled, aria
