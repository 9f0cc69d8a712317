"""`/dump` and `/restore` of a conversation: an agent to a file and back, with what it knows and no more rights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import golden_text
from tests.e2e.folder import Folder
from tests.e2e.test_chat import chat, staying
from tests.fakes.model_server.running import StartedServer, started
from tests.product import CommandExit as Exit

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

PLAN = """\
plan: demo
goal: two who listen
agent: {{tools: [read, list], script: [{{when: {{message: never}}, done: x}}]}}
models: {{ollama: {{url: {url}}}}}
tasks:
  ann: {{goal: listen, agent: {{model: ollama/small, tools: [read]}}}}
"""
WORD = "the word is tulip"
STEPS = [
    {"when": {"user": WORD}, "reply": {"text": "noted"}},
    {"when": {"any": WORD, "user": "which word"}, "reply": {"text": "tulip it is"}},
    {"when": {"any": WORD}, "reply": {"text": "I begin again"}, "times": "always"},
    {"reply": {"text": "I listen"}, "times": "always"},
]


@pytest.fixture
def models(folder: Folder) -> Iterator[StartedServer]:
    with started(STEPS, folder.path) as server:
        yield server


def test_restored_agent_remembers_its_conversation(folder: Folder, models: StartedServer) -> None:
    with staying(folder, PLAN.format(url=models.url)):
        said = chat(folder, f"{WORD}\n/dump ann.jsonl\n", "ann")
        golden_text.said_in(said.out, "agent/ann")
        assert (folder.path / "ann.jsonl").stat().st_mode & 0o777 == 0o600
        said = chat(folder, "/restore ann.jsonl as eve\n/talkwith eve\nwhich word was it?\n", ".")
        golden_text.said_in(said.out, "agent/eve", "agent/ann")
        assert said.out.endswith("tulip it is\n"), said
        ann, eve = (folder.json("get", f"agent/{name}")["spec"] for name in ("ann", "eve"))
        assert (eve["tools"], eve["rights"]) == (ann["tools"], ann["rights"])
        assert "shell" not in eve["tools"]
        why = chat(folder, "/why task/eve/goal\n", ".").out
        assert "human:cli" in why
        golden_text.said_in(why, "agent/ann")


def test_failed_dump_or_restore_is_reported_with_a_fix(folder: Folder, models: StartedServer) -> None:
    with staying(folder, PLAN.format(url=models.url)):
        assert "ann.jsonl" in chat(folder, "/dump ann.jsonl\n", "ann").out
        whole = (folder.path / "ann.jsonl").read_text()
        folder.write("torn.jsonl", whole[:-20])
        folder.write("changed.jsonl", whole.replace("listen", "obey me"))
        folder.write("foreign.jsonl", '{"hello": 1}\n')
        (folder.path / "pixels").write_bytes(b"\xff\xfe\x00")
        lines = (
            "/dump ann.jsonl",
            "/dump nowhere/x",
            "/dump",
            "/dump a.jsonl nobody",
            "/restore ann.jsonl",
            "/restore torn.jsonl as t",
            "/restore changed.jsonl as t",
            "/restore foreign.jsonl as t",
            "/restore pixels as t",
            "/restore gone.jsonl",
            "/restore ann.jsonl t",
            "/restore ann.jsonl as 'not an id'",
        )
        found = [chat(folder, f"{line}\n", ".").err for line in lines]
        assert [line for line, err in zip(lines, found, strict=True) if "help: " not in err] == [], found
        words = ("exists", "cannot be written", "requires a file", "no single agent", "a child `ann` already",
                 "truncated", "digest does not match", "not a dump of an agent", "not text", "cannot be read",
                 "requires a file", "not an id")  # fmt: skip
        assert [(word, err) for word, err in zip(words, found, strict=True) if word not in err] == []
        assert list(folder.states()) == ["task/.", "task/ann"]
        assert (folder.path / "ann.jsonl").read_text() == whole


def test_the_api_needs_no_owner_to_carry_an_agent(folder: Folder, models: StartedServer) -> None:
    from planloop.cli.conversation import slash_commands
    from planloop.cli.conversation.slash_commands import SlashCommand
    from planloop.client import plan_paths
    from planloop.client.chat_target import ChatTarget
    from planloop.client.plan_client import PlanClient
    from tests.product import CommandError

    with staying(folder, PLAN.format(url=models.url)):
        assert chat(folder, f"{WORD}\n", "ann").out == "noted\n"
    room = ChatTarget(PlanClient(plan_paths.find_plan(None, folder.path)), "agent/ann")
    file = str(folder.path / "ann.jsonl")
    assert " turns, " in "".join(slash_commands.dump_agent(room, SlashCommand("dump", (file,), file)))
    room.agent = "agent/."
    assert "agent/bob" in "".join(
        slash_commands.restore_agent(room, SlashCommand("restore", (file, "as", "bob"), file))
    )
    assert "task/bob" in folder.states()
    with pytest.raises(CommandError) as fault:
        list(slash_commands.restore_agent(room, SlashCommand("restore", (file, "as", "bob"), file)))
    assert fault.value.exit == Exit.CONFLICT


FAMILY = """\
plan: demo
goal: two who listen
agent: {tools: [read, list], script: [{when: {message: never}, done: x}]}
tasks:
  ann:
    goal: listen
    agent: {tools: [read], script: [{when: {message: never}, done: x}]}
    hooks:
      careful: {on: [before-call], match: "write(*)", agent: {script: [{when: {message: never}, say: ALLOW}]}}
      plain: {on: [before-call], rule: [{when: {call: "write(*)"}, deny: not here}]}
    tasks:
      kid: {goal: help, agent: {script: [{when: {message: never}, done: x}]}}
      built: {run: "true"}
      build: {run: sleep 60, needs: [built, kid]}
"""


def test_children_and_hooks_are_dumped_into_the_file_and_restored(folder: Folder) -> None:
    with staying(folder, FAMILY):
        assert folder.run("wait", "task/ann/built", "--timeout", "30s").code == 0
        said = chat(folder, "/dump ann.jsonl ann\n/restore ann.jsonl as eve\n", ".").out
        assert said.count("1 descendant agent, 1 command, 2 hooks") == 2, said
        assert {"task/eve/kid", "task/eve/build"} <= set(folder.states())
        assert "task/eve/built" not in folder.states()
        hooks = [one["spec"] for one in folder.json("get", "hooks") if one["spec"]["watches"] == "agent/eve/kid"]
        assert {one["name"] for one in hooks} >= {"careful", "plain"}


def test_talkwith_reaches_the_agent_behind_a_hook_by_the_name_of_the_hook(folder: Folder) -> None:
    with staying(folder, FAMILY):
        for name in ("careful", "hook/ann/careful", "~careful"):
            said = chat(folder, f"/talkwith {name}\n", "ann")
            assert "agent/ann/~careful" in said.out, said
        plain = chat(folder, "/talkwith plain\n/talkwith hook/ann/carefull\n", "ann").err
        assert "hook/ann/plain" in plain and "hook/ann/careful" in plain and plain.count("help: ") == 2
