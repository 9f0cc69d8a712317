"""What `plan apply` does: looks, asks where something would be lost, then owns the plan or joins whoever does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn

import anyio
import click

from planloop.app import compiling, going_on, hosting, parting, wiring
from planloop.app.client import OwnerClient, OwnerGone
from planloop.app.exits import Exit, Halt
from planloop.app.hosting import Leaving, Owning, Wish
from planloop.app.places import Place
from planloop.app.verdicts import refusal
from planloop.cli import joining, patching, previewing
from planloop.cli.previewing import Shown
from planloop.cli.rendering import containers
from planloop.cli.screens import screen_for_stdout
from planloop.reconciler.editing.filing import FileSave
from planloop.reconciler.errors import NotOwner
from planloop.reconciler.storing import folders
from planloop.reconciler.storing.store import View
from planloop.schemas import amounts
from planloop.schemas.condition import of_status
from planloop.schemas.container import NEED_FAILED, ContainerState
from planloop.schemas.encoding import JsonObject, decode, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import PLAN_FILE_BYTES_MAX
from planloop.schemas.resource import Resource
from planloop.schemas.task import TaskState
from planloop.server.forms import save_to_json

START_S: Final = 20.0  # A background owner that has not answered by then has failed.
TRIES_MAX: Final = 100  # Of 0.1 s, while another owner starts or ends.
TRY_AGAIN_S: Final = 0.1
LOG: Final = "owner.log"
NAMED_MAX: Final = 2  # Failed tasks named one by one.
PREVIEW_BYTES_MAX: Final = 64 << 20  # A preview holds the file, its document and the patch.


@frozen
class Asked:
    """The options of `plan apply`."""

    yes: bool = False
    detach: bool = False
    sync: bool = False
    targets: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    model: str | None = None
    max_size: int | None = None
    as_is: bool = False
    stay: bool = False

    @property
    def size_max(self) -> int:
        return self.max_size or PLAN_FILE_BYTES_MAX

    @property
    def words(self) -> tuple[str, ...]:
        """The options that another owner needs to go on in the same way."""
        words = ["--max-size", str(self.size_max)]
        words += ["--sync"] if self.sync else []
        words += ["--as-is"] if self.as_is else []
        words += ["--model", self.model] if self.model is not None else []
        words += [word for target in self.targets for word in ("--target", target)]
        words += [word for exclude in self.excludes for word in ("--exclude", exclude)]
        return tuple(words)


def apply(path: Path, asked: Asked) -> None:
    """Applies the file and follows the run. Raises Halt with the code of how it ended."""
    if path == compiling.STDIN:
        raise Halt(Exit.USAGE, "a plan is applied from a file, which is followed while it runs", "save it, then apply")
    going_on.refuse_run(path)
    # With a target only part of the file is run: the gate says whether that part can be.
    shown = look(path, asked, is_run=not (asked.targets or asked.excludes or asked.as_is))
    save = None if asked.as_is else _agreed(shown, asked)
    place = shown.access.place
    shown.access.refuse_insiders()
    if asked.detach:
        detach(shown, save, asked)
        return
    for _ in range(TRIES_MAX):
        try:
            joining.join(shown.access, save)
            return
        except OwnerGone:
            pass
        try:
            own(place, Wish(shown.file, save, asked.size_max, asked.words, asked.stay, asked.sync))
            return
        except NotOwner:
            time.sleep(TRY_AGAIN_S)
    hint = "plan doctor looks at it; plan down --force ends it"
    raise Halt(Exit.TIMEOUT, f"a process holds {place.name} but does not answer", hint)


def _agreed(shown: Shown, asked: Asked) -> FileSave:
    """The save to apply, once nothing is against it. Raises Halt."""
    faults = [*shown.answer["faults"], *shown.answer["stops"]]
    if faults:
        raise refusal({"faults": faults})
    return replace(shown.save, is_approved=asked.yes or confirmed(shown))


def look(path: Path, asked: Asked, *, is_run: bool = False) -> Shown:
    """The preview of the file with the options that change what is applied. Raises Halt, see `compiling.required`."""
    file = compiling.required(path, size_max=asked.size_max, is_run=is_run, model=asked.model)
    return previewing.preview_of(file, targets=asked.targets, excludes=asked.excludes)


def dry_run(path: Path, asked: Asked) -> None:
    """`plan diff` by another name. Raises Halt FAILED when there are differences."""
    shown = look(path, asked)
    previewing.show(shown, None)
    if shown.answer["faults"]:
        raise refusal(shown.answer)
    if previewing.has_changes(shown):
        raise Halt(Exit.FAILED)


def confirmed(shown: Shown) -> bool:
    """Asks before running work is lost; without a terminal nobody is asked, and the gate's holds stand."""
    lost = [one for one in shown.answer["differences"] if is_loss(one)]
    if not lost and not shown.answer["hold"]:
        return False
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    previewing.show(shown, None)
    if not click.confirm("Go on?", default=False):
        raise Halt(Exit.CANCELLED, "nothing was changed", f"plan apply {shown.file.path} --yes does not ask")
    return True


def is_loss(difference: JsonObject) -> bool:
    """Whether running work would be thrown away."""
    stake = difference.get("stake") or {}
    return difference["action"] in ("cancel", "replace", "restart") and _is_at_work(stake)


def _is_at_work(stake: JsonObject) -> bool:
    state = stake.get("state")
    return state in ("running", "checking") or (state == "blocked" and stake.get("started_at") is not None)


def own(place: Place, wish: Wish) -> None:
    """Owns the plan until it is over. Raises NotOwner when somebody else does, Halt with how it ended."""
    anyio.run(_own, place, wish)


async def _own(place: Place, wish: Wish) -> None:
    async with wiring.opened(place) as core:
        screen = screen_for_stdout()

        def leave(how: Leaving) -> NoReturn:
            if how is Leaving.HANDED_OVER:
                if said := parting.going_on(core.store.view.list("container")):
                    click.echo(said)
                _hand_over(wish)
            leave_at_once(core.store.view, place.name, going_on.command(place))

        owning = Owning(core, wish, screen, leave)
        end(await owning.run(), core.store.view, place, is_cleared=owning.is_cleared)


def end(leaving: Leaving, view: View, place: Place, *, is_cleared: bool = True) -> None:
    """Print how the plan ended. Raises Halt unless it is done and all containers that are not needed are gone."""
    if leaving is Leaving.DOWN:
        click.echo(f"{place.name} was stopped by plan down; {going_on.command(place)} goes on from here")
        raise Halt(Exit.CANCELLED)
    click.echo(hosting.summary(view, place.name))
    code = hosting.ending_of(view)
    if code is not Exit.DONE:
        raise Halt(code, "", _next_after(view, place))
    if not is_cleared:
        raise Halt(Exit.FAILED, "", "plan down removes what is left of its containers")


def _next_after(view: View, place: Place) -> str:
    """What gets further after an end that nobody wanted."""
    flag = going_on.flag(place)
    failed = [task.address for task in view.list("task") if task.state == "failed" and task.address != hosting.ROOT]
    if not failed:
        return _next_for_root(view, place)
    what = " ".join(failed) if len(failed) <= NAMED_MAX else "."
    again = f"{what}{flag}, then {going_on.command(place)}: tries what failed again"
    named = f"{failed[0]}{flag}"
    return f"plan describe {named} · plan logs {named}\nplan resume {again}"


def _next_for_root(view: View, place: Place) -> str:
    """The same when no task below it failed, so that it is the plan as a whole that did not get there."""
    root, flag = view.get(hosting.ROOT), going_on.flag(place)
    if root is None or root.state != TaskState.FAILED:
        return f"plan tree{flag}"
    failed = [one for one in view.list("container") if one.state == ContainerState.FAILED]
    if not failed:
        again = f".{flag}, then {going_on.command(place)}: tries it again"
        return f"plan describe .{flag} · plan logs .{flag}\nplan resume {again}"
    # Of a plan that is the run of its containers, the one that failed first says more than the plan itself.
    own = [one for one in failed if not _failed_for_need(one)] or failed
    first = min(own, key=_failed_at)
    cure = containers.cure(first)
    named = f"{first.address}{flag}"
    way = f"plan describe {named} · plan logs {named}\n{going_on.command(place)} tries it again"
    return way if cure.startswith("plan ") or not cure else f"{cure}\n{way}"


def _failed_at(container: Resource) -> float:
    ready = of_status(container.status).get("Ready")
    return 0.0 if ready is None else ready.since


def _failed_for_need(container: Resource) -> bool:
    ready = of_status(container.status).get("Ready")
    return ready is not None and ready.reason == NEED_FAILED


def leave_at_once(view: View, name: str, command: str) -> NoReturn:
    """Ends the process as a crash would, but politely: what runs goes on, and the next owner takes it over.

    `command` is what goes on with what people call `name`.
    """
    with suppress(BrokenPipeError):  # Whoever read along may have gone first, as `| head` does.
        click.echo(f"\nleft {name} at rev {view.rev}\n{_left_running(view, command)}")
        sys.stdout.flush()
    os._exit(Exit.CANCELLED)


def _left_running(view: View, command: str) -> str:
    calls = [call for call in view.list("call") if call.state == "Started"]
    going_on = parting.going_on(view.list("container"))
    if not calls and going_on:
        return f"{going_on}\nnext: {command} goes on"
    if not calls:
        return f"nothing goes on running; {command} goes on from here"
    owners = ", ".join(dict.fromkeys(str(call.spec["owner"]) for call in calls))
    verb = "goes" if len(calls) == 1 else "go"
    goes_on = f"{amounts.plural(len(calls), 'command')} {verb} on running: {owners}; nothing new starts"
    goes_on += f"\n{going_on}" if going_on else ""
    return f"{goes_on}\nnext: {command} goes on · plan down stops them"


def _hand_over(wish: Wish) -> NoReturn:
    """Becomes the command that starts a background owner; the lock goes with this program's end."""
    sys.stdout.flush()
    command = wiring.command_line("apply", str(wish.file.path), "--detach", "--yes", *wish.words)
    os.execv(command[0], command)


def detach(shown: Shown, save: FileSave | None, asked: Asked) -> None:
    """Leaves an owner in the background, or sends the file to the one there is."""
    place = shown.access.place
    try:
        if save is None:
            OwnerClient(place.folder).get("status")
        else:
            patching.say(OwnerClient(place.folder).post("file", save_to_json(save)), place.name)
    except OwnerGone:
        is_approved = save is not None and save.is_approved
        _start_owner(place, shown.file.path, ("--yes", *asked.words) if is_approved else asked.words)
    status = OwnerClient(place.folder).get("status")
    click.echo(f"{place.name} runs in the background, process {status['pid']}, rev {status['rev']}")
    click.echo("next: plan get · plan events -w · plan down ends it: until then it follows the file")


def _start_owner(place: Place, path: Path, words: Sequence[str]) -> None:
    folders.make(place.folder)
    with open(place.folder / LOG, "ab", opener=folders.opener) as log:
        owner = subprocess.Popen(
            wiring.command_line("apply", str(path.absolute()), "--stay", *words),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            OwnerClient(place.folder).get("status")
            return
        except OwnerGone:
            pass
        if owner.poll() is not None:
            said = (place.folder / LOG).read_text().strip().splitlines()[-5:]
            raise Halt(Exit.FAILED, "the owner ended at once\n" + "\n".join(said), f"plan apply {path} shows more")
        time.sleep(0.02)
    raise Halt(Exit.TIMEOUT, f"the owner did not answer within {START_S:.0f} s", f"look into {place.folder / LOG}")


def save_preview(path: Path, out: Path, asked: Asked) -> None:
    """Writes the preview to a file that `--plan-file` applies."""
    shown = look(path, asked)
    previewing.show(shown, None)
    if shown.answer["faults"]:
        raise refusal(shown.answer)
    out.write_bytes(encode({"file": str(path.absolute()), "preview": previewing.saved_form(shown)}))
    click.echo(f"saved to {out}; next: plan apply --plan-file {out}")


def apply_saved(path: Path, asked: Asked) -> None:
    """Applies a saved preview and nothing else, unless the plan has moved since, then follows the run."""
    try:
        saved = decode(compiling.content_of(path, PREVIEW_BYTES_MAX))
        file = Path(saved["file"])
        body = {"preview": saved["preview"], "is_approved": asked.yes}
    except (ValueError, KeyError, TypeError):
        raise Halt(Exit.USAGE, f"{path} is no saved preview", "plan apply FILE --out PREVIEW makes one") from None
    going_on.refuse_run(file)
    shown = look(file, asked)
    verdict = shown.access.post("saved", body)
    patching.say(verdict, shown.access.place.name)
    apply(file, replace(asked, as_is=True))
