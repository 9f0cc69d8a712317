"""`plan logs`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import click

from planloop.app import pointing
from planloop.app.access import Access
from planloop.app.client import OwnerGone
from planloop.app.exits import Exit, Halt
from planloop.app.following import Following, Heard, all_records
from planloop.cli.completing import names
from planloop.cli.options import access_to, output_option, plan_option
from planloop.cli.rendering import printing, records
from planloop.cli.rendering.transcripts import Transcript
from planloop.schemas.encoding import JsonObject, encode
from planloop.schemas.frozen import frozen
from planloop.schemas.record import Record
from planloop.schemas.resource import Resource
from planloop.schemas.task import ENDED

EXAMPLE = """
\b
Examples:
  plan logs task/build                 what its command printed, and its agent's transcript
  plan logs agent/reviewer             turn by turn: told, said, called, and what came of it
  plan logs agent/reviewer -f          go on as it comes, while the model writes
  plan logs agent/reviewer --prompt    the system prompt of its last turn, as the model was sent it
  plan logs agent/reviewer -o json     one JSON item a line: turns, replies, calls, results
  plan logs task/build --check 1       the output of its second acceptance check
  plan logs mcp/files                  what became of a tool server, and what it printed about itself
  plan logs container/redis -f         what a container writes, until it ends for good
  plan logs container/redis --tail 20  its newest 20 lines
"""
LOGGED = frozenset(("task", "agent", "call", "mcp", "container"))  # Kinds that print something, or take turns.
SHOWN = ("call.", "message.", "check.ran", "task.changed", "server.")  # Of a task, and of who it belongs to.


@frozen
class Source:
    """Whose records are shown: a task and the agent that does its work; `is_agent` leaves the task's own out."""

    task: str
    agent: str
    transcript: Transcript
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
    shell_complete=names("task", "agent", "call", "mcp", "container"),
)
@plan_option
@click.option("-f", "--follow", is_flag=True, help="Go on as it comes, until the task or the container ends.")
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="Only the newest so many lines.")
@click.option("--check", metavar="N", help="Only the output of this acceptance check, counted from 0.")
@click.option("--prompt", is_flag=True, help="Only the system prompt that an agent's model was sent.")
@click.option("--turn", type=click.IntRange(min=1), metavar="N", help="With --prompt: of this turn, not the last one.")
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
    """Show outputs of commands and containers, and transcripts of agents.

    With `-o json` a transcript is one JSON object a line, whole texts included: an `Item` of the API's description.
    """
    access = access_to(plan)
    item = access.object(pointing.address_of(what))
    if turn is not None and not prompt:
        raise Halt(Exit.USAGE, "--turn is for --prompt", f"plan logs {item.address} --prompt --turn {turn}")
    if prompt:
        _print_prompt(access, item, turn, output)
        return
    if output == "json":
        from planloop.cli import log_items

        log_items.show(access, item, tail=tail, is_followed=follow, is_check=check is not None)
        return
    if item.kind not in LOGGED:
        hint = f"plan describe {item.address} · plan events {item.address}"
        raise Halt(Exit.USAGE, f"{item.address} has no output and no transcript", hint)
    if check is not None:
        _print_check(access, item, check)
    elif item.kind == "container":
        from planloop.cli import container_logs

        container_logs.show(access, item, tail=tail, is_followed=follow)
    elif item.kind == "mcp":
        printing.lines(_newest(_of_server(access, item), tail))
    else:
        _show(access, item, tail, is_followed=follow)


def _print_prompt(access: Access, item: Resource, turn: int | None, output: str | None) -> None:
    """The system prompt of an agent, or of the one that does a task, as a text or a JSON object."""
    if item.kind not in ("task", "agent"):
        raise Halt(Exit.USAGE, f"{item.address} has no prompt", "plan logs agent/NAME --prompt")
    path = item.address.partition("/")[2]
    query: dict[str, int] = {} if turn is None else {"turn": turn}
    found = access.get(f"prompt/{'~' if path == '.' else path}", **query)
    assert isinstance(found, dict)
    if output == "json":
        click.echo(encode(found).decode())
        return
    run = f" of run {found['run']}" if found["run"] > 1 else ""
    printing.note(f"{found['agent']}, turn {found['turn']}{run}, {found['model']}, rev {found['rev']}")
    click.echo(found["text"])


def _show(access: Access, item: Resource, tail: int | None, *, is_followed: bool) -> None:
    """What a task, an agent or a call has printed and said, and what it goes on with."""
    path = item.address.partition("/")[2]
    source = Source(f"task/{path}", f"agent/{path}", Transcript(f"agent/{path}"), item.kind == "agent")
    following = Following(access) if is_followed else None
    past = (line for record in all_records(access) for line in _lines(access, source, record, item.address))
    live = {op: access.output(op) for op in _live_ops(access, source)}
    if tail is None:
        printing.lines(past)
        for text, _ in live.values():
            click.echo(text, nl=False)
    else:
        printing.lines(_newest([*past, *(line for text, _ in live.values() for line in text.splitlines())], tail))
    if following is not None:
        _follow(access, following, source, {op: end for op, (_, end) in live.items()})


def _newest(lines: Iterable[str], tail: int | None) -> Iterable[str]:
    return lines if tail is None else deque(lines, maxlen=tail)


def _print_check(access: Access, item: Resource, check: str) -> None:
    found = (item.status.get("checks") or {}).get(check)
    if found is None:
        known = ", ".join((item.status.get("checks") or {}).keys()) or "none has run"
        raise Halt(Exit.NOT_FOUND, f"{item.address} has no result of check {check}", f"checks with results: {known}")
    click.echo(f"{found.get('result')}: {found.get('message', '')}", err=True)
    if found.get("blob"):
        click.echo(access.text(str(found["blob"])), nl=False)


def _lines(access: Access, source: Source, record: Record, address: str) -> Iterator[str]:
    """Those of the transcript, or a record of the task, or of the very object at `address`."""
    lines = source.transcript.take(record)
    yield from lines
    if lines:
        return
    for step in records.parted(record):
        if source.covers(step) or (step.draft.subject == address and address.startswith("call/")):
            yield records.line(step)
            yield from (f"          {line}" for line in _output_of(access, step.draft.data))


def _of_server(access: Access, item: Resource) -> Iterator[str]:
    """What became of a tool server, then what it printed about itself."""
    for record in all_records(access):
        if record.draft.subject == item.address and record.draft.type.startswith(SHOWN):
            yield records.line(record)
    yield from access.output(item.address.replace("/", "-"))[0].splitlines()


def _output_of(access: Access, data: JsonObject) -> Iterator[str]:
    result = data.get("result") if isinstance(data.get("result"), dict) else data
    assert isinstance(result, dict)
    blob = result.get("blob")
    text = access.text(str(blob)) if blob else result.get("text") or data.get("text") or ""
    yield from str(text).splitlines()


def _live_ops(access: Access, source: Source) -> list[str]:
    calls = [one for one in access.objects("call") if one.spec.get("owner") in (source.task, source.agent)]
    return [str(one.spec["op"]) for one in calls if one.state == "Started"]


def _print_live(access: Access, op: str, after: int) -> int:
    text, end = access.output(op, after)
    click.echo(text, nl=False)
    return end


def _follow(access: Access, following: Following, source: Source, shown: dict[str, int]) -> None:
    """Records as they come. The output of a running command is asked for whenever anything in the plan moves.

    `shown` is how much of each is printed already.
    """
    writing = False
    try:
        for step in following.steps_and_words():
            if isinstance(step, Heard):
                if step.agent == source.agent:
                    click.echo(step.text if writing else f"      {step.text}", nl=False)
                    writing = True
                continue
            for op in list(shown):
                shown[op] = _print_live(access, op, shown[op])
            if writing and any(one.subject == source.agent for one in step.record.draft.entries):
                click.echo()
                writing = False
            printing.lines(_lines(access, source, step.record, ""))
            task = following.view.get(source.task)
            if task is None or task.state in ENDED:
                return
    except OwnerGone:
        return
