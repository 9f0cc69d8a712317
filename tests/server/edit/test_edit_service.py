"""The Edit page's server side, on a real log: its text, the preview of an edit, and apply."""

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
from tests.server.edit.conftest import EditSession, Opened

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
    async with opened(PLAN) as session:
        assert await session.begin() == PLAN

        await session.goal("a", "theirs")

        assert await session.begin() == PLAN.replace('"first"', '"theirs"')
        assert session.file.read_text() == PLAN, "the file is not touched"


async def test_the_text_of_an_edn_plan_is_edn(opened: Opened) -> None:
    async with opened(EDN, "demo.plan.edn") as session:
        await session.patch(NEW_GOAL)

        assert await session.begin() == EDN.replace("first", "theirs")
        session.type("theirs", "mine")
        assert (await session.apply())["verdict"] == "accepted"
        assert session.live["tasks"]["a"]["goal"] == "mine"


async def test_a_plan_that_cannot_be_spliced_is_shown_in_plain_form_with_the_reason(opened: Opened) -> None:
    shared = 'plan: demo\ntasks:\n  a: &one\n    goal: first\n    run: "true"\n  b: *one\n'
    async with opened(shared) as session:
        await session.patch(NEW_GOAL)

        found = await session.desk.text()

        assert "demo.plan.yaml: " in found["why"]
        assert found["blob"] == ""
        assert "goal: theirs" in found["text"]


async def test_error_is_reported_with_its_place_and_fix_and_nothing_changes(opened: Opened) -> None:
    async with opened(PLAN) as session:
        await session.begin()
        rev, live = session.replica.rev, session.live
        session.type("needs: [a]", "neds: [a]")

        looked = await session.look(preview=True)

        (fault,) = looked["faults"]
        assert fault["code"] == "P0201"
        golden_text.said(fault["hint"], "needs")
        assert (fault["span"]["start"]["line"], fault["span"]["is_here"]) == (11, True)
        assert looked["is_sound"] is False
        assert (await session.apply(looked["edit"]))["verdict"] == "shown"
        assert (session.replica.rev, session.live) == (rev, live)


@pytest.mark.parametrize("text", ["", "\x00", "{" * 5_000, "&a [*a]", "- 1"])
@pytest.mark.parametrize("spelling", ["yaml", "edn"])
async def test_any_typed_text_gets_a_list_of_errors(opened: Opened, text: str, spelling: str) -> None:
    async with opened(PLAN) as session:
        await session.begin()
        session.draft |= {"text": text, "format": spelling}

        looked = await session.look(preview=True)

        assert (looked["is_sound"], looked["change_count"]) == (False, 0)
        assert all(fault["summary"] for fault in looked["faults"])


@pytest.mark.parametrize(("text", "words"), [("\ud800", "character 1"), ("ä" * 600_000, "longer than")])
async def test_text_that_cannot_be_a_plan_file_is_refused(opened: Opened, text: str, words: str) -> None:
    async with opened(PLAN) as session:
        await session.begin()
        session.draft["text"] = text

        for ask in (session.look, session.merge, session.pull):
            with pytest.raises(CommandError, match=words):
                await ask()


async def test_edit_is_applied_as_shown_by_the_pages_user_with_their_reason(opened: Opened) -> None:
    async with opened(PLAN) as session:
        await session.begin()
        session.type('"first"', '"mine"   # because')

        looked = await session.look(preview=True)
        assert [row["name"] for row in looked["preview"]["rows"]] == ["task/a/goal"]
        golden_text.said(looked["preview"]["summary"])
        said = await session.apply(looked["edit"], reason="it is better")

        assert said["verdict"] == "accepted"
        assert session.live["tasks"]["a"]["goal"] == "mine"
        assert "# because" in session.draft["text"], "what was typed is kept"
        why = await OwnerProxy(session.replica).get("why", {"at": "/tasks/a/goal"})
        assert (why["by"], why["reason"]) == ("human:web", "it is better")
        assert (await session.look())["change_count"] == 0
        assert session.file.read_text() == PLAN, "the file is not touched unasked"


async def test_looking_writes_nothing(opened: Opened) -> None:
    async with opened(PLAN) as session:
        await session.begin()
        session.type('"first"', '"mine"')
        rev = session.replica.rev

        await session.look(preview=True)

        assert PlanClient(session.place).get("status")["rev"] == rev


async def test_an_edit_that_was_not_shown_is_not_applied(opened: Opened) -> None:
    async with opened(PLAN) as session:
        await session.begin()
        session.type('"first"', '"mine"')
        seen = (await session.look())["edit"]
        session.type('"mine"', '"another"')

        said = await session.apply(seen)

        assert said["verdict"] == "shown"
        assert said["look"]["changes"][0]["value"] == "another"
        assert session.live["tasks"]["a"]["goal"] == "first"


async def test_change_by_others_elsewhere_is_shown_and_kept(opened: Opened) -> None:
    async with opened(PLAN) as session:
        await session.begin()
        session.type("goal: second", "goal: mine")
        seen = await session.look()
        await session.goal("a", "theirs")

        looked = await session.look()
        (other,) = looked["others"]["changes"]
        assert (other["at"], other["value"], other["by"]) == ("task/a/goal", "theirs", "human:cli")
        assert looked["edit"] == seen["edit"], "the edit itself is the same one"
        assert (await session.apply(seen["edit"]))["verdict"] == "accepted"

        assert [session.live["tasks"][name]["goal"] for name in "ab"] == ["theirs", "mine"]
        assert '"theirs"' in session.draft["text"]


@pytest.mark.parametrize(("side", "goal"), [("mine", "mine"), ("live", "theirs")])
async def test_a_conflict_is_shown_three_ways_and_goes_as_it_is_chosen(opened: Opened, side: str, goal: str) -> None:
    async with opened(PLAN) as session:
        await session.begin()
        session.type('"first"', '"mine"')
        session.type("a demo", "my demo")
        seen = (await session.look())["edit"]
        await session.goal("a", "theirs")

        assert (await session.apply(seen))["verdict"] == "shown", "no change is taken silently"
        assert session.live["goal"] == "a demo"
        (clash,) = (await session.look())["clashes"]
        assert [clash[name] for name in ("at", "base", "mine", "live", "taken")] == [
            *("task/a/goal", "first", "mine", "theirs"),
            None,
        ]
        assert (clash["by"], clash["place"]["start"]["line"]) == ("human:cli", 6)
        session.draft["chosen"] = {clash["id"]: side}

        assert (await session.apply())["verdict"] == "accepted"
        assert (session.live["tasks"]["a"]["goal"], session.live["goal"]) == (goal, "my demo")
        assert f'"{goal}"' in session.draft["text"]


async def test_choice_expires_when_the_other_side_changes(opened: Opened) -> None:
    async with opened(PLAN) as session:
        await session.begin()
        session.type('"first"', '"mine"')
        await session.goal("a", "theirs")
        (clash,) = (await session.look())["clashes"]
        session.draft["chosen"] = {clash["id"]: "mine"}
        seen = (await session.look())["edit"]
        await session.goal("a", "theirs again")

        said = await session.apply(seen)

        assert said["verdict"] == "shown"
        assert [(one["live"], one["taken"]) for one in said["look"]["clashes"]] == [("theirs again", None)]
        assert session.live["tasks"]["a"]["goal"] == "theirs again"


@pytest.mark.parametrize("side", ["mine", "live"])
async def test_task_removed_by_one_side_and_changed_by_the_other_is_a_conflict(opened: Opened, side: str) -> None:
    async with opened(PLAN) as session:
        await session.begin()
        session.type('  b:\n    goal: second\n    run: "true"\n    needs: [a]\n', "")
        await session.goal("b", "theirs")

        (clash,) = (await session.look())["clashes"]
        assert (clash["at"], clash["mine"]) == ("task/b", None)
        session.draft["chosen"] = {clash["id"]: side}
        looked = await session.look(preview=True)

        if side == "mine":
            assert [row["action"] for row in looked["preview"]["rows"]] == ["cancel"]
            assert (await session.apply())["verdict"] == "accepted"
            assert list(session.live["tasks"]) == ["a"]
        else:
            assert looked["change_count"] == 0
            assert session.live["tasks"]["b"]["goal"] == "theirs"


async def test_change_by_others_is_merged_into_the_text_on_request(opened: Opened) -> None:
    async with opened(PLAN) as session:
        await session.begin()
        session.type("goal: second", "goal: mine   # mine")
        session.type('"first"', '"mine"')
        await session.goal("a", "theirs")
        with pytest.raises(CommandError) as caught:
            await session.merge()
        golden_text.said(str(caught.value))
        (clash,) = (await session.look())["clashes"]
        session.draft["chosen"] = {clash["id"]: "live"}

        await session.merge()

        assert session.draft["text"] == PLAN.replace("goal: second", "goal: mine   # mine").replace(
            '"first"', '"theirs"'
        )
        looked = await session.look()
        assert (looked["others"]["count"], looked["clashes"]) == (0, [])
        assert [change["at"] for change in looked["changes"]] == ["task/b/goal"]


async def test_refusal_of_the_gate_is_shown_with_its_fix_and_nothing_changes(opened: Opened) -> None:
    kept = PLAN.replace("    needs: [a]\n", "    needs: [a]\n    protect: true\n")
    async with opened(kept) as session:
        await session.begin()
        session.type(kept[kept.index("  b:\n") :], "")

        looked = await session.look(preview=True)
        said = await session.apply(looked["edit"])

        assert said["verdict"] == "refused"
        assert said["faults"] == looked["preview"]["faults"]
        assert [(fault["at"], fault["rule"]) for fault in said["faults"]] == [("task/b", "protect")]
        assert "remove the protection first" in said["faults"][0]["hint"]
        assert "b" in session.live["tasks"]


async def test_a_text_that_was_begun_long_ago_is_merged_with_what_was_live_then(opened: Opened) -> None:
    async with opened(PLAN) as session:
        await session.begin()
        session.type('"first"', '"mine"')
        await session.goal("b", "theirs")
        await session.goal("b", "theirs again")

        desk = EditService(session.replica, OwnerProxy(session.replica))  # `plan serve` was begun again.
        with closing(desk):
            looked = await replace(session, desk=desk).look()

        assert [change["at"] for change in looked["changes"]] == ["task/a/goal"]
        assert [change["at"] for change in looked["others"]["changes"]] == ["task/b/goal"]


@pytest.mark.parametrize("base", [{"uid": "another", "rev": 2}, {"rev": 99_999}])
async def test_a_text_of_another_plan_of_that_name_is_not_merged(opened: Opened, base: dict[str, object]) -> None:
    async with opened(PLAN) as session:
        await session.begin()
        session.draft["base"] |= base

        with pytest.raises(CommandError) as stop:
            await session.look()
        golden_text.said(str(stop.value))

        assert stop.value.exit == Exit.CONFLICT


async def test_a_patch_for_one_document_is_not_made_on_another(opened: Opened) -> None:
    async with opened(PLAN) as session:
        rev = session.replica.rev
        body = {"ops": [NEW_GOAL], "document_rev": 1}

        said = await OwnerProxy(session.replica).post("patch", body)

        assert (said["verdict"], said["document_rev"]) == ("moved", 2)
        assert session.live["tasks"]["a"]["goal"] == "first"
        assert [one["type"] for one in await _since(session, rev)] == ["epoch.taken"], (
            "who owns it for a moment, and nothing else"
        )


async def _since(session: EditSession, rev: int) -> list[dict[str, Any]]:
    """What the log says after `rev`."""
    found: dict[str, Any] = await OwnerProxy(session.replica).get("log", {"after": str(rev)})
    return list(found["records"])
