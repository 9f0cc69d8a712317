"""A second `plan apply` of a plan that runs: hands the file to the owner and follows the run from here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

import anyio
import click

from planloop.app import hosting
from planloop.app.access import Access
from planloop.app.client import OwnerClient
from planloop.app.exits import Exit, Halt
from planloop.app.following import Following, Step
from planloop.app.hosting import Leaving
from planloop.app.verdicts import refusal
from planloop.cli import applying
from planloop.cli.rendering import printing
from planloop.cli.screens import Key, screen_for_stdout
from planloop.reconciler.editing.filing import FileSave
from planloop.schemas.task import ENDED
from planloop.server.forms import save_to_json


def join(access: Access, save: FileSave | None) -> None:
    """Sends the file if there is one to send, then follows until the plan ends.

    Raises OwnerGone when there is nobody to join.
    """
    owner = OwnerClient(access.place.folder)
    status = owner.get("status")
    click.echo(f"{access.place.name} is run by process {status['pid']}; this one follows it")
    if save is not None:
        _send(owner, save)
    try:
        follow(access)
    except KeyboardInterrupt:
        click.echo(f"\nleft; {access.place.name} goes on in process {status['pid']}")
        raise Halt(Exit.CANCELLED) from None


def _send(owner: OwnerClient, save: FileSave) -> None:
    verdict = owner.post("file", save_to_json(save))
    if verdict["verdict"] == "refused":
        raise refusal(verdict)
    if verdict["verdict"] == "held":
        printing.note(f"held: {verdict['why']}\nnext: plan approve {verdict['approval']}")


def follow(access: Access) -> None:
    """Shows the run until it ends, as far as this process can see. Raises Halt with how it ended."""
    following = Following(access)
    if anyio.run(_show, access, following):
        raise KeyboardInterrupt
    if not _has_ended(following):
        following = Following(access)  # An owner that is done may leave before its last word is read.
    if not _has_ended(following):
        raise Halt(Exit.FAILED, f"the process that ran {access.place.name} has ended", "plan apply FILE takes over")
    applying.end(Leaving.FINISHED, following.view, access.place)


async def _show(access: Access, following: Following) -> bool:
    """Shows the run until it ends; whether the person left before."""
    has_left = False
    screen = screen_for_stdout()
    screen.begin(following.view, access.place.name)
    send, receive = anyio.create_memory_object_stream[Step](1000)
    loop = asyncio.get_running_loop()

    def read() -> None:
        # A thread, because the client blocks; a daemon, so that Ctrl-C need not wait for the owner's next word.
        with suppress(RuntimeError, CancelledError):  # The loop may go, or be gone, before the owner is.
            try:
                for step in following.steps():
                    _sent(send.send(step), loop)
            finally:
                loop.call_soon_threadsafe(send.close)

    def press(key: Key) -> None:
        nonlocal has_left
        if key is Key.HAND_OVER:
            has_left = True  # It runs elsewhere: leaving is all there is to do.
            group.cancel_scope.cancel()
            return
        paused = bool(access.object(f"plan/{access.place.name}").spec.get("pause"))
        op = {"op": "remove", "path": "/pause"} if paused else {"op": "add", "path": "/pause", "value": True}
        access.post("patch", {"ops": [op], "reason": "pressed p"})

    async with anyio.create_task_group() as group:
        group.start_soon(screen.run, press)
        if not _has_ended(following):
            threading.Thread(target=read, daemon=True).start()
            async for step in receive:
                screen.record(step.record, step.changed)
                if _has_ended(following):
                    break
        group.cancel_scope.cancel()
    return has_left


def _sent(sending: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
    """Waits, outside of `loop`, until it has taken what is sent. Raises RuntimeError when it is closed."""
    try:
        asyncio.run_coroutine_threadsafe(sending, loop).result()
    except RuntimeError:
        sending.close()
        raise


def _has_ended(following: Following) -> bool:
    root = following.view.get(hosting.ROOT)
    return root is not None and root.state in ENDED
