"""The same checks against sites in several styles, and against fakes, in the real Chromium."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from controllers.task.checking import Bench, Finding, run_check
from reconciler.clock import RandomIds
from reconciler.effects.local_processes import LocalProcesses
from schemas.task import CheckSpec
from tests.controllers.task.web import sites
from tests.controllers.task.web.frameworks import PREACT, REACT, SITES, Framework
from tests.controllers.task.web.sites import Page, drawn, served
from tests.controllers.task.yard import ENV

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


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(LocalProcesses(tmp_path / "run", str(tmp_path), 1, grace_s=0.5), RandomIds(), str(tmp_path), None, ENV)


async def find(bench: Bench, app: web.Application, check: dict[str, Any]) -> Finding:
    async with served(app) as url:
        return await run_check(CheckSpec("0", "web", {"url": url, **check}, 60), bench)


def without(page: Page, old: str, new: str) -> web.Application:
    """A mutant of a page."""
    assert old in page.script
    return drawn(Page(page.body, page.script.replace(old, new)))


@pytest.mark.parametrize("app", [sites.login_form, sites.login_bare, sites.login_soup])
async def test_a_login_works_is_refused_and_survives_a_reload_in_every_style(bench: Bench, app: Any) -> None:
    for check in (GOOD, BAD, AGAIN):
        found = await find(bench, app(), check)

        assert (found.result, found.probes > 0) == ("pass", True), found.message
        assert {"screenshot.png", "tree.txt", "accessibility.json"} == found.evidence.keys()


@pytest.mark.parametrize(
    ("mutant", "check", "words"),
    [
        ({"lets_in": "everybody"}, BAD, "it came to what must never be: gone pass-field"),
        ({"lets_in": "nobody"}, GOOD, "is not seen"),
        ({"says": ""}, BAD, "see refusal: `refusal` is not seen"),
        ({"lets_in": "nobody", "says": "Hello, ada"}, GOOD, "gone pass-field: `pass-field` is still seen"),
    ],
)
async def test_a_login_that_is_none_fails(bench: Bench, mutant: dict[str, str], check: Any, words: str) -> None:
    found = await find(bench, sites.login_form(**mutant), check)

    assert found.result == "fail"
    assert words in found.message


async def test_nothing_is_shown_by_a_page_on_which_nothing_can_be_done(bench: Bench) -> None:
    found = await find(bench, drawn(Page("<h1>Log in</h1><p>Soon. Ada will get in.</p>")), BAD)

    assert found.result == "fail"
    assert "its steps cannot be done" in found.message and "there is no `user-field`" in found.message


@pytest.mark.parametrize("page", [sites.CHAT_FORM, sites.CHAT_ENTER, sites.CHAT_SOUP])
async def test_what_one_says_the_other_hears_in_every_style(bench: Bench, page: Page) -> None:
    found = await find(bench, sites.chat(page), SAID)

    assert found.result == "pass", found.message
    assert {"screenshot-A.png", "screenshot-B.png"} <= found.evidence.keys()


@pytest.mark.parametrize("mutant", ["mirror", "silent"])
async def test_a_chat_that_the_other_does_not_hear_fails(bench: Bench, mutant: str) -> None:
    found = await find(bench, sites.chat(sites.CHAT_FORM, mutant=mutant), SAID)

    assert found.result == "fail"
    assert "B: see zx81: `zx81` is not seen" in found.message


async def test_what_one_way_left_on_a_page_helps_no_other(bench: Bench) -> None:
    check = json.loads(json.dumps(SAID).replace("zx81", "{{nonce.word}}"))

    found = await find(bench, sites.chat(sites.CHAT_FORM, mutant="others"), check)

    assert found.result == "fail"
    assert "A: see" in found.message and "ways were tried" in found.message


@pytest.mark.parametrize("page", [sites.GAME_BUTTONS, sites.GAME_TABLE, sites.GAME_BOXES])
async def test_a_game_is_played_on_a_board_of_whatever_and_fails_without_its_rules(bench: Bench, page: Page) -> None:
    for check in (WINS, TAKEN):
        found = await find(bench, drawn(page), check)
        assert found.result == "pass", found.message

    endless = await find(bench, without(page, "if (LINES", "if (0 && LINES"), WINS)
    lax = await find(bench, without(page, "if (over || board[i]) return;", ""), TAKEN)
    assert (endless.result, lax.result) == ("fail", "fail")


@pytest.mark.parametrize("page", [sites.COUNTER, sites.COUNTER_FIELD, sites.COUNTER_DRAWN])
async def test_a_counter_counts_in_every_style(bench: Bench, page: Page) -> None:
    found = await find(bench, drawn(page), UP)

    assert found.result == "pass", found.message


async def test_a_counter_that_always_shows_the_answer_fails(bench: Bench) -> None:
    found = await find(bench, drawn(Page("<p>3</p><button>+</button>")), UP)

    assert (found.result, "was seen before" in found.message) == ("fail", True)


@pytest.mark.parametrize("page", [sites.CANVAS, sites.CANVAS_FRAMES, sites.CANVAS_VECTOR])
async def test_a_picture_changes_when_it_is_moved_and_not_else(bench: Bench, page: Page) -> None:
    for check in (MOVES, STILL):
        found = await find(bench, drawn(page), check)
        assert found.result == "pass", found.message

    assert (await find(bench, drawn(Page(page.body)), MOVES)).result == "fail"


# Of each site what it can do, and one fault as people make it with such frameworks, with the check that finds it.
DRAWN: dict[str, tuple[list[dict[str, Any]], tuple[str, str], dict[str, Any], str]] = {
    "login": (
        [GOOD, BAD, AGAIN],
        ("if (!ok) return setWrong(", "if (!ok) setWrong("),  # It says no, and goes on.
        BAD,
        "it came to what must never be: gone pass-field",
    ),
    "chat": (
        [SAID],
        ("room.current.send(JSON.stringify({name, text}))", "setLines(all => [...all, {name, text}])"),
        SAID | {"lexicon": {one: {"role": "button"} for one in ("join-button", "send-button")}},  # Which leaves one way.
        "B: see zx81: `zx81` is not seen",
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


@pytest.mark.parametrize("framework", [REACT, PREACT], ids=lambda one: one.name)
@pytest.mark.parametrize("site", DRAWN)
async def test_a_site_that_a_framework_draws_holds_and_fails_with_a_usual_fault(
    bench: Bench, framework: Framework, site: str
) -> None:
    (components, serve), (checks, (right, wrong), finder, words) = SITES[site], DRAWN[site]
    for check in checks:
        found = await find(bench, framework.beside(serve(framework.page(components))), check)
        assert (found.result, found.probes > 0) == ("pass", True), found.message

    assert components.count(right) == 1
    mutant = framework.page(components.replace(right, wrong))
    found = await find(bench, framework.beside(serve(mutant)), finder)
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


async def test_lists_radios_drags_titles_and_ways_back(bench: Bench) -> None:
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
    found = await find(bench, drawn(Page(FIELDS, FIELDS_SCRIPT)), check)

    assert found.result == "pass", found.message
