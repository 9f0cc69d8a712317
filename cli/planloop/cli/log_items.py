"""`plan logs -o json`: the transcript of an agent, or of a task and its agent, one JSON item a line."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import click

from planloop.app.access import Access
from planloop.app.client import OwnerGone
from planloop.app.exits import Exit, Halt
from planloop.app.following import Following, all_records
from planloop.app.telling import conversation
from planloop.schemas.encoding import JsonObject, encode
from planloop.schemas.record import Record
from planloop.schemas.resource import Resource
from planloop.schemas.task import ENDED


class _Items:
    """The items of one agent, and of its task unless `is_agent`, from each record as it comes."""

    def __init__(self, access: Access, path: str, *, is_agent: bool) -> None:
        self._access = access
        self._agent = f"agent/{path}"
        self._task = "" if is_agent else f"task/{path}"
        self._letters: dict[str, JsonObject] = {}

    def of(self, record: Record) -> Iterator[JsonObject]:
        """What the record adds. Outputs that are blobs in the log are whole."""
        found = list(conversation.items_of(record, self._agent, self._letters))
        if self._task:
            found += conversation.task_items_of(record, self._task)
        for item in found:
            yield {**item, "text": self._access.text(str(item["blob"]))} if item.get("blob") else item


def show(access: Access, item: Resource, *, tail: int | None, is_followed: bool, is_check: bool) -> None:
    """Prints the items. Raises Halt for what has no transcript."""
    if is_check or item.kind not in ("task", "agent"):
        what = "the output of a check" if is_check else item.address
        raise Halt(Exit.USAGE, f"{what} is text only", f"plan get {item.address} -o json · plan events -o json")
    path = item.address.partition("/")[2]
    items = _Items(access, path, is_agent=item.kind == "agent")
    following = Following(access) if is_followed else None
    past = (one for record in all_records(access) for one in items.of(record))
    _print(past if tail is None else deque(past, maxlen=tail))
    if following is not None:
        _follow(following, items, f"task/{path}")


def _follow(following: Following, items: _Items, task: str) -> None:
    try:
        for step in following.steps():
            _print(items.of(step.record))
            now = following.view.get(task)
            if now is None or now.state in ENDED:
                return
    except OwnerGone:
        return


def _print(items: Iterable[JsonObject]) -> None:
    for item in items:
        click.echo(encode(item).decode())
