"""Run `plan` for the GitHub Action in action.yml: one command over several files, its output as summary and comment.

Reads its inputs from the environment (PLAN_COMMAND, PLAN_FILES …, see action.yml). Needs only the standard library.
Exit code: that of `plan`, except that differences are no failure unless PLAN_FAIL_ON_CHANGES is `true`.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

COMMANDS = ("validate", "diff", "apply")
MARKER = "<!-- planloop: diff -->"
COMMENT_CHARS_MAX = 60_000
"""GitHub refuses comments of more than 65,536 characters."""
CHANGED = 1
"""Exit code of `plan diff` if there are differences."""
USAGE = 2


def main() -> int:
    """Run the command over all files; write the summary, the outputs and the comment. Return the exit code."""
    command = os.environ.get("PLAN_COMMAND", "diff")
    if command not in COMMANDS:
        return refuse(f"command: {command!r} is not one of {', '.join(COMMANDS)}")
    patterns = os.environ.get("PLAN_FILES", "").split()
    if absolute := [pattern for pattern in patterns if Path(pattern).is_absolute()]:
        return refuse(f"files: {absolute[0]!r} is absolute; patterns are relative to the checkout")
    files = sorted({str(path) for pattern in patterns for path in Path().glob(pattern) if path.is_file()})
    if not files:
        return refuse(f"files: no file matches {' '.join(patterns)!r}")
    worst, has_changes, results = 0, False, []
    for path in files:
        code, output = run(command, path)
        changed = command == "diff" and code == CHANGED
        has_changes |= changed
        worst = max(worst, 0 if changed and os.environ.get("PLAN_FAIL_ON_CHANGES") != "true" else code)
        results.append((path, code, output))
    append("GITHUB_STEP_SUMMARY", report(command, results))
    append("GITHUB_OUTPUT", f"exit-code={worst}\nchanges={str(has_changes).lower()}")
    if command == "diff" and os.environ.get("PLAN_COMMENT") == "true" and os.environ.get("PULL_REQUEST"):
        try:
            comment(report(command, results, COMMENT_CHARS_MAX // len(results)))
        except (urllib.error.URLError, OSError) as error:
            print(f"::warning title=planloop::no comment written: {error}. The job needs `pull-requests: write`.")
    return worst


def refuse(message: str) -> int:
    """Print `message` as an error of the workflow and return the exit code for wrong usage."""
    print(f"::error title=planloop::{message}")
    return USAGE


def run(command: str, path: str) -> tuple[int, str]:
    """Run `plan COMMAND PATH`; return its exit code and everything that it printed. The job's log shows it, too."""
    extra = ["--yes"] if command == "apply" else []
    if command != "validate" and (model := os.environ.get("PLAN_MODEL")):
        extra += ["--model", model]
    token = secrets.token_hex(16)
    print(f"::group::plan {command} {path}\n::stop-commands::{token}", flush=True)
    done = subprocess.run(
        [os.environ.get("PLAN", "plan"), command, f"./{path}", *extra],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", check=False,
        env={name: value for name, value in os.environ.items() if name != "GITHUB_TOKEN"} | {"NO_COLOR": "1"},
    )  # fmt: skip
    print(done.stdout, end="")
    print(f"::{token}::\n::endgroup::", flush=True)
    return done.returncode, done.stdout


def report(command: str, results: list[tuple[str, int, str]], chars_max: int = 1_000_000) -> str:
    """Return the outputs of all files as Markdown, each cut to `chars_max` characters."""
    return "\n\n".join(section(command, path, code, output, chars_max) for path, code, output in results)


def section(command: str, path: str, code: int, output: str, chars_max: int) -> str:
    """Return the output for one file in a fence longer than any that the output contains."""
    text = output.rstrip() or "(no output)"
    if len(text) > chars_max:
        text = text[:chars_max].rsplit("\n", 1)[0] + "\n… (cut; the job's summary has more)"
    fence = "```"
    while fence in text:
        fence += "`"
    mark = "✅" if code == 0 else "✏️" if command == "diff" and code == CHANGED else "❌"
    return f"### {mark} `plan {command} {path}`\n\n{fence}text\n{text}\n{fence}"


def append(variable: str, text: str) -> None:
    """Append `text` to the file that the runner names in `variable`, if it names one."""
    if path := os.environ.get(variable):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def comment(text: str) -> None:
    """Write `text` as the pull request's comment of this action: update the comment with the marker, or add one."""
    api, repository = os.environ.get("GITHUB_API_URL", "https://api.github.com"), os.environ["GITHUB_REPOSITORY"]
    comments = f"{api}/repos/{repository}/issues/{os.environ['PULL_REQUEST']}/comments"
    body = {"body": f"{MARKER}\n{text}"}
    page = 1
    while found := request("GET", f"{comments}?per_page=100&page={page}"):
        for one in found:
            # A person could edit what we write into their comment, so their copies of the marker do not count.
            if one.get("user", {}).get("type") == "Bot" and str(one.get("body") or "").startswith(MARKER):
                request("PATCH", f"{api}/repos/{repository}/issues/comments/{one['id']}", body)
                return
        page += 1
    request("POST", comments, body)


def request(method: str, url: str, body: dict[str, str] | None = None) -> Any:
    """Send one request to GitHub's API and return the JSON of its answer."""
    headers = {"Authorization": f"Bearer {os.environ.get('GITHUB_TOKEN', '')}", "Accept": "application/vnd.github+json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=30) as answer:
        return json.load(answer)


if __name__ == "__main__":
    sys.exit(main())
