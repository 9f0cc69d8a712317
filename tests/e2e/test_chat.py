"""`plan chat` and `plan send --ask`: questions get answers, with any kind of owner."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests import golden_text
from tests.e2e import command
from tests.e2e.folder import Folder, Said
from tests.e2e.test_terminal import terminal
from tests.product import CommandExit as Exit
from tests.servers import EVERYTHING

PLAN = """\
plan: demo
goal: an agent that answers
agent:
  tools: [all]
  script:
    - say: I am here.
    - when: {message: far}
      call: {write: {path: answer.txt, content: "half"}}
    - say: half of it is done
    - when: {message: finish}
      done: all of it
"""
GROUP = """\
plan: demo
goal: two of them
tasks:
  left: {goal: l, agent: {script: [{when: {message: end}, done: the left half}]}}
  right: {goal: r, agent: {script: [{when: {message: end}, done: the right half}]}}
"""


@contextmanager
def staying(folder: Folder, text: str) -> Iterator[None]:
    """The plan in the background, for as long as the block lasts."""
    with folder.owned("demo.plan.yaml", text):
        yield


def chat(folder: Folder, text: str, *words: str) -> Said:
    done = command.run("chat", *words, cwd=folder.path, input=text, timeout_s=50)
    assert "Traceback" not in done.stderr, done.stderr
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.mark.process
def test_a_line_from_a_pipe_is_a_question_and_its_answer_goes_to_stdout(folder: Folder) -> None:
    with staying(folder, PLAN):
        said = chat(folder, "how far are you?\n")
        assert (said.code, said.out) == (0, "half of it is done\n"), said
        assert "write('answer.txt'" in said.err, "what it does meanwhile"
        assert (folder.path / "answer.txt").read_text() == "half"
        said = chat(folder, "finish now\nand after that?\n")
        assert said.out.splitlines()[0] == "all of it"
        assert len(said.out.splitlines()) == 2, "an agent whose task is over can be asked"


@pytest.mark.process
def test_asking_waits_for_every_answer_and_names_agents_that_were_too_late(folder: Folder) -> None:
    with staying(folder, GROUP):
        late = folder.run("send", "left", "hello?", "--ask", "--timeout", "0.5s")
        assert late.code == Exit.TIMEOUT
        assert "agent/left" in late.err
        said = folder.run("send", "left", "right", "end", "--ask")
        assert said.code == 0, said.err
        golden_text.said(said.out, "agent/left", "agent/right")
        found = folder.json("send", "left", "and now?", "--ask")
        assert [one["agent"] for one in found["answers"]] == ["agent/left"]


@pytest.mark.process
def test_message_that_one_receiver_cannot_get_is_sent_to_none(folder: Folder) -> None:
    with staying(folder, GROUP):
        said = folder.run("send", "left", "nobody", "hello")
        assert said.code == Exit.NOT_FOUND
        assert "NoSuchAgent" in said.err
        assert "hello" not in folder.run("events", "--type", "message.sent", "-o", "json").out
        assert folder.run("send", "left").code == Exit.USAGE
        assert folder.run("send", "left", "").code == Exit.USAGE


@pytest.mark.process
def test_delivery_of_a_message_is_in_its_envelope(folder: Folder) -> None:
    with staying(folder, GROUP):
        words = ("--delivery", "steer", "--expires", "10m", "--key", "k", "--untrusted")
        assert folder.run("send", "left", "hello", *words).code == 0
        again = folder.run("send", "left", "hello again", *words)
        golden_text.said_in(again.out)
        lines = folder.run("events", "--type", "message.sent", "-o", "json").out.splitlines()
        message = json.loads(lines[0])["data"]["message"]
        assert (message["delivery"], message["trust"], message["idempotency"]) == ("steer", "untrusted", "k")
        assert message["expires_at"] == pytest.approx(message["sent_at"] + 600)


@pytest.mark.process
def test_group_at_the_root_names_the_agents_to_talk_with(folder: Folder) -> None:
    with staying(folder, GROUP):
        said = chat(folder, "hello\n")
        assert said.code == Exit.USAGE
        golden_text.said_in(said.err)
        said = chat(folder, "hello\n", "lef")
        assert said.code == Exit.NOT_FOUND
        assert "left" in said.err
        golden_text.said(chat(folder, "/talkwith right\nend\n", "left").out, "agent/right")


@pytest.mark.process
def test_plan_without_an_owner_cannot_answer_and_names_the_command(folder: Folder) -> None:
    folder.write("demo.plan.yaml", PLAN)
    with folder.started("demo.plan.yaml") as owner:
        owner.until("running")
    for said in (chat(folder, "hello\n"), folder.run("send", ".", "hello", "--ask")):
        assert said.code == Exit.NOT_FOUND
        golden_text.said_in(said.err)


@pytest.mark.process
def test_every_command_answers_and_a_typo_gets_a_suggestion(folder: Folder) -> None:
    with staying(folder, PLAN):
        out = chat(folder, "/help\n/agents\n/plan\n/diff\n/why goal\n/budget\n/hooks\n/logs\n").out
        for words in (
            "/talkwith AGENT",
            "/decompose TEXT",
            "* .",
            "demo  running",
            "already matches the live plan",
            "human:file",
            "no hooks",
        ):
            assert words in out, (words, out)
        assert re.search(r"turn 1: start\n +I am here\.", out), out
        said = chat(
            folder, "/agnets\n/xyzzy\n/patch\n/patch notes 'be quick'\n/patch nowhere/x 1\n/approve\n/quit\nno\n"
        )
        golden_text.said_in(said.err)
        assert "/help lists" in said.err
        golden_text.said_in(said.err)
        assert "patched, rev" in said.out
        assert "no pending approvals" in said.err
        assert said.code == 0
        assert folder.json("get", "task/.")["spec"]["notes"] == "be quick"


@pytest.mark.process
def test_pending_approval_is_shown_and_can_be_answered(folder: Folder) -> None:
    text = PLAN.replace("plan: demo\n", 'plan: demo\napprove: ["write(*)"]\n')
    with staying(folder, text):
        asked = command.start("send", ".", "how far?", "--ask", cwd=folder.path, stdout=subprocess.PIPE)
        with folder_waits(folder):
            said = chat(folder, "/approve\n")
        assert "approved" in said.out, said
        assert "asks for approval" in said.err
        assert asked.communicate(timeout=50)[0] == "half of it is done\n"


@pytest.mark.process
@pytest.mark.parametrize(
    ("written", "out", "code"),
    [
        ("/approve\nfinish\n", ["half of it is done", "all of it"], 0),
        ("finish\n/approve\n", ["half of it is done", "all of it"], 0),
        ("/reject\n", [], 1),
        ("/quit\n", [], 1),
    ],
    ids=["a yes", "a question before the yes", "a no", "leaving"],
)
def test_a_pipe_can_answer_what_its_own_question_waits_for(
    folder: Folder, written: str, out: list[str], code: int
) -> None:
    with staying(folder, PLAN.replace("plan: demo\n", 'plan: demo\napprove: ["write(*)"]\n')):
        said = chat(folder, f"how far?\n{written}")
        told = [line for line in said.out.splitlines() if not line.startswith("approval/")]
        assert (told, said.code) == (out, code), said
        golden_text.said_in(said.err)


@contextmanager
def folder_waits(folder: Folder) -> Iterator[None]:
    """Goes on once something waits for a yes."""
    watch = command.start("events", "-w", "-n", "0", cwd=folder.path, stdout=subprocess.PIPE)
    assert watch.stdout is not None
    if not folder.json("get", "approvals"):
        for _ in watch.stdout:
            if folder.json("get", "approvals"):
                break
    watch.kill()
    watch.communicate()
    yield


@pytest.mark.process
def test_terminal_shows_a_prompt_and_ctrl_c_leaves_everything_running(folder: Folder) -> None:
    with staying(folder, PLAN):
        with terminal(folder, "chat") as chat:
            chat.until("demo > ")
            chat.press("how far are you?\n")
            chat.until("half of it is done")
            chat.until("done\r\ndemo > ")
            chat.press_until("\x03", "keeps running: plan chat")
            assert chat.ended() == Exit.CANCELLED
        assert folder.states() == {"task/.": "running"}
        assert "how far" in (folder.path / ".plan" / "demo" / "chat.history").read_text()


SLOW = PLAN.replace('{write: {path: answer.txt, content: "half"}}', "{shell: {command: sleep 60}}")


@pytest.mark.process
def test_commands_run_on_a_terminal_during_an_answer_and_words_wait_for_it(folder: Folder) -> None:
    with staying(folder, SLOW), terminal(folder, "chat") as chat:
        chat.until("demo > ")
        chat.press("how far?\n")
        chat.until("shell('sleep 60')")
        chat.press("/agents\n")
        chat.until("* . ")
        chat.press("finish now\n")
        chat.until("queued: it is sent after this answer")
        folder.run("cancel", "task/.")
        chat.until("(Cancelled) its task is cancelled\r\ndemo > ")
        chat.press("/quit\n")
        assert chat.ended() == 0


@pytest.mark.process
def test_output_during_typing_is_shown_immediately_and_the_line_stays(folder: Folder) -> None:
    text = PLAN.replace("plan: demo\n", 'plan: demo\napprove: ["write(*)"]\n')
    with staying(folder, text), terminal(folder, "chat") as live:
        live.until("demo > ")
        live.press("/app")
        live.until("demo > /app")
        assert folder.run("send", ".", "how far?").code == 0
        live.until("asks for approval: write(")
        live.until("/reject ")
        live.until("\ndemo > /app")
        live.press("rove\n")
        live.until(" approved\r\ndemo > ")
        live.press("/quit\n")
        assert live.ended() == 0


SERVED = """\
plan: demo
goal: an agent with a server of tools
mcp: {{everything: {{command: [{command}]}}}}
agent:
  tools: [everything]
  script:
    - call: {{everything.get-sum: {{a: 40, b: 2}}}}
    - when: {{message: are you there}}
      say: the server is
    - when: {{message: "weather in Oslo"}}
      say: it rains in Oslo
    - when: {{message: "simple prompt"}}
      say: it is a simple one
    - {{when: {{message: never}}, done: x}}
"""


@pytest.mark.process
@pytest.mark.timeout(120)
def test_prompts_of_tool_servers_are_commands_and_what_they_say_is_a_question(folder: Folder) -> None:
    with staying(folder, SERVED.format(command=", ".join(EVERYTHING))):
        assert chat(folder, "are you there?\n").out == "the server is\n"
        out = chat(folder, "/help\n").out
        assert "/everything.simple-prompt " in out, out
        golden_text.said_in(out)
        said = chat(folder, "/everything.args-prompt city=Oslo\n/everything.simple-prompt\n")
        assert said.out == "it rains in Oslo\nit is a simple one\n", said
        said = chat(folder, "/everything.args-prompt\n/everything.args-prompt town=x\n/everything.nothing\n")
        assert "requires city" in said.err and "city=…" in said.err
        golden_text.said_in(said.err, "town")
        golden_text.said_in(said.err)
        with terminal(folder, "chat") as live:
            live.until("demo > ")
            live.press("/everything.arg\t")
            live.until("/everything.args-prompt")
