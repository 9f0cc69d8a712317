"""Conversations and revisions of a real log: read in pages, nothing twice and nothing left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planloop.reconciler.store import backend
from planloop.server import history
from tests import golden_text
from tests.e2e.folder import Folder
from tests.product import CommandError, JsonObject

pytestmark = pytest.mark.process

PLAN = """\
plan: demo
goal: say things
hooks:
  careful:
    on: before-call
    rule:
      - {when: {call: "write(tmp/*)"}, deny: nothing in tmp}
      - {when: {call: "shell(echo 3)"}, comment: that is three}
agent:
  tools: [all]
  script:
    - say: I begin.
    - call: {write: {path: tmp/x, content: x}}
    - expect: {error: Denied}
    - call: {shell: {command: echo 1}}
    - call: {shell: {command: echo 2}}
    - call: {shell: {command: echo 3}}
    - patch: [{op: add, path: /tasks, value: {below: {goal: below, run: "true"}}}]
    - done: all of it
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    folder = Folder(tmp_path_factory.mktemp("told"))
    folder.done(PLAN)
    assert folder.run("patch", "task/.", "goal=say more", "--reason", "people asked").code == 0
    assert folder.run("patch", "task/.", "goal=[1]").code != 0
    yield folder


def read(folder: Folder, path: str, **query: object) -> Any:
    state: Path = folder.path / ".plan" / "demo"
    with backend.open_log(state) as log:
        return history.history_answer(log, "demo", path, {name: str(value) for name, value in query.items()})


def items(folder: Folder, **query: object) -> list[JsonObject]:
    return list(read(folder, "conversation/.", **query)["items"])


def test_pages_of_a_conversation_are_whole_turns_and_make_the_whole(folder: Folder) -> None:
    whole = items(folder)
    pages: list[list[JsonObject]] = []
    before: int | None = None
    while before is None or pages[0]:
        answer = read(folder, "conversation/.", turns=2, **({} if before is None else {"before": before}))
        pages.insert(0, answer["items"])
        before = answer["earlier"]
        if before is None:
            break
        assert answer["items"][0]["kind"] == "turn", "a page begins with a turn"
    assert [one for page in pages for one in page] == whole
    assert len(pages) > 2
    middle = whole[len(whole) // 2]["rev"]
    assert items(folder, after=middle) == [one for one in whole if one["rev"] > middle]


def test_a_call_has_its_verdict_and_its_result_also_when_its_turn_is_one_record(folder: Folder) -> None:
    whole = items(folder)
    calls = {one["arguments"].get("command") or one["tool"]: one["call"] for one in whole if one["kind"] == "call"}
    ends = {one["call"]: one for one in whole if one["kind"] == "result"}
    said = [one for one in whole if one["kind"] == "verdict" and not one["is_silent"]]
    assert ends[calls["write"]]["state"] == "Denied"
    golden_text.said(ends[calls["write"]]["text"])
    assert [(one["call"], one["decision"], one.get("comment")) for one in said] == [
        (calls["write"], "deny", None),
        (calls["echo 3"], "allow", "that is three"),
    ]
    assert ends[calls["echo 3"]]["text"] == "3"
    assert [one["text"] for one in whole if one["kind"] == "said"] == ["I begin."]
    assert len(ends) == sum(one["kind"] == "result" for one in whole), "each call has one result"


def test_revisions_are_filtered_by_author_and_kind_and_read_in_pages(folder: Folder) -> None:
    history = read(folder, "history")
    assert [(one["author"], one["reason"]) for one in history["revisions"]] == [
        ("human:cli", "people asked"),
        ("agent/.", ""),
        ("human:file", "saved task.yaml"),
    ]
    assert history["authors"] == ["agent/.", "human:cli", "human:file"]
    assert read(folder, "history", all=1)["revisions"][0]["did"] == "refused"
    assert [one["author"] for one in read(folder, "history", author="agent")["revisions"]] == ["agent/."]
    assert [one["did"] for one in read(folder, "history", kind="refused")["revisions"]] == ["refused"]
    page = read(folder, "history", limit=2)
    rest = read(folder, "history", limit=2, before=page["earlier"])
    assert [*page["revisions"], *rest["revisions"]] == history["revisions"]
    assert rest["earlier"] is None


def test_a_revision_has_both_sides_of_each_field_and_what_it_did(folder: Folder) -> None:
    newest = read(folder, "history")["revisions"][0]["rev"]
    one = read(folder, f"history/{newest}")
    assert one["fields"] == [{"sign": "~", "path": "task/./goal", "before": "say things", "after": "say more"}]
    refused = read(folder, "history", kind="refused")["revisions"][0]["rev"]
    told = read(folder, f"history/{refused}")
    assert told["faults"] and not told["is_document"]
    with pytest.raises(CommandError) as caught:
        read(folder, "history/1")
    golden_text.said(str(caught.value))


def test_the_past_has_its_own_waits(folder: Folder) -> None:
    assert read(folder, "waits", at=3)["locks"] == []
    assert read(folder, "waiting", at=3)["approvals"] == []


def test_a_bound_of_the_whole_plan_is_named_as_it_is_set(folder: Folder) -> None:
    assert folder.run("patch", ".", "limits.tasks=3").code == 0
    newest = read(folder, "history")["revisions"][0]
    assert newest["what"] == "+ limits"
    assert folder.run("patch", ".", "limits.tasks=4").code == 0
    newest = read(folder, "history")["revisions"][0]
    assert newest["what"] == "~ limits.tasks"
    assert [one["path"] for one in read(folder, f"history/{newest['rev']}")["fields"]] == ["limits.tasks"]
