"""The page on the API is true: its requests are made again, its program is run, its tables are those of the table."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from planloop.server.api.openapi import WORDS
from planloop.server.api.operations import TABLE
from tests.architecture.tree import ROOT
from tests.e2e.folder import Folder
from tests.server.gateway.gateways import Served, served

PAGE = ROOT / "docs" / "reference" / "api.md"
REQUEST = re.compile(r"(?ms)^```http\n((?:GET|POST) \S+\n(?:\{.*?\}\n(?=\n|```))?)(?:.*?)^```\n")
DIFFERS = (
    (r'("(?:at|since|started_at|sent_at|ended_at)": )[\d.]+', r"\g<1>1795442602.5"),
    (r'("(?:uid|op|id|log)": )"[0-9a-f]{12,16}"', r'\g<1>"5b1e0c77a2f4"'),
    (r'("(?:spent_s|active_s|time_s)": )[\d.e-]+', r"\g<1>0.01"),
    (r'"[0-9a-f]{64}"', '"5f2c…"'),
    (r'("(?:rev|document_rev|next|created_rev)": )\d{2,}\b', r"\g<1>31"),  # What is on its way may need one more.
    (r'("version": )"[^"]*"', r'\g<1>"0.1.0"'),
    (r'("file": )"/[^"]*/task.yaml"', r'\g<1>"/srv/demo/task.yaml"'),
)


def _answered(site: Served, request: str) -> str:
    """The request with what comes back."""
    head, _, body = request.partition("\n")
    method, path = head.split()
    answer = site.ask(method, site.path(path), body=body.encode() or None)
    text = json.dumps(answer.json, indent=2, ensure_ascii=False)
    for pattern, instead in DIFFERS:
        text = re.sub(pattern, instead, text)
    # What is short stands in a line, as a person would write it.
    text = re.sub(r"[\[{]\n[^\[\]{}]{0,160}?\n\s*[\]}]", lambda found: re.sub(r"\n\s*", " ", found[0]), text)
    return f"```http\n{request.rstrip()}\n\n{answer.status}\n{text}\n```\n"


def _program(site: Served, text: str) -> str:
    """The page with what its program prints."""
    (program,) = re.findall(r"(?ms)^```python\n(.*?)^```\n", text)
    environment = {"SITE": site.origin, "TOKEN": site.change}
    said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return re.sub(r"(?ms)^```text\n.*?^```\n", lambda _: f"```text\n{said.stdout}```\n", text)


def _tables(text: str) -> str:
    statuses = ["| status | says |", "| --- | --- |", *(f"| {status} | {words} |" for status, words in WORDS.items())]
    operations = ["| | path | |", "| --- | --- | --- |"]
    for row in TABLE:
        mark = " †" if not row.is_of_plan else " ‡" if row.door == "owner" else ""
        operations.append(f"| {row.method} | `{row.path}`{mark} | {row.summary} |")
    for name, lines in (("statuses", statuses), ("operations", operations)):
        text = re.sub(
            rf"(?s)<!-- {name} -->\n.*?<!-- end -->", "\n".join([f"<!-- {name} -->", *lines, "<!-- end -->"]), text
        )
    return text


@pytest.mark.process
@pytest.mark.timeout(120)
def test_answers_on_the_page_equal_real_answers(tmp_path: Path, is_updating: bool) -> None:
    text = PAGE.read_text()
    (plan,) = re.findall(r"(?ms)^```yaml\n(plan: .*?)^```\n", text)
    folder = Folder(tmp_path)
    folder.done(plan)

    with served(folder.path) as site:
        now = REQUEST.sub(lambda found: _answered(site, found[1]), _program(site, _tables(text)))

    if is_updating:
        PAGE.write_text(now)
    assert PAGE.read_text() == now, "run `make docs` and look at the difference"
