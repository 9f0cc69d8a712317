"""Try ways through a `web` check until it is decided, and report the result.

`can` passes as soon as one way works. `never` passes if no way reaches the forbidden state, and at least one way gets
to the point where it would be reached.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from playwright.async_api import Browser
from playwright.async_api import Error as PlaywrightError

from planloop.controllers.task.checks.web.browser import BrowserGone, PageFailed, TabGone
from planloop.controllers.task.checks.web.play import ChoicePath, PlayStuck, WayPlay, WayQueue, play_way
from planloop.schemas import limits
from planloop.schemas.canonical_json import JsonObject
from planloop.schemas.checks.web_check import WebCheck
from planloop.schemas.frozen import frozen
from planloop.schemas.quantities import pluralize

CRASHED: Final = "the page made the browser's tab crash"


@frozen
class TriedWay:
    """Result of one way. `stuck` is why its steps could not be done, `ended` whether it reached the forbidden state.

    `amiss` is why the state that must be reached instead was not. `log` are the steps in words.
    """

    choices: tuple[int, ...] = ()
    probes: int = 0
    done: int = 0
    stuck: str = ""
    ended: bool = False
    amiss: str = ""
    log: tuple[str, ...] = ()
    evidence: Mapping[str, bytes] = {}
    accessibility: JsonObject = {}


@dataclass
class WebVerdict:
    """Verdict of a check; `shown` is the way whose evidence is reported."""

    holds: bool
    message: str
    tried: Sequence[TriedWay] = field(default_factory=tuple)
    shown: TriedWay = field(default_factory=TriedWay)


async def decide_check(check_of: Callable[[int], WebCheck], browser: Browser) -> WebVerdict:
    """Search for a way that decides the check. After a crash of the tab, search once more: one crash may be an
    accident.

    Each way of both searches has its own number.

    Raises:
        BrowserGone: the browser ended.
    """
    for look in range(limits.WEB_LOOKS_MAX):
        with suppress(TabGone):
            return await search_ways(partial(_later, check_of, look * limits.WEB_WAYS_MAX), browser)
    if not browser.is_connected():  # The end of a tab may be reported before the end of its browser.
        raise BrowserGone("the browser ended")
    crashed = TriedWay(probes=limits.WEB_LOOKS_MAX, stuck=CRASHED, log=(CRASHED,))
    return WebVerdict(False, CRASHED, [crashed], crashed)


def _later(check_of: Callable[[int], WebCheck], before: int, way: int) -> WebCheck:
    return check_of(before + way)


async def search_ways(check_of: Callable[[int], WebCheck], browser: Browser) -> WebVerdict:
    """Try ways until the check is decided; `check_of` returns the check for way n. Raises BrowserGone or TabGone."""
    ways = WayQueue(limits.WEB_WAYS_MAX)
    tried: list[TriedWay] = []
    check = check_of(0)
    while (way := ways.next()) is not None:
        check = check_of(len(tried))
        one = await _try(check, browser, way, is_right=any(not before.stuck and not before.amiss for before in tried))
        tried.append(one)
        ways.tried(way, one.choices)
        if one.done == 0 and not one.choices and one.stuck:
            break  # The page cannot be opened, so there is no other way.
        if one.ended or (not check.is_never and not one.stuck):
            break
    return check_verdict(check, tried)


def check_verdict(check: WebCheck, tried: list[TriedWay]) -> WebVerdict:
    """Return the verdict of a check after the ways that were tried."""
    return _never(check, tried) if check.is_never else _can(tried)


async def _try(check: WebCheck, browser: Browser, way: ChoicePath, *, is_right: bool) -> TriedWay:
    """Try one way. `is_right`: an earlier way reached the state that must come instead of the forbidden one."""
    async with play_way(check, browser, way) as play:
        ended, amiss = False, ""
        stuck = await _stuck(play.begin()) or await _stuck(play.go(check.steps))
        if check.is_never and not stuck:
            play.is_hopeless = True
            ended = not await _stuck(play.go(check.forbidden))
            play.is_hopeless = False
            amiss = "" if ended or is_right else await _stuck(play.go(check.also))
        return TriedWay(
            tuple(play.choices),
            play.probes,
            play.done,
            stuck,
            ended,
            amiss,
            tuple(play.log),
            await _evidence(play),
            _accessibility(play),
        )


async def _stuck(doing: Awaitable[None]) -> str:
    """Return why the steps could not be done; empty if they were."""
    try:
        await doing
    except (PlayStuck, PageFailed) as failed:
        return str(failed)
    except PlaywrightError as error:
        return f"the page changed during the step: {str(error).splitlines()[0]}"
    return ""


async def _evidence(play: WayPlay) -> Mapping[str, bytes]:
    """Return the last page of each person as text and screenshot; none of a page that does not answer."""
    found: dict[str, bytes] = {}
    for name, view in play.views.items():
        part = f"-{name}" if name else ""
        with suppress(PlaywrightError, PageFailed):
            sight = await view.person.look()
            found[f"tree{part}.txt"] = f"{sight.url}\n{sight.title}\n\n{sight.tree}\n\n{sight.words}\n".encode()
            found[f"screenshot{part}.png"] = await view.person.picture()
    return found


def _accessibility(play: WayPlay) -> JsonObject:
    """Return how the targets were found, and the share of those that a screen reader announces."""
    targets = {name: {"by": one.by, "spoken": one.is_spoken} for name, one in sorted(play.found.items())}
    share = round(sum(one.is_spoken for one in play.found.values()) / len(targets), 3) if targets else None
    return {"share": share, "targets": targets}


def _can(tried: list[TriedWay]) -> WebVerdict:
    works = next((one for one in tried if not one.stuck), None)
    if works is not None:
        return WebVerdict(True, f"{_steps(works)} done{_spoken(works)}", tried, works)
    best = max(tried, key=lambda one: one.done)
    more = f"; {len(tried)} ways were tried" if len(tried) > 1 else ""
    return WebVerdict(False, f"{best.stuck}{more}", tried, best)


def _never(check: WebCheck, tried: list[TriedWay]) -> WebVerdict:
    forbidden = ", ".join(step.written for step in check.forbidden)
    for one in tried:
        if one.ended:
            return WebVerdict(False, f"reached the forbidden state: {forbidden}", tried, one)
    got_there = [one for one in tried if not one.stuck]
    if not got_there:
        best = max(tried, key=lambda one: one.done)
        return WebVerdict(
            False, f"its steps cannot be done, so the forbidden state was not tested: {best.stuck}", tried, best
        )
    right = next((one for one in got_there if not one.amiss), None)
    if right is None:
        return WebVerdict(False, got_there[0].amiss, tried, got_there[0])
    return WebVerdict(
        True, f"{pluralize(len(got_there), 'way')} tried, none reached: {forbidden}{_spoken(right)}", tried, right
    )


def _steps(one: TriedWay) -> str:
    return pluralize(one.done, "step")


def _spoken(one: TriedWay) -> str:
    targets = one.accessibility.get("targets", {})
    if not targets:
        return ""
    spoken = sum(target["spoken"] for target in targets.values())
    return f"; {spoken} of {pluralize(len(targets), 'target')} announced by a screen reader"
