"""Tries the ways through a check until it is decided, and says what was found.

`can` holds as soon as one way works; `never` when no way ends as it must not, and at least one got as far as that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from playwright.async_api import Browser
from playwright.async_api import Error as PlaywrightError

from planloop.controllers.task.checking.web.browser import BrowserGone, PageFailed, TabGone
from planloop.controllers.task.checking.web.playing import Play, Stuck, played
from planloop.controllers.task.checking.web.ways import Way, Ways
from planloop.schemas import limits
from planloop.schemas.amounts import plural
from planloop.schemas.encoding import JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.web import WebCheck

CRASHED: Final = "the page made the browser's tab crash"


@frozen
class Tried:
    """What came of one way. `stuck` is why its steps could not be done, `ended` whether the forbidden state came.

    `amiss` is why what must be seen in its place was not. `log` are the steps in words.
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
class Verdict:
    """The answer of a check, as it is told to whoever asked for it."""

    holds: bool
    message: str
    tried: Sequence[Tried] = field(default_factory=tuple)
    shown: Tried = field(default_factory=Tried)


async def decided(check_of: Callable[[int], WebCheck], browser: Browser) -> Verdict:
    """What `search` finds; if a tab crashes, it looks once more, because only the second crash proves a broken page.

    No two ways of all looks are given the same number. Raises BrowserGone when it cannot be decided.
    """
    for look in range(limits.WEB_LOOKS_MAX):
        with suppress(TabGone):
            return await search(partial(_later, check_of, look * limits.WEB_WAYS_MAX), browser)
    if not browser.is_connected():  # A tab's end may be heard of before that of the browser it was in.
        raise BrowserGone("the browser went away")
    crashed = Tried(probes=limits.WEB_LOOKS_MAX, stuck=CRASHED, log=(CRASHED,))
    return Verdict(False, CRASHED, [crashed], crashed)


def _later(check_of: Callable[[int], WebCheck], before: int, way: int) -> WebCheck:
    return check_of(before + way)


async def search(check_of: Callable[[int], WebCheck], browser: Browser) -> Verdict:
    """Runs a check, which `check_of` gives as it is for the n-th way. Raises BrowserGone or TabGone when it cannot."""
    ways = Ways(limits.WEB_WAYS_MAX)
    tried: list[Tried] = []
    check = check_of(0)
    while (way := ways.next()) is not None:
        check = check_of(len(tried))
        one = await _try(check, browser, way, is_right=any(not before.stuck and not before.amiss for before in tried))
        tried.append(one)
        ways.tried(way, one.choices)
        if one.done == 0 and not one.choices and one.stuck:
            break  # It cannot be opened: there is nothing to choose.
        if one.ended or (not check.is_never and not one.stuck):
            break
    return verdict_of(check, tried)


def verdict_of(check: WebCheck, tried: list[Tried]) -> Verdict:
    """Return the answer of a check after the ways that were tried."""
    return _never(check, tried) if check.is_never else _can(tried)


async def _try(check: WebCheck, browser: Browser, way: Way, *, is_right: bool) -> Tried:
    """`is_right`: what must be seen in place of the forbidden state was seen in a way before."""
    async with played(check, browser, way) as play:
        ended, amiss = False, ""
        stuck = await _stuck(play.begin()) or await _stuck(play.go(check.steps))
        if check.is_never and not stuck:
            play.is_hopeless = True
            ended = not await _stuck(play.go(check.forbidden))
            play.is_hopeless = False
            amiss = "" if ended or is_right else await _stuck(play.go(check.also))
        return Tried(
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
    """Why it could not be done; empty when it was."""
    try:
        await doing
    except (Stuck, PageFailed) as failed:
        return str(failed)
    except PlaywrightError as error:
        return f"the page changed under the step: {str(error).splitlines()[0]}"
    return ""


async def _evidence(play: Play) -> Mapping[str, bytes]:
    """What everybody saw last. A page that does not answer has none."""
    found: dict[str, bytes] = {}
    for name, view in play.views.items():
        part = f"-{name}" if name else ""
        with suppress(PlaywrightError, PageFailed):
            sight = await view.person.look()
            found[f"tree{part}.txt"] = f"{sight.url}\n{sight.title}\n\n{sight.tree}\n\n{sight.words}\n".encode()
            found[f"screenshot{part}.png"] = await view.person.picture()
    return found


def _accessibility(play: Play) -> JsonObject:
    """How the targets were found, and the share of those that a screen reader tells."""
    targets = {name: {"by": one.by, "spoken": one.is_spoken} for name, one in sorted(play.found.items())}
    share = round(sum(one.is_spoken for one in play.found.values()) / len(targets), 3) if targets else None
    return {"share": share, "targets": targets}


def _can(tried: list[Tried]) -> Verdict:
    works = next((one for one in tried if not one.stuck), None)
    if works is not None:
        return Verdict(True, f"{_steps(works)} done{_spoken(works)}", tried, works)
    best = max(tried, key=lambda one: one.done)
    more = f"; {len(tried)} ways were tried" if len(tried) > 1 else ""
    return Verdict(False, f"{best.stuck}{more}", tried, best)


def _never(check: WebCheck, tried: list[Tried]) -> Verdict:
    forbidden = ", ".join(step.written for step in check.forbidden)
    for one in tried:
        if one.ended:
            return Verdict(False, f"it came to what must never be: {forbidden}", tried, one)
    got_there = [one for one in tried if not one.stuck]
    if not got_there:
        best = max(tried, key=lambda one: one.done)
        return Verdict(
            False, f"its steps cannot be done, so nothing shows that it never happens: {best.stuck}", tried, best
        )
    right = next((one for one in got_there if not one.amiss), None)
    if right is None:
        return Verdict(False, got_there[0].amiss, tried, got_there[0])
    return Verdict(
        True, f"{plural(len(got_there), 'way')} tried, none came to: {forbidden}{_spoken(right)}", tried, right
    )


def _steps(one: Tried) -> str:
    return plural(one.done, "step")


def _spoken(one: Tried) -> str:
    targets = one.accessibility.get("targets", {})
    if not targets:
        return ""
    spoken = sum(target["spoken"] for target in targets.values())
    return f"; {spoken} of {plural(len(targets), 'target')} told by a screen reader"
