"""One way through the steps of a check, with fresh browser contexts: what is done, and what is waited for.

Which of several candidates is taken is told by the way; how many there were is told back in `choices`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, cast
from urllib.parse import urljoin

from playwright.async_api import Browser
from playwright.async_api import Error as PlaywrightError

from planloop.controllers.task.checking.web import boards, finding, judging
from planloop.controllers.task.checking.web.boards import Grid, Square
from planloop.controllers.task.checking.web.browser import LOOK_EVERY_S, REST_S, Person
from planloop.controllers.task.checking.web.finding import Around, Candidate
from planloop.controllers.task.checking.web.judging import Scene
from planloop.controllers.task.checking.web.sight import Sight, folded, is_in
from planloop.controllers.task.checking.web.ways import Way
from planloop.schemas.frozen import remade
from planloop.schemas.web import (
    Action,
    Back,
    Board,
    Cell,
    Choose,
    Drag,
    Expectation,
    Fill,
    Key,
    Maybe,
    Open,
    Press,
    Reload,
    Step,
    Target,
    Type,
    Wait,
    WebCheck,
    Words,
)

_SETTLING_LOOKS: Final = 6  # At a page that never stands still.
_TRIES: Final = 3  # To reach an element that is replaced under our hands.
_MAYBE_S: Final = 0.5
_STILL_S: Final = 1.5
_CHOSEN_ROLES: Final = frozenset({"radio", "option", "menuitemradio", "menuitem", "button", "checkbox", "tab"})


class Stuck(Exception):
    """The way ends here: a target is not there, or something does not hold."""


@dataclass
class View:
    """What is remembered of one person: what was seen before the last action, the boards, the field filled last."""

    person: Person
    before: Sight = field(default_factory=Sight)
    pictures: dict[str, bytes] = field(default_factory=dict)
    boards: dict[str, Grid] = field(default_factory=dict)
    filled: int = 0


@dataclass
class Play:
    """One way under way, and what came of it: choices met, things looked at, targets found, steps done."""

    check: WebCheck
    way: Way
    views: dict[str, View]
    choices: list[int] = field(default_factory=list)
    probes: int = 0
    done: int = 0
    found: dict[str, Candidate] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    is_hopeless: bool = False  # What is waited for should not come: a page that stands still is not waited for.

    async def begin(self) -> None:
        """Opens the page for those who do not begin with that themselves. Raises PageFailed."""
        for name, view in self.views.items():
            first = next((step.does for step in self.check.steps if step.who in ("", name)), None)
            if not isinstance(first, Open):
                await view.person.open(self.check.url)

    async def go(self, steps: Sequence[Step]) -> None:
        """Does the steps. Raises Stuck or PageFailed where it cannot go on."""
        for step in steps:
            for view in [self.views[step.who]] if step.who else list(self.views.values()):
                await self.step(step, view)
            self.done += 1

    async def step(self, step: Step, view: View) -> None:
        """Does one step, or waits until what it expects is so."""
        self.probes += 1
        who = f"{view.person.name}: " if view.person.name else ""
        within_s = self.check.within_s if step.within_s is None else step.within_s
        try:
            if step.is_expectation:
                await self._expect(cast("Expectation", step.does), view, within_s)
            else:
                await self._do(cast("Action", step.does), view, within_s)
        except Stuck as stuck:
            self.log.append(f"{who}{step.written}: {stuck}")
            raise Stuck(f"{who}{step.written}: {stuck}") from None
        self.log.append(f"{who}{step.written}")

    async def _do(self, does: Action, view: View, within_s: float) -> None:
        match does:
            case Maybe(steps):
                await self._maybe(steps, view)
                return
            case Wait(seconds):
                await asyncio.sleep(seconds)
                return
            case Board():
                await self._board(does, view, within_s)
                return
        await self._remember()
        match does:
            case Press(target) | Fill(target) | Choose(target):
                await self._act(does, target, view, within_s)
            case Drag(source, to):
                await self._drag(source, to, view, within_s)
            case _:
                await self._move(does, view.person)

    async def _move(self, does: Open | Reload | Back | Type | Key, person: Person) -> None:
        """Does what needs no target."""
        match does:
            case Open(path):
                await person.open(urljoin(self.check.url, path))
            case Reload():
                await person.reload()
            case Back():
                await person.back()
            case Type(text):
                await person.type(text)
            case Key(key):
                await person.key(key)

    async def _act(self, does: Press | Fill | Choose, target: Target, view: View, within_s: float) -> None:
        choice: int | None = None
        for _ in range(_TRIES):
            options = await self._options(target, view, within_s)
            choice = self._choice(len(options)) if choice is None else choice
            one = options[min(choice, len(options) - 1)]
            self._note(target, one)
            try:
                await self._act_on(does, one, view)
            except PlaywrightError:
                await asyncio.sleep(LOOK_EVERY_S)  # It was replaced since it was seen.
            else:
                return
        raise Stuck("it cannot be reached")

    async def _act_on(self, does: Press | Fill | Choose, one: Candidate, view: View) -> None:
        match does:
            case Press() if one.key:
                await view.person.key(one.key, one.node)
            case Press():
                await view.person.press(Square(one.node, one.at))
            case Fill(_, text):
                await view.person.fill(one.node, text)
                view.filled = one.node
            case Choose(_, option):
                await self._choose(one, option, view)

    async def _drag(self, source: Target, to: Target, view: View, within_s: float) -> None:
        ends: list[Square] = []
        for target in (source, to):
            options = await self._options(target, view, within_s)
            one = options[self._choice(len(options))]
            self._note(target, one)
            ends.append(Square(one.node, one.at))
        try:
            await view.person.drag(*ends)
        except PlaywrightError:
            raise Stuck("it cannot be reached") from None

    async def _choose(self, one: Candidate, option: Words, view: View) -> None:
        """An option of a native list, or whatever has these words in or after what was found."""
        sight = await view.person.look()
        element = sight.find(one.node)
        if element is not None and element.tag == "select":
            labels = [label for label in await view.person.options(one.node) if is_in(option, folded(label))]
            if not labels:
                raise Stuck(f"it has no option `{option}`")
            await view.person.choose(one.node, labels[0])
            return
        if element is not None and element.role == "combobox":
            await view.person.press(Square(one.node))
            sight = await view.person.look()
        named = [
            other
            for other in sight.elements
            if other.role in _CHOSEN_ROLES and is_in(option, folded(other.name) or sight.text_of(other))
        ]
        if not named:
            raise Stuck(f"there is no option `{option}`")
        await view.person.press(Square(named[0].node))

    def _choice(self, count: int) -> int:
        """Which of `count` to take, which is noted."""
        self.choices.append(count)
        at = len(self.choices) - 1
        return min(self.way[at], count - 1) if at < len(self.way) else 0

    def _note(self, target: Target, one: Candidate) -> None:
        if target.cell is None:
            self.found[target.written] = one

    async def _options(self, target: Target, view: View, within_s: float) -> list[Candidate]:
        """What the target may be, as soon as there is something and it stays. Raises Stuck when nothing is in time."""
        why, seen, looks = f"there is no `{target.written}`", None, 0
        until = _now() + within_s
        while True:
            sight = await self._look(view)
            options, is_disabled = self._usable(target, sight, view)
            if options and (options == seen or looks >= _SETTLING_LOOKS):
                return options
            if options:
                looks += 1
            elif is_disabled:
                why = "it is disabled"
            seen = options
            if not options and _now() >= until:
                raise Stuck(why)
            await asyncio.sleep(LOOK_EVERY_S)

    def _usable(self, target: Target, sight: Sight, view: View) -> tuple[list[Candidate], bool]:
        """The candidates that are not disabled, and whether others are."""
        if target.cell is not None:
            square = _square(target.cell, view)
            one = sight.find(square.node)
            found = [Candidate(square.node, "grid", at=square.at)] if one is not None else []
        else:
            found = finding.candidates(target, sight, self._around(view))
        enabled = [one for one in found if (element := sight.find(one.node)) is not None and not element.is_disabled]
        return enabled, len(enabled) < len(found)

    async def _maybe(self, steps: tuple[Step, ...], view: View) -> None:
        first = steps[0].does
        target = first.source if isinstance(first, Drag) else cast("Press", first).target
        until = _now() + _MAYBE_S
        while not self._is_there(target, await self._look(view), view):
            if _now() >= until and view.person.is_at_rest:
                self.log.append(f"there is no `{target.written}`, passed over")
                return
            await asyncio.sleep(LOOK_EVERY_S)
        for step in steps:
            await self.step(step, self.views[step.who] if step.who else view)

    def _is_there(self, target: Target, sight: Sight, view: View) -> bool:
        """Whether it can be used."""
        if target.cell is not None:
            return bool(self._usable(target, sight, view)[0])
        found = finding.present(target, sight, self._around(view), is_likely=True)
        return any(not one.is_disabled for one in found)

    async def _board(self, does: Board, view: View, within_s: float) -> None:
        until = _now() + within_s
        seen: list[Grid] = []
        while True:
            found = boards.find(await self._look(view), does.rows, does.columns)
            if found and found == seen:
                view.boards[does.name] = found[self._choice(len(found))]
                return
            if _now() >= until:
                raise Stuck(f"there is no board of {does.rows} rows and {does.columns} columns")
            seen = found
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self, view: View) -> Sight:
        """What is seen now. A board whose cells were replaced is found again."""
        sight = await view.person.look()
        for name, grid in view.boards.items():
            if any(sight.find(square.node) is None for square in grid.squares):
                again = boards.find(sight, len(grid.squares) // grid.columns, grid.columns)
                view.boards[name] = again[0] if again else grid
        return sight

    def _around(self, view: View) -> Around:
        return Around(self.check.lexicon, view.filled)

    async def _remember(self) -> None:
        """Keeps what everybody sees, to tell later what the action changed."""
        wanted = [one for step in self.check.every_step for one in judging.pictures_of(step.does)]
        for view in self.views.values():
            view.person.spoken.clear()
            view.before = await self._look(view)
            for target in wanted:
                picture = await self._picture(target, view.before, view)
                if picture is not None:
                    view.pictures[target.written if target else ""] = picture

    async def _picture(self, target: Target | None, sight: Sight, view: View) -> bytes | None:
        found = judging.elements(target, sight, self._scene(sight, view)) if target else []
        if target is not None and not found:
            return None
        try:
            return await view.person.picture(found[0].node if found else 0)
        except PlaywrightError:
            return None

    def _scene(self, sight: Sight, view: View) -> Scene:
        return Scene(sight, view.before, self._around(view), view.boards)

    async def _expect(self, does: Expectation, view: View, within_s: float) -> None:
        until, is_late = _now() + within_s, judging.needs_rest(does)
        since: float | None = None  # Since when it has held.
        still, still_since = None, _now()
        while True:
            scene = self._scene(await self._look(view), view)
            pictures = {
                target.written if target else "": await self._is_other(target, scene, view)
                for target in judging.pictures_of(does)
            }
            why = judging.obstacle(does, remade(scene, pictures=pictures))
            now = _now()
            if scene.now != still or not view.person.is_at_rest:
                still, still_since = scene.now, now
            since = (since or now) if not why and view.person.is_at_rest else None
            if not why and (not is_late or (since is not None and now - since >= REST_S)):
                return
            is_over = self.is_hopeless and now - still_since >= _STILL_S
            if now >= until + (2 * REST_S if not why else 0) or (why and is_over):
                raise Stuck(why or "the page does not come to rest")
            await asyncio.sleep(LOOK_EVERY_S)

    async def _is_other(self, target: Target | None, scene: Scene, view: View) -> bool:
        before = view.pictures.get(target.written if target else "")
        now = await self._picture(target, scene.now, view)
        return before is not None and now is not None and before != now


@asynccontextmanager
async def played(check: WebCheck, browser: Browser, way: Way) -> AsyncIterator[Play]:
    """A play with a fresh context for each of its people, who leave at the end."""
    async with AsyncExitStack() as stack:
        views: dict[str, View] = {}
        for name in check.people:
            person = Person(browser, name)
            stack.push_async_callback(person.leave)
            await person.enter()
            views[name] = View(person)
        yield Play(check, way, views)


def _square(cell: Cell, view: View) -> Square:
    if cell.board not in view.boards:
        raise Stuck(f"no grid `{cell.board}` was found")
    return view.boards[cell.board].square(cell)


def _now() -> float:
    return asyncio.get_running_loop().time()
