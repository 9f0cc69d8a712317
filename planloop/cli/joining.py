"""A second `plan apply` of a plan that runs: hands the file to the owner and follows the run from here."""

from __future__ import annotations

import queue
import sys
import threading

import click

from planloop import hosting
from planloop.access import Access
from planloop.cli import applying
from planloop.client import OwnerClient
from planloop.exits import Exit, Halt
from planloop.following import Following, Step
from planloop.hosting import Leaving
from planloop.rendering import printing
from planloop.screens import screen_for
from planloop.server.forms import save_to_json
from planloop.verdicts import refusal
from reconciler.filing import FileSave


def join(access: Access, save: FileSave) -> None:
    """Sends the file, then follows until the plan ends. Raises OwnerGone when there is nobody to join."""
    owner = OwnerClient(access.place.folder)
    status = owner.get("status")
    click.echo(f"{access.place.name} is run by process {status['pid']}; this one follows it")
    verdict = owner.post("file", save_to_json(save))
    if verdict["verdict"] == "refused":
        raise refusal(verdict)
    if verdict["verdict"] == "held":
        printing.note(f"held: {verdict['why']}\nnext: plan approve {verdict['approval']}")
    try:
        follow(access)
    except KeyboardInterrupt:
        click.echo(f"\nleft; {access.place.name} goes on in process {status['pid']}")
        raise Halt(Exit.CANCELLED) from None


def follow(access: Access) -> None:
    """Shows the run until it ends, as far as this process can see. Raises Halt with how it ended."""
    following = Following(access)
    screen = screen_for(sys.stdout)
    screen.begin(following.view, access.place.name)
    steps: queue.SimpleQueue[Step | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(following, steps), daemon=True).start()
    while not _has_ended(following):
        step = steps.get()
        if step is None:
            break
        screen.record(step.record, step.changed)
    if not _has_ended(following):
        raise Halt(Exit.FAILED, f"the process that ran {access.place.name} has ended", "plan apply FILE takes over")
    applying.end(Leaving.FINISHED, following.view, access.place)


def _read(following: Following, steps: queue.SimpleQueue[Step | None]) -> None:
    # A thread, because waiting for the owner must not keep Ctrl-C waiting.
    try:
        for step in following.steps():
            steps.put(step)
    finally:
        steps.put(None)


def _has_ended(following: Following) -> bool:
    root = following.view.get(hosting.ROOT)
    return root is not None and root.state in hosting.ENDED
