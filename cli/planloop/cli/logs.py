"""`plan logs`: outputs of commands and containers, and transcripts of agents."""

from __future__ import annotations

import codecs
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import aclosing, closing
from typing import Final

import click

from planloop.cli.options import client_of_plan, complete_addresses, output_option, plan_option
from planloop.client import references
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.owner_client import OwnerGone
from planloop.client.plan_client import PlanClient
from planloop.client.plan_follower import ModelText, PlanFollower, read_records
from planloop.client.presenters import conversation
from planloop.client.render import containers, printer, records
from planloop.client.render.transcripts import AgentTranscript
from planloop.client.tail_file import TailFile
from planloop.reconciler.store import owner_lock, state_files
from planloop.schemas.canonical_json import JsonObject, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.log.record import Record
from planloop.schemas.objects.container import OVER
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource

# `plan logs -o json`: the transcript of an agent, or of a task and its agent, one JSON item a line.


class _Items:
    """The items of one agent, and of its task unless `is_agent`, from each record as it comes."""

    def __init__(self, access: PlanClient, path: str, *, is_agent: bool) -> None:
        self._access = access
        self._agent = f"agent/{path}"
        self._task = "" if is_agent else f"task/{path}"
        self._letters: dict[str, JsonObject] = {}

    def of(self, record: Record) -> Iterator[JsonObject]:
        """What the record adds. Outputs that are blobs in the log are whole."""
        found = list(conversation.agent_items(record, self._agent, self._letters))
        if self._task:
            found += conversation.task_items(record, self._task)
        for item in found:
            yield {**item, "text": self._access.text(str(item["blob"]))} if item.get("blob") else item


def print_items(access: PlanClient, item: Resource, *, tail: int | None, is_followed: bool, is_check: bool) -> None:
    """Prints the items. Raises CommandError for what has no transcript."""
    if is_check or item.kind not in ("task", "agent"):
        what = "the output of a check" if is_check else item.address
        raise CommandError(
            ExitCode.USAGE,
            f"{what} is available as text only",
            f"plan get {item.address} -o json · plan events -o json",
        )
    path = item.address.partition("/")[2]
    items = _Items(access, path, is_agent=item.kind == "agent")
    following = PlanFollower(access) if is_followed else None
    past = (one for record in read_records(access) for one in items.of(record))
    _print_items(past if tail is None else deque(past, maxlen=tail))
    if following is not None:
        _follow_items(following, items, f"task/{path}")


def _follow_items(following: PlanFollower, items: _Items, task: str) -> None:
    try:
        for step in following.steps():
            _print_items(items.of(step.record))
            now = following.view.get(task)
            if now is None or now.state in ENDED:
                return
    except OwnerGone:
        return


def _print_items(items: Iterable[JsonObject]) -> None:
    for item in items:
        click.echo(encode(item).decode())


EXAMPLE = """
\b
Examples:
  plan logs task/build                 the output of its command, and its agent's transcript
  plan logs agent/reviewer             turn by turn: input, replies, calls and results
  plan logs agent/reviewer -f          follow, also while the model writes
  plan logs agent/reviewer --prompt    the system prompt of its last turn, as sent to the model
  plan logs agent/reviewer -o json     one JSON item per line: turns, replies, calls, results
  plan logs task/build --check 1       the output of its second acceptance check
  plan logs mcp/files                  the history of a tool server, and its own output
  plan logs container/redis -f         follow the output of a container until it ends
  plan logs container/redis --tail 20  its last 20 lines
"""
LOGGED = frozenset(("task", "agent", "call", "mcp", "container"))  # Kinds that print something, or take turns.
SHOWN = ("call.", "message.", "check.ran", "task.changed", "server.")  # Of a task, and of who it belongs to.


@frozen
class LogSource:
    """Whose records are shown: a task and the agent that does its work; `is_agent` leaves the task's own out."""

    task: str
    agent: str
    transcript: AgentTranscript
    is_agent: bool = False

    def covers(self, record: Record) -> bool:
        """Whether a record is about the task, and not one of the transcript."""
        draft = record.draft
        if self.is_agent or not draft.type.startswith(SHOWN) or draft.type in records.QUIET or records.is_echo(draft):
            return False
        return draft.subject in (self.task, self.agent)


@click.command(epilog=EXAMPLE)
@click.argument(
    "what",
    metavar="TASK | AGENT | CALL | SERVER | CONTAINER",
    shell_complete=complete_addresses("task", "agent", "call", "mcp", "container"),
)
@plan_option
@click.option("-f", "--follow", is_flag=True, help="Follow until the task or the container ends.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the last N lines.")
@click.option("--check", metavar="N", help="Only the output of this acceptance check, counted from 0.")
@click.option("--prompt", is_flag=True, help="Only the system prompt that was sent to the agent's model.")
@click.option(
    "--turn", type=click.IntRange(min=1), metavar="N", help="With --prompt: of this turn instead of the last."
)
@output_option("json")
def command(
    what: str,
    plan: str | None,
    follow: bool,
    tail: int | None,
    check: str | None,
    prompt: bool,
    turn: int | None,
    output: str | None,
) -> None:
    """Show the output of commands and containers, and transcripts of agents.

    With `-o json` a transcript is one JSON object per line, with complete texts: an `Item` of the API.
    """
    access = client_of_plan(plan)
    item = access.object(references.resolve_address(what))
    if turn is not None and not prompt:
        raise CommandError(
            ExitCode.USAGE, "--turn requires --prompt", f"plan logs {item.address} --prompt --turn {turn}"
        )
    if prompt:
        _print_prompt(access, item, turn, output)
        return
    if output == "json":
        print_items(access, item, tail=tail, is_followed=follow, is_check=check is not None)
        return
    if item.kind not in LOGGED:
        hint = f"plan describe {item.address} · plan events {item.address}"
        raise CommandError(ExitCode.USAGE, f"{item.address} has no output and no transcript", hint)
    if check is not None:
        _print_check(access, item, check)
    elif item.kind == "container":
        print_container_logs(access, item, tail=tail, is_followed=follow)
    elif item.kind == "mcp":
        printer.print_lines(_newest(_of_server(access, item), tail))
    else:
        _show(access, item, tail, is_followed=follow)


def _print_prompt(access: PlanClient, item: Resource, turn: int | None, output: str | None) -> None:
    """The system prompt of an agent, or of the one that does a task, as a text or a JSON object."""
    if item.kind not in ("task", "agent"):
        raise CommandError(ExitCode.USAGE, f"{item.address} has no prompt", "plan logs agent/NAME --prompt")
    path = item.address.partition("/")[2]
    query: dict[str, int] = {} if turn is None else {"turn": turn}
    found = access.get(f"prompt/{'~' if path == '.' else path}", **query)
    assert isinstance(found, dict)
    if output == "json":
        click.echo(encode(found).decode())
        return
    run = f" of run {found['run']}" if found["run"] > 1 else ""
    printer.print_note(f"{found['agent']}, turn {found['turn']}{run}, {found['model']}, rev {found['rev']}")
    click.echo(found["text"])


def _show(access: PlanClient, item: Resource, tail: int | None, *, is_followed: bool) -> None:
    """Print the output and transcript of a task, an agent or a call, and follow it."""
    path = item.address.partition("/")[2]
    source = LogSource(f"task/{path}", f"agent/{path}", AgentTranscript(f"agent/{path}"), item.kind == "agent")
    following = PlanFollower(access) if is_followed else None
    past = (line for record in read_records(access) for line in _lines(access, source, record, item.address))
    live = {op: access.output(op) for op in _live_ops(access, source)}
    if tail is None:
        printer.print_lines(past)
        for text, _ in live.values():
            click.echo(text, nl=False)
    else:
        printer.print_lines(_newest([*past, *(line for text, _ in live.values() for line in text.splitlines())], tail))
    if following is not None:
        _follow(access, following, source, {op: end for op, (_, end) in live.items()})


def _newest(lines: Iterable[str], tail: int | None) -> Iterable[str]:
    return lines if tail is None else deque(lines, maxlen=tail)


def _print_check(access: PlanClient, item: Resource, check: str) -> None:
    found = (item.status.get("checks") or {}).get(check)
    if found is None:
        known = ", ".join((item.status.get("checks") or {}).keys()) or "none yet"
        raise CommandError(
            ExitCode.NOT_FOUND, f"{item.address} has no result of check {check}", f"checks with results: {known}"
        )
    click.echo(f"{found.get('result')}: {found.get('message', '')}", err=True)
    if found.get("blob"):
        click.echo(access.text(str(found["blob"])), nl=False)


def _lines(access: PlanClient, source: LogSource, record: Record, address: str) -> Iterator[str]:
    """Those of the transcript, or a record of the task, or of the very object at `address`."""
    lines = source.transcript.take(record)
    yield from lines
    if lines:
        return
    for step in records.expand_record(record):
        if source.covers(step) or (step.draft.subject == address and address.startswith("call/")):
            yield records.record_line(step)
            yield from (f"          {line}" for line in _output_of(access, step.draft.data))


def _of_server(access: PlanClient, item: Resource) -> Iterator[str]:
    """Yield the records of a tool server, then its own output."""
    for record in read_records(access):
        if record.draft.subject == item.address and record.draft.type.startswith(SHOWN):
            yield records.record_line(record)
    yield from access.output(item.address.replace("/", "-"))[0].splitlines()


def _output_of(access: PlanClient, data: JsonObject) -> Iterator[str]:
    result = data.get("result") if isinstance(data.get("result"), dict) else data
    assert isinstance(result, dict)
    blob = result.get("blob")
    text = access.text(str(blob)) if blob else result.get("text") or data.get("text") or ""
    yield from str(text).splitlines()


def _live_ops(access: PlanClient, source: LogSource) -> list[str]:
    calls = [one for one in access.objects("call") if one.spec.get("owner") in (source.task, source.agent)]
    return [str(one.spec["op"]) for one in calls if one.state == "Started"]


def _print_live(access: PlanClient, op: str, after: int) -> int:
    text, end = access.output(op, after)
    click.echo(text, nl=False)
    return end


def _follow(access: PlanClient, following: PlanFollower, source: LogSource, shown: dict[str, int]) -> None:
    """Print new records. The output of running commands is read after every change of the plan.

    `shown` is how much of each output was printed already.
    """
    writing = False
    try:
        for step in following.steps_and_words():
            if isinstance(step, ModelText):
                if step.agent == source.agent:
                    click.echo(step.text if writing else f"      {step.text}", nl=False)
                    writing = True
                continue
            for op in list(shown):
                shown[op] = _print_live(access, op, shown[op])
            if writing and any(one.subject == source.agent for one in step.record.draft.entries):
                click.echo()
                writing = False
            printer.print_lines(_lines(access, source, step.record, ""))
            task = following.view.get(source.task)
            if task is None or task.state in ENDED:
                return
    except OwnerGone:
        return


# What a container writes: `plan logs container/x`.
#
# While an owner runs the plan, the output is in a file that the owner keeps. Without an owner, the engine is asked for
# it; what the engine no longer has is in a blob of the log.

LOOK_S: Final = 0.2
LOOKS_A_STATE: Final = 5  # The file is looked at this often for each look at the state.


def print_container_logs(access: PlanClient, item: Resource, *, tail: int | None, is_followed: bool) -> None:
    """Print the last `tail` lines of the container's last run, and follow its output."""
    if not access.is_owned() and _has_printed_from_engine(access, item, tail=tail, is_followed=is_followed):
        return
    path = state_files.run_folder(access.place.folder) / f"{item.address.replace('/', '-')}.out"
    with closing(TailFile(path, item.spec["logs_bytes"])) as writing:
        said = writing.more() or _kept_output(access, item)
        _print_newest(said, tail)
        if is_followed and (said or access.is_owned()):
            _follow_container(access, item, writing)
        elif not said:
            printer.print_note(f"{item.address} has no output; it is {containers.container_state(item)}")
            printer.print_note(f"help: plan describe {item.address}")


def _kept_output(access: PlanClient, item: Resource) -> str:
    blob = item.status.get("log")
    return access.text(str(blob)) if blob else ""


def _print_newest(text: str, tail: int | None) -> None:
    if tail is not None:
        lines = text.splitlines(keepends=True)
        text = "".join(lines[len(lines) - min(tail, len(lines)) :])
    click.echo(text, nl=False)


def _follow_container(access: PlanClient, item: Resource, writing: TailFile) -> None:
    """Until it has ended and nothing starts it again, or its owner is gone."""
    looks = 0
    while True:
        click.echo(writing.more(), nl=False)
        sys.stdout.flush()
        if looks % LOOKS_A_STATE == 0:
            now = access.find(item.address)
            if now is None or now.uid != item.uid or now.state in OVER or not _is_owned(access):
                click.echo(writing.more(), nl=False)
                _tell_container_end(access, item)
                return
        looks += 1
        time.sleep(LOOK_S)


def _is_owned(access: PlanClient) -> bool:
    """Return whether there is an owner. One that is stopping no longer answers, but still writes."""
    return access.is_owned() or owner_lock.current_owner(access.place.folder) is not None


def _tell_container_end(access: PlanClient, item: Resource) -> None:
    """Print why the output ended."""
    now = access.find(item.address)
    if now is None:
        printer.print_note(f"{item.address} is no longer in the plan")
    elif now.uid != item.uid:
        printer.print_note(f"{item.address} was replaced by a new container; plan logs {item.address} -f follows it")
    elif now.state in OVER:
        printer.print_note(f"{item.address} is {containers.container_state(now)}: {containers.container_summary(now)}")
    else:
        said = f"the plan is no longer running; the last state of {item.address} was {containers.container_state(now)}"
        printer.print_note(f"{said}. To follow it further: plan logs {item.address} -f")


def _has_printed_from_engine(access: PlanClient, item: Resource, *, tail: int | None, is_followed: bool) -> bool:
    """Print the engine's output of the container; return False if it has none, or if the engine does not answer."""
    import anyio

    from planloop.containers.engine.engine import EngineFailed

    try:
        return anyio.run(_ask_engine, access, item, tail, is_followed)
    except EngineFailed:
        return False


async def _ask_engine(access: PlanClient, item: Resource, tail: int | None, is_followed: bool) -> bool:
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
    _print_newest(said if is_followed else said + text.decode(quiet.flush()), tail)
    if is_followed:
        left = len(past)
        async with aclosing(engine.logs(own.id)) as pieces:
            async for piece in pieces:
                click.echo(text.decode(quiet.feed(piece[left:])), nl=False)
                sys.stdout.flush()
                left = max(0, left - len(piece))
        click.echo(text.decode(quiet.flush()), nl=False)
        printer.print_note(f"{item.address} has ended, and the plan is not running; plan apply resumes the plan")
    return True
