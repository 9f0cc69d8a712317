"""The Edit page's server side, on a real log: what the text is, what is said of an edit, and what apply does."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from planloop.client.plan_client import PlanClient
from planloop.server.edit.edit_service import EditService
from planloop.server.gateway.owner_proxy import OwnerProxy
from tests import golden_text
from tests.product import CommandError
from tests.product import CommandExit as Exit
from tests.server.edit.conftest import Opened, Room

pytestmark = pytest.mark.anyio

PLAN = """\
# the plan
plan: demo   # its name
goal: a demo
tasks:
  a:
    goal: "first"   # quoted
    run: "true"
  b:
    goal: second
    run: "true"
    needs: [a]
"""
EDN = """\
;; the plan
{:plan "demo"
 :tasks {:a {:goal "first"  ; said
             :run "true"}}}
"""
NEW_GOAL = {"op": "replace", "path": "/tasks/a/goal", "value": "theirs"}


async def test_the_text_is_the_file_s_own_with_what_is_live_written_into_it(opened: Opened) -> None:
    async with opened(PLAN) as room:
        assert await room.begin() == PLAN

        await room.goal("a", "theirs")

        assert await room.begin() == PLAN.replace('"first"', '"theirs"')
        assert room.file.read_text() == PLAN, "the file is not touched"


async def test_the_text_of_an_edn_plan_is_edn(opened: Opened) -> None:
    async with opened(EDN, "demo.plan.edn") as room:
        await room.patch(NEW_GOAL)

        assert await room.begin() == EDN.replace("first", "theirs")
        room.type("theirs", "mine")
        assert (await room.apply())["verdict"] == "accepted"
        assert room.live["tasks"]["a"]["goal"] == "mine"


async def test_a_plan_that_cannot_be_spliced_is_shown_in_plain_form_with_the_reason(opened: Opened) -> None:
    shared = 'plan: demo\ntasks:\n  a: &one\n    goal: first\n    run: "true"\n  b: *one\n'
    async with opened(shared) as room:
        await room.patch(NEW_GOAL)

        found = await room.desk.text()

        assert "demo.plan.yaml: " in found["why"]
        assert found["blob"] == ""
        assert "goal: theirs" in found["text"]


async def test_a_slip_is_told_with_its_place_and_cure_and_nothing_changes(opened: Opened) -> None:
    async with opened(PLAN) as room:
        await room.begin()
        rev, live = room.replica.rev, room.live
        room.type("needs: [a]", "neds: [a]")

        looked = await room.look(preview=True)

        (fault,) = looked["faults"]
        assert fault["code"] == "P0201"
        golden_text.said(fault["hint"], "needs")
        assert (fault["span"]["start"]["line"], fault["span"]["is_here"]) == (11, True)
        assert looked["is_sound"] is False
        assert (await room.apply(looked["edit"]))["verdict"] == "shown"
        assert (room.replica.rev, room.live) == (rev, live)


@pytest.mark.parametrize("text", ["", "\x00", "{" * 5_000, "&a [*a]", "- 1"])
@pytest.mark.parametrize("spelling", ["yaml", "edn"])
async def test_whatever_is_typed_is_answered_with_faults(opened: Opened, text: str, spelling: str) -> None:
    async with opened(PLAN) as room:
        await room.begin()
        room.draft |= {"text": text, "format": spelling}

        looked = await room.look(preview=True)

        assert (looked["is_sound"], looked["change_count"]) == (False, 0)
        assert all(fault["summary"] for fault in looked["faults"])


@pytest.mark.parametrize(("text", "words"), [("\ud800", "character 1"), ("ä" * 600_000, "longer than")])
async def test_a_text_that_no_plan_file_could_hold_is_refused(opened: Opened, text: str, words: str) -> None:
    async with opened(PLAN) as room:
        await room.begin()
        room.draft["text"] = text

        for ask in (room.look, room.merge, room.pull):
            with pytest.raises(CommandError, match=words):
                await ask()


async def test_an_edit_is_applied_as_shown_by_the_person_at_the_page_with_their_reason(opened: Opened) -> None:
    async with opened(PLAN) as room:
        await room.begin()
        room.type('"first"', '"mine"   # because')

        looked = await room.look(preview=True)
        assert [row["name"] for row in looked["preview"]["rows"]] == ["task/a/goal"]
        golden_text.said(looked["preview"]["summary"])
        said = await room.apply(looked["edit"], reason="it is better")

        assert said["verdict"] == "accepted"
        assert room.live["tasks"]["a"]["goal"] == "mine"
        assert "# because" in room.draft["text"], "what was typed is kept"
        why = await OwnerProxy(room.replica).get("why", {"at": "/tasks/a/goal"})
        assert (why["by"], why["reason"]) == ("human:web", "it is better")
        assert (await room.look())["change_count"] == 0
        assert room.file.read_text() == PLAN, "the file is not touched unasked"


async def test_looking_writes_nothing(opened: Opened) -> None:
    async with opened(PLAN) as room:
        await room.begin()
        room.type('"first"', '"mine"')
        rev = room.replica.rev

        await room.look(preview=True)

        assert PlanClient(room.place).get("status")["rev"] == rev


async def test_an_edit_that_was_not_shown_is_not_applied(opened: Opened) -> None:
    async with opened(PLAN) as room:
        await room.begin()
        room.type('"first"', '"mine"')
        seen = (await room.look())["edit"]
        room.type('"mine"', '"another"')

        said = await room.apply(seen)

        assert said["verdict"] == "shown"
        assert said["look"]["changes"][0]["value"] == "another"
        assert room.live["tasks"]["a"]["goal"] == "first"


async def test_what_others_changed_elsewhere_is_told_and_stays(opened: Opened) -> None:
    async with opened(PLAN) as room:
        await room.begin()
        room.type("goal: second", "goal: mine")
        seen = await room.look()
        await room.goal("a", "theirs")

        looked = await room.look()
        (other,) = looked["others"]["changes"]
        assert (other["at"], other["value"], other["by"]) == ("task/a/goal", "theirs", "human:cli")
        assert looked["edit"] == seen["edit"], "the edit itself is the same one"
        assert (await room.apply(seen["edit"]))["verdict"] == "accepted"

        assert [room.live["tasks"][name]["goal"] for name in "ab"] == ["theirs", "mine"]
        assert '"theirs"' in room.draft["text"]


@pytest.mark.parametrize(("side", "goal"), [("mine", "mine"), ("live", "theirs")])
async def test_a_conflict_is_shown_three_ways_and_goes_as_it_is_chosen(opened: Opened, side: str, goal: str) -> None:
    async with opened(PLAN) as room:
        await room.begin()
        room.type('"first"', '"mine"')
        room.type("a demo", "my demo")
        seen = (await room.look())["edit"]
        await room.goal("a", "theirs")

        assert (await room.apply(seen))["verdict"] == "shown", "nobody is taken in silence"
        assert room.live["goal"] == "a demo"
        (clash,) = (await room.look())["clashes"]
        assert [clash[name] for name in ("at", "base", "mine", "live", "taken")] == [
            *("task/a/goal", "first", "mine", "theirs"),
            None,
        ]
        assert (clash["by"], clash["place"]["start"]["line"]) == ("human:cli", 6)
        room.draft["chosen"] = {clash["id"]: side}

        assert (await room.apply())["verdict"] == "accepted"
        assert (room.live["tasks"]["a"]["goal"], room.live["goal"]) == (goal, "my demo")
        assert f'"{goal}"' in room.draft["text"]


async def test_a_choice_lapses_when_the_other_side_moves_on(opened: Opened) -> None:
    async with opened(PLAN) as room:
        await room.begin()
        room.type('"first"', '"mine"')
        await room.goal("a", "theirs")
        (clash,) = (await room.look())["clashes"]
        room.draft["chosen"] = {clash["id"]: "mine"}
        seen = (await room.look())["edit"]
        await room.goal("a", "theirs again")

        said = await room.apply(seen)

        assert said["verdict"] == "shown"
        assert [(one["live"], one["taken"]) for one in said["look"]["clashes"]] == [("theirs again", None)]
        assert room.live["tasks"]["a"]["goal"] == "theirs again"


@pytest.mark.parametrize("side", ["mine", "live"])
async def test_a_task_that_one_took_away_and_the_other_changed_is_a_conflict(opened: Opened, side: str) -> None:
    async with opened(PLAN) as room:
        await room.begin()
        room.type('  b:\n    goal: second\n    run: "true"\n    needs: [a]\n', "")
        await room.goal("b", "theirs")

        (clash,) = (await room.look())["clashes"]
        assert (clash["at"], clash["mine"]) == ("task/b", None)
        room.draft["chosen"] = {clash["id"]: side}
        looked = await room.look(preview=True)

        if side == "mine":
            assert [row["action"] for row in looked["preview"]["rows"]] == ["cancel"]
            assert (await room.apply())["verdict"] == "accepted"
            assert list(room.live["tasks"]) == ["a"]
        else:
            assert looked["change_count"] == 0
            assert room.live["tasks"]["b"]["goal"] == "theirs"


async def test_what_others_changed_is_merged_into_the_text_on_wish(opened: Opened) -> None:
    async with opened(PLAN) as room:
        await room.begin()
        room.type("goal: second", "goal: mine   # mine")
        room.type('"first"', '"mine"')
        await room.goal("a", "theirs")
        with pytest.raises(CommandError) as caught:
            await room.merge()
        golden_text.said(str(caught.value))
        (clash,) = (await room.look())["clashes"]
        room.draft["chosen"] = {clash["id"]: "live"}

        await room.merge()

        assert room.draft["text"] == PLAN.replace("goal: second", "goal: mine   # mine").replace('"first"', '"theirs"')
        looked = await room.look()
        assert (looked["others"]["count"], looked["clashes"]) == (0, [])
        assert [change["at"] for change in looked["changes"]] == ["task/b/goal"]


async def test_the_gate_s_refusal_is_told_with_its_cure_and_nothing_changes(opened: Opened) -> None:
    kept = PLAN.replace("    needs: [a]\n", "    needs: [a]\n    protect: true\n")
    async with opened(kept) as room:
        await room.begin()
        room.type(kept[kept.index("  b:\n") :], "")

        looked = await room.look(preview=True)
        said = await room.apply(looked["edit"])

        assert said["verdict"] == "refused"
        assert said["faults"] == looked["preview"]["faults"]
        assert [(fault["at"], fault["rule"]) for fault in said["faults"]] == [("task/b", "protect")]
        assert "remove the protection first" in said["faults"][0]["hint"]
        assert "b" in room.live["tasks"]


async def test_a_text_that_was_begun_long_ago_is_merged_with_what_was_live_then(opened: Opened) -> None:
    async with opened(PLAN) as room:
        await room.begin()
        room.type('"first"', '"mine"')
        await room.goal("b", "theirs")
        await room.goal("b", "theirs again")

        desk = EditService(room.replica, OwnerProxy(room.replica))  # `plan serve` was begun again.
        with closing(desk):
            looked = await replace(room, desk=desk).look()

        assert [change["at"] for change in looked["changes"]] == ["task/a/goal"]
        assert [change["at"] for change in looked["others"]["changes"]] == ["task/b/goal"]


@pytest.mark.parametrize("base", [{"uid": "another", "rev": 2}, {"rev": 99_999}])
async def test_a_text_of_another_plan_of_that_name_is_not_merged(opened: Opened, base: dict[str, object]) -> None:
    async with opened(PLAN) as room:
        await room.begin()
        room.draft["base"] |= base

        with pytest.raises(CommandError) as stop:
            await room.look()
        golden_text.said(str(stop.value))

        assert stop.value.exit == Exit.CONFLICT


async def test_a_patch_for_one_document_is_not_made_on_another(opened: Opened) -> None:
    async with opened(PLAN) as room:
        rev = room.replica.rev
        body = {"ops": [NEW_GOAL], "document_rev": 1}

        said = await OwnerProxy(room.replica).post("patch", body)

        assert (said["verdict"], said["document_rev"]) == ("moved", 2)
        assert room.live["tasks"]["a"]["goal"] == "first"
        assert [one["type"] for one in await _since(room, rev)] == ["epoch.taken"], (
            "who owns it for a moment, and nothing else"
        )


async def _since(room: Room, rev: int) -> list[dict[str, Any]]:
    """What the log says after `rev`."""
    found: dict[str, Any] = await OwnerProxy(room.replica).get("log", {"after": str(rev)})
    return list(found["records"])
