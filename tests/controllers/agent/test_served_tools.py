"""Tools of tool servers in the registry: which exist, in which order, and which a denial covers."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planloop.controllers.agent.status import TurnCall
from planloop.controllers.agent.tools.mcp_tools import McpTools
from planloop.controllers.agent.tools.registry import BUILT_IN_TOOLS
from planloop.controllers.agent.tools.tool import ToolCache
from planloop.controllers.agent.turn import permissions, prompt
from planloop.controllers.agent.turn.permissions import CallAllowed, CallRefused
from planloop.schemas.objects.agent import AgentSpec, ScriptSpec
from planloop.schemas.objects.mcp import McpSpec, ServedTool
from planloop.schemas.rights import Rights
from tests import rows
from tests.product import CallState, EffectClass, Json, JsonObject, MemoryView, Resource, Uid

WORDS = st.text("abcxyz", min_size=1, max_size=6)
PATHS = st.lists(WORDS, min_size=1, max_size=4).map("/".join)


def server(*tools: str, withheld: str = "", effects: JsonObject | None = None, name: str = "files") -> Resource:
    offers = [ServedTool(tool, f"does {tool}", {"type": "object"}, {}, tool, withheld).to_json() for tool in tools]
    spec = McpSpec(("server",), effects=effects or {})
    return Resource(f"mcp/{name}", Uid(name), 1, spec.to_json(), {"tools": offers})


def registry(*servers: Resource) -> McpTools:
    view = MemoryView(servers)
    return McpTools(BUILT_IN_TOOLS, lambda: view)


def spec_with(tools: tuple[str, ...] = ("files.*",), deny: tuple[str, ...] = ()) -> AgentSpec:
    return AgentSpec("task/.", ScriptSpec(()), Rights(deny=deny), tools=tools)


def ruled(
    arguments: Json, *, deny: tuple[str, ...] = (), tools: tuple[str, ...] = ("files.*",)
) -> permissions.CallPermission:
    return permissions.check_call(
        TurnCall("call/a", "files.write_file", arguments), spec_with(tools, deny), registry(server("write_file")), ()
    )


def test_tools_of_servers_follow_the_built_in_ones_in_the_order_of_their_status() -> None:
    found = permissions.granted_tools(
        spec_with(("read", "list", "files.*", "zoo.*")), registry(server("b", "a"), server("z", name="zoo"))
    )
    assert [name for name in found if not BUILT_IN_TOOLS.get(name, BUILT_IN_TOOLS["read"]).is_free] == [
        "list",
        "read",
        "files.b",
        "files.a",
        "zoo.z",
    ]


def test_served_tools_are_shown_in_the_order_of_the_agents_own_list() -> None:
    found = registry(server("a", "b", "c"), server("x", "y", name="web"))
    spec = spec_with(("web.y", "files.*", "files.c"))
    assert [name for name in permissions.granted_tools(spec, found) if "." in name] == [
        "web.y",
        "files.c",
        "files.a",
        "files.b",
    ]


def test_plan_decides_the_effect_class_and_the_default_is_once() -> None:
    found = registry(server("a", "b", effects={"a": "read"}))
    assert (found["files.a"].effect, found["files.b"].effect) == (EffectClass.READ, EffectClass.ONCE)


@rows.each("schema", [{}, {"type": "string"}, {"type": ["object"]}, {"$ref": "http://127.0.0.1/x"}, {"anyOf": [{}]}])
def test_arguments_that_are_not_an_object_never_reach_a_provider(schema: JsonObject) -> None:
    offer = ServedTool("odd", "does", schema, {}, "odd").to_json()
    found = registry(Resource("mcp/s", Uid("s"), 1, McpSpec(("server",)).to_json(), {"tools": [offer]}))

    assert prompt.declare_tool(found["s.odd"])["function"]["parameters"] == {"type": "object", "properties": {}}


def test_two_tools_with_names_that_a_provider_confuses_have_two_names() -> None:
    names = ("a.b", "a_b", "a__b", "a b", "ä", "n" * 100, "n" * 101)
    shown = [
        prompt.declare_tool(tool)["function"]["name"]
        for tool in registry(server(*names)).values()
        if "files." in tool.name
    ]

    assert len(set(shown)) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in shown)


@rows.each(
    ("status", "reason"),
    [
        ({"state": "failed", "why": "the licence has expired"}, "the licence has expired"),
        ({"state": "starting"}, "starting"),
        ({"tools": [], "left_out": [["big", "it has 70 KB"]]}, "it has 70 KB"),
        ({"tools": []}, ""),
    ],
)
def test_call_of_a_missing_tool_gets_the_reason(status: JsonObject, reason: str) -> None:
    found = registry(Resource("mcp/s", Uid("s"), 1, McpSpec(("server",)).to_json(), status))
    call = TurnCall("call/a", "s.big", {})
    told, other = (
        permissions.check_call(call, spec_with(("s",)), found, ()),
        permissions.check_call(call, spec_with(), found, ()),
    )

    assert isinstance(told, CallRefused) and told.result.error == "UnknownTool" and reason in told.result.text
    # An agent without the server gets no description of it.
    assert isinstance(other, CallRefused) and (not reason or reason not in other.result.text)


def test_withheld_tool_is_hidden_and_refused_with_the_reason() -> None:
    found = registry(server("write_file", withheld="it changed"))
    assert "files.write_file" not in list(found)
    made = permissions.check_call(TurnCall("call/a", "files.write_file", {}), spec_with(), found, ())
    assert isinstance(made, CallRefused) and made.result.state is CallState.DENIED and "it changed" in made.result.text


def test_cached_tools_are_looked_up_as_in_the_registry() -> None:
    found = registry(server("read_file", "write_file", withheld="it changed"), server("a", name="zoo"))
    kept = ToolCache(found, lambda: MemoryView((), 1))
    for name in ("read", "zoo.a", "files.write_file", "files.none", "none"):
        assert kept.get(name) == found.get(name)
    assert kept.get("files.write_file") is not None and "files.write_file" not in list(kept)
    with pytest.raises(KeyError):
        kept["none"]


def test_name_of_a_server_means_all_its_tools() -> None:
    assert isinstance(ruled({"path": "a"}, tools=("files",)), CallAllowed)
    assert isinstance(ruled({"path": "a"}, deny=("files",)), CallRefused)
    assert isinstance(ruled({"path": "a"}, deny=("files.*",)), CallRefused)
    assert isinstance(ruled({"path": "a"}, deny=("files.write_file",)), CallRefused)
    assert isinstance(ruled({"path": "a"}, deny=("files.read_file", "file")), CallAllowed)
    assert isinstance(ruled({"path": "a"}, tools=("read",)), CallRefused)


def disguises(path: str) -> st.SearchStrategy[str]:
    """Other ways to write a path that lies in the folder a server works in."""
    ways = [
        path,
        f"./{path}",
        f"a/../{path}",
        f"/srv/plan/{path}",
        f"/srv/x/../plan//{path}",
        f"file:///srv/plan/{path}",
        f" {path}",
        path.replace("/", "\\"),
        quote(path, safe=""),
        path.replace(".", "%2e"),
    ]
    return st.sampled_from(ways)


@given(st.data(), PATHS)
def test_law_6_denial_of_a_folder_holds_however_a_server_gets_its_path(data: st.DataObject, rest: str) -> None:
    text = data.draw(disguises(f".git/{rest}"))
    value: Json = data.draw(st.sampled_from([text, [text], {"deep": [{"path": text}]}, {text: "content"}]))
    arguments = {data.draw(WORDS): "harmless", "what": value}
    made = ruled(arguments, deny=("files.write_file(.git/**)",))
    assert isinstance(made, CallRefused) and made.result.state is CallState.DENIED


@given(PATHS)
def test_a_denial_of_a_folder_leaves_other_files_alone(rest: str) -> None:
    assert isinstance(ruled({"path": f"src/{rest}"}, deny=("files.write_file(.git/**)",)), CallAllowed)


@given(st.data())
def test_law_6_server_cannot_write_what_answers_for_a_hook(data: st.DataObject) -> None:
    text = data.draw(disguises("hooks/guard.py"))
    ways: list[JsonObject] = [{"path": text}, {"fileUri": text}, {"edits": [{"destination": [text]}]}]
    arguments = data.draw(st.sampled_from(ways))
    guarded = AgentSpec("task/.", ScriptSpec(()), Rights(guarded=("write(hooks/guard.py)",)), tools=("files.*",))
    call = TurnCall("call/a", "files.write_file", arguments | {"title": "guard.py"})
    assert isinstance(permissions.check_call(call, guarded, registry(server("write_file")), ()), CallRefused)


def test_guarded_file_leaves_all_others_to_servers() -> None:
    guarded = AgentSpec("task/.", ScriptSpec(()), Rights(guarded=("write(hooks/guard.py)",)), tools=("files.*",))
    harmless: list[JsonObject] = [{}, {"path": "src/guard.py"}, {"title": "hooks/guard.py"}]
    for arguments in harmless:
        call = TurnCall("call/a", "files.write_file", arguments)
        assert isinstance(permissions.check_call(call, guarded, registry(server("write_file")), ()), CallAllowed)
    readers = registry(server("write_file", effects={"write_file": "read"}))
    call = TurnCall("call/a", "files.write_file", {"path": "hooks/guard.py"})
    assert isinstance(permissions.check_call(call, guarded, readers, ()), CallAllowed)
