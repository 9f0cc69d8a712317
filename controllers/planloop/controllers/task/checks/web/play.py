"""Do the steps of a `web` check in one way, in fresh browser contexts, and order the ways to try."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, cast
from urllib.parse import urljoin

from playwright.async_api import Browser
from playwright.async_api import Error as PlaywrightError

from planloop.controllers.task.checks.web import boards, expectations, targets
from planloop.controllers.task.checks.web.boards import BoardCell, BoardGrid
from planloop.controllers.task.checks.web.browser import LOOK_EVERY_S, REST_S, BrowserPerson
from planloop.controllers.task.checks.web.expectations import PersonScene
from planloop.controllers.task.checks.web.page_snapshot import PageSnapshot, contains_words, fold_text
from planloop.controllers.task.checks.web.targets import TargetCandidate, TargetContext
from planloop.schemas.checks.web_check import (
    CellTarget,
    ChooseOption,
    ClickElement,
    DragElement,
    FillField,
    FindBoard,
    GoBack,
    MaybeSteps,
    OpenPage,
    Pause,
    PressKey,
    ReloadPage,
    TextPattern,
    TypeText,
    WebAction,
    WebCheck,
    WebExpectation,
    WebStep,
    WebTarget,
)
from planloop.schemas.frozen import remade

# A way is the choice at each point where several candidates were found, the most likely choices first. The points
# become known only during a try: after the choices of the way, a try takes the first candidate at every further point.

ChoicePath = tuple[int, ...]


@dataclass
class WayQueue:
    """Ways that were not tried yet. `most` is the number of ways that may still be tried."""

    most: int
    _left: list[tuple[int, ChoicePath]] = field(default_factory=lambda: [(0, ())])

    def next(self) -> ChoicePath | None:
        """Return the next way to try, or None."""
        if not self._left or self.most <= 0:
            return None
        self.most -= 1
        return heapq.heappop(self._left)[1]

    def tried(self, way: ChoicePath, choices: Sequence[int]) -> None:
        """Add the ways that follow from `way`, which found `choices` candidates at each point."""
        for at in range(len(way), len(choices)):
            for choice in range(1, choices[at]):
                other = (*way, *([0] * (at - len(way))), choice)
                heapq.heappush(self._left, (sum(other), other))


_SETTLING_LOOKS: Final = 6  # For a page that never stops changing.
_TRIES: Final = 3  # For an element that the page replaces while it is used.
_MAYBE_S: Final = 0.5
_STILL_S: Final = 1.5
_CHOSEN_ROLES: Final = frozenset({"radio", "option", "menuitemradio", "menuitem", "button", "checkbox", "tab"})


class PlayStuck(Exception):
    """The way ends here: a target was not found, or an expectation is not met."""


@dataclass
class PersonMemory:
    """Memory of one person: the page before the last action, the boards, and the field filled last."""

    person: BrowserPerson
    before: PageSnapshot = field(default_factory=PageSnapshot)
    pictures: dict[str, bytes] = field(default_factory=dict)
    boards: dict[str, BoardGrid] = field(default_factory=dict)
    filled: int = 0


@dataclass
class WayPlay:
    """A way in progress and its results: candidates at each point (`choices`), probes, targets found, steps done.

    `way` decides which candidate to take at each point.
    """

    check: WebCheck
    way: ChoicePath
    views: dict[str, PersonMemory]
    choices: list[int] = field(default_factory=list)
    probes: int = 0
    done: int = 0
    found: dict[str, TargetCandidate] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    is_hopeless: bool = False  # The expected state should not come: do not wait for a page that no longer changes.

    async def begin(self) -> None:
        """Open the page for each person whose first step does not open one. Raises PageFailed."""
        for name, view in self.views.items():
            first = next((step.does for step in self.check.steps if step.who in ("", name)), None)
            if not isinstance(first, OpenPage):
                await view.person.open(self.check.url)

    async def go(self, steps: Sequence[WebStep]) -> None:
        """Do the steps. Raises PlayStuck or PageFailed at the first that cannot be done."""
        for step in steps:
            for view in [self.views[step.who]] if step.who else list(self.views.values()):
                await self.step(step, view)
            self.done += 1

    async def step(self, step: WebStep, view: PersonMemory) -> None:
        """Do one action, or wait until an expectation is met."""
        self.probes += 1
        who = f"{view.person.name}: " if view.person.name else ""
        within_s = self.check.within_s if step.within_s is None else step.within_s
        try:
            if step.is_expectation:
                await self._expect(cast("WebExpectation", step.does), view, within_s)
            else:
                await self._do(cast("WebAction", step.does), view, within_s)
        except PlayStuck as stuck:
            self.log.append(f"{who}{step.written}: {stuck}")
            raise PlayStuck(f"{who}{step.written}: {stuck}") from None
        self.log.append(f"{who}{step.written}")

    async def _do(self, does: WebAction, view: PersonMemory, within_s: float) -> None:
        match does:
            case MaybeSteps(steps):
                await self._maybe(steps, view)
                return
            case Pause(seconds):
                await asyncio.sleep(seconds)
                return
            case FindBoard():
                await self._board(does, view, within_s)
                return
        await self._remember()
        match does:
            case ClickElement(target) | FillField(target) | ChooseOption(target):
                await self._act(does, target, view, within_s)
            case DragElement(source, to):
                await self._drag(source, to, view, within_s)
            case _:
                await self._move(does, view.person)

    async def _move(self, does: OpenPage | ReloadPage | GoBack | TypeText | PressKey, person: BrowserPerson) -> None:
        """Do an action without a target."""
        match does:
            case OpenPage(path):
                await person.open(urljoin(self.check.url, path))
            case ReloadPage():
                await person.reload()
            case GoBack():
                await person.back()
            case TypeText(text):
                await person.type(text)
            case PressKey(key):
                await person.key(key)

    async def _act(
        self, does: ClickElement | FillField | ChooseOption, target: WebTarget, view: PersonMemory, within_s: float
    ) -> None:
        choice: int | None = None
        for _ in range(_TRIES):
            options = await self._options(target, view, within_s)
            choice = self._choice(len(options)) if choice is None else choice
            one = options[min(choice, len(options) - 1)]
            self._note(target, one)
            try:
                await self._act_on(does, one, view)
            except PlaywrightError:
                await asyncio.sleep(LOOK_EVERY_S)  # The element was replaced since the snapshot.
            else:
                return
        raise PlayStuck("it cannot be reached")

    async def _act_on(
        self, does: ClickElement | FillField | ChooseOption, one: TargetCandidate, view: PersonMemory
    ) -> None:
        match does:
            case ClickElement() if one.key:
                await view.person.key(one.key, one.node)
            case ClickElement():
                await view.person.press(BoardCell(one.node, one.at))
            case FillField(_, text):
                await view.person.fill(one.node, text)
                view.filled = one.node
            case ChooseOption(_, option):
                await self._choose(one, option, view)

    async def _drag(self, source: WebTarget, to: WebTarget, view: PersonMemory, within_s: float) -> None:
        ends: list[BoardCell] = []
        for target in (source, to):
            options = await self._options(target, view, within_s)
            one = options[self._choice(len(options))]
            self._note(target, one)
            ends.append(BoardCell(one.node, one.at))
        try:
            await view.person.drag(*ends)
        except PlaywrightError:
            raise PlayStuck("it cannot be reached") from None

    async def _choose(self, one: TargetCandidate, option: TextPattern, view: PersonMemory) -> None:
        """Select an option of a native list, or click an element with this text."""
        sight = await view.person.look()
        element = sight.find(one.node)
        if element is not None and element.tag == "select":
            labels = [
                label for label in await view.person.options(one.node) if contains_words(option, fold_text(label))
            ]
            if not labels:
                raise PlayStuck(f"the list has no option `{option}`")
            await view.person.choose(one.node, labels[0])
            return
        if element is not None and element.role == "combobox":
            await view.person.press(BoardCell(one.node))
            sight = await view.person.look()
        named = [
            other
            for other in sight.elements
            if other.role in _CHOSEN_ROLES and contains_words(option, fold_text(other.name) or sight.text_of(other))
        ]
        if not named:
            raise PlayStuck(f"the option `{option}` was not found")
        await view.person.press(BoardCell(named[0].node))

    def _choice(self, count: int) -> int:
        """Return which of `count` candidates to take, and note the count."""
        self.choices.append(count)
        at = len(self.choices) - 1
        return min(self.way[at], count - 1) if at < len(self.way) else 0

    def _note(self, target: WebTarget, one: TargetCandidate) -> None:
        if target.cell is None:
            self.found[target.written] = one

    async def _options(self, target: WebTarget, view: PersonMemory, within_s: float) -> list[TargetCandidate]:
        """Return the candidates of the target as soon as there are some and they stay the same.

        Raises:
            PlayStuck: no candidate within `within_s` seconds.
        """
        why, seen, looks = f"`{target.written}` was not found", None, 0
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
                raise PlayStuck(why)
            await asyncio.sleep(LOOK_EVERY_S)

    def _usable(self, target: WebTarget, sight: PageSnapshot, view: PersonMemory) -> tuple[list[TargetCandidate], bool]:
        """Return the candidates that are enabled, and whether there are disabled ones."""
        if target.cell is not None:
            square = _square(target.cell, view)
            one = sight.find(square.node)
            found = [TargetCandidate(square.node, "grid", at=square.at)] if one is not None else []
        else:
            found = targets.target_candidates(target, sight, self._around(view))
        enabled = [one for one in found if (element := sight.find(one.node)) is not None and not element.is_disabled]
        return enabled, len(enabled) < len(found)

    async def _maybe(self, steps: tuple[WebStep, ...], view: PersonMemory) -> None:
        first = steps[0].does
        target = first.source if isinstance(first, DragElement) else cast("ClickElement", first).target
        until = _now() + _MAYBE_S
        while not self._is_there(target, await self._look(view), view):
            if _now() >= until and view.person.is_at_rest:
                self.log.append(f"`{target.written}` was not found, skipped")
                return
            await asyncio.sleep(LOOK_EVERY_S)
        for step in steps:
            await self.step(step, self.views[step.who] if step.who else view)

    def _is_there(self, target: WebTarget, sight: PageSnapshot, view: PersonMemory) -> bool:
        """Whether the target exists and is enabled."""
        if target.cell is not None:
            return bool(self._usable(target, sight, view)[0])
        found = targets.certain_elements(target, sight, self._around(view), is_likely=True)
        return any(not one.is_disabled for one in found)

    async def _board(self, does: FindBoard, view: PersonMemory, within_s: float) -> None:
        until = _now() + within_s
        seen: list[BoardGrid] = []
        while True:
            found = boards.find_boards(await self._look(view), does.rows, does.columns)
            if found and found == seen:
                view.boards[does.name] = found[self._choice(len(found))]
                return
            if _now() >= until:
                raise PlayStuck(f"no board of {does.rows} rows and {does.columns} columns was found")
            seen = found
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self, view: PersonMemory) -> PageSnapshot:
        """Return a snapshot of the page, and find boards again whose cells were replaced."""
        sight = await view.person.look()
        for name, grid in view.boards.items():
            if any(sight.find(square.node) is None for square in grid.squares):
                again = boards.find_boards(sight, len(grid.squares) // grid.columns, grid.columns)
                view.boards[name] = again[0] if again else grid
        return sight

    def _around(self, view: PersonMemory) -> TargetContext:
        return TargetContext(self.check.lexicon, view.filled)

    async def _remember(self) -> None:
        """Keep the page of each person, to compare it after the action."""
        wanted = [one for step in self.check.every_step for one in expectations.step_pictures(step.does)]
        for view in self.views.values():
            view.person.spoken.clear()
            view.before = await self._look(view)
            for target in wanted:
                picture = await self._picture(target, view.before, view)
                if picture is not None:
                    view.pictures[target.written if target else ""] = picture

    async def _picture(self, target: WebTarget | None, sight: PageSnapshot, view: PersonMemory) -> bytes | None:
        found = expectations.elements_of_target(target, sight, self._scene(sight, view)) if target else []
        if target is not None and not found:
            return None
        try:
            return await view.person.picture(found[0].node if found else 0)
        except PlaywrightError:
            return None

    def _scene(self, sight: PageSnapshot, view: PersonMemory) -> PersonScene:
        return PersonScene(sight, view.before, self._around(view), view.boards)

    async def _expect(self, does: WebExpectation, view: PersonMemory, within_s: float) -> None:
        until, is_late = _now() + within_s, expectations.needs_rest(does)
        since: float | None = None  # When the expectation was first met, without interruption since.
        still, still_since = None, _now()
        while True:
            scene = self._scene(await self._look(view), view)
            pictures = {
                target.written if target else "": await self._is_other(target, scene, view)
                for target in expectations.step_pictures(does)
            }
            why = expectations.unmet_expectation(does, remade(scene, pictures=pictures))
            now = _now()
            if scene.now != still or not view.person.is_at_rest:
                still, still_since = scene.now, now
            since = (since or now) if not why and view.person.is_at_rest else None
            if not why and (not is_late or (since is not None and now - since >= REST_S)):
                return
            is_over = self.is_hopeless and now - still_since >= _STILL_S
            if now >= until + (2 * REST_S if not why else 0) or (why and is_over):
                raise PlayStuck(why or "the page does not come to rest")
            await asyncio.sleep(LOOK_EVERY_S)

    async def _is_other(self, target: WebTarget | None, scene: PersonScene, view: PersonMemory) -> bool:
        before = view.pictures.get(target.written if target else "")
        now = await self._picture(target, scene.now, view)
        return before is not None and now is not None and before != now


@asynccontextmanager
async def play_way(check: WebCheck, browser: Browser, way: ChoicePath) -> AsyncIterator[WayPlay]:
    """Yield a play with a fresh browser context for each person; the contexts are closed at the end."""
    async with AsyncExitStack() as stack:
        views: dict[str, PersonMemory] = {}
        for name in check.people:
            person = BrowserPerson(browser, name)
            stack.push_async_callback(person.leave)
            await person.enter()
            views[name] = PersonMemory(person)
        yield WayPlay(check, way, views)


def _square(cell: CellTarget, view: PersonMemory) -> BoardCell:
    if cell.board not in view.boards:
        raise PlayStuck(f"no board `{cell.board}` was found")
    return view.boards[cell.board].square(cell)


def _now() -> float:
    return asyncio.get_running_loop().time()
