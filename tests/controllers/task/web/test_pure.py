"""What is worked out without a browser: candidates, boards, the order of ways, whether something holds."""

from __future__ import annotations

from typing import Any

import pytest

from planloop.controllers.task.checks.web import boards, expectations, targets
from planloop.controllers.task.checks.web.expectations import PersonScene
from planloop.controllers.task.checks.web.page_snapshot import PageSnapshot, fold_text
from planloop.controllers.task.checks.web.play import WayQueue
from planloop.controllers.task.checks.web.search import TriedWay, check_verdict
from planloop.controllers.task.checks.web.targets import TargetContext
from planloop.schemas.checks.web_check import ClickElement
from planloop.schemas.checks.web_parser import parse_web_check
from planloop.schemas.checks.web_targets import builtin_lexicon
from tests.controllers.task.web.page_snapshots import element, sight
from tests.product import Json

FIELD: dict[str, Any] = {"tag": "input", "role": "textbox", "value": ""}
AROUND = TargetContext(builtin_lexicon())


def found(target: Json, seen: PageSnapshot, filled: int = 0) -> list[tuple[int, str]]:
    """Ids and ways in which a target is found."""
    check, faults = parse_web_check({"can": [{"press": target}, {"see": "x"}]})
    assert not faults and check is not None and isinstance(check.steps[0].does, ClickElement)
    around = TargetContext(check.lexicon, filled)
    return [(one.node, one.by) for one in targets.target_candidates(check.steps[0].does.target, seen, around)]


def test_a_role_with_a_name_comes_before_placeholders_attributes_and_places() -> None:
    seen = sight(
        element(**FIELD),
        element(**FIELD, attributes={"name": "user"}),
        element(**FIELD, name="Nick", named_by="placeholder"),
        element(**FIELD, name="User name", named_by="labelfor"),
    )

    assert found("user-field", seen) == [(4, "role"), (3, "placeholder"), (2, "attributes")]


def test_field_is_identified_by_the_text_beside_it() -> None:
    seen = sight(
        element("div"),
        element("div", "Account", within=0),
        element(**FIELD, within=0),
        element("div", "Secret word"),
        element("input", role="textbox", value="", attributes={"type": "password"}),
    )

    assert found("user-field", seen) == [(3, "label")]
    assert found("pass-field", seen)[0] == (5, "role")


def test_a_field_without_any_name_is_known_by_the_field_after_it() -> None:
    seen = sight(element(**FIELD), element("input", role="textbox", value="", attributes={"type": "password"}))

    assert found("user-field", seen) == [(1, "place")]


def test_words_on_a_box_make_a_button_and_on_a_heading_only_as_a_last_resort() -> None:
    seen = sight(
        element("h1", "Log in", role="heading"),
        element("div", "Log in", is_clickable=True),
        element("p", "Once you log in to this site you can read what others have written for you"),
    )

    assert found("login-button", seen) == [(2, "text"), (1, "text")]


def test_missing_button_may_be_a_key() -> None:
    seen = sight(element(**FIELD, name="Message"))

    assert found("send-button", seen) == []
    assert found("send-button", seen, filled=1) == [(1, "key")]


def test_wrongly_named_element_is_not_found() -> None:
    seen = sight(element("button", "Log out", role="button", name="Log out"), element("p", "Password"))

    assert found("pass-field", seen) == []
    assert found("register-button", seen) == []


def test_one_target_is_at_most_three_elements() -> None:
    seen = sight(*(element("button", "Log in", role="button", name="Log in") for _ in range(9)))

    assert len(found("login-button", seen)) == 3


def cells(count: int, columns: int, side: float = 50, **more: Any) -> list[Any]:
    boxes = [(at % columns * side, at // columns * side, side, side) for at in range(count)]
    return [element("div", box=box, within=0, **more) for box in boxes]


def nodes(seen: PageSnapshot, rows: int, columns: int) -> list[list[int]]:
    return [[square.node for square in grid.squares] for grid in boards.find_boards(seen, rows, columns)]


def test_a_board_is_found_among_what_is_not_one() -> None:
    board = cells(9, 3)
    again = element("div", "again", box=(0, 200, 150, 20), within=0)

    assert nodes(sight(element("main"), *board, again), 3, 3) == [list(range(2, 11))]


def test_board_is_in_rows_for_any_order_in_the_document() -> None:
    assert nodes(sight(element("main"), *reversed(cells(6, 3))), 2, 3) == [[7, 6, 5, 4, 3, 2]]
    assert nodes(sight(element("main"), *cells(6, 3)), 3, 2) == []


def test_a_board_may_be_of_links_and_of_what_they_become_once_they_are_taken() -> None:
    board = [{**one, "tag": "span" if at in (0, 4) else "a"} for at, one in enumerate(cells(9, 3))]

    assert nodes(sight(element("main"), *board), 3, 3) == [list(range(2, 11))]


def test_boxes_in_one_line_or_over_each_other_are_no_board() -> None:
    assert nodes(sight(element("main"), *cells(9, 9)), 3, 3) == []
    assert nodes(sight(element("main"), *(element("div", within=0) for _ in range(9))), 3, 3) == []


def test_usable_one_of_two_boards_comes_first() -> None:
    plain = [{**one, "box": (one["box"][0], one["box"][1] + 500, 50, 50), "tag": "p"} for one in cells(4, 2)]

    assert nodes(sight(element("main"), *plain, *cells(4, 2, is_clickable=True)), 2, 2)[0] == [6, 7, 8, 9]


def test_a_drawn_picture_is_cut_into_cells() -> None:
    grid = boards.find_boards(sight(element("canvas", box=(0, 0, 300, 300))), 3, 3)[0]

    assert grid.squares[5].node == 1
    assert grid.squares[5].at == pytest.approx((5 / 6, 0.5))


def test_ways_are_tried_in_the_order_of_how_likely_they_are_and_each_once() -> None:
    ways, tried = WayQueue(100), []
    while (way := ways.next()) is not None:
        choices = [3, 2]
        tried.append(tuple(way[at] if at < len(way) else 0 for at in range(2)))
        ways.tried(way, choices)

    assert tried == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


def test_ways_are_bounded() -> None:
    ways, count = WayQueue(5), 0
    while (way := ways.next()) is not None:
        ways.tried(way, [9, 9, 9])
        count += 1

    assert count == 5


def holds(expectation: Json, now: PageSnapshot, before: PageSnapshot | None = None) -> bool:
    check, faults = parse_web_check({"can": [expectation]})
    assert not faults and check is not None
    scene = PersonScene(now, before or PageSnapshot(), TargetContext(check.lexicon))
    return not expectations.unmet_expectation(check.steps[0].does, scene)  # type: ignore[arg-type]


PAGE = sight(
    element("h1", "Café  Ünion", role="heading", name="Café Ünion"),
    element("p", "Wrong password"),
    element("input", role="textbox", name="Name", value="ada", is_focusable=True),
    element("button", "Send", role="button", name="Send", is_disabled=True),
    element("output", "Count: 3", role="status"),
    element("div", role="alert"),
)


@pytest.mark.parametrize(
    ("expectation", "is_so"),
    [
        ({"see": "cafe union"}, True),
        ({"see": "/^wrong/"}, True),
        ({"see": "wrong passwords"}, False),
        ({"see": "refusal"}, True),
        ({"see": "alert"}, False),
        ({"gone": "alert"}, True),
        ({"gone": "Wrong password"}, False),
        ({"see": "pass-field"}, False),
        ({"count": {"heading": 1}}, True),
        ({"count": {"/o/": {"at-least": 3, "at-most": 4}}}, True),
        ({"count": {"heading": {"at-least": 2}}}, False),
        ({"value": {"name-field": "ADA"}}, True),
        ({"value": {"name-field": "ad"}}, False),
        ({"value": {"counter": "/\\b3\\b/"}}, True),
        ({"value": {"pass-field": "x"}}, False),
        ({"enabled": "send-button"}, False),
        ({"enabled": {"send-button": False}}, True),
        ({"focusable": "name-field"}, True),
        ({"focusable": "heading"}, False),
        ({"any": [{"see": "nothing"}, [{"see": "wrong"}, {"see": "count"}]]}, True),
        ({"any": [{"see": "nothing"}, [{"see": "wrong"}, {"see": "counts"}]]}, False),
    ],
)
def test_an_expectation_holds_or_does_not(expectation: Json, is_so: bool) -> None:
    assert holds(expectation, PAGE) == is_so


@pytest.mark.parametrize(
    "words",
    [
        *("Wrong user name or password.", "Access denied", "Unknown user", "Not recognised", "not recognized", "Nope!"),
        *("Login unsuccessful", "No such user or password", "Please try again", "That isn't right", "It didn’t work"),
        *("We do not know you.", "The passwords don't match", "Could not log you in", "We cannot sign you in."),
        *(
            "No user found",
            "No account with that name",
            "That is not a valid password",
            "Please check your credentials",
        ),
        *("This user does not exist", "Login declined", "Unable to let you in", "Not the right password"),
    ],
)
def test_plain_words_of_rejection_are_a_refusal(words: str) -> None:
    assert holds({"see": "refusal"}, sight(element("p", words)))


@pytest.mark.parametrize(
    "words",
    [
        *("Welcome", "Welcome back, ada", "Hello ada, come in.", "Signed in as grace", "Log in", "Log out", "Sign up"),
        *("User name", "Password", "Your account", "E-mail or account", "Pass phrase", "Remember me", "Enter"),
        *("Forgot password?", "Can't log in?", "Unable to sign in?", "Cannot sign in?", "Don't know your password?"),
        *(
            "No account? Register",
            "Not registered yet?",
            "Not you? Log out",
            "Please log in to go on",
            "Check your mail",
        ),
    ],
)
def test_greetings_labels_and_links_of_a_form_are_no_refusal(words: str) -> None:
    assert not holds({"see": "refusal"}, sight(element("p", words)))


def test_element_that_appears_was_not_there_before() -> None:
    before, now = sight(element("p", "pong")), sight(element("p", "pong"), element("p", "pong"))

    assert holds({"appears": "pong"}, now, before) and holds({"changes": True}, now, before)
    assert not holds({"appears": "pong"}, now, now) and not holds({"changes": True}, now, now)


def test_text_is_compared_without_accents_and_the_width_of_spaces_but_in_lines() -> None:
    assert fold_text(" Crème\xa0 brûlée \n\n  ﬁn ") == "Creme brulee\nfin"


def test_expectations_of_absence_wait_until_the_page_rests() -> None:
    steps: list[Json] = [{"see": "x"}, {"gone": "x"}, {"count": {"x": 2}}, {"count": {"x": {"at-least": 2}}}]
    check, faults = parse_web_check({"can": steps})
    assert check is not None, faults
    assert [expectations.needs_rest(step.does) for step in check.steps] == [False, True, True, False]  # type: ignore[arg-type]


@pytest.mark.parametrize("ended", [0, 1, 2])
def test_a_forbidden_state_fails_the_check_in_any_way(ended: int) -> None:
    check, faults = parse_web_check({"never": [{"press": "login-button"}, {"gone": "pass-field"}]})
    assert check is not None, faults
    tried = [TriedWay(done=1, ended=way == ended) for way in range(3)]

    verdict = check_verdict(check, tried)

    assert (verdict.holds, verdict.shown) == (False, tried[ended])
    assert check_verdict(check, [TriedWay(done=1), TriedWay(done=1)]).holds


def test_a_never_check_fails_when_its_steps_cannot_be_done() -> None:
    check, faults = parse_web_check({"never": [{"press": "login-button"}, {"gone": "pass-field"}]})
    assert check is not None, faults

    assert not check_verdict(check, [TriedWay(stuck="there is no `login-button`")]).holds
