"""Preview a plan file against the live plan, through the owner or from the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from planloop.client import plan_file, plan_paths, process, references
from planloop.client.error_report import violation_line
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.owner_client import OwnerClient, OwnerGone
from planloop.client.plan_client import PlanClient
from planloop.client.plan_file import PlanFile
from planloop.client.render import differences, printer
from planloop.client.render.records import short_path
from planloop.compiler.names import did_you_mean
from planloop.reconciler.diff.file_patch import FileSave
from planloop.reconciler.store import state_files
from planloop.schemas import json_pointer
from planloop.schemas.canonical_json import Json, JsonObject
from planloop.schemas.frozen import frozen
from planloop.schemas.limits import PLAN_FILE_BYTES_MAX
from planloop.schemas.log.patch import describe_author
from planloop.schemas.objects.container import container_from_json, missing_capabilities_line
from planloop.server.payloads import save_to_json

STARTED: Final = frozenset({"start", "replace", "restart"})
FOLDERS_SHOWN: Final = 5  # Of those that will be created.
STOPS_SHOWN: Final = 5  # What is in the file itself has been told at its line.


@frozen
class PlanFilePreview:
    """A preview with the file it is of. `answer` is the API's; `is_new` says that the plan has no state yet."""

    file: PlanFile
    save: FileSave
    access: PlanClient
    answer: JsonObject
    is_new: bool


def preview_path(
    path: Path,
    *,
    targets: Sequence[str] = (),
    excludes: Sequence[str] = (),
    model: str | None = None,
    max_size: int | None = None,
) -> PlanFilePreview:
    """Preview applying the file at `path`. Raises CommandError if it does not compile."""
    file = plan_file.require_compiled(path, size_max=max_size or PLAN_FILE_BYTES_MAX, model=model)
    return preview_plan_file(file, targets=targets, excludes=excludes)


def preview_plan_file(file: PlanFile, *, targets: Sequence[str] = (), excludes: Sequence[str] = ()) -> PlanFilePreview:
    """Preview applying a compiled file."""
    save = FileSave(
        path=file.path.name,
        content=file.content,
        document=file.document,
        targets=tuple(map(references.resolve_address, targets)),
        excludes=tuple(map(references.resolve_address, excludes)),
        checked=file.compiled,
    )
    place = plan_paths.paths_of_file(file.path, file.name)
    access = PlanClient(place)
    is_new = not state_files.has_log(place.folder)
    for address in (*save.targets, *save.excludes):
        _require_task(address, file, None if is_new else access)
    answer = _answer(access, save)
    found = answer["differences"]
    answer["notes"] = [*answer["notes"], *_new_folders(file, place.root, found), *_lesser_containers(file, found)]
    return PlanFilePreview(file, save, access, answer, is_new)


def _new_folders(file: PlanFile, root: Path, found: Sequence[JsonObject]) -> list[str]:
    """Return a note for each missing folder that is created when a task starts to work in it."""
    tasks: dict[str, list[str]] = {}
    for one in found:
        task = file.graph.objects.get(one["address"]) if one["action"] not in ("cancel", "none") else None
        cwd = "" if task is None or not one["address"].startswith("task/") else str(task.spec["cwd"])
        if cwd and task is not None and task.spec["work"]["kind"] != "group" and not (root / cwd).is_dir():
            tasks.setdefault(cwd, []).append(one["address"])
    notes = []
    for cwd, users in list(tasks.items())[:FOLDERS_SHOWN]:
        whose = users[0] if len(users) == 1 else f"{users[0]} or one of {len(users) - 1} more"
        notes.append(f"the folder `{cwd}` does not exist: it is created when {whose} starts")
    surplus = len(tasks) - FOLDERS_SHOWN
    return notes if surplus <= 0 else [*notes, f"and {surplus} more folders"]


def _lesser_containers(file: PlanFile, found: Sequence[JsonObject]) -> list[str]:
    """A note for each container whose image's own program is started without the capabilities that it may need."""
    notes = []
    for one in found:
        is_other = one["action"] in STARTED or not {"mounts", "cap_add", "cap_drop"}.isdisjoint(one["fields"])
        wanted = file.graph.objects.get(one["address"]) if is_other else None
        if wanted is None or not one["address"].startswith("container/"):
            continue
        spec = container_from_json(wanted.spec)
        is_own = spec.cmd is None and spec.entrypoint is None
        if (
            is_own
            and spec.written
            and not spec.cap_add
            and (lacking := missing_capabilities_line(one["address"], spec))
        ):
            notes.append(f"{one['address']} may write `{spec.written[0]}`, so it has no capabilities; {lacking}")
    return notes


def _require_task(address: str, file: PlanFile, access: PlanClient | None) -> None:
    """Raises CommandError unless `address` is a task of the file or of the live plan, if there is one."""
    if not address.startswith("task/"):
        raise CommandError(ExitCode.USAGE, f"{address} is not a task", "plan get tasks lists the tasks")
    if address in file.graph.objects:
        return
    if access is None:
        hint = did_you_mean(address, [known for known in file.graph.objects if known.startswith("task/")])
        raise CommandError(ExitCode.NOT_FOUND, f"no {address} in {file.path.name}", hint)
    access.object(address)


def _answer(access: PlanClient, save: FileSave) -> JsonObject:
    try:
        answer: JsonObject = access.ask("diff", save_to_json(save))
    except OwnerGone:
        from planloop.server.opened_plan import preview_without_owner

        answer = preview_without_owner(access.place, save)
    return answer


def saved_form(shown: PlanFilePreview) -> Json:
    """The preview in the form that a later apply takes exactly as it was shown."""
    try:
        return OwnerClient(shown.access.place.folder).ask("preview", save_to_json(shown.save))
    except OwnerGone:
        from planloop.server.opened_plan import gate_without_owner

        return gate_without_owner(shown.access.place).save_preview(shown.save)


def has_changes(shown: PlanFilePreview) -> bool:
    """Return whether applying would change anything, including notes of a protected task."""
    return shown.is_new or bool(shown.answer["ops"])


def print_preview(shown: PlanFilePreview, output: str | None) -> None:
    """Print the preview."""
    if output:
        printer.print_structured(shown.answer, output)
        return
    answer, name = shown.answer, shown.file.name
    state = "new; nothing is running" if shown.is_new else f"live at rev {answer['rev']}"
    if not shown.is_new and not shown.access.is_owned():
        state = f"at rev {answer['rev']}; nothing is running"
    click.echo(f"{name}  ({state})")
    found = answer["differences"]
    text = differences.differences_text(
        found, now=process.now(), width=printer.terminal_width()
    ) or differences.unchanged_text(found)
    if text:
        click.echo(f"\n{text}\n")
    is_more = any(one["action"] in differences.ADDED for one in answer["differences"])
    stake = differences.budget_words(shown.file.document.get("budget")) if is_more else ""
    summary = differences.differences_summary(answer["differences"]) + (f" · budget at stake: {stake}" if stake else "")
    refused = [*answer["faults"], *answer["stops"]]
    click.echo(f"plan apply refuses this file. With the errors fixed: {summary}" if refused else summary)
    for fault in answer["stops"][:STOPS_SHOWN]:
        click.echo(f"    {violation_line(fault)}")
    if len(answer["stops"]) > STOPS_SHOWN:
        click.echo(f"    and {len(answer['stops']) - STOPS_SHOWN} more")
    _show_foreign(shown)
    for note in answer["notes"]:
        click.echo(f"note: {note}")
    if answer["hold"]:
        click.echo(f"would be held: {answer['hold']}; plan apply --yes approves it")


def _show_foreign(shown: PlanFilePreview) -> None:
    """Print where the live plan differs from the file: what agents or other people added, changed or removed."""
    foreign, name = shown.answer["foreign"], shown.file.path.name
    if foreign:
        is_added = all(one["op"] == "add" for one in foreign)
        click.echo(f"in the live plan only, not in {name}:" if is_added else f"the live plan differs from {name}:")
        for one in foreign:
            at = short_path(json_pointer.parse_pointer(one["path"]))
            by = (
                f"by {describe_author(one['by'])}, rev {one['rev']}"
                if "by" in one
                else "removed from the live plan; an edit here adds it again"
            )
            click.echo(f"  {differences.EDITS[one['op']]} {at}   {by}")
        click.echo(f"    plan pull {name} writes {'them' if len(foreign) > 1 else 'it'} to the file")


def print_checks(shown: PlanFilePreview) -> None:
    """Run the acceptance checks of the file and print which pass now."""
    from planloop.cli import acceptance_checks

    known = [] if shown.is_new else shown.access.objects("container")
    found = acceptance_checks.check_plan_file(shown.access.place, shown.file, known)
    holding = sum(one.finding.result == "pass" for one in found)
    click.echo(f"checks now: {holding} of {len(found)} pass")
    for one in found:
        if one.finding.result != "pass":
            click.echo(f"    {one.address} check {one.key}: {one.finding.result}  {one.finding.message}")
