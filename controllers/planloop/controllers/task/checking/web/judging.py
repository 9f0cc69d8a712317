"""Whether an expectation holds: pure, over what is seen now and what was seen before the last action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never

from planloop.controllers.task.checking.web import finding
from planloop.controllers.task.checking.web.boards import Grid
from planloop.controllers.task.checking.web.finding import Around
from planloop.controllers.task.checking.web.sight import Element, Sight, count, folded, is_all, is_in
from planloop.schemas.frozen import frozen
from planloop.schemas.web import (
    Address,
    AnyOf,
    Changes,
    Count,
    Enabled,
    Expectation,
    Focusable,
    Maybe,
    Picture,
    See,
    Seen,
    Step,
    Target,
    Title,
    Value,
    Words,
)

_SHOWN_CHARS: Final = 60


@frozen
class Scene:
    """What one person sees, and saw before the last action.

    `boards` are those found, by name. `pictures` says of each target, and of the
    page under the empty name, whether its pixels are others than before.
    """

    now: Sight
    before: Sight
    around: Around
    boards: Mapping[str, Grid] = {}
    pictures: Mapping[str, bool] = {}


def obstacle(does: Expectation, scene: Scene) -> str:
    """Why the expectation does not hold; empty when it does."""
    now = scene.now
    match does:
        case See():
            return _seen(does, scene)
        case Value() | Enabled() | Focusable():
            return _unlike(does, scene)
        case Count(what, least, most):
            found = _count(what, now, scene)
            is_right = least <= found and (most is None or found <= most)
            return "" if is_right else f"there are {found} of `{_name(what)}`"
        case Changes(on):
            is_other = _signature(on, scene.now, scene) != _signature(on, scene.before, scene)
            return "" if is_other else f"`{on.written}` stays as it was" if on else "the page stays as it was"
        case Title(wanted):
            return "" if is_in(wanted, folded(now.title)) else f"the title is `{now.title}`"
        case Address(wanted):
            return "" if is_in(wanted, folded(now.url)) else f"the address is {now.url}"
        case Picture(on):
            return "" if scene.pictures.get(on.written if on else "") else "the picture stays as it was"
        case AnyOf(alternatives):
            why = [_first(alternative, scene) for alternative in alternatives]
            return "" if "" in why else "; ".join(why)
        case _:
            assert_never(does)


def _unlike(does: Value | Enabled | Focusable, scene: Scene) -> str:
    """Why no element that the target may be is as it should."""
    found = elements(does.target, scene.now, scene)
    name = does.target.written
    if not found:
        return f"there is no `{name}`"
    match does:
        case Value(_, wanted):
            shown = [scene.now.shown(one) for one in found]
            is_so = any(is_all(wanted, folded(one)) for one in shown)
            return "" if is_so else f"`{name}` is " + " or ".join(f"`{one[:_SHOWN_CHARS]}`" for one in shown)
        case Enabled(_, is_wanted):
            is_so = any(one.is_disabled != is_wanted for one in found)
            return "" if is_so else f"`{name}` is {'disabled' if is_wanted else 'enabled'}"
        case Focusable():
            return "" if any(one.is_focusable for one in found) else f"the keyboard does not reach `{name}`"


def _first(steps: tuple[Step, ...], scene: Scene) -> str:
    return next((why for step in steps if (why := obstacle(step.does, scene))), "")  # type: ignore[arg-type]


def needs_rest(does: Expectation) -> bool:
    """Whether it says that something is not there: so seems everything on a page that is still being loaded."""
    match does:
        case See(how="gone") | Enabled(is_wanted=False):
            return True
        case Count(most=most):
            return most is not None
        case AnyOf(alternatives):
            return any(needs_rest(step.does) for steps in alternatives for step in steps)  # type: ignore[arg-type]
        case _:
            return False


def pictures_of(does: object) -> list[Target | None]:
    """The pictures that a step is about; None for the page."""
    match does:
        case Picture(on):
            return [on]
        case AnyOf(alternatives):
            return [one for steps in alternatives for step in steps for one in pictures_of(step.does)]
        case Maybe(steps):
            return [one for step in steps for one in pictures_of(step.does)]
        case _:
            return []


def _seen(does: See, scene: Scene) -> str:
    name = _name(does.what)
    now = _count(does.what, scene.now, scene)
    match does.how:
        case "see":
            return "" if now else f"`{name}` is not seen"
        case "gone":
            return "" if not now else f"`{name}` is still seen"
        case "appears":
            before = _count(does.what, scene.before, scene)
            return "" if now > before else f"`{name}` was seen before" if now else f"`{name}` is not seen"


def _name(what: Seen) -> str:
    return str(what) if isinstance(what, Words) else what.written


def _count(what: Seen, sight: Sight, scene: Scene) -> int:
    """How often it is seen: as text anywhere, also in dialogs, or as elements."""
    if isinstance(what, Words):
        return count(what, sight.words)
    if what.cell is not None:
        return len(elements(what, sight, scene))
    texts = [way.text for way in what.meaning if way.text is not None and not way.roles]
    others = tuple(way for way in what.meaning if way.text is None or way.roles)
    found = finding.present(Target(what.written, others), sight, scene.around)
    return sum(count(text, sight.words) for text in texts) + len(found)


def elements(target: Target, sight: Sight, scene: Scene) -> list[Element]:
    """The elements that a target may be."""
    if target.cell is not None:
        grid = scene.boards.get(target.cell.board)
        one = sight.find(grid.square(target.cell).node) if grid else None
        return [one] if one is not None else []
    found = (sight.find(one.node) for one in finding.candidates(target, sight, scene.around) if not one.key)
    return [one for one in found if one is not None]


def _signature(on: Target | None, sight: Sight, scene: Scene) -> object:
    if on is None:
        return sight.words, [_state(one) for one in sight.elements]
    found = elements(on, sight, scene)
    return [
        (sight.shown(one), [_state(sight.elements[at]) for at in sight.below(sight.elements.index(one))], _state(one))
        for one in found[:1]
    ]


def _state(one: Element) -> object:
    aria = {name: value for name, value in one.attributes.items() if name.startswith("aria-")}
    return one.tag, one.role, one.name, one.value, one.is_disabled, aria
