"""What the gateway answers is what its description says, and pages of it fit together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from planloop.server.api import validation
from planloop.server.api.operations import TABLE
from tests.e2e.folder import Folder
from tests.server.gateway.gateways import Answer, Served, served

PLAN = """\
plan: demo
goal: a greeting for whoever is named
tasks:
  write:
    agent:
      tools: [all]
      script:
        - call: {write: {path: hello.txt, content: "hällo"}}
        - call: {send: {to: read, message: it is there}}
        - done: written
  read:
    needs: [write]
    run: cat hello.txt
  long:
    run: python3 -c "print('ü' * 3_000_000)"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """The plan is over, with whatever its script made of it."""
    folder = Folder(tmp_path_factory.mktemp("answers"))
    folder.write("demo.plan.yaml", PLAN)
    folder.run("apply", "demo.plan.yaml")
    return folder


@pytest.fixture(scope="module")
def site(folder: Folder) -> Iterator[Served]:
    with served(folder.path) as gateway:
        yield gateway


def found(site: Served, method: str, path: str, body: bytes | None = None) -> Any:
    """The answer, which is as the model of its row has it."""
    answer = site.ask(method, site.path(path), body=body)
    assert answer.status == 200, answer.body
    asked = path.partition("?")[0]
    rows = [row for row in TABLE if row.method == method and asked.startswith(row.path.partition("{")[0])]
    row = max(rows, key=lambda one: len(one.path))
    TypeAdapter(validation.model_or_union(row.answer)).validate_python(answer.json)
    return answer.json


def told(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.summary


@pytest.mark.process
def test_reads_are_answered_as_described(site: Served) -> None:
    rev = found(site, "GET", "status")["rev"]
    objects = found(site, "GET", "objects")

    assert objects["rev"] == rev
    for one in objects["objects"]:
        assert found(site, "GET", f"objects/{one['address'].replace('/.', '/~')}") == one
        found(site, "GET", f"describe/{one['address'].replace('/.', '/~')}")
    for path in ("waiting", "waits", "history", "conversation/write", "edit", "messages", "why?at=/tasks/read/run"):
        found(site, "GET", path)
    for record in found(site, "GET", "history")["revisions"]:
        found(site, "GET", f"history/{record['rev']}")
    assert found(site, "GET", "dump/write")["agent"] == "agent/write"


def test_changes_are_answered_as_described_and_signed_by_the_page(site: Served, folder: Folder) -> None:
    op = b'{"op": "add", "path": "/tasks/read/goal", "value": "read it"}'
    before = found(site, "POST", "patch", b'{"ops": [%b], "dry_run": true}' % op)
    verdict = found(site, "POST", "patch", b'{"ops": [%b], "reason": "said on the page"}' % op)
    refused = found(
        site, "POST", "patch", b'{"ops": [{"op": "remove", "path": "/goal"}, {"op": "remove", "path": "/x"}]}'
    )
    back = found(site, "POST", "rollback", b'{"rev": %d}' % (verdict["rev"] - 1))

    assert before["verdict"] == "preview"
    assert verdict["verdict"] == "accepted"
    assert refused["verdict"] == "refused"
    assert back["verdict"] == "accepted"
    assert [record["actor"] for record in folder.records() if record["type"] == "plan.patched"][1:] == ["human:web"] * 2
    assert found(site, "POST", "send", b'{"to": "agent/write", "text": "well done"}')["sent"][0]["is_new"]
    assert found(site, "GET", "messages?of=human:web")["messages"][-1]["body"] == "well done"


def test_the_log_is_read_in_pages_in_both_directions(site: Served, folder: Folder) -> None:
    records = found(site, "GET", "log")["records"]
    forwards: list[Any] = []
    after: int | None = 0
    while after is not None:
        page = found(site, "GET", f"log?after={after}&limit=3")
        forwards, after = [*forwards, *page["records"]], page["next"]
    backwards: list[Any] = []
    before: int | None = records[-1]["rev"] + 1
    while before is not None:
        page = found(site, "GET", f"log?before={before}&limit=4")
        backwards, before = [*page["records"], *backwards], page["next"]

    assert records == folder.records()
    assert forwards == records
    assert backwards == records


def test_the_log_is_searched_by_type_and_by_object(site: Served) -> None:
    every = found(site, "GET", "log")["records"]

    def steps(record: Any) -> list[tuple[str, str]]:
        return [(one["type"], one["subject"]) for one in (record, *record.get("also", ()))]

    turns = [one for one in every if any(type_.startswith("turn.") for type_, _ in steps(one))]
    about = [one for one in every if any(subject == "task/read" for _, subject in steps(one))]
    assert turns
    assert about
    assert found(site, "GET", "log?type=turn.")["records"] == turns
    assert found(site, "GET", "log?about=task/read")["records"] == about
    assert found(site, "GET", "log?type=turn.&before=1000000&limit=1")["records"] == turns[-1:]
    assert found(site, "GET", "log?about=task/rea")["records"] == []


def test_objects_can_be_had_as_of_any_revision(site: Served) -> None:
    now = found(site, "GET", "objects")
    then = {rev: found(site, "GET", f"objects?at={rev}") for rev in range(now["rev"] + 1)}

    assert then[0]["objects"] == []
    assert then[now["rev"]]["objects"] == now["objects"]
    assert all(one["rev"] <= rev for rev, answer in then.items() for one in answer["objects"])
    first = min(rev for rev, answer in then.items() if any(one["address"] == "task/read" for one in answer["objects"]))
    assert found(site, "GET", f"objects/task/read?at={first}")["rev"] == first
    assert told(site.ask("GET", site.path(f"objects/task/read?at={first - 1}")))[0] == 404
    assert told(site.ask("GET", site.path(f"objects?at={now['rev'] + 1}")))[0] == 404


def test_objects_are_returned_in_pages_of_one_revision(site: Served) -> None:
    whole = found(site, "GET", "objects?kind=task,agent")
    pages = [found(site, "GET", "objects?kind=task,agent&limit=1")]
    while (last := pages[-1])["next"] is not None:
        pages.append(found(site, "GET", f"objects?kind=task,agent&limit=1&at={last['rev']}&from={last['next']}"))

    assert len(pages) == len(whole["objects"]) > 2
    assert [one for page in pages for one in page["objects"]] == whole["objects"]


def test_long_text_is_returned_in_pages_that_cut_no_character(site: Served) -> None:
    digest = found(site, "GET", "objects/task/long")["status"]["result"]["blob"]
    pages = [found(site, "GET", f"blobs/{digest}")]
    while (after := pages[-1]["next"]) is not None:
        pages.append(found(site, "GET", f"blobs/{digest}?after={after}"))

    assert len(pages) > 1
    assert "".join(page["text"] for page in pages) == "ü" * 3_000_000 + "\n"


@pytest.mark.parametrize("path", ["blobs/..%2F..%2Flinks.json", "blobs/links.json", "blobs/" + "0" * 64])
def test_blob_is_named_by_its_digest_only(site: Served, path: str) -> None:
    assert site.ask("GET", site.path(path)).status == 404


def test_no_output_is_read_from_elsewhere(site: Served, folder: Folder) -> None:
    Path(folder.path / ".plan" / "demo" / "secret.out").write_text("secret")

    assert found(site, "GET", "output/..%2Fsecret") == {"text": "", "next": 0}
