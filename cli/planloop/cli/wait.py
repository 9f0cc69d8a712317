"""`plan wait`, and `-w` of other verbs: follow objects until they are done or the owner ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import click

from planloop.cli.options import client_of_plan, complete_addresses, plan_option
from planloop.client import plan_paths, references
from planloop.client.exit_codes import CommandError, ExitCode
from planloop.client.owner_client import OwnerGone
from planloop.client.plan_client import PlanClient
from planloop.client.plan_follower import PlanFollower
from planloop.client.render import object_tables, printer, tables
from planloop.schemas import quantities
from planloop.schemas.objects.task import ENDED
from planloop.schemas.resource import Resource, conditions_of_status

EXAMPLE = """
\b
Examples:
  plan wait                                         until the whole plan is done
  plan wait task/frontend task/backend              until both are done
  plan wait --any task/a task/b --timeout 2m        until one of them is done
  plan wait task/api --for condition=Accepted
"""

Condition = Callable[[Resource], bool]


@click.command(epilog=EXAMPLE)
@click.argument("what", nargs=-1, metavar="[KIND/NAME]...", shell_complete=complete_addresses())
@plan_option
@click.option("--for", "goal", default="done", show_default=True, metavar="done|failed|gone|condition=TYPE[=VALUE]")
@click.option("--any", "any_", is_flag=True, help="Return when one of them matches.")
@click.option(
    "--timeout", metavar="TIME", default=None, help="Stop waiting after this time, for example 90s, 10m or 2h: exit 9."
)
def command(what: tuple[str, ...], plan: str | None, goal: str, any_: bool, timeout: str | None) -> None:
    """Wait until tasks reach a state or a condition.

    Exit 1 immediately if this can no longer happen, for example if a task fails or is cancelled while you wait for
    `done`. Exit 9 on timeout.
    """
    access = client_of_plan(plan)
    addresses = [references.resolve_address(word) for word in what] or ["task/."]
    claim = parse_condition(goal)
    deadline = None if timeout is None else time.monotonic() + parse_seconds(timeout)
    for address in addresses:
        access.object(address)  # An unknown object is an error; it is not waited for.
    _wait(access, addresses, claim, goal, any if any_ else all, deadline)
    click.echo(f"{', '.join(addresses)}: {goal}")


def _wait(
    access: PlanClient,
    addresses: Sequence[str],
    claim: Condition,
    goal: str,
    enough: Callable[[list[bool]], bool],
    deadline: float | None,
) -> None:
    following = PlanFollower(access)

    def is_met() -> bool:
        return enough([_holds(following.view.get(address), claim, goal) for address in addresses])

    if is_met():
        return
    _stop_if_hopeless(following, addresses, goal, enough)
    try:
        for _ in following.steps(until=deadline):
            if is_met():
                return
            _stop_if_hopeless(following, addresses, goal, enough)
    except TimeoutError:
        late = f"timeout: not {goal}: {', '.join(addresses)}"
        raise CommandError(ExitCode.TIMEOUT, late, f"plan describe {addresses[0]}") from None
    except OwnerGone:
        pass
    raise not_running_error(access)


def _holds(item: Resource | None, claim: Condition, goal: str) -> bool:
    return goal == "gone" if item is None else claim(item)


def _stop_if_hopeless(
    following: PlanFollower, addresses: Sequence[str], goal: str, enough: Callable[[list[bool]], bool]
) -> None:
    """Raises CommandError when a state that ends all waiting was reached and is not the one that was waited for."""
    items = [following.view.get(address) for address in addresses]
    lost = [item is None or (item.state in ENDED and goal in ENDED and item.state != goal) for item in items]
    hopeless = any(lost) if enough is all else all(lost)
    if hopeless and goal != "gone":
        ended = [address for address, is_lost in zip(addresses, lost, strict=True) if is_lost]
        state = getattr(following.view.get(ended[0]), "state", "gone")
        raise CommandError(
            ExitCode.FAILED, f"{ended[0]} is {state}: it can no longer be {goal}", f"plan describe {ended[0]}"
        )


def parse_condition(goal: str) -> Condition:
    """The predicate that `--for` states. Raises CommandError."""
    name, _, value = goal.partition("=")
    if name in (*ENDED, "running", "paused", "blocked") and not value:
        return lambda item: item.state == name
    if name == "gone":
        return lambda _: False
    if name == "condition" and value:
        type_, _, wanted = value.partition("=")
        return lambda item: _condition_is(item, type_, wanted or "True")
    raise CommandError(
        ExitCode.USAGE, f"cannot wait for `{goal}`", "--for done, failed, cancelled, gone or condition=TYPE[=VALUE]"
    )


def _condition_is(item: Resource, type_: str, wanted: str) -> bool:
    found = conditions_of_status(item.status).get(type_)
    return found is not None and found.status.lower() == wanted.lower()


def parse_seconds(text: str) -> float:
    """`90`, `90s`, `10m`, `1h30m` in seconds. Raises CommandError."""
    found = quantities.parse_duration(f"{text}s" if text.isdecimal() else text)
    if found is None:
        raise CommandError(ExitCode.USAGE, f"`{text}` is not a time", "write 90s, 10m or 1h30m")
    return found


def not_running_error(access: PlanClient) -> CommandError:
    """The ending when something is to be followed and nothing runs."""
    hint = plan_paths.command_to_resume(access.place)
    return CommandError(ExitCode.NOT_FOUND, f"{access.place.name} is not running, so nothing will change", hint)


def print_changes(access: PlanClient, shown: Sequence[Resource], what: Sequence[str], output: str | None) -> None:
    """One line (or one JSON document) for each change of what was asked for."""
    seen: dict[str, str | None] = {item.address: _face(item) for item in shown}
    kinds = {kind for word in what if (kind := references.parse_kind(word))}
    single = {item.address for item in shown} if not kinds else set()
    following = PlanFollower(access)
    try:
        for step in following.steps():
            for address in step.changed:
                if address not in single and address.partition("/")[0] not in kinds and "all" not in what:
                    continue
                item = following.view.get(address)
                face = None if item is None else _face(item)
                if output in ("json", "yaml") and item is not None:
                    printer.print_structured(item.to_json(), output)
                elif seen.get(address) != face:
                    click.echo(f"{address}   gone" if item is None else _line(item, output))
                seen[address] = face
    except OwnerGone:
        raise not_running_error(access) from None


def _face(item: Resource) -> str:
    return (
        f"{item.uid} {object_tables.state_of(item)} {object_tables.checks_of(item)} {object_tables.state_reason(item)}"
    )


def _line(item: Resource, output: str | None) -> str:
    if output == "name":
        return item.address
    checks = object_tables.checks_of(item)
    parts = [
        item.address,
        object_tables.state_of(item),
        f"{checks} checks" if checks else "",
        object_tables.state_reason(item),
    ]
    line = tables.GAP.join(part for part in parts if part)
    width = printer.terminal_width()
    return line if width is None else quantities.truncate_cells(line, width)
