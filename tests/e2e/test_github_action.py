"""The GitHub Action: its script with a real `plan`, against an HTTP server that keeps comments as GitHub does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from planloop.client import process

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".github/action/run.py"
PLAN = "plan: p\ntasks:\n  a: {run: echo hello > a.txt}\n"
INVALID = "plan: q\ntasks:\n  a: {runn: echo}\n"


class Comments(ThreadingHTTPServer):
    """The part of GitHub's API that writes comments of pull request 7 in the repository `o/r`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: list[str] = []
        self.tokens: set[str | None] = set()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Comments

    def do_GET(self) -> None:
        first = int(self.path.rpartition("page=")[2]) == 1
        self._answer([self._comment(at) for at in range(len(self.server.bodies)) if first])

    def do_POST(self) -> None:
        assert self.path == "/repos/o/r/issues/7/comments"
        self.server.bodies.append(self._sent())
        self._answer({})

    def do_PATCH(self) -> None:
        at = int(self.path.removeprefix("/repos/o/r/issues/comments/"))
        self.server.bodies[at] = self._sent()
        self._answer({})

    def _comment(self, at: int) -> dict[str, Any]:
        """The first comment is a person's, the others are those of the action."""
        return {"id": at, "body": self.server.bodies[at], "user": {"type": "Bot" if at else "User"}}

    def _sent(self) -> str:
        return str(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"])

    def _answer(self, value: Any) -> None:
        self.server.tokens.add(self.headers["Authorization"])
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: Any) -> None:
        del args


@pytest.fixture
def github() -> Iterator[Comments]:
    with Comments() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def run(folder: Path, github: Comments | None = None, *, inputs: dict[str, str]) -> tuple[int, str, dict[str, str]]:
    """Run the action in `folder`; return its exit code, what it printed and its outputs."""
    outputs = folder / "outputs"
    outputs.unlink(missing_ok=True)
    env = {
        **process.environment(),
        "PLAN": str(Path(sys.executable).with_name("plan")),
        "PLAN_FILES": "**/*.plan.yaml",
        "GITHUB_OUTPUT": str(outputs),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        **inputs,
    }
    if github is not None:
        env |= {"PLAN_COMMENT": "true", "PULL_REQUEST": "7", "GITHUB_API_URL": github.url}
        env |= {"GITHUB_REPOSITORY": "o/r", "GITHUB_TOKEN": "t0ken"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert not done.stderr, done.stderr
    lines = outputs.read_text().splitlines() if outputs.exists() else []
    return done.returncode, done.stdout, dict(line.split("=", 1) for line in lines)


def test_diff_writes_one_comment_and_updates_it(tmp_path: Path, github: Comments) -> None:
    github.bodies.append("<!-- planloop: diff --> as a person writes it")
    (tmp_path / "p.plan.yaml").write_text(PLAN)

    code, _, outputs = run(tmp_path, github, inputs={"PLAN_COMMAND": "diff"})
    first = github.bodies[1]
    (tmp_path / "p.plan.yaml").write_text(PLAN.replace("  a:", "  b:"))
    run(tmp_path, github, inputs={"PLAN_COMMAND": "diff"})

    assert (code, outputs) == (0, {"exit-code": "0", "changes": "true"})
    assert "+ task/a" in first
    assert len(github.bodies) == 2
    assert "+ task/b" in github.bodies[1]
    assert github.tokens == {"Bearer t0ken"}
    assert "+ task/b" in (tmp_path / "summary.md").read_text()


def test_differences_fail_the_step_only_if_asked(tmp_path: Path) -> None:
    (tmp_path / "p.plan.yaml").write_text(PLAN)

    assert run(tmp_path, inputs={"PLAN_COMMAND": "diff"})[0] == 0
    assert run(tmp_path, inputs={"PLAN_COMMAND": "diff", "PLAN_FAIL_ON_CHANGES": "true"})[0] == 1


def test_an_invalid_plan_fails_the_step_and_other_files_still_run(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.plan.yaml").write_text(INVALID)
    (tmp_path / "sub/b.plan.yaml").write_text(PLAN)

    code, output, outputs = run(tmp_path, inputs={"PLAN_COMMAND": "validate"})

    assert (code, outputs["exit-code"]) == (3, "3")
    assert output.index("plan validate a.plan.yaml") < output.index("plan validate sub/b.plan.yaml")
    assert "❌ `plan validate a.plan.yaml`" in (tmp_path / "summary.md").read_text()


def test_apply_runs_the_plan(tmp_path: Path) -> None:
    (tmp_path / "p.plan.yaml").write_text(PLAN)

    assert run(tmp_path, inputs={"PLAN_COMMAND": "apply"})[0] == 0
    assert (tmp_path / "a.txt").read_text() == "hello\n"


@pytest.mark.parametrize("inputs", [{"PLAN_COMMAND": "destroy"}, {"PLAN_FILES": "*.nothing"}, {"PLAN_FILES": ""}])
def test_wrong_inputs_are_errors_of_the_workflow(tmp_path: Path, inputs: dict[str, str]) -> None:
    code, output, _ = run(tmp_path, inputs=inputs)

    assert code == 2
    assert output.startswith("::error title=planloop::")


def test_a_comment_that_github_refuses_is_a_warning(tmp_path: Path, github: Comments) -> None:
    (tmp_path / "p.plan.yaml").write_text(PLAN)
    github.shutdown()
    github.server_close()

    code, output, _ = run(tmp_path, github, inputs={"PLAN_COMMAND": "diff"})

    assert code == 0
    assert "::warning title=planloop::" in output


def test_output_with_fences_stays_inside_its_own_fence_and_long_output_is_cut(tmp_path: Path) -> None:
    text = "x\n```\n" * 9
    code = f"import run; print(run.section('diff', 'f', 1, {text!r}, 20))"
    done = subprocess.run([sys.executable, "-c", code], cwd=SCRIPT.parent, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()

    assert lines[2].startswith("````")
    assert lines[-1] == "````"
    assert "cut" in lines[-2]


def test_the_workflow_and_the_action_name_what_exists() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    jobs = workflow["jobs"].values()
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
    pythons = set(workflow["jobs"]["pythons"]["strategy"]["matrix"]["python"]) | {"3.11"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = {one.rpartition(" ")[2] for one in project["classifiers"] if re.search(r":: 3\.\d+$", one)}
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    given = action["runs"]["steps"][-1]["env"].values()

    assert pythons == supported
    assert {command.split()[1] for command in commands if command.startswith("make ")} <= set(targets)
    assert any(".ci/run" in command for command in commands)
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(action["runs"])))
    assert used == set(action["inputs"])
    assert all(isinstance(value, str) for value in given)
