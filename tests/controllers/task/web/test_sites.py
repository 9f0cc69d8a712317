"""The same checks against sites in several styles, and against fakes, in the real Chromium.

The tests share one browser. Starting the check's own process and browser takes a processor second and is the same for
every site: test_process.py tests it, and the first test here compares both ways.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from aiohttp import web
from playwright.async_api import Browser

from planloop.controllers.task.checks.nonces import fill_nonces
from planloop.controllers.task.checks.run import CheckEnvironment, CheckFinding, run_check
from planloop.controllers.task.checks.web.browser import open_chromium
from planloop.controllers.task.checks.web.check import web_finding
from planloop.controllers.task.checks.web.child import answer_check
from planloop.reconciler.effects.local_processes import LocalProcesses
from tests import needs
from tests.controllers.task.harness import ENV
from tests.controllers.task.web import sites
from tests.controllers.task.web.frameworks import PREACT, REACT, SITES, Framework
from tests.controllers.task.web.sites import Page, drawn, served
from tests.golden_text import said
from tests.product import CheckSpec, RandomIds

Find: TypeAlias = Callable[[web.Application, dict[str, Any]], Coroutine[None, None, CheckFinding]]

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.timeout(180)]

ENTER = [{"fill": {"user-field": "ada", "pass-field": "lovelace"}}, {"press": "login-button"}]
GOOD: dict[str, Any] = {"can": [{"open": "/"}, *ENTER, {"see": r"/\bada\b/"}, {"gone": "pass-field"}]}
AGAIN: dict[str, Any] = {
    "can": [*GOOD["can"], {"reload": True}, {"any": [{"see": r"/\bada\b/"}, {"see": "login-button"}]}]
}
BAD: dict[str, Any] = {
    "never": [
        {"fill": {"user-field": "ada", "pass-field": "babbage"}},
        {"press": "login-button"},
        {"gone": "pass-field"},
    ],
    "and": {"see": "refusal"},
}
SAID: dict[str, Any] = {
    "contexts": ["A", "B"],
    "can": [
        {"maybe": [{"fill": {"name-field": "ann"}}, {"press": "join-button"}]},
        {"A": {"fill": {"message-field": "zx81"}}},
        {"A": {"press": "send-button"}},
        {"B": {"see": "zx81"}},
        {"A": {"see": "zx81"}},
    ],
}


def unheard(who: str) -> dict[str, Any]:
    """SAID for a site on which `who` never sees the word: a shorter wait finds the same."""
    return SAID | {
        "can": [{who: step[who] | {"within": "1s"}} if "see" in step.get(who, ()) else step for step in SAID["can"]]
    }


BOARD: dict[str, Any] = {"grid": {"rows": 3, "cols": 3, "as": "g"}}
WINS: dict[str, Any] = {
    "can": [
        BOARD,
        {"press": ["g[1,1]", "g[2,1]", "g[1,2]", "g[2,2]", "g[1,3]"]},
        {"see": r"/\bX\b.*\bw[io]n|winner.*\bX\b/"},
    ]
}
TAKEN: dict[str, Any] = {
    "can": [
        BOARD,
        {"press": "g[2,2]"},
        {"changes": {"on": "g[2,2]"}},
        {"value": {"g[2,2]": "X"}},
        {"press": ["g[2,2]", "g[2,1]"]},
        {"value": {"g[2,1]": "O", "g[2,2]": "X"}},
    ],
}
UP: dict[str, Any] = {"can": [{"press": ["plus-button"] * 3}, {"appears": r"/\b3\b/"}, {"gone": r"/\b[012]\b/"}]}
MOVES: dict[str, Any] = {"can": [{"wait": "200ms"}, {"key": "ArrowRight"}, {"picture-changes": "picture"}]}
STILL: dict[str, Any] = {"never": [{"wait": "200ms"}, {"key": "x"}, {"picture-changes": "picture"}]}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop for the module: the browser is of that loop."""
    return "asyncio"


@pytest.fixture(scope="module")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    async with open_chromium(needs.chromium()) as browser:
        yield browser


@pytest.fixture
def find(browser: Browser) -> Find:
    """`find(app, check)`: what the check finds on the site, in fresh contexts of the shared browser."""

    @asynccontextmanager
    async def shared(program: str, host: str) -> AsyncIterator[Browser]:
        yield browser

    async def find(app: web.Application, check: dict[str, Any]) -> CheckFinding:
        async with served(app) as url:
            found = web_finding(
                await answer_check({"url": url, **check}, fill_nonces(check, RandomIds()), 60, opener=shared)
            )
        assert browser.contexts == []
        return found

    return find


async def passed(find: Find, app: web.Application, check: dict[str, Any]) -> CheckFinding:
    """Return what the check finds on a site that passes it."""
    found = await find(app, check)
    assert found.result == "pass", found.message
    return found


def without(page: Page, old: str, new: str) -> web.Application:
    """A mutant of a page."""
    assert old in page.script
    return drawn(Page(page.body, page.script.replace(old, new)))


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("site", "check"),
    [
        (sites.login_form, GOOD),
        (partial(sites.login_form, lets_in="everybody"), BAD),
        (partial(sites.chat, sites.CHAT_FORM), SAID),
    ],
    ids=["a login that works", "a login that accepts any password", "a chat of two"],
)
async def test_check_in_its_own_browser_agrees_with_one_in_a_shared_browser(
    find: Find, tmp_path: Path, site: Callable[[], web.Application], check: dict[str, Any]
) -> None:
    bench = CheckEnvironment(
        LocalProcesses(tmp_path / "run", str(tmp_path), 1, grace_s=0.5), RandomIds(), str(tmp_path), None, ENV
    )
    async with served(site()) as url:
        own = await run_check(CheckSpec("0", "web", {"url": url, **check}, 60), bench)
    shared = await find(site(), check)

    assert (own.result, own.message, own.probes, own.figures) == (
        shared.result,
        shared.message,
        shared.probes,
        shared.figures,
    )
    assert own.output == shared.output
    assert own.evidence.keys() == shared.evidence.keys()


@pytest.mark.parametrize("check", [GOOD, BAD, AGAIN], ids=["works", "is refused", "survives a reload"])
@pytest.mark.parametrize("app", [sites.login_form, sites.login_bare, sites.login_soup])
async def test_a_login_works_is_refused_and_survives_a_reload_in_every_style(find: Find, app: Any, check: Any) -> None:
    found = await passed(find, app(), check)

    assert found.probes > 0
    assert {"screenshot.png", "tree.txt", "accessibility.json"} == found.evidence.keys()


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("mutant", "check", "words"),
    [
        ({"lets_in": "everybody"}, BAD, "reached the forbidden state: gone pass-field"),
        ({"lets_in": "nobody"}, GOOD, "is not visible"),
        ({"says": ""}, BAD, "see refusal: `refusal` is not visible"),
        ({"lets_in": "nobody", "says": "Hello, ada"}, GOOD, "gone pass-field: `pass-field` is still visible"),
    ],
)
async def test_login_that_admits_anyone_fails(find: Find, mutant: dict[str, str], check: Any, words: str) -> None:
    found = await find(sites.login_form(**mutant), check)

    assert found.result == "fail"
    assert words in found.message


async def test_page_without_controls_shows_nothing(find: Find) -> None:
    found = await find(drawn(Page("<h1>Log in</h1><p>Soon. Ada will get in.</p>")), BAD)

    assert found.result == "fail"
    said(found.message, "user-field")


@pytest.mark.parametrize("page", [sites.CHAT_FORM, sites.CHAT_ENTER, sites.CHAT_SOUP])
async def test_message_of_one_user_reaches_the_other_in_every_style(find: Find, page: Page) -> None:
    found = await passed(find, sites.chat(page), SAID)

    assert {"screenshot-A.png", "screenshot-B.png"} <= found.evidence.keys()


@pytest.mark.parametrize("mutant", ["mirror", "silent"])
async def test_a_chat_that_the_other_does_not_hear_fails(find: Find, mutant: str) -> None:
    found = await find(sites.chat(sites.CHAT_FORM, mutant=mutant), unheard("B"))

    assert found.result == "fail"
    assert "B: see zx81: `zx81` is not visible" in found.message


async def test_leftovers_of_one_way_on_a_page_do_not_help_another(find: Find) -> None:
    check = json.loads(json.dumps(unheard("A")).replace("zx81", "{{nonce.word}}"))

    found = await find(sites.chat(sites.CHAT_FORM, mutant="others"), check)

    assert found.result == "fail"
    assert "A: see" in found.message
    said(found.message)


GAMES = (sites.GAME_BUTTONS, sites.GAME_TABLE, sites.GAME_BOXES)
COUNTERS = (sites.COUNTER, sites.COUNTER_FIELD, sites.COUNTER_DRAWN)
PICTURES = (sites.CANVAS, sites.CANVAS_FRAMES, sites.CANVAS_VECTOR)
STYLES: dict[str, tuple[Page, dict[str, Any]]] = {
    f"{what}-{number}": (page, check)
    for pages, checks in (
        (GAMES, {"win of a game": WINS, "taken square": TAKEN}),
        (COUNTERS, {"counter": UP}),
        (PICTURES, {"picture that moves": MOVES, "still picture": STILL}),
    )
    for what, check in checks.items()
    for number, page in enumerate(pages)
}


@pytest.mark.browser(keep=3)
@pytest.mark.parametrize(("page", "check"), STYLES.values(), ids=STYLES)
async def test_games_counters_and_pictures_pass_in_every_style(find: Find, page: Page, check: dict[str, Any]) -> None:
    await passed(find, drawn(page), check)


@pytest.mark.parametrize("page", GAMES)
@pytest.mark.parametrize(
    ("rule", "check"),
    [(("if (LINES", "if (0 && LINES"), WINS), (("if (over || board[i]) return;", ""), TAKEN)],
    ids=["endless", "lax"],
)
async def test_a_game_without_one_of_its_rules_fails(
    find: Find, page: Page, rule: tuple[str, str], check: dict[str, Any]
) -> None:
    assert (await find(without(page, *rule), check)).result == "fail"


async def test_a_counter_that_always_shows_the_answer_fails(find: Find) -> None:
    found = await find(drawn(Page("<p>3</p><button>+</button>")), UP)

    assert (found.result, "was visible before" in found.message) == ("fail", True)


@pytest.mark.parametrize("page", PICTURES)
async def test_a_picture_without_a_script_does_not_move_and_fails(find: Find, page: Page) -> None:
    assert (await find(drawn(Page(page.body)), MOVES)).result == "fail"


# The abilities of each site, and one common bug of such frameworks, with the check that finds it.
DRAWN: dict[str, tuple[list[dict[str, Any]], tuple[str, str], dict[str, Any], str]] = {
    "login": (
        [GOOD, BAD, AGAIN],
        ("if (!ok) return setWrong(", "if (!ok) setWrong("),  # It says no, and goes on.
        BAD,
        "reached the forbidden state: gone pass-field",
    ),
    "chat": (
        [SAID],
        ("room.current.send(JSON.stringify({name, text}))", "setLines(all => [...all, {name, text}])"),
        # With roles alone one way is left.
        SAID | {"lexicon": {one: {"role": "button"} for one in ("join-button", "send-button")}},
        "B: see zx81: `zx81` is not visible",
    ),
    "game": (
        [WINS, TAKEN],
        ("if (squares[i] || winner(squares)) return;", "if (winner(squares)) return;"),
        TAKEN,
        "`g[2,1]` is `X`",
    ),
    "counter": (
        [UP],
        ("setCount(n => n + 1)", "setCount(count + 1)"),  # The count as it was when the page was drawn first.
        UP,
        r"appears /\b3\b/",
    ),
}


FRAMEWORKS = pytest.mark.parametrize("framework", [REACT, PREACT], ids=lambda one: one.name)


@FRAMEWORKS
@pytest.mark.parametrize(
    ("site", "check"),
    [(site, check) for site, (checks, *_) in DRAWN.items() for check in checks],
    ids=[f"{site}-{number}" for site, (checks, *_) in DRAWN.items() for number in range(len(checks))],
)
async def test_a_site_that_a_framework_draws_holds(
    find: Find, framework: Framework, site: str, check: dict[str, Any]
) -> None:
    components, serve = SITES[site]
    found = await passed(find, framework.beside(serve(framework.page(components))), check)

    assert found.probes > 0


@FRAMEWORKS
@pytest.mark.parametrize("site", DRAWN)
async def test_framework_site_with_a_common_bug_fails(find: Find, framework: Framework, site: str) -> None:
    (components, serve), (_, (right, wrong), finder, words) = SITES[site], DRAWN[site]
    assert components.count(right) == 1
    mutant = framework.page(components.replace(right, wrong))

    found = await find(framework.beside(serve(mutant)), finder)

    assert (found.result, words in found.message) == ("fail", True), found.message


FIELDS = """<label>Colour <select id=s><option>red<option>green</select></label>
<fieldset><label><input type=radio name=z>Small</label><label><input type=radio name=z>Large</label></fieldset>
<div id=card draggable=true style="width:60px;height:60px;background:red">card</div>
<div id=slot style="width:90px;height:90px;background:blue">slot</div><p id=o></p><div style="opacity:0">ghost</div>"""
FIELDS_SCRIPT = """
s.onchange = () => o.append(s.value + ' ');
for (const one of document.querySelectorAll('[type=radio]'))
  one.onchange = () => o.append(one.parentNode.textContent + ' ');
slot.ondragover = event => event.preventDefault(); slot.ondrop = () => o.append('dropped ');
document.title = 'Fields of a form';"""


async def test_lists_radios_drags_titles_and_ways_back(find: Find) -> None:
    check = {
        "lexicon": {"colour-field": {"role": "combobox", "name": "/colour/"}, "size": {"role": "radio", "name": "/./"}},
        "can": [
            {"choose": {"colour-field": "green", "size": "Large"}},
            {"drag": {"from": "/^card$/", "to": "/^slot$/"}},
            {"see": ["green Large dropped", "/slot/"]},
            {"gone": "ghost"},
            {"value": {"colour-field": "green"}},
            {"focusable": "colour-field"},
            {"enabled": "colour-field"},
            {"title": "fields of a form"},
            {"open": "/other"},
            {"url": "/other$/"},
            {"back": True},
            {"url": "/1:\\d+\\/$/"},
        ],
    }
    await passed(find, drawn(Page(FIELDS, FIELDS_SCRIPT)), check)
