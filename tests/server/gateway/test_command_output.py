"""What commands of tasks print is read at the gateway while they run and afterwards, by bytes, and of tasks alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from planloop.schemas.limits import LOG_PAGE_BYTES
from planloop.server.api.response_models import ApiPrinted
from tests.e2e.folder import Folder
from tests.server.gateway.gateways import Served, served

PLAN = """\
plan: demo
goal: commands that print
tasks:
  grows: {run: 'echo one; : > begun; cat go; printf "two ü"'}
  long: {run: 'seq 100000; exit 1'}
  silent: {run: 'exit 3'}
  late: {run: 'true', needs: [long]}
  talk: {agent: {script: [{done: said}]}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    """The plan is over but for `grows`, which has printed a line and waits for the FIFO `go` to be written."""
    folder = Folder(tmp_path_factory.mktemp("printed"))
    for name in ("begun", "go"):
        os.mkfifo(folder.path / name)
    folder.write("demo.plan.yaml", PLAN)
    with folder.started("--yes", "demo.plan.yaml") as owner:
        owner.until("task/long.*exit code 1")
        (folder.path / "begun").read_bytes()
        yield folder


@pytest.fixture(scope="module")
def site(folder: Folder) -> Iterator[Served]:
    with served(folder.path) as gateway:
        yield gateway


def page(site: Served, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = site.get(f"printed/{path}")
    TypeAdapter(ApiPrinted).validate_python(answer)
    return answer


@pytest.mark.process
def test_newest_page_comes_first_and_older_ones_precede_it(site: Served) -> None:
    newest = page(site, "long")
    older = page(site, f"long?before={newest['start']}")

    whole = "".join(f"{number}\n" for number in range(1, 100_001))
    assert newest["is_over"]
    assert newest["next"] == len(whole)
    assert newest["text"] == whole[newest["start"] :]
    assert 0 < len(newest["text"]) <= LOG_PAGE_BYTES
    assert older["next"] == newest["start"]
    assert older["text"] == whole[older["start"] : newest["start"]]
    assert not older["is_over"]


def test_command_without_output_has_an_empty_page(site: Served) -> None:
    assert page(site, "task/silent") | {"log": ""} == {"log": "", "start": 0, "text": "", "next": 0, "is_over": True}


@pytest.mark.parametrize(
    ("task", "said", "cure"),
    [
        (
            "late",
            "task/late has no output yet, because it has not started",
            "plan describe task/late says what it waits for",
        ),
        ("talk", "task/talk runs no command", "plan logs task/talk shows what its agent did"),
        ("~", "task/. runs no command", "plan logs task/. shows what its agent did"),
        ("..%2F..%2Fdemo%2Fsecret", "no task/../../demo/secret in this plan", "plan get tasks lists them"),
    ],
)
def test_missing_output_is_reported_with_where_to_look(site: Served, task: str, said: str, cure: str) -> None:
    answer = site.ask("GET", site.path(f"printed/{task}"))

    assert answer.status == 404
    assert answer.json["error"] == {"exit": 6, "summary": said, "hint": cure}


def test_reader_of_a_running_command_continues_past_its_end(site: Served, folder: Folder) -> None:
    first = page(site, "grows")
    assert (first["text"], first["is_over"]) == ("one\n", False)
    assert page(site, f"grows?after={first['next']}") == first | {"start": 4, "text": ""}

    Path(folder.path / "go").write_bytes(b"")
    assert folder.run("wait", "task/grows").code == 0
    rest = page(site, f"grows?after={first['next']}")
    while not rest["is_over"]:  # The gateway reads the log as it comes, and may not be there yet.
        rest = page(site, f"grows?after={first['next']}")
    assert rest == {"log": first["log"], "start": 4, "text": "two ü", "next": 10, "is_over": True}
    assert page(site, "grows?after=11")["start"] == 0, "of another output that is read again"
