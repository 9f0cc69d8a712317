"""A secret's value is in no file of the plan and in no output, even if a command in a container prints it.

Law: one container gets the secret from each source that a plan can name, and prints it in every possible way.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e import command
from tests.e2e.container_harness import IMAGE, ContainerHarness
from tests.e2e.folder import Folder

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

SECRETS = {
    "secret:P_KEPT": "kept-beside-the-plan\nin-two-lines",
    "secret:P_GIVEN": "given-by-the-variable",
    "env:P_NAMED": 'named "as" a variable',
    "file:hush.txt": "hush-it-is-in-a-file",
}
VARIABLES = dict(zip("ABCD", SECRETS, strict=True))
SAYS_ALL = "".join(f'echo "{name}=${name}";' for name in VARIABLES)
SAYS_IN_PIECES = f"{SAYS_ALL} printf given-by-; sleep 0.3; printf the-vari; sleep 0.3; echo able; echo said"
ALL, PIECES, LIVES, ILL = (
    json.dumps(line)
    for line in (SAYS_ALL, SAYS_IN_PIECES, f"{SAYS_IN_PIECES}; exec sleep 600", f"{SAYS_ALL} test -e /tmp/never")
)

PLAN = f"""\
plan: p
rights: {{tools: [all]}}
containers:
  sut:
    image: {IMAGE}
    cmd: [sh, -c, {LIVES}]
    env: {json.dumps(VARIABLES)}
  ill:
    image: {IMAGE}
    env: {json.dumps(VARIABLES)}
    health: {{cmd: [sh, -c, {ILL}], interval: 100ms, retries: 1, start-period: 0s}}
  ends:
    image: {IMAGE}
    cmd: [sh, -c, 'echo "no: $D"; exit 3']
    env: {{D: {VARIABLES["D"]}}}
tasks:
  waits: {{run: "until test -e door; do sleep 0.05; done", effect: read}}
  works:
    goal: look around
    needs: [waits]
    containers: [sut]
    acceptance:
      - run-in: {{container: sut, sh: {ALL}}}
    agent:
      tools: [lib:containers, lib:code]
      script:
        - call: {{container_exec: {{name: sut, command: {ALL}}}}}
        - expect: {{ok: true, contains: "A=•••", not: hush}}
        - call: {{container_exec: {{name: sut, command: {PIECES}}}}}
        - expect: {{ok: true, contains: "•••\\nsaid", not: vari}}
        - call: {{container_logs: {{name: sut}}}}
        - expect: {{ok: true, contains: "D=•••", not: given}}
        - done: seen
  enclosed:
    needs: [works]
    containers: [sut]
    goal: look around from inside
    agent:
      tools: [lib:code]
      sandbox: {{container: sut}}
      script:
        - call: {{shell: {{command: {ALL}}}}}
        - expect: {{ok: true, contains: "C=•••", not: hush}}
        - done: seen
"""


@pytest.fixture
def told(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """The secrets are where the plan says."""
    monkeypatch.setenv("P_GIVEN", SECRETS["secret:P_GIVEN"])
    monkeypatch.setenv("P_NAMED", SECRETS["env:P_NAMED"])
    (folder.path / ".plan/secrets").mkdir(parents=True)
    folder.write(".plan/secrets/P_KEPT", SECRETS["secret:P_KEPT"])
    folder.write("hush.txt", SECRETS["file:hush.txt"] + "\n")
    yield folder


def words_in(text: str) -> list[str]:
    """The secrets that `text` has."""
    return [secret for secret in SECRETS.values() if secret in text]


def are_in_files(folder: Folder) -> dict[str, list[str]]:
    files = [path for path in (folder.path / ".plan").rglob("*") if path.is_file() and path.parent.name != "secrets"]
    texts = {str(path): path.read_bytes().decode(errors="replace") for path in files}
    return {path: found for path, text in texts.items() if (found := words_in(text))}


SAID = [
    ("describe", "container/sut"),
    ("describe", "container/ends"),
    ("describe", "container/ill"),
    ("describe", "task/works"),
    ("logs", "container/sut"),
    ("logs", "container/ends"),
    ("logs", "task/works"),
    ("logs", "task/enclosed"),
    ("logs", "agent/works"),
    ("logs", "task/works", "--check", "0"),
    ("get", "all", "-o", "json"),
    ("get", "containers", "-o", "yaml"),
    ("events",),
    ("history",),
    ("tree",),
    ("diff", "p.plan.yaml"),
    ("compile", "p.plan.yaml"),
    ("compile", "--target", "compose", "p.plan.yaml"),
    ("replay", "--tree"),
]


def test_law_secret_is_in_no_file_of_the_plan_and_in_no_output(harness: ContainerHarness, told: Folder) -> None:
    folder = told
    # `waits` looks for a file: what is written to a pipe an orphan of the killed owner could take from its successor.
    folder.write("p.plan.yaml", PLAN)
    with folder.started("--yes", "p.plan.yaml") as owner:
        owner.until(r"running +plan/p")
        harness.until_states(sut="running", ill="unhealthy", ends="failed")
        labels = harness.inspect("sut")["Config"]["Labels"]
        assert words_in(str(labels)) == []
        assert words_in(str(harness.inspect("sut")["Config"]["Env"])), "it does know them"
        with command.start("logs", "container/sut", "-f", cwd=folder.path, stdout=subprocess.PIPE) as following:
            assert following.stdout is not None
            heard = []
            for line in following.stdout:
                heard.append(line)
                if line == "said\n":
                    break
            following.terminate()
        assert words_in("".join(heard)) == [] and heard.count("•••\n") == 1, heard
        owner.process.kill()
        owner.process.wait()
        unowned = folder.run("logs", "container/sut")
        assert unowned.out == "".join(heard), "without an owner the engine is asked"
    assert are_in_files(folder) == {}

    with folder.started("--yes", "p.plan.yaml") as owner:
        harness.until(bool)
        (folder.path / "door").write_text("")
        code = owner.ended()

    assert words_in(owner.text) == []
    assert are_in_files(folder) == {}
    said = {words: folder.run(*words) for words in SAID}
    assert {words: found for words, one in said.items() if (found := words_in(one.text))} == {}
    assert {words: one.text for words, one in said.items() if one.code != 0} == {}, owner.text
    assert code == 0, owner.text
    assert "•••" in said["logs", "task/enclosed"].out
    assert "•••" in said["logs", "agent/works"].out
    assert "no: •••" in said["describe", "container/ends"].out
    assert harness.left() == []
