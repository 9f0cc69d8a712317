"""Simulated worlds as tool servers of a plan: called, journalled and ruled on as others are, without a process."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from planloop.benchmarks.worlds.state import restore_changes
from planloop.benchmarks.worlds.world_file import read_world
from tests.benchmarks.worlds.making import replay_calls
from tests.controllers.agent.arena import Arena, arena
from tests.controllers.agent.mortal import live_and_die, to_the_end
from tests.controllers.mcp.plans import BAD, DONE, OK, call, plan, texts, written
from tests.golden_text import said
from tests.product import Json, JsonObject

pytestmark = pytest.mark.anyio

OFFICE = "office.yaml"
SERVERS: JsonObject = {"calendar": {"world": OFFICE}, "todo": {"world": OFFICE}}
SHIPPED = Path(__file__).parents[3] / "benchmarks/planloop/benchmarks/suites/tool-calling/worlds/office.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(SHIPPED, tmp_path / OFFICE)
    return tmp_path


def kept(here: Arena, agent: str) -> JsonObject:
    """What is otherwise in an agent's world than in the file."""
    found: JsonObject = here.get(agent).status.get("worlds", {}).get(OFFICE, {})
    return found


async def test_calls_change_one_world_that_all_servers_of_its_file_share(folder: Path) -> None:
    steps = [
        call("calendar.update", id="evt-12", room="Oak"),
        call("todo.add", title="Book Oak"),
        call("calendar.get", id="evt-12"),
        call("todo.finish", id="todo-74"),
        call("calendar.delete", id="evt-13"),
        call("calendar.get", id="evt-13"),
        BAD,
        DONE,
    ]
    async with arena(folder) as here:
        await here.apply(plan(SERVERS, *steps))
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"
        assert json.loads((await texts(here, "calendar.get"))[0])["room"] == "Oak"
        assert (await texts(here, "calendar.get"))[1] == "There is no event evt-13."
        rows = kept(here, "agent/.")["rows"]
        assert rows["events"]["evt-12"][0]["room"] == "Oak"
        assert rows["events"]["evt-13"] == []
        assert rows["todos"]["todo-74"][0] == {"title": "Book Oak", "due": "", "done": True, "list": "work"}


async def test_refusal_of_a_world_is_a_failed_call_with_its_message(folder: Path) -> None:
    wrong = [call("calendar.update", id="evt-99"), BAD, call("calendar.update", when=3), BAD]
    async with arena(folder) as here:
        await here.apply(plan(SERVERS, *wrong, call("calendar.move", id="evt-12"), BAD, DONE))
        await here.until_state("task/.", "done", "failed")
        first, second = await here.results("calendar.update")
        assert (first["state"], first["error"], first["text"]) == ("Failed", "ToolError", "There is no event evt-99.")
        assert (second["state"], second["error"]) == ("Failed", "BadArguments")
        said(second["text"])
        assert kept(here, "agent/.") == {}


async def test_every_agent_has_its_own_world_and_every_run_starts_a_new_one(folder: Path) -> None:
    add = call("todo.add", title="mine")
    agent: JsonObject = {"tools": ["todo"], "script": [add, add, DONE]}
    tasks = {"a": {"goal": "a", "agent": agent, "again": 0}, "b": {"goal": "b", "agent": agent}}
    async with arena(folder) as here:
        await here.apply(written({"mcp": SERVERS, "tasks": tasks}))
        await here.until_state("task/.", "done", "failed")
        for name in ("agent/a", "agent/b"):
            assert [*kept(here, name)["rows"]["todos"]] == ["todo-74", "todo-75"]
        await here.patch({"op": "replace", "path": "/tasks/a/again", "value": 1})
        await here.until(lambda: here.get("agent/a").status.get("incarnation") == 2)
        await here.until_state("task/.", "done", "failed")
        assert [*kept(here, "agent/a")["rows"]["todos"]] == ["todo-74", "todo-75"]


async def test_next_owner_finds_the_world_as_the_calls_left_it(folder: Path) -> None:
    gate = {"when": {"message": "go"}, "say": "on"}
    steps = [call("todo.add", title="one"), gate, call("todo.add", title="two"), call("todo.list", list="work"), DONE]
    text = plan(SERVERS, *steps)
    async with arena(folder) as here:
        await here.apply(text)
        await here.until(lambda: bool(kept(here, "agent/.")))
        await here.settled()
    async with arena(folder, epoch=2) as here:
        await here.tell("agent/.", "go", "m1")
        await here.until_state("task/.", "done", "failed")
        listed = json.loads((await texts(here, "todo.list"))[0])
        assert [row["title"] for row in listed["todos"]][:2] == ["one", "two"]


CALLS: list[tuple[str, JsonObject]] = [
    ("todo.add", {"title": "one"}),
    ("calendar.update", {"id": "evt-12", "room": "Oak"}),
    ("todo.add", {"title": "two"}),
    ("todo.finish", {"id": "todo-75"}),
    ("calendar.delete", {"id": "evt-13"}),
]


@pytest.mark.process
async def test_law_5_no_call_is_lost_or_repeated_wherever_the_owner_dies(tmp_path: Path) -> None:
    text = plan(SERVERS, *(call(tool, **arguments) for tool, arguments in CALLS), DONE)
    start = read_world(SHIPPED.read_bytes(), file=OFFICE).world
    assert start is not None
    wanted = replay_calls(start, CALLS).tables

    async def play(here: Arena) -> None:
        await to_the_end(here, text)
        assert here.state("task/.") == "done"
        assert restore_changes(start, kept(here, "agent/.")).tables == wanted
        made = [one.data for one in await here.log() if one.type == "call.settled" and one.data["tool"] != "done"]
        assert [each["result"]["state"] for each in made] == ["Succeeded"] * len(CALLS)

    for after in range(1, 40, 4):
        folder = tmp_path / str(after)
        folder.mkdir()
        shutil.copy(SHIPPED, folder / OFFICE)
        await live_and_die(play, folder, [after, 3, 4])


async def test_rights_and_denials_hold_for_simulated_tools(folder: Path) -> None:
    denied: JsonObject = {"expect": {"error": "Denied"}}
    steps = [call("calendar.delete", id="evt-12"), denied, call("calendar.get", id="evt-12"), OK]
    async with arena(folder) as here:
        await here.apply(
            plan(SERVERS, *steps, call("todo.list"), denied, DONE, tools=["calendar"], deny=["calendar.delete"])
        )
        await here.until_state("task/.", "done", "failed")
        assert here.state("task/.") == "done"


async def test_overlay_of_the_tables_is_seen_by_the_agents_of_its_task_only(folder: Path) -> None:
    text = (folder / OFFICE).read_text()
    (folder / OFFICE).write_text(
        f"{text}overlays: {{early: {{events: {{evt-12: {{room: Oak}}, evt-13: null}}}}}}\nlaid: {{a: early}}\n"
    )
    steps = [call("calendar.get", id="evt-12"), call("calendar.get", id="evt-13"), {"expect": {}}, DONE]
    agent: JsonObject = {"tools": ["calendar"], "script": steps}
    inner: JsonObject = {"goal": "a", "tasks": {"deep": {"goal": "deep", "agent": agent}}}
    async with arena(folder) as here:
        await here.apply(written({"mcp": SERVERS, "tasks": {"a": inner, "b": {"goal": "b", "agent": agent}}}))
        await here.until_state("task/.", "done", "failed")
        settled = [each for each in await here.log() if each.type == "call.settled" and "tool" in each.data]
        found = {
            name: [
                each.data["result"] for each in settled if each.actor == name and each.data["tool"] == "calendar.get"
            ]
            for name in ("agent:a/deep", "agent:b")
        }
        assert [result["value"]["room"] for result in found["agent:a/deep"][:1] + found["agent:b"][:1]] == [
            "Oak",
            "Elm",
        ]
        assert [each[1]["state"] for each in found.values()] == ["Failed", "Succeeded"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "office.yaml: No such file or directory"),
        ("world: w\ntools: {calendar.get: {does: [{get: {in: event, id: x}}]}}\n", "office.yaml:2:"),
        ("world: w\ntools: {mail.get: {}}\n", "no tool name starts with `calendar.`"),
    ],
)
async def test_invalid_world_is_reported_and_its_agents_continue_without_it(
    folder: Path, content: str | None, why: str
) -> None:
    unknown: JsonObject = {"expect": {"error": "UnknownTool"}}
    (folder / OFFICE).unlink()
    if content is not None:
        (folder / OFFICE).write_text(content)
    async with arena(folder) as here:
        await here.apply(plan({"calendar": {"world": OFFICE}}, call("calendar.get", id="evt-12"), unknown, DONE))
        await here.until_state("task/.", "done", "failed")
        server = here.get("mcp/calendar")
        assert server.state == "failed"
        assert why in server.status["why"]
        ready: Json = server.status["conditions"]["Ready"]
        assert ready["reason"] == "BadWorld" and ready["unblocks"]
        assert here.state("task/.") == "done"


async def test_offer_of_a_world_is_recorded_once(folder: Path) -> None:
    async with arena(folder) as here:
        await here.apply(plan(SERVERS, call("calendar.rooms"), OK, DONE))
        await here.until_state("task/.", "done", "failed")
        await here.settled()
        for name in ("calendar", "todo"):
            found = [one.type for one in await here.log() if one.subject == f"mcp/{name}"]
            assert found == ["object.updated", "server.ready"]
