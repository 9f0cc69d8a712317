"""What `plan apply` does: preview the file, confirm, then own the plan or follow its owner.

`apply_plan` is the usual way. It sends the file to the process that owns the plan and follows the run from here; if no
process owns it, this one does. `--detach` starts an owner in the background, `--dry-run` and `--out` only preview, and
`--plan-file` applies a saved preview. The verb imports this module when it runs, so that `--help` stays fast.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

import anyio
import click

from planloop.cli import patch, preview
from planloop.cli.preview import PlanFilePreview
from planloop.cli.progress import screen_for_stdout
from planloop.client import plan_file, plan_paths, process
from planloop.client.error_report import refused_error
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.owner_client import OwnerClient, OwnerGone
from planloop.client.plan_client import PlanClient
from planloop.client.plan_follower import FollowedRecord, PlanFollower
from planloop.client.plan_paths import PlanPaths
from planloop.client.render import containers, printer
from planloop.owner import container_teardown, owner_process
from planloop.owner.owner_process import ExitReason, OwnerOptions, OwnerProcess
from planloop.owner.screen import ScreenKey
from planloop.reconciler.diff.file_patch import FileSave
from planloop.reconciler.errors import NotOwner
from planloop.reconciler.store import state_files
from planloop.reconciler.store.store import View
from planloop.schemas import quantities
from planloop.schemas.canonical_json import JsonObject, decode, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import PLAN_FILE_BYTES_MAX
from planloop.schemas.objects.container import NEED_FAILED, ContainerState
from planloop.schemas.objects.task import ENDED, TaskState
from planloop.schemas.resource import Resource, conditions_of_status
from planloop.server import opened_plan
from planloop.server.payloads import save_to_json

START_S: Final = 20.0  # The time in which a background owner must answer.
TRIES_MAX: Final = 100  # To join or own the plan while another owner starts or ends …
TRY_AGAIN_S: Final = 0.1  # … with this pause between them.
OWNER_LOG: Final = "owner.log"
NAMED_MAX: Final = 2  # More failed tasks than this are not named one by one.
PREVIEW_BYTES_MAX: Final = 64 << 20  # A preview holds the file, its document and the patch.


@frozen
class ApplyOptions:
    """The options of `plan apply` (see `plan apply --help`), and two that planloop itself uses.

    With `as_is` the live plan continues and the file is not applied. With `stay` the owner stays when the plan has
    ended.
    """

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
    def arguments(self) -> tuple[str, ...]:
        """The command-line arguments with which another owner continues in the same way."""
        arguments = ["--max-size", str(self.size_max)]
        arguments += ["--sync"] if self.sync else []
        arguments += ["--as-is"] if self.as_is else []
        arguments += ["--model", self.model] if self.model is not None else []
        arguments += [argument for target in self.targets for argument in ("--target", target)]
        arguments += [argument for exclude in self.excludes for argument in ("--exclude", exclude)]
        return tuple(arguments)


def apply_plan(path: Path, options: ApplyOptions) -> None:
    """Apply the plan file at `path` and follow the run to its end; with `detach`, return when an owner is running.

    Raises CommandError: USAGE for standard input or the plan of a benchmark run, INVALID if the file does not compile,
    `refused_error` if the gate refuses it, CANCELLED if the user declines or leaves, TIMEOUT if a process owns the plan
    but does not answer, and as `report_end` unless every task is done.
    """
    if path == plan_file.STDIN_NAME:
        raise CommandError(
            ExitCode.USAGE, "a plan cannot be applied from standard input", "save it to a file, then apply the file"
        )
    plan_paths.refuse_bench_plan(path)
    # With a target only part of the file runs, and the gate decides whether that part can run.
    shown = preview_file(path, options, is_run=not (options.targets or options.excludes or options.as_is))
    save = None if options.as_is else _confirmed_save(shown, options)
    place = shown.access.place
    shown.access.refuse_insiders()
    if options.detach:
        detach_owner(shown, save, options)
        return
    for _ in range(TRIES_MAX):
        try:
            join_owner(shown.access, save)
            return
        except OwnerGone:
            pass
        try:
            own_plan(
                place, OwnerOptions(shown.file, save, options.size_max, options.arguments, options.stay, options.sync)
            )
            return
        except NotOwner:
            time.sleep(TRY_AGAIN_S)
    hint = "plan doctor inspects it; plan down --force kills it"
    raise CommandError(ExitCode.TIMEOUT, f"a process owns {place.name} but does not answer", hint)


def _confirmed_save(shown: PlanFilePreview, options: ApplyOptions) -> FileSave:
    """The file to apply, after the gate and the user have accepted it. Raises CommandError if one of them refuses."""
    faults = [*shown.answer["faults"], *shown.answer["stops"]]
    if faults:
        raise refused_error({"faults": faults})
    return replace(shown.save, is_approved=options.yes or is_confirmed(shown))


def preview_file(path: Path, options: ApplyOptions, *, is_run: bool = False) -> PlanFilePreview:
    """Compile the file and preview it with the options that change what is applied.

    `is_run`: the whole file is going to run, so it must be runnable. Raises CommandError as
    `plan_file.require_compiled` does.
    """
    file = plan_file.require_compiled(path, size_max=options.size_max, is_run=is_run, model=options.model)
    return preview.preview_plan_file(file, targets=options.targets, excludes=options.excludes)


def dry_run(path: Path, options: ApplyOptions) -> None:
    """Print the preview, as `plan diff` does. Raises CommandError: FAILED if there are differences."""
    shown = preview_file(path, options)
    preview.print_preview(shown, None)
    if shown.answer["faults"]:
        raise refused_error(shown.answer)
    if preview.has_changes(shown):
        raise CommandError(ExitCode.FAILED)


def is_confirmed(shown: PlanFilePreview) -> bool:
    """Ask the user if the file would end running work or needs an approval; whether the user approved it.

    Without a terminal this is false, and the gate holds the file. Raises CommandError if the user declines.
    """
    lost = [one for one in shown.answer["differences"] if is_loss(one)]
    if not lost and not shown.answer["hold"]:
        return False
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    preview.print_preview(shown, None)
    if not click.confirm("Continue?", default=False):
        raise CommandError(
            ExitCode.CANCELLED, "nothing was changed", f"plan apply {shown.file.path} --yes skips this question"
        )
    return True


def is_loss(difference: JsonObject) -> bool:
    """Whether `difference` ends work that is running."""
    stake = difference.get("stake") or {}
    return difference["action"] in ("cancel", "replace", "restart") and _is_running(stake)


def _is_running(stake: JsonObject) -> bool:
    state = stake.get("state")
    return state in ("running", "checking") or (state == "blocked" and stake.get("started_at") is not None)


def own_plan(place: PlanPaths, owner_options: OwnerOptions) -> None:
    """Own the plan until it has ended. Raises NotOwner if another process owns it, CommandError as `report_end`."""
    anyio.run(_own_plan, place, owner_options)


async def _own_plan(place: PlanPaths, owner_options: OwnerOptions) -> None:
    async with opened_plan.open_plan(place) as core:
        screen = screen_for_stdout()

        def leave(how: ExitReason) -> NoReturn:
            if how is ExitReason.HANDED_OVER:
                if said := container_teardown.running_containers_note(core.store.view.list("container")):
                    click.echo(said)
                _hand_over(owner_options)
            leave_owner(core.store.view, place.name, plan_paths.command_to_resume(place))

        owning = OwnerProcess(core, owner_options, screen, leave)
        report_end(await owning.run(), core.store.view, place, is_cleared=owning.is_cleared)


def report_end(leaving: ExitReason, view: View, place: PlanPaths, *, is_cleared: bool = True) -> None:
    """Print how the plan ended. Raises CommandError unless it is done and its containers are removed.

    `is_cleared`: no container is left that is not needed any more.
    """
    if leaving is ExitReason.DOWN:
        click.echo(f"{place.name} was stopped by plan down; {plan_paths.command_to_resume(place)} resumes it")
        raise CommandError(ExitCode.CANCELLED)
    click.echo(owner_process.plan_summary(view, place.name))
    code = owner_process.exit_code_of_plan(view)
    if code is not ExitCode.DONE:
        raise CommandError(code, "", _next_after(view, place))
    if not is_cleared:
        raise CommandError(ExitCode.FAILED, "", "plan down removes the remaining containers")


def _next_after(view: View, place: PlanPaths) -> str:
    """The commands that help after a plan has failed: one line to find the reason, one to try again."""
    flag = plan_paths.plan_flag(place)
    failed = [
        task.address for task in view.list("task") if task.state == "failed" and task.address != owner_process.ROOT_TASK
    ]
    if not failed:
        return _next_for_root(view, place)
    what = " ".join(failed) if len(failed) <= NAMED_MAX else "."
    again = f"{what}{flag}, then {plan_paths.command_to_resume(place)}: retries what failed"
    named = f"{failed[0]}{flag}"
    return f"plan describe {named} · plan logs {named}\nplan resume {again}"


def _next_for_root(view: View, place: PlanPaths) -> str:
    """The same if no single task failed, but the plan as a whole."""
    root, flag = view.get(owner_process.ROOT_TASK), plan_paths.plan_flag(place)
    if root is None or root.state != TaskState.FAILED:
        return f"plan tree{flag}"
    failed = [one for one in view.list("container") if one.state == ContainerState.FAILED]
    if not failed:
        again = f".{flag}, then {plan_paths.command_to_resume(place)}: retries it"
        return f"plan describe .{flag} · plan logs .{flag}\nplan resume {again}"
    # In a plan that only runs containers, the first container that failed explains more than the plan.
    own = [one for one in failed if not _failed_for_need(one)] or failed
    first = min(own, key=_failed_at)
    cure = containers.container_fix(first)
    named = f"{first.address}{flag}"
    way = f"plan describe {named} · plan logs {named}\n{plan_paths.command_to_resume(place)} retries it"
    return way if cure.startswith("plan ") or not cure else f"{cure}\n{way}"


def _failed_at(container: Resource) -> float:
    ready = conditions_of_status(container.status).get("Ready")
    return 0.0 if ready is None else ready.since


def _failed_for_need(container: Resource) -> bool:
    ready = conditions_of_status(container.status).get("Ready")
    return ready is not None and ready.reason == NEED_FAILED


def leave_owner(view: View, name: str, command: str) -> NoReturn:
    """Print what keeps running, and exit without cleaning up: commands continue, and the next owner adopts them.

    `command` is the one that resumes the plan `name`.
    """
    with suppress(BrokenPipeError):  # The reader of the output may have ended first, as `| head` does.
        click.echo(f"\nDetached from plan `{name}` at revision {view.rev}.\n{_left_running(view, command)}")
        sys.stdout.flush()
    os._exit(ExitCode.CANCELLED)


def _left_running(view: View, command: str) -> str:
    calls = [call for call in view.list("call") if call.state == "Started"]
    going_on = container_teardown.running_containers_note(view.list("container"))
    if not calls and going_on:
        return f"{going_on}\nnext: {command} resumes the plan"
    if not calls:
        return f"No commands are running.\nnext: {command} resumes the plan"
    owners = ", ".join(dict.fromkeys(str(call.spec["owner"]) for call in calls))
    running = f"{quantities.pluralize(len(calls), 'command')} still running: {owners}. No new task starts."
    running += f"\n{going_on}" if going_on else ""
    return f"{running}\nnext: {command} resumes the plan · plan down stops the commands"


def _hand_over(owner_options: OwnerOptions) -> NoReturn:
    """Replace this process by a command that starts a background owner. That releases the owner's lock."""
    sys.stdout.flush()
    command = process.command_line("apply", str(owner_options.file.path), "--detach", "--yes", *owner_options.words)
    os.execv(command[0], command)


def detach_owner(shown: PlanFilePreview, save: FileSave | None, options: ApplyOptions) -> None:
    """Start an owner in the background, or send the file to the current owner."""
    place = shown.access.place
    try:
        if save is None:
            OwnerClient(place.folder).get("status")
        else:
            patch.print_verdict(OwnerClient(place.folder).post("file", save_to_json(save)), place.name)
    except OwnerGone:
        is_approved = save is not None and save.is_approved
        _start_owner(place, shown.file.path, ("--yes", *options.arguments) if is_approved else options.arguments)
    status = OwnerClient(place.folder).get("status")
    click.echo(f"{place.name} runs in the background, process {status['pid']}, rev {status['rev']}")
    click.echo("next: plan get · plan events -w · plan down stops it; until then it follows the file")


def _start_owner(place: PlanPaths, path: Path, words: Sequence[str]) -> None:
    state_files.make_folder(place.folder)
    with open(place.folder / OWNER_LOG, "ab", opener=state_files.private_opener) as log:
        owner = subprocess.Popen(
            process.command_line("apply", str(path.absolute()), "--stay", *words),
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
            said = (place.folder / OWNER_LOG).read_text().strip().splitlines()[-5:]
            raise CommandError(
                ExitCode.FAILED, "the owner exited immediately\n" + "\n".join(said), f"for details: plan apply {path}"
            )
        time.sleep(0.02)
    raise CommandError(
        ExitCode.TIMEOUT, f"the owner did not answer within {START_S:.0f} s", f"see {place.folder / OWNER_LOG}"
    )


def save_preview(path: Path, out: Path, options: ApplyOptions) -> None:
    """Save the preview to `out`, for `--plan-file`. Raises CommandError if the gate refuses the file."""
    shown = preview_file(path, options)
    preview.print_preview(shown, None)
    if shown.answer["faults"]:
        raise refused_error(shown.answer)
    out.write_bytes(encode({"file": str(path.absolute()), "preview": preview.saved_form(shown)}))
    click.echo(f"saved to {out}; next: plan apply --plan-file {out}")


def apply_saved(path: Path, options: ApplyOptions) -> None:
    """Apply a preview that `save_preview` wrote, then follow the run.

    Raises CommandError: USAGE if `path` is not such a file, and as `apply_plan`; also if the plan has changed since.
    """
    try:
        saved = decode(plan_file.read_content(path, PREVIEW_BYTES_MAX))
        file = Path(saved["file"])
        body = {"preview": saved["preview"], "is_approved": options.yes}
    except (ValueError, KeyError, TypeError):
        raise CommandError(
            ExitCode.USAGE, f"{path} is not a saved preview", "save one with: plan apply FILE --out PREVIEW"
        ) from None
    plan_paths.refuse_bench_plan(file)
    shown = preview_file(file, options)
    verdict = shown.access.post("saved", body)
    patch.print_verdict(verdict, shown.access.place.name)
    apply_plan(file, replace(options, as_is=True))


def join_owner(access: PlanClient, save: FileSave | None) -> None:
    """Send `save` (None: nothing) to the owner and follow the run until the plan ends.

    Raises OwnerGone if no process owns the plan, CommandError as `follow_owner`, and CANCELLED on Ctrl-C.
    """
    owner = OwnerClient(access.place.folder)
    status = owner.get("status")
    click.echo(f"process {status['pid']} runs {access.place.name}; this command follows it")
    if save is not None:
        _send(owner, save)
    try:
        follow_owner(access)
    except KeyboardInterrupt:
        click.echo(f"\nDetached. Plan `{access.place.name}` continues in process {status['pid']}.")
        raise CommandError(ExitCode.CANCELLED) from None


def _send(owner: OwnerClient, save: FileSave) -> None:
    verdict = owner.post("file", save_to_json(save))
    if verdict["verdict"] == "refused":
        raise refused_error(verdict)
    if verdict["verdict"] == "held":
        printer.print_note(f"held for approval: {verdict['why']}\nnext: plan approve {verdict['approval']}")


def follow_owner(access: PlanClient) -> None:
    """Show the run until it ends or the user leaves. Raises KeyboardInterrupt if the user leaves.

    Raises CommandError: FAILED if the owner has ended before the plan, otherwise as `report_end`.
    """
    following = PlanFollower(access)
    if anyio.run(_show_until_end, access, following):
        raise KeyboardInterrupt
    if not _has_ended(following):
        following = PlanFollower(access)  # An owner may exit before its last records are read.
    if not _has_ended(following):
        raise CommandError(
            ExitCode.FAILED, f"the owner of {access.place.name} has exited", "plan apply FILE resumes the plan"
        )
    report_end(ExitReason.FINISHED, following.view, access.place)


async def _show_until_end(access: PlanClient, following: PlanFollower) -> bool:
    """Show the run until it ends; returns whether the user left before."""
    has_left = False
    screen = screen_for_stdout()
    screen.begin(following.view, access.place.name)
    send, receive = anyio.create_memory_object_stream[FollowedRecord](1000)
    loop = asyncio.get_running_loop()

    def read() -> None:
        # A thread, because the client blocks; a daemon, so that Ctrl-C does not wait for the owner's next record.
        with suppress(RuntimeError, CancelledError):  # The event loop may end before the owner does.
            try:
                for step in following.steps():
                    _sent(send.send(step), loop)
            finally:
                loop.call_soon_threadsafe(send.close)

    def press(key: ScreenKey) -> None:
        nonlocal has_left
        if key is ScreenKey.HAND_OVER:
            has_left = True  # The owner is another process already.
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
    """Run `sending` on `loop` from another thread and wait for it. Raises RuntimeError if the loop is closed."""
    try:
        asyncio.run_coroutine_threadsafe(sending, loop).result()
    except RuntimeError:
        sending.close()
        raise


def _has_ended(following: PlanFollower) -> bool:
    root = following.view.get(owner_process.ROOT_TASK)
    return root is not None and root.state in ENDED
