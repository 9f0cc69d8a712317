"""Valid web checks, and the errors of invalid ones."""

from __future__ import annotations

from planloop.schemas.checks.web_check import (
    CellTarget,
    ClickElement,
    ExpectVisible,
    FillField,
    TextPattern,
    WebCheck,
    WebTarget,
)
from planloop.schemas.checks.web_parser import parse_web_check, web_check_problems
from planloop.schemas.checks.web_reuse import expand_reuse, reusable_steps
from planloop.schemas.checks.web_targets import builtin_lexicon
from tests import rows
from tests.golden_text import said
from tests.product import Json, JsonObject

SEE: JsonObject = {"see": "ada"}


def check_of(**arguments: Json) -> WebCheck:
    check, faults = parse_web_check(arguments)
    assert faults == ()
    assert check is not None
    return check


def test_steps_are_one_thing_each_in_the_order_in_which_they_stand() -> None:
    check = check_of(can=[{"fill": {"user-field": "ada", "pass-field": 7}}, {"press": ["/go/", "/on/"]}, SEE])

    assert [step.written for step in check.steps] == [
        *("fill user-field: ada", "fill pass-field: 7", "press /go/", "press /on/", "see ada")
    ]
    assert (
        isinstance(check.steps[0].does, FillField)
        and check.steps[0].does.target.meaning == builtin_lexicon()["user-field"]
    )
    assert isinstance(check.steps[2].does, ClickElement) and check.steps[2].does.target.meaning[0].name == TextPattern(
        "go", True
    )


def test_state_after_the_last_action_of_never_is_the_forbidden_state() -> None:
    check = check_of(
        never=[SEE, {"press": "/x/"}, {"see": "in"}, {"gone": "pass-field"}], **{"and": {"see": "refusal"}}
    )

    assert [len(part) for part in (check.steps, check.forbidden, check.also)] == [2, 2, 1]


def test_a_text_is_a_target_when_the_lexicon_has_it_and_a_text_when_not() -> None:
    seen = [step.does for step in check_of(can=[{"see": ["refusal", "hi", "/h.i/", {"text": "refusal"}]}]).steps]

    assert [type(one.what) for one in seen if isinstance(one, ExpectVisible)] == [
        WebTarget,
        TextPattern,
        TextPattern,
        TextPattern,
    ]


def test_cells_are_known_after_their_grid() -> None:
    check = check_of(can=[{"grid": {"rows": 2, "cols": 3, "as": "g"}}, {"press": "g[2, 3]"}, SEE])

    assert isinstance(check.steps[1].does, ClickElement) and check.steps[1].does.target.cell == CellTarget("g", 2, 3)


def test_contexts_have_their_own_steps() -> None:
    check = check_of(contexts=["A", "B"], can=[{"A": [{"press": "/x/"}, SEE]}, {"B": {**SEE, "within": "1s"}}, SEE])

    assert [(step.who, step.within_s) for step in check.steps] == [("A", None), ("A", None), ("B", 1.0), ("", None)]


def test_own_names_extend_the_shipped_ones_and_may_refer_to_each_other() -> None:
    lexicon = {
        "a-field": {"role": "textbox", "place": {"before": "b-field"}},
        "b-field": {"place": {"after": "a-field"}, "role": "textbox", "or": [{"type": "url"}, {"key": "Enter"}]},
        "refusal": {"text": "/nay/"},
    }
    check = check_of(lexicon=lexicon, can=[{"fill": {"a-field": "x", "b-field": "y"}}, {"see": "refusal"}])

    assert [way.types or way.key for way in check.lexicon["b-field"]] == ["", ("url",), "Enter"]
    assert len(check.lexicon["refusal"]) == 1


@rows.each(
    ("arguments", "at", "words"),
    [
        ({}, (), "neither `can` nor `never`"),
        ({"can": [SEE], "never": [{"press": "/x/"}, SEE]}, (), "both `can` and `never`"),
        ({"can": [{"press": "/x/"}]}, ("can",), "`can` looks at nothing"),
        ({"never": [SEE, {"press": "/x/"}]}, ("never",), "`never` does not say what is forbidden"),
        ({"can": [SEE], "and": SEE}, ("and",), "`and` without `never`"),
        ({"never": [{"press": "/x/"}, SEE], "and": [{"press": "/x/"}]}, ("and", "0"), "`press /x/` is done"),
        ({"can": [SEE], "wihtin": 1}, ("wihtin",), "a web check has no `wihtin`"),
        ({"can": ["x"]}, ("can", "0"), "a step is a map, not `x`"),
        ({"can": [{"see": "x", "gone": "y"}]}, ("can", "0"), "this has `see` and `gone`"),
        ({"can": [{"pres": "/x/"}, SEE]}, ("can", "0", "pres"), "the browser has no `pres`"),
        ({"can": [{"A": SEE}]}, ("can", "0", "A"), "the browser has no `A`"),
        ({"can": [{"press": "login-buton"}, SEE]}, ("can", "0", "press"), "the lexicon has no `login-buton`"),
        ({"can": [{"press": "Start"}, SEE]}, ("can", "0", "press"), "the lexicon has no `Start`"),
        ({"can": [{"press": {"rol": "x"}}, SEE]}, ("can", "0", "press", "rol"), "a meaning has no `rol`"),
        ({"can": [{"see": "sign-in"}]}, ("can", "0", "see"), "the lexicon has no `sign-in`"),
        ({"can": [{"see": "/a(/"}]}, ("can", "0", "see"), "`a(` is not a regular expression"),
        ({"can": [{"see": ""}]}, ("can", "0", "see"), "`see` is empty"),
        ({"can": [{"press": "g[1,1]"}, SEE]}, ("can", "0", "press"), "unknown grid `g`"),
        (
            {"can": [{"grid": {"rows": 3, "cols": 3, "as": "g"}}, {"value": {"g[0,4]": "x"}}]},
            ("can", "1", "value", "g[0,4]"),
            "grid `g` has no cell 0,4",
        ),
        ({"can": [{"grid": {"rows": 3, "as": "g"}}, SEE]}, ("can", "0", "grid"), "`grid` lacks `cols`"),
        ({"can": [{"key": "Entr"}, SEE]}, ("can", "0", "key"), "unknown key `Entr`"),
        ({"can": [{"wait": "soon"}, SEE]}, ("can", "0", "wait"), "`soon` is not a duration"),
        ({"can": [{**SEE, "within": "1h"}]}, ("can", "0", "within"), "`1h` is too long"),
        ({"can": [{"reload": False}, SEE]}, ("can", "0", "reload"), "`reload` is true"),
        ({"can": [{"count": {"message": "two"}}]}, ("can", "0", "count", "message"), "`two` is not a whole number"),
        ({"can": [{"any": [{"press": "/x/"}]}]}, ("can", "0", "any", "0"), "`press /x/` in `any`"),
        ({"can": [{"maybe": SEE}, SEE]}, ("can", "0", "maybe"), "`maybe` begins with `see ada`"),
        ({"can": [{"reuse": "x"}, SEE]}, ("can", "0", "reuse"), "no check `x` to reuse"),
        ({"can": [SEE], "contexts": ["open"]}, ("contexts", "0"), "`open` is a verb"),
        (
            {"can": [SEE], "lexicon": {"a": {"place": "top", "role": "x"}}},
            ("lexicon", "a", "place"),
            "is not a position",
        ),
        ({"can": [SEE], "lexicon": {"a": {"key": "x", "role": "y"}}}, ("lexicon", "a", "key"), "`key` beside others"),
    ],
)
def test_every_impossible_step_is_reported_at_its_place(arguments: JsonObject, at: tuple[str, ...], words: str) -> None:
    check, faults = parse_web_check(arguments)

    assert check is None
    assert [fault.at for fault in faults] == [at]
    assert words in faults[0].summary
    assert faults[0].hint


def test_a_check_needs_an_address_unless_another_has_it() -> None:
    said([fault.summary for fault in web_check_problems({"can": [SEE]}, has_url=False)])
    assert list(web_check_problems({"can": [SEE]}, has_url=True)) == []


def test_a_flow_is_reused_with_all_its_steps() -> None:
    good: JsonObject = {"web": {"can": [{"press": "/in/"}, SEE]}}
    again: JsonObject = {"can": [{"reuse": "good"}, {"reload": True}, SEE]}
    flows = reusable_steps([("good", good), ("file", {"require-file": "x"})])

    check, faults = parse_web_check(again, flows)

    assert faults == () and check is not None
    assert parse_web_check(expand_reuse(again, flows))[0] == check
    assert [step.written for step in check.steps] == ["press /in/", "see ada", "reload", "see ada"]


def test_flows_that_reuse_each_other_are_an_error() -> None:
    flows = {"a": [{"reuse": "b"}], "b": [{"reuse": "a"}, SEE]}

    _, faults = parse_web_check({"can": [{"reuse": "a"}]}, flows)

    assert [fault.at for fault in faults] == [("can", "0", "reuse")]
    assert "reuse" not in str(expand_reuse({"can": [{"reuse": "a"}]}, flows))
