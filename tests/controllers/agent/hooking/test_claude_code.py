"""Scripts in the style of Claude Code's hooks run unchanged: Python and shell, by exit code and by JSON."""

from __future__ import annotations

import json
import stat
import textwrap
from pathlib import Path

import pytest

from planloop.controllers.agent.hooks import claude_code, programs
from planloop.schemas.objects.hook import HookVerdict
from tests import rows
from tests.controllers.agent.arena import arena
from tests.controllers.agent.hooking.test_verdicts import run, verdicts
from tests.fakes.scripted_models import ScriptedModels

pytestmark = pytest.mark.anyio

VALIDATOR = """
    #!/usr/bin/env python3
    import json
    import re
    import sys

    RULES = [(r"\\bgrep\\b(?!.*\\|)", "use rg instead of grep"), (r"\\brm\\s+-rf\\b", "never delete recursively")]

    try:
        data = json.load(sys.stdin)
    except json.JSONDecodeError as e:
        print(f"Error: {e}", file=sys.stderr)
        sys.exit(1)
    if data.get("tool_name") != "Bash":
        sys.exit(0)
    command = data.get("tool_input", {}).get("command", "")
    issues = [message for pattern, message in RULES if re.search(pattern, command)]
    if issues:
        for message in issues:
            print(f"* {message}", file=sys.stderr)
        sys.exit(2)
"""

PROTECTED = r"""
    #!/bin/bash
    INPUT=$(cat)
    FILE=$(echo "$INPUT" | sed -n 's/.*"file_path":"\([^"]*\)".*/\1/p')
    case "$FILE" in
      "$CLAUDE_PROJECT_DIR"/secrets/*)
        cat <<JSON
    {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
      "permissionDecisionReason": "secrets are not for you"}}
    JSON
        ;;
    esac
    exit 0
"""

SAFER = """
    #!/usr/bin/env python3
    import json, sys
    data = json.load(sys.stdin)
    if data["tool_input"]["command"].startswith("echo unsafe"):
        updated = {**data["tool_input"], "command": "echo safe"}
        print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow",
                                                 "updatedInput": updated, "additionalContext": "made it safe"}}))
"""

REVIEWER = """
    #!/usr/bin/env python3
    import json, sys
    data = json.load(sys.stdin)
    path = data["tool_response"]["filePath"]
    assert path == data["tool_input"]["file_path"] and path.startswith("/")
    if "DRAFT" in open(path).read():
        print(json.dumps({"decision": "block", "reason": f"a DRAFT is left in {path.rsplit('/', 1)[1]}"}))
"""

KEEPER = """
    #!/usr/bin/env python3
    import json, sys
    data = json.load(sys.stdin)
    if data["hook_event_name"] != "Stop" or data["stop_hook_active"]:
        sys.exit(0)
    print("run the tests before you stop", file=sys.stderr)
    sys.exit(2)
"""

GREETER = r"""
    #!/usr/bin/env bash
    set -euo pipefail
    prompt=$(python3 -c 'import json,sys; print(json.load(sys.stdin)["prompt"])')
    echo "Project rules apply to: $prompt"
"""


def script(folder: Path, name: str, text: str) -> None:
    path = folder / ".claude" / "hooks" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text).lstrip("\n"))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def plan(on: str, name: str, steps: str, match: str = "") -> str:
    run_line = f'"$CLAUDE_PROJECT_DIR"/.claude/hooks/{name}'
    matched = f"\n    match: '{match}'" if match else ""
    head = f"goal: g\nhooks:\n  theirs:\n    on: [{on}]\n    contract: claude-code\n    run: '{run_line}'{matched}\n"
    return f"{head}agent:\n  script:\n" + textwrap.indent(textwrap.dedent(steps).strip("\n"), "    ") + "\n"


async def test_exit_2_blocks_with_what_the_script_complained_of(tmp_path: Path) -> None:
    script(tmp_path, "validate.py", VALIDATOR)
    steps = """
        - call: {shell: {command: "grep x file"}}
        - expect: {error: Denied, contains: "use rg instead of grep"}
        - call: {shell: {command: "echo fine"}}
        - expect: ok
        - call: {write: {path: a.txt, content: grep}}
        - expect: ok
        - done: ok
    """
    async with arena(tmp_path) as here:
        assert await run(here, plan("before-call", "validate.py", steps, "Bash")) == "done"
        asked = verdicts(await here.log())
    assert [one["tool"] for one in asked] == ["shell", "shell"]


async def test_a_permission_decision_on_stdout_denies_a_write_into_a_folder(tmp_path: Path) -> None:
    script(tmp_path, "protect.sh", PROTECTED)
    steps = """
        - call: {write: {path: secrets/key, content: x}}
        - expect: {error: Denied, contains: "secrets are not for you"}
        - call: {write: {path: public.txt, content: x}}
        - expect: ok
        - done: ok
    """
    async with arena(tmp_path) as here:
        assert await run(here, plan("before-call", "protect.sh", steps, "Write|Edit")) == "done"


async def test_updated_input_becomes_the_arguments_and_the_context_a_comment(tmp_path: Path) -> None:
    script(tmp_path, "safer.py", SAFER)
    steps = """
        - call: {shell: {command: "echo unsafe"}}
        - expect: {contains: "made it safe"}
        - expect: {not: "unsafe\\n"}
        - done: ok
    """
    async with arena(tmp_path) as here:
        assert await run(here, plan("before-call", "safer.py", steps, "Bash")) == "done"
        (result,) = await here.results("shell")
    assert result["text"] == "safe\n"


async def test_block_after_a_call_becomes_a_comment(tmp_path: Path) -> None:
    script(tmp_path, "review.py", REVIEWER)
    steps = """
        - call: {write: {path: a.py, content: "# DRAFT"}}
        - expect: {ok: true, contains: "a DRAFT is left in a.py"}
        - done: ok
    """
    async with arena(tmp_path) as here:
        assert await run(here, plan("after-call", "review.py", steps, "Write")) == "done"


async def test_a_stop_hook_sends_the_answer_back_once(tmp_path: Path) -> None:
    script(tmp_path, "keep.py", KEEPER)
    text = plan("before-reply", "keep.py", "- done: ok").partition("agent:")[0] + "agent: {model: test/m, tools: []}\n"
    models = ScriptedModels([{"reply": {"text": "finished"}}, {"reply": {"text": "tested and finished"}}])
    async with arena(tmp_path, models=models) as here:
        assert await run(here, text) == "done"
        assert here.get("task/.").status["result"]["text"] == "tested and finished"
    assert b"run the tests before you stop" in models.asked[1].messages[-1]


async def test_output_of_a_prompt_hook_reaches_the_model(tmp_path: Path) -> None:
    script(tmp_path, "greet.sh", GREETER)
    text = plan("on-input", "greet.sh", "- done: ok").partition("agent:")[0] + "agent: {model: test/m, tools: []}\n"
    models = ScriptedModels([{"reply": {"text": "finished"}}])
    async with arena(tmp_path, models=models) as here:
        assert await run(here, text) == "done"
    assert b"Project rules apply to: g" in models.asked[0].messages[-1]


READER = """
    #!/usr/bin/env python3
    # Looks for what was said last, as scripts do that watch the tone.
    import json, sys
    with open(json.load(sys.stdin)["transcript_path"]) as file:
        entries = [json.loads(line) for line in file]
    assert {"user", "assistant"} == {entry["type"] for entry in entries}
    blocks = [part for entry in entries for part in entry["message"]["content"] if isinstance(part, dict)]
    used = sorted(part["name"] for part in blocks if part["type"] == "tool_use")
    if [part["text"] for part in blocks if part["type"] == "text"][-1] == "finished":
        print(json.dumps({"decision": "block", "reason": "you used " + ",".join(used)}))
"""


async def test_script_may_read_the_transcript(tmp_path: Path) -> None:
    script(tmp_path, "read.py", READER)
    text = plan("before-reply", "read.py", "- done: ok").partition("agent:")[0]
    text += "agent: {model: test/m, tools: [list, shell]}\n"
    looks = [{"name": "list", "arguments": {}}, {"name": "shell", "arguments": {"command": "true"}}]
    replies = [{"calls": looks}, {"text": "finished"}, {"text": "really finished"}]
    models = ScriptedModels([{"reply": reply} for reply in replies])
    async with arena(tmp_path, models=models) as here:
        assert await run(here, text) == "done"
    assert b"you used Bash,Glob" in models.asked[2].messages[-1]


BROKEN = {
    "exit 1": "exit 1",
    "exit 127": "exit 127",
    "echo partly >&2; kill -9 $$": "exit 137: partly",
    "yes": "it printed more than",
    "yes >&2": "it printed more than",
    "sleep 30": "it gave no verdict within 0.5 s",
}


@pytest.mark.parametrize("text", BROKEN)
async def test_any_other_output_of_a_script_blocks_nothing_and_is_noted(tmp_path: Path, text: str) -> None:
    script(tmp_path, "broken.sh", f"#!/bin/sh\n{text}\n")
    steps = '- call: {shell: {command: "true"}}\n- expect: ok\n- done: ok'
    agent = "    timeout: 0.5\nagent:" if "sleep" in text else "agent:"
    async with arena(tmp_path) as here:
        whole = plan("before-call", "broken.sh", steps, "Bash").replace("agent:", agent)
        assert await run(here, whole) == "done"
        (one,) = verdicts(await here.log())
    assert BROKEN[text] in one["verdict"]["fault"]


ECHO = """
    #!/usr/bin/env python3
    import json, sys
    print("no: " + json.load(sys.stdin)["tool_input"]["content"], file=sys.stderr)
    sys.exit(2)
"""
WRITER = """
    def step(turn):
        if turn["results"]:
            return {"done": turn["results"][0]["result"]["state"]}
        return {"call": {"write": {"path": "a.txt", "content": "%s" * 600_000}}}
"""


@pytest.mark.parametrize("sign", ["x", "é", "\\\\x01"], ids=["plain", "wide", "control"])
async def test_an_objection_counts_however_much_it_says(tmp_path: Path, sign: str) -> None:
    script(tmp_path, "echo.py", ECHO)
    (tmp_path / "mind.py").write_text(textwrap.dedent(WRITER) % sign)
    head = plan("before-call", "echo.py", "", "Write").partition("agent:")[0]
    async with arena(tmp_path) as here:
        assert await run(here, f'{head}agent: {{python: "mind.py:step"}}\n') == "done"
        (one,) = [each for each in verdicts(await here.log()) if each["tool"] == "write"]
    assert one["verdict"]["decision"] == "deny"
    assert not (tmp_path / "a.txt").exists()


async def test_process_left_running_by_a_script_delays_nothing(tmp_path: Path) -> None:
    script(tmp_path, "notify.sh", "#!/bin/sh\nsleep 60 &\necho no >&2\nexit 2\n")
    steps = '- call: {shell: {command: "true"}}\n- expect: {error: Denied}\n- done: ok'
    async with arena(tmp_path) as here:
        assert await run(here, plan("before-call", "notify.sh", steps, "Bash")) == "done"


@pytest.mark.parametrize(
    ("matcher", "tool", "is_asked"),
    [
        ("Write|Edit", "edit", True),
        ("Write", "edit", False),
        ("*", "shell", True),
        ("", "shell", True),
        ("Edit.*|Bash", "shell", True),
        ("write", "write", False),
        ("mcp__github__.*", "github.search", True),
        ("mcp__.*", "shell", False),
        ("^Wri", "write", True),
        ("mcp__.*__write", "fs.write_file", True),
        ("^Bash$", "shell", True),
        ("Edit, Write", "write", True),
        ("mcp__my-fs__x", "my-fs.x", True),
        ("Bas", "shell", False),
        ("Task", "agent:reviewer", True),
        ("Agent|Bash", "task", True),
    ],
)
def test_matchers_are_those_of_settings_json(matcher: str, tool: str, is_asked: bool) -> None:
    assert claude_code.claude_matches(matcher, tool) is is_asked


@pytest.mark.parametrize(
    ("tool", "ours", "theirs"),
    [
        ("write", {"path": "a/b", "content": "x"}, {"file_path": "/w/a/b", "content": "x"}),
        ("edit", {"path": "a", "old": "x", "new": "y", "every": True}, None),
        ("read", {"path": "a", "first": 2, "lines": 5}, {"file_path": "/w/a", "offset": 2, "limit": 5}),
        ("shell", {"command": "ls", "timeout_s": 2.0}, {"command": "ls", "timeout": 2000.0}),
        ("search", {"text": "x", "path": "src"}, {"pattern": "x", "path": "/w/src"}),
        ("github.search", {"q": "x"}, {"q": "x"}),
    ],
)
def test_arguments_are_translated_there_and_back(
    tool: str, ours: dict[str, object], theirs: dict[str, object] | None
) -> None:
    given = claude_code.claude_arguments(tool, ours, "/w")

    assert theirs is None or given == theirs
    assert claude_code.own_arguments(tool, given, "/w") == ours


ASKED = {
    "hook_event_name": "before-call",
    "agent": "agent/.",
    "cwd": "/w",
    "turn": 1,
    "sent_back": 0,
    "tool_name": "shell",
    "tool_input": {"command": "ls"},
    "tool_use_id": "call/1",
}
OWN = {"hookEventName": "PreToolUse"}


def ran(code: int = 0, out: object = "", err: str = "") -> bytes:
    said = out if isinstance(out, str) else json.dumps(out)
    return json.dumps({"code": code, "out": said, "err": err}).encode()


@rows.each(
    ("output", "verdict"),
    [
        (ran(), HookVerdict()),
        (ran(out="some words"), HookVerdict()),
        (ran(2, out="{}", err="no\n"), HookVerdict("deny", "no")),
        (ran(2), HookVerdict("deny", "no reason given")),
        (ran(out={"decision": "approve", "reason": "fine"}), HookVerdict("allow", "fine")),
        (ran(out={"decision": "block", "reason": "bad"}), HookVerdict("deny", "bad")),
        (ran(out={"continue": False, "stopReason": "enough"}), HookVerdict("deny", "enough")),
        (ran(out={"systemMessage": "careful"}), HookVerdict(comment="careful")),
        (ran(out={"hookSpecificOutput": {**OWN, "permissionDecision": "ask"}}), HookVerdict("ask")),
        (
            ran(out={"hookSpecificOutput": {**OWN, "permissionDecision": "allow", "updatedInput": {"command": "id"}}}),
            HookVerdict(arguments={"command": "id"}),
        ),
        (
            ran(out={"hookSpecificOutput": {**OWN, "permissionDecision": "deny", "updatedInput": {"command": "id"}}}),
            HookVerdict("deny"),
        ),
        (
            ran(out={"hookSpecificOutput": {**OWN, "permissionDecision": "Deny"}}),
            HookVerdict(fault="`permissionDecision` must be one of allow, deny, ask, defer, not Deny"),
        ),
        (
            ran(out={"decision": "no"}),
            HookVerdict(fault="`decision` must be one of approve, block, allow, deny, not no"),
        ),
        (ran(out={"continue": 0}), HookVerdict(fault="`continue` must be true or false, not 0")),
        (
            ran(out={"hookSpecificOutput": {**OWN, "updatedInput": ["id"]}}),
            HookVerdict(fault="`updatedInput` must be a map"),
        ),
        (ran(out='{"decision": "block",}'), HookVerdict(fault='its answer is not a JSON map: {"decision": "block",}')),
        (ran(out={"decision": "block", "continue": "no"}), HookVerdict("deny", "no reason given")),
        (ran(-9), HookVerdict(fault="killed by SIGKILL")),
        (b'{"fault": "x: gone"}', HookVerdict(fault="x: gone")),
        (b"nonsense", HookVerdict(fault="its output cannot be parsed")),
        (ran(1, err="Traceback"), HookVerdict(fault="exit 1: Traceback")),
    ],
)
def test_answers_of_that_contract_as_verdicts(output: bytes, verdict: HookVerdict) -> None:
    assert claude_code.claude_verdict(ASKED, output) == verdict


def test_each_agent_has_its_own_transcript_with_a_readable_name(tmp_path: Path) -> None:
    agents = {"agent/.": "agent", "agent/a-b": "agent/a-b", "agent/a/b": "agent/a/b", "agent/v1.2": "agent/v1.2"}
    folder = tmp_path / ".plan/p/transcripts"
    assert {one: programs.transcript_path(tmp_path, "plan/p", one) for one in agents} == {
        one: folder / f"{name}.jsonl" for one, name in agents.items()
    }


@pytest.mark.parametrize("point", claude_code.CLAUDE_EVENTS)
def test_every_point_is_an_event_with_its_own_members(point: str) -> None:
    asked = {**ASKED, "hook_event_name": point, "prompt": "p", "reply": "r"}
    told = claude_code.claude_question(asked, "/w")

    assert {"session_id", "transcript_path", "cwd", "hook_event_name"} <= told.keys()
    members = {"PreToolUse": "tool_input", "UserPromptSubmit": "prompt", "Stop": "stop_hook_active"}
    assert members.get(str(told["hook_event_name"]), "cwd") in told
