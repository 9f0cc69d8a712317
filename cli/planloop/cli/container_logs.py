"""What a container writes: `plan logs container/x`.

While somebody runs the plan, it is in the file that the owner keeps; with nobody there, the engine is asked for what it
has; what has gone is in a blob of the log.
"""

from __future__ import annotations

import codecs
import sys
import time
from contextlib import aclosing, closing
from typing import Final

import anyio
import click

from planloop.app.access import Access
from planloop.app.written import Writing
from planloop.cli.rendering import containers, printing
from planloop.reconciler.storing import layout, owning
from planloop.schemas.container import OVER
from planloop.schemas.resource import Resource

LOOK_S: Final = 0.2
LOOKS_A_STATE: Final = 5  # The file is looked at this often for each look at the state.


def show(access: Access, item: Resource, *, tail: int | None, is_followed: bool) -> None:
    """Prints what it has written in its last run, the newest `tail` lines of it, and goes on with what it writes."""
    if not access.is_owned() and _has_asked(access, item, tail=tail, is_followed=is_followed):
        return
    path = layout.run_folder(access.place.folder) / f"{item.address.replace('/', '-')}.out"
    with closing(Writing(path, item.spec["logs_bytes"])) as writing:
        said = writing.more() or _kept(access, item)
        _print(said, tail)
        if is_followed and (said or access.is_owned()):
            _follow(access, item, writing)
        elif not said:
            printing.note(f"{item.address} has written nothing, it is {containers.state_of(item)}")
            printing.note(f"help: plan describe {item.address}")


def _kept(access: Access, item: Resource) -> str:
    blob = item.status.get("log")
    return access.text(str(blob)) if blob else ""


def _print(text: str, tail: int | None) -> None:
    if tail is not None:
        lines = text.splitlines(keepends=True)
        text = "".join(lines[len(lines) - min(tail, len(lines)) :])
    click.echo(text, nl=False)


def _follow(access: Access, item: Resource, writing: Writing) -> None:
    """Until it has ended and nothing starts it again, or its owner is gone."""
    looks = 0
    while True:
        click.echo(writing.more(), nl=False)
        sys.stdout.flush()
        if looks % LOOKS_A_STATE == 0:
            now = access.find(item.address)
            if now is None or now.uid != item.uid or now.state in OVER or not _is_run(access):
                click.echo(writing.more(), nl=False)
                _tell_end(access, item)
                return
        looks += 1
        time.sleep(LOOK_S)


def _is_run(access: Access) -> bool:
    """Whether there is an owner: one that takes the plan down answers nobody any more, but writes what it does."""
    return access.is_owned() or owning.look(access.place.folder) is not None


def _tell_end(access: Access, item: Resource) -> None:
    """Why there is no more to follow, beside what it wrote."""
    now = access.find(item.address)
    if now is None:
        printing.note(f"{item.address} is in the plan no more")
    elif now.uid != item.uid:
        printing.note(f"{item.address} is another one now; plan logs {item.address} -f follows that")
    elif now.state in OVER:
        printing.note(f"{item.address} is {containers.state_of(now)}: {containers.what_of(now)}")
    else:
        said = f"nobody runs the plan any more, {item.address} was {containers.state_of(now)} then"
        printing.note(f"{said}; plan logs {item.address} -f follows it on")


def _has_asked(access: Access, item: Resource, *, tail: int | None, is_followed: bool) -> bool:
    """Prints what the engine has; False when it has nothing of this container, or cannot be asked."""
    from planloop.containers.engine import EngineFailed

    try:
        return anyio.run(_ask, access, item, tail, is_followed)
    except EngineFailed:
        return False


async def _ask(access: Access, item: Resource, tail: int | None, is_followed: bool) -> bool:
    from planloop.app import wiring
    from planloop.containers.hiding import masks_of

    own = next((one for one in await wiring.containers_of(access.place, item) if one.started_at), None)
    if own is None:
        return False
    engine, text = wiring.container_engine(), codecs.getincrementaldecoder("utf-8")(errors="replace")
    past = b"".join([piece async for piece in engine.logs(own.id, is_following=False)])
    quiet = masks_of(own.labels, own.env).stream()
    said = text.decode(quiet.feed(past))
    _print(said if is_followed else said + text.decode(quiet.flush()), tail)
    if is_followed:
        left = len(past)
        async with aclosing(engine.logs(own.id)) as pieces:
            async for piece in pieces:
                click.echo(text.decode(quiet.feed(piece[left:])), nl=False)
                sys.stdout.flush()
                left = max(0, left - len(piece))
        click.echo(text.decode(quiet.flush()), nl=False)
        printing.note(f"{item.address} has ended, and nobody runs the plan; plan apply looks after it again")
    return True
