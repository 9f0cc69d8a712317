"""`plan bench validate`: errors in a suite are reported with their location."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import anyio
import pytest

from planloop.containers.engine.docker_engine import DockerEngine
from tests import golden_text, needs
from tests.containers.images.stocked import stocked
from tests.e2e.folder import Folder

FILES = "tools: [read, list, write]"
SOUND = """\
suite: notes
cases:
  greeting:
    prompts: ["write {{nonce.word}} into greeting.txt"]
    TOOLS
    checks:
      there: {require-file: greeting.txt}
      right: {contains: {path: greeting.txt, text: "{{nonce.word}}"}}
    proof:
      oracles:
        plain: {files: {greeting.txt: "{{nonce.word}}"}, says: Done.}
        lined: {files: {greeting.txt: "{{nonce.word}}\\n"}, says: It is there.}
        polite: {files: {greeting.txt: "Dear all, {{nonce.word}}!\\n"}}
      mutants:
        other-word: {files: {greeting.txt: hello}, kills: right}
        other-file: {files: {greetings.txt: "{{nonce.word}}"}, kills: there}
"""
UNSOUND = """\
suite: notes
cases:
  anything:
    prompts: [write hello into a.txt]
    TOOLS
    checks:
      loose: {sh: "true"}
      narrow: {sh: "! test -e a.txt || grep -qx hello a.txt"}
    proof:
      oracles: {plain: {files: {a.txt: hello}}, loud: {files: {a.txt: HELLO}}}
      mutants:
        empty: {files: {a.txt: ""}, kills: loose}
        elsewhere: {files: {b.txt: hello}, kills: narrow}
"""


def suite(folder: Folder, text: str, tools: str = FILES) -> None:
    folder.write("notes.yaml", text.replace("TOOLS", tools))


@pytest.mark.process
@pytest.mark.timeout(120)
def test_valid_suite_is_recorded_as_valid_by_its_runs_until_it_is_edited(folder: Folder) -> None:
    suite(folder, SOUND)
    ran = [folder.run("bench", "run", "notes.yaml", "--model", "oracle", "--name", "before")]
    said = folder.run("bench", "validate", "notes.yaml")
    ran.append(folder.run("bench", "run", "notes.yaml", "--model", "oracle", "--name", "after"))
    suite(folder, SOUND.replace("there: {require", "here: {require").replace("kills: there", "kills: here"))
    ran.append(folder.run("bench", "run", "notes.yaml", "--model", "oracle", "--name", "edited"))

    assert said.code == 0, said.text
    golden_text.said_in(said.out)
    assert "  3 oracles pass\n" in said.out and "  nop fails\n" in said.out
    assert ["not validated" in one.text for one in ran] == [True, False, True]
    summaries = [folder.path / "reports" / "notes" / name / "summary.json" for name in ("before", "after", "edited")]
    assert [json.loads(path.read_text())["validated"] for path in summaries] == [None, True, None]
    assert "validation" not in folder.run("bench", "report").out


@pytest.mark.process
@pytest.mark.needs("bubblewrap")
def test_errors_of_a_suite_are_reported_with_place_and_fix(folder: Folder) -> None:
    suite(folder, UNSOUND)

    said = folder.run("bench", "validate", "notes.yaml")

    assert said.code == 1
    lines = sorted(set(re.findall(r"notes\.yaml:(\d+):\d+: (?:error|warning)\[(P\d+)\]: `anything`", said.err)))
    assert lines == [("10", "P0501"), ("10", "P0507"), ("12", "P0503"), ("13", "P0502"), ("3", "P0505"), ("7", "P0506"),
                     ("9", "P0504")]  # fmt: skip
    assert said.err.count("  help: ") == said.err.count("[P05")
    golden_text.said_in(said.out)
    after = folder.run("bench", "run", "notes.yaml", "--model", "nop")
    assert "invalid suite" in after.text


@pytest.mark.process
def test_programs_get_the_same_as_one_document(folder: Folder) -> None:
    suite(folder, SOUND)

    said = folder.run("bench", "validate", "notes.yaml", "-o", "json", "--reports", "elsewhere")

    (found,) = json.loads(said.out)["suites"]
    proofs = {proof["name"]: proof for proof in found["cases"]["greeting"]["proofs"]}
    assert said.code == 0 and found["valid"] and found["error_count"] == 0
    assert proofs["mutant:other-word"]["verdict"] == "fail" and proofs["mutant:other-word"]["failed"] == ["right"]
    assert {name for name, proof in proofs.items() if proof["verdict"] == "pass"} == {
        "oracle:plain",
        "oracle:lined",
        "oracle:polite",
    }
    assert (folder.path / found["run"] / "events.jsonl").is_file() and found["run"].startswith("elsewhere/")


@pytest.mark.process
@pytest.mark.timeout(120)
def test_a_suite_can_be_validated_again_and_case_by_case(folder: Folder) -> None:
    suite(folder, SOUND)
    first = folder.run("bench", "validate", "notes.yaml")
    again = folder.run("bench", "validate", "notes.yaml", "--cases", "greet*")
    none = folder.run("bench", "validate", "notes.yaml", "--cases", "no-such")
    nobody = folder.run("bench", "validate")
    taken = folder.run("bench", "run", "notes.yaml", "--model", "nop", "--name", "validation")

    assert first.out == again.out
    assert none.code == 2
    golden_text.said_in(none.err, "no-such")
    assert taken.code == 2
    golden_text.said_in(taken.err)
    assert nobody.code == 2 and "--all" in nobody.err


@pytest.mark.process
def test_cheats_with_a_shell_find_nothing_leave_nothing_and_forge_nothing(folder: Folder) -> None:
    needs.bubblewrap()
    suite(folder, SOUND, "tools: [read, list, write, shell]")

    said = folder.run("bench", "validate", "notes.yaml", "-o", "json")

    (found,) = json.loads(said.out)["suites"]
    proofs = {proof["name"]: proof for proof in found["cases"]["greeting"]["proofs"]}
    cheats = {name.partition(":")[2]: proof["verdict"] for name, proof in proofs.items() if name.startswith("cheat:")}
    assert cheats == dict.fromkeys(
        (
            "printed-pass",
            "only-claimed",
            "hard-coded",
            "forged-verdict",
            "patched-runner",
            "surviving-writer",
            "peeking",
        ),
        "fail",
    )
    assert said.code == 0, said.text
    run = folder.path / "reports" / "notes" / "validation"
    assert not still_there(run)
    graded = run / "graded" / "greeting--cheat-forged-verdict--1"
    assert not (graded / "root").exists() and not (graded / "up").exists()
    assert json.loads((run / "plan.json").read_text())["suite"] == "notes"


@pytest.mark.process
def test_program_of_an_agent_finds_no_answer_when_a_check_runs_it(folder: Folder) -> None:
    needs.bubblewrap()
    spy = "cat ../../*.json ../../*.yaml ../*/* /proc/*/cwd/../../plan.json; rm -r ../../events.jsonl ../*; echo"
    folder.write("spy.yaml", json.dumps({"*": [{"call": {"write": {"path": "say", "content": spy}}}, {"done": "ok"}]}))
    checks = 'said: {sh: "sh ./say 2>/dev/null | grep -q {{nonce.word}}"}'
    oracle = 'proof: {oracles: {plain: {files: {say: "echo {{nonce.word}}"}}}}'
    prompts = 'prompts: ["write {{nonce.word}}"]'
    folder.write(
        "says.yaml",
        f"suite: says\ncases:\n  one:\n    {prompts}\n    {FILES}\n    checks: {{{checks}}}\n    {oracle}\n",
    )

    said = folder.run("bench", "run", "says.yaml", "--model", "script:spy.yaml", "--model", "oracle", "--name", "r")

    cases = json.loads((folder.path / "reports" / "says" / "r" / "summary.json").read_text())["cases"]
    verdicts = {model: trials["1"]["verdict"] for model, trials in cases["one"]["models"].items()}
    assert said.code == 0 and verdicts == {"spy": "fail", "oracle": "pass"}, said.text


def still_there(run: Path) -> list[str]:
    """Processes that work below the folder of a run."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if str(run) in line and "ps -eo" not in line]


@pytest.mark.engine
@pytest.mark.timeout(240)
def test_in_a_container_cheats_score_nothing_either(
    folder: Folder, engine: DockerEngine, apt: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    anyio.run(stocked, "shell", engine, tmp_path_factory)
    suite(folder, SOUND, "image: planloop/shell")

    said = folder.run("bench", "validate", "notes.yaml")

    assert said.code == 0 and "  7 cheats fail\n" in said.out, said.text
