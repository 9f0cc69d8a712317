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

from planloop.client.plan_client import PlanClient
from planloop.client.render import containers, printer
from planloop.client.tail_file import TailFile
from planloop.reconciler.store import owner_lock, state_files
from planloop.schemas.objects.container import OVER
from planloop.schemas.resource import Resource

LOOK_S: Final = 0.2
LOOKS_A_STATE: Final = 5  # The file is looked at this often for each look at the state.


def print_container_logs(access: PlanClient, item: Resource, *, tail: int | None, is_followed: bool) -> None:
    """Prints what it has written in its last run, the newest `tail` lines of it, and goes on with what it writes."""
    if not access.is_owned() and _has_asked(access, item, tail=tail, is_followed=is_followed):
        return
    path = state_files.run_folder(access.place.folder) / f"{item.address.replace('/', '-')}.out"
    with closing(TailFile(path, item.spec["logs_bytes"])) as writing:
        said = writing.more() or _kept(access, item)
        _print(said, tail)
        if is_followed and (said or access.is_owned()):
            _follow(access, item, writing)
        elif not said:
            printer.print_note(f"{item.address} has written nothing, it is {containers.container_state(item)}")
            printer.print_note(f"help: plan describe {item.address}")


def _kept(access: PlanClient, item: Resource) -> str:
    blob = item.status.get("log")
    return access.text(str(blob)) if blob else ""


def _print(text: str, tail: int | None) -> None:
    if tail is not None:
        lines = text.splitlines(keepends=True)
        text = "".join(lines[len(lines) - min(tail, len(lines)) :])
    click.echo(text, nl=False)


def _follow(access: PlanClient, item: Resource, writing: TailFile) -> None:
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


def _is_run(access: PlanClient) -> bool:
    """Whether there is an owner: one that takes the plan down answers nobody any more, but writes what it does."""
    return access.is_owned() or owner_lock.current_owner(access.place.folder) is not None


def _tell_end(access: PlanClient, item: Resource) -> None:
    """Why there is no more to follow, beside what it wrote."""
    now = access.find(item.address)
    if now is None:
        printer.print_note(f"{item.address} is in the plan no more")
    elif now.uid != item.uid:
        printer.print_note(f"{item.address} is another one now; plan logs {item.address} -f follows that")
    elif now.state in OVER:
        printer.print_note(f"{item.address} is {containers.container_state(now)}: {containers.container_summary(now)}")
    else:
        said = f"nobody runs the plan any more, {item.address} was {containers.container_state(now)} then"
        printer.print_note(f"{said}; plan logs {item.address} -f follows it on")


def _has_asked(access: PlanClient, item: Resource, *, tail: int | None, is_followed: bool) -> bool:
    """Prints what the engine has; False when it has nothing of this container, or cannot be asked."""
    from planloop.containers.engine.engine import EngineFailed

    try:
        return anyio.run(_ask, access, item, tail, is_followed)
    except EngineFailed:
        return False


async def _ask(access: PlanClient, item: Resource, tail: int | None, is_followed: bool) -> bool:
    from planloop.client import engine_access
    from planloop.containers.engine.secret_env import masks_from_labels

    own = next(
        (one for one in await engine_access.engine_containers(access.place, item) if one.last_run.started_at), None
    )
    if own is None:
        return False
    engine, text = engine_access.container_engine(), codecs.getincrementaldecoder("utf-8")(errors="replace")
    past = b"".join([piece async for piece in engine.logs(own.id, is_following=False)])
    quiet = masks_from_labels(own.labels, own.defaults.env).stream()
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
        printer.print_note(f"{item.address} has ended, and nobody runs the plan; plan apply looks after it again")
    return True
